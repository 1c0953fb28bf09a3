//! The dissertation's emulated drives behave as it measured. (Section 2.4, Table 2.1.)

mod common;

use common::{MS, TB, closed_loop, command, fragmented, latencies, mean_read_ms, median, pause, random, random_writes};
use shingle_drive_model::{Command, Drive, Nanos, Op, Profile, Translation};

fn emulated(number: u32) -> Profile {
    Profile::named(&format!("emulated-smr-{number}")).unwrap()
}

/// Test 1, Figure 2.4: a turn where the cache lies on the platters, less than a millisecond on flash; varying on a conventional
/// disk.
#[test]
fn latency_of_random_writes_tells_the_drives_apart() {
    // Within one band: the cache bands of a set-associative drive lie apart, so that writes to several vary, too.
    let taken = |profile: &Profile| {
        let times = closed_loop(&mut Drive::new(profile, 1), 0, 1, 40_000, &random_writes(1, 500, 20 << 8, 0));
        latencies(&times, 0, 40_000)
    };
    let fixed = |taken: &[f64]| {
        let middle = median(taken);
        (middle, taken.iter().filter(|at| (**at - middle).abs() < 1.0).count())
    };
    for (number, expected) in [(1, 10.2), (3, 10.2)] {
        let (middle, near) = fixed(&taken(&emulated(number)));
        assert!((middle - expected).abs() < 1.5 && near > 450, "emulated-smr-{number}: {middle} ms, {near} near it");
    }
    assert!(taken(&emulated(2)).iter().all(|at| *at < 1.0));
    let (middle, near) = fixed(&taken(&Profile::named("st4000nc001").unwrap()));
    assert!(near < 300, "{middle} ms, {near} near it");
}

/// Test 2, Figure 2.8: a single cache at the inner diameter, and several.
#[test]
fn fragmented_reads_tell_where_the_cache_lies() {
    let means = |number: u32| {
        [0, 1, 2].map(|half| {
            let mut drive = Drive::new(&emulated(number), 1);
            let at = (drive.blocks() - 8192) * half / 2;
            let written = fragmented(&mut drive, 0, at);
            mean_read_ms(&mut drive, written, at)
        })
    };
    let [low, mid, high] = means(1);
    assert!(low > mid * 1.15 && mid > high * 1.15, "{low} {mid} {high}");
    let several = means(3);
    let (least, most) = (several.iter().copied().fold(f64::MAX, f64::min), several.iter().copied().fold(0.0, f64::max));
    assert!(most < least * 1.25, "{several:?}");
}

/// Test 3, Figure 2.10: set-associative drives leave a fragmented band as it is, fully associative ones clean it when idle.
#[test]
fn some_drives_clean_when_idle_and_some_do_not() {
    for (number, cleans) in [(1, false), (2, false), (3, true)] {
        let mut drive = Drive::new(&emulated(number), 1);
        let at = 40 * 256 * 25;
        let written = fragmented(&mut drive, 0, at);
        let before = mean_read_ms(&mut drive.clone(), written, at);
        let from = pause(&mut drive, written + 5_000_000_000);
        let after = mean_read_ms(&mut drive, from, at);
        assert_eq!((after - before).abs() > 0.05 * before, cleans, "emulated-smr-{number}: {before} and {after} ms");
    }
}

/// Test 8, Table 2.2: cleaning begins when the cache is nearly full.
#[test]
fn random_writes_fill_the_cache_before_they_become_slow() {
    // A tenth of the drive, and of its cache.
    let smaller = |number: u32, zones: u32| {
        let mut profile = emulated(number);
        profile.shape.zones = zones;
        profile.shape.conventional_zones = zones;
        if let Some(Translation::SetAssociative(spec)) = &mut profile.translation {
            spec.cache_bands /= 100;
        }
        profile
    };
    for (number, gib) in [(1, 0.372), (2, 0.0998), (3, 0.372)] {
        let profile = smaller(number, 160);
        let blocks = 160 * 65_536;
        let mut random = random(19);
        let writes: Vec<Command> = (0..140_000).map(|_| command(Op::Write, random(blocks), 1)).collect();
        let mut times = closed_loop(&mut Drive::new(&profile, 1), 0, 31, 0, &writes);
        times.sort_unstable();
        let slow = |window: usize| times[window + 200] - times[window] > 4_000_000_000;
        let began = (0..139_000).find(|&at| slow(at)).unwrap();
        let written = began as f64 * 4096.0 / f64::from(1 << 30);
        assert!((0.80..1.08).contains(&(written / gib)), "emulated-smr-{number}: {written} GiB of {gib}");
    }
}

/// Section 2.3.1: a band that is written from end to end costs a fully associative drive no copies, and a set-associative one
/// its cache.
#[test]
fn streams_are_free_on_a_drive_with_dynamic_mapping() {
    let rate = |number: u32| {
        let mut profile = emulated(number);
        if let Some(Translation::SetAssociative(spec)) = &mut profile.translation {
            spec.cache_bands = 20;
        }
        let writes: Vec<Command> = (0..8000).map(|number| command(Op::Write, number * 256, 256)).collect();
        let times = closed_loop(&mut Drive::new(&profile, 1), 0, 8, 0, &writes);
        8000.0 * 1.048_576 / (times.iter().copied().max().unwrap() as f64 / 1e9)
    };
    let (mapped, cached) = (rate(3), rate(1));
    assert!(mapped > 140.0 && cached < mapped * 0.7, "{mapped} and {cached} MB/s");
}

/// Figure 3.13 (d): a drive that mixes cleaning with the host's work is slower from the start, and stalls for a shorter time.
#[test]
fn a_drive_that_mixes_cleaning_with_writes_is_slower_at_first_and_stalls_less() {
    let run = |mix: Option<f64>| {
        let mut profile = Profile::named("wd40nmzw").unwrap();
        if let Some(Translation::FullyAssociative(spec)) = &mut profile.translation {
            (spec.mix_share, spec.spare) = (mix, 0.006);
        }
        let mut random = random(23);
        let writes: Vec<Command> = (0..20_000).map(|_| command(Op::Write, random(1 << 14) * 16, 16)).collect();
        let mut times = closed_loop(&mut Drive::new(&profile, 1), 0, 31, 0, &writes);
        times.sort_unstable();
        (times[2000], times.windows(2).map(|two| two[1] - two[0]).max().unwrap())
    };
    let ((mixed_first, mixed_stall), (first, stall)) = (run(Some(0.4)), run(None));
    assert!(mixed_first * 10 > first * 13 && mixed_stall < stall, "{mixed_first} {mixed_stall} {first} {stall}");
}

/// DM-MODEL-1.
#[test]
fn the_same_commands_take_the_same_nanoseconds() {
    for number in 1..=3 {
        let run = || {
            let mut drive = Drive::new(&emulated(number), 1);
            let times = closed_loop(&mut drive, 0, 8, 0, &random_writes(29, 3000, TB, 0));
            let last: Nanos = times.iter().copied().max().unwrap();
            (times, mean_read_ms(&mut drive, last + MS as Nanos, 0))
        };
        assert_eq!(run(), run());
    }
}
