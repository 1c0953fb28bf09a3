//! Drives whose power fails.

mod common;

use std::ops::Range;

use common::{MS, TB, closed_loop, command, fragmented, mean_read_ms, pause, random, random_writes};
use shingle_drive_model::{Command, CommandId, Drive, Flash, Jitter, Nanos, Op, Profile, Translation};

/// The drive works for `nanos`, with `depth` commands outstanding; the numbers of those that completed.
fn work(
    drive: &mut Drive,
    from: Nanos,
    nanos: Nanos,
    depth: u64,
    first: CommandId,
    mut next: impl FnMut() -> Command,
) -> Vec<CommandId> {
    let (mut submitted, mut completed, mut done) = (first, Vec::new(), Vec::new());
    let mut now = from;
    loop {
        while submitted - first < completed.len() as u64 + depth {
            drive.submit(now, submitted, next());
            submitted += 1;
        }
        match drive.next_event() {
            Some(event) if event <= from + nanos => {
                drive.advance(event, &mut done);
                now = event;
                completed.append(&mut done);
            }
            _ => return completed,
        }
    }
}

/// A few zones of a drive that has them.
const AREA: u64 = 20_000_000;

/// A drive whose power failed amid any work goes on afterwards, and nothing of before ever completes.
#[test]
fn every_drive_goes_on_after_a_loss_of_power() {
    let mut profiles = Profile::built_in().unwrap();
    for name in ["st5000as0011", "zns-1tb", "st16000nm001g"] {
        let mut other = Profile::named(name).unwrap();
        other.cache.write_cache ^= true;
        other.jitter = Some(Jitter { seed: 3, spindle_ppm: 1000, wander_us: 20, completion_us: 30.0 });
        profiles.push(other);
    }
    for profile in &mut profiles {
        // Small, so that drives clean all the time.
        match &mut profile.translation {
            Some(Translation::MediaCache(spec)) => spec.map_extents = 100,
            Some(Translation::SetAssociative(spec)) => spec.cache_bands = 2,
            Some(Translation::FullyAssociative(spec)) => spec.spare = 0.001,
            Some(Translation::PageMapped(spec)) => {
                (spec.erase_block_kib, profile.shape.zones, profile.shape.conventional_zones) = (256, 4, 4);
                profile.flash =
                    profile.flash.map(|flash| Flash { dies: 4, die_write_mb_s: 4.0, buffer_mib: 1, ..flash });
            }
            None => {}
        }
    }
    for profile in profiles {
        let mut number = random(3);
        let mut drive = Drive::new(&profile, 1);
        let blocks_of_drive = drive.blocks();
        let (mut now, mut first) = (0, 0);
        for cut in 0..25 {
            let (base, mut at) = (number(AREA / 2), 0);
            let mut next = || {
                let op = [Op::Write, Op::Write, Op::WriteThrough, Op::Read, Op::Flush, Op::Trim][number(6) as usize];
                at += 256;
                let place = (if number(2) == 0 { base + at } else { number(AREA) }) % (blocks_of_drive - 256);
                let blocks = if op == Op::Trim { 1 + number(64) } else { 1 + number(256) };
                command(op, place, blocks)
            };
            let nanos = next().blocks * 40_000_000;
            let completed = work(&mut drive, now, nanos, 16, first, &mut next);
            let name = &profile.name;
            assert!(!completed.is_empty(), "{name}: nothing completed in {nanos} ns after cut {cut}");
            assert!(completed.iter().all(|&id| id >= first), "{name}: a command of before cut {cut} completed");
            now += nanos;
            let mut done = Vec::new();
            let torn = drive.cut_power(now, &mut done);
            assert!(torn.iter().all(|range| !range.is_empty() && range.end <= drive.blocks()), "{name}: {torn:?}");
            assert!(drive.torn().is_empty(), "{name}: nothing is being overwritten");
            first += 1 << 20;
            // A copy, as each of the next cuts has its turn too.
            let writes: Vec<Command> =
                (0..40).map(|_| command(Op::WriteThrough, number(AREA) % blocks_of_drive, 1)).collect();
            closed_loop(&mut drive.clone(), now, 4, 0, &writes);
        }
    }
}

/// Figure 2.23: the head overlaps one track behind what it writes; the rest of the band has its old data.
#[test]
fn a_stream_tears_what_it_writes_and_a_track_behind_it() {
    let mut profile = Profile::named("st5000as0011").unwrap();
    profile.cache.write_cache = true;
    let mut lengths = Vec::new();
    for cut in 0..40 {
        let mut drive = Drive::new(&profile, 1);
        let mut at = TB;
        let stream = || {
            at += 256;
            command(Op::Write, at - 256, 256)
        };
        let nanos = 400_000_000 + cut * 7_700_000;
        let completed = work(&mut drive, 0, nanos, 1, 0, stream).len() as u64;
        let torn = drive.cut_power(nanos, &mut Vec::new());
        let near = |range: &Range<u64>| range.start >= TB && range.end <= TB + completed * 256 + 256 * 256;
        assert!(torn.len() <= 1 && torn.iter().all(near), "{torn:?} after {completed}");
        lengths.extend(torn.iter().map(|range| range.end - range.start));
    }
    // A piece of 2 MiB, and 36 MiB of 21 tracks.
    assert!(lengths.len() > 30, "{} of 40 cuts", lengths.len());
    assert!(lengths.iter().all(|&blocks| blocks <= 512 + 36 * 256 / 21), "{lengths:?}");
}

/// A set-associative drive has no other copy of a band that it overwrites, but for what is in the cache.
#[test]
fn a_band_that_is_cleaned_in_its_place_is_torn_but_for_its_cached_blocks() {
    let mut profile = Profile::named("emulated-smr-1").unwrap();
    if let Some(Translation::SetAssociative(spec)) = &mut profile.translation {
        spec.cache_bands = 1;
    }
    let band = 40 * 256;
    let mut drive = Drive::new(&profile, 1);
    // Every second block of a MiB of band 7; with the blocks of band 9 they fill the only cache band.
    let mut writes: Vec<Command> = (0..128).map(|number| command(Op::Write, 7 * band + 2 * number, 1)).collect();
    writes.extend((0..(band - 128) / 64).map(|number| command(Op::Write, 9 * band + number * 64, 64)));
    let now = *closed_loop(&mut drive, 0, 1, 20_000, &writes).iter().max().unwrap();
    drive.submit(now, 1, command(Op::Write, 0, 256));
    let (mut found, mut at) = (Vec::new(), now);
    while at < now + 3_000_000_000 {
        at += 5 * MS as Nanos;
        let mut copy = drive.clone();
        found.extend(copy.cut_power(at, &mut Vec::new()));
        drive.advance(at, &mut Vec::new());
    }
    let in_band =
        |number: u64| found.iter().filter(move |torn| (number * band..(number + 1) * band).contains(&torn.start));
    assert!(in_band(7).count() > 10, "{}", found.len());
    assert!(
        in_band(7).all(|torn| (torn.start..torn.end).all(|at| at >= 7 * band + 256 || at % 2 == 1)),
        "cached blocks"
    );
    assert!(in_band(9).count() > 0);
}

/// A drive with dynamic mapping writes bands to other places, and the media cache cleans through its scratch place.
#[test]
fn drives_with_another_copy_tear_nothing() {
    for name in ["emulated-smr-3", "st5000as0011", "wd40nmzw"] {
        let mut profile = Profile::named(name).unwrap();
        if let Some(Translation::MediaCache(spec)) = &mut profile.translation {
            spec.map_extents = 50;
        }
        let mut drive = Drive::new(&profile, 1);
        let writes = random_writes(3, 60, TB, 0);
        let now = *closed_loop(&mut drive, 0, 4, 20_000, &writes).iter().max().unwrap();
        for step in 0..400 {
            pause(&mut drive, now + step * 10 * MS as Nanos);
            assert!(drive.torn().is_empty(), "{name}");
        }
    }
}

/// Its blocks stay there, and are cleaned once the drive is quiet.
#[test]
fn the_persistent_cache_outlives_a_loss_of_power() {
    let mut drive = Drive::new(&Profile::named("st5000as0011").unwrap(), 1);
    let now = fragmented(&mut drive, 0, 2 * TB);
    let before = mean_read_ms(&mut drive.clone(), now, 2 * TB);
    assert!(drive.cut_power(now, &mut Vec::new()).is_empty());
    let after = mean_read_ms(&mut drive.clone(), now, 2 * TB);
    assert!((after / before - 1.0).abs() < 0.05, "{before} and {after} ms");
    // Again and again while the band is cleaned: after each cut the drive takes it up again.
    let mut at = now;
    for part in 1..20 {
        at = pause(&mut drive, at + 1_150 * MS as Nanos + part * 60 * MS as Nanos);
        assert!(drive.cut_power(at, &mut Vec::new()).is_empty());
    }
    let from = pause(&mut drive, at + 5_000 * MS as Nanos);
    let clean = mean_read_ms(&mut drive, from, 2 * TB);
    assert!((9.0..11.5).contains(&clean), "a turn for each block: {clean}");
}
