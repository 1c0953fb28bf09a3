//! Real file systems' recorded commands on the drive model, next to the project's own engine. (Decision 0019.)

use std::path::Path;

use shingle_sim::Sim;

use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::script::{Script, Streams};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::drives::LabDrive;
use crate::trace::recording::{Line, Trace};
use crate::trace::replay::{self, Course};

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "peers-replay",
        question: "What do real F2FS and real btrfs ask of a zoned drive under the multi-stream load, and what does it cost?",
        setup: "The files of Table 3, chunks as large in proportion to zones as there, on Linux's F2FS and btrfs in a \
                virtual machine, on 384 zones of 8 MiB (F2FS with 64 MiB of conventional ones beside them): filled to 75 % \
                of the zones, then as much as half of them written and chunks drawn at random deleted. What the kernel \
                asked of the drive was recorded; here it is played on the modelled Seagate ST20000NM001J with zones of \
                that size, whose opening, closing and resets take a thirty-second of their time, as the zones have a \
                thirty-second of their size. A command is given when no more are under way than were in the recording; \
                computing between commands costs nothing. So are the commands of our own engine, recorded in the same way \
                (on the zoned device alone); all of them once more `never waiting`: with at least as many under way as the \
                load has lanes. And ours as it is now runs the same steps on the same drive in a closed loop, each lane's \
                next when its last is acknowledged. `make peers` records anew; `--traces DIR` plays what it recorded.",
        runs: Runs::TURNS,
        run,
    }
}

/// Recordings from Debian 12's Linux 6.1, by `make peers`. F2FS is first, whose drive ours runs on, too.
const RECORDED: [(&str, &[u8]); 3] = [
    ("f2fs", include_bytes!("../../../traces/f2fs.trace.gz")),
    ("btrfs", include_bytes!("../../../traces/btrfs.trace.gz")),
    (RECORDED_OURS, include_bytes!("../../../traces/shingle.trace.gz")),
];

/// The recording of our own engine.
const RECORDED_OURS: &str = "shingle";

/// The modelled drive.
const DRIVE: &str = "st20000nm001j";

/// Zones of 256 MiB in 6 TB: the part of the drive that the small one's zones are spread over.
const SPREAD: u32 = 22_352;

/// Stored data when deletion begins, in percent of the zones.
const FULL_PERCENT: u64 = 75;

/// Data written from then on, in the same measure.
const CHURN_PERCENT: u64 = 50;

/// The seed of the load's steps, which is that of the recordings.
const LOAD_SEED: u64 = 1;

fn recording(context: &Context, name: &str, built_in: &[u8]) -> Result<Trace, LabError> {
    let path = context.traces.as_ref().map(|folder| folder.join(format!("{name}.trace.gz")));
    match path {
        // Ours need not be recorded anew to look at another kernel's file systems.
        Some(path) if name != RECORDED_OURS || path.exists() => Trace::load(Path::new(&path)),
        _ => Trace::unpack(built_in),
    }
}

/// The modelled drive with zones like those of the recording, spread over as much of it.
fn drive(context: &Context, trace: &Trace) -> Result<LabDrive, LabError> {
    let mut drive = LabDrive::of(context.profile(DRIVE)?);
    let profile = &mut drive.profile;
    let zone_mib = (trace.zone_blocks / 256) as u32;
    if zone_mib == 0 || !profile.shape.zone_mib.is_multiple_of(zone_mib) {
        return Err(LabError(format!(
            "the recording's zones of {} blocks divide no zone of {DRIVE}",
            trace.zone_blocks
        )));
    }
    let finer = profile.shape.zone_mib / zone_mib;
    let every = (SPREAD * finer / trace.zones).max(1);
    profile.shape.zone_mib = zone_mib;
    profile.shape.zones *= finer;
    profile.shape.conventional_zones = trace.conventional * every;
    for cost in [&mut profile.zones.open_ms, &mut profile.zones.close_ms, &mut profile.zones.erase_ms] {
        *cost /= f64::from(finer);
    }
    Ok(drive.every(every).first_zones(trace.zones))
}

fn zone_bytes(trace: &Trace) -> u64 {
    trace.zone_blocks * 4096
}

/// Plays a recording: as many commands under way as in it, or `at_least`, whichever is more.
fn play(context: &Context, trace: &Trace, at_least: u32) -> Result<Course, LabError> {
    let (drive, trace) = (drive(context, trace)?, trace.clone());
    let (progress, name) = (context.progress.clone(), trace.name.clone());
    Sim::new(context.seed).run(move |rt| async move {
        let device = drive.device(&rt, drive.blank());
        replay::play(&rt, device, &trace, at_least, |share| progress(&name, Some(share))).await
    })
}

/// The load of a recording.
fn streams(trace: &Trace) -> Streams {
    let zones = u64::from(trace.zones - trace.conventional) * zone_bytes(trace);
    Streams::table_3(zone_bytes(trace), zones * FULL_PERCENT / 100, zones * CHURN_PERCENT / 100)
}

/// Ours, on the drive and with the load of a recording.
fn ours(context: &Context, trace: &Trace) -> Result<Course, LabError> {
    let (drive, streams) = (drive(context, trace)?, streams(trace));
    let progress = context.progress.clone();
    Sim::new(context.seed).run(move |rt| async move {
        let device = drive.device(&rt, drive.medium());
        replay::engine(&rt, device, &streams, LOAD_SEED, move |share| progress("Shingle", Some(share))).await
    })
}

/// A run of the load.
struct Run {
    name: String,
    own: bool,
    course: Course,
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let (mut runs, mut never_waiting) = (Vec::new(), Vec::new());
    let mut remarks = Vec::new();
    let (mut zone, mut churn) = (0, 1);
    for (name, built_in) in RECORDED {
        let trace = recording(context, name, built_in)?;
        if runs.is_empty() {
            zone = zone_bytes(&trace);
            churn = u64::from(trace.zones - trace.conventional) * zone * CHURN_PERCENT / 100;
            runs.push(Run { name: "Shingle".to_owned(), own: true, course: ours(context, &trace)? });
        }
        let own = name == RECORDED_OURS;
        let name = if own { "Shingle as recorded".to_owned() } else { trace.name.clone() };
        let lanes = Script::new(&streams(&trace), LOAD_SEED).lanes() as u32;
        remarks.push(concurrency(&name, &trace, lanes));
        let course = play(context, &trace, lanes.saturating_sub(1))?;
        never_waiting.push(Run { name: name.clone(), own, course });
        let course = play(context, &trace, 0)?;
        if !own {
            remarks.push(format!(
                "{name}: the load was told {} times that no space is left, and tried again; {} reads of blocks that were \
                 never written were left out (a fresh file system looks at them)",
                course.no_space, course.reads_left_out
            ));
        }
        runs.push(Run { name, own, course });
    }
    let mut rows: Vec<Row> = runs.iter().flat_map(|run| figures_of(run, zone, churn)).collect();
    for run in &never_waiting {
        let Run { name, course, .. } = run;
        let row = |what: &str, value: f64| {
            let row = Row::new(format!("peers, {name}, never waiting: {what}"), "MB/s", Better::Higher);
            (if run.own { row.ours(value) } else { row.paper_config(value) })
                .note("commands do not wait for each other")
        };
        rows.push(row("while it is filled", course.fill_bytes_s() / 1e6));
        if course.complete {
            rows.push(row("once deletion has settled", course.settled_bytes_s() / 1e6));
        }
    }
    // Like with like, and then the closed loop.
    let [played, unbound] = [&runs, &never_waiting].map(|runs| runs.iter().rfind(|run| run.own));
    for (runs, ours, how) in [
        (&runs, played, ""),
        (&never_waiting, unbound, ", both never waiting"),
        (&runs, runs.first(), ", ours in a closed loop"),
    ] {
        for run in runs.iter().filter(|run| !run.own && run.course.complete) {
            let Some(ours) = ours else { continue };
            let over = ours.course.settled_bytes_s() / run.course.settled_bytes_s();
            let id = format!("peers, over {}, once deletion has settled{how}", run.name);
            let row = Row::new(id, "x", Better::Higher).ours(over);
            // SMRstore's goal, for the same measure; no paper has one for btrfs.
            rows.push(if run.name == "f2fs" && how.is_empty() {
                row.paper_shown(2.16).goal(2.16).judged()
            } else {
                row
            });
        }
    }
    remarks.push(
        "Three ways to run, of which only like may be held against like. `as recorded`, and all that is said of the file \
         systems: a recording held to the number of commands that were under way, in an emulated machine where programs and \
         kernel computed while the drive stood still. On a fast machine more commands would queue; this holds for all \
         three alike. `never waiting`: the same commands, at any time as many under way as the load has lanes (or as were, \
         if more), also where one waited for another to end; a fast machine may be somewhere between. `Shingle` \
         by itself: not recorded, but the engine as it is now in a closed loop, each lane's next request at the drive as \
         soon as the last is acknowledged, with no computing at all; no file system was run so."
            .to_owned(),
    );
    remarks.push(
        "`paper config` holds the file systems' figures. On so small a drive the zones that are open, the reserve that F2FS \
         keeps (14 % of it) and btrfs's metadata weigh more than on a large one."
            .to_owned(),
    );
    let figures = vec![Figure {
        name: "peers-replay".to_owned(),
        title: "Recorded commands of real file systems on the modelled drive".to_owned(),
        x: Axis::linear("appended (GB)"),
        y: Axis::linear("throughput (MB/s)"),
        series: runs.iter().map(|run| Series::new(run.name.clone(), Mark::Line, points(&run.course))).collect(),
    }];
    Ok(Outcome { rows, figures, remarks, ..Outcome::default() })
}

/// The rows of one run.
fn figures_of(run: &Run, zone: u64, churn: u64) -> Vec<Row> {
    let Run { name, own, course } = run;
    let row = |what: &str, unit, better, value: f64| {
        let row = Row::new(format!("peers, {name}: {what}"), unit, better);
        if *own { row.ours(value) } else { row.paper_config(value) }
    };
    let (filling, settled) = course.write_amplification();
    let mut rows = vec![
        row("while it is filled", "MB/s", Better::Higher, course.fill_bytes_s() / 1e6),
        row("written to the drive for each byte, then", "x", Better::Lower, filling),
    ];
    if !course.complete {
        let done = course.churned() as f64 / churn as f64 * 100.0;
        let row = row("part of the deletion phase until it gave up", "%", Better::Higher, done);
        rows.push(row.note("the kernel then took no more writes for want of space"));
        return rows;
    }
    rows.push(row("once deletion has settled", "MB/s", Better::Higher, course.settled_bytes_s() / 1e6));
    let lost = row("lost to deletion", "%", Better::Lower, course.loss() * 100.0);
    rows.push(if name == "f2fs" {
        let why = "the paper: 61.5 to 69.7, on a drive a thousand times as large and an older kernel";
        lost.paper(65.6, 0.15).note(why).judged()
    } else {
        lost
    });
    rows.push(row("written to the drive for each byte, settled", "x", Better::Lower, settled));
    rows.push(row("zone resets for each zone appended", "x", Better::Lower, course.resets_per_zone(zone)));
    rows
}

/// Commands under way in a recording, in words.
fn concurrency(name: &str, trace: &Trace, lanes: u32) -> String {
    let full = trace.lines.iter().position(|line| *line == Line::Full).unwrap_or(trace.lines.len());
    let (filling, then) = trace.lines.split_at(full);
    let mean = |lines: &[Line]| {
        let under_way = lines.iter().filter_map(|line| match line {
            Line::Command(command) => Some(f64::from(command.outstanding)),
            _ => None,
        });
        let (count, sum) = under_way.fold((0.0_f64, 0.0), |(count, sum), under_way| (count + 1.0, sum + under_way));
        sum / count.max(1.0)
    };
    format!(
        "{name}: a command met {:.1} others under way on the mean while the drive was filled, and {:.1} from then on; the \
         load has {lanes} lanes",
        mean(filling),
        mean(then)
    )
}

/// Throughput between each two moments.
fn points(course: &Course) -> Vec<(f64, f64)> {
    let pairs = course.marks.windows(2);
    pairs
        .filter_map(|pair| {
            let [before, after] = pair else { return None };
            let seconds = (after.at - before.at).as_secs_f64();
            let bytes = (after.appended - before.appended) as f64;
            (bytes > 0.0 && seconds > 0.0).then(|| (after.appended as f64 / 1e9, bytes / seconds / 1e6))
        })
        .collect()
}
