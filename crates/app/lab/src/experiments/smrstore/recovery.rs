//! Recovery of a full drive. (SMRstore, section 6.4, Figure 21.)

mod fill;

use std::rc::Rc;
use std::time::Duration;

use shingle_chunk_store::{Options, RecoveryReport, StepReport};
use shingle_runtime::Runtime;
use shingle_sim::{Processor, Runtimes, Sim};
use shingle_zoned::MemoryDevice;

use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::drives::LabDrive;
use crate::rig::engine::{EngineTarget, Setup};
use crate::rig::host::{Host, HostDevice};
use crate::rig::processor::{self, CORES};
use fill::fill;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "recovery",
        question: "How long does a 20 TB drive that is 60 % full take to open after a power cut?",
        setup: "The load of Table 3, a 60th of it for one drive, fills 60 % of the data zones; a checkpoint; the load goes \
                on for half a checkpoint period, as long as since the last checkpoint on average; the power fails between \
                two commands. All metazones have been used before. Filling takes no drive time, recovery does. The \
                paper's configuration makes no marks, has one read outstanding, and scans every zone that was open at the \
                checkpoint, or since, from its head (section 5.6). The paper does not give the period of its checkpoints: \
                five minutes are assumed; of Shingle's its own default, ten. The paper's \
                configuration is behind Linux 4.19, ours behind Linux 6.10, and in a row behind 4.19 as well.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

/// Seconds since the checkpoint, for the paper's configuration: half a period of five minutes, which the paper does not
/// give.
const PAPER_AGE: u64 = 150;

/// For Shingle: half a period of ten minutes.
const OUR_AGE: u64 = 300;

/// For the curve.
const AGES: [u64; 5] = [0, 60, PAPER_AGE, OUR_AGE, 600];

/// Drives of a server. (SMRstore, Table 2.)
const SERVER_DRIVES: u32 = 60;

/// Cores of it that SMRstore takes for its work. (Section 6.5.)
const PAPER_CORES: u32 = 7;

/// Metazones of the whole drive. (SMRstore, section 5.2.)
const METAZONES: f64 = 400.0;

/// A way to open a drive.
struct Way {
    name: &'static str,
    setup: Setup,
    host: Host,
    age: u64,
    change: fn(Options) -> Options,
}

/// The last one of ours is that of the rows; the last but one is it behind the paper's kernel.
const WAYS: [Way; 5] = [
    Way {
        name: "metazones anywhere",
        setup: Setup::Paper,
        host: Host::linux_4_19(),
        age: PAPER_AGE,
        change: |options| Options { read_all_heads: true, ..options },
    },
    Way { name: PAPER_WAY, setup: Setup::Paper, host: Host::linux_4_19(), age: PAPER_AGE, change: |options| options },
    Way {
        name: "Shingle, one read at a time",
        setup: Setup::Ours,
        host: Host::linux_6_10(),
        age: OUR_AGE,
        change: |options| Options { recovery_depth: 1, ..options },
    },
    Way {
        name: "Shingle, Linux 4.19",
        setup: Setup::Ours,
        host: Host::linux_4_19(),
        age: OUR_AGE,
        change: |options| options,
    },
    Way { name: OUR_WAY, setup: Setup::Ours, host: Host::linux_6_10(), age: OUR_AGE, change: |options| options },
];

/// The ways of the rows, and of the curves over the age.
const PAPER_WAY: &str = "paper's configuration";
const OUR_WAY: &str = "Shingle";

/// Seconds of each step, on a whole drive.
#[derive(Clone, Copy, Debug, Default)]
struct Steps {
    find: f64,
    load: f64,
    replay: f64,
    scan: f64,
}

impl Steps {
    fn total(&self) -> f64 {
        self.find + self.load + self.replay + self.scan
    }
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let every = context.scale.pick(128, 16, 1);
    let drive = LabDrive::shingled(context)?.every(every);
    let mut outcome = Outcome::default();
    let (mut found, mut with_processor) = (Vec::new(), Vec::new());
    let (mut curves, mut servers) = (Vec::new(), Vec::new());
    for (number, setup) in [Setup::Paper, Setup::Ours].into_iter().enumerate() {
        let share = |step: f64| Some((number as f64 + step) / 2.0);
        let ways = || WAYS.iter().filter(|way| way.setup == setup);
        let ages = context.scale.pick(ways().map(|way| way.age).take(1).collect(), AGES.to_vec(), AGES.to_vec());
        (context.progress)(&format!("filling with {}", setup.name()), share(0.0));
        let images = fill(&drive, setup, &ages, context.seed)?;
        let mut curve = Vec::new();
        for (age, image) in &images {
            for way in ways() {
                let of_curve = [PAPER_WAY, OUR_WAY].contains(&way.name);
                if way.age != *age && !of_curve {
                    continue;
                }
                (context.progress)(&format!("{}, {age} s after a checkpoint", way.name), share(0.5));
                let report = recover(&drive, way, image, None, context)?;
                let steps = whole_drive(&drive, way, &report);
                if of_curve {
                    curve.push((*age as f64, steps));
                }
                if way.age == *age {
                    outcome.remarks.push(remark(way, &report));
                    let server = processor::of_whole_drives(CORES, every);
                    let with = recover(&drive, way, image, Some(&server), context)?;
                    found.push(steps);
                    with_processor.push(whole_drive(&drive, way, &with));
                    // Sixty indexes of whole drives take too much memory.
                    if way.name == OUR_WAY && context.scale != Scale::Full {
                        (context.progress)("all drives of a server", share(0.9));
                        for cores in [CORES, PAPER_CORES] {
                            let slowest = recover_server(&drive, image, cores, context.seed)?;
                            servers.push((cores, whole_drive(&drive, way, &slowest).total()));
                        }
                    }
                }
            }
        }
        curves.push(curve);
    }
    if every > 1 {
        outcome.remarks.push(format!(
            "One zone in {every} was simulated: reading heads and checkpoint is scaled up to the whole drive; the scan is \
             not, since what is open, and was written since the checkpoint, is as much on a drive of any size."
        ));
    }
    outcome.rows = rows(&found, &with_processor, curves.first().map_or(&[][..], Vec::as_slice));
    outcome.rows.extend(servers.into_iter().map(|(cores, total)| {
        let id = format!("recovery, {SERVER_DRIVES} drives at once on {cores} cores, with the processor's time");
        let row = Row::new(id, "s", Better::Lower).ours(total).note("of the slowest drive");
        // With the server's own cores; with as few as the paper's store uses of them it is shown.
        if cores == CORES { row.goal(10.0).judged() } else { row.judged() }
    }));
    outcome.figures.push(figure(&found));
    if context.scale != Scale::Quick {
        outcome.figures.push(curve_figure(&curves));
    }
    Ok(outcome)
}

/// The paper's value, and the tolerance of its configuration.
const PAPER_TOTAL: f64 = 94.4;
const TOLERANCE: f64 = 0.15;

/// The age of a checkpoint, and the steps of an opening then.
type AtAge = (f64, Steps);

/// All rows; `ages` is the curve of the paper's configuration.
fn rows(found: &[Steps], with_processor: &[Steps], ages: &[AtAge]) -> Vec<Row> {
    let ([init, paper, _, ours_old, ours], [_, paper_with, _, old_with, ours_with]) = (found, with_processor) else {
        return Vec::new();
    };
    let step =
        |id: &str, of: fn(&Steps) -> f64| Row::new(id, "s", Better::Lower).paper_config(of(paper)).ours(of(ours));
    let all_heads = Row::new("recovery, metazones anywhere", "s", Better::Lower).paper_config(init.total());
    let all_heads = all_heads.paper_at_least(240.0);
    let mut note = format!(
        "the paper does not give the age of its last checkpoint, which decides how much is scanned; {PAPER_AGE} s are \
         assumed"
    );
    let tried = |of: fn(&Steps) -> f64| ages.iter().map(move |(_, steps)| of(steps));
    if let Some(age) = age_of(&heights(ages), PAPER_TOTAL) {
        note.push_str(&format!("; the paper's {PAPER_TOTAL} s are met at an age of {age:.0} s"));
    }
    vec![
        Row::new("recovery, 20 TB at 60 %", "s", Better::Lower)
            .paper(PAPER_TOTAL, TOLERANCE)
            .tried(tried(Steps::total))
            .paper_config(paper.total())
            .ours(ours.total())
            .goal(10.0)
            .note(note)
            .judged(),
        all_heads.note("the paper: more than 4 minutes").judged(),
        Row::new("recovery, zone table", "s", Better::Lower).paper_config(paper.find).ours(ours.find).judged(),
        step("recovery, checkpoint", |steps| steps.load).paper(19.0, TOLERANCE).judged(),
        step("recovery, journal", |steps| steps.replay).paper_at_most(1.0).tried(tried(|steps| steps.replay)).judged(),
        step("recovery, scan", |steps| steps.scan)
            .paper(75.0, TOLERANCE)
            .tried(tried(|steps| steps.scan))
            .note(format!("at an assumed age of {PAPER_AGE} s"))
            .judged(),
        Row::new("recovery, 20 TB at 60 %, with the processor's time", "s", Better::Lower)
            .paper_shown(PAPER_TOTAL)
            .paper_config(paper_with.total())
            .ours(ours_with.total())
            .goal(10.0)
            .note("one store is one thread's: more cores help where several are opened at once")
            .judged(),
        Row::new("recovery, 20 TB at 60 %, Linux 4.19", "s", Better::Lower)
            .paper_config(paper.total())
            .ours(ours_old.total())
            .note(format!("both behind the paper's kernel; ours {:.1} s with the processor's time", old_with.total())),
        Row::new("recovery, checkpoint, with the processor's time", "s", Better::Lower)
            .paper_shown(19.0)
            .paper_config(paper_with.load)
            .ours(ours_with.load)
            .judged(),
    ]
}

/// The whole time by age.
fn heights(ages: &[AtAge]) -> Vec<(f64, f64)> {
    ages.iter().map(|(age, steps)| (*age, steps.total())).collect()
}

/// Age at which a rising curve reaches a height.
fn age_of(curve: &[(f64, f64)], height: f64) -> Option<f64> {
    let pair = curve.windows(2).find(|pair| pair[0].1 <= height && height <= pair[1].1)?;
    let share = (height - pair[0].1) / (pair[1].1 - pair[0].1).max(f64::MIN_POSITIVE);
    Some(pair[0].0 + share * (pair[1].0 - pair[0].0))
}

fn curve_figure(curves: &[Vec<AtAge>]) -> Figure {
    let names = [Setup::Paper.name(), Setup::Ours.name()];
    let mut series: Vec<Series> = names
        .into_iter()
        .zip(curves)
        .map(|(name, curve)| Series::new(name, Mark::LineAndPoints, heights(curve)))
        .collect();
    let paper = AGES.iter().map(|&age| (age as f64, PAPER_TOTAL)).collect();
    series.push(Series::new("paper: 94.4 s, at an age it does not give", Mark::Reference, paper));
    Figure {
        name: "recovery-age".to_owned(),
        title: "Recovery of 20 TB at 60 %, by the age of the last checkpoint".to_owned(),
        x: Axis::linear("seconds of load since the checkpoint"),
        y: Axis::linear("time (s)"),
        series,
    }
}

/// The paper's other bars: name, and seconds of checkpoint and scan. (Of ext4: 3.27 and 16.3; of SMRstore: "around 19"
/// and "the remaining 75".)
const PAPER_BARS: [(&str, f64, f64); 2] = [("paper: CS-Ext4", 3.27, 16.3), ("paper: SMRstore", 19.4, 75.0)];

/// Bars of the paper and bars of the ways, left to right; each its steps on top of each other.
fn figure(found: &[Steps]) -> Figure {
    let papers = PAPER_BARS.len();
    let bars = |name: &str, of: fn(&Steps) -> f64, paper: fn(&(&str, f64, f64)) -> f64| {
        let papers_part = PAPER_BARS.iter().enumerate().map(|(at, bar)| (at as f64, paper(bar)));
        let ways_part = found.iter().enumerate().map(|(at, steps)| ((papers + at) as f64, of(steps)));
        Series::new(name, Mark::Stacked, papers_part.chain(ways_part).collect())
    };
    let names = PAPER_BARS.iter().map(|bar| bar.0).chain(WAYS.iter().map(|way| way.name));
    let replay_and_scan = |steps: &Steps| steps.replay + steps.scan;
    Figure {
        name: "recovery".to_owned(),
        title: "Recovery of 20 TB at 60 %, by step (SMRstore, Figure 21)".to_owned(),
        x: Axis::of_names("", names.map(str::to_owned).collect()),
        y: Axis::linear("time (s)"),
        series: vec![
            bars("zone table", |steps| steps.find, |_| 0.0),
            bars("checkpoint", |steps| steps.load, |bar| bar.1),
            bars("journal and scan", replay_and_scan, |bar| bar.2),
            Series::new("paper: SMRstore-INIT, more than", Mark::Paper, vec![(papers as f64, 240.0)]),
        ],
    }
}

fn remark(way: &Way, report: &RecoveryReport) -> String {
    let step = |name: &str, step: &StepReport| {
        format!(
            "{name} {:.2} s ({} zones, {:.1} MB)",
            step.time.as_secs_f64(),
            step.zones,
            step.read_bytes as f64 / 1e6
        )
    };
    format!(
        "{}: {}, {}, {} journal entries ({} marks), {}, {} records; {} chunks",
        way.name,
        step("zone table", &report.find),
        step("checkpoint", &report.load),
        report.replay.found,
        report.marks.0,
        step("scan", &report.scan),
        report.scan.found,
        report.chunks,
    )
}

/// The steps' times on a whole drive, from those on every `every`th zone of it.
fn whole_drive(drive: &LabDrive, way: &Way, report: &RecoveryReport) -> Steps {
    let seconds = |step: &StepReport| step.time.as_secs_f64();
    let mut steps = Steps {
        find: seconds(&report.find),
        load: seconds(&report.load),
        replay: seconds(&report.replay),
        scan: seconds(&report.scan),
    };
    if drive.every > 1 {
        let metazones = f64::from(shingle_chunk_store::Layout::default_metazones(&drive.geometry()));
        let all_heads = (way.change)(way.setup.options()).read_all_heads;
        steps.find *= if all_heads { f64::from(drive.every) } else { METAZONES / metazones };
        let rate = drive.profile.recording.as_ref().map_or(f64::INFINITY, |recording| recording.outer_mb_s * 1e6);
        steps.load += (f64::from(drive.every) - 1.0) * report.checkpoint_bytes as f64 / rate;
    }
    steps
}

/// Opens the store on a medium after a power cut, in the drive's own time, and in that of a processor.
fn recover(
    drive: &LabDrive,
    way: &Way,
    medium: &MemoryDevice,
    processor: Option<&Rc<Processor>>,
    context: &Context,
) -> Result<RecoveryReport, LabError> {
    let options = Options { background: false, ..(way.change)(way.setup.options()) };
    let host = way.host;
    context.on_host(host);
    context.with_options(way.name, &options);
    let (drive, medium) = (drive.clone(), medium.snapshot());
    Sim::new(context.seed).run_on(processor, move |runtimes| open(runtimes, (drive, 0), host, medium, options))
}

/// Opens as many stores at once as a server has drives, each on a thread of its own, all on one processor; the report of the slowest.
fn recover_server(drive: &LabDrive, medium: &MemoryDevice, cores: u32, seed: u64) -> Result<RecoveryReport, LabError> {
    let (sim, processor) = (Sim::new(seed), processor::of_whole_drives(cores, drive.every));
    let programs: Vec<Runtime> = (0..SERVER_DRIVES).map(|_| sim.thread(&processor)).collect();
    let (drive, medium) = (drive.clone(), medium.snapshot());
    sim.run(move |hardware| async move {
        let opening = |(number, program): (u64, Runtime)| {
            let runtimes = Runtimes { program: program.clone(), hardware: hardware.clone() };
            let options = Options { background: false, ..Setup::Ours.options() };
            program.spawn(open(runtimes, (drive.clone(), number), Host::linux_6_10(), medium.snapshot(), options))
        };
        let all: Vec<_> = (0..).zip(programs).map(opening).collect();
        let mut slowest = RecoveryReport::default();
        let time = |report: &RecoveryReport| {
            [&report.find, &report.load, &report.replay, &report.scan].map(|step| step.time).iter().sum::<Duration>()
        };
        for opened in all {
            let report = opened.await.map_err(|_| LabError("an opening was lost".to_owned()))??;
            if time(&report) > time(&slowest) {
                slowest = report;
            }
        }
        Ok(slowest)
    })
}

async fn open(
    runtimes: Runtimes,
    (drive, number): (LabDrive, u64),
    host: Host,
    medium: MemoryDevice,
    options: Options,
) -> Result<RecoveryReport, LabError> {
    let device = HostDevice::of_program(&runtimes, host, drive.device_of_batch(number, &runtimes.hardware, medium));
    Ok(EngineTarget::open(&runtimes.program, device, options).await?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_found_between_two_points() {
        let curve = [(0.0, 10.0), (100.0, 60.0), (200.0, 80.0)];
        assert_eq!(age_of(&curve, 35.0), Some(50.0));
        assert_eq!(age_of(&curve, 70.0), Some(150.0));
        assert_eq!(age_of(&curve, 90.0), None);
    }
}
