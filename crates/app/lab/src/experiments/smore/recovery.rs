//! Opening an array after a power cut. (SMORE, section V-F.2, Figure 8.)

use std::rc::Rc;

use shingle_array_store::Options;
use shingle_sim::{Processor, Sim};
use shingle_zoned::MemoryDevice;

use super::ingest::{self, ours, paper};
use super::read::{FULL, WRITERS, filled};
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::fit::Line;
use crate::load::objects::Sizes;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::array::{LabArray, lab_error};
use crate::rig::processor;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "smore-recovery",
        question: "How long does an array take to open after a power cut, by how much was written since the last snapshot?",
        setup: "Six Ha10, 5+1, one zone in 60 (960 in a quick run), mixed sizes, filled to 80 %; a snapshot, then objects \
                are put until the power fails between two commands, at several ages. Opening takes the drives' time, all of \
                it: superblocks, zone reports, the snapshot off the drives, digests, the sets that were open. The rows with \
                the processor's time take that too, of one thread, by costs measured on another server than the paper's. In \
                the paper's configuration all digests are read off one drive, one after the other. The project's own is opened on larger arrays too: on the \
                paper's, the sets that were open are most of what it takes.",
        runs: Runs::SEEDS,
        run,
    }
}

/// Result of an opening.
#[derive(Clone, Copy, Debug)]
struct Point {
    sets: f64,
    seconds: f64,
    /// Of those, for the snapshot.
    snapshot: f64,
    /// For the sets, and the number of those without a digest.
    examined: f64,
    walked: usize,
}

/// The paper's values: seconds for all of the array, and to copy the snapshot from the drives.
const PAPER_ALL: f64 = 7.0;
const PAPER_SNAPSHOT: f64 = 0.28;

/// Seconds for 50 TB: as it is, and as it could be.
const PAPER_50_TB: f64 = 420.0;
const GOAL_50_TB: f64 = 70.0;

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    ingest::note(context);
    let array = LabArray::new(context, context.scale.pick(960, 60, 60))?;
    let ages: &[f64] = context.scale.pick(&[0.0, 0.5, 1.0], &AGES, &AGES);
    let (mut curves, mut with_processor) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let runs = 2 * (ages.len() + 2);
    let mut done = 0;
    let ways = curves.iter_mut().zip(&mut with_processor).zip([ours(), one_drive(paper())]);
    for ((curve, with), options) in ways {
        let mut progress = |what: &str| {
            (context.progress)(what, Some(f64::from(done) / runs as f64));
            done += 1;
        };
        progress("filling");
        for media in images(&array, &options, ages, context.seed)? {
            progress("opening");
            curve.push(open(&array, &media, options.clone(), None, context.seed)?);
            with.push(open(&array, &media, options.clone(), Some(&processor::server()), context.seed)?);
        }
    }
    // The project's own is so short for the paper's array that the sets that were open are most of it.
    let mut larger = Vec::new();
    for &every in context.scale.pick(&[][..], &[30, 15], &[30, 15, 8, 4]) {
        (context.progress)(&format!("one zone in {every}"), None);
        let array = LabArray::new(context, every)?;
        let media = full_image(&array, ours(), context.seed)?;
        larger.push(open(&array, &media, ours(), None, context.seed)?);
        with_processor[0].push(open(&array, &media, ours(), Some(&processor::server()), context.seed)?);
    }
    let last = |number: usize| with_processor[number].get(ages.len()).map_or(f64::NAN, |point| point.seconds);
    let [ours_with, paper_with] = [0, 1].map(|number| (last(number), Line::through(&points(&with_processor[number]))));
    let [ours, paper] = &curves;
    let whole = f64::from(array.sets_of_whole());
    let mut rows = Vec::new();
    let seconds = |id: &str| Row::new(format!("recovery of an array, {id}"), "s", Better::Lower);
    let (Some(ours_all), Some(paper_all)) = (ours.last(), paper.last()) else {
        return Err(LabError("no image was opened".to_owned()));
    };
    let all: Vec<Point> = ours.iter().chain(&larger).copied().collect();
    let (ours_line, paper_line) = (Line::through(&points(&all)), Line::through(&points(paper)));
    rows.push(
        seconds("no snapshot")
            .paper(PAPER_ALL, TOLERANCE)
            .paper_config(paper_all.seconds)
            .ours(ours_all.seconds)
            .note(format!("{:.0} sets are looked at", ours_all.sets))
            .judged(),
    );
    let snapshot = |curve: &[Point]| curve.first().map_or(0.0, |point| point.snapshot);
    rows.push(
        seconds("copying the snapshot from the drives")
            .paper(PAPER_SNAPSHOT, TOLERANCE)
            .paper_config(snapshot(paper))
            .ours(snapshot(ours))
            .judged(),
    );
    rows.push(
        Row::new("recovery of an array, R^2 of the line over sets", "", Better::Higher)
            .paper_at_least(0.999)
            .paper_config(paper_line.r2)
            .ours(ours_line.r2)
            .goal(0.99)
            .judged(),
    );
    rows.push(
        seconds("50 TB, no snapshot, extrapolated")
            .paper(PAPER_50_TB, TOLERANCE)
            .paper_config(paper_line.at(whole * FULL))
            .ours(ours_line.at(whole * FULL))
            .goal(GOAL_50_TB)
            .note(format!(
                "{:.0} sets of {whole:.0}; the goal is what the paper says of reading digests off all drives",
                whole * FULL
            ))
            .judged(),
    );
    rows.push(
        Row::new("recovery of an array, a set more", "ms", Better::Lower)
            .paper_config(paper_line.slope * 1e3)
            .ours(ours_line.slope * 1e3)
            .judged(),
    );
    rows.push(
        seconds("no snapshot, with the processor's time")
            .paper_shown(PAPER_ALL)
            .paper_config(paper_with.0)
            .ours(ours_with.0)
            .judged(),
    );
    rows.push(
        seconds("50 TB, no snapshot, extrapolated, with the processor's time")
            .paper_shown(PAPER_50_TB)
            .paper_config(paper_with.1.at(whole * FULL))
            .ours(ours_with.1.at(whole * FULL))
            .goal(GOAL_50_TB)
            .judged(),
    );
    let figure = figure([&all, paper]);
    let remark = |point: &Point| {
        format!(
            "{:.0} sets looked at ({} without a digest): {:.2} s, of which {:.2} s for them, {:.2} s for the snapshot",
            point.sets, point.walked, point.seconds, point.examined, point.snapshot
        )
    };
    Ok(Outcome { rows, figures: vec![figure], remarks: all.iter().map(remark).collect(), ..Outcome::default() })
}

/// Tolerance of the paper's configuration.
const TOLERANCE: f64 = 0.3;

/// Shares of the free space at 80 % that are written after the snapshot.
const AGES: [f64; 6] = [0.0, 0.1, 0.25, 0.5, 0.75, 0.95];

/// The paper's way of reading digests.
fn one_drive(options: Options) -> Options {
    Options { recovery_depth: 1, spread_digests: false, ..options }
}

/// Drives as a power cut leaves them: at each age of a snapshot, and last without any.
fn images(array: &LabArray, options: &Options, ages: &[f64], seed: u64) -> Result<Vec<Vec<MemoryDevice>>, LabError> {
    let ages = ages.to_vec();
    let with = {
        let (array, options, ages) = (array.clone(), options.clone(), ages.clone());
        Sim::new(seed).run(move |rt| async move {
            let (rig, load) = filled(&rt, &array, options, Sizes::Mix, FULL, seed).await?;
            rig.store.snapshot().await.map_err(lab_error)?;
            let capacity = rig.capacity()? as f64;
            let most = ingest::full(&array);
            let mut images = Vec::new();
            for age in ages {
                load.fill(WRITERS, (capacity * (FULL + age * (most - FULL))) as u64).await?;
                images.push(rig.media());
            }
            Ok::<_, LabError>(images)
        })?
    };
    let without = full_image(array, options.clone(), seed)?;
    Ok(with.into_iter().chain([without]).collect())
}

/// Drives as a power cut leaves them without any snapshot.
fn full_image(array: &LabArray, options: Options, seed: u64) -> Result<Vec<MemoryDevice>, LabError> {
    let array = array.clone();
    Sim::new(seed).run(move |rt| async move {
        let (rig, _) = filled(&rt, &array, options, Sizes::Mix, FULL, seed).await?;
        Ok(rig.media())
    })
}

fn open(
    array: &LabArray,
    media: &[MemoryDevice],
    options: Options,
    processor: Option<&Rc<Processor>>,
    seed: u64,
) -> Result<Point, LabError> {
    let (array, media) = (array.clone(), media.iter().map(MemoryDevice::snapshot).collect());
    let options = Options { background: false, ..options };
    Sim::new(seed).run_on(processor, move |runtimes| async move {
        let (_rig, report, took) = array.open_on(&runtimes, media, options).await?;
        if let Some(damage) = report.damage.first() {
            return Err(LabError(format!("recovery found damage: {damage}")));
        }
        let snapshot = report.took[0].as_secs_f64();
        let (sets, walked) = (report.sets_examined as f64, report.sets_examined - report.digests);
        Ok(Point { sets, seconds: took.as_secs_f64(), snapshot, examined: report.took[1].as_secs_f64(), walked })
    })
}

/// Seconds by sets.
fn points(curve: &[Point]) -> Vec<(f64, f64)> {
    curve.iter().map(|point| (point.sets, point.seconds)).collect()
}

fn figure(curves: [&[Point]; 2]) -> Figure {
    let mut series = Vec::new();
    let names = ["Shingle, digests off all drives", "paper's configuration, digests off one drive"];
    for (name, curve) in names.into_iter().zip(curves) {
        let points = points(curve);
        let last = points.iter().fold(0.0, |last: f64, point| last.max(point.0));
        let line = Line::through(&points);
        series.push(Series::new(name, Mark::Points, points));
        let trend = vec![(0.0, line.at(0.0)), (last, line.at(last))];
        series.push(Series::new(format!("{name}: trend"), Mark::Line, trend));
    }
    let all = curves[1].last().map_or(0.0, |point| point.sets);
    series.push(Series::new("paper: all of 766 GB", Mark::Paper, vec![(all, PAPER_ALL)]));
    Figure {
        name: "smore-recovery".to_owned(),
        title: "Recovery of an array by the sets that are looked at (SMORE, Figure 8 b)".to_owned(),
        x: Axis::linear("zone sets looked at"),
        y: Axis::linear("time (s)"),
        series,
    }
}
