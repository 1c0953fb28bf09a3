//! Type, place of the cache and cleaning of the built-in drives are told from their times alone (SKY-TARGET-1).

mod common;

use common::{with, with_profile};
use shingle_drive_model::{Jitter, Profile};
use shingle_skylight::MIB;
use shingle_skylight::exam::cache_location::{self, CacheLocation};
use shingle_skylight::exam::cleaning::{self, CleaningOrder, CleaningType};
use shingle_skylight::exam::drive_type::{self, DriveType};
use shingle_skylight::exam::native::{is_native, mark};
use shingle_skylight::stats::median;

const SHINGLED: [&str; 6] =
    ["st5000as0011", "st8000as0002", "emulated-smr-1", "emulated-smr-2", "emulated-smr-3", "wd40nmzw"];

#[test]
fn the_turn_is_measured_to_a_thousandth() {
    for name in SHINGLED.into_iter().chain(["st4000nc001", "st16000nm001g"]) {
        let profile = Profile::named(name).unwrap();
        let rpm = profile.mechanics.unwrap().rpm;
        let turn = with(name, 3, |_, turn| *turn);
        let expected = 60_000.0 / f64::from(rpm);
        assert!((turn.turn_ms / expected - 1.0).abs() < 1e-3, "{name}: {turn:?}, expected {expected}");
        let skew = profile.recording.unwrap().skew_ms;
        assert!((turn.track_change_ms / skew - 1.0).abs() < 0.05, "{name}: {turn:?}, skew {skew}");
        let track = turn.track_blocks.unwrap() as f64;
        assert!((track * turn.block_ms / turn.turn_ms - 1.0).abs() < 0.02, "{name}: {turn:?}");
    }
}

/// Late completions make single reads early or late: the changes of tracks are seen among them.
#[test]
fn tracks_are_measured_on_drives_that_are_off_their_times() {
    for seed in 1..6 {
        let mut profile = Profile::named("st5000as0011").unwrap();
        profile.jitter = Some(Jitter { seed, spindle_ppm: 3_000, wander_us: 2, completion_us: 3.0 });
        let skew = profile.recording.unwrap().skew_ms;
        let turn = with_profile(&profile, seed, |_, turn| *turn);
        assert!((turn.track_change_ms / skew - 1.0).abs() < 0.1, "seed {seed}: {turn:?}, skew {skew}");
        let track = turn.track_blocks.unwrap() as f64;
        assert!((track * turn.block_ms / turn.turn_ms - 1.0).abs() < 0.02, "seed {seed}: {turn:?}");
    }
}

/// Test 1, Figure 2.4.
#[test]
fn shingled_drives_and_conventional_ones_are_told_apart() {
    for seed in 1..4 {
        for name in SHINGLED {
            let expected =
                if name == "emulated-smr-2" { DriveType::ShingledFlashCache } else { DriveType::ShingledDiskCache };
            let found = with(name, seed, |session, turn| drive_type::examine(session, turn).unwrap());
            assert_eq!(found.drive_type.value(), Some(&expected), "{name}, seed {seed}: {:?}", found.drive_type);
        }
        for name in ["st4000nc001", "st16000nm001g"] {
            let found = with(name, seed, |session, turn| drive_type::examine(session, turn).unwrap());
            let expected = Some(&DriveType::Conventional);
            assert_eq!(found.drive_type.value(), expected, "{name}, seed {seed}: {:?}", found.drive_type);
        }
    }
}

/// Test 2, Figure 2.8.
#[test]
fn the_cache_is_found_where_it_is() {
    for (name, expected) in [
        ("st5000as0011", CacheLocation::Outer),
        ("st8000as0002", CacheLocation::Outer),
        ("emulated-smr-1", CacheLocation::Inner),
        ("emulated-smr-3", CacheLocation::Several),
        ("wd40nmzw", CacheLocation::Several),
    ] {
        let found = with(name, 5, |session, _| cache_location::examine(session).unwrap());
        assert_eq!(found.location.value(), Some(&expected), "{name}: {:?} {:?}", found.location, found.means_ms);
    }
}

/// Tests 3 to 5, Figures 2.10 and 2.12.
#[test]
fn cleaning_is_seen_timed_and_ordered() {
    for (name, expected, quiet_ms) in [
        ("st5000as0011", CleaningType::Aggressive, 1100.0),
        ("emulated-smr-1", CleaningType::Lazy, 0.0),
        ("emulated-smr-2", CleaningType::Lazy, 0.0),
        ("emulated-smr-3", CleaningType::Aggressive, 1000.0),
        ("wd40nmzw", CleaningType::Aggressive, 1000.0),
    ] {
        let found = with(name, 7, |session, turn| cleaning::examine(session, turn).unwrap());
        assert_eq!(found.cleaning.value(), Some(&expected), "{name}: {:?}", found.cleaning);
        if expected == CleaningType::Lazy {
            continue;
        }
        let pace = found.pace.value().unwrap_or_else(|| panic!("{name}: {:?}", found.pace));
        assert!((pace.quiet_ms / quiet_ms - 1.0).abs() < 0.05, "{name}: {pace:?}");
        let order = if name.starts_with("st") { CleaningOrder::OldestFirst } else { CleaningOrder::LowestFirst };
        assert_eq!(found.order.value(), Some(&order), "{name}: {:?}", found.order);
    }
}

/// A drive that cleans has read the band a moment ago, so that neighbours of the blocks in its cache come from its memory: that looked as
/// if the blocks were at their places, and gave a time of cleaning that was far too short.
#[test]
fn a_band_is_not_taken_as_clean_while_it_is_being_cleaned() {
    for name in ["st5000as0011", "st8000as0002", "emulated-smr-3"] {
        let mut profile = Profile::named(name).unwrap();
        let jitter = |seed| Jitter { seed, spindle_ppm: 4000, wander_us: 10, completion_us: 6.5 };
        for seed in 1..=8 {
            profile.jitter = Some(jitter(seed));
            let arm = profile.mechanics.as_mut().unwrap();
            arm.rpm = [5_400, 5_900, 7_200][seed as usize % 3];
            with_profile(&profile, seed, |session, turn| {
                let at = session.blocks() / 2 / MIB * MIB + MIB;
                let cleans_after = (0..60).find(|&step| {
                    mark(session, &[at]).unwrap();
                    session.pause(1000.0 + f64::from(step) * 20.0).unwrap();
                    let clean = is_native(session, turn, at).unwrap();
                    session.pause(10_000.0).unwrap();
                    clean
                });
                // A band is read and written: twice as long as a read of it takes.
                let least = 1000.0 + 300.0;
                let cleans_after = 1000.0 + 20.0 * f64::from(cleans_after.unwrap());
                assert!(cleans_after >= least, "{name}, seed {seed}: {cleans_after} ms");
            });
        }
    }
}

/// Tests 4 and 5, Figures 2.12 and 2.13: blocks in the log are read at a fixed pace in the order of their writing, those in their bands are not.
#[test]
fn blocks_that_are_read_again_show_how_far_cleaning_has_come() {
    let found = with("st5000as0011", 7, |session, turn| cleaning::examine(session, turn).unwrap());
    let rereads = found.rereads.unwrap();
    let usual = median(&rereads.passes[0].1);
    let moved = |read: &[f64]| {
        let far = read.iter().filter(|ms| (**ms - usual).abs() > 1.0).count();
        far as f64 / read.len() as f64
    };
    let shares: Vec<f64> = rereads.passes.iter().map(|(_, read)| moved(read)).collect();
    assert!(shares.is_sorted() && shares[0] < 0.1 && shares[3] > 0.5, "{shares:?}");
    let [first, far, last] = rereads.parts_ms.each_ref().map(|read| moved(read));
    assert!(first > far && last > far, "the region {first} and {last}, elsewhere {far}");
    assert_eq!(rereads.course_ms.len(), 512);
}
