//! Figures of the dissertation that take a drive's whole cache or whole bands: Tables 2.2 and 2.3, section 2.4.9, Figure 3.13.

mod common;

use std::collections::VecDeque;

use common::{MS, TB, band_mib, closed_loop, command, random};
use shingle_drive_model::{Command, Drive, Nanos, Op, Profile, Translation};

/// Lets the drive work until it has nothing to do; the time of its last work.
fn until_quiet(drive: &mut Drive, from: Nanos) -> Nanos {
    let (mut now, mut done) = (from, Vec::new());
    while let Some(event) = drive.next_event() {
        drive.advance(event, &mut done);
        now = event;
    }
    now
}

/// Section 2.4.9: a band with one block is cleaned in 0.6 s, one of which 2 MiB were overwritten at every other block in 1.6 s.
#[test]
fn cleaning_of_a_band_takes_longer_the_more_of_it_is_in_the_cache() {
    for (blocks, least, most) in [(1u64, 0.5, 0.75), (512, 1.45, 1.75)] {
        let mut drive = Drive::new(&Profile::named("st5000as0011").unwrap(), 1);
        let writes: Vec<Command> = (0..blocks).map(|number| command(Op::Write, 3 * TB + 2 * number, 1)).collect();
        let written = *closed_loop(&mut drive, 0, 31, 20_000, &writes).iter().max().unwrap();
        let taken = (until_quiet(&mut drive, written) - written) as f64 / 1e9 - 1.1;
        assert!((least..most).contains(&taken), "{blocks} blocks: {taken} s");
    }
}

/// Section 2.4.9: all blocks of the first 700 MiB, shuffled over 5,880 entries: about 45 s for each of the 20 bands, which all
/// entries have blocks of.
#[test]
fn a_band_whose_blocks_lie_in_all_entries_is_cleaned_in_most_of_a_minute() {
    let mut order: Vec<u64> = (0..700 * 256).collect();
    let mut number = random(3);
    (0..700 * 256).for_each(|at| order.swap(at, number(700 * 256) as usize));
    let writes: Vec<Command> = order.iter().map(|&at| command(Op::Write, at, 1)).collect();
    let mut drive = Drive::new(&Profile::named("st5000as0011").unwrap(), 1);
    let written = *closed_loop(&mut drive, 0, 31, 20_000, &writes).iter().max().unwrap();
    let taken = (until_quiet(&mut drive, written) - written) as f64 / 1e9;
    assert!((40.0..50.0).contains(&(taken / 20.0)), "{taken} s for 20 bands");
}

/// Table 2.3: the map of the 8 TB drive has 250,000 extents and its cache 25 GiB, where the 5 TB drive has 200,000 and 20 GiB: each
/// test fills by as much more before cleaning begins.
#[test]
fn the_larger_drive_takes_a_quarter_more_before_it_cleans() {
    let began = |name: &str, kib: u64| {
        let mut number = random(11);
        let writes: Vec<Command> = (0..235_000)
            .map(|_| command(Op::Write, number(4 * TB), kib / 4))
            .take(if kib > 64 { 90_000 } else { 235_000 })
            .collect();
        let times = closed_loop(&mut Drive::new(&Profile::named(name).unwrap(), 1), 0, 31, 40_000, &writes);
        let slow = (31..times.len()).find(|&at| times[at] > times[at - 31] + 450_000_000);
        slow.map_or(f64::INFINITY, |at| at as f64)
    };
    for (kib, expected) in [(64, 182_231.0), (256, 67_830.0)] {
        let found = began("st8000as0002", kib);
        assert!((found / (expected * 1.25) - 1.0).abs() < 0.05, "{kib} KiB: {found}");
    }
}

/// Table 2.3: bands of 15 to 40 MiB on the 8 TB drive, by what cleaning makes native at the outer and the inner diameter (Test 11).
#[test]
fn the_larger_drive_has_larger_and_smaller_bands() {
    let drive = Profile::named("st8000as0002").unwrap();
    let sizes = [0, 8 * TB - 256 * 3000].map(|at| band_mib(&drive, at));
    assert!((36..=42).contains(&sizes[0]) && (13..=17).contains(&sizes[1]), "{sizes:?} MiB");
}

/// Figure 2.22: the rate of sequential reads falls all the way from the outer to the inner diameter.
#[test]
fn sequential_rates_fall_over_the_whole_drive() {
    for profile in Profile::built_in().unwrap().iter().filter(|profile| profile.translation.is_some()) {
        let Some(recording) = profile.recording else { continue };
        let rate = |at: f64| {
            let mut drive = Drive::new(profile, 1);
            let from = ((drive.blocks() - 100 * 1024) as f64 * at) as u64;
            let reads: Vec<Command> = (0..100).map(|number| command(Op::Read, from + number * 1024, 1024)).collect();
            let times = closed_loop(&mut drive, 0, 31, 0, &reads);
            99.0 * 4.194_304e9 / (times[99] - times[0]) as f64
        };
        let (outer, inner) = (rate(0.0), rate(1.0));
        assert!((outer / recording.outer_mb_s - 1.0).abs() < 0.04, "{}: {outer} MB/s outside", profile.name);
        assert!((inner / recording.inner_mb_s - 1.0).abs() < 0.08, "{}: {inner} MB/s inside", profile.name);
        // Tracks are shorter by the radius, so that more blocks lie outside; where runs are long, recording zones hold equally
        // many blocks, and the rate falls with these.
        for part in [0.25, 0.5, 0.75, 0.9] {
            let by_radius = (outer * outer - (outer * outer - inner * inner) * part).sqrt();
            let by_blocks = outer - (outer - inner) * part;
            let (found, name) = (rate(part), &profile.name);
            let bounds = by_blocks * 0.95..by_radius * 1.05;
            assert!(bounds.contains(&found), "{name}: {found} MB/s at {part}, and not {bounds:?}");
        }
    }
}

/// Table 2.2, the whole drive: Emulated-SMR-2 takes 2,464,153 writes of 4 KiB before a full cache band holds one up.
#[test]
fn a_cache_of_flash_takes_its_writes_before_it_is_cleaned() {
    const EXPECTED: f64 = 2_464_153.0;
    let mut drive = Drive::new(&Profile::named("emulated-smr-2").unwrap(), 1);
    let (blocks, mut number) = (drive.blocks(), random(6));
    let (mut submitted, mut completed, mut now, mut done) = (0, 0, 0, Vec::new());
    let mut last: VecDeque<Nanos> = VecDeque::new();
    // From there on 200 writes take seconds.
    while last.len() < 200 || now - last[0] < 4_000_000_000 {
        assert!(completed < 3_000_000, "no write was held up");
        while submitted < completed + 31 {
            drive.submit(now, submitted, command(Op::Write, number(blocks), 1));
            submitted += 1;
        }
        now = drive.next_event().unwrap();
        drive.advance(now, &mut done);
        completed += done.drain(..).count() as u64;
        last.push_back(now);
        if last.len() > 200 {
            last.pop_front();
        }
    }
    assert!((completed as f64 / EXPECTED - 1.0).abs() < 0.05, "{completed}");
}

/// Random writes of 256 KiB over a tenth of a drive with a tenth of its cache: MiB/s of the first writes, and of the last.
fn rates(name: &str, writes: usize) -> (f64, f64) {
    let mut profile = Profile::named(name).unwrap();
    if let Some(Translation::MediaCache(spec)) = &mut profile.translation {
        (spec.cache_gib, spec.ring_gib, spec.map_extents) = (2, 14, 25_000);
        profile.cache.write_cache = true;
    }
    let mut drive = Drive::new(&profile, 1);
    let blocks = drive.blocks() / 10;
    let mut number = random(29);
    let writes: Vec<Command> = (0..writes).map(|_| command(Op::Write, number(blocks / 64) * 64, 64)).collect();
    let mut times = closed_loop(&mut drive, 0, 31, 20_000, &writes);
    times.sort_unstable();
    let rate = |from: usize, to: usize| (to - from) as f64 / 4.0 / ((times[to] - times[from]) as f64 / 1e3 / MS);
    (rate(0, 3000), rate(times.len() - 1500, times.len() - 1))
}

/// Figure 3.13 (a) and (d), Figure 3.14: mixing cleaning with its work, the WD40NMZW is slower than the ST8000AS0002 at first, and falls
/// less deep when the cache is full: its steady rate is higher, about twice.
#[test]
fn a_drive_that_mixes_cleaning_is_slower_at_first_and_faster_in_the_end() {
    let (seagate, wd) = (rates("st8000as0002", 11_000), rates("wd40nmzw", 40_000));
    assert!(wd.0 < seagate.0, "at first {} and {} MiB/s", wd.0, seagate.0);
    assert!(wd.1 > 1.5 * seagate.1, "in the end {} and {} MiB/s", wd.1, seagate.1);
    assert!(seagate.0 / seagate.1 > 2.0 * wd.0 / wd.1, "{seagate:?} and {wd:?}");
}
