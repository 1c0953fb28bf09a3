//! A place for what is appended: which drive and file, and files that are opened and closed for it.
//!
//! `drives/placement.rs` chooses among drives; here is what it chooses from.
//!
//! # Invariants
//! - OS-RSV-1: nothing is refused for want of room while a drive that failed has room and has not been tried for a second.
//!   `a_drive_that_failed_is_tried_again_before_a_write_is_refused`.

use std::rc::Rc;

use shingle_chunk_store::ChunkClient;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

use crate::drives::lateness;
use crate::drives::placement::{self, Ahead, Choice, Offer, View};
use crate::drives::{Class, DriveState};
use crate::engine::Core;
use crate::errors::for_client;
use crate::files::Log;
use crate::format::ChunkName;
use crate::records::Position;

/// A file with more than this on its way is busy: another is opened beside it. It is what a drive writes at once: up to there one zone takes all that
/// waits in one write, where several zones would cost a disk a visit each.
const BUSY_BYTES: u64 = 8 << 20;
/// The least default size of a file, until a chunk has shown what it takes.
const FILE_BYTES_MIN: u64 = 64 << 10;
/// The largest default size of a file.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A chunk of a file that is too full: its ordinal, and whether the file goes on.
type Full = (u64, u32, bool);

/// A place that is reserved for one append.
pub(crate) struct AppendReservation {
    pub(crate) client: ChunkClient,
    pub(crate) drive: usize,
    pub(crate) name: ChunkName,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A file that takes an append, and what else it has to do.
#[derive(Clone, Copy)]
struct Ready {
    file: u64,
    outstanding: u64,
    /// Another may be opened beside it.
    may_open: bool,
}

enum Reserved {
    Place(AppendReservation),
    /// A file must be created on this drive first.
    Create(usize),
    /// This chunk must be closed first.
    Close(Full),
    /// Files are being created or closed: wait.
    Wait,
    /// No drive takes this much now.
    NoSpace,
    /// No drive ever takes so much in one piece.
    TooLong,
}

impl Reserved {
    /// There is no place, on the drives that were looked at.
    fn is_nothing(&self) -> bool {
        matches!(self, Self::NoSpace | Self::TooLong)
    }
}

impl Core {
    /// Reserves a place for `length` bytes, creating and closing files as needed.
    pub(crate) async fn reserve(
        self: &Rc<Self>,
        log: Log,
        class: Class,
        length: u64,
    ) -> StoreResult<AppendReservation> {
        self.refresh_ahead();
        let (mut refreshed, mut failures) = (false, 0);
        loop {
            self.working()?;
            // Registered before looking, so that a change in between is not missed.
            let changed = self.changed.notified();
            match self.try_reserve(log, class, length) {
                Reserved::Place(reserved) => return Ok(reserved),
                Reserved::Create(drive) => {
                    if let Err(error) = self.create_file(drive, log).await {
                        failures += 1;
                        if failures > 2 * self.drives.borrow().len() + 4 {
                            return Err(for_client(error));
                        }
                    }
                }
                Reserved::Close((file, ordinal, go_on)) => drop(self.close_chunk(file, ordinal, go_on).await),
                Reserved::Wait => changed.await,
                Reserved::TooLong => {
                    return Err(StoreError::new(
                        StoreErrorKind::TooLarge,
                        format!("no drive's chunks take {length} bytes in one piece"),
                    ));
                }
                Reserved::NoSpace if !refreshed => {
                    self.refresh_drives().await;
                    refreshed = true;
                }
                Reserved::NoSpace => {
                    // Object garbage is space, too: GC is asked for it before the write fails.
                    if class == Class::User && self.wait_for_gc(length).await {
                        refreshed = false;
                        continue;
                    }
                    self.stats.borrow_mut().no_space += 1;
                    return Err(StoreError::new(StoreErrorKind::NoSpace, "the drives are full"));
                }
            }
        }
    }

    /// Looks for a file that takes `length` bytes: on a drive that is neither slow nor has failed, else on a slow one, else on one that failed
    /// (OS-RSV-1).
    fn try_reserve(self: &Rc<Self>, log: Log, class: Class, length: u64) -> Reserved {
        let now = self.runtime.now();
        let any = |is: &dyn Fn(&DriveState) -> bool| self.drives.borrow().iter().any(is);
        let all_bad = !any(&|drive| !drive.is_bad(now));
        let good = |drive: &DriveState| all_bad || !drive.is_bad(now);
        let slow = |drive: &DriveState| drive.lateness.is_slow(now);
        let failed = |drive: &DriveState| drive.may_be_tried(now);
        let mut found = self.try_reserve_on(log, class, length, |drive| good(drive) && !slow(drive));
        if found.is_nothing() && any(&slow) {
            found = self.try_reserve_on(log, class, length, good);
        }
        if found.is_nothing() && any(&failed) {
            found = self.try_reserve_on(log, class, length, |drive| good(drive) || failed(drive));
        }
        found
    }

    /// The same on drives that `may`.
    fn try_reserve_on(
        self: &Rc<Self>,
        log: Log,
        class: Class,
        length: u64,
        may: impl Fn(&DriveState) -> bool,
    ) -> Reserved {
        let (views, fit_any) = self.views(class, length, may);
        if views.is_empty() {
            return if fit_any { Reserved::NoSpace } else { Reserved::TooLong };
        }
        let (choice, ahead) = placement::choose(&views, log.spreads(), |drive| self.offer(drive, log, length));
        match ahead {
            Some(Ahead::Create(drive)) => self.open_ahead(drive, log),
            Some(Ahead::Close((file, ordinal, go_on))) => {
                let core = self.clone();
                self.runtime.spawn_detached(async move {
                    let _ = core.close_chunk(file, ordinal, go_on).await;
                });
            }
            None => {}
        }
        match choice {
            Choice::Take(drive, ready) => {
                if ready.outstanding > BUSY_BYTES && ready.may_open {
                    self.open_ahead(drive, log);
                }
                let reserved = self.take(log, ready.file, length);
                self.charge(views, drive, length);
                reserved.map_or(Reserved::Wait, Reserved::Place)
            }
            Choice::Create(drive) => Reserved::Create(drive),
            Choice::Close(full) => Reserved::Close(full),
            Choice::Wait => Reserved::Wait,
        }
    }

    /// A drive was given so many bytes, of those in `views`.
    pub(crate) fn charge(&self, mut views: Vec<View>, drive: usize, bytes: u64) {
        placement::charge(&mut views, drive, bytes);
        let mut drives = self.drives.borrow_mut();
        views.iter().for_each(|view| drives[view.drive].load.lead = view.lead);
    }

    /// The drives that `may` and take `length` bytes now, and whether any could if it had space.
    pub(crate) fn views(&self, class: Class, length: u64, may: impl Fn(&DriveState) -> bool) -> (Vec<View>, bool) {
        let now = self.runtime.now();
        let drives = self.drives.borrow();
        let usual = lateness::middle(drives.iter().filter_map(|drive| drive.lateness.usual()));
        let mut fit_any = false;
        let view = |(number, drive): (usize, &DriveState)| {
            if drive.room.is_some_and(|room| room < length) {
                return None;
            }
            fit_any = true;
            if !may(drive) || !drive.takes(class, length) {
                return None;
            }
            Some(View {
                drive: number,
                free: drive.free_for(class),
                queue: drive.load.queue(),
                lead: drive.load.lead,
                rate: drive.load.rate(now),
                usual: drive.lateness.usual(),
                stalled: drive.load.stalled(usual, now),
            })
        };
        (drives.iter().enumerate().filter_map(view).collect(), fit_any)
    }

    /// Offer of a drive for `log`: the open file with the least work that takes `length` bytes, or the obstacle.
    fn offer(&self, drive: usize, log: Log, length: u64) -> Offer<Ready, Full> {
        let (drives, files) = (self.drives.borrow(), self.files.borrow());
        let Some(state) = drives.get(drive) else { return Offer::Soon };
        let limit = self.file_bytes(state.stat().capacity_bytes, state.room);
        let mut open = state.is_creating(log.stream()) as usize;
        let (mut best, mut full, mut soon) = (None::<Ready>, None, open > 0);
        for (number, file) in files.open(drive, log) {
            let Some(tail) = file.appendable() else {
                soon = true;
                continue;
            };
            open += 1;
            let size = file.size();
            if size > 0 && size + length > limit {
                full = Some((number, tail.ordinal, false));
            } else if tail.room < length {
                full = Some((number, tail.ordinal, true));
            } else if best.is_none_or(|best| file.outstanding < best.outstanding) {
                best = Some(Ready { file: number, outstanding: file.outstanding, may_open: false });
            }
        }
        let may_open = open < self.files_open_max(state.stat().capacity_bytes, limit);
        match (best, full) {
            (Some(best), _) => Offer::File(Ready { may_open, ..best }),
            (None, Some(full)) => Offer::Full(full),
            (None, None) if soon || !may_open => Offer::Soon,
            (None, None) => Offer::Nothing,
        }
    }

    /// Begins to open a file, counted at once, so that those who come next do not open one more each.
    fn open_ahead(self: &Rc<Self>, drive: usize, log: Log) {
        self.announce(drive, log.stream());
        let core = self.clone();
        self.runtime.spawn_detached(async move { drop(core.create_announced(drive, log).await) });
    }

    fn take(&self, log: Log, number: u64, length: u64) -> Option<AppendReservation> {
        let mut files = self.files.borrow_mut();
        let mut file = files.get_mut(number)?;
        let (drive, stream) = (file.drive?, file.stream);
        debug_assert!(file.collector.is_none() || file.collector == log.collector(), "OS-GC-5: file {number}");
        // One of an earlier life is the collector's that comes first.
        file.collector = log.collector();
        let tail = file.tail.as_mut()?;
        let name = ChunkName { file: number, ordinal: tail.ordinal, stream, set: self.set };
        let offset = tail.next;
        tail.next += length;
        // Headers and footers take room, too: the chunk itself says when it is full.
        tail.room = tail.room.saturating_sub(length);
        file.pending.insert(Position { ordinal: name.ordinal, offset });
        file.outstanding += length;
        let mut drives = self.drives.borrow_mut();
        let state = &mut drives[drive];
        state.wrote(length);
        state.load.begin(length, self.runtime.now());
        Some(AppendReservation { client: state.client.clone(), drive, name, offset, length })
    }

    /// An append to a reserved place has ended.
    pub(crate) fn answered(&self, reserved: &AppendReservation, good: bool) {
        if let Some(mut file) = self.files.borrow_mut().get_mut(reserved.name.file) {
            file.outstanding = file.outstanding.saturating_sub(reserved.length);
        }
        let now = self.runtime.now();
        self.drives.borrow_mut()[reserved.drive].load.end(reserved.length, good, now);
    }

    /// A file's size limit on a drive of `capacity` bytes whose chunks take appends of up to `room`: by default at least
    /// a whole chunk, so that a file that is dropped leaves whole zones empty.
    pub(crate) fn file_bytes(&self, capacity: u64, room: Option<u64>) -> u64 {
        let default = || (capacity / 256).min(FILE_BYTES_MAX).max(room.unwrap_or(FILE_BYTES_MIN));
        self.options.file_bytes.unwrap_or_else(default)
    }

    /// Limit of open files of a stream on a drive of this capacity: fewer on a small one, whose space they would take.
    fn files_open_max(&self, capacity: u64, file_bytes: u64) -> usize {
        let most = capacity / file_bytes.saturating_mul(16).max(1);
        self.options.files_open_max.min(most as usize).max(1)
    }
}
