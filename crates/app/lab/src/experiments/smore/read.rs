//! Reading whole objects at random. (SMORE, section V-D, Figure 5.)

use std::time::Duration;

use shingle_array_store::Options;
use shingle_runtime::Runtime;
use shingle_sim::Sim;
use std::rc::Rc;

use super::ingest::{SIZES, SMALL, note, ours, paper};
use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::objects::{Objects, ReadResult, Sizes};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::array::{DATA, DRIVES, LabArray, PAPER_READ_LIMIT, Rig};

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "smore-read",
        question: "How fast does an array that is 80 % full give back objects drawn at random, by their size?",
        setup: "Six Ha10, 5+1, one zone in 60 (960 in a quick run; 240 in a standard one, 960 below 16 MB), filled to 80 % by twelve writers \
                at a time, which takes no drive time; then six readers that read objects from end to end. The paper's \
                limit counts the five data drives of a RAID-4; here parity goes round, and all six can be read. The paper \
                does not say how many segments of an object its readers ask for at a time: as many as a writer's turn \
                are assumed for both. Every row is of readers alone: nobody writes.",
        runs: Runs::SEEDS,
        run,
    }
}

/// Of the array, live.
pub(super) const FULL: f64 = 0.8;

/// Writers that fill the array.
pub(super) const WRITERS: u32 = 12;

/// Readers. (The paper's number.)
const READERS: u32 = 6;

/// Segments of an object that a reader asks for at once: those of a turn lie together.
const AHEAD: usize = 12;

/// Goal from 256 MB on, as a share of what the drives that serve reads can give: all six, since parity goes round.
const GOAL: f64 = 0.97;

/// One run.
#[derive(Clone)]
struct Case {
    options: Options,
    sizes: Sizes,
    ahead: usize,
    /// Capacities of the array that are written and deleted before a second measurement.
    churn: f64,
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    note(context);
    let array = LabArray::new(context, context.scale.pick(960, 240, 60))?;
    let sizes_read: &[u64] = context.scale.pick(&[16 << 20, 256 << 20], &SIZES, &SIZES);
    let churn = context.scale.pick(1.0, 5.0, 5.0);
    let sets = (f64::from(array.sets()) * FULL) as u32;
    let limit_of = |sets: u32, drives: f64| array.limit(context.seed, sets, drives, false) / 1e6;
    let (outer, all) = (limit_of(sets, DRIVES as f64), limit_of(array.sets(), DRIVES as f64));
    let (mut rows, mut all_times) = (Vec::new(), Vec::new());
    let curve = |name: &str| (name.to_owned(), Vec::new());
    let mut curves = [curve("Shingle"), curve("paper's configuration"), curve("the same, turns of one segment")];
    let runs = sizes_read.len() * curves.len() + 1;
    let mut done = 0;
    let mut measure = |name: &str, case: Case| {
        (context.progress)(&format!("{name}, {}", case.sizes.name()), Some(f64::from(done) / runs as f64));
        done += 1;
        let every = match case.sizes {
            Sizes::Equal(size) if size < SMALL => 960,
            _ => 240,
        };
        let array = LabArray::new(context, context.scale.pick(960, every, 60))?;
        read(&array, case, context.scale, context.seed)
    };
    for &size in sizes_read {
        let sizes = Sizes::Equal(size);
        let (mut found, mut waits) = (Vec::new(), Vec::new());
        for (at, options) in [ours(), paper(), Options { turn_segments: 1, ..paper() }].into_iter().enumerate() {
            let case = Case { options, sizes, ahead: AHEAD, churn: 0.0 };
            let read = measure(&curves[at].0, case)?[0];
            let rate = read.bytes_s / 1e6;
            curves[at].1.push(((size >> 20) as f64, rate));
            found.push(rate);
            waits.push(read.times);
        }
        if [sizes_read.first(), sizes_read.last()].contains(&Some(&size)) {
            all_times.extend(times::rows(&format!("read, {}: object", sizes.name()), Some(&waits[1]), Some(&waits[0])));
        }
        let row = |id: String| Row::new(id, "MB/s", Better::Higher);
        let mut with_turns = row(format!("read, {}", sizes.name())).paper_config(found[1]).ours(found[0]);
        let mut without = row(format!("read, {}, turns of one segment", sizes.name())).paper_config(found[2]);
        if size >= 256 << 20 {
            with_turns = with_turns.goal(GOAL * outer);
        }
        if size == 1 << 30 {
            with_turns = with_turns.paper(570.0, TOLERANCE).note(SIX_DRIVES);
            without = without.paper(390.0, TOLERANCE);
        }
        rows.extend([with_turns.judged(), without.judged()]);
    }
    let case = Case { options: ours(), sizes: Sizes::Mix, ahead: AHEAD, churn };
    let mixed = measure("Shingle", case)?;
    let mix: Vec<f64> = mixed.iter().map(|read| read.bytes_s).collect();
    for (read, how) in mixed.iter().zip(["fresh", "after churn"]) {
        all_times.extend(times::rows(&format!("read, mixed sizes, {how}: object"), None, Some(&read.times)));
    }
    rows.push(Row::new("read, mixed sizes", "MB/s", Better::Higher).ours(mix[0] / 1e6).judged());
    rows.push(
        Row::new(format!("read, mixed sizes, after {:.0} % churn, over fresh", churn * 100.0), "x", Better::Higher)
            .paper_shown(1.0)
            .ours(mix[1] / all / (mix[0] / outer))
            .goal(0.97)
            .note(format!(
                "each of what drives read where the objects lie: {:.1} of {all:.1} MB/s, all over the drives, and {:.1} of \
                 {outer:.1}, in the outer 80 %; the paper: within the margin of error",
                mix[1] / 1e6,
                mix[0] / 1e6
            ))
            .judged(),
    );
    let five = limit_of(sets, f64::from(DATA));
    rows.push(
        Row::new("read, what five drives can read", "MB/s", Better::Higher)
            .paper(PAPER_READ_LIMIT, TOLERANCE)
            .paper_config(five)
            .note("over the zones that are filled: the outer 80 %")
            .judged(),
    );
    rows.push(Row::new("read, what all six can read", "MB/s", Better::Higher).paper_config(outer).judged());
    rows.extend(all_times);
    let figure = figure(sizes_read, curves, mix, five);
    Ok(Outcome { rows, figures: vec![figure], ..Outcome::default() })
}

const SIX_DRIVES: &str = "the paper's five drives of a RAID-4 give 590 at most; here parity goes round, in the paper's \
                          configuration too, and six drives serve reads";

/// Tolerance of the paper's configuration against the paper's values.
const TOLERANCE: f64 = 0.1;

fn figure(sizes: &[u64], curves: [(String, Vec<(f64, f64)>); 3], mix: Vec<f64>, limit: f64) -> Figure {
    let line = |value: f64| sizes.iter().map(|&size| ((size >> 20) as f64, value)).collect();
    let mut series: Vec<Series> =
        curves.into_iter().map(|(name, curve)| Series::new(name, Mark::LineAndPoints, curve)).collect();
    // Drawn at the peak of its distribution.
    let at_peak = |value: f64| vec![(128.0, value / 1e6)];
    series.push(Series::new("Shingle, mixed sizes", Mark::Points, at_peak(mix[0])));
    series.push(Series::new("Shingle, mixed sizes, after churn", Mark::Points, at_peak(mix[1])));
    series.push(Series::new("paper: the most of five drives", Mark::Reference, line(PAPER_READ_LIMIT)));
    series.push(Series::new("five drives, modelled", Mark::Reference, line(limit)));
    series.push(Series::new("paper: with and without turns", Mark::Paper, vec![(1024.0, 570.0), (1024.0, 390.0)]));
    Figure {
        name: "smore-read".to_owned(),
        title: "Random reads of whole objects, array 80 % full (SMORE, Figure 5)".to_owned(),
        x: Axis::logarithmic("object size (MB)"),
        y: Axis::linear("read bandwidth (MB/s)"),
        series,
    }
}

/// Reads of a fresh array and, with churn, of one after it.
fn read(array: &LabArray, case: Case, scale: Scale, seed: u64) -> Result<Vec<ReadResult>, LabError> {
    let array = array.clone();
    let seconds = scale.pick((2, 20), (10, 60), (20, 600));
    Sim::new(seed).run(move |rt| async move {
        let (rig, load) = filled(&rt, &array, case.options.clone(), case.sizes, FULL, seed).await?;
        let measured = || async {
            rig.keep_time();
            let (warm_up, time) = (Duration::from_secs(seconds.0), Duration::from_secs(seconds.1));
            load.read(READERS, case.ahead, warm_up, time).await
        };
        let mut found = vec![measured().await?];
        if case.churn > 0.0 {
            rig.forget_time();
            let capacity = rig.capacity()? as f64;
            load.churn(WRITERS, (capacity * FULL) as u64, (capacity * case.churn) as u64).await?;
            rig.settle(&rt).await;
            found.push(measured().await?);
        }
        Ok(found)
    })
}

/// An array that was filled to that share, without its drives' time.
pub(super) async fn filled(
    rt: &Runtime,
    array: &LabArray,
    options: Options,
    sizes: Sizes,
    full: f64,
    seed: u64,
) -> Result<(Rig, Rc<Objects>), LabError> {
    let rig = array.format(rt, options).await?;
    let load = fill(rt, &rig, sizes, full, seed).await?;
    Ok((rig, load))
}

/// Fills an array to that share of its capacity.
pub(super) async fn fill(rt: &Runtime, rig: &Rig, sizes: Sizes, full: f64, seed: u64) -> Result<Rc<Objects>, LabError> {
    let capacity = rig.capacity()? as f64;
    // The paper's two hours at the paper's rate, on its 766 GB.
    let snapshot_every = (capacity * 2.6) as u64;
    let load = Objects::new(rt, &rig.store, sizes, seed, snapshot_every);
    load.fill(WRITERS, (capacity * full) as u64).await?;
    Ok(load)
}
