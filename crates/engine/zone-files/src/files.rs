//! Files on a zoned drive: the store as a whole.

use std::rc::Rc;

use shingle_base::{Blocks, StoreId};
use shingle_record::{InUse, MetaLog, SequenceSource, check_unused, write_superblock_pair};
use shingle_runtime::{Runtime, UnixTime};
use shingle_zone_kit::give_up_active;
use shingle_zoned::{ZoneOp, ZonedDevice};

use crate::config::{CreateOptions, FormatOptions, Options};
use crate::drive::log_config;
use crate::engine::Engine;
use crate::error::{FilesError, FilesErrorKind, FilesResult, shown};
use crate::format::{ENGINE, VERSION};
use crate::handle::{File, FileInfo};
use crate::identity::{Identity, identity};
use crate::layout::Layout;
use crate::names::Place;
use crate::recovery::{RecoveryReport, find};
use crate::stats::FilesStats;
use crate::tree::{Child, parts};

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Its name.
    pub name: String,
    /// The file; `None` for a directory.
    pub file: Option<FileInfo>,
}

/// A lock on a path, until it is dropped. It lives in memory: the drive has one owner.
pub struct FileLock {
    engine: Rc<Engine>,
    place: Vec<String>,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        self.engine.state.borrow_mut().locks.remove(&self.place);
    }
}

/// Files on a zoned drive. A cheap handle; stays on the thread of its runtime.
///
/// Changes of names are durable when their calls return.
#[derive(Clone)]
pub struct ZoneFiles {
    engine: Rc<Engine>,
}

impl ZoneFiles {
    /// Makes an empty store of files on a drive. Durable when it returns.
    ///
    /// # Errors
    /// `Invalid` if the drive is too small, or holds a store or data and `force` is not given; `Device`.
    pub async fn format(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: FormatOptions) -> FilesResult<StoreId> {
        let geometry = dev.geometry().clone();
        let (layout, block) = Layout::choose(&geometry, &options)?;
        if !options.force {
            refuse_used(&dev, &layout).await?;
        }
        give_up_active(&dev, &layout.data_zones).await?;
        let store = options.store.unwrap_or_else(|| StoreId(rt.random()));
        let superblock = shingle_record::Superblock {
            store,
            engine: ENGINE,
            version: VERSION,
            formatted: rt.unix_time(),
            payload: block.encode().into(),
        };
        let log = MetaLog::format(rt, &dev, log_config(store, &layout, 1), SequenceSource::default()).await?;
        if log.needs_checkpoint() {
            let text = "too few of the zones for metadata can be written to; format with more of them";
            return Err(FilesError::new(FilesErrorKind::Device, text));
        }
        // Last, so that a format that was cut short leaves no store.
        let written = write_superblock_pair(&dev, layout.superzone(), &superblock).await?;
        if written.len() < layout.superzones.len() {
            tracing::warn!("a zone of superblocks can be written no more: the store has one");
        }
        if geometry.active_zones_max.is_some() {
            for zone in written {
                dev.manage(zone, ZoneOp::Finish).await?;
            }
        }
        Ok(store)
    }

    /// Opens the files on a drive, and starts their background work.
    ///
    /// # Errors
    /// `Invalid` if the drive holds no files, or those of another version; `Corrupt` or `Unavailable` if metadata are damaged or
    /// cannot be read, or the end of a log; `Device`.
    pub async fn open(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: Options) -> FilesResult<(Self, RecoveryReport)> {
        let (engine, report) = find(rt, dev, options).await?.start().await?;
        Ok((Self { engine }, report))
    }

    /// Opens the files for reading alone: changes are refused, and nothing is written to the drive.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn examine(
        rt: &Runtime,
        dev: Rc<dyn ZonedDevice>,
        options: Options,
    ) -> FilesResult<(Self, RecoveryReport)> {
        let (engine, report) = find(rt, dev, options).await?.examined();
        Ok((Self { engine }, report))
    }

    /// Identity of the store of files on a drive, from its superblock alone.
    ///
    /// # Errors
    /// `Invalid` if the drive holds no files, or those of another version; `Corrupt`, `Device`.
    pub async fn identify(dev: &Rc<dyn ZonedDevice>) -> FilesResult<StoreId> {
        let Identity { store, .. } = identity(dev).await?;
        Ok(store)
    }

    pub(crate) fn engine(&self) -> &Rc<Engine> {
        &self.engine
    }

    /// Makes an empty file, in place of one that has the name. Its name is durable when the call returns.
    ///
    /// # Errors
    /// `NotFound` without its directory, `Exists` if the name is taken and the file was to be new, `IsDirectory`, `NoSpace`, `Invalid`.
    pub async fn create(&self, path: &str, options: CreateOptions) -> FilesResult<File> {
        self.create_at(Place::Path(path), &options).await
    }

    pub(crate) async fn create_at(&self, at: Place<'_>, options: &CreateOptions) -> FilesResult<File> {
        let (serial, entry) = self.engine.create(at, options).await?;
        // From here on the handle lets go of it, also if the call is given up.
        let file = File::new(self.engine.clone(), serial);
        self.engine.journaled(entry).await?;
        Ok(file)
    }

    /// Opens a file, to be read and appended to.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotDirectory`.
    pub fn open_file(&self, path: &str) -> FilesResult<File> {
        self.open_at(Place::Path(path))
    }

    pub(crate) fn open_at(&self, at: Place<'_>) -> FilesResult<File> {
        let mut state = self.engine.state.borrow_mut();
        state.running()?;
        let serial = at.file(&state.tree)?;
        state.active_mut(serial).opens += 1;
        Ok(File::new(self.engine.clone(), serial))
    }

    /// Removes a file's name, durably. The file goes with its last name and its last handle.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotDirectory`.
    pub async fn remove(&self, path: &str) -> FilesResult<()> {
        self.engine.unlink(Place::Path(path)).await
    }

    /// Gives a file or directory another name, durably. A file or empty directory that has it is removed in the same step.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotDirectory`, `NotEmpty`; `Invalid` for a directory that would be below itself.
    pub async fn rename(&self, from: &str, to: &str) -> FilesResult<()> {
        self.engine.rename(Place::Path(from), Place::Path(to)).await
    }

    /// Gives a file one more name, durably.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `IsDirectory`, `NotDirectory`, `NoSpace`.
    pub async fn link(&self, from: &str, to: &str) -> FilesResult<()> {
        self.engine.link(from, to).await
    }

    /// Makes a directory, durably.
    ///
    /// # Errors
    /// `NotFound` without the directory above, `Exists`, `NotDirectory`, `NoSpace`.
    pub async fn make_dir(&self, path: &str) -> FilesResult<()> {
        self.engine.make_dir(path).await
    }

    /// Removes an empty directory, durably.
    ///
    /// # Errors
    /// `NotFound`, `NotEmpty`, `NotDirectory`.
    pub async fn remove_dir(&self, path: &str) -> FilesResult<()> {
        self.engine.remove_dir(path).await
    }

    /// Makes a directory durable, with all its names: they are already. For callers that think in other file systems.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`; `Unavailable` once the files have stopped.
    pub fn sync_dir(&self, path: &str) -> FilesResult<()> {
        self.engine.state.borrow().running()?;
        self.list(path).map(drop)
    }

    /// Entries of a directory, by name.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    pub fn list(&self, path: &str) -> FilesResult<Vec<DirEntry>> {
        let entries: Vec<(String, Child)> = {
            let state = self.engine.state.borrow();
            let Child::Dir(dir) = state.tree.find(path)? else {
                let text = format!("`{}` is a file, not a directory", shown(path));
                return Err(FilesError::new(FilesErrorKind::NotDirectory, text));
            };
            let entries = state.tree.dir(dir).into_iter().flat_map(|dir| dir.entries.iter());
            entries.map(|(name, child)| (name.clone(), *child)).collect()
        };
        let entry = |(name, child)| match child {
            Child::Dir(_) => DirEntry { name, file: None },
            Child::File(serial) => DirEntry { name, file: self.engine.info(serial) },
        };
        Ok(entries.into_iter().map(entry).collect())
    }

    /// A file or directory by its path. `None` for a directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    pub fn stat(&self, path: &str) -> FilesResult<Option<FileInfo>> {
        let found = self.engine.state.borrow().tree.find(path)?;
        match found {
            Child::Dir(_) => Ok(None),
            Child::File(serial) => Ok(self.engine.info(serial)),
        }
    }

    /// Sets the time of a file's last change, durably.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotDirectory`.
    pub async fn set_modified(&self, path: &str, time: UnixTime) -> FilesResult<()> {
        self.engine.set_modified(path, time).await
    }

    /// Locks a path, whether or not there is such a file. Paths that lead to one file have one lock: `a`, `/a` and `./a`. (ZF-TREE-3)
    ///
    /// # Errors
    /// `Locked` if another has the lock; `Invalid` for a path with `..`, which leads nowhere.
    pub fn lock(&self, path: &str) -> FilesResult<FileLock> {
        let place: Vec<String> = parts(path).map(str::to_owned).collect();
        if place.iter().any(|part| part == "..") {
            let text = format!("`{}` leads nowhere: no path has `..`", shown(path));
            return Err(FilesError::new(FilesErrorKind::Invalid, text));
        }
        if !self.engine.state.borrow_mut().locks.insert(place.clone()) {
            return Err(FilesError::new(FilesErrorKind::Locked, format!("`{}` is locked by another", shown(path))));
        }
        Ok(FileLock { engine: self.engine.clone(), place })
    }

    /// Fails once the files have stopped, with the reason.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn running(&self) -> FilesResult<()> {
        self.engine.state.borrow().running()
    }

    /// Writes a checkpoint: the next opening reads what was written since.
    ///
    /// # Errors
    /// `Unavailable` once the files have stopped.
    pub async fn checkpoint(&self) -> FilesResult<()> {
        self.engine.writable()?;
        self.engine.checkpoint().await
    }

    /// Takes no more changes, makes all that was appended durable, and writes a checkpoint.
    ///
    /// # Errors
    /// `NoSpace` if appended bytes have no room, `Device` if some were lost with a zone; all else is durable then. `Unavailable` once the files
    /// have stopped.
    pub async fn close(self) -> FilesResult<()> {
        self.engine.close().await
    }

    /// The store's identity.
    pub fn store(&self) -> StoreId {
        self.engine.drive.store
    }

    /// The drive's zones that hold bytes of files; those before hold metadata.
    pub fn data_zones(&self) -> std::ops::Range<u32> {
        self.engine.drive.layout.data_zones.clone()
    }

    /// Bytes that can still be written, once zones are cleaned: the figure of [`stats`](Self::stats) by itself, for one who asks often.
    pub fn free_bytes(&self) -> u64 {
        let state = self.engine.state.borrow();
        // Only zones that failed, and are in use still, are looked for: few drives have any.
        let in_broken = match state.zones.broken_in_use() {
            0 => 0,
            _ => state.zones.iter().filter(|(_, zone)| zone.broken).map(|(_, zone)| zone.live).sum(),
        };
        let layout = &self.engine.drive.layout;
        let usable = (layout.data_zones.len() as u64).saturating_sub(u64::from(state.zones.broken()));
        let room = usable.saturating_sub(KEPT_FREE).saturating_mul(layout.zone_bytes());
        room.saturating_sub(Blocks(state.zones.live() - in_broken).bytes())
    }

    /// The files in numbers.
    pub fn stats(&self) -> FilesStats {
        let state = self.engine.state.borrow();
        let zones = || state.zones.iter().map(|(_, zone)| zone);
        let (files, directories) = state.tree.counts();
        let zone_bytes = self.engine.drive.layout.zone_bytes();
        let live = state.zones.live();
        FilesStats {
            counters: state.counters,
            files,
            directories,
            extents: state.extents,
            capacity_bytes: zones().count() as u64 * zone_bytes,
            live_bytes: Blocks(live).bytes(),
            free_bytes: self.free_bytes(),
            zones: zones().count() as u32,
            zones_free: state.zones.free(),
            zones_open: state.zones.open_zones().len() as u32,
            zones_broken: state.zones.broken(),
        }
    }
}

/// Zones that are never filled: those that copies need, and the ends of open ones.
const KEPT_FREE: u64 = 4;

async fn refuse_used(dev: &Rc<dyn ZonedDevice>, layout: &Layout) -> FilesResult<()> {
    check_unused(dev, layout.superzone()).await.map_err(|error| match error {
        InUse::Device(error) => error.into(),
        InUse::Holds(words) => {
            let next = "if nobody needs it, force the format (`shingle files format --force`)";
            FilesError::new(FilesErrorKind::Invalid, format!("the drive holds {words}; {next}"))
        }
    })
}
