//! The objects of a server that is not running, for maintenance commands.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use shingle_array_objects::{NAMING, survey};
use shingle_array_store::{
    ArrayDrive, ArrayStore, CheckOptions, CheckReport as ArrayReport, IndexPlace, Options, Stats, check,
};
use shingle_base::{ByteSize, StoreId};
use shingle_blue_objects::{BlueEngine, Checked as BlueChecked};
use shingle_blue_store::Store;
use shingle_object_store::{CheckReport, Depth, ObjectStats, ObjectStoreClient, OpenReport};
use shingle_runtime::Runtime;
use shingle_runtime::memory::Memory;
use shingle_store_api::{ListRequest, ObjectInfo, ObjectStore};
use tokio::sync::watch;

use crate::config::{ArrayConfig, BlueConfig, Config};
use crate::data_dir::DataDir;
use crate::engines::arrays::{self, Given};
use crate::engines::blues;
use crate::engines::drive::Drive;
use crate::engines::keeper::CHUNKS;
use crate::engines::objects::Objects;
use crate::engines::opening::{self, Purpose};
use crate::error::{Error, ErrorKind, Result};
use crate::reports::health::Health;

/// The objects of a data directory and of the arrays that its configuration names, without a front end. The directory is locked
/// while this exists.
pub struct Offline {
    rt: Runtime,
    chunks: Option<Chunks>,
    arrays: Vec<ArrayConfig>,
    blues: Vec<BlueConfig>,
    memory: Arc<Memory>,
    /// The server's wait for drives.
    wait: Option<Duration>,
    directory: DataDir,
}

/// The store on the drives that belong to no array.
struct Chunks {
    client: ObjectStoreClient,
    report: OpenReport,
    drives: Vec<Drive>,
    ended: tokio::sync::oneshot::Receiver<()>,
}

/// A check's outcome.
#[derive(Debug, Default)]
pub struct Checked {
    /// Of the objects on drives that belong to no array, if there are such drives.
    pub objects: Option<CheckReport>,
    /// Of each array, by name; an error if it could not be checked.
    pub arrays: Vec<(String, Result<ArrayReport>)>,
    /// Of each blue store, by name; an error if it was not checked.
    pub blues: Vec<(String, Result<BlueChecked>)>,
}

/// Counters and sizes of a blue store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlueCounted {
    /// Objects in its buckets.
    pub objects: u64,
    /// Bytes of live data.
    pub live_bytes: u64,
    /// Bytes that its zones hold.
    pub capacity_bytes: u64,
}

/// Counters and sizes.
#[derive(Debug, Default)]
pub struct Counted {
    /// Of the objects on drives that belong to no array, if there are such drives.
    pub objects: Option<ObjectStats>,
    /// Of each array, by name.
    pub arrays: Vec<(String, Stats)>,
    /// Of each blue store, by name.
    pub blues: Vec<(String, BlueCounted)>,
}

/// Progress of a check.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// Bytes of the drives that belong to no array, done and in all.
    Drives(u64, u64),
    /// Zone sets of an array, done and in all, and their bytes.
    Array(&'a str, usize, usize, ByteSize),
    /// Bytes of a blue store, done and in all.
    Blue(&'a str, u64, u64),
}

impl Offline {
    /// Opens drives and objects, and makes neither. With `rebuild` the index is made again from the drives:
    /// `Some(true)` begins with the newest backup of it, `Some(false)` reads everything. Arrays are opened when they
    /// are looked at, for reading only.
    ///
    /// # Errors
    /// As [`Server::start`](crate::Server::start), but for those of the network.
    pub async fn open(rt: &Runtime, config: &Config, rebuild: Option<bool>) -> Result<Self> {
        Self::open_for(rt, config, &Purpose::Inspect { rebuild }).await
    }

    pub(super) async fn open_for(rt: &Runtime, config: &Config, purpose: &Purpose) -> Result<Self> {
        let mut directory = DataDir::existing(&config.data)?;
        let (arrays, blues) = (config.arrays()?, config.blues());
        let mut drives = Vec::new();
        // No client asks for its progress.
        let health = Health::new(CHUNKS, watch::Sender::default());
        let memory = config.memory();
        let opened = opening::open(config, &mut directory, &mut drives, purpose, memory.clone(), &health).await;
        let chunks = match opened {
            Ok(objects) => objects.map(|Objects { client, report, ended }| Chunks { client, report, drives, ended }),
            Err(error) => {
                opening::close_drives(drives).await;
                return Err(error);
            }
        };
        Ok(Self { rt: rt.clone(), chunks, arrays, blues, memory, wait: config.drive_wait, directory })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.rt
    }

    pub(crate) fn arrays(&self) -> &[ArrayConfig] {
        &self.arrays
    }

    pub(crate) fn blues(&self) -> &[BlueConfig] {
        &self.blues
    }

    /// The server's contributions to a blue store.
    pub(crate) fn given_blue(&self) -> blues::Given {
        blues::Given { wait: self.wait, memory: self.memory.clone() }
    }

    /// The server's contributions to an array.
    pub(crate) fn given(&self) -> Given {
        Given { wait: self.wait, memory: self.memory.clone(), damage: Arc::default() }
    }

    /// The data directory.
    pub(crate) fn data(&self) -> &Path {
        self.directory.path()
    }

    /// The store on drives that belong to no array, if there are such drives.
    pub(crate) fn client(&self) -> Option<&ObjectStoreClient> {
        self.chunks.as_ref().map(|chunks| &chunks.client)
    }

    /// The drives that belong to no array.
    pub(super) fn drives(&self) -> &[Drive] {
        self.chunks.as_ref().map_or(&[], |chunks| &chunks.drives)
    }

    /// The store on drives that belong to no array.
    fn chunks(&self) -> Result<&Chunks> {
        let none = "the configuration names no [[drive]]: `shingle array` looks after arrays, and `shingle blue` after blue stores";
        self.chunks.as_ref().ok_or_else(|| Error::new(ErrorKind::Config, none))
    }

    /// The report of opening.
    ///
    /// # Errors
    /// `Config` if there are arrays only.
    pub fn report(&self) -> Result<&OpenReport> {
        Ok(&self.chunks()?.report)
    }

    /// Drives that the objects know and that are not there, in words.
    ///
    /// # Errors
    /// `Config` if there are arrays only.
    pub fn missing(&self) -> Result<Vec<String>> {
        let known = |store: &StoreId| self.directory.drives().iter().find(|known| known.store == *store);
        let words =
            |store: &StoreId| known(store).map_or_else(|| format!("the drive with store {store}"), opening::named);
        Ok(self.report()?.missing_drives.iter().map(words).collect())
    }

    /// Compares indexes and drives; with `full`, reads and verifies every byte. `progress` is told now and then.
    ///
    /// # Errors
    /// `Store` if the check of the drives that belong to no array could not run. Damage is no error; it is in the report.
    pub async fn check(&self, full: bool, progress: impl Fn(Progress<'_>) + Clone + Send + 'static) -> Result<Checked> {
        let objects = match &self.chunks {
            None => None,
            Some(chunks) => {
                let depth = if full { Depth::Full } else { Depth::Quick };
                let tell = progress.clone();
                let check = chunks.client.check_with(depth, move |now| tell(Progress::Drives(now.done, now.all)));
                Some(check.await.map_err(failed)?)
            }
        };
        let mut arrays = Vec::new();
        for config in &self.arrays {
            arrays.push((config.name.clone(), self.check_array(config, !full, &progress).await));
        }
        let mut blues = Vec::new();
        for config in &self.blues {
            blues.push((config.name.clone(), self.check_blue(config, full, &progress).await));
        }
        Ok(Checked { objects, arrays, blues })
    }

    async fn check_array(
        &self,
        config: &ArrayConfig,
        quick: bool,
        progress: &impl Fn(Progress<'_>),
    ) -> Result<ArrayReport> {
        let drives = self.drives_of(config).await?;
        let options = CheckOptions { quick, buffer: config.buffer.clone(), naming: NAMING, ..CheckOptions::default() };
        let tell = |report: &shingle_array_store::ScrubReport| {
            progress(Progress::Array(&config.name, report.done, report.sets, ByteSize(report.bytes)));
        };
        check(&self.rt, &drives, options, tell).await.map_err(|error| of_array(config, error))
    }

    async fn check_blue(
        &self,
        config: &BlueConfig,
        full: bool,
        progress: &impl Fn(Progress<'_>),
    ) -> Result<BlueChecked> {
        let (store, engine) = self.open_blue(config).await?;
        let tell =
            |at: shingle_blue_objects::Progress| progress(Progress::Blue(&config.name, at.done_bytes, at.all_bytes));
        let checked = shingle_blue_objects::check(&store, full, tell).await.map_err(failed);
        close_blue(engine).await;
        checked
    }

    /// A blue store, open for reading only.
    pub(crate) async fn open_blue(&self, config: &BlueConfig) -> Result<(Store, BlueEngine)> {
        let health = Health::new(&config.name, watch::Sender::default());
        blues::open_to_read(&self.rt, config, &health).await
    }

    async fn drives_of(&self, config: &ArrayConfig) -> Result<Vec<ArrayDrive>> {
        let health = Health::new(&config.name, watch::Sender::default());
        let arrays::Drives { drives, away, .. } = arrays::open_drives(&self.rt, &config.drives, None, &health).await?;
        if drives.is_empty() {
            let away = arrays::words_of(&away);
            let message = format!("array {}: none of its drives is there: {away}", config.name);
            return Err(Error::new(ErrorKind::Drive, message));
        }
        Ok(drives)
    }

    /// An array, open for reading only. Its index is made from its drives: the server's own is left alone.
    pub(crate) async fn open_array(&self, config: &ArrayConfig) -> Result<ArrayStore> {
        let drives = self.drives_of(config).await?;
        let buffer = config.buffer.clone();
        let options = Options { read_only: true, background: false, buffer, naming: NAMING, ..Options::default() };
        let opened = ArrayStore::open(&self.rt, &drives, &IndexPlace::Memory, options).await;
        Ok(opened.map_err(|error| of_array(config, error))?.0)
    }

    /// Reclaims all garbage on drives that belong to no array; returns the bytes of deleted files.
    ///
    /// # Errors
    /// `Store` if there is no room for copies, or a drive fails; `Config` if there are arrays only.
    pub async fn gc(&self) -> Result<u64> {
        self.chunks()?.client.collect_garbage().await.map_err(failed)
    }

    /// Counters and sizes.
    ///
    /// # Errors
    /// `Store` if a store has stopped; as [`Offline::open`] for an array.
    pub async fn stats(&self) -> Result<Counted> {
        let objects = match &self.chunks {
            None => None,
            Some(chunks) => Some(chunks.client.stats().await.map_err(failed)?),
        };
        let mut arrays = Vec::new();
        for config in &self.arrays {
            let store = self.open_array(config).await?;
            let stats = store.stats().map_err(|error| of_array(config, error));
            store.close().await.map_err(|error| of_array(config, error))?;
            arrays.push((config.name.clone(), stats?));
        }
        let mut blues = Vec::new();
        for config in &self.blues {
            let (store, engine) = self.open_blue(config).await?;
            let stats = store.stats();
            let mut objects = 0;
            let counted = list(&engine.client(), "", &mut |_, _| objects += 1).await;
            close_blue(engine).await;
            counted?;
            let (live_bytes, capacity_bytes) = (stats.live_bytes, stats.capacity_bytes);
            blues.push((config.name.clone(), BlueCounted { objects, live_bytes, capacity_bytes }));
        }
        Ok(Counted { objects, arrays, blues })
    }

    /// Every object: its bucket and attributes.
    ///
    /// # Errors
    /// `Store` if an index fails; as [`Offline::open`] for an array.
    pub async fn list(&self, prefix: &str, mut found: impl FnMut(&str, &ObjectInfo)) -> Result<()> {
        if let Some(chunks) = &self.chunks {
            list(&chunks.client, prefix, &mut found).await?;
        }
        for config in &self.arrays {
            let store = self.open_array(config).await?;
            let listed = survey(&self.rt, store.clone(), prefix, &mut found).await;
            store.close().await.map_err(|error| of_array(config, error))?;
            listed
                .map_err(|error| Error::new(ErrorKind::Store, format!("array {}: {}", config.name, error.message)))?;
        }
        for config in &self.blues {
            let (_, engine) = self.open_blue(config).await?;
            let listed = list(&engine.client(), prefix, &mut found).await;
            close_blue(engine).await;
            listed?;
        }
        Ok(())
    }

    /// Closes objects and drives in order.
    pub async fn close(self) {
        let Some(Chunks { client, drives, ended, .. }) = self.chunks else { return };
        client.close().await;
        drop(client);
        let _ = ended.await;
        for drive in drives {
            let _ = drive.ended.await;
        }
    }
}

/// All objects of a store.
async fn list(store: &dyn ObjectStore, prefix: &str, found: &mut impl FnMut(&str, &ObjectInfo)) -> Result<()> {
    for bucket in store.list_buckets().await.map_err(failed)? {
        let mut after = None;
        loop {
            let request = ListRequest { prefix: prefix.to_owned(), delimiter: None, after, limit: 1000 };
            let page = store.list(&bucket.name, request).await.map_err(failed)?;
            page.objects.iter().for_each(|object| found(&bucket.name, object));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// Closes a blue store that was open for reading only: nothing was written.
async fn close_blue(engine: BlueEngine) {
    let _ = engine.close().await;
}

fn failed(error: shingle_store_api::StoreError) -> Error {
    Error::new(ErrorKind::Store, error.message)
}

fn of_array(config: &ArrayConfig, error: shingle_array_store::Error) -> Error {
    let error = arrays::failed(error);
    Error::new(error.kind, format!("array {}: {}", config.name, error.message))
}
