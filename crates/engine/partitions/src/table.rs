//! The table of a drive's partitions: a metadata log whose every entry is the whole table.
//!
//! # Invariants
//! - PT-TABLE-1: a change is there as a whole once its call returns, and as a whole or not at all after a power cut.
//! - PT-TABLE-2: a table that cannot be read or makes no sense is an error: no zone of it passes for free.
//! - PT-TABLE-3: zones of a partition that was just made hold nothing, but for those that can be written no more, and a superblock is in
//!   none of these: no former store is found in it. All zones of a partition are reset before it is removed, so zones that no
//!   partition has are not active, as far as the drive resets or finishes them.
//! - PT-TABLE-4: an addition changes no partition that is there, and no zone of it, whatever limits the drive tells of by then.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{ByteSize, StoreId, ZoneId};
use shingle_record::{
    EngineName, MetaLog, MetaLogConfig, MetaLogError, NotOwned, Owned, Recovered, SequenceSource, SuperblockPlace,
    read_owner,
};
use shingle_runtime::Runtime;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use shingle_zoned::{Geometry, ZoneRange, ZonedDevice};

use crate::format::{ENGINE, META_ZONE_KIND, Superblock, VERSION, decode, encode};
use crate::partition::Partition;
use crate::plan::{self, Ground, SUPERZONES, TABLE_SHARE, Wanted};
use crate::zones::{self, Stuck, device_error};

/// Zones of the table beside the superblock's: enough for one that fails.
const METAZONES: u32 = 5;

/// Reads in flight while the table is opened.
const READ_DEPTH: u32 = 4;

const NAME: EngineName = EngineName {
    engine: ENGINE,
    versions: VERSION..=VERSION,
    store: "a partition table",
    none: "the drive has no partitions: make some first (`shingle drive partition`)",
    other: "the drive has no partitions: all of it is one store",
};

/// The table of an open drive.
pub struct PartitionTable {
    dev: Rc<dyn ZonedDevice>,
    log: MetaLog,
    sequence: SequenceSource,
    data: Range<u32>,
    partitions: RefCell<Vec<Partition>>,
}

/// The partitions of a drive. Writes nothing.
///
/// # Errors
/// As [`PartitionTable::open`].
pub async fn look(rt: &Runtime, dev: &Rc<dyn ZonedDevice>) -> StoreResult<Vec<Partition>> {
    Ok(find(rt, dev).await?.partitions.into_inner())
}

/// Runs of zones of such a drive that none of its partitions has.
pub fn free_zones(geometry: &Geometry, partitions: &[Partition]) -> Vec<Range<u32>> {
    plan::free(&data_zones(geometry), partitions)
}

/// Zones for partitions.
fn data_zones(geometry: &Geometry) -> Range<u32> {
    geometry.conventional_zones + 1 + METAZONES..geometry.zone_count
}

impl PartitionTable {
    /// Makes an empty table on a drive. Durable when it returns.
    ///
    /// # Errors
    /// `Invalid` if the drive is too small, or anything was written to it and `force` is not given; `Device`.
    pub async fn format(rt: &Runtime, dev: &Rc<dyn ZonedDevice>, force: bool) -> StoreResult<()> {
        let geometry = dev.geometry().clone();
        let superzone = ZoneId(geometry.conventional_zones);
        if data_zones(&geometry).is_empty() {
            return invalid(format!("the drive has too few zones: its partition table takes {}", 1 + METAZONES));
        }
        if is_short(&geometry) {
            return invalid(format!("a partition table takes {TABLE_SHARE} open zones, and partitions some more"));
        }
        if !force {
            refuse_used(dev, superzone).await?;
        }
        let place = SuperblockPlace::prepare(dev, superzone).await.map_err(device_error)?;
        // Its superblock first: whatever was there is gone then.
        let mut stuck = Stuck::default();
        zones::empty(dev, superzone.0..superzone.0 + 1, &mut stuck).await?;
        zones::empty(dev, superzone.0 + 1..data_zones(&geometry).start, &mut stuck).await?;
        stuck.none()?;
        // Others that are stuck are no partition's. (PT-PLAN-3)
        zones::empty(dev, data_zones(&geometry), &mut Stuck::default()).await?;
        let store = StoreId(rt.random());
        let log = MetaLog::format(rt, dev, log_config(store, superzone), SequenceSource::default());
        log.await.map_err(log_error)?;
        let block = Superblock {
            zone_size: geometry.zone_size.0,
            capacity: geometry.zone_capacity.0,
            zone_count: geometry.zone_count,
            metazones: METAZONES,
        };
        let superblock = shingle_record::Superblock {
            store,
            engine: ENGINE,
            version: VERSION,
            formatted: rt.unix_time(),
            payload: block.encode().into(),
        };
        // Last, so that a format that was cut short leaves no table.
        place.write(&superblock).await.map_err(device_error)
    }

    /// Opens the table of a drive.
    ///
    /// # Errors
    /// `Invalid` if the drive has none, or one of another version or drive; `Corrupt` if it is damaged, `Device`.
    pub async fn open(rt: &Runtime, dev: &Rc<dyn ZonedDevice>) -> StoreResult<Self> {
        let table = find(rt, dev).await?;
        // It is acted on from here on.
        dev.flush().await.map_err(device_error)?;
        if table.log.needs_checkpoint() {
            table.checkpoint().await?;
        }
        Ok(table)
    }

    /// The partitions, in the order of their zones.
    pub fn partitions(&self) -> Vec<Partition> {
        self.partitions.borrow().clone()
    }

    /// Runs of zones that no partition has.
    pub fn free(&self) -> Vec<Range<u32>> {
        plan::free(&self.data, &self.partitions.borrow())
    }

    /// Makes partitions, all or none. Durable when it returns.
    ///
    /// # Errors
    /// `Invalid` for names that make no sense or are taken, and for more zones or larger shares than there are; `Device`.
    pub async fn add(&mut self, rt: &Runtime, wanted: &[Wanted]) -> StoreResult<()> {
        let there = self.partitions();
        let mut stuck = Stuck::default();
        let new = loop {
            let dead = zones::dead(&self.dev, self.data.clone()).await?;
            let ground = Ground { data: self.data.clone(), dead, stuck: stuck.zones().collect() };
            let new = plan::add(self.dev.geometry(), &ground, &there, wanted, rt.unix_time())?;
            if self.empty(&new, &mut stuck).await? {
                break new;
            }
            // Each turn knows of more zones than the one before.
        };
        self.change(plan::joined(&there, &new)).await
    }

    /// Empties zones of new partitions. False if they make none: one is stuck, or one that a superblock may be in failed for good.
    async fn empty(&self, new: &[Partition], stuck: &mut Stuck) -> StoreResult<bool> {
        for Partition { zones, .. } in new {
            zones::empty(&self.dev, zones.clone(), stuck).await?;
            let dead = zones::dead(&self.dev, first_of(zones)).await?;
            if !dead.is_empty() || zones.clone().any(|zone| stuck.has(zone)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes a partition. **All that it holds is lost**, but for the zones that are returned: the drive does not empty them, so what they hold
    /// can still be read. Durable when it returns.
    ///
    /// # Errors
    /// `Invalid` if there is none of that name, `Device`.
    pub async fn remove(&mut self, name: &str) -> StoreResult<Vec<u32>> {
        let zones = self.find(name)?.zones;
        let mut stuck = Stuck::default();
        // The superblock of a store first: no half of it is found.
        zones::empty(&self.dev, first_of(&zones), &mut stuck).await?;
        let rest = first_of(&zones).end..zones.end;
        if !rest.is_empty() {
            zones::empty(&self.dev, rest, &mut stuck).await?;
        }
        let left = self.partitions().into_iter().filter(|partition| partition.name != name).collect();
        self.change(left).await?;
        zones::readable(&self.dev, zones).await
    }

    /// A partition as a drive of its own, with its part of the limits that the drive has now.
    ///
    /// # Errors
    /// `Invalid` if there is none of that name, or the drive's limits are too low for so many; `Device`.
    pub async fn view(&self, name: &str) -> StoreResult<ZoneRange> {
        let partition = self.find(name)?;
        let share = plan::given(self.dev.geometry(), &self.partitions.borrow(), &partition)?;
        if share != partition.share {
            tracing::warn!(
                "partition `{name}` has {share:?} of the drive's limits, which are others than when it was made"
            );
        }
        let Range { start, end } = partition.zones;
        let range = ZoneRange::new(self.dev.clone(), ZoneId(start), end - start, share).await;
        range.map_err(|error| StoreError::caused(StoreErrorKind::Device, error.to_string(), error))
    }

    /// The partition of that name.
    ///
    /// # Errors
    /// `Invalid` with the names of others.
    pub fn find(&self, name: &str) -> StoreResult<Partition> {
        let partitions = self.partitions();
        if let Some(found) = partitions.iter().find(|partition| partition.name == name) {
            return Ok(found.clone());
        }
        let names: Vec<_> = partitions.into_iter().map(|partition| partition.name).collect();
        let others = if names.is_empty() { "it has none".to_owned() } else { format!("it has {}", names.join(", ")) };
        invalid(format!("the drive has no partition `{name}`: {others}"))
    }

    async fn change(&mut self, table: Vec<Partition>) -> StoreResult<()> {
        if self.log.needs_checkpoint() || !self.log.has_journal_room() {
            self.checkpoint().await?;
        }
        let number = self.sequence.next();
        self.log.append(encode(&table), number).await.map_err(log_error)?;
        *self.partitions.borrow_mut() = table;
        Ok(())
    }

    async fn checkpoint(&self) -> StoreResult<()> {
        let bytes = encode(&self.partitions.borrow());
        let mut writer = self.log.begin_checkpoint().await.map_err(log_error)?;
        writer.part(bytes).await.map_err(log_error)?;
        writer.finish().await.map_err(log_error)
    }
}

fn invalid<T>(text: String) -> StoreResult<T> {
    Err(StoreError::new(StoreErrorKind::Invalid, text))
}

/// Those zones of a partition that a superblock may be in.
fn first_of(zones: &Range<u32>) -> Range<u32> {
    zones.start..zones.end.min(zones.start + SUPERZONES)
}

fn is_short(geometry: &Geometry) -> bool {
    let limits = [geometry.open_zones_max, geometry.active_zones_max];
    limits.into_iter().flatten().any(|limit| limit <= TABLE_SHARE)
}

fn log_config(store: StoreId, superzone: ZoneId) -> MetaLogConfig {
    let zones = superzone.0 + 1..superzone.0 + 1 + METAZONES;
    MetaLogConfig { store, zones, zone_kind: META_ZONE_KIND, read_depth: READ_DEPTH }
}

async fn refuse_used(dev: &Rc<dyn ZonedDevice>, first: ZoneId) -> StoreResult<()> {
    let zones = zones::report(dev, first.0..dev.geometry().zone_count).await?;
    let written: u64 = zones.iter().map(|info| info.written.bytes()).sum();
    if written == 0 {
        return Ok(());
    }
    invalid(format!("{} in zones of the drive would be lost: add --force to go on all the same", ByteSize(written)))
}

/// Finds the table of a drive, and writes nothing.
async fn find(rt: &Runtime, dev: &Rc<dyn ZonedDevice>) -> StoreResult<PartitionTable> {
    let geometry = dev.geometry();
    let owned = read_owner(dev, &NAME).await.map_err(owner_error)?;
    let Owned { superblock: found, zone: superzone, bad_copies } = owned;
    if !bad_copies.is_empty() {
        tracing::warn!("a copy of the superblock of the partition table cannot be read; the other one is good");
    }
    let block = Superblock::decode(&found.payload).ok_or_else(senseless)?;
    let same = block.zone_size == geometry.zone_size.0
        && block.capacity == geometry.zone_capacity.0
        && block.zone_count == geometry.zone_count;
    if !same || block.metazones != METAZONES {
        return invalid("the drive has another shape than when it was partitioned".to_owned());
    }
    let data = data_zones(geometry);
    let sequence = SequenceSource::default();
    let opened = MetaLog::open(rt, dev, log_config(found.store, superzone), sequence.clone()).await;
    let (log, recovered) = opened.map_err(log_error)?;
    let partitions = RefCell::new(newest(recovered, &data)?);
    Ok(PartitionTable { dev: dev.clone(), log, sequence, data, partitions })
}

/// The table as it was last.
fn newest(recovered: Recovered, data: &Range<u32>) -> StoreResult<Vec<Partition>> {
    let Recovered { parts, journal, .. } = recovered;
    let bytes: Vec<Bytes> = parts.into_iter().chain(journal.into_iter().map(|entry| entry.bytes)).collect();
    let last = bytes.last().cloned().unwrap_or_default();
    decode(&last, data).ok_or_else(senseless)
}

fn senseless() -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, "the partition table makes no sense")
}

fn owner_error(error: NotOwned) -> StoreError {
    let kind = match &error {
        NotOwned::Corrupt(_) => StoreErrorKind::Corrupt,
        NotOwned::Device(_) => StoreErrorKind::Device,
        _ => StoreErrorKind::Invalid,
    };
    StoreError::caused(kind, error.to_string(), error)
}

fn log_error(error: MetaLogError) -> StoreError {
    let kind = match error {
        MetaLogError::Damaged { .. } | MetaLogError::NoCheckpoint => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Device,
    };
    StoreError::caused(kind, format!("the partition table: {error}"), error)
}
