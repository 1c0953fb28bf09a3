//! Filling an array. (SMORE, section V-C.)

use shingle_array_store::Options;
use shingle_sim::Sim;

use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::objects::{Objects, Sizes};
use crate::load::times::Summary;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::array::{DATA, DRIVES, LabArray, PAPER_DRIVE_WRITE, lab_error};
use crate::rig::ssd;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "smore-ingest",
        question: "How fast does an array of six shingled drives take in objects, by their size and the number of writers?",
        setup: "Six Ha10, 5+1, one zone in 60 (960 in a quick run; 240 in a standard one, 480 below 16 MB); 3, 12 and 24 writers (6, too, at full scale) that put object \
                after object until all but six sets are full. The limit is five drives' rate over the same zones, written from \
                end to end with plain commands. The paper's configuration: every object has segments of its own, and a \
                writer has a turn of 12. The project's own has a buffer on two modelled SSDs (100 us and 1 ms for each MB of a \
                write) where objects are small: in place of the paper's memory that survives power cuts, which its own \
                configuration is without. By drives: one zone in 240 (960 in a quick run, 120 in a full one).",
        runs: Runs::SEEDS,
        run,
    }
}

/// Sets that stay empty of each six drives': the paper's fill, too, ends a few zones before the inner diameter.
const SETS_LEFT: f64 = 6.0;

/// The share of an array that is filled.
pub(super) fn full(array: &LabArray) -> f64 {
    let side_by_side = array.drives as f64 / DRIVES as f64;
    1.0 - SETS_LEFT * side_by_side / f64::from(array.sets())
}

/// Sizes of objects: 1 MB to 1 GB.
pub(super) const SIZES: [u64; 6] = [1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30];

/// The paper's value.
const PAPER: f64 = 280.0;

/// The project's defaults.
pub(super) fn ours() -> Options {
    Options::default()
}

/// The paper's configuration.
pub(super) fn paper() -> Options {
    Options { turn_segments: 12, coalesce: false, open_sets: Some(1), ..Options::default() }
}

/// Notes both configurations as inputs of a run.
pub(super) fn note(context: &Context) {
    context.with_options("Shingle", &ours());
    context.with_options("paper's configuration", &paper());
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    note(context);
    let sizes: &[u64] = context.scale.pick(&[16 << 20, 256 << 20], &SIZES, &SIZES);
    let writers: &[u32] = context.scale.pick(&[3, 12], &[3, 12, 24], &[3, 6, 12, 24]);
    let limit_of = |array: &LabArray| {
        let sets = (f64::from(array.sets()) * full(array)) as u32;
        array.limit(context.seed, sets, f64::from(DATA), true)
    };
    let (mut rows, mut all_times) = (Vec::new(), Vec::new());
    let (mut curves, mut paper_curve, mut limits) = (vec![Vec::new(); writers.len()], Vec::new(), Vec::new());
    let small = sizes.iter().filter(|size| **size < SMALL).count();
    // Rates without a buffer are only shown.
    let ends = [writers.first(), writers.last()];
    let runs = sizes.len() * (writers.len() + 1) + small * ends.len();
    let mut done = 0;
    for &size in sizes {
        // Small objects are many.
        let every = context.scale.pick(960, if size < SMALL { 480 } else { 240 }, 60);
        let array = LabArray::new(context, every)?;
        let limit = limit_of(&array);
        limits.push(((size >> 20) as f64, limit / 1e6));
        let mut measure = |options: Options, buffer: bool, writers: u32| {
            let what = format!("{}, {writers} writers", Sizes::Equal(size).name());
            (context.progress)(&what, Some(f64::from(done) / runs as f64));
            done += 1;
            ingest(&array, options, buffer, size, writers, context.seed)
        };
        let mut found = Vec::new();
        let (mut without, mut our_waits) = (Vec::new(), Summary::default());
        for (at, &writers) in writers.iter().enumerate() {
            let (rate, waits) = measure(ours(), size < SMALL, writers)?;
            if writers == PAPER_WRITERS {
                our_waits = waits;
            }
            curves[at].push(((size >> 20) as f64, rate / 1e6));
            found.push((writers, rate));
            if size < SMALL && ends.contains(&Some(&writers)) {
                without.push((writers, measure(ours(), false, writers)?.0));
            }
        }
        let (paper_rate, paper_waits) = measure(paper(), false, PAPER_WRITERS)?;
        if [sizes.first(), sizes.last()].contains(&Some(&size)) {
            let id = format!("ingest, {}, {PAPER_WRITERS} writers: a piece of an object", Sizes::Equal(size).name());
            all_times.extend(times::rows(&id, Some(&paper_waits), Some(&our_waits)));
        }
        paper_curve.push(((size >> 20) as f64, paper_rate / 1e6));
        let (least, most) =
            found.iter().fold((f64::MAX, 0f64), |(least, most), &(_, rate)| (least.min(rate), most.max(rate)));
        let of_limit = |rates: &[(u32, f64)]| {
            let one = |(writers, rate): &(u32, f64)| format!("{writers} writers {:.1} %", rate / limit * 100.0);
            rates.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        let mut note = format!(
            "the slowest of all numbers of writers, {:.1} % below the fastest; of the limit: {}",
            (1.0 - least / most) * 100.0,
            of_limit(&found)
        );
        if !without.is_empty() {
            note += &format!("; without a buffer: {}", of_limit(&without));
        }
        rows.push(
            Row::new(format!("ingest, {}", Sizes::Equal(size).name()), "MB/s", Better::Higher)
                .paper(PAPER, TOLERANCE)
                .paper_config(paper_rate / 1e6)
                .ours(least / 1e6)
                .goal(GOAL * limit / 1e6)
                .note(note)
                .judged(),
        );
    }
    let mut by_drives = Vec::new();
    let side_by_side: &[u32] = context.scale.pick(&[1, 2], &[1, 2, 4], &[1, 2, 4, 8]);
    for &sets in side_by_side {
        let array = LabArray::new(context, context.scale.pick(960, 240, 120))?;
        let limit = limit_of(&array) * f64::from(sets);
        let array = LabArray { drives: DRIVES * sets as usize, ..array };
        (context.progress)(&format!("{} drives", array.drives), None);
        let (rate, _) = ingest(&array, ours(), false, 64 << 20, WRITERS_A_SET * sets, context.seed)?;
        by_drives.push((array.drives as f64, rate / 1e6, limit / 1e6));
        rows.push(
            Row::new(format!("ingest, {} drives", array.drives), "MB/s", Better::Higher)
                .ours(rate / 1e6)
                .goal(GOAL_BY_DRIVES * limit / 1e6)
                .note(format!(
                    "5+1 over the drives of {sets} sets, 64 MB, {WRITERS_A_SET} writers for each: {:.1} % of what the drives can write",
                    rate / limit * 100.0
                ))
                .judged(),
        );
    }
    let limit = limits.last().map_or(0.0, |limit| limit.1);
    rows.push(
        Row::new("ingest, what the drives can write", "MB/s", Better::Higher)
            .paper(5.0 * PAPER_DRIVE_WRITE, TOLERANCE)
            .paper_config(limit)
            .note("five times the mean rate of a drive; the paper's value is the whole drive's")
            .judged(),
    );
    rows.extend(all_times);
    let line = |value: f64| sizes.iter().map(|&size| ((size >> 20) as f64, value)).collect();
    let mut series: Vec<Series> = writers
        .iter()
        .zip(curves)
        .map(|(writers, curve)| Series::new(format!("Shingle, {writers} writers"), Mark::LineAndPoints, curve))
        .collect();
    series.push(Series::new("paper's configuration, 12 writers", Mark::LineAndPoints, paper_curve));
    series.push(Series::new("what the drives can write", Mark::Reference, limits));
    series.push(Series::new("paper", Mark::Paper, line(PAPER)));
    let figure = Figure {
        name: "smore-ingest".to_owned(),
        title: "Ingest of an array, 5+1 (SMORE, section V-C)".to_owned(),
        x: Axis::logarithmic("object size (MB)"),
        y: Axis::linear("ingest (MB/s)"),
        series,
    };
    Ok(Outcome { rows, figures: vec![figure, figure_by_drives(&by_drives)], ..Outcome::default() })
}

/// Ingest, and the drives' limit, by the number of drives.
fn figure_by_drives(found: &[(f64, f64, f64)]) -> Figure {
    Figure {
        name: "smore-ingest-drives".to_owned(),
        title: "Ingest of an array with the drives of several sets, 5+1, 64 MB objects".to_owned(),
        x: Axis::linear("drives"),
        y: Axis::linear("ingest (MB/s)"),
        series: vec![
            Series::new(
                "Shingle",
                Mark::LineAndPoints,
                found.iter().map(|&(drives, rate, _)| (drives, rate)).collect(),
            ),
            Series::new(
                "what the drives can write",
                Mark::Reference,
                found.iter().map(|&(drives, _, limit)| (drives, limit)).collect(),
            ),
        ],
    }
}

/// A standard run has fewer zones for objects smaller than this, since it needs too many of them.
pub(super) const SMALL: u64 = 16 << 20;

/// Writers of the paper's configuration.
const PAPER_WRITERS: u32 = 12;

/// Tolerance of the modelled drives against the paper's 280 MB/s.
const TOLERANCE: f64 = 0.05;

/// Goal, as a share of the limit.
const GOAL: f64 = 0.99;

/// Writers for each set that finds drives of its own.
const WRITERS_A_SET: u32 = 6;

/// Goal, as a share of the limit, with several sets written at once.
const GOAL_BY_DRIVES: f64 = 0.95;

/// Bytes a second that reach the drives, and waits of writers for their calls.
fn ingest(
    array: &LabArray,
    options: Options,
    buffer: bool,
    size: u64,
    writers: u32,
    seed: u64,
) -> Result<(f64, Summary), LabError> {
    let array = array.clone();
    Sim::new(seed).run(move |rt| async move {
        let rig = array.format_with_buffer(&rt, options, buffer.then(|| ssd::buffer(&rt))).await?;
        rig.keep_time();
        let load = Objects::new(&rt, &rig.store, Sizes::Equal(size), seed, u64::MAX);
        let began = rt.now();
        load.fill(writers, (rig.capacity()? as f64 * full(&array)) as u64).await?;
        let buffered = rig.store.stats().map_err(lab_error)?.buffered;
        let rate = (load.put_bytes() - buffered) as f64 / rt.now().since(began).as_secs_f64();
        Ok((rate, load.take_waits()))
    })
}
