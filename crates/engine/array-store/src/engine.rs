//! What all parts of an open array share.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{BufferPool, StoreId};
use shingle_erasure::{Code, Coder};
use shingle_runtime::{Instant, Runtime};
use shingle_zoned::{DeviceError, ZoneOp};
use tokio::sync::{Mutex, Notify};

use crate::allocator::{Allocator, Layout, shape, zones_beside};
use crate::buffer::Buffer;
use crate::cleaners::Cleaners;
use crate::close::Busy;
use crate::config::Options;
use crate::delete::Deleting;
use crate::drives::{Drives, is_lost};
use crate::error::{Error, ErrorKind, Result};
use crate::eviction::Score;
use crate::examine::Written;
use crate::format::{BufferName, DriveState, SnapshotPiece, Superblock, VERSION};
use crate::index::Index;
use crate::loss::LOSS_NAME;
use crate::pace::Paces;
use crate::put::Progress;
use crate::rebuild::RebuildProgress;
use crate::repair::Repairs;
use crate::segment::Rotation;
use crate::sets::{Hold, Phase, SetTable, ZoneSet, Zones};
use crate::share::Sharing;
use crate::stamps::Stamps;
use crate::stats::Counters;
use crate::store::IndexPlace;
use crate::stuck::Stuck;
use crate::superblocks::{Source, Superblocks, copies, unread_most};
use crate::types::{DriveId, DriveSet, SetId, SetState, Version};
use crate::uncovered::Uncovered;
use crate::writer::OpenSet;

/// Bytes of frame buffers that are kept for reuse.
const POOL_BYTES: usize = 128 << 20;

/// The newest snapshot of the index that is whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Tombstones of versions below it are not needed.
    pub(crate) tombstone_floor: u64,
    pub(crate) pieces: Vec<SnapshotPiece>,
}

/// Checks that parity makes up for so many zones of a set, and that enough drives are left for superblocks. (EVICT-1, EVICT-4)
///
/// # Errors
/// `Device`, in words.
pub(crate) fn enough(drives: &Drives, code: Code, copies: u8, lacking: usize) -> Result<()> {
    let why = match lacking <= code.parity() {
        true if !drives.is_known_failed() && are_too_few(drives, code, copies, []) => format!(
            "only {} of the array's {} drives are not missing; a later opening without those would not find the newest superblock",
            drives.all_usable().len(),
            drives.not_removed()
        ),
        true => return Ok(()),
        false => {
            format!("{lacking} drives of some zone sets are missing; the array's parity makes up for {}", code.parity())
        }
    };
    let missing: Vec<String> = drives.missing().into_iter().map(|id| drives.name(id)).collect();
    let message = format!(
        "{why}. Nothing is written, nor are they given up, until enough are back and the array is opened again; what can be \
         read still is: {}",
        missing.join(", ")
    );
    Err(Error::new(ErrorKind::Device, message))
}

/// Whether without `more` no more drives are left than an opening may do without. An array that has no more than twice as many drives
/// as parity is better used without them than not at all. (EVICT-4)
fn are_too_few(drives: &Drives, code: Code, copies: u8, more: impl IntoIterator<Item = DriveId>) -> bool {
    let without: DriveSet = more.into_iter().collect();
    let left = drives.all_usable().iter().filter(|(id, _)| !without.has(*id)).count();
    left <= unread_most(code, copies) && drives.not_removed() > 2 * code.parity()
}

/// An open array.
pub(crate) struct Engine {
    pub(crate) rt: Runtime,
    pub(crate) options: Options,
    pub(crate) array: StoreId,
    pub(crate) code: Code,
    pub(crate) segment_length: u32,
    pub(crate) drives: Drives,
    /// How fast they answer.
    pub(crate) paces: Rc<Paces>,
    pub(crate) repairs: Repairs,
    pub(crate) stuck: Stuck,
    pub(crate) sets: SetTable,
    pub(crate) stamps: Stamps,
    index: RefCell<Option<Index>>,
    pub(crate) index_place: IndexPlace,
    pub(crate) coder: RefCell<Coder>,
    pub(crate) pool: BufferPool,
    /// Some drive drops payload: segments of objects are neither encoded nor copied. The index's snapshots are.
    pub(crate) hollow: bool,
    /// Open sets, and who writes where.
    pub(crate) allocator: Rc<Allocator>,
    pub(crate) uncovered: Rc<Uncovered>,
    pub(crate) rotation: Rotation,
    pub(crate) sharing: Sharing,
    pub(crate) deleting: Deleting,
    pub(crate) snapshotting: Mutex<()>,
    /// The snapshot that is being taken waits for space.
    pub(crate) snapshot_waits: Cell<bool>,
    /// Versions that are being written.
    pub(crate) puts: RefCell<BTreeMap<(Bytes, Version), Rc<Progress>>>,
    pub(crate) snapshot: RefCell<Snapshot>,
    /// The floor of the snapshot that a durable superblock names: what cleaning may go by.
    pub(crate) durable_floor: Cell<u64>,
    pub(crate) counters: Counters,
    /// A set became empty, or may be collected; a change of one ended (SET-4). Not that a cleaner gave up (CLEAN-6).
    pub(crate) space: Notify,
    pub(crate) cleaners: Cleaners,
    /// How old what cleaning moves is, in nanoseconds: a mean that follows it slowly.
    pub(crate) moved_age: Cell<u64>,
    /// Versions of deletions that are not in the index yet.
    pub(crate) burying: RefCell<BTreeSet<Version>>,
    pub(crate) superblocks: Superblocks,
    /// How many drives the last superblock went to. (SB-1)
    copies: Cell<u8>,
    pub(crate) generation: Cell<u64>,
    /// The last stamp when the array was opened, this time or, until recovery has ended, the time before.
    pub(crate) opened: Cell<u64>,
    superblock_turn: Mutex<()>,
    /// No set changes between empty and available meanwhile.
    pub(crate) replenishing: Mutex<()>,
    /// One rebuild, addition or removal of drives, or repair at a time.
    pub(crate) membership: Mutex<()>,
    /// Members replaced since the array was opened.
    pub(crate) replaced: Cell<u64>,
    /// So many of them are in a durable superblock.
    saved: Cell<u64>,
    /// Drives with zones that took a member's place, or were emptied for a set that is offered, and may be in a cache still:
    /// flushed before a superblock names them.
    pub(crate) unflushed: RefCell<BTreeSet<DriveId>>,
    /// Sets that recovery closed: sealed once a superblock says where they end.
    pub(crate) unsealed: RefCell<Vec<(OpenSet, Written)>>,
    /// A drive was lost or added.
    pub(crate) lost: Notify,
    /// How far the rebuild is that goes on by itself, and when it began.
    pub(crate) rebuilding: Cell<Option<(RebuildProgress, Instant)>>,
    /// Failed drives that a superblock names.
    pub(crate) recorded: RefCell<BTreeSet<DriveId>>,
    /// The array is open for writing: drives that fail are written down.
    pub(crate) serving: Cell<bool>,
    /// No work is begun any more.
    pub(crate) stopped: Cell<bool>,
    /// The clean close that the index is of.
    pub(crate) opened_clean: Cell<Option<u64>>,
    /// Sets that were not collected because of their tombstones alone, since the last snapshot that cleaning took.
    pub(crate) held_by_tombstones: RefCell<BTreeSet<SetId>>,
    pub(crate) buffer: RefCell<Option<Rc<Buffer>>>,
    /// The buffer's id, as superblocks have it; 0 without one.
    pub(crate) named_buffer: Cell<BufferName>,
    /// The newest tombstone of each name that recovery saw, until the buffer was read.
    pub(crate) found_tombstones: RefCell<BTreeMap<Bytes, Version>>,
    /// When this opening lost something. (LOSS-1)
    pub(crate) lost_before: Cell<Option<Version>>,
    /// What closing the array waits for.
    pub(crate) busy: Busy,
    /// A superblock says that the index was left clean: none may follow.
    closed: Cell<bool>,
}

/// What goes into an [`Engine`].
pub(crate) struct Parts {
    pub(crate) rt: Runtime,
    pub(crate) options: Options,
    pub(crate) superblock: Superblock,
    pub(crate) drives: Drives,
    pub(crate) superblocks: Superblocks,
    pub(crate) index: Index,
    pub(crate) index_place: IndexPlace,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Rc<Self> {
        let Parts { rt, options, superblock, drives, superblocks, index, index_place } = parts;
        let stamps = Stamps::new(&rt);
        stamps.raise(superblock.last_stamp);
        let recorded = drives.entries().into_iter().enumerate();
        let recorded = recorded.filter(|(_, drive)| drive.state != DriveState::Present);
        let recorded = recorded.map(|(number, _)| DriveId(number as u8)).collect();
        let hollow = drives.all_usable().iter().any(|(_, dev)| !dev.geometry().keeps_payload);
        let sets = superblock.sets.iter().flatten().count();
        let (width, open_sets) = (superblock.code.width(), options.open_sets);
        superblocks.whole_most.set(options.whole_table);
        let (groups, slots) = shape(drives.all_taking().len(), width, open_sets, sets, drives.open_zones_max());
        let zones = zones_beside(groups * slots, drives.open_zones_max());
        let cleaners = Cleaners::new(options.cleaners, groups, sets, zones);
        let allocator = Allocator::new(&Layout {
            groups,
            slots,
            // The list of drives never gets shorter: whoever wrote before had no more groups than this.
            side_by_side: drives.ids().len() / width,
            segment: superblock.segment_length,
            turn_segments: options.turn_segments,
        });
        let paces = Rc::new(Paces::new(&rt));
        let heeds = allocator.clone();
        paces.on_change(move |avoided| heeds.avoid(avoided));
        Rc::new(Self {
            paces,
            repairs: Repairs::default(),
            stuck: Stuck::default(),
            rt,
            array: superblock.array,
            code: superblock.code,
            segment_length: superblock.segment_length,
            sets: SetTable::from_entries(superblock.sets, &drives, superblock.code, options.cleaning),
            durable_floor: Cell::new(superblock.tombstone_floor),
            snapshot: RefCell::new(Snapshot {
                tombstone_floor: superblock.tombstone_floor,
                pieces: superblock.snapshot,
            }),
            options,
            drives,
            stamps,
            index: RefCell::new(Some(index)),
            index_place,
            coder: RefCell::new(Coder::new(superblock.code)),
            pool: BufferPool::new(POOL_BYTES),
            hollow,
            allocator,
            uncovered: Rc::default(),
            rotation: Rotation::new(superblock.code, superblock.segment_length),
            sharing: Sharing::default(),
            deleting: Deleting::default(),
            snapshotting: Mutex::new(()),
            snapshot_waits: Cell::new(false),
            puts: RefCell::default(),
            counters: Counters::default(),
            space: Notify::new(),
            cleaners,
            moved_age: Cell::new(0),
            burying: RefCell::default(),
            superblocks,
            copies: Cell::new(superblock.copies),
            generation: Cell::new(superblock.generation),
            opened: Cell::new(superblock.opened),
            superblock_turn: Mutex::new(()),
            replenishing: Mutex::new(()),
            membership: Mutex::new(()),
            replaced: Cell::new(0),
            saved: Cell::new(0),
            unflushed: RefCell::default(),
            unsealed: RefCell::default(),
            lost: Notify::new(),
            rebuilding: Cell::default(),
            recorded: RefCell::new(recorded),
            serving: Cell::new(false),
            stopped: Cell::new(false),
            opened_clean: Cell::new(None),
            held_by_tombstones: RefCell::default(),
            buffer: RefCell::default(),
            named_buffer: Cell::new(superblock.buffer),
            found_tombstones: RefCell::default(),
            lost_before: Cell::new(None),
            busy: Busy::default(),
            closed: Cell::new(false),
        })
    }

    /// The index, as long as the array is open.
    pub(crate) fn index(&self) -> Result<Ref<'_, Index>> {
        Ref::filter_map(self.index.borrow(), Option::as_ref).map_err(|_| Error::stopped())
    }

    /// Objects that callers see.
    pub(crate) fn objects(&self) -> Result<u64> {
        let index = self.index()?;
        let own = index.object(LOSS_NAME).map_err(Error::index)?.is_some();
        Ok(index.objects().saturating_sub(u64::from(own)))
    }

    /// The index, which the array does without from then on.
    pub(crate) fn take_index(&self) -> Option<Index> {
        self.index.borrow_mut().take()
    }

    pub(crate) fn put_index(&self, index: Index) {
        self.index.replace(Some(index));
    }

    pub(crate) fn running(&self) -> Result<()> {
        if self.stopped.get() { Err(Error::stopped()) } else { Ok(()) }
    }

    /// As [`Engine::running`], for what writes.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::new(ErrorKind::Invalid, "the array is open for reading only; nothing was changed"));
        }
        self.running()
    }

    /// Writes the superblock as things are now; `clean`: the generation of an index that was closed with it.
    pub(crate) async fn write_superblock(&self, clean: Option<u64>) -> Result<()> {
        self.write_superblock_to(clean, false).await
    }

    /// Writes the superblock to every drive: one that was added has none yet.
    pub(crate) async fn write_superblock_everywhere(&self) -> Result<()> {
        self.write_superblock_to(None, true).await
    }

    async fn write_superblock_to(&self, clean: Option<u64>, everywhere: bool) -> Result<()> {
        if self.options.read_only {
            return self.writable();
        }
        let _turn = self.superblock_turn.lock().await;
        if self.closed.get() {
            return Err(Error::stopped());
        }
        while !self.try_superblock(clean, everywhere).await? {}
        Ok(())
    }

    /// `false`: a drive was given up on the way, and it has to be written anew.
    async fn try_superblock(&self, clean: Option<u64>, everywhere: bool) -> Result<bool> {
        self.give_up_missing(false)?;
        self.closed.set(clean.is_some());
        let saying =
            Saying { engine: self, clean, failed: RefCell::default(), replaced: Cell::new(0), buffer: Cell::default() };
        let written = self.superblocks.write(&saying, clean.is_some(), everywhere).await?;
        if let Err(error) = written.enough(&self.drives) {
            // Those that take it in neither of their zones are done without, where all of them may be; then the others are enough.
            let refused = || written.refused.iter().filter(|(_, error)| !is_lost(error)).map(|(drive, _)| *drive);
            let common = written.is_nowhere() || !self.may_do_without(refused());
            let may_go = |error: &DeviceError| is_lost(error) || !common && !error.kind.is_host_full();
            let may_go = written.refused.iter().filter(|(_, error)| may_go(error));
            let given_up = may_go.filter(|(drive, error)| self.give_up(*drive, error)).count();
            return if given_up > 0 { Ok(false) } else { Err(error) };
        }
        if written.refused.iter().any(|(_, error)| is_lost(error)) {
            // It says that they are there, and is on fewer drives than it would be for one that does not. (SB-1)
            return Ok(false);
        }
        // A number may be another drive's by now. (NUMBER-1)
        let own = saying.failed.take().into_iter().filter(|(drive, id)| self.drives.own_id(*drive) == *id);
        self.recorded.borrow_mut().extend(own.map(|(drive, _)| drive));
        self.saved.set(saying.replaced.get());
        self.buffer_is_named(saying.buffer.get());
        Ok(true)
    }

    /// Members that were replaced and are in no durable superblock yet.
    pub(crate) fn unsaved(&self) -> u64 {
        self.replaced.get() - self.saved.get()
    }

    /// Makes zones durable that the next superblock names as members for the first time (REPLACE-1), or as available (SET-1).
    /// Nothing may be awaited between this and the table's copy.
    async fn flush_replaced(&self) -> Result<()> {
        loop {
            let drives = std::mem::take(&mut *self.unflushed.borrow_mut());
            if drives.is_empty() {
                return Ok(());
            }
            for (drive, error) in self.drives.flush(drives).await {
                if !is_lost(&error) {
                    self.unflushed.borrow_mut().insert(drive);
                    return Err(Error::device(format!("flushing {}", self.drives.name(drive)), error));
                }
                if self.drives.fail(drive) {
                    self.lost.notify_waiters();
                }
            }
        }
    }

    /// A command of `drive` failed. If the drive is done without from then on, it is marked as failed, durably: writes
    /// that miss it may be acknowledged.
    pub(crate) async fn drive_error(&self, drive: DriveId, error: &DeviceError) -> Result<()> {
        if self.judge(drive, error) { self.record_failures().await } else { Ok(()) }
    }

    /// Tells if a drive on which a command failed is done without from now on: it is lost, or answers and fails too much, as
    /// long as parity makes up for it (EVICT-2).
    pub(crate) fn judge(&self, drive: DriveId, error: &DeviceError) -> bool {
        // The drive can do nothing for it.
        if error.kind.is_host_full() {
            return false;
        }
        let too_much = self.drives.erred(drive);
        (is_lost(error) || too_much && !self.many_fail(Score::is_bad)) && self.give_up(drive, error)
    }

    /// More drives than the array can do without have such a score, with those that are missing. (EVICT-3)
    pub(crate) fn many_fail(&self, bad: impl Fn(Score) -> bool) -> bool {
        !self.may_do_without(self.drives.scored(bad))
    }

    /// Does without a drive from now on: one that is lost in any case, one that answers as long as parity makes up for it.
    fn give_up(&self, drive: DriveId, error: &DeviceError) -> bool {
        if !is_lost(error) && !self.may_do_without([drive]) {
            return false;
        }
        self.fail_drive(drive, error);
        true
    }

    /// Does without a drive from now on; whether it did not before.
    pub(crate) fn fail_drive(&self, drive: DriveId, error: &DeviceError) -> bool {
        let news = self.drives.fail(drive);
        if news {
            tracing::error!(drive = self.drives.name(drive), %error, "a drive of the array failed; going on without it");
            self.lost.notify_waiters();
        }
        news
    }

    /// How many zones some set lacks without the drives that are missing, and more.
    pub(crate) fn lacking_without(&self, more: impl IntoIterator<Item = DriveId>) -> usize {
        self.sets.most_lacking(self.drives.missing().into_iter().chain(more))
    }

    /// Whether the array can do without these drives, besides those that are missing. (EVICT-1, EVICT-4)
    pub(crate) fn may_do_without(&self, more: impl IntoIterator<Item = DriveId> + Clone) -> bool {
        self.lacking_without(more.clone()) <= self.code.parity()
            && !are_too_few(&self.drives, self.code, self.copies.get(), more)
    }

    /// Whether the array can do without the drives that are missing.
    ///
    /// # Errors
    /// `Device`, in words.
    pub(crate) fn enough_is_there(&self) -> Result<()> {
        enough(&self.drives, self.code, self.copies.get(), self.lacking_without([]))
    }

    /// The next superblock says that the missing drives failed; `absent`: also those that are only away.
    ///
    /// # Errors
    /// `Device` where the array cannot do without all of them: nothing is written then. (EVICT-1, EVICT-4)
    fn give_up_missing(&self, absent: bool) -> Result<()> {
        let missing = self.drives.missing();
        let news = missing.iter().any(|id| !self.recorded.borrow().contains(id));
        if news && !self.options.accept_loss {
            self.enough_is_there()?;
        }
        self.drives.evict(&missing, absent);
        Ok(())
    }

    /// Sees to it that a superblock names every failed drive.
    pub(crate) async fn record_failures(&self) -> Result<()> {
        let unrecorded = |engine: &Self| {
            let recorded = engine.recorded.borrow();
            engine.drives.missing().iter().any(|id| !recorded.contains(id))
        };
        if self.options.read_only || !unrecorded(self) {
            return Ok(());
        }
        self.give_up_missing(true)?;
        self.write_superblock(None).await
    }

    /// Blocks that can be used of each zone of `set`.
    pub(crate) fn capacity(&self, set: &ZoneSet) -> u32 {
        set.capacity()
    }

    /// How many members of `set` are on drives that are not there.
    pub(crate) fn missing(&self, set: &ZoneSet) -> usize {
        set.count_members(|member| self.drives.usable(member.drive).is_none())
    }

    /// Sets that are kept available: at least one more than what is reserved, or clients would have none without cleaning.
    pub(crate) fn available_sets(&self) -> usize {
        (self.options.available_sets * self.allocator.groups()).max(self.cleaners.reserved() + 1)
    }

    /// Makes empty sets available until there are as many as the pool holds. (SMORE, section III-C.)
    pub(crate) async fn replenish(&self) -> Result<()> {
        let _one = self.replenishing.lock().await;
        let wanted = self.available_sets().saturating_sub(self.sets.count(SetState::Available));
        let chosen = self.for_groups(wanted);
        self.offer(chosen).await
    }

    /// Makes empty sets available that fit a group better than any that is.
    pub(crate) async fn replenish_group(&self, group: usize) -> Result<()> {
        let _one = self.replenishing.lock().await;
        if self.sets.count(SetState::Available) >= 2 * self.available_sets() {
            return Ok(());
        }
        let chosen = self.better_for(group, self.options.available_sets);
        self.offer(chosen).await
    }

    /// Makes empty sets available. For one caller at a time.
    async fn offer(&self, chosen: Vec<(SetId, Rc<ZoneSet>)>) -> Result<()> {
        if chosen.is_empty() {
            return Ok(());
        }
        let mut clean = Vec::with_capacity(chosen.len());
        for (id, set) in chosen {
            if set.is_unclean()
                && let Err(error) = self.reset_zones(&set).await
            {
                tracing::error!(set = id.0, %error, "an empty set cannot be used");
                self.pass_over(id, &set);
                continue;
            }
            clean.push(set);
        }
        // At one moment: of a set that no superblock calls available yet, drives may have been given up while zones were reset. (EVICT-1)
        clean.retain(|set| self.may_open_on(&set.drives()));
        for set in &clean {
            set.offer();
            // That they are empty is durable first: else recovery would find there what was deleted long ago.
            self.unflushed.borrow_mut().extend(set.members().iter().map(|member| member.drive));
        }
        // Nobody may open them before that is durable (SET-1).
        let written = self.write_superblock(None).await;
        clean.iter().filter(|set| set.is_offered()).for_each(|set| set.offered(written.is_ok()));
        written
    }

    /// Resets every zone of `set`. A drive that is lost on the way is marked as failed.
    pub(crate) async fn reset_zones(&self, set: &ZoneSet) -> Result<()> {
        self.writable()?;
        if self.missing(set) > 0 && self.missing(set) + self.code.parity() >= self.code.data() {
            // Those that come back with what the others lost would be believed, with others gone by then.
            self.record_failures().await?;
        }
        let members = set.members();
        let devs: Vec<_> =
            members.iter().filter_map(|&member| Some((member, self.drives.usable(member.drive)?))).collect();
        let resets = devs.iter().map(|(member, dev)| dev.manage(member.zone, ZoneOp::Reset));
        let results = futures_util::future::join_all(resets).await;
        let mut failed = None;
        for ((member, _), result) in devs.iter().zip(results) {
            if let Err(error) = result {
                self.drive_error(member.drive, &error).await?;
                if self.drives.usable(member.drive).is_some() {
                    failed = Some(Error::device(format!("resetting {} of {}", member.zone, member.drive), error));
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Waits until nobody changes what `set` holds, and keeps it so. `None` if it holds nothing then, or is no more: what
    /// becomes of empty sets is not the caller's business.
    ///
    /// # Errors
    /// `Invalid` if objects are being written to it, for which there is no end; a snapshot ends soon.
    pub(crate) async fn settled(&self, id: SetId, set: &Rc<ZoneSet>) -> Result<Option<Hold>> {
        loop {
            let changed = self.space.notified();
            if !self.sets.get(id).is_some_and(|current| Rc::ptr_eq(&current, set)) {
                return Ok(None);
            }
            match (set.phase(), set.state()) {
                (Phase::Still, SetState::Empty | SetState::Available) => return Ok(None),
                (Phase::Still, _) => return Ok(self.sets.hold(id)),
                (Phase::Filling, SetState::Open) => {
                    return Err(Error::new(ErrorKind::Invalid, format!("{id} is being written to")));
                }
                (Phase::Filling | Phase::Ending | Phase::Resetting, _) => {}
            }
            self.running()?;
            changed.await;
        }
    }

    /// The set has nothing live left: once it has ended and nobody reads it, its zones are reset. (SET-2)
    pub(crate) async fn trim(&self, set: &ZoneSet) -> Result<()> {
        loop {
            let changed = self.space.notified();
            if set.phase() == Phase::Still {
                break;
            }
            changed.await;
        }
        set.leave();
        self.sets.unheld(set).await;
        set.begin_to_reset();
        let result = self.reset_zones(set).await;
        set.emptied(if result.is_ok() { Zones::Clean } else { Zones::Unclean });
        self.space.notify_waiters();
        result
    }

    pub(crate) fn no_space(&self) -> Error {
        Error::new(ErrorKind::NoSpace, "the array is full: delete objects or add drives; nothing was stored")
    }
}

/// What superblocks say of an open array.
struct Saying<'a> {
    engine: &'a Engine,
    clean: Option<u64>,
    /// Of the last one: the drives that it calls failed, with their ids, how many replaced members it has, and the buffer that it names.
    failed: RefCell<Vec<(DriveId, u64)>>,
    replaced: Cell<u64>,
    buffer: Cell<BufferName>,
}

impl Source for Saying<'_> {
    fn drives(&self) -> &Drives {
        &self.engine.drives
    }

    fn sets(&self) -> &SetTable {
        &self.engine.sets
    }

    fn array(&self) -> StoreId {
        self.engine.array
    }

    fn code(&self) -> Code {
        self.engine.code
    }

    fn copies(&self) -> u8 {
        let Engine { drives, code, copies: before, .. } = self.engine;
        before.set(copies(*code, drives.not_removed(), before.get()));
        before.get()
    }

    fn next_generation(&self) -> u64 {
        let generation = self.engine.generation.get() + 1;
        self.engine.generation.set(generation);
        generation
    }

    fn fields(&self) -> Superblock {
        let engine = self.engine;
        let drives = engine.drives.entries();
        let failed = drives.iter().enumerate().filter(|(_, drive)| drive.state != DriveState::Present);
        self.failed.replace(failed.map(|(number, drive)| (DriveId(number as u8), drive.id)).collect());
        self.replaced.set(engine.replaced.get());
        self.buffer.set(engine.buffer_name());
        let snapshot = engine.snapshot.borrow().clone();
        Superblock {
            version: VERSION,
            array: engine.array,
            generation: self.next_generation(),
            code: engine.code,
            segment_length: engine.segment_length,
            last_stamp: engine.stamps.last(),
            clean: self.clean,
            tombstone_floor: snapshot.tombstone_floor,
            opened: engine.opened.get(),
            buffer: self.buffer.get(),
            copies: self.copies(),
            snapshot: snapshot.pieces,
            drives,
            sets: Vec::new(),
        }
    }

    async fn settle(&self) -> Result<()> {
        self.engine.give_up_missing(false)?;
        self.engine.flush_replaced().await
    }

    async fn breathe(&self) {
        self.engine.rt.yield_now().await;
    }
}
