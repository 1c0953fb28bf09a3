//! Systems that traces are replayed on: the drive-managed drive, and layers on its zoned twin. FSTL's drive was the ST8000AS022; the one
//! that is modelled is the ST8000AS0002, of the same size and kind (dissertation, Table 2.3).

use shingle_drive_model::Profile;
use shingle_translation_layers::{CachePolicy, LogPolicy, Tl1, Tl2, tl1, tl2};

use super::traces::Trace;
use crate::context::Context;
use crate::error::LabError;
use crate::rig::system::System;
use crate::rig::twin::zoned_twin;

/// The drive that translates.
pub(super) const DRIVE: &str = "drive-managed";

/// The first layer, as the paper has it: all writes go to the cache, `min_assoc` chooses the zone that is cleaned, and a merged home goes through
/// a scratch zone.
pub(super) const TL1_PAPER: &str = "TL1, paper's configuration";

/// The first layer: sequential writes go past the cache, and the cheapest work makes room in it.
pub(super) const TL1: &str = "TL1";

/// The second layer, as the paper has it: one frontier for callers, greedy cleaning.
pub(super) const TL2: &str = "TL2";

/// A volume without a layer.
pub(super) const OWN_CLEANER: &str = "built-in cleaner";

/// Zones of a drive that is full soon.
const FEW_ZONES: u32 = 70;

/// The page-mapped layer.
pub(super) const ZDM: &str = "ZDM";

/// The layer with buffer zones.
pub(super) const DM_ZONED: &str = "dm-zoned";

/// Zones of TL1's cache, by scale: the paper's 27 GB for loads of the paper's length, fewer for shorter ones, so that it has to be
/// cleaned, too. The drive's own cache, of which small writes one at a time use far more than their bytes, is the same throughout.
fn cache_zones(context: &Context) -> u32 {
    context.scale.pick(2, 6, 100)
}

pub(super) fn first(name: &str, zoned: &Profile, options: Tl1) -> System {
    System::layer(name, zoned.clone(), move |rt, volume| rt.spawn_detached(tl1(rt.clone(), volume.control(), options)))
}

fn second(name: &str, zoned: &Profile, options: Tl2) -> System {
    System::layer(name, zoned.clone(), move |rt, volume| rt.spawn_detached(tl2(rt.clone(), volume.control(), options)))
}

/// All systems. A further layer is a line here: a volume, and the function that attaches its controller.
pub(super) fn all(context: &Context) -> Result<Vec<System>, LabError> {
    let zoned = context.twin(&managed()?, zoned_twin);
    Ok(on(context, context.used(managed()?), zoned, cache_zones(context)))
}

/// All systems, with a cache of TL1's of so many zones, on drives whose volatile caches are on throughout: none loses a turn.
pub(super) fn for_files(context: &Context, cache_zones: u32) -> Result<Vec<System>, LabError> {
    Ok(on(context, context.used(managed()?), cached_twin(context)?, cache_zones))
}

/// The zoned twin with its volatile cache on.
pub(super) fn cached_twin(context: &Context) -> Result<Profile, LabError> {
    let cached = |managed: &Profile| {
        let mut twin = zoned_twin(managed);
        twin.cache.write_cache = true;
        twin
    };
    Ok(context.twin(&managed()?, cached))
}

fn managed() -> Result<Profile, LabError> {
    Profile::named("st8000as0002").map_err(|error| LabError(error.0))
}

fn on(context: &Context, managed: Profile, zoned: Profile, cache_zones: u32) -> Vec<System> {
    let (ours, log) = (Tl1 { cache_zones, ..Tl1::default() }, Tl2 { policy: LogPolicy::Greedy, ..Tl2::default() });
    let paper = Tl1 { policy: CachePolicy::MinAssoc, sequential: None, scratch: true, ..ours };
    context.with_options(TL1_PAPER, &paper);
    context.with_options(TL1, &ours);
    context.with_options(TL2, &log);
    vec![
        System::drive(DRIVE, managed),
        first(TL1_PAPER, &zoned, paper),
        first(TL1, &zoned, ours),
        second(TL2, &zoned, log),
        System::zdm(ZDM, zoned.clone()),
        System::dm_zoned(DM_ZONED, zoned),
    ]
}

/// The zoned twin with as few zones as hold a volume, so that it is full soon: its cleaner, and both layers as they are by default.
pub(super) fn on_few_zones(context: &Context) -> Result<Vec<System>, LabError> {
    let zoned = few_zones(context)?;
    let (ours, log) = (Tl1::default(), Tl2::default());
    context.with_options("TL1 on few zones", &ours);
    context.with_options("TL2 on few zones", &log);
    Ok(vec![System::volume(OWN_CLEANER, zoned.clone()), first(TL1, &zoned, ours), second(TL2, &zoned, log)])
}

/// The zoned twin with few zones, which lie over all of its platters. Below `full` they are shorter, too.
pub(super) fn few_zones(context: &Context) -> Result<Profile, LabError> {
    let few = |managed: &Profile| {
        let mut twin = zoned_twin(managed);
        twin.shape.zones = FEW_ZONES;
        twin.shape.conventional_zones = 0;
        twin.shape.zone_mib = context.scale.pick(64, 64, 256);
        twin
    };
    Ok(context.twin(&managed()?, few))
}

/// The second layer alone.
pub(super) fn log(context: &Context) -> Result<System, LabError> {
    let found = all(context)?.into_iter().find(|system| system.name == TL2);
    found.ok_or_else(|| LabError("there is no such system".to_owned()))
}

/// Checks that all addresses of a load lie on each system.
pub(super) fn must_hold(systems: &[System], trace: &Trace) -> Result<(), LabError> {
    let size = trace.source.size_bytes();
    for system in systems {
        let have = system.size_bytes()?;
        if have < size {
            let (name, load) = (&system.name, &trace.name);
            return Err(LabError(format!("{name} has {have} bytes, and the addresses of {load} go up to {size}")));
        }
    }
    Ok(())
}
