//! An array as its users see it.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::StoreId;
use shingle_erasure::Code;
use shingle_runtime::Runtime;

use crate::allocator::PutHints;
use crate::buffer::{Attached, BufferFiles, RING_MAX, RING_MIN, open_file, open_to_read, two_files};
use crate::config::{CleaningPolicy, FormatOptions, Options};
use crate::drives::Drives;
use crate::engine::{Engine, Parts};
use crate::error::{Error, ErrorKind, Result};
use crate::eviction::most_lacking;
use crate::format::{BufferName, DriveState, SetEntry, Superblock, VERSION};
use crate::gather::{Gathered, gather};
use crate::get::{Object, Reader, not_found};
pub(crate) use crate::given::{ArrayDrive, IndexPlace};
use crate::index::{Index, Moment};
use crate::layout::form_sets;
use crate::membership::prepare;
use crate::own_names::OWN_NAMES_END;
use crate::pace::slow_drives;
use crate::put::{Put, Stored, check_name};
use crate::recovery::RecoveryReport;
use crate::scrub::{ScrubOptions, ScrubReport};
use crate::sets::SetTable;
use crate::superblocks::{Source, Superblocks, blocks_needed, copies};
use crate::told::{RebuildOptions, RebuildProgress};
use crate::types::{DriveId, SetId, SetState};
use crate::verdict::enough;

/// How full an array is, and what it did since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sets by state: empty, available, open, closed, indexed, index.
    pub sets: [usize; 6],
    /// Bytes of live data.
    pub live: u64,
    /// Bytes of data that all sets can hold.
    pub capacity: u64,
    /// Objects.
    pub objects: u64,
    /// Bytes that clients wrote.
    pub ingested: u64,
    /// Bytes that cleaning moved.
    pub moved: u64,
    /// Bytes that were computed from parity for readers.
    pub reconstructed: u64,
    /// Sets that cleaning emptied.
    pub cleaned: u64,
    /// Drives that belong to the array.
    pub drives: u64,
    /// Of them, those that are away or have failed.
    pub drives_missing: u64,
    /// Bytes of objects that are in the buffer only.
    pub buffered: u64,
    /// Drives that answer far later than their peers: what is on them is computed from others.
    pub drives_slow: u64,
    /// Reads of other fragments that were begun in the place of late ones.
    pub hedged: u64,
    /// Sets with fragments that failed readers and are yet to be verified.
    pub repairs_waiting: u64,
    /// Zones that were replaced, or whose sets were emptied, because of that.
    pub repaired: u64,
    /// Drives that were given up because they were slow for long.
    pub slow_given_up: u64,
}

/// An open array. Cheap to clone; stays on its thread.
#[derive(Clone)]
pub struct ArrayStore(pub(crate) Rc<Engine>);

/// Formats drives as an array. What they held is lost.
///
/// # Errors
/// `Invalid` if the drives cannot form an array of that shape; `Device`.
pub async fn format(rt: &Runtime, drives: &[ArrayDrive], options: &FormatOptions) -> Result<StoreId> {
    let width = options.code.width();
    let invalid = |message: String| Err(Error::new(ErrorKind::Invalid, message));
    if drives.len() < width {
        return invalid(format!("the code {} needs {width} drives; there are {}", options.code, drives.len()));
    }
    if drives.len() > usize::from(u8::MAX) {
        return invalid(format!("an array has at most {} drives", u8::MAX));
    }
    if options.segment_length == 0 || options.segment_length > 1 << 30 {
        return invalid("a segment has between 1 byte and 1 GiB of data".into());
    }
    let array = StoreId(rt.random());
    let table = Drives::default();
    let mut free = Vec::new();
    for drive in drives {
        let (entry, zones) = prepare(drive, rt.random()).await?;
        free.push((table.push(entry, Some(drive.dev.clone())), zones));
    }
    let set = |members| {
        let (end, length) = (u32::MAX, u32::MAX);
        Some(SetEntry { state: SetState::Empty, members, live: 0, covered: 0, end, length, suspect: false })
    };
    let mut superblock = Superblock {
        version: VERSION,
        array,
        generation: 1,
        code: options.code,
        segment_length: options.segment_length,
        last_stamp: rt.unix_time().nanos,
        clean: None,
        tombstone_floor: 0,
        opened: 0,
        buffer: BufferName::default(),
        copies: copies(options.code, drives.len(), 0),
        snapshot: Vec::new(),
        drives: table.entries(),
        sets: form_sets(&free, width).into_iter().map(set).collect(),
    };
    let blocks = blocks_needed(superblock.sets.len(), width, superblock.encode(None, &[]).len());
    if drives.iter().any(|drive| blocks > drive.dev.geometry().zone_capacity.0) {
        return invalid("a zone is too small for the table of zone sets: use fewer or larger zones".into());
    }
    let Superblock { sets, .. } = &mut superblock;
    let sets = SetTable::from_entries(std::mem::take(sets), &table, options.code, CleaningPolicy::Greedy);
    let first = First { rt, sets, drives: table, superblock, generation: Cell::new(0) };
    Superblocks::default().write(&first, false, true).await?.enough(&first.drives)?;
    Ok(array)
}

/// What the first superblock of an array says.
struct First<'a> {
    rt: &'a Runtime,
    sets: SetTable,
    drives: Drives,
    superblock: Superblock,
    generation: Cell<u64>,
}

impl Source for First<'_> {
    fn drives(&self) -> &Drives {
        &self.drives
    }

    fn sets(&self) -> &SetTable {
        &self.sets
    }

    fn array(&self) -> StoreId {
        self.superblock.array
    }

    fn code(&self) -> Code {
        self.superblock.code
    }

    fn copies(&self) -> u8 {
        self.superblock.copies
    }

    fn next_generation(&self) -> u64 {
        self.generation.set(self.generation.get() + 1);
        self.generation.get()
    }

    fn fields(&self) -> Superblock {
        Superblock { generation: self.next_generation(), ..self.superblock.clone() }
    }

    async fn settle(&self) -> Result<()> {
        Ok(())
    }

    async fn breathe(&self) {
        self.rt.yield_now().await;
    }
}

impl ArrayStore {
    /// Opens an array: from its index if that was left clean, else from the newest snapshot and what was written since.
    /// Drives that are missing, as long as parity makes up for them, are done without from then on; not if it is opened
    /// for reading only ([`Options::read_only`]), which writes nothing on the drives, and does with however few there are.
    ///
    /// # Errors
    /// `Format`, `Invalid`, `Device`, `Index`; `Corrupt` where something that recovery needs cannot be read, unless that is
    /// accepted ([`Options::accept_loss`]).
    pub async fn open(
        rt: &Runtime,
        drives: &[ArrayDrive],
        place: &IndexPlace,
        options: Options,
    ) -> Result<(Self, RecoveryReport)> {
        if let Some(files) = &options.buffer {
            two_files(files)?;
        }
        let files = match &options.buffer {
            None => None,
            Some(paths) if options.read_only => Some(BufferFiles(paths.each_ref().map(|path| open_to_read(rt, path)))),
            Some([first, second]) => {
                let open = |path: &PathBuf| {
                    open_file(rt, path).map_err(|error| {
                        let message = format!(
                            "the buffer's file {} cannot be used: {error}. Bring it back, or name another file in its \
                             place, which gets what the other one holds",
                            path.display()
                        );
                        Error::caused(ErrorKind::Device, message, error)
                    })
                };
                Some(BufferFiles([open(first)?, open(second)?]))
            }
        };
        Self::open_with_buffer(rt, drives, place, options, files).await
    }

    /// As [`open`](Self::open), with the buffer's files already open.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_with_buffer(
        rt: &Runtime,
        drives: &[ArrayDrive],
        place: &IndexPlace,
        options: Options,
        files: Option<BufferFiles>,
    ) -> Result<(Self, RecoveryReport)> {
        if !(RING_MIN..=RING_MAX).contains(&options.buffer_bytes) {
            return Err(Error::new(ErrorKind::Invalid, "a buffer has between 32 KiB and 2 GiB"));
        }
        let mut gathered = gather(rt, drives, options.hung_after).await?;
        let careful = !options.read_only && !options.accept_loss;
        let mut lacks = gathered.is_newest().err();
        if careful && let Some(error) = lacks {
            return Err(error);
        }
        let ids = if options.read_only { &[][..] } else { &options.readmit };
        let mut readmitted = gathered.readmit(ids)?;
        let Gathered { superblock, drives, superblocks, reports, .. } = gathered;
        if readmitted.is_empty() {
            // Before anything is touched, the index too.
            let found = enough(&drives, superblock.code, superblock.copies, lacking(&superblock, &drives));
            if careful {
                found?;
            } else {
                lacks = lacks.or(found.err());
            }
        }
        // What is read from the buffer must not stay in an index that is left as it was.
        let aside = options.read_only && superblock.buffer.id != 0;
        let place = if aside { &IndexPlace::Memory } else { place };
        let clean = superblock.clean.map(|generation| Moment { array: superblock.array, generation });
        let (index, clean) = open_index(place, clean)?;
        let (read_only, background) = (options.read_only, options.background);
        // A superblock that is not the newest may name a buffer of long ago.
        let abandon = options.abandon_buffer || lacks.is_some();
        let buffer = superblock.buffer;
        let (generation, ordered) = (superblock.clean.filter(|_| clean), superblock.clean.is_some());
        let parts =
            Parts { rt: rt.clone(), options, superblock, drives, superblocks, index, index_place: place.clone() };
        let engine = Engine::new(parts);
        engine.oversee_drives();
        engine.lifecycle.opened_clean.set(generation);
        for drive in &mut readmitted {
            engine.adopt(drive, &reports).await;
        }
        if careful {
            engine.enough_is_there()?;
        }
        let mut report = engine.recover(&reports, clean, ordered).await?;
        // What is not there may be newer than what is, or a deletion.
        report.damage.extend(lacks.map(|error| error.message));
        if read_only {
            if buffer.id != 0 {
                let Attached { notes, damage, .. } = engine.attach_buffer(files, buffer, abandon).await?;
                report.buffer = notes;
                report.damage.extend(damage);
                report.objects = engine.objects()?;
            }
            if !report.damage.is_empty() {
                // Not to be remembered, and true all the same. (LOSS-1)
                engine.lifecycle.lost_before.set(Some(engine.stamps.version()));
            }
            return Ok((Self(engine), report));
        }
        engine.buffering.named.set(BufferName::default());
        let Attached { notes, damage, unsaid } = engine.attach_buffer(files, buffer, abandon).await?;
        report.buffer = notes;
        let gaps = !damage.is_empty();
        report.damage.extend(damage);
        report.objects = engine.objects()?;
        engine.superblock.opened.set(engine.stamps.next());
        // Of two openings neither of which saw the other's superblock, the later one's counts.
        engine.superblock.generation.set(engine.superblock.generation.get().max(engine.superblock.opened.get()));
        if !ordered {
            // The process before may have been killed with all of it in caches: what was found is durable before it is shown, and
            // before a superblock counts on it. (REC-6)
            let usable = engine.drives.all_usable();
            engine.superblock.unflushed.borrow_mut().extend(usable.iter().map(|(id, _)| *id));
        }
        // From here on the index on flash is no longer that of the clean close. Nothing is appended before: where recovery ended
        // sets is durable only with this (EXAM-3).
        match readmitted.is_empty() {
            true => engine.write_superblock(None).await?,
            false => engine.write_superblock_everywhere().await?,
        }
        report.readmitted = readmitted;
        engine.seal_torn().await;
        // Deletions that a power cut kept from the buffer's log: their tombstones may be gone by the next opening (BUF-3).
        engine.bury_buffered(&unsaid).await?;
        if gaps {
            engine.leave_gaps().await;
        }
        engine.replenish().await?;
        if !report.damage.is_empty() {
            engine.remember_loss().await?;
        }
        engine.lifecycle.serving.set(true);
        if background {
            (0..engine.cleaners.most()).for_each(|others| rt.spawn_detached(engine.clone().keep_sets_free(others)));
            rt.spawn_detached(engine.clone().keep_snapshots());
            rt.spawn_detached(engine.clone().mend());
            rt.spawn_detached(engine.clone().repair_after_reads());
            if let Some(long) = engine.options.slow_for_most {
                rt.spawn_detached(engine.clone().give_up_slow(long));
            }
            rt.spawn_detached(engine.clone().flush_aged());
        }
        Ok((Self(engine), report))
    }

    pub(crate) fn engine(&self) -> &Rc<Engine> {
        &self.0
    }

    /// Begins to write a version of an object. (SMORE, section III-F.1.)
    ///
    /// # Errors
    /// `Invalid` for a name that is empty or too long.
    pub fn begin_put(&self, name: impl Into<Bytes>) -> Result<Put> {
        self.begin_put_with(name, PutHints::default())
    }

    /// The same, where something is known of the object already: it is placed so that less is moved once it is deleted.
    ///
    /// # Errors
    /// As [`begin_put`](Self::begin_put).
    pub fn begin_put_with(&self, name: impl Into<Bytes>, hints: PutHints) -> Result<Put> {
        Put::begin(&self.0, name.into(), hints)
    }

    /// No more objects of a [group](PutHints::group) come.
    pub fn end_group(&self, group: u64) {
        self.0.allocator.end_group(group);
    }

    /// Writes an object that is in memory.
    ///
    /// # Errors
    /// As [`Put::write`] and [`Put::finish`].
    pub async fn put(&self, name: impl Into<Bytes>, data: Bytes, attributes: Bytes) -> Result<Stored> {
        let hints = PutHints { length: Some(data.len() as u64), group: None };
        let mut put = self.begin_put_with(name, hints)?;
        put.write(data).await?;
        put.finish(attributes).await
    }

    /// Opens an object's newest complete version.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn open_object(&self, name: impl Into<Bytes>) -> Result<Reader> {
        Reader::open(&self.0, &name.into())
    }

    /// Reads a whole object into memory.
    ///
    /// # Errors
    /// `NotFound`; as [`Reader::read`].
    pub async fn get(&self, name: impl Into<Bytes>) -> Result<Bytes> {
        let reader = self.open_object(name)?;
        let size = reader.object().size;
        let mut whole = Vec::new();
        while (whole.len() as u64) < size {
            let at = whole.len() as u64;
            whole.extend_from_slice(&reader.read(at, size - at).await?);
        }
        Ok(whole.into())
    }

    /// An object without its bytes.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn head(&self, name: &[u8]) -> Result<Object> {
        check_name(name)?;
        let found = self.0.index()?.object(name).map_err(Error::index)?;
        let Some(found) = found else { return Err(not_found(name)) };
        let crate::index::Object { version, size, attributes } = found;
        Ok(Object { name: Bytes::copy_from_slice(name), version, size, attributes })
    }

    /// Deletes every version of an object that began before now. `false` if there was none. (SMORE, section III-F.3.)
    ///
    /// **Durability:** durable when it returns.
    ///
    /// # Errors
    /// `Device`, `NoSpace` if not even room for a tombstone can be won.
    pub async fn delete(&self, name: impl Into<Bytes>) -> Result<bool> {
        let name = name.into();
        check_name(&name)?;
        self.0.delete(name).await
    }

    /// Objects whose names begin with `prefix`, after the name `after`, by name, at most `limit`.
    ///
    /// # Errors
    /// `Index`.
    pub fn list(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Object>> {
        // What the array keeps for itself comes first, and is shown to nobody.
        let after = after.max(prefix.is_empty().then_some(OWN_NAMES_END));
        let found = self.0.index()?.list(prefix, after, limit).map_err(Error::index)?;
        let object = |(name, object): (Bytes, crate::index::Object)| {
            let crate::index::Object { version, size, attributes } = object;
            Object { name, version, size, attributes }
        };
        Ok(found.into_iter().map(object).collect())
    }

    /// Takes a snapshot of the index; writers go on.
    ///
    /// # Errors
    /// `NoSpace`, `Device`: the snapshot before it is still there then.
    pub async fn snapshot(&self) -> Result<()> {
        self.0.take_snapshot().await
    }

    /// Collects up to `sets` sets, those first from which the most is won, with all cleaners at once. How many were.
    ///
    /// # Errors
    /// `Device`, `Corrupt`.
    pub async fn gc(&self, sets: usize) -> Result<usize> {
        self.0.collect_some(sets).await
    }

    /// Gives every set that lost a zone another one, as far as there are drives to take it: what it held is computed from
    /// its other zones. Drives that nothing is left of are taken out. (SMORE, section III-G.)
    ///
    /// **Durability:** what was rebuilt stays so; after a power cut a rebuild goes on a few sets back.
    ///
    /// # Errors
    /// `NoSpace`, `Corrupt`, `Device`: why nothing could be rebuilt. A part that could not is counted in the answer.
    pub async fn rebuild(
        &self,
        options: RebuildOptions,
        progress: impl FnMut(RebuildProgress),
    ) -> Result<RebuildProgress> {
        self.0.rebuild(options, progress).await
    }

    /// Reads and verifies everything on the drives that are there, and replaces damaged zones.
    ///
    /// # Errors
    /// `Stopped`; `Device` if the table of zone sets cannot be written. Damage is in the report.
    pub async fn scrub(&self, options: ScrubOptions, progress: impl FnMut(&ScrubReport)) -> Result<ScrubReport> {
        self.0.scrub(options, progress).await
    }

    /// A step of a scrub: verifies the first zone set behind `after` that holds something, and replaces its damaged zones.
    /// Its number, and a report that counts it and those behind it as `sets`; `None` behind the last one.
    ///
    /// # Errors
    /// As [`ArrayStore::scrub`].
    pub async fn scrub_next(&self, after: Option<SetId>) -> Result<Option<(SetId, ScrubReport)>> {
        self.0.scrub_next(after).await
    }

    /// Adds a drive; what it held is lost.
    ///
    /// **Durability:** it is a part of the array when this returns.
    ///
    /// # Errors
    /// `Invalid` if it is too small or there are too many; `Device`.
    pub async fn add_drive(&self, drive: &ArrayDrive) -> Result<DriveId> {
        self.0.add_drive(drive).await
    }

    /// Takes a drive out, whether it is there or not: what it holds goes to others first. Where that stops in between,
    /// what went stays where it is.
    ///
    /// # Errors
    /// `Invalid` if too few drives would be left; `NoSpace` if they have too little room; as [`ArrayStore::rebuild`].
    pub async fn remove_drive(
        &self,
        drive: DriveId,
        options: RebuildOptions,
        progress: impl FnMut(RebuildProgress),
    ) -> Result<RebuildProgress> {
        self.0.remove_drive(drive, options, progress).await
    }

    /// How full the array is, and what it did.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn stats(&self) -> Result<Stats> {
        let (repairs_waiting, repaired, slow_given_up) = self.0.repairs.figures();
        let mut stats = Stats {
            hedged: self.0.paces.extra(),
            drives_slow: slow_drives(&self.0.slow_drives()) as u64,
            repairs_waiting,
            repaired,
            slow_given_up,
            objects: self.0.objects()?,
            ingested: self.0.counters.ingested.get(),
            moved: self.0.counters.moved.get(),
            reconstructed: self.0.counters.reconstructed.get(),
            cleaned: self.0.counters.cleaned.get(),
            buffered: self.0.buffering.buffer.borrow().as_ref().map_or(0, |buffer| buffer.bytes()),
            ..Stats::default()
        };
        for (entry, id) in self.0.drives.entries().iter().zip(self.0.drives.ids()) {
            if entry.state != DriveState::Removed {
                stats.drives += 1;
                stats.drives_missing += u64::from(self.0.drives.usable(id).is_none());
            }
        }
        stats.sets = self.0.sets.by_state();
        (stats.live, stats.capacity) = self.0.sets.bytes();
        Ok(stats)
    }

    /// Ends what is under way and leaves the index so that it is believed next time. Versions that are being written are
    /// given up.
    ///
    /// # Errors
    /// `Device`, `Index`: the index is built anew next time.
    pub async fn close(self) -> Result<()> {
        self.0.close().await
    }
}

/// How many drives some set of a superblock lacks.
fn lacking(superblock: &Superblock, drives: &Drives) -> usize {
    let sets = superblock.sets.iter().flatten().map(|set| (set.state, &set.members));
    most_lacking(sets, drives.missing())
}

/// The index, and whether it is that of the clean close which the superblock names.
fn open_index(place: &IndexPlace, clean: Option<Moment>) -> Result<(Index, bool)> {
    if let (IndexPlace::File(path), Some(moment)) = (place, clean)
        && let Some(index) = Index::open_clean(path, moment).map_err(Error::index)?
    {
        return Ok((index, true));
    }
    Ok((place.fresh()?, false))
}
