//! Speed of each drive's answers, and its consequences: late reads, slow drives, and reads of other fragments in the
//! place of late ones. (Hedged requests.)
//!
//! A read is late by what reads of that size take elsewhere; a write by what the other drives of its item took, since
//! all of them have the same to write at the same time.
//!
//! **Owns** each drive's queue of reads, the latencies, and the budget of extra reads. **Knows nothing of** fragments.
//!
//! # Invariants
//! - AS-HEDGE-1: extra reads are at most a twentieth of the reads that were asked for and [`BURST`], but for those in the
//!   place of slow drives' and of reads past their last deadline.
//! - AS-HEDGE-2: a drive has at most [`UNDER_WAY`] reads under way. Others wait for that drive alone, and who waits no
//!   more leaves its queue at once.
//! - AS-HEDGE-3: what is decided depends on the runtime's clock alone, so that a run can be replayed.

mod avoid;
mod eviction;
mod latency;
mod lateness;
mod race;

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, Lba};
use shingle_runtime::{Instant, Runtime};
use shingle_zoned::{DeviceError, DeviceErrorKind, DeviceResult, ZonedDevice};
use tokio::sync::Semaphore;

use crate::types::{DriveId, DriveSet};
use avoid::Avoidance;
pub(crate) use eviction::{LATE_COMMANDS_LEAST, Slow, slow_drives, too_slow};
use latency::{CLASSES, Latencies, class_of};
use lateness::{Change, Lateness, late_after};

/// Reads that a drive has under way: what the queues of disks hold, and a few more that the kernel can sort.
pub(crate) const UNDER_WAY: usize = 64;

/// Extra reads that may come at once.
pub(crate) const BURST: u32 = 32;

/// Reads for which one extra is allowed.
const READS_FOR_EXTRA: u32 = 20;

/// No read is late before: below it the operating system's own delays decide.
const LATE_LEAST: Duration = Duration::from_millis(5);

/// When a read is late, where too few were seen to tell.
const LATE_UNKNOWN: Duration = Duration::from_secs(1);

/// The last deadline is that many times the first, and [`LAST_LEAST`] at least.
const LAST_FACTOR: u32 = 8;
const LAST_LEAST: Duration = Duration::from_secs(1);

/// Reads after which deadlines are computed anew.
const REFRESH: u32 = 64;

/// A slow drive is asked again after that many times the deadline, to see whether it still is.
const PROBE_FACTOR: u32 = 16;

/// Writes that hold an item up, after which a drive is judged by them: each is a second and more.
const HELD_UP_LEAST: u32 = 8;

/// Late trials that it takes.
const TRIALS_LATE_LEAST: u32 = 3;

/// Answers of one drive.
struct Pace {
    id: DriveId,
    places: Arc<Semaphore>,
    latencies: RefCell<[Latencies; CLASSES]>,
    reads: Lateness,
    writes: Lateness,
    /// Its writes that held an item up, of all.
    holds_up: Lateness,
    avoided: Avoidance,
    probe: Cell<Probe>,
}

#[derive(Clone, Copy)]
enum Probe {
    /// The next may begin then.
    From(Instant),
    /// Since then.
    UnderWay(Instant),
}

/// Listener for the drives that are avoided.
type Heeds = Box<dyn Fn(DriveSet)>;

/// Answers of all drives of an array.
pub(crate) struct Paces {
    rt: Runtime,
    drives: RefCell<Vec<Rc<Pace>>>,
    /// By class: the deadline, and the reads recorded since it was computed.
    deadlines: [Cell<(Option<Duration>, u32)>; CLASSES],
    /// In parts of an extra read.
    budget: Cell<u32>,
    extra: Cell<u64>,
    /// Drives that new data keeps away from, and who hears that they change.
    avoided: Cell<DriveSet>,
    heeded: RefCell<Option<Heeds>>,
}

/// A read of a drive that was asked for, and of which it is to be known whether it was late.
#[derive(Clone)]
pub(crate) struct Ticket {
    pace: Rc<Pace>,
    counted: Rc<Cell<bool>>,
}

/// The answer to a read. Dropped, it leaves the drive's queue; a command that has begun goes on without it.
pub(crate) type Answer = Pin<Box<dyn Future<Output = DeviceResult<Bytes>>>>;

impl Pace {
    fn new(id: DriveId) -> Self {
        Self {
            id,
            places: Arc::new(Semaphore::new(UNDER_WAY)),
            latencies: RefCell::default(),
            reads: Lateness::default(),
            writes: Lateness::default(),
            holds_up: Lateness::default(),
            avoided: Avoidance::default(),
            probe: Cell::new(Probe::From(Instant::default())),
        }
    }

    fn count_read(&self, late: bool, now: Instant) {
        match self.reads.count(late, now) {
            Some(Change::Slow) => {
                tracing::warn!(drive = %self.id, "the drive answers far later than its peers; what is on it is computed from others");
            }
            Some(Change::Quick) => tracing::info!(drive = %self.id, "the drive answers in time again"),
            None => {}
        }
    }

    /// True if it is avoided from now on.
    fn count_write(&self, late: bool, now: Instant) -> bool {
        match self.writes.count(late, now) {
            Some(Change::Slow) => {
                tracing::warn!(drive = %self.id, "the drive writes far slower than its peers; what is written to its zone sets waits for it");
                return self.avoided.begin(now);
            }
            Some(Change::Quick) => tracing::info!(drive = %self.id, "the drive writes as fast as its peers again"),
            None => {}
        }
        false
    }
}

impl Ticket {
    /// The read did not end by its deadline. Counts once.
    pub(crate) fn is_late(&self, now: Instant) {
        if !self.counted.replace(true) {
            self.pace.count_read(true, now);
        }
    }
}

impl Paces {
    pub(crate) fn new(rt: &Runtime) -> Self {
        Self {
            rt: rt.clone(),
            drives: RefCell::default(),
            deadlines: Default::default(),
            budget: Cell::new(BURST * READS_FOR_EXTRA),
            extra: Cell::new(0),
            avoided: Cell::new(DriveSet::EMPTY),
            heeded: RefCell::default(),
        }
    }

    /// The clock that deadlines are measured by.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.rt
    }

    fn of(&self, drive: DriveId) -> Rc<Pace> {
        let mut drives = self.drives.borrow_mut();
        while drives.len() <= usize::from(drive.0) {
            let id = DriveId(drives.len() as u8);
            drives.push(Rc::new(Pace::new(id)));
        }
        drives[usize::from(drive.0)].clone()
    }

    /// A number is another drive's from now on.
    pub(crate) fn forget(&self, drive: DriveId) {
        if let Some(pace) = self.drives.borrow_mut().get_mut(usize::from(drive.0)) {
            *pace = Rc::new(Pace::new(drive));
        }
        self.heed();
    }

    /// Reads blocks of a drive, in its queue (AS-HEDGE-2).
    pub(crate) fn read(
        self: &Rc<Self>,
        drive: DriveId,
        dev: Rc<dyn ZonedDevice>,
        at: Lba,
        blocks: Blocks,
    ) -> (Ticket, Answer) {
        let ticket = Ticket { pace: self.of(drive), counted: Rc::default() };
        let (paces, counting) = (self.clone(), ticket.clone());
        let answer = async move {
            let asked = paces.rt.now();
            // Never closed.
            let place = counting.pace.places.clone().acquire_owned().await.ok();
            let rt = paces.rt.clone();
            // A task of its own: the place is the command's until the drive has answered, whoever waits for it.
            let reading = rt.spawn(async move {
                let result = dev.read(at, blocks).await;
                match result {
                    Ok(_) => paces.answered(&counting, class_of(blocks), asked),
                    // It is as little use as if it were late.
                    Err(_) => counting.is_late(paces.rt.now()),
                }
                drop(place);
                result
            });
            let lost = |_| DeviceError { kind: DeviceErrorKind::ReadFailed, at, zone: None };
            reading.await.unwrap_or_else(|error| Err(lost(error)))
        };
        (ticket, Box::pin(answer))
    }

    fn answered(&self, ticket: &Ticket, class: usize, asked: Instant) {
        let now = self.rt.now();
        let took = now.since(asked);
        if !ticket.counted.replace(true) {
            ticket.pace.count_read(took > self.deadline_of(class), now);
        }
        ticket.pace.latencies.borrow_mut()[class].record(took);
        let (deadline, since) = self.deadlines[class].get();
        self.deadlines[class].set((deadline, since + 1));
    }

    /// Time after which a read of that many blocks is late.
    pub(crate) fn deadline(&self, blocks: Blocks) -> Duration {
        self.deadline_of(class_of(blocks))
    }

    /// The 99th percentile of the drive that is in the middle: up to half of them may be slow, and it stays what it is.
    fn deadline_of(&self, class: usize) -> Duration {
        let (known, since) = self.deadlines[class].get();
        if let Some(known) = known.filter(|_| since < REFRESH) {
            return known;
        }
        let drives = self.drives.borrow();
        let mut each: Vec<_> = drives.iter().filter_map(|pace| pace.latencies.borrow()[class].percentile(99)).collect();
        each.sort_unstable();
        let middle = each.get(each.len().saturating_sub(1) / 2).map(|&middle| middle.max(LATE_LEAST));
        self.deadlines[class].set((middle, 0));
        middle.unwrap_or(LATE_UNKNOWN)
    }

    /// True if most of the drive's recent reads were late, or failed. A drive that only writes slowly is read as any
    /// other.
    pub(crate) fn is_slow(&self, drive: DriveId) -> bool {
        self.drives.borrow().get(usize::from(drive.0)).is_some_and(|pace| pace.reads.slow_since().is_some())
    }

    /// Counts reads that were asked for: they pay for extra ones.
    pub(crate) fn earn(&self, reads: usize) {
        let reads = u32::try_from(reads).unwrap_or(u32::MAX);
        self.budget.set(self.budget.get().saturating_add(reads).min(BURST * READS_FOR_EXTRA));
    }

    /// True if `count` extra reads may be begun for reads of `late` drives that have been waited for so long (AS-HEDGE-1);
    /// `spared`: there are fragments enough on drives that are not slow.
    pub(crate) fn may_hedge(
        &self,
        late: impl IntoIterator<Item = DriveId>,
        extra: usize,
        waited: Duration,
        deadline: Duration,
        spared: bool,
    ) -> bool {
        let free = waited >= (deadline * LAST_FACTOR).max(LAST_LEAST)
            || spared && late.into_iter().all(|drive| self.is_slow(drive));
        let cost = u32::try_from(extra).unwrap_or(u32::MAX).saturating_mul(READS_FOR_EXTRA);
        let left = self.budget.get().checked_sub(cost);
        if let Some(left) = left.filter(|_| !free) {
            self.budget.set(left);
        }
        if free || left.is_some() {
            self.extra.set(self.extra.get() + extra as u64);
            return true;
        }
        false
    }

    /// Longest wait for a read if another way is known.
    pub(crate) fn last_deadline(&self, blocks: Blocks) -> Duration {
        (self.deadline(blocks) * LAST_FACTOR).max(LAST_LEAST)
    }

    /// Reads so many blocks of a slow drive for nobody, now and then and one at a time, to learn whether it still is.
    pub(crate) fn probe(self: &Rc<Self>, drive: DriveId, dev: Rc<dyn ZonedDevice>, at: Lba, blocks: Blocks) {
        let pace = self.of(drive);
        let now = self.rt.now();
        if !matches!(pace.probe.get(), Probe::From(due) if due <= now) {
            return;
        }
        pace.probe.set(Probe::UnderWay(now));
        let (paces, deadline) = (self.clone(), self.deadline(blocks));
        self.rt.spawn_detached(async move {
            let (_, answer) = paces.read(drive, dev, at, blocks);
            // An error is the readers' to find.
            let _ = answer.await;
            pace.probe.set(Probe::From(paces.rt.now() + deadline * PROBE_FACTOR));
        });
    }

    /// Times that the drives took to make an item durable that began then; those that failed are left out. Some are
    /// known to have held it up.
    fn wrote(&self, began: Instant, took: &[(DriveId, Duration)], held_up: &[DriveId]) {
        let Some(late) = late_after(took.iter().map(|(_, took)| *took)) else { return };
        let now = self.rt.now();
        let mut changed = false;
        for &(drive, took) in took {
            let pace = self.of(drive);
            changed |= pace.count_write(took > late, now);
            changed |= pace.avoided.wrote(began, took > late, now);
            if !held_up.contains(&drive) {
                pace.holds_up.count(false, now);
            }
        }
        if changed {
            self.heed();
        }
    }

    /// Times that drives took for the same read; true if that drive, which is avoided, was late. So it is still slow.
    pub(crate) fn reads_late(&self, drive: DriveId, took: &[(DriveId, Duration)]) -> bool {
        let own = took.iter().find(|(other, _)| *other == drive);
        let late = late_after(took.iter().map(|(_, took)| *took));
        let is_late = own.zip(late).is_some_and(|((_, own), late)| *own > late);
        if is_late {
            let now = self.rt.now();
            self.of(drive).avoided.wrote(now, true, now);
        }
        is_late
    }

    /// A write of a drive holds up an item that its peers have written long ago.
    fn holds_up(&self, drive: DriveId) {
        let (pace, now) = (self.of(drive), self.rt.now());
        pace.holds_up.count(true, now);
        if pace.avoided.begin(now) {
            tracing::warn!(%drive, "a write takes far longer than its peers'; new data goes to other drives, where there are some");
            self.heed();
        }
    }

    /// Drives that new data keeps away from, where it can. (AS-AVOID-1)
    pub(crate) fn avoided(&self) -> DriveSet {
        self.avoided.get()
    }

    /// From now on `hears` is called when those change.
    pub(crate) fn on_change(&self, hears: impl Fn(DriveSet) + 'static) {
        self.heeded.replace(Some(Box::new(hears)));
    }

    fn heed(&self) {
        let drives = self.drives.borrow();
        let avoided = drives.iter().filter(|pace| pace.avoided.away().is_some()).map(|pace| pace.id).collect();
        drop(drives);
        if self.avoided.replace(avoided) != avoided
            && let Some(hears) = &*self.heeded.borrow()
        {
            hears(avoided);
        }
    }

    /// Drives that are slow now have to be so for as long again before they are given up.
    pub(crate) fn begin_anew(&self) {
        let now = self.rt.now();
        for pace in self.drives.borrow().iter() {
            pace.reads.begin_anew(now);
            pace.writes.begin_anew(now);
            pace.holds_up.begin_anew(now);
            pace.avoided.begin_anew(now);
        }
    }

    /// Known slow drives, at reads and at writes.
    pub(crate) fn slow(&self) -> Vec<Slow> {
        let drives = self.drives.borrow();
        let of = |pace: &Rc<Pace>| {
            let waiting_since = match pace.probe.get() {
                Probe::UnderWay(since) => Some(since),
                Probe::From(_) => None,
            };
            let (drive, kinds) = (pace.id, [(&pace.reads, waiting_since), (&pace.writes, None)]);
            let kinds = kinds.map(|(kind, waiting_since)| {
                let (late, last) = kind.late();
                Some(Slow { drive, since: kind.slow_since()?, last, late, least: LATE_COMMANDS_LEAST, waiting_since })
            });
            let away = pace.avoided.away().map(|away| {
                let least = TRIALS_LATE_LEAST;
                Slow { drive, since: away.since, last: away.last, late: away.late, least, waiting_since: None }
            });
            kinds.into_iter().chain([away]).flatten().collect::<Vec<_>>()
        };
        drives.iter().flat_map(of).collect()
    }

    /// The same of those that hold up most of what is written to them.
    pub(crate) fn holding_up(&self) -> Vec<Slow> {
        let drives = self.drives.borrow();
        let of = |pace: &Rc<Pace>| {
            let (late, last) = pace.holds_up.late();
            let since = pace.holds_up.slow_since()?;
            Some(Slow { drive: pace.id, since, last, late, least: HELD_UP_LEAST, waiting_since: None })
        };
        drives.iter().filter_map(of).collect()
    }

    /// Reads that were begun in the place of late ones.
    pub(crate) fn extra(&self) -> u64 {
        self.extra.get()
    }
}
