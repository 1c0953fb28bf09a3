//! Systems under RocksDB: a file system with its page cache on a conventional and a drive-managed disk, and files on zones.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use shingle_base::BLOCK_SIZE;
use shingle_drive_model::{Kind, Profile, Translation, Written};
use shingle_runtime::Runtime;
use shingle_sim::{Runtimes, Sim};
use shingle_zone_files::{FilesStats, FormatOptions, Options, ZoneFiles};

use super::rocksdb_load::Load;
use crate::baseline::ext4_files::{Ext4Files, Machine};
use crate::calls::play::{self, Course};
use crate::context::Context;
use crate::error::LabError;
use crate::rig::blocks::DriveBlocks;
use crate::rig::calls::{Caching, Ext4Calls, Gathering, ZoneCalls};
use crate::rig::drives::LabDrive;
use crate::rig::host::{Host, HostDevice};
use crate::rig::processor;
use crate::rig::twin::conventional_twin;

/// Names of the systems that the paper has, and of ours.
pub(super) const CMR: &str = "CMR, ext4";
pub(super) const DM_SMR: &str = "DM-SMR, ext4";
pub(super) const SYNC: &str = "HM-SMR, synchronous I/O";
pub(super) const ASYNC: &str = "HM-SMR, asynchronous I/O";
pub(super) const CACHED: &str = "HM-SMR, asynchronous I/O and cache";
pub(super) const OURS: &str = "HM-SMR, ours";

/// A system.
pub(super) struct System {
    /// Its name in figures.
    pub(super) name: String,
    profile: Profile,
    files: Over,
}

/// Files of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    Ext4(Machine),
    Zones(Gathering, Caching),
}

/// The course of a run.
pub(super) struct Run {
    pub(super) course: Course,
    /// Zones that hold something, by seconds.
    pub(super) zones: Vec<(f64, f64)>,
    /// Bytes that files need, by seconds.
    pub(super) live: Vec<(f64, f64)>,
    /// Blocks that were written, by seconds.
    pub(super) written: Vec<(f64, Written)>,
}

impl Run {
    /// Bytes that files in zones needed at most.
    pub(super) fn live_most(&self) -> f64 {
        self.live.iter().map(|point| point.1).fold(0.0, f64::max)
    }

    /// Bytes that a drive that translates wrote over those that it was given, from a time on.
    pub(super) fn inside_since(&self, time: f64) -> Option<f64> {
        let (_, last) = self.written.last()?;
        let (_, first) = self.written.iter().find(|(at, _)| *at >= time)?;
        let host = last.host.checked_sub(first.host).filter(|host| *host > 0)?;
        Some((last.media - first.media) as f64 / host as f64)
    }
}

impl System {
    pub(super) fn ext4(context: &Context, name: &str, profile: &Profile, load: &Load) -> Self {
        // The dissertation's machine, with the part of its memory that RocksDB leaves.
        let machine =
            Machine { memory_bytes: load.memory_bytes(), cores: 16, call: Duration::from_micros(5), byte_ps: 250 };
        context.with_options(name, &machine);
        Self { name: name.to_owned(), profile: context.used(profile.clone()), files: Over::Ext4(machine) }
    }

    pub(super) fn zones(
        context: &Context,
        name: &str,
        profile: &Profile,
        gathering: Gathering,
        caching: Caching,
    ) -> Self {
        context.with_options(name, &(gathering, caching));
        Self { name: name.to_owned(), profile: context.used(profile.clone()), files: Over::Zones(gathering, caching) }
    }

    /// Plays the load.
    pub(super) fn run(&self, load: &Load, host: Host, seed: u64) -> Result<Run, LabError> {
        let (profile, files, load) = (self.profile.clone(), self.files, load.clone());
        Sim::new(seed).run_on(Some(&processor::server()), move |runtimes| async move {
            match files {
                Over::Ext4(machine) => on_ext4(&runtimes, &profile, machine, &load, host).await,
                Over::Zones(gathering, caching) => {
                    on_zones(&runtimes, &profile, (gathering, caching), &load, host).await
                }
            }
        })
    }
}

/// Looks at something each second until it is told to stop.
struct Watch<T> {
    seen: Rc<RefCell<Vec<(f64, T)>>>,
    over: Rc<Cell<bool>>,
}

impl<T: 'static> Watch<T> {
    fn begin(rt: &Runtime, look: impl Fn() -> T + 'static) -> Self {
        let watch = Self { seen: Rc::default(), over: Rc::default() };
        let (seen, over, clock, began) = (watch.seen.clone(), watch.over.clone(), rt.clone(), rt.now());
        rt.spawn_detached(async move {
            while !over.get() {
                seen.borrow_mut().push((clock.now().since(began).as_secs_f64(), look()));
                clock.sleep(Duration::from_secs(1)).await;
            }
        });
        watch
    }

    fn end(self) -> Vec<(f64, T)> {
        self.over.set(true);
        self.seen.take()
    }
}

async fn on_ext4(
    runtimes: &Runtimes,
    profile: &Profile,
    machine: Machine,
    load: &Load,
    host: Host,
) -> Result<Run, LabError> {
    let blocks = Rc::new(DriveBlocks::of_profile(&runtimes.hardware, profile, host)?);
    let files = Ext4Files::format(&runtimes.program, blocks.clone(), machine)?;
    let watch = Watch::begin(&runtimes.program, move || blocks.written());
    let played = play::play(&runtimes.program, &load.recording, play::Machine::Roomy, Ext4Calls::new(files)).await;
    let written = watch.end().into_iter().filter_map(|(at, written)| Some((at, written?))).collect();
    Ok(Run { course: played?.0, zones: Vec::new(), live: Vec::new(), written })
}

async fn on_zones(
    runtimes: &Runtimes,
    profile: &Profile,
    (gathering, caching): (Gathering, Caching),
    load: &Load,
    host: Host,
) -> Result<Run, LabError> {
    let failed = |error: shingle_zone_files::FilesError| LabError(format!("files on zones: {error}"));
    let drive = LabDrive::of(profile.clone());
    let device = HostDevice::of_program(runtimes, host, drive.device(&runtimes.hardware, drive.medium()));
    let rt = &runtimes.program;
    ZoneFiles::format(rt, device.clone(), FormatOptions::default()).await.map_err(failed)?;
    let (files, _) = ZoneFiles::open(rt, device.clone(), Options::default()).await.map_err(failed)?;
    let watched = files.clone();
    let watch = Watch::begin(rt, move || (watched.stats(), device.written_blocks()));
    let target = ZoneCalls::new(rt, files, gathering, caching);
    let played = play::play(rt, &load.recording, play::Machine::Roomy, target).await;
    let seen = watch.end();
    let live: Vec<_> = seen.iter().map(|(at, (stats, _))| (*at, stats.live_bytes as f64)).collect();
    let zones: Vec<_> = seen.iter().map(|(at, (stats, _))| (*at, f64::from(stats.zones - stats.zones_free))).collect();
    let blocks = |stats: &FilesStats| stats.counters.bytes_written.div_ceil(BLOCK_SIZE as u64);
    // Bytes that the files were given, in blocks, and blocks that the zones got.
    let written =
        |(at, (stats, media)): &(f64, (FilesStats, u64))| (*at, Written { host: blocks(stats), media: *media });
    Ok(Run { course: played?.0, zones, live, written: seen.iter().map(written).collect() })
}

/// The dissertation's HM-SMR drive, with zones as large as a table, and its volatile cache on or off.
pub(super) fn zoned(load: &Load, write_cache: bool) -> Result<Profile, LabError> {
    let mut profile = Profile::named("hsh721414al").map_err(|error| LabError(error.0))?;
    let before = profile.shape.zone_mib;
    let finer = f64::from(before) / f64::from(load.table_mib);
    profile.shape.zone_mib = load.table_mib;
    for count in [&mut profile.shape.zones, &mut profile.shape.conventional_zones] {
        *count = (f64::from(*count) * finer) as u32;
    }
    for cost in [&mut profile.zones.open_ms, &mut profile.zones.close_ms, &mut profile.zones.erase_ms] {
        *cost /= finer;
    }
    profile.cache.write_cache = write_cache;
    Ok(profile)
}

/// The same arm and platters as a conventional drive.
pub(super) fn conventional(load: &Load) -> Result<Profile, LabError> {
    Ok(conventional_twin(&zoned(load, true)?))
}

/// The dissertation's drive-managed disk, with a cache in proportion to the load.
pub(super) fn managed(load: &Load) -> Result<Profile, LabError> {
    let mut profile = Profile::named("st8000as0002").map_err(|error| LabError(error.0))?;
    profile.cache.write_cache = true;
    if let Some(Translation::MediaCache(cache)) = &mut profile.translation {
        for size in [&mut cache.cache_gib, &mut cache.ring_gib, &mut cache.map_extents, &mut cache.map_mib] {
            *size = load.scaled(*size);
        }
    }
    debug_assert_eq!(profile.kind, Kind::DmSmr);
    Ok(profile)
}

/// Part of an SSD that files fill when all of the load's tables are there. (Section 5.6.2)
pub(super) const FULL: f64 = 0.8;

/// MiB of a drive that is as full when all of the load's tables are there.
fn full_mib(load: &Load) -> u32 {
    ((load.most_bytes() as f64 / FULL / f64::from(1 << 20)) as u32).max(SSD_MIB_MIN)
}

/// Rows of erase blocks of a conventional SSD, and zones of a ZNS SSD, at least: so many that the few which are written to or kept free are a
/// small part of what is not full, as on a whole drive.
const ROWS_MIN: u32 = 100;

/// MiB of an SSD at least, and of its zones: under a small load of one's own the SSD is not full.
const SSD_MIB_MIN: u32 = 1536;
const ZONE_MIB_MIN: u32 = 16;

/// The dissertation's conventional SSD, so large that the load fills it.
pub(super) fn conventional_ssd(load: &Load) -> Result<Profile, LabError> {
    let mut profile = Profile::named("ssd-3840").map_err(|error| LabError(error.0))?;
    let mib = full_mib(load);
    profile.shape.zone_mib = 8;
    profile.shape.zones = mib.div_ceil(profile.shape.zone_mib);
    profile.shape.conventional_zones = profile.shape.zones;
    let (Some(flash), Some(Translation::PageMapped(layer))) = (&mut profile.flash, &mut profile.translation) else {
        return Err(LabError("the profile `ssd-3840` is of no SSD".to_owned()));
    };
    // Rows of 2 GiB beside tables of 512 MiB, where the load is so large: fewer dies, and shorter blocks.
    flash.dies = 32;
    let row_kib = 1024 * (4 * load.table_mib).min(mib / ROWS_MIN);
    layer.erase_block_kib = (row_kib / flash.dies / flash.stripe_kib).max(1) * flash.stripe_kib;
    profile.cache.write_cache = false;
    Ok(profile)
}

/// A ZNS SSD as large, with zones in proportion to tables of 512 MiB where the load is so large. All that the files need beside tables has to fit into
/// the rest of it.
pub(super) fn zns(load: &Load) -> Result<Profile, LabError> {
    let mut profile = Profile::named("zns-1tb").map_err(|error| LabError(error.0))?;
    let capacity = profile.shape.zone_capacity_mib.unwrap_or(profile.shape.zone_mib);
    let mib = full_mib(load);
    let capacity = (capacity * load.table_mib / 512).min(mib / ROWS_MIN).max(ZONE_MIB_MIN);
    profile.shape.zone_mib = capacity.next_power_of_two();
    profile.shape.zone_capacity_mib = Some(capacity);
    profile.shape.zones = mib.div_ceil(capacity);
    Ok(profile)
}

/// Part of an SSD that is so full of `bytes`.
pub(super) fn filled(profile: &Profile, bytes: f64) -> f64 {
    let mib = profile.shape.zone_capacity_mib.unwrap_or(profile.shape.zone_mib);
    bytes / f64::from(1 << 20) / (f64::from(mib) * f64::from(profile.shape.zones))
}
