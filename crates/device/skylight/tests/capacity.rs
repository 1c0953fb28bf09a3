//! Tests 6 to 10 and Table 2.2: the persistent cache.

mod common;

use common::{with, with_profile};
use shingle_drive_model::{Profile, Translation};
use shingle_skylight::Session;
use shingle_skylight::exam::bands::{self, Forcing};
use shingle_skylight::exam::capacity::{self, Cache, CapacityFound};
use shingle_skylight::exam::empty::empty;
use shingle_skylight::exam::turn::Turn;
use shingle_skylight::exam::{cleaning, journal};

fn capacity(name: &str, seed: u64) -> CapacityFound {
    with(name, seed, examine)
}

fn examine(session: &mut Session<'_>, turn: &Turn) -> CapacityFound {
    let cleaning = cleaning::examine(session, turn).unwrap();
    let journal = journal::examine(session, turn).unwrap();
    empty(session, turn, cleaning.pace.value()).unwrap();
    let band = bands::examine(session, turn, Forcing::of(&cleaning), session.blocks() / 1000).unwrap();
    let band = *band.value().unwrap_or_else(|| panic!("{band:?}"));
    capacity::examine(session, turn, cleaning.pace.value(), &journal, &band).unwrap()
}

fn near(found: u64, expected: f64, share: f64) -> bool {
    (found as f64 / expected - 1.0).abs() < share
}

#[test]
fn the_log_of_a_seagate_drive_is_measured() {
    let found = capacity("st5000as0011", 17);
    let expected = [22_800.0, 182_270.0, 182_231.0, 137_496.0, 67_830.0];
    for (fill, expected) in found.fills.iter().zip(expected) {
        assert!(near(fill.writes.unwrap(), expected, 0.03), "{} KiB at {}: {:?}", fill.kib, fill.depth, fill.writes);
    }
    let Some(Cache::Log { data_blocks, map_extents, circular, raw_blocks }) = found.cache.value() else {
        panic!("{:?}", found.cache)
    };
    assert!(near(*data_blocks, 20.0 * 0.912 * 262_144.0, 0.01), "{data_blocks}");
    assert!(near(map_extents.unwrap(), 200_000.0 * 0.912, 0.01), "{map_extents:?}");
    assert!(near(*raw_blocks, 100.0 * 262_144.0, 0.1), "{raw_blocks}");
    assert_eq!(*circular, Some(true));
}

#[test]
fn cache_bands_of_set_associative_drives_are_counted() {
    for (name, mib, sets) in [("emulated-smr-1", 40, 952), ("emulated-smr-2", 25, 409)] {
        let found = capacity(name, 19);
        assert_eq!(found.cache.value(), Some(&Cache::Sets { set_blocks: mib * 256, sets }), "{name}: {found:?}");
    }
}

#[test]
fn zones_with_spare_bands_are_measured() {
    for (name, gib, spare_mib, mixes) in
        [("emulated-smr-3", 40.0, 19.0 * 20.0, 0.0), ("wd40nmzw", 40.0, 23.0 * 32.0, 0.35)]
    {
        let found = capacity(name, 23);
        let Some(Cache::Zones { cache_blocks, zone_blocks, mix_share }) = found.cache.value() else {
            panic!("{name}: {:?}", found.cache)
        };
        assert!(near(*zone_blocks, gib * 262_144.0, 0.005), "{name}: {zone_blocks}");
        assert!(near(*cache_blocks, spare_mib * 256.0, 0.05), "{name}: {cache_blocks}");
        assert!((mix_share - mixes).abs() < 0.1, "{name}: {mix_share}");
    }
}

/// Cleaning that is mixed with writes makes room while the cache of a zone is filled: the more, the larger its share and the cache.
#[test]
fn what_mixed_cleaning_frees_is_no_part_of_the_cache() {
    let mut profile = Profile::named("wd40nmzw").unwrap();
    let Some(Translation::FullyAssociative(layer)) = &mut profile.translation else { panic!("another layer") };
    (layer.band_mib, layer.zone_gib, layer.spare, layer.mix_share) = (16, 57, 0.048, Some(0.58));
    let spare = (57.0 * 64.0 * layer.spare).floor() - 3.0;
    let found = with_profile(&profile, 23, examine);
    let Some(Cache::Zones { cache_blocks, .. }) = found.cache.value() else { panic!("{:?}", found.cache) };
    assert!(near(*cache_blocks, spare * 16.0 * 256.0, 0.05), "{cache_blocks}: {:.0}", spare * 16.0 * 256.0);
}
