//! Loads for drives.

// Each test program uses some of it.
#![allow(dead_code)]

use std::collections::BTreeMap;

use shingle_drive_model::{Command, Drive, Nanos, Op, Profile};

pub(crate) const MS: f64 = 1e6;

/// Blocks of a TB.
pub(crate) const TB: u64 = 1_000_000_000_000 / 4096;

/// Keeps `depth` commands outstanding until all are done, and returns when each completed.
pub(crate) fn closed_loop(
    drive: &mut Drive,
    from: Nanos,
    depth: usize,
    think: Nanos,
    commands: &[Command],
) -> Vec<Nanos> {
    let mut times = vec![0; commands.len()];
    let mut next = 0;
    let mut submissions: BTreeMap<(Nanos, usize), ()> = BTreeMap::new();
    while next < depth.min(commands.len()) {
        submissions.insert((from, next), ());
        next += 1;
    }
    let mut left = commands.len();
    let mut done = Vec::new();
    while left > 0 {
        let event = drive.next_event().unwrap_or(Nanos::MAX);
        let submit = submissions.first_key_value().map_or(Nanos::MAX, |(&(at, _), ())| at);
        if submit <= event {
            let ((at, number), ()) = submissions.pop_first().unwrap();
            drive.submit(at, number as u64, commands[number]);
        } else {
            drive.advance(event, &mut done);
        }
        for id in done.drain(..) {
            times[id as usize] = event;
            left -= 1;
            if next < commands.len() {
                submissions.insert((event + think, next), ());
                next += 1;
            }
        }
    }
    times
}

pub(crate) fn command(op: Op, at: u64, blocks: u64) -> Command {
    Command { op, at, blocks, opens: false }
}

/// Numbers without end, the same ones each time.
pub(crate) fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 20) % below
    }
}

/// Latencies of commands that were all given one after the other, in milliseconds.
pub(crate) fn latencies(times: &[Nanos], from: Nanos, think: Nanos) -> Vec<f64> {
    let began = std::iter::once(from).chain(times.iter().map(|&time| time + think));
    times.iter().zip(began).map(|(&end, begin)| (end - begin) as f64 / MS).collect()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Single blocks at random over `blocks` of the host.
pub(crate) fn random_writes(seed: u64, count: u64, blocks: u64, from: u64) -> Vec<Command> {
    let mut random = random(seed);
    (0..count).map(|_| command(Op::Write, from + random(blocks), 1)).collect()
}

/// Lets the drive work until `to`.
pub(crate) fn pause(drive: &mut Drive, to: Nanos) -> Nanos {
    let mut done = Vec::new();
    drive.advance(to, &mut done);
    assert!(done.is_empty());
    to
}

/// Every second block of a region, which makes a read of it go to and fro. (Test 2.)
pub(crate) fn fragmented(drive: &mut Drive, from: Nanos, at: u64) -> Nanos {
    let writes: Vec<Command> = (0..512).map(|number| command(Op::Write, at + 2 * number, 1)).collect();
    *closed_loop(drive, from, 31, 20_000, &writes).iter().max().unwrap()
}

pub(crate) fn mean_read_ms(drive: &mut Drive, from: Nanos, at: u64) -> f64 {
    let reads: Vec<Command> = (0..1024).map(|number| command(Op::Read, at + number, 1)).collect();
    let times = closed_loop(drive, from, 1, 20_000, &reads);
    latencies(&times, from, 20_000).iter().sum::<f64>() / 1024.0
}

/// Size in MiB of the bands behind `at`, by what cleaning has made native of blocks that were written in disorder. (Test 11.)
pub(crate) fn band_mib(profile: &Profile, at: u64) -> usize {
    let mut drive = Drive::new(profile, 1);
    let mut order: Vec<u64> = (0..2500).collect();
    let mut number = random(17);
    (0..2500).for_each(|at| order.swap(at, number(2500) as usize));
    let writes: Vec<Command> = order.iter().map(|mib| command(Op::Write, at + mib * 256, 1)).collect();
    let written = *closed_loop(&mut drive, 0, 31, 20_000, &writes).iter().max().unwrap();
    let from = pause(&mut drive, written + 3_300_000_000);
    let reads: Vec<Command> = (0..2500).map(|mib| command(Op::Read, at + mib * 256, 1)).collect();
    let times = closed_loop(&mut drive, from, 1, 20_000, &reads);
    let taken = latencies(&times, from, 20_000);
    // Of a clean band each read takes as long as the one before.
    let same: Vec<bool> = taken.windows(2).map(|two| (two[0] - two[1]).abs() < 0.7).collect();
    // Neighbours may be clean, too: the shortest stretch is one band.
    let stretches = same.split(|same| !same).map(<[bool]>::len).filter(|&length| length >= 8);
    stretches.min().unwrap() + 1
}
