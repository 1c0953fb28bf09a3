//! Drives that are off their nominal times.

mod common;

use common::{MS, TB, closed_loop, command, latencies, median, random, random_writes};
use shingle_drive_model::{Command, Drive, Jitter, Nanos, Op, Profile};

fn with(name: &str, jitter: Jitter) -> Profile {
    Profile { jitter: Some(jitter), ..Profile::named(name).unwrap() }
}

fn spindle(seed: u64) -> Jitter {
    Jitter { seed, spindle_ppm: 5000, wander_us: 200, completion_us: 0.0 }
}

/// DM-MODEL-1: of the same seed the same nanoseconds, of another one others; a clone goes on alike.
#[test]
fn a_seed_gives_the_same_times_and_another_seed_others() {
    let all = |seed| Jitter { completion_us: 100.0, ..spindle(seed) };
    for name in ["st20000nm001j", "st5000as0011", "emulated-smr-2", "emulated-smr-3"] {
        let writes = random_writes(1, 400, TB, 0);
        let run = |seed| closed_loop(&mut Drive::new(&with(name, all(seed)), 1), 0, 4, 1000, &writes);
        assert_eq!(run(1), run(1), "{name}");
        assert_ne!(run(1), run(2), "{name}");
        let mut drive = Drive::new(&with(name, all(3)), 1);
        let until = *closed_loop(&mut drive, 0, 4, 1000, &writes).iter().max().unwrap();
        let go_on = |mut drive: Drive| closed_loop(&mut drive, until, 4, 1000, &writes);
        assert_eq!(go_on(drive.clone()), go_on(drive), "{name}");
    }
}

/// The head follows the platters at their own speed: a stream misses no turn, and the turn that a synchronous writer misses is
/// as long as the drive's own turn.
#[test]
fn a_spindle_off_its_speed_makes_all_slower_or_faster_alike() {
    let writes: Vec<Command> = (0..400).map(|number| command(Op::Write, (1 << 24) + number * 2048, 2048)).collect();
    let nominal = Profile::named("st20000nm001j").unwrap();
    let run =
        |profile: &Profile, depth| *closed_loop(&mut Drive::new(profile, 1), 0, depth, 20_000, &writes).last().unwrap();
    let (stream, synchronous) = (run(&nominal, 32) as f64, run(&nominal, 1) as f64);
    let mut speeds = Vec::new();
    for seed in 0..20 {
        let profile = with("st20000nm001j", spindle(seed));
        let speed = run(&profile, 32) as f64 / stream;
        assert!((0.994..1.006).contains(&speed), "seed {seed}: a stream takes {speed} times as long");
        let turns = run(&profile, 1) as f64 / synchronous;
        assert!((turns - speed).abs() < 0.002, "seed {seed}: {turns} and {speed}");
        speeds.push(speed);
    }
    let off = speeds.iter().filter(|speed| (*speed - 1.0).abs() > 0.002).count();
    assert!(off > 5, "{speeds:?}");
}

/// A read-ahead of a drive whose platters wander is still hit.
#[test]
fn a_synchronous_reader_is_spared_the_turns_on_a_drive_with_jitter_too() {
    let reads: Vec<Command> = (0..500).map(|number| command(Op::Read, (1 << 24) + number * 16, 16)).collect();
    for seed in 0..10 {
        let times = closed_loop(&mut Drive::new(&with("st20000nm001j", spindle(seed)), 1), 0, 1, 20_000, &reads);
        let mean = *times.last().unwrap() as f64 / 500.0 / MS;
        assert!(mean < 0.5, "seed {seed}: {mean} ms a read");
    }
}

/// Of a persistent cache, too: two turns and a half for each write.
#[test]
fn a_journal_entry_takes_two_and_a_half_of_the_drives_own_turns() {
    for seed in 0..8 {
        let profile = with("st5000as0011", Jitter { wander_us: 20, ..spindle(seed) });
        let times = closed_loop(&mut Drive::new(&profile, 1), 0, 1, 40_000, &random_writes(1, 400, TB, 0));
        let taken = latencies(&times, 0, 40_000);
        let middle = median(&taken);
        let near = taken.iter().filter(|at| (**at - middle).abs() < 1.0).count();
        assert!((24.9..26.0).contains(&middle) && near > 380, "seed {seed}: {middle} ms, {near} near it");
    }
}

#[test]
fn completions_come_late_by_their_mean_and_sometimes_by_far_more() {
    let mut number = random(5);
    let reads: Vec<Command> = (0..20_000).map(|_| command(Op::Read, number(1 << 20), 1)).collect();
    let run = |completion_us| {
        let jitter = Jitter { seed: 9, completion_us, ..Jitter::default() };
        let times = closed_loop(&mut Drive::new(&with("zns-1tb", jitter), 1), 0, 1, 1_000_000, &reads);
        latencies(&times, 0, 1_000_000)
    };
    let late: Vec<f64> = run(50.0).iter().zip(run(0.0)).map(|(with, without)| (with - without) * 1e3).collect();
    let mean = late.iter().sum::<f64>() / late.len() as f64;
    assert!((40.0..60.0).contains(&mean), "{mean} us in the mean");
    let by = |factor: f64| late.iter().filter(|late| **late > 50.0 * factor).count();
    assert!(late.iter().all(|late| *late > -0.1));
    assert!(
        (160..240).contains(&by(9.0)) && by(40.0) < 30,
        "{} of 20,000 by 9 times as much, {} by 40",
        by(9.0),
        by(40.0)
    );
}

/// Later than their drive is done, and the drive goes on meanwhile.
#[test]
fn a_late_completion_does_not_hold_up_the_drive() {
    let reads: Vec<Command> = (0..2000).map(|number| command(Op::Read, (1 << 24) + number * 128, 128)).collect();
    let run = |completion_us| -> Nanos {
        let jitter = Jitter { seed: 9, completion_us, ..Jitter::default() };
        *closed_loop(&mut Drive::new(&with("st16000nm001g", jitter), 1), 0, 32, 0, &reads).iter().max().unwrap()
    };
    assert!(run(200.0) < run(0.0) * 101 / 100, "{} and {} ns", run(200.0), run(0.0));
}
