//! Known behaviour of drives, checked on the model.

mod common;

use common::{closed_loop, command, random, random_writes};
use shingle_drive_model::{Command, Drive, Kind, Nanos, Op, Profile};

const MS: u64 = 1_000_000;

fn disk() -> Profile {
    Profile::named("st20000nm001j").unwrap()
}

fn mean_ms(times: &[Nanos]) -> f64 {
    *times.last().unwrap() as f64 / times.len() as f64 / MS as f64
}

fn sequential(op: Op, from: u64, count: u64, blocks: u64) -> Vec<Command> {
    (0..count).map(|number| command(op, from + number * blocks, blocks)).collect()
}

#[test]
fn a_queue_of_sequential_writes_streams_and_a_synchronous_writer_misses_a_turn() {
    let writes = sequential(Op::Write, 1 << 24, 1000, 128);
    let streamed = closed_loop(&mut Drive::new(&disk(), 1), 0, 32, 0, &writes);
    let rate = 1000.0 * 524_288.0 / *streamed.last().unwrap() as f64 * 1e3;
    assert!((240.0..260.0).contains(&rate), "{rate} MB/s");
    let single = mean_ms(&closed_loop(&mut Drive::new(&disk(), 1), 0, 1, 20_000, &writes));
    // A turn of 8.33 ms until the block comes by again, and 2.05 ms to write.
    assert!((9.9..10.5).contains(&single), "{single} ms");
}

/// The other hypothesis on drives whose cache is off: a buffer that outlives a loss of power spares a synchronous writer the turn, as
/// long as it goes on where it was.
#[test]
fn a_drive_that_streams_writes_loses_no_turn_to_a_synchronous_writer_in_sequence() {
    let mut profile = disk();
    profile.cache.streams_writes = true;
    let time = |writes: &[Command]| mean_ms(&closed_loop(&mut Drive::new(&profile, 1), 0, 1, 20_000, writes));
    let single = time(&sequential(Op::Write, 1 << 24, 1000, 128));
    assert!((2.0..2.2).contains(&single), "{single} ms");
    let short = time(&sequential(Op::Write, 1 << 24, 1000, 1));
    assert!((0.1..0.15).contains(&short), "each still takes the drive's own time: {short} ms");
    let between_two: Vec<_> =
        (0..1000).map(|number| command(Op::Write, ((number % 2 + 1) << 24) + number / 2 * 128, 128)).collect();
    let two = time(&between_two);
    assert!(two > 5.0, "writes that do not follow each other seek and wait for their block: {two} ms");
}

/// Verification brings a drive with a write cache round to the next block, but not a writer who comes later than that.
#[test]
fn a_flush_of_a_write_that_comes_late_waits_for_its_block() {
    let mut drive = Drive::new(&Profile::named("ha10").unwrap(), 1);
    let (mut now, mut waits) = (0, Vec::new());
    for number in 0..20 {
        drive.submit(now, 1, command(Op::Write, (1 << 24) + number * 6, 6));
        drive.submit(now, 2, command(Op::Flush, 0, 0));
        let (began, mut done) = (now, Vec::new());
        while done.len() < 2 {
            now = drive.next_event().unwrap();
            drive.advance(now, &mut done);
        }
        waits.push(now - began);
        // No whole number of turns.
        now += 47 * MS;
    }
    // 47 ms behind a write's end lies the part of a turn that the block still has to come.
    assert!(waits[1..].iter().all(|wait| (2 * MS..9 * MS).contains(wait)), "{waits:?}");
}

/// There is nothing that it could make durable: not even the write that is under way.
#[test]
fn without_a_write_cache_a_flush_waits_for_nothing() {
    let mut drive = Drive::new(&disk(), 1);
    drive.submit(0, 1, command(Op::Write, 1 << 24, 256));
    drive.submit(1, 2, command(Op::Flush, 0, 0));
    let mut done = Vec::new();
    drive.advance(1_000 * MS, &mut done);
    assert_eq!(done, [2, 1]);
}

#[test]
fn a_write_cache_hides_the_turn_until_it_is_full_and_a_flush_waits_for_it() {
    let mut profile = disk();
    profile.cache.write_cache = true;
    let writes = sequential(Op::Write, 1 << 24, 200, 1);
    let mut drive = Drive::new(&profile, 1);
    let times = closed_loop(&mut drive, 0, 1, 20_000, &writes);
    assert!(mean_ms(&times) < 0.2, "{} ms", mean_ms(&times));
    let now = *times.last().unwrap();
    drive.submit(now, 1000, command(Op::Flush, 0, 0));
    let mut done = Vec::new();
    drive.advance(now + MS, &mut done);
    assert!(done.is_empty(), "a flush of dirty blocks takes the arm");
    drive.advance(now + 100 * MS, &mut done);
    assert_eq!(done, [1000]);
    // More than the cache holds goes at the medium's pace.
    let many = sequential(Op::Write, 1 << 25, 2000, 256);
    let rate = 2000.0 * 1_048_576.0 / *closed_loop(&mut Drive::new(&profile, 1), 0, 4, 0, &many).last().unwrap() as f64;
    assert!((0.2..0.3).contains(&rate), "{rate} GB/s");
}

#[test]
fn a_longer_queue_of_random_reads_is_served_faster() {
    // As much of it as was formatted where this was measured: 6 TB.
    let blocks = 256 * 256 * 22_352;
    let mut number = random(1);
    let reads: Vec<_> = (0..4000).map(|_| command(Op::Read, number(blocks), 1)).collect();
    let iops = |depth| 1000.0 / mean_ms(&closed_loop(&mut Drive::new(&disk(), 1), 0, depth, 0, &reads));
    let (one, four, all) = (iops(1), iops(4), iops(32));
    assert!((115.0..127.0).contains(&one), "{one}");
    assert!(four > one * 1.2 && all > four * 1.4, "{one} {four} {all}");
}

/// DM-DISK-2.
#[test]
fn no_read_waits_much_longer_than_the_starvation_bound() {
    // A stream of near reads, so dense that one is always reached sooner than the one far away.
    let mut drive = Drive::new(&disk(), 1);
    let far = command(Op::Read, 1 << 31, 1);
    let mut number = random(2);
    let mut commands = vec![command(Op::Read, 0, 1), far];
    commands.extend((0..6000).map(|_| command(Op::Read, number(1 << 14), 1)));
    let times = closed_loop(&mut drive, 0, 32, 0, &commands);
    assert!(times[1] > 490 * MS, "the far read is passed over for as long as may be: {}", times[1]);
    assert!(times[1] < 600 * MS, "but not for ever: {}", times[1]);
}

/// A drive with its write cache on, which writes no shingles.
fn caching() -> Profile {
    let mut profile = Profile::named("st16000nm001g").unwrap();
    profile.cache.write_cache = true;
    profile
}

/// Waits of reads, of which one at a time is outstanding beside `depth` other commands, for `nanos`, and completed numbers of the others.
fn reads_beside(
    drive: &mut Drive,
    nanos: Nanos,
    depth: u64,
    others: &mut dyn FnMut() -> Command,
) -> (Vec<Nanos>, Vec<u64>) {
    const READ: u64 = u64::MAX;
    let (mut now, mut submitted, mut completed, mut waits, mut done) = (0, 0, Vec::new(), Vec::new(), Vec::new());
    let mut number = random(8);
    let mut asked = None;
    while now < nanos {
        while submitted - (completed.len() as u64) < depth {
            drive.submit(now, submitted, others());
            submitted += 1;
        }
        if asked.is_none() {
            drive.submit(now, READ, command(Op::Read, number(1 << 20), 16));
            asked = Some(now);
        }
        now = drive.next_event().unwrap();
        drive.advance(now, &mut done);
        for id in done.drain(..) {
            match asked.filter(|_| id == READ) {
                Some(from) => {
                    waits.push(now - from);
                    asked = None;
                }
                None => completed.push(id),
            }
        }
    }
    waits.extend(asked.map(|from| now - from));
    (waits, completed)
}

/// DM-DISK-2.
#[test]
fn no_read_starves_while_writers_keep_the_cache_full() {
    for depth in [40, 128] {
        let mut at = 1 << 28;
        let mut writes = || {
            at += 256;
            command(Op::Write, at, 256)
        };
        let (waits, written) = reads_beside(&mut Drive::new(&caching(), 1), 20_000 * MS, depth, &mut writes);
        let longest = waits.iter().max().unwrap();
        // Behind the bound there may be writes before it in the host, of 4 ms each.
        assert!(*longest < (600 + 5 * depth) * MS, "a read waited {longest} ns beside {depth} writes");
        assert!(written.len() > 3_500, "writes go on: {}", written.len());
    }
}

/// DM-DISK-2.
#[test]
fn neither_a_flush_nor_the_reads_beside_it_starve() {
    let writes = random_writes(9, 500, 1 << 30, 1 << 30);
    for depth in [8, 100] {
        let mut drive = Drive::new(&caching(), 1);
        let mut commands = writes.iter().copied().chain([command(Op::Flush, 0, 0)]);
        let mut number = random(10);
        let mut next = || commands.next().unwrap_or_else(|| command(Op::Read, number(1 << 31), 1));
        let (waits, completed) = reads_beside(&mut drive, 20_000 * MS, depth, &mut next);
        let longest = waits.iter().max().unwrap();
        // Of a hundred commands each waits for the others, and for a cached write beside each.
        assert!(*longest < (650 + 30 * depth) * MS, "a read waited {longest} ns beside a flush and {depth} reads");
        assert!(completed.contains(&500), "the flush never ended beside {depth} reads");
    }
}

/// DM-DISK-3.
#[test]
fn a_queue_has_no_more_places_for_writes_that_wait_for_the_cache() {
    // A cache of one write, and a queue of two: the fourth write is still in the host, and so is the read behind it, which would go on where
    // the first write ends.
    let mut profile = caching();
    (profile.cache.write_cache_mib, profile.queue.depth) = (1, 2);
    let mut drive = Drive::new(&profile, 1);
    for number in 0..4 {
        drive.submit(0, number, command(Op::Write, (1 << 28) + (number << 20), 256));
    }
    drive.submit(0, 4, command(Op::Read, (1 << 28) + 256, 16));
    let mut done = Vec::new();
    drive.advance(1_000 * MS, &mut done);
    let place = |id| done.iter().position(|other| *other == id).unwrap();
    assert!(place(4) > place(2), "{done:?}");
    assert_eq!(done.len(), 5);
}

#[test]
fn read_ahead_spares_a_synchronous_sequential_reader_the_turns() {
    let reads = sequential(Op::Read, 1 << 24, 500, 16);
    let with = mean_ms(&closed_loop(&mut Drive::new(&disk(), 1), 0, 1, 20_000, &reads));
    let mut profile = disk();
    profile.cache.read_ahead_mib = 0;
    let without = mean_ms(&closed_loop(&mut Drive::new(&profile, 1), 0, 1, 20_000, &reads));
    assert!(with < 0.5 && without > 8.0, "{with} and {without} ms");
    // A block is still in the buffer when it is read again, after the arm was elsewhere.
    let mut drive = Drive::new(&disk(), 1);
    let times = closed_loop(&mut drive, 0, 1, 0, &[reads[0], command(Op::Read, 1 << 30, 1), reads[0]]);
    assert!(times[2] - times[1] < MS, "{times:?}");
}

/// DM-DISK-1.
#[test]
fn writes_to_one_zone_keep_their_order_whatever_the_head_would_like() {
    let start = 1 << 24;
    let mut number = random(3);
    let mut commands = Vec::new();
    for step in 0..200u64 {
        commands.push(command(Op::Write, start + step * 8, 8));
        commands.push(command(Op::Read, number(1 << 32), 1));
    }
    let times = closed_loop(&mut Drive::new(&disk(), 1), 0, 32, 0, &commands);
    let writes: Vec<_> = times.iter().step_by(2).collect();
    assert!(writes.is_sorted());
}

#[test]
fn zone_commands_take_their_published_times() {
    let mut drive = Drive::new(&disk(), 1);
    let mut now = 0;
    for (op, expected) in [(Op::Open, 20), (Op::Close, 24), (Op::Reset, 22)] {
        let times = closed_loop(&mut drive, now, 1, 0, &[command(op, 1 << 24, 0)]);
        let taken = (times[0] - now) as f64 / MS as f64;
        assert!((taken - f64::from(expected)).abs() < 0.2, "{op:?}: {taken} ms");
        now = times[0];
    }
    let opening = Command { opens: true, ..command(Op::Write, 1 << 24, 1) };
    let times = closed_loop(&mut drive, now, 1, 0, &[opening]);
    assert!(times[0] - now > 20 * MS, "a first write opens its zone");
}

#[test]
fn a_drive_that_verifies_writes_slower_than_it_reads() {
    let profile = Profile::named("ha10").unwrap();
    let rate = |op| {
        let times = closed_loop(&mut Drive::new(&profile, 1), 0, 32, 0, &sequential(op, 1 << 20, 1000, 128));
        1000.0 * 524_288.0 / *times.last().unwrap() as f64 * 1e3
    };
    let (read, write) = (rate(Op::Read), rate(Op::Write));
    assert!(read > 2.0 * write, "{read} and {write} MB/s");
    let mut synchronous = profile.clone();
    synchronous.cache.write_cache = false;
    let times = closed_loop(&mut Drive::new(&synchronous, 1), 0, 1, 20_000, &sequential(Op::Write, 1 << 20, 50, 1));
    assert!(mean_ms(&times) > 16.0, "a turn to come round, and one to verify: {}", mean_ms(&times));
}

#[test]
fn every_nth_zone_keeps_the_seeks_of_the_whole_drive() {
    let zones = u64::from(disk().shape.zones);
    let mut number = random(4);
    let places: Vec<_> = (0..2000).map(|_| (number(zones / 60), number(65_536))).collect();
    let reads = |every: u64| {
        let commands: Vec<_> =
            places.iter().map(|&(zone, block)| command(Op::Read, zone * every * 65_536 + block, 1)).collect();
        commands
    };
    let scaled = closed_loop(&mut Drive::new(&disk(), 60), 0, 1, 0, &reads(1));
    let whole = closed_loop(&mut Drive::new(&disk(), 1), 0, 1, 0, &reads(60));
    assert_eq!(scaled, whole);
}

#[test]
fn flash_reads_side_by_side_and_writes_at_the_pace_of_its_dies() {
    let profile = Profile::named("zns-1tb").unwrap();
    assert_eq!(profile.kind, Kind::Zns);
    let mut number = random(5);
    let reads: Vec<_> = (0..20_000).map(|_| command(Op::Read, number(1 << 27), 1)).collect();
    let iops = |depth| 1000.0 / mean_ms(&closed_loop(&mut Drive::new(&profile, 1), 0, depth, 0, &reads));
    assert!(iops(32) > 8.0 * iops(1), "{} and {}", iops(1), iops(32));
    let writes = sequential(Op::Write, 0, 4000, 64);
    let times = closed_loop(&mut Drive::new(&profile, 1), 0, 8, 0, &writes);
    let rate = 4000.0 * 262_144.0 / *times.last().unwrap() as f64 * 1e3;
    assert!((1100.0..1400.0).contains(&rate), "32 dies of 40 MB/s: {rate} MB/s");
}

/// DM-MODEL-1. The numbers are those of the first run ever made; any machine must come to the same.
#[test]
fn the_model_gives_the_same_nanoseconds_everywhere() {
    let mut number = random(6);
    let mut commands = Vec::new();
    for _ in 0..3000 {
        let zone = number(74_508) * 65_536;
        commands.push(match number(4) {
            0 => command(Op::Write, zone, 1 + number(256)),
            1 => command(Op::Open, zone, 0),
            _ => command(Op::Read, zone + number(60_000), 1 + number(256)),
        });
    }
    let fingerprint = |profile: &Profile| {
        let times = closed_loop(&mut Drive::new(profile, 1), 0, 24, 1000, &commands);
        times.iter().fold(0u64, |hash, &time| hash.rotate_left(5).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ time)
    };
    let profiles = Profile::built_in().unwrap();
    let found: Vec<_> = profiles.iter().filter(|profile| profile.translation.is_none()).map(fingerprint).collect();
    assert_eq!(found, GOLDEN);
}

const GOLDEN: [u64; 7] = [
    5_652_430_007_934_718_592,
    6_397_536_559_885_020_051,
    4_248_582_328_971_551_959,
    5_652_430_007_934_718_592,
    17_092_931_204_263_830_865,
    4_678_825_553_361_450_407,
    2_175_211_922_341_845_541,
];
