//! Writes that are durable when they complete, and blocks that the host needs no more.

mod common;

use common::{MS, TB, closed_loop, command, latencies, pause, random_writes};
use shingle_drive_model::{Command, Drive, Nanos, Op, Profile, Translation};

fn with_cache(name: &str) -> Profile {
    let mut profile = Profile::named(name).unwrap();
    profile.cache.write_cache = true;
    profile
}

fn take(drive: &mut Drive, from: Nanos, commands: &[Command]) -> (Nanos, Nanos) {
    let until = *closed_loop(drive, from, 1, 0, commands).iter().max().unwrap();
    (until - from, until)
}

const FLUSH: Command = Command { op: Op::Flush, at: 0, blocks: 0, opens: false };

fn through(writes: &[Command]) -> Vec<Command> {
    writes.iter().map(|write| Command { op: Op::WriteThrough, ..*write }).collect()
}

/// Without a volatile cache every write is of that kind.
#[test]
fn where_no_cache_is_volatile_a_durable_write_takes_no_longer() {
    for name in ["st20000nm001j", "st16000nm001g", "st5000as0011", "emulated-smr-1", "emulated-smr-2", "wd40nmzw"] {
        let mut profile = Profile::named(name).unwrap();
        profile.cache.write_cache = false;
        let writes = random_writes(1, 300, TB, 0);
        let run = |writes: &[Command]| closed_loop(&mut Drive::new(&profile, 1), 0, 4, 1000, writes);
        assert_eq!(run(&writes), run(&through(&writes)), "{name}");
    }
}

/// The head goes to its place at once; what else is in the cache stays there.
#[test]
fn a_durable_write_goes_past_the_cache_of_a_conventional_disk() {
    let mut drive = Drive::new(&with_cache("st16000nm001g"), 1);
    let writes = random_writes(2, 60, TB, 0);
    let (cached, now) = take(&mut drive, 0, &writes[..50]);
    assert!(cached < 20 * MS as Nanos, "{cached}");
    let (durable, now) = take(&mut drive, now, &through(&writes[50..51]));
    assert!((1.0..40.0).contains(&(durable as f64 / MS)), "{durable} ns: a place, and perhaps the work before it");
    let (flushed, _) = take(&mut drive, now, &[FLUSH]);
    assert!(flushed > 100 * MS as Nanos, "{flushed} ns for what is left in the cache");
}

/// DM-DISK-1: the writes before it in its zone go first, those of other zones need not.
#[test]
fn a_durable_write_to_a_zone_waits_for_those_before_it() {
    let profile = with_cache("st20000nm001j");
    let zone = 1u64 << 24;
    let cached: Vec<Command> = (0..8).map(|number| command(Op::Write, zone + number * 64, 64)).collect();
    let others: Vec<Command> = (1..40).map(|number| command(Op::Write, zone + number * (1 << 22), 1)).collect();
    let last = through(&[command(Op::Write, zone + 8 * 64, 64)]);
    let alone = |commands: &[Command]| {
        let mut drive = Drive::new(&profile, 1);
        let (_, now) = take(&mut drive, 0, commands);
        let (durable, now) = take(&mut drive, now, &last);
        let (flushed, _) = take(&mut drive, now, &[FLUSH]);
        (durable, flushed)
    };
    let (durable, flushed) = alone(&cached);
    assert!(durable > 7 * MS as Nanos && flushed < MS as Nanos, "{durable} {flushed}: nothing of the zone is left");
    let (_, flushed) = alone(&[cached.clone(), others].concat());
    assert!(flushed > 20 * MS as Nanos, "{flushed}: other zones' writes are left");
}

#[test]
fn flash_with_a_volatile_buffer_programs_a_durable_write_first() {
    let writes: Vec<Command> = (0..20).map(|number| command(Op::Write, number * 64, 64)).collect();
    let run = |volatile: bool, writes: &[Command], last: Command| {
        let mut profile = Profile::named("zns-1tb").unwrap();
        profile.cache.write_cache = volatile;
        let mut drive = Drive::new(&profile, 1);
        let (taken, now) = take(&mut drive, 0, writes);
        (taken, take(&mut drive, now, &[last]).0)
    };
    let (cached, flush) = run(true, &writes, FLUSH);
    let (durable, nothing) = run(true, &through(&writes), FLUSH);
    // 256 KiB at the 40 MB/s of four dies.
    assert!(durable > cached * 3 && durable > 20 * 1_600_000, "{cached} {durable}");
    assert!(flush > 1_000_000 && nothing < 100_000, "{flush} {nothing}");
    let (protected, flush) = run(false, &through(&writes), FLUSH);
    assert!(protected == cached && flush < 100_000, "{protected} {flush}: capacitors keep the buffer");
}

/// An entry of its own, at once; the rest of the volatile cache waits on.
#[test]
fn a_durable_write_is_journaled_and_leaves_the_rest_in_the_volatile_cache() {
    let mut profile = with_cache("st5000as0011");
    if let Some(Translation::MediaCache(spec)) = &mut profile.translation {
        spec.hold_ms = 10_000.0;
    }
    let mut drive = Drive::new(&profile, 1);
    let writes = random_writes(3, 40, TB, 0);
    let (cached, now) = take(&mut drive, 0, &writes[..39]);
    assert!(cached < 10 * MS as Nanos, "{cached}");
    let (durable, now) = take(&mut drive, now, &through(&writes[39..]));
    assert!((10.0..60.0).contains(&(durable as f64 / MS)), "{durable} ns for an entry");
    let (again, now) = take(&mut drive, now, &through(&writes[39..]));
    assert!((10.0..60.0).contains(&(again as f64 / MS)), "{again} ns for another");
    let (flushed, now) = take(&mut drive, now, &[FLUSH]);
    assert!(flushed > 10 * MS as Nanos, "{flushed} ns for the 39 writes");
    let (nothing, _) = take(&mut drive, now, &[FLUSH]);
    assert!(nothing < MS as Nanos, "{nothing}");
}

/// Section 2.4.11: what a stream has not made durable is lost with the power, but for a write that was to be durable.
#[test]
fn a_durable_write_of_a_stream_completes_when_it_is_on_the_band() {
    let mut drive = Drive::new(&with_cache("st5000as0011"), 1);
    let writes: Vec<Command> = (0..30).map(|number| command(Op::Write, TB + number * 256, 256)).collect();
    let (_, now) = take(&mut drive, 0, &writes[..29]);
    let (durable, now) = take(&mut drive, now, &through(&writes[29..]));
    let end = TB + 30 * 256;
    assert!(durable > 10 * MS as Nanos, "{durable}");
    assert!(drive.torn().iter().all(|torn| torn.start >= end), "{:?} before {end}", drive.torn());
    // It goes on as a stream: the arm does not go to the cache.
    drive.watch_arm(true);
    let more: Vec<Command> = (30..60).map(|number| command(Op::Write, TB + number * 256, 256)).collect();
    take(&mut drive, now, &more);
    assert!(drive.take_motions().iter().all(|motion| motion.at > 20_000));
}

/// The number of motions of the arm from `from` on while nobody asks for anything, and the pause's end.
fn quiet_motions(drive: &mut Drive, from: Nanos, seconds: u64) -> usize {
    drive.watch_arm(true);
    pause(drive, from + seconds * 1_000_000_000);
    drive.take_motions().len()
}

/// The cleaning of what the host needs no more costs nothing; that of the rest costs what it does.
#[test]
fn drives_do_not_clean_what_the_host_needs_no_more() {
    for name in ["st5000as0011", "emulated-smr-3"] {
        for volatile in [false, true] {
            if volatile && name != "st5000as0011" {
                continue;
            }
            let profile = if volatile { with_cache(name) } else { Profile::named(name).unwrap() };
            let left = |trimmed: usize| {
                let mut drive = Drive::new(&profile, 1);
                let writes = random_writes(5, 40, TB, 0);
                let (_, now) = take(&mut drive, 0, &writes);
                let trims: Vec<Command> = writes.iter().map(|write| command(Op::Trim, write.at, 1)).collect();
                let now = if trimmed > 0 { take(&mut drive, now, &trims[..trimmed]).1 } else { now };
                // An entry may be under way when its blocks are trimmed.
                pause(&mut drive, now + 50 * MS as Nanos);
                quiet_motions(&mut drive, now + 50 * MS as Nanos, 120)
            };
            let (all, half, none) = (left(0), left(20), left(40));
            assert!(none < all / 20, "{name}, volatile {volatile}: {none} motions of {all}");
            assert!(half * 10 < all * 6 && half * 10 > all * 4, "{name}, volatile {volatile}: {half} motions of {all}");
        }
    }
}

/// A cache band that holds nothing any more is clean at once.
#[test]
fn a_set_associative_drive_cleans_trimmed_cache_bands_for_nothing() {
    let run = |trims: bool| {
        let mut profile = Profile::named("emulated-smr-1").unwrap();
        if let Some(Translation::SetAssociative(spec)) = &mut profile.translation {
            spec.cache_bands = 2;
        }
        let mut drive = Drive::new(&profile, 1);
        // The bands have 40 MiB: after 80 writes of 1 MiB, each to another, both cache bands are full.
        let write = |number: u64| command(Op::Write, number * 40 * 256, 256);
        let (_, now) = take(&mut drive, 0, &(0..80).map(write).collect::<Vec<_>>());
        let now = if trims { take(&mut drive, now, &[command(Op::Trim, 0, TB)]).1 } else { now };
        take(&mut drive, now, &(80..120).map(write).collect::<Vec<_>>()).0
    };
    let (trimmed, not) = (run(true), run(false));
    assert!(trimmed * 5 < not, "{trimmed} and {not} ns");
}

/// DM-LOG-2: writers that wait for room go on as soon as a trim makes some.
#[test]
fn a_trim_makes_room_for_writers_that_wait() {
    let mut profile = Profile::named("st5000as0011").unwrap();
    if let Some(Translation::MediaCache(spec)) = &mut profile.translation {
        spec.map_extents = 1000;
    }
    let mut drive = Drive::new(&profile, 1);
    let writes = random_writes(9, 912, 4 * TB, 0);
    let until = *closed_loop(&mut drive, 0, 31, 1000, &writes).iter().max().unwrap();
    let mut done = Vec::new();
    drive.submit(until, 5000, command(Op::Write, 77, 1));
    drive.advance(until + 200 * MS as Nanos, &mut done);
    assert!(done.is_empty(), "the map is full");
    drive.submit(until + 200 * MS as Nanos, 5001, command(Op::Trim, 0, 5 * TB));
    // The band that is being cleaned takes longer.
    drive.advance(until + 350 * MS as Nanos, &mut done);
    assert_eq!(done, [5001, 5000]);
}

#[test]
fn blocks_trimmed_in_the_volatile_cache_are_never_written() {
    let run = |trims: bool| {
        let mut drive = Drive::new(&with_cache("st5000as0011"), 1);
        drive.watch_arm(true);
        let writes = random_writes(11, 10, TB, 0);
        let (_, now) = take(&mut drive, 0, &writes);
        let now = if trims { take(&mut drive, now, &[command(Op::Trim, 0, TB)]).1 } else { now };
        pause(&mut drive, now + 900 * MS as Nanos);
        drive.take_motions().len()
    };
    assert!(run(false) > 0);
    assert_eq!(run(true), 0);
}

/// Spare bands that streams hold do not lock out writes that wait for one.
#[test]
fn streams_that_hold_all_spare_bands_give_way_to_single_writes() {
    let mut profile = Profile::named("emulated-smr-3").unwrap();
    if let Some(Translation::FullyAssociative(spec)) = &mut profile.translation {
        spec.spare = 0.001;
    }
    let band = 20 * 256;
    let mut drive = Drive::new(&profile, 1);
    let mut commands: Vec<Command> = (0..4).map(|stream| command(Op::Write, stream * band, 256)).collect();
    commands.extend((0..40).map(|number| command(Op::Write, 50 * band + number * 7, 1)));
    let times = closed_loop(&mut drive, 0, 1, 20_000, &commands);
    let taken = latencies(&times, 0, 20_000);
    assert!(taken.iter().all(|taken| *taken < 4000.0), "{taken:?}");
}
