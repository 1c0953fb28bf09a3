//! Seagate's drive-managed disks behave as the dissertation measured. (Sections 2.4 and 3.4.3.)

mod common;

use common::{
    MS, TB, band_mib, closed_loop, command, fragmented, latencies, mean_read_ms, median, pause, random, random_writes,
};
use shingle_drive_model::{Command, Drive, Op, Profile};

fn seagate() -> Profile {
    Profile::named("st5000as0011").unwrap()
}

/// Test 1, Figure 2.4: a fixed 25 ms, and 325 ms at each 240th write.
#[test]
fn a_synchronous_write_takes_two_turns_and_a_half_and_each_240th_merges_the_map() {
    let think = 40_000;
    let mut drive = Drive::new(&seagate(), 1);
    let times = closed_loop(&mut drive, 0, 1, think, &random_writes(1, 720, 1 << 18, 0));
    let taken = latencies(&times, 0, think);
    let slow: Vec<usize> = (0..720).filter(|&at| taken[at] > 200.0).collect();
    assert_eq!(slow, [239, 479, 719]);
    assert!(
        slow.iter().all(|&at| (300.0..350.0).contains(&taken[at])),
        "{:?}",
        slow.iter().map(|&at| taken[at]).collect::<Vec<_>>()
    );
    let others: Vec<f64> = taken.iter().copied().skip(1).filter(|&taken| taken < 200.0).collect();
    let fixed = others.iter().filter(|taken| (24.5..27.0).contains(*taken)).count();
    assert!(fixed * 100 > others.len() * 98, "{} of {}: {:?}", fixed, others.len(), &others[..30]);
}

/// Figure 2.7: at depth 31 all writes of a burst are one entry, which grows by half turns.
#[test]
fn entries_grow_by_half_turns_with_the_data_that_they_gather() {
    for (kib, expected) in [(4, 25.4), (24, 25.4), (28, 30.5), (52, 30.5), (60, 35.6), (80, 35.6)] {
        let mut random = random(7);
        let writes: Vec<Command> = (0..31 * 20).map(|_| command(Op::Write, random(TB), kib / 4)).collect();
        let times = closed_loop(&mut Drive::new(&seagate(), 1), 0, 31, 20_000, &writes);
        let bursts: Vec<f64> =
            (1..20).map(|burst| (times[burst * 31 + 30] - times[burst * 31 - 1]) as f64 / MS).collect();
        assert!((median(&bursts) - expected).abs() < 1.5, "{kib} KiB: {bursts:?}");
    }
}

/// Section 2.4.3: read in the order of writing, blocks of single entries lie half a turn apart, those of one entry a turn.
#[test]
fn blocks_are_read_back_in_half_a_turn_or_a_whole_one() {
    for (depth, expected) in [(1, 5.1), (31, 10.2)] {
        let mut drive = Drive::new(&seagate(), 1);
        let writes = random_writes(3, 217, TB, 0);
        let written = closed_loop(&mut drive, 0, depth, 40_000, &writes);
        let from = *written.iter().max().unwrap();
        let reads: Vec<Command> = writes.iter().map(|write| command(Op::Read, write.at, 1)).collect();
        let read = closed_loop(&mut drive, from, 1, 40_000, &reads);
        let taken = latencies(&read, from, 40_000);
        assert!((median(&taken) - expected).abs() < 1.2, "depth {depth}: {:?}", &taken[..40]);
    }
}

/// DM-LOG-2, Table 2.2 and Figure 2.15: the entries' room or the map is full after so many writes, and the next ones wait for a band each.
#[test]
fn a_full_cache_makes_writers_wait_for_bands() {
    for (kib, depth, expected) in [(4u64, 1, 22_800.0), (64, 31, 182_231.0), (128, 31, 137_496.0), (256, 31, 67_830.0)]
    {
        let mut random = random(11);
        let count = (expected * 1.06) as usize;
        let writes: Vec<Command> = (0..count).map(|_| command(Op::Write, random(5 * TB - 64), kib / 4)).collect();
        let times = closed_loop(&mut Drive::new(&seagate(), 1), 0, depth, 40_000, &writes);
        // From there on a burst takes longer than a merge ever does.
        let began = (depth..count).find(|&at| times[at] > times[at - depth] + 450_000_000);
        let began = began.map_or(f64::INFINITY, |at| at as f64);
        assert!((began / expected - 1.0).abs() < 0.05, "{kib} KiB at depth {depth}: {began}");
    }
}

/// Tests 2 and 3, Figures 2.8 and 2.10: the cache lies at the outer diameter; after a pause the band is clean.
#[test]
fn a_fragmented_read_seeks_to_the_outer_diameter_until_the_band_is_clean() {
    let mut far: Vec<f64> = Vec::new();
    // Each within one band, as in the dissertation.
    for at in [0, 5 * TB / 2, 5 * TB - 6144] {
        let mut drive = Drive::new(&seagate(), 1);
        let written = fragmented(&mut drive, 0, at);
        far.push(mean_read_ms(&mut drive.clone(), written, at));
        let mut early = drive.clone();
        let from = pause(&mut early, written + 1_500_000_000);
        assert!(mean_read_ms(&mut early, from, at) > far[far.len() - 1] * 0.9, "cleaning has not ended");
        let from = pause(&mut drive, written + 5_000_000_000);
        let clean = mean_read_ms(&mut drive, from, at);
        assert!((9.0..11.5).contains(&clean), "a turn for each block: {clean}");
    }
    assert!(far[0] * 1.15 < far[1] && far[1] * 1.15 < far[2], "{far:?}");
}

/// Test 4, Figure 2.12, and section 2.4.9: a band with one block is cleaned in about 0.6 s, the oldest first; one with many
/// blocks takes longer.
#[test]
fn idle_drives_clean_the_oldest_bands_first() {
    let mut drive = Drive::new(&seagate(), 1);
    let writes = random_writes(5, 200, 5 * TB, 0);
    let written = *closed_loop(&mut drive, 0, 1, 40_000, &writes).last().unwrap();
    let from = pause(&mut drive, written + 61_100_000_000);
    let reads: Vec<Command> = writes.iter().map(|write| command(Op::Read, write.at, 1)).collect();
    let read = closed_loop(&mut drive, from, 1, 40_000, &reads);
    let taken = latencies(&read, from, 40_000);
    // Those still in the cache lie half a turn apart.
    let in_cache = |at: &f64| (*at - 5.1).abs() < 1.0;
    let cleaned = taken.windows(3).position(|three| three.iter().all(in_cache)).unwrap();
    assert!((70..140).contains(&cleaned), "{cleaned} bands in 60 s");
    assert!(taken[cleaned..].iter().filter(|at| in_cache(at)).count() * 10 > (200 - cleaned) * 9);
}

/// Tests 9 and 10, Figures 2.16 to 2.18: the log finds stale entries where it comes round.
#[test]
fn the_cache_is_a_circular_log() {
    let mut number = random(13);
    let pool: Vec<u64> = (0..10_000).map(|_| number(5 * TB)).collect();
    let slow = |blocks: &[u64]| {
        let writes: Vec<Command> = blocks.iter().map(|&at| command(Op::Write, at, 1)).collect();
        let times = closed_loop(&mut Drive::new(&seagate(), 1), 0, 1, 40_000, &writes);
        let taken = latencies(&times, 0, 40_000);
        let slow = taken.iter().position(|&taken| taken > 400.0);
        (
            slow,
            taken[25_000.min(taken.len() - 1)..].iter().sum::<f64>()
                / taken[25_000.min(taken.len() - 1)..].len() as f64,
        )
    };
    let repeated: Vec<u64> = pool.iter().copied().cycle().take(30_000).collect();
    assert_eq!(slow(&repeated).0, None, "every entry is stale when the log comes round to it");
    let drawn: Vec<u64> = (0..27_000).map(|_| pool[number(10_000) as usize]).collect();
    let (began, mean) = slow(&drawn);
    assert!(began.is_some_and(|began| (21_500..24_500).contains(&began)), "{began:?}");
    let fresh: Vec<u64> = (0..27_000).map(|_| number(5 * TB)).collect();
    let (_, without) = slow(&fresh);
    assert!(mean * 2.0 < without && without > 400.0, "{mean} and {without} ms a write");
}

/// Test 11, Figure 2.19: cleaning makes whole bands native, of 36 MiB at the outer and 17 MiB at the inner diameter.
#[test]
fn bands_are_large_at_the_outer_diameter_and_small_at_the_inner() {
    let sizes = [0, 5 * TB / 2, 5 * TB - 256 * 3000].map(|at| band_mib(&seagate(), at));
    assert!(sizes[0] > sizes[1] && sizes[1] > sizes[2], "{sizes:?}");
    assert!((32..=38).contains(&sizes[0]) && (14..=20).contains(&sizes[2]), "{sizes:?}");
}

fn with_volatile_cache() -> Profile {
    let mut profile = seagate();
    profile.cache.write_cache = true;
    profile
}

/// Test 15 and section 2.4.11: with the volatile cache, 8 MiB in sequence go to their band directly; less goes to the cache.
#[test]
fn long_sequential_writes_go_to_their_bands() {
    for (mib, streams) in [(2u64, false), (6, false), (64, true)] {
        let mut drive = Drive::new(&with_volatile_cache(), 1);
        let at = 5 * TB / 2;
        drive.watch_arm(true);
        let writes: Vec<Command> = (0..mib).map(|number| command(Op::Write, at + number * 256, 256)).collect();
        let written = *closed_loop(&mut drive, 0, 1, 20_000, &writes).last().unwrap();
        pause(&mut drive, written + 900_000_000);
        let motions = drive.take_motions();
        let outer = motions.iter().filter(|motion| motion.at < 20_000).count();
        assert_eq!(outer == 0, streams, "{mib} MiB: {motions:?}");
    }
}

/// Section 2.4.11: full speed for sequential writes, and no fixed latency.
#[test]
fn sequential_writes_are_fast_with_a_volatile_cache_and_slow_without() {
    let rate = |profile: &Profile| {
        let writes: Vec<Command> = (0..1500).map(|number| command(Op::Write, number * 256, 256)).collect();
        let times = closed_loop(&mut Drive::new(profile, 1), 0, 1, 20_000, &writes);
        1500.0 * 1.048_576 / (*times.last().unwrap() as f64 / 1e9)
    };
    let (cached, plain) = (rate(&with_volatile_cache()), rate(&seagate()));
    assert!((140.0..200.0).contains(&cached), "{cached} MB/s");
    assert!(plain * 3.0 < cached, "{plain} MB/s");
}

/// DM-MODEL-1 for drives that translate: the same commands, the same nanoseconds; a clone goes on alike.
#[test]
fn a_drive_that_translates_can_be_cloned_at_any_time() {
    for profile in [seagate(), with_volatile_cache()] {
        let mut drive = Drive::new(&profile, 1);
        let written = fragmented(&mut drive, 0, TB);
        let mut other = drive.clone();
        assert_eq!(mean_read_ms(&mut drive, written, TB), mean_read_ms(&mut other, written, TB));
        assert_eq!(drive.next_event(), other.next_event());
    }
}

/// Section 2.4.11, Test 13: power that fails amid a stream takes blocks of the band that was being overwritten; a quiet drive,
/// and one without a volatile cache, loses none.
#[test]
fn power_that_fails_in_a_stream_tears_the_band() {
    let writes: Vec<Command> = (0..200).map(|number| command(Op::Write, TB + number * 256, 256)).collect();
    for (profile, torn) in [(with_volatile_cache(), true), (seagate(), false)] {
        let mut drive = Drive::new(&profile, 1);
        let written = *closed_loop(&mut drive, 0, 1, 20_000, &writes).last().unwrap();
        let ranges = drive.torn();
        assert_eq!(!ranges.is_empty(), torn);
        let end = TB + 200 * 256 + 40 * 256;
        assert!(ranges.iter().all(|range| TB < range.start && range.end <= end), "{ranges:?}");
        pause(&mut drive, written + 3_000_000_000);
        assert!(drive.torn().is_empty(), "{:?}", drive.torn());
    }
}

/// A flush waits for the writes before it, and for those alone.
#[test]
fn a_flush_makes_the_volatile_cache_durable() {
    let mut drive = Drive::new(&with_volatile_cache(), 1);
    let writes = random_writes(37, 40, TB, 0);
    let written = *closed_loop(&mut drive, 0, 1, 1000, &writes).last().unwrap();
    assert!(written < 40_000_000, "40 writes into memory take {written} ns");
    let flushed = closed_loop(&mut drive, written, 1, 0, &[command(Op::Flush, 0, 0)]);
    assert!(flushed[0] - written > 20_000_000, "{} ns for an entry", flushed[0] - written);
    let again = closed_loop(&mut drive, flushed[0], 1, 0, &[command(Op::Flush, 0, 0)]);
    assert!(again[0] - flushed[0] < 1_000_000, "nothing is left to be flushed");
}

/// A host turns the volatile cache on and off, as `hdparm -W` does: never while it holds something.
#[test]
fn the_volatile_cache_can_be_turned_on_and_off() {
    for mut profile in [seagate(), Profile::named("st4000nc001").unwrap()] {
        let mut drive = Drive::new(&profile, 1);
        let write = |drive: &mut Drive, at: u64, from: u64| {
            let ended = *closed_loop(drive, from, 1, 1000, &[command(Op::Write, at, 1)]).last().unwrap();
            (ended, ended - from > 3_000_000)
        };
        let (at, slow) = write(&mut drive, TB / 3, 0);
        assert!(slow && drive.set_write_cache(true), "{}", profile.name);
        let (at, slow) = write(&mut drive, TB / 2, at);
        assert!(!slow && !drive.set_write_cache(false), "{}: it holds a write", profile.name);
        let flushed = closed_loop(&mut drive, at, 1, 0, &[command(Op::Flush, 0, 0)])[0];
        let at = pause(&mut drive, flushed + 100_000_000);
        assert!(drive.set_write_cache(false));
        assert!(write(&mut drive, TB / 4, at).1, "{}", profile.name);
        profile.cache.write_cache_mib = 0;
        assert!(!Drive::new(&profile, 1).set_write_cache(true), "{}: there is none", profile.name);
    }
    let mut emulated = Drive::new(&Profile::named("emulated-smr-3").unwrap(), 1);
    assert!(emulated.set_write_cache(false) && !emulated.set_write_cache(true), "its layer has none");
}
