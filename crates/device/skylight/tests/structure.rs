//! Entries, bands and mapping of the built-in drives.

mod common;

use common::with;
use shingle_skylight::exam::bands::{self, Forcing};
use shingle_skylight::exam::mapping::{self, Mapping};
use shingle_skylight::exam::{cleaning, journal};

/// Figures 2.4 and 2.7.
#[test]
fn entries_and_merges_are_measured() {
    let found = with("st5000as0011", 11, |session, turn| journal::examine(session, turn).unwrap());
    let entries = found.entries.value().unwrap().unwrap();
    // Half of a track of the outer diameter: 211 blocks.
    assert_eq!((entries.half_turns, entries.quantum_blocks), (5, Some(211)), "{entries:?}");
    let entry_max = entries.entry_max_blocks.unwrap() as f64 * 4.0;
    assert!((entry_max / 6144.0 - 1.0).abs() < 0.05, "{entry_max} KiB");
    let merges = found.merges.value().unwrap().unwrap();
    assert!(merges.every == 240 && (275.0..325.0).contains(&merges.late_ms), "{merges:?}");
    for name in ["emulated-smr-1", "emulated-smr-3", "wd40nmzw", "st4000nc001"] {
        let found = with(name, 11, |session, turn| journal::examine(session, turn).unwrap());
        assert_eq!(found.entries.value(), Some(&None), "{name}");
    }
}

/// Tests 11 and 12, Figures 2.19 and 2.21, Tables 2.1 and 2.3.
#[test]
fn bands_are_measured_and_mapping_is_told() {
    for (name, mib, expected) in [
        ("emulated-smr-1", 40, Mapping::Static),
        ("emulated-smr-2", 25, Mapping::Static),
        ("emulated-smr-3", 20, Mapping::Dynamic),
        ("wd40nmzw", 32, Mapping::Dynamic),
        ("st5000as0011", 0, Mapping::Static),
        ("st8000as0002", 0, Mapping::Static),
    ] {
        with(name, 13, |session, turn| {
            let cleaning = cleaning::examine(session, turn).unwrap();
            let forcing = Forcing::of(&cleaning);
            let mut sizes = Vec::new();
            for at in [session.blocks() / 2, session.blocks() / 1000, session.blocks() - session.blocks() / 1000] {
                let found = bands::examine(session, turn, forcing, at).unwrap();
                let band = *found.value().unwrap_or_else(|| panic!("{name} at {at}: {found:?}"));
                sizes.push(band.blocks as f64 / 256.0);
                if sizes.len() == 1 {
                    let found = mapping::examine(session, turn, forcing, band).unwrap();
                    assert_eq!(
                        found.mapping.value(),
                        Some(&expected),
                        "{name}: {:?} {:?}",
                        found.mapping,
                        found.moved_ms
                    );
                }
            }
            if mib > 0 {
                assert_eq!(sizes, [f64::from(mib); 3], "{name}");
            } else {
                let (middle, outer, inner) = (sizes[0], sizes[1], sizes[2]);
                let largest = if name == "st5000as0011" { 36.0 } else { 40.0 };
                assert!(
                    (outer / largest - 1.0_f64).abs() < 0.06 && (14.0..=20.0).contains(&inner),
                    "{name}: {sizes:?}"
                );
                assert!(sizes.iter().all(|size| size.fract() == 0.0) && inner < middle && middle < outer, "{sizes:?}");
            }
        });
    }
}
