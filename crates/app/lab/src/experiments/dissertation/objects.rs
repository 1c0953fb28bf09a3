//! Stores of objects under one load: BlueStore's commands on drives without zones, and this project's store on zones.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use shingle_blue_store::{
    BlueError, CollectionId, CollectionInfo, FormatOptions, ObjectId, Options, Placement, Store, Transaction, Victims,
};
use shingle_drive_model::{Kind, Profile};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Runtimes};

use crate::baseline::raw_objects::RawObjects;
use crate::error::LabError;
use crate::load::times::{Summary, Times};
use crate::rig::blocks::DriveBlocks;
use crate::rig::drives::LabDrive;
use crate::rig::host::{Host, HostDevice};

/// The pool of all objects, and its collections: placement groups, to which objects go by their hashes.
const POOL: u64 = 1;
const COLLECTION_BITS: u8 = 4;

/// Bytes of a piece of zeros.
const PIECE: usize = 4 << 20;

/// Configuration of the store on zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Configuration {
    /// All data in one zone at a time, the lowest free one first; greedy cleaning. (Section 5.7.1)
    Paper,
    /// The project's own defaults.
    Ours,
    /// The same, but cleaning goes on until half of the zones are in use.
    Cleaning,
}

/// Objects.
#[derive(Clone)]
pub(super) enum Objects {
    Raw(RawObjects),
    Zones(Rc<OnZones>),
}

/// Objects on zones.
pub(super) struct OnZones {
    store: Store,
    zeros: Bytes,
    ids: RefCell<BTreeMap<u64, ObjectId>>,
}

impl From<BlueError> for LabError {
    fn from(error: BlueError) -> Self {
        Self(format!("objects on zones: {error}"))
    }
}

fn options(configuration: Configuration) -> Options {
    // Nothing is kept in memory, so that reads are of the drive.
    let options = Options { cache_bytes: 8 << 20, ..Options::default() };
    match configuration {
        Configuration::Ours => options,
        Configuration::Cleaning => Options { clean_at: 0.5, ..options },
        Configuration::Paper => Options { placement: Placement::LowestZoneFirst, victims: Victims::Greedy, ..options },
    }
}

impl Objects {
    /// No objects, on a fresh drive, of which only the first `zones` are used if it has any.
    pub(super) async fn format(
        runtimes: &Runtimes,
        profile: &Profile,
        host: Host,
        configuration: Configuration,
        zones: u32,
    ) -> Result<Self, LabError> {
        let rt = &runtimes.program;
        if !matches!(profile.kind, Kind::HmSmr | Kind::Zns) {
            let blocks = Rc::new(DriveBlocks::of_profile(&runtimes.hardware, profile, host)?);
            return Ok(Self::Raw(RawObjects::new(rt, blocks, profile.mechanics.is_some())));
        }
        let drive = LabDrive::of(profile.clone()).first_zones(zones);
        let device = HostDevice::of_program(runtimes, host, drive.device(&runtimes.hardware, drive.medium()));
        Store::format(rt, device.clone(), FormatOptions::default()).await?;
        let (store, _) = Store::open(rt, device, options(configuration)).await?;
        for seed in 0..1 << COLLECTION_BITS {
            let id = CollectionId { pool: POOL, seed };
            store.create_collection(CollectionInfo { id, bits: COLLECTION_BITS }).await?;
        }
        Ok(Self::Zones(Rc::new(OnZones { store, zeros: vec![0; PIECE].into(), ids: RefCell::default() })))
    }

    /// Writes a new object durably, with so many bytes of metadata beside it.
    pub(super) async fn write(&self, object: u64, bytes: u64, metadata: usize) -> Result<(), LabError> {
        match self {
            Self::Raw(objects) => Ok(objects.write(object, bytes).await?),
            Self::Zones(objects) => objects.write(object, bytes, metadata).await,
        }
    }

    /// Reads all of an object.
    pub(super) async fn read(&self, object: u64, bytes: u64) -> Result<(), LabError> {
        match self {
            Self::Raw(objects) => Ok(objects.read(object).await?),
            Self::Zones(objects) => {
                let id = objects.id(object);
                objects.store.read(&id, 0, bytes).await?;
                Ok(())
            }
        }
    }

    /// Removes an object from zones.
    pub(super) async fn remove(&self, object: u64) -> Result<(), LabError> {
        let Self::Zones(objects) = self else { return Ok(()) };
        let id = objects.id(object);
        let mut transaction = Transaction::new();
        transaction.remove(&id);
        Ok(objects.store.submit(collection(&id), transaction).await?)
    }

    /// Zones that were emptied by copying.
    pub(super) fn cleaned(&self) -> u64 {
        match self {
            Self::Raw(_) => 0,
            Self::Zones(objects) => objects.store.stats().counters.cleaned,
        }
    }
}

fn collection(id: &ObjectId) -> CollectionId {
    CollectionId { pool: POOL, seed: id.hash & ((1 << COLLECTION_BITS) - 1) }
}

impl OnZones {
    fn id(&self, object: u64) -> ObjectId {
        let ids = &mut *self.ids.borrow_mut();
        ids.entry(object).or_insert_with(|| ObjectId::new(POOL, format!("benchmark_data_{object:012}"))).clone()
    }

    async fn write(&self, object: u64, bytes: u64, metadata: usize) -> Result<(), LabError> {
        let id = self.id(object);
        let mut transaction = Transaction::new();
        let mut at = 0;
        while at < bytes {
            let length = (bytes - at).min(PIECE as u64);
            transaction.write(&id, at, self.zeros.slice(..length as usize));
            at += length;
        }
        if metadata > 0 {
            transaction.omap_set(&id, b"metadata".to_vec(), self.zeros.slice(..metadata));
        }
        Ok(self.store.submit(collection(&id), transaction).await?)
    }
}

/// Writes objects of one size, numbered from `first` on, so many at once. Returns the seconds that it took, and the times.
pub(super) async fn write_all(
    rt: &Runtime,
    objects: &Objects,
    (first, count): (u64, u64),
    bytes: u64,
    writers: u64,
) -> Result<(f64, Summary), LabError> {
    let (began, times) = (rt.now(), RefCell::new(Times::default()));
    let times_of = &times;
    let writer = |writer: u64| async move {
        for object in (first + writer..first + count).step_by(writers as usize) {
            let began = rt.now();
            objects.write(object, bytes, 0).await?;
            times_of.borrow_mut().note(began, rt.now());
        }
        Ok::<(), LabError>(())
    };
    try_join_all((0..writers).map(writer)).await?;
    let took = rt.now().since(began).as_secs_f64();
    Ok((took, times.into_inner().summary()))
}

/// Reads objects at random, so many in all, of those below `below` that `keeps` says are there, `readers` at once. Returns the seconds that
/// it took, and the times.
pub(super) async fn read_some(
    rt: &Runtime,
    objects: &Objects,
    (below, count): (u64, u64),
    (bytes, readers): (u64, u64),
    (seed, keeps): (u64, impl Fn(u64) -> bool + Copy),
) -> Result<(f64, Times), LabError> {
    let (began, times) = (rt.now(), RefCell::new(Times::default()));
    let times_of = &times;
    let reader = |reader: u64| async move {
        let mut random = Random::new(seed.wrapping_mul(1009).wrapping_add(reader));
        for _ in (reader..count).step_by(readers as usize) {
            let object = loop {
                let drawn = random.below(below);
                if keeps(drawn) {
                    break drawn;
                }
            };
            let began = rt.now();
            objects.read(object, bytes).await?;
            times_of.borrow_mut().note(began, rt.now());
        }
        Ok::<(), LabError>(())
    };
    try_join_all((0..readers).map(reader)).await?;
    let took = rt.now().since(began).as_secs_f64();
    Ok((took, times.into_inner()))
}

/// Time for drives to tidy up. (Section 5.8.2: "a few hours")
pub(super) const QUIET: Duration = Duration::from_secs(3 * 3600);
