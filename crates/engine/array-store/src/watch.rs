//! A drive as the array uses it: every command ends, and it is noticed when the drive is not well.
//!
//! A command that a drive leaves unanswered would hold whoever waits for it, for ever: an opening, a put, a scrub, the
//! close of the array. So the device is wrapped, and not each of its users: a drive that is silent for too long is
//! treated as one that says that it is gone.
//!
//! **Owns** the account of a drive's commands under way. **Knows nothing of** sets and parity: what becomes of a drive,
//! an [`Overseer`] decides.
//!
//! # Invariants
//! - AS-HANG-1: a drive that answered nothing for [`Options::hung_after`](crate::Options), or left one command unanswered
//!   five times as long, is done without: all its commands end with `Gone`, those under way and all later ones.
//! - AS-HANG-2: while the array works a drive is waited for where parity does not make up for it and all others that are
//!   silent: the cause is common to them then, and they come back together. An opening waits for none.
//! - AS-HANG-3: silence is counted in looks of a task, not read off a clock: where the process itself stood still, that is
//!   one look.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::{
    DeviceError, DeviceErrorKind, DeviceFuture, DeviceResult, Geometry, ZoneInfo, ZoneOp, ZonedDevice,
};
use tokio::sync::Notify;

use crate::drives::is_lost;
use crate::eviction::ReadScore;
use crate::store::ArrayDrive;
use crate::types::DriveId;

/// Silence that is too long, where nobody says otherwise: drives try for up to half of that to read a bad block, and
/// the kernel gives up commands by then.
pub(crate) const HUNG_AFTER: Duration = Duration::from_secs(60);

/// Looks at a drive in that time.
const LOOKS: u32 = 4;

/// So many times as long may one command take of a drive that answers others.
const ONE_FACTOR: u32 = 5;

/// Decides about drives that are not well.
pub(crate) trait Overseer {
    /// A drive is silent. Returns true if it is given up from now on, with these silent too.
    fn is_silent(&self, drive: DriveId, silent: &[DriveId]) -> bool;
    /// A drive said that it is gone.
    fn is_gone(&self, drive: DriveId, error: &DeviceError);
    /// A drive fails its reads in many places.
    fn fails_reads(&self, drive: DriveId, error: &DeviceError);
}

/// The drives of an array that are watched.
pub(crate) struct Watches {
    rt: Runtime,
    patience: Option<Duration>,
    each: RefCell<Vec<Weak<Watch>>>,
    overseer: RefCell<Option<Rc<dyn Overseer>>>,
}

/// State of one drive.
pub(crate) struct Watch {
    drive: DriveId,
    dev: Rc<dyn ZonedDevice>,
    all: Rc<Watches>,
    /// Commands under way, by number.
    under_way: RefCell<BTreeSet<u64>>,
    begun: Cell<u64>,
    answers: Cell<u64>,
    /// A task looks at it.
    looked_at: Cell<bool>,
    /// Looks since it answered anything; looks since the oldest command under way began.
    silent: Cell<u32>,
    stuck: Cell<u32>,
    reads: RefCell<ReadScore>,
    /// It is done without: nothing is asked of it any more.
    over: Cell<bool>,
    ended: Notify,
}

/// A command, until this is dropped.
struct UnderWay<'w>(&'w Watch, u64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.borrow_mut().remove(&self.1);
    }
}

/// The device, watched.
struct Watched(Rc<Watch>);

impl Watches {
    pub(crate) fn new(rt: &Runtime, patience: Option<Duration>) -> Rc<Self> {
        Rc::new(Self { rt: rt.clone(), patience, each: RefCell::default(), overseer: RefCell::default() })
    }

    /// Without one, silence is enough to be done without.
    pub(crate) fn oversee(&self, overseer: Rc<dyn Overseer>) {
        self.overseer.replace(Some(overseer));
    }

    /// Watches a drive: the device to use from now on.
    pub(crate) fn watch(self: &Rc<Self>, drive: DriveId, dev: Rc<dyn ZonedDevice>) -> (Rc<Watch>, Rc<dyn ZonedDevice>) {
        let watch = Rc::new(Watch {
            drive,
            dev,
            all: self.clone(),
            under_way: RefCell::default(),
            begun: Cell::new(0),
            answers: Cell::new(0),
            looked_at: Cell::new(false),
            silent: Cell::new(0),
            stuck: Cell::new(0),
            reads: RefCell::default(),
            over: Cell::new(false),
            ended: Notify::new(),
        });
        self.each.borrow_mut().push(Rc::downgrade(&watch));
        (watch.clone(), Rc::new(Watched(watch)))
    }

    fn overseer(&self) -> Option<Rc<dyn Overseer>> {
        self.overseer.borrow().clone()
    }

    /// Drives that have been silent for at least half of what is too long.
    fn silent(&self) -> Vec<DriveId> {
        let each: Vec<_> = self.each.borrow().iter().filter_map(Weak::upgrade).collect();
        each.iter().filter(|watch| !watch.over.get() && watch.is_silent(LOOKS / 2)).map(|watch| watch.drive).collect()
    }
}

/// The same drives, of which every command ends: one that is silent for a minute counts as gone from then on.
#[must_use]
pub fn patient(rt: &Runtime, drives: &[ArrayDrive]) -> Vec<ArrayDrive> {
    within(rt, drives, Some(HUNG_AFTER))
}

pub(crate) fn within(rt: &Runtime, drives: &[ArrayDrive], patience: Option<Duration>) -> Vec<ArrayDrive> {
    let watches = Watches::new(rt, patience);
    let watched = |(number, drive): (usize, &ArrayDrive)| {
        let (_, dev) = watches.watch(DriveId(number as u8), drive.dev.clone());
        ArrayDrive { name: drive.name.clone(), dev }
    };
    drives.iter().enumerate().map(watched).collect()
}

impl Watch {
    /// The device itself.
    pub(crate) fn unwatched(&self) -> Rc<dyn ZonedDevice> {
        self.dev.clone()
    }

    /// The drive is done without: whoever waits for it waits no more.
    pub(crate) fn end(&self) {
        if !self.over.replace(true) {
            self.ended.notify_waiters();
        }
    }

    fn gone(&self, at: Lba) -> DeviceError {
        DeviceError { kind: DeviceErrorKind::Gone, at, zone: None }
    }

    fn is_silent(&self, looks: u32) -> bool {
        self.silent.get() >= looks || self.stuck.get() >= looks * ONE_FACTOR
    }

    fn begin(self: &Rc<Self>) -> UnderWay<'_> {
        let number = self.begun.get();
        self.begun.set(number + 1);
        self.under_way.borrow_mut().insert(number);
        if let Some(patience) = self.all.patience.filter(|_| !self.looked_at.replace(true)) {
            self.all.rt.spawn_detached(self.clone().look(patience / LOOKS));
        }
        UnderWay(self, number)
    }

    /// Looks at the drive as long as commands are under way. (AS-HANG-3)
    async fn look(self: Rc<Self>, between: Duration) {
        let (mut answers, mut oldest) = (self.answers.get(), None);
        while !self.over.get() {
            let first = self.under_way.borrow().first().copied();
            if first.is_none() {
                break;
            }
            let count = |goes_on: bool, looks: &Cell<u32>| looks.set(if goes_on { looks.get() + 1 } else { 0 });
            count(oldest.is_some() && answers == self.answers.get(), &self.silent);
            count(oldest == first, &self.stuck);
            (answers, oldest) = (self.answers.get(), first);
            if self.is_silent(LOOKS) {
                let overseer = self.all.overseer();
                if overseer.is_none_or(|overseer| overseer.is_silent(self.drive, &self.all.silent())) {
                    self.end();
                }
            }
            self.all.rt.sleep(between).await;
        }
        self.silent.set(0);
        self.stuck.set(0);
        self.looked_at.set(false);
    }

    /// The answer to a command, which starts with the first poll. (AS-HANG-1)
    async fn answer<T>(self: &Rc<Self>, at: Lba, command: DeviceFuture<'_, T>) -> DeviceResult<T> {
        if self.over.get() {
            return Err(self.gone(at));
        }
        let ended = self.ended.notified();
        let under_way = self.begin();
        let result = match select(command, pin!(ended)).await {
            Either::Left((result, _)) => {
                self.answers.set(self.answers.get() + 1);
                result
            }
            Either::Right(_) => Err(self.gone(at)),
        };
        drop(under_way);
        if let Err(error) = &result
            && is_lost(error)
            && !self.over.get()
            && let Some(overseer) = self.all.overseer()
        {
            overseer.is_gone(self.drive, error);
        }
        result
    }

    /// Takes note of how a read ended. (AS-EVICT-2)
    fn note_read(&self, at: Lba, blocks: Blocks, result: &DeviceResult<Bytes>) {
        let too_much = match result {
            Ok(_) => {
                self.reads.borrow_mut().succeeded();
                return;
            }
            Err(error) if matches!(error.kind, DeviceErrorKind::ReadFailed | DeviceErrorKind::System(_)) => {
                let zone = self.dev.geometry().zone_of(at).unwrap_or_default();
                self.reads.borrow_mut().failed(zone, at, blocks).then_some(error)
            }
            Err(_) => None,
        };
        if let (Some(error), Some(overseer)) = (too_much, self.all.overseer()) {
            overseer.fails_reads(self.drive, error);
        }
    }
}

impl ZonedDevice for Watched {
    fn geometry(&self) -> &Geometry {
        self.0.dev.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        let at = self.geometry().start_of(first);
        Box::pin(self.0.answer(at, self.0.dev.report(first, count)))
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        Box::pin(async move {
            let result = self.0.answer(at, self.0.dev.read(at, length)).await;
            self.0.note_read(at, length, &result);
            result
        })
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        Box::pin(self.0.answer(at, self.0.dev.write(at, data)))
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        let at = self.geometry().start_of(zone);
        Box::pin(self.0.answer(at, self.0.dev.append(zone, data)))
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        let at = self.geometry().start_of(zone);
        Box::pin(self.0.answer(at, self.0.dev.manage(zone, op)))
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        Box::pin(self.0.answer(Lba(0), self.0.dev.flush()))
    }
}

#[cfg(test)]
mod tests {
    use shingle_runtime::{Contract, Instant, LocalBoxFuture, UnixTime};
    use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger};
    use shingle_zoned::MemoryDevice;

    use super::*;

    /// A process that can stand still: its clock goes on, and its tasks do not.
    #[derive(Clone)]
    struct Stopping {
        rt: Runtime,
        stood_still: Rc<Cell<Duration>>,
    }

    impl Contract for Stopping {
        fn now(&self) -> Instant {
            self.rt.now() + self.stood_still.get()
        }

        fn unix_time(&self) -> UnixTime {
            self.rt.unix_time()
        }

        fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
            let rt = self.rt.clone();
            Box::pin(async move { rt.sleep(duration).await })
        }

        fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
            self.rt.spawn_detached(task);
        }

        fn random(&self) -> u64 {
            self.rt.random()
        }

        fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
            work();
        }
    }

    /// AS-HANG-3.
    #[test]
    fn a_process_that_stood_still_gives_no_drive_up() {
        Sim::new(1).run(|rt| async move {
            let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(64), 16, 0, 12)));
            let hang = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::Hang };
            device.set_faults(Faults::new([hang]));
            let process = Stopping { rt: rt.clone(), stood_still: Rc::default() };
            let stopping = Runtime::new(Rc::new(process.clone()));
            let drives = [ArrayDrive { name: "slow".into(), dev: Rc::new(device) }];
            let watched = within(&stopping, &drives, Some(Duration::from_secs(60)));
            let mut read = watched[0].dev.read(Lba(0), Blocks(1));
            assert!(futures_util::poll!(&mut read).is_pending());
            rt.sleep(Duration::from_secs(10)).await;
            process.stood_still.set(Duration::from_secs(3600));
            rt.sleep(Duration::from_secs(30)).await;
            assert!(futures_util::poll!(&mut read).is_pending(), "an hour in which nobody looked counts as silence");
            rt.sleep(Duration::from_secs(30)).await;
            assert!(matches!(read.await.unwrap_err().kind, DeviceErrorKind::Gone));
        });
    }
}
