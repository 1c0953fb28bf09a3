//! Format and opening.
//!
//! # Invariants
//! - BLU-OPEN-1: blocks between the end of a zone in the metadata and the drive's write pointer are stale; a write pointer below that end is
//!   damage, which is reported with the objects that it touches.
//! - BLU-OPEN-2: an opening for reading alone writes nothing.
//! - BLU-SB-1: the superblock is in two zones, twice in each (version 3). One zone is enough, and an opening that writes makes lost copies anew.
//! - BLU-OPEN-3: format, opening and close of an empty store take no more commands on a drive of more zones.
//! - BLU-OPEN-4: copies go on in the zone with most room of those that were left before their end. So a kill while a full store is cleaned takes
//!   no zone from those that are left to copies.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shingle_base::{Blocks, StoreId, ZoneId};
use shingle_record::{EngineName, InUse, NotOwned, SuperblockCopies, check_unused, read_owner, write_superblock_pair};
use shingle_runtime::Runtime;
use shingle_zone_files::ZoneFiles;
use shingle_zone_kit::{Keeper, Lane, Reset, Status, Zone, ZoneTable, give_up_active};
use shingle_zoned::{Share, ZoneInfo, ZoneOp, ZoneRange, ZoneState, ZonedDevice, report_patiently};

use crate::drive::Drive;
use crate::engine::{Engine, Wakes};
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::format::superblock::Superblock;
use crate::format::zone::{self, ZoneValue};
use crate::format::{ENGINE, VERSION, key, values};
use crate::ids::CollectionInfo;
use crate::kv::{KeyValue, MergeOperator, Order};
use crate::layout::Layout;
use crate::options::{FormatOptions, Metadata, Options};
use crate::promise::Promises;
use crate::sequence::Collection;
use crate::state::{COPIES, Own, State};
use crate::two_queue::TwoQueue;

/// Merge operators of the metadata.
pub const OPERATORS: &[MergeOperator] = &[MergeOperator { prefix: b"Z", merge: zone::merge }];

const NAME: EngineName = EngineName {
    engine: ENGINE,
    versions: 1..=VERSION,
    store: "store",
    none: "the drive holds no store: format it first",
    other: "the drive holds a store of another engine, not one of objects on zones",
};

/// Objects that a report names at most.
const NAMED_MAX: usize = 100;

/// A zone that is shorter than the metadata say. (BLU-OPEN-1)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortZone {
    /// Number of the data zone.
    pub zone: u32,
    /// Blocks that the metadata name, and blocks that the drive has.
    pub named: u32,
    /// Blocks that the drive has.
    pub written: u32,
    /// Those who have bytes in the zone, the first of them.
    pub holders: Vec<String>,
}

/// Findings of an opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Blocks that were written and that no transaction names.
    pub unnamed_blocks: u64,
    /// Deferred writes that are not in zones yet.
    pub deferred: u64,
    /// Zones that are shorter than the metadata say, or offline.
    pub short: Vec<ShortZone>,
}

async fn view(
    dev: &Rc<dyn ZonedDevice>,
    zones: &std::ops::Range<u32>,
    share: Share,
) -> BlueResult<Rc<dyn ZonedDevice>> {
    let range = ZoneRange::new(dev.clone(), ZoneId(zones.start), zones.end - zones.start, share).await;
    let range = range.map_err(|error| BlueError::new(BlueErrorKind::Device, error.to_string()))?;
    Ok(Rc::new(range))
}

/// Makes an empty store.
pub(crate) async fn format(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: FormatOptions) -> BlueResult<StoreId> {
    let geometry = dev.geometry().clone();
    let (layout, block) = Layout::choose(&geometry, &options)?;
    if !options.force {
        refuse_used(&dev, &layout).await?;
    }
    give_up_active(&dev, &layout.data_zones).await?;
    let store = options.store.unwrap_or_else(|| StoreId(rt.random()));
    let meta = view(&dev, &layout.meta_zones, layout.meta_share).await?;
    let files = shingle_zone_files::FormatOptions { force: true, store: Some(store), ..Default::default() };
    ZoneFiles::format(rt, meta, files).await?;
    let superblock = shingle_record::Superblock {
        store,
        engine: ENGINE,
        version: VERSION,
        formatted: rt.unix_time(),
        payload: block.encode().into(),
    };
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

async fn refuse_used(dev: &Rc<dyn ZonedDevice>, layout: &Layout) -> BlueResult<()> {
    check_unused(dev, layout.superzone()).await.map_err(|error| match error {
        InUse::Device(error) => error.into(),
        InUse::Holds(words) => {
            BlueError::invalid(format!("the drive holds {words}; if nobody needs it, force the format"))
        }
    })
}

/// Reads the superblock, and holds it against the drive.
async fn identity(dev: &Rc<dyn ZonedDevice>) -> BlueResult<(StoreId, Layout, SuperblockCopies)> {
    let owned = read_owner(dev, &NAME).await.map_err(|error| {
        let kind = match &error {
            NotOwned::Corrupt(_) => BlueErrorKind::Corrupt,
            NotOwned::Device(_) => BlueErrorKind::Device,
            _ => BlueErrorKind::Invalid,
        };
        BlueError::new(kind, error.to_string())
    })?;
    let (store, version) = (owned.superblock.store, owned.superblock.version);
    let block = Superblock::decode(&owned.superblock.payload);
    let block = block.ok_or_else(|| BlueError::new(BlueErrorKind::Corrupt, "the superblock makes no sense"))?;
    let layout = Layout::of(dev.geometry(), &block, version)?;
    let copies = SuperblockCopies::look(dev, owned, layout.superzones.clone()).await;
    Ok((store, layout, copies))
}

/// Identity of the store on a drive.
pub(crate) async fn identify(dev: &Rc<dyn ZonedDevice>) -> BlueResult<StoreId> {
    Ok(identity(dev).await?.0)
}

/// Opens the store on a drive. Its keeper is to be started, unless it is for reading alone.
pub(crate) async fn open(
    rt: &Runtime,
    dev: Rc<dyn ZonedDevice>,
    options: Options,
    read_only: bool,
) -> BlueResult<(Rc<Engine>, OpenReport)> {
    let (store, layout, superblocks) = identity(&dev).await?;
    let opener = match layout.metadata {
        Metadata::Log => Some(&options.log),
        Metadata::RocksDb => options.rocksdb.as_ref(),
    };
    let opener =
        opener.ok_or_else(|| BlueError::invalid("the store keeps its metadata in RocksDB, which is not here"))?;
    if !read_only {
        superblocks.settle(&dev).await?;
    }
    let meta = view(&dev, &layout.meta_zones, layout.meta_share).await?;
    let files_options = shingle_zone_files::Options::default();
    let (files, _) = match read_only {
        true => ZoneFiles::examine(rt, meta, files_options).await?,
        false => ZoneFiles::open(rt, meta, files_options).await?,
    };
    // A drive has one owner: an opening that fails leaves nobody behind.
    let kv = match opener.open(rt, files.clone(), OPERATORS, read_only).await {
        Ok(kv) => kv,
        Err(error) => {
            let _ = files.close().await;
            return Err(error.into());
        }
    };
    match open_on(rt, &dev, (store, layout), (files.clone(), kv.clone()), options, read_only).await {
        Ok(opened) => {
            if !read_only {
                superblocks.mend(&dev).await;
            }
            Ok(opened)
        }
        Err(error) => {
            // The first error is the one that tells.
            let _ = (kv.close().await, files.close().await);
            Err(error)
        }
    }
}

/// Opens the store whose metadata are open.
async fn open_on(
    rt: &Runtime,
    dev: &Rc<dyn ZonedDevice>,
    (store, layout): (StoreId, Layout),
    (files, kv): (ZoneFiles, Rc<dyn KeyValue>),
    options: Options,
    read_only: bool,
) -> BlueResult<(Rc<Engine>, OpenReport)> {
    let data = view(dev, &layout.data_zones, layout.data_share).await?;
    let lanes = COPIES + 1 + layout.lanes as usize;
    let drive = Drive::new(rt, data, store, layout);
    let zones = drive.geometry.zone_count;
    let state = State {
        zones: ZoneTable::new(&(0..zones)),
        epochs: vec![0; zones as usize],
        lanes: std::iter::repeat_with(Lane::default).take(lanes).collect(),
        promised: 0,
        promised_metadata: Promises::default(),
        waiters: 0,
        full: None,
        waits_since: rt.now(),
        looked: Default::default(),
        collections: BTreeMap::new(),
        objects: TwoQueue::new(options.cache_bytes / 4),
        data: TwoQueue::new(options.cache_bytes / 4 * 3),
        shared: BTreeMap::new(),
        next_number: 0,
        numbers_end: 0,
        deferred: BTreeSet::new(),
        deferred_bytes: 0,
        crowded: BTreeSet::new(),
        deferred_rest: false,
        under_way: 0,
        waiting_bytes: 0,
        counters: Default::default(),
        stopped: None,
    };
    let keeper = Keeper::new(state.zones.keeper());
    if !read_only {
        keeper.begin();
    }
    let engine = Rc::new(Engine {
        rt: rt.clone(),
        options,
        drive,
        files,
        kv,
        state: RefCell::new(state),
        locks: Rc::default(),
        wakes: Wakes::default(),
        keeper,
        read_only,
        closing: Cell::new(false),
        end: RefCell::new(None),
        flushing: Cell::new(false),
        committing: RefCell::default(),
        commits: Cell::new(false),
    });
    let report = engine.load().await?;
    Ok((engine, report))
}

impl Engine {
    /// Loads what is in memory as long as the store is open.
    async fn load(&self) -> BlueResult<OpenReport> {
        let mut report = OpenReport::default();
        let numbers = self.kv.get(&key::numbers()).await?;
        if let Some(value) = numbers {
            let end = values::decode_numbers(&value).ok_or_else(|| BlueError::senseless("count of numbers"))?;
            let mut state = self.state.borrow_mut();
            (state.next_number, state.numbers_end) = (end, end);
        }
        let (from, to) = key::all_of(key::space::COLLECTION);
        for (key, value) in self.scan_all(from, to).await? {
            let info = key::parse_collection(&key).zip(values::decode_collection(&value));
            let (id, bits) = info.ok_or_else(|| BlueError::senseless("collection"))?;
            let collection = Rc::new(Collection::new(CollectionInfo { id, bits }));
            self.state.borrow_mut().collections.insert(id, collection);
        }
        let (from, to) = key::all_of(key::space::DEFERRED);
        for (key, value) in self.scan_all(from, to).await? {
            let of = key::parse_deferred(&key).and(values::decode_deferred(&value));
            let (id, shard, data) = of.ok_or_else(|| BlueError::senseless("deferred write"))?;
            let mut state = self.state.borrow_mut();
            state.deferred.insert((id, shard));
            state.deferred_bytes += data.len() as u64;
            report.deferred += 1;
        }
        self.load_zones(&mut report).await?;
        Ok(report)
    }

    async fn load_zones(&self, report: &mut OpenReport) -> BlueResult<()> {
        let mut known: BTreeMap<u32, ZoneValue> = BTreeMap::new();
        let (from, to) = key::all_of(key::space::ZONE);
        for (key, value) in self.scan_all(from, to).await? {
            let pair = key::parse_zone(&key).zip(ZoneValue::decode(&value));
            let (zone, value) = pair.ok_or_else(|| BlueError::senseless("zone"))?;
            known.insert(zone, value);
        }
        let infos = report_patiently(&self.drive.dev, ZoneId(0), self.drive.geometry.zone_count).await?;
        let continued = if self.read_only { None } else { continued(&infos, &known, self.drive.layout.zone_blocks) };
        if let Some(lane) = self.state.borrow_mut().lanes.get_mut(COPIES) {
            lane.zone = continued;
        }
        for info in infos {
            let value = known.get(&info.zone.0).copied().unwrap_or_default();
            if let Some(epoch) = self.state.borrow_mut().epochs.get_mut(info.zone.0 as usize) {
                *epoch = value.epoch;
            }
            match value.used {
                true => self.load_used(&info, &value, continued == Some(info.zone), report).await?,
                false => self.load_free(&info).await,
            }
        }
        Ok(())
    }

    /// A zone of which nothing is needed.
    async fn load_free(&self, info: &ZoneInfo) {
        if matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline) {
            self.state.borrow_mut().zones.bury(info.zone);
            return;
        }
        let mut dirty = info.written > Blocks::ZERO || info.state != ZoneState::Empty;
        if info.state.is_active() && !self.read_only {
            // It counts against the drive's limits until it is reset.
            dirty = !matches!(self.drive.commands.reset(info.zone).await, Ok(Reset::Done));
        }
        self.state.borrow_mut().zones.add_free(info.zone, dirty);
    }

    /// A zone with data. (BLU-OPEN-1)
    async fn load_used(
        &self,
        info: &ZoneInfo,
        value: &ZoneValue,
        continued: bool,
        report: &mut OpenReport,
    ) -> BlueResult<()> {
        let written = u32::try_from(info.written.0).unwrap_or(u32::MAX).min(self.drive.layout.zone_blocks);
        let offline = info.state == ZoneState::Offline;
        let broken = offline || info.state == ZoneState::ReadOnly;
        {
            let mut state = self.state.borrow_mut();
            let status = if continued { Status::Open } else { Status::Closed };
            let (epoch, next, stuck) = (value.epoch, written.max(value.end), offline);
            let own = Own::default();
            let zone = Zone { status, epoch, next, durable: next, broken, stuck, own, ..Zone::default() };
            state.zones.restore(info.zone, zone);
            state.zones.add_live(info.zone, u64::from(value.live));
        }
        if written < value.end || offline {
            let (from, to) = key::live_in(info.zone.0);
            let keys = self.kv.scan(from.into()..to.into(), Order::Forward, NAMED_MAX).await?;
            let holders = keys.iter().filter_map(|(key, _)| Some(shown(&key::parse_live(key)?.1))).collect();
            let written = if offline { 0 } else { written };
            report.short.push(ShortZone { zone: info.zone.0, named: value.end, written, holders });
        } else {
            report.unnamed_blocks += u64::from(written - value.end);
        }
        if info.state.is_active() && !self.read_only && !continued {
            self.release(info.zone, Some((value.epoch, written, broken))).await;
        }
        Ok(())
    }
}

/// The zone that copies go on in, behind its write pointer: all in front of that without a name stays stale. A zone that is shorter than the
/// metadata say is damaged, and left as it is. (BLU-OPEN-1, BLU-OPEN-4)
fn continued(infos: &[ZoneInfo], known: &BTreeMap<u32, ZoneValue>, zone_blocks: u32) -> Option<ZoneId> {
    let room = |info: &ZoneInfo| {
        let value = known.get(&info.zone.0).filter(|value| value.used && value.live > 0)?;
        let whole = info.state.is_active() && info.written.0 >= u64::from(value.end);
        let left = u64::from(zone_blocks).saturating_sub(info.written.0);
        Some(left).filter(|left| whole && *left > 0)
    };
    infos.iter().filter_map(|info| Some((room(info)?, info.zone))).max().map(|(_, zone)| zone)
}

/// A holder in words.
pub(crate) fn shown(holder: &key::Holder) -> String {
    match holder {
        key::Holder::Object(id, shard) => format!("object {id}, shard {shard}"),
        key::Holder::Shared(number) => format!("shared blob {number}"),
    }
}
