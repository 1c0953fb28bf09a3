//! An array as its users see it.

use std::path::PathBuf;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, StoreId, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::{ZoneInfo, ZoneOp, ZoneState, ZonedDevice};

use crate::buffer::{AREA_MAX, BufferFiles, open_file};
use crate::config::{FormatOptions, Options};
use crate::drives::{Drives, report_all};
use crate::engine::{Engine, Parts};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{DriveEntry, DriveState, SetEntry, Superblock};
use crate::get::{Object, Reader, not_found};
use crate::index::Index;
use crate::layout::form_sets;
use crate::put::{Put, Stored, check_name};
use crate::recovery::{RecoveryReport, Reports};
use crate::superblocks::{Found, Superblocks, newest_in, superblock_zones};
use crate::types::{DriveId, SetState};

/// A drive, and what its owner calls it.
#[derive(Clone)]
pub struct ArrayDrive {
    /// A serial number or path, for messages.
    pub name: String,
    /// The drive.
    pub dev: Rc<dyn ZonedDevice>,
}

/// Where the index is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexPlace {
    /// In memory: built from the drives each time the array is opened.
    Memory,
    /// In a file, on flash; believed only after a clean close.
    File(PathBuf),
}

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
    /// Bytes of objects that are in the buffer only.
    pub buffered: u64,
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
    for (number, drive) in drives.iter().enumerate() {
        let geometry = drive.dev.geometry();
        let zones = report_all(&drive.dev).await.map_err(|error| Error::device(&drive.name, error))?;
        if geometry.zone_count < geometry.conventional_zones + 3 {
            return invalid(format!("{}: a drive of an array needs at least 3 sequential zones", drive.name));
        }
        let superblocks = superblock_zones(&drive.dev);
        for zone in &zones {
            let usable = !matches!(zone.state, ZoneState::NotWritePointer | ZoneState::ReadOnly | ZoneState::Offline);
            if superblocks.contains(&zone.zone) && !usable {
                return invalid(format!(
                    "{}: {} cannot be written to, and would hold superblocks",
                    drive.name, zone.zone
                ));
            }
            if usable && zone.state != ZoneState::Empty {
                let reset = drive.dev.manage(zone.zone, ZoneOp::Reset).await;
                reset.map_err(|error| Error::device(&drive.name, error))?;
            }
        }
        let good = |zone: &&ZoneInfo| {
            let lost = matches!(zone.state, ZoneState::NotWritePointer | ZoneState::ReadOnly | ZoneState::Offline);
            !lost && !superblocks.contains(&zone.zone)
        };
        free.push((DriveId(number as u8), zones.iter().filter(good).map(|zone| zone.zone).collect::<Vec<ZoneId>>()));
        let entry = DriveEntry {
            id: rt.random(),
            state: DriveState::Present,
            zones: geometry.zone_count,
            zone_capacity: geometry.zone_capacity.0 as u32,
            superblock_zones: superblocks,
            name: drive.name.clone(),
        };
        table.push(entry, Some(drive.dev.clone()));
    }
    let set = |members| Some(SetEntry { state: SetState::Empty, members, live: 0, covered: 0, cut: u32::MAX });
    let superblock = Superblock {
        array,
        generation: 1,
        code: options.code,
        segment_length: options.segment_length,
        last_stamp: rt.unix_time().nanos,
        clean: None,
        tombstone_floor: 0,
        opened: 0,
        buffer: 0,
        snapshot: Vec::new(),
        drives: table.entries(),
        sets: form_sets(&free, width).into_iter().map(set).collect(),
    };
    let blocks = shingle_record::record_blocks(superblock.encode().len() as u64);
    if drives.iter().any(|drive| blocks > drive.dev.geometry().zone_capacity) {
        return invalid("a zone is too small for the table of zone sets: use fewer or larger zones".into());
    }
    Superblocks::default().write(&table, &superblock, true).await?;
    Ok(array)
}

/// What was found on the drives that were given.
struct Gathered {
    superblock: Superblock,
    drives: Drives,
    superblocks: Superblocks,
    reports: Reports,
}

/// Reads every drive's superblocks and puts the drives in their places.
async fn gather(drives: &[ArrayDrive]) -> Result<Gathered> {
    let mut found: Vec<(Found, usize, Vec<ZoneInfo>, &ArrayDrive)> = Vec::new();
    for drive in drives {
        let zones = match report_all(&drive.dev).await {
            Ok(zones) => zones,
            Err(error) => {
                tracing::warn!(drive = drive.name, %error, "a drive does not answer; it counts as missing");
                continue;
            }
        };
        let [first, second] = superblock_zones(&drive.dev).map(|zone| zones.get(zone.0 as usize));
        let (Some(first), Some(second)) = (first, second) else {
            return Err(no_array(drive));
        };
        let Some((newest, which)) = newest_in(&drive.dev, None, [first, second]).await? else {
            return Err(no_array(drive));
        };
        found.push((newest, which, zones, drive));
    }
    let Some(newest) = found.iter().map(|(found, ..)| &found.superblock).max_by_key(|found| found.generation) else {
        return Err(Error::new(ErrorKind::Invalid, "no drives were given"));
    };
    let superblock = newest.clone();
    if let Some((.., other)) = found.iter().find(|(found, ..)| found.superblock.array != superblock.array) {
        let message = format!("{} belongs to another array than the other drives", other.name);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let table = Drives::default();
    let superblocks = Superblocks::default();
    let mut reports = Reports::new();
    for (number, entry) in superblock.drives.iter().enumerate() {
        let at = found.iter().position(|(found, ..)| found.drive_id == entry.id);
        let Some(at) = at else {
            table.push(entry.clone(), None);
            continue;
        };
        let (_, which, zones, drive) = found.swap_remove(at);
        let id = DriveId(number as u8);
        table.push(DriveEntry { name: drive.name.clone(), ..entry.clone() }, Some(drive.dev.clone()));
        if let [Some(first), Some(second)] = entry.superblock_zones.map(|zone| zones.get(zone.0 as usize)) {
            superblocks.place(id, [first, second], which);
        }
        reports.insert(id, zones);
    }
    if let Some((.., stranger)) = found.first() {
        let message = format!("{} was taken out of this array: format it before it is added again", stranger.name);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let missing = table.ids().into_iter().filter(|&id| table.usable(id).is_none()).count();
    if missing > superblock.code.parity() {
        let message =
            format!("{missing} drives of the array are missing; its parity makes up for {}", superblock.code.parity());
        return Err(Error::new(ErrorKind::Device, message));
    }
    Ok(Gathered { superblock, drives: table, superblocks, reports })
}

fn no_array(drive: &ArrayDrive) -> Error {
    let message = format!("{} holds no array: format it with `shingle array format`", drive.name);
    Error::new(ErrorKind::Format, message)
}

impl ArrayStore {
    /// Opens an array: from its index if that was left clean, else from the newest snapshot and what was written since.
    /// Drives that are missing, as long as parity makes up for them, are done without from then on.
    ///
    /// # Errors
    /// `Format`, `Invalid`, `Device`, `Index`.
    pub async fn open(
        rt: &Runtime,
        drives: &[ArrayDrive],
        place: &IndexPlace,
        options: Options,
    ) -> Result<(Self, RecoveryReport)> {
        let mut files = None;
        if let Some([first, second]) = &options.buffer {
            let open = |path: &PathBuf| {
                open_file(rt, path).map_err(|error| {
                    let message = format!("the buffer's file {} cannot be used: {error}", path.display());
                    Error::caused(ErrorKind::Device, message, error)
                })
            };
            files = Some(BufferFiles([open(first)?, open(second)?]));
        }
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
        if !(4 * BLOCK_SIZE as u32..=AREA_MAX).contains(&options.buffer_area) {
            return Err(Error::new(ErrorKind::Invalid, "half of a buffer has between 16 KiB and 1 GiB"));
        }
        let Gathered { superblock, drives, superblocks, reports } = gather(drives).await?;
        let (index, clean) = open_index(place, superblock.clean)?;
        let (background, abandon, buffer) = (options.background, options.abandon_buffer, superblock.buffer);
        let parts =
            Parts { rt: rt.clone(), options, superblock, drives, superblocks, index, index_place: place.clone() };
        let engine = Engine::new(parts);
        let mut report = engine.recover(&reports, clean).await?;
        engine.buffer_id.set(0);
        engine.attach_buffer(files, buffer, abandon).await?;
        report.objects = engine.index()?.objects();
        engine.opened.set(engine.stamps.next());
        // From here on the index on flash is no longer that of the clean close.
        engine.write_superblock(None).await?;
        engine.replenish().await?;
        if background {
            rt.spawn_detached(engine.clone().keep());
        }
        Ok((Self(engine), report))
    }

    /// Begins to write a version of an object. (SMORE, section III-F.1.)
    ///
    /// # Errors
    /// `Invalid` for a name that is empty or too long.
    pub fn begin_put(&self, name: impl Into<Bytes>) -> Result<Put> {
        Put::begin(&self.0, name.into())
    }

    /// Writes an object that is in memory.
    ///
    /// # Errors
    /// As [`Put::write`] and [`Put::finish`].
    pub async fn put(&self, name: impl Into<Bytes>, data: Bytes, attributes: Bytes) -> Result<Stored> {
        let mut put = self.begin_put(name)?;
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
        self.0.delete(name.into()).await
    }

    /// Objects whose names begin with `prefix`, after the name `after`, by name, at most `limit`.
    ///
    /// # Errors
    /// `Index`.
    pub fn list(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<Object>> {
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

    /// Collects up to `sets` sets, those first from which the most is won. How many were.
    ///
    /// # Errors
    /// `Device`, `Corrupt`.
    pub async fn gc(&self, sets: usize) -> Result<usize> {
        for done in 0..sets {
            if self.0.victim().is_none() || !self.0.reclaim().await? {
                return Ok(done);
            }
        }
        Ok(sets)
    }

    /// How full the array is, and what it did.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn stats(&self) -> Result<Stats> {
        let mut stats = Stats {
            objects: self.0.index()?.objects(),
            ingested: self.0.counters.ingested.get(),
            moved: self.0.counters.moved.get(),
            reconstructed: self.0.counters.reconstructed.get(),
            cleaned: self.0.counters.cleaned.get(),
            buffered: self.0.buffer.borrow().as_ref().map_or(0, |buffer| buffer.bytes()),
            ..Stats::default()
        };
        for (_, set) in self.0.sets.all() {
            stats.sets[usize::from(set.state.get().number()) - 1] += 1;
            stats.live += set.live.get();
            stats.capacity += self.0.set_data(&set);
        }
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

/// The index, and whether it is that of the clean close which the superblock names.
fn open_index(place: &IndexPlace, clean: Option<u64>) -> Result<(Index, bool)> {
    if let (IndexPlace::File(path), Some(generation)) = (place, clean)
        && let Some(index) = Index::open_clean(path, generation).map_err(Error::index)?
    {
        return Ok((index, true));
    }
    Ok((place.fresh()?, false))
}

impl IndexPlace {
    /// An empty index there.
    pub(crate) fn fresh(&self) -> Result<Index> {
        match self {
            Self::Memory => Index::memory(),
            Self::File(path) => Index::create(path),
        }
        .map_err(Error::index)
    }
}
