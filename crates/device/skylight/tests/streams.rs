//! Streaming, torn writes, rates and times of the arm.

mod common;

use common::with;
use shingle_drive_model::Profile;
use shingle_skylight::exam::streaming::{self, Streaming};
use shingle_skylight::exam::{mechanics, surface, torn};

/// Test 15 of chapter 3.
#[test]
fn the_shortest_stream_is_found() {
    for (name, expected) in [("st5000as0011", Some(8)), ("st8000as0002", Some(8)), ("emulated-smr-1", None)] {
        let found = with(name, 29, |session, turn| streaming::examine(session, turn).unwrap());
        assert_eq!(found.value(), expected.map(|mib| Streaming::From { mib }).as_ref(), "{name}: {found:?}");
    }
}

/// Test 13.
#[test]
fn power_cuts_tear_bands_that_were_being_overwritten() {
    let found = with("st5000as0011", 31, |session, _| torn::examine(session).unwrap());
    let found = *found.value().unwrap();
    assert!(found.torn * 10 > found.cuts * 6 && found.mended && found.blocks_max > 500, "{found:?}");
    let found = with("st4000nc001", 31, |session, _| torn::examine(session).unwrap());
    assert_eq!(found.value().unwrap().torn, 0, "{found:?}");
}

/// Test 14, Figure 2.22.
#[test]
fn rates_fall_inwards_and_the_arm_is_timed() {
    for name in ["st5000as0011", "st4000nc001", "emulated-smr-3"] {
        let profile = Profile::named(name).unwrap();
        let (recording, arm) = (profile.recording.unwrap(), profile.mechanics.unwrap());
        with(name, 37, |session, turn| {
            let rates = surface::examine(session).unwrap();
            assert!((rates.first_mb_s / recording.outer_mb_s - 1.0).abs() < 0.05, "{name}: {}", rates.first_mb_s);
            assert!((rates.last_mb_s / recording.inner_mb_s - 1.0).abs() < 0.05, "{name}: {}", rates.last_mb_s);
            assert!(rates.zones.abs_diff(u64::from(recording.bands)) <= 3, "{name}: {} zones", rates.zones);
            let found = mechanics::examine(session, turn).unwrap();
            assert!((found.average_seek_ms - arm.average_seek_ms).abs() < 0.5, "{name}: {found:?}");
            assert!((found.full_seek_ms - arm.full_seek_ms).abs() < 0.6, "{name}: {found:?}");
            assert!((found.settle_ms - arm.settle_ms).abs() < 0.4, "{name}: {found:?}");
            assert!((found.overhead_ms - 0.07).abs() < 0.02, "{name}: {found:?}");
        });
    }
}
