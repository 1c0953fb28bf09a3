//! A whole survey of each built-in drive, and the profile that it emits.

use shingle_drive_model::{Jitter, Profile, Translation};
use shingle_skylight::{
    Access, Findings, Halt, Host, Modelled, Nanos, Op, Session, Step, Taken, Target, TargetError, Unwatched, Watch,
    emit, loads, survey,
};

/// The same writes for every `host`, whose delays differ: the same drive under two draws of a load differs by 5 %.
fn loads_of(profile: &Profile, host: u64) -> Vec<loads::Load> {
    let mut drive = Modelled::new(profile, Host { seed: host, ..Host::default() }).unwrap();
    let mut unwatched = Unwatched;
    loads::run(&mut Session::new(&mut drive, &mut unwatched, 43).unwrap()).unwrap()
}

fn findings_of(profile: &Profile, steps: &[Step], seed: u64) -> Findings {
    let mut drive = Modelled::new(profile, Host { seed, ..Host::default() }).unwrap();
    let mut findings = Findings::new(&profile.model, drive.blocks(), seed);
    let mut unwatched = Unwatched;
    let mut session = Session::new(&mut drive, &mut unwatched, seed).unwrap();
    survey(&mut session, &mut findings, steps, |_| {}, |_| {}).unwrap();
    findings
}

/// The profile that is emitted has the latencies of the drive it was measured on, for the loads of Figures 2.4 and 2.15: the median
/// within 5 %, the 99th percentile within 15 %.
#[test]
fn the_emitted_profile_reproduces_the_drive() {
    for name in [
        "st5000as0011",
        "st8000as0002",
        "emulated-smr-1",
        "emulated-smr-2",
        "emulated-smr-3",
        "wd40nmzw",
        "st4000nc001",
    ] {
        let profile = Profile::named(name).unwrap();
        let findings = findings_of(&profile, &Step::ALL, 41);
        let emitted = emit::profile(&findings, "emitted").unwrap_or_else(|reason| panic!("{name}: {reason}"));
        assert_eq!(emitted.kind, profile.kind, "{name}");
        let same = |one: &Option<Translation>, other: &Option<Translation>| match (one, other) {
            (Some(one), Some(other)) => std::mem::discriminant(one) == std::mem::discriminant(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        assert!(same(&emitted.translation, &profile.translation), "{name}: {:?}", emitted.translation);
        // Shares of mixed cleaning, which the host sees less of than the drive spends.
        if let (Some(Translation::FullyAssociative(one)), Some(Translation::FullyAssociative(other))) =
            (&emitted.translation, &profile.translation)
        {
            let (one, other) = (one.mix_share.unwrap_or(0.0), other.mix_share.unwrap_or(0.0));
            assert!((one - other).abs() < 0.05, "{name}: {one}, {other}");
        }
        closes(&profile, &emitted);
    }
}

/// The loads of Figures 2.4 and 2.15 take as long on the profile as on the drive.
fn closes(profile: &Profile, emitted: &Profile) {
    let name = &profile.name;
    for (drive, model) in loads_of(profile, 43).iter().zip(loads_of(emitted, 47)) {
        let (median, p99) = (model.median_ms / drive.median_ms - 1.0, model.p99_ms / drive.p99_ms - 1.0);
        println!("{name}: {} median {:.2} {median:+.3} p99 {:.2} {p99:+.3}", drive.name, drive.median_ms, drive.p99_ms);
        assert!(median.abs() < 0.05 && p99.abs() < 0.15, "{name}: {drive:?} {model:?} {emitted:?}");
    }
}

/// Drives that differ from the built-in ones in what no single latency shows: the wait of writes for the arm, completions that the
/// host hears of late, and entries that are full to the last block.
#[test]
fn waits_of_writes_late_completions_and_full_entries_are_reproduced() {
    for (name, write_settle_ms, completion_us, outer_mb_s) in [
        ("emulated-smr-1", 0.7, 1.0, 180.0),
        ("emulated-smr-3", 0.65, 5.0, 180.0),
        ("emulated-smr-2", 0.4, 9.0, 180.0),
        // Three quanta of entries are 495 blocks, and 31 writes of 64 KiB have 496.
        ("st5000as0011", 0.4, 2.0, 133.6),
    ] {
        let mut profile = Profile::named(name).unwrap();
        profile.mechanics.as_mut().unwrap().write_settle_ms = write_settle_ms;
        profile.recording.as_mut().unwrap().outer_mb_s = outer_mb_s;
        profile.jitter = Some(Jitter { seed: 5, spindle_ppm: 1000, wander_us: 5, completion_us });
        let findings = findings_of(&profile, &Step::ALL, 41);
        let emitted = emit::profile(&findings, "emitted").unwrap_or_else(|reason| panic!("{name}: {reason}"));
        closes(&profile, &emitted);
    }
}

/// Stops a session after some looks.
struct After(u32);

impl Watch for After {
    fn stops(&mut self, _: Nanos) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 == 0
    }
}

/// SKY-SURVEY-2: a survey that is stopped again and again repeats no examination, and ends.
#[test]
fn a_stopped_survey_goes_on_where_it_was() {
    let profile = Profile::named("emulated-smr-3").unwrap();
    let mut drive = Modelled::new(&profile, Host::default()).unwrap();
    let mut findings = Findings::new("drive", drive.blocks(), 1);
    let (mut begun, mut stops) = (Vec::new(), 0);
    let mut looks = 20;
    loop {
        let mut watch = After(looks);
        let mut session = Session::new(&mut drive, &mut watch, 1).unwrap();
        let mut now = Vec::new();
        let end = survey(&mut session, &mut findings, &Step::ALL, |step| now.push(step), |_| {});
        if end == Err(Halt::Stopped) {
            // The last one that began was stopped.
            now.pop();
            stops += 1;
            looks *= 2;
        }
        begun.extend(now);
        if end.is_ok() {
            break;
        }
    }
    assert!(stops > 3, "{stops} stops");
    let mut once = begun.clone();
    once.dedup();
    assert_eq!((begun.len(), begun.first(), begun.last()), (once.len(), Some(&Step::Turn), Some(&Step::Torn)));
    assert!(emit::profile(&findings, "emitted").is_ok(), "{findings:?}");
}

/// A drive that counts writes and may only be read.
struct ReadOnly(Modelled, usize);

impl Target for ReadOnly {
    fn blocks(&self) -> u64 {
        self.0.blocks()
    }
    fn now(&self) -> Nanos {
        self.0.now()
    }
    fn is_writable(&self) -> bool {
        false
    }
    fn run(&mut self, depth: usize, accesses: &[Access]) -> Result<Vec<Taken>, TargetError> {
        self.1 += accesses.iter().filter(|access| access.op != Op::Read).count();
        self.0.run(depth, accesses)
    }
    fn idle(&mut self, nanos: Nanos) -> Result<(), TargetError> {
        self.0.idle(nanos)
    }
    fn set_volatile_cache(&mut self, on: bool) -> Result<bool, TargetError> {
        self.0.set_volatile_cache(on)
    }
    fn erase(&mut self) -> Result<bool, TargetError> {
        self.1 += 1;
        Ok(false)
    }
    fn cut_power(&mut self) -> Result<bool, TargetError> {
        self.1 += 1;
        Ok(false)
    }
}

/// SKY-SURVEY-1.
#[test]
fn a_drive_that_may_only_be_read_is_not_written() {
    let profile = Profile::named("st5000as0011").unwrap();
    let mut drive = ReadOnly(Modelled::new(&profile, Host::default()).unwrap(), 0);
    let mut findings = Findings::new("drive", drive.blocks(), 1);
    let mut unwatched = Unwatched;
    let mut session = Session::new(&mut drive, &mut unwatched, 1).unwrap();
    survey(&mut session, &mut findings, &Step::ALL, |_| {}, |_| {}).unwrap();
    assert_eq!(drive.1, 0, "writes, erases and power cuts");
    assert!(findings.surface.is_some() && findings.mechanics.is_some() && findings.drive_type.is_none());
}
