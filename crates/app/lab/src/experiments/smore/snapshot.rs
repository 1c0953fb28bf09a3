//! Snapshots of an array's index. (SMORE, section V-F.1, Figure 7.)

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use shingle_array_store::Options;
use shingle_runtime::Runtime;
use shingle_sim::Sim;

use super::ingest::{SIZES, SMALL, note, ours};
use super::read::{FULL, fill, filled};
use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::fit::Line;
use crate::load::objects::{Objects, Sizes};
use crate::load::times::Summary;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::array::{LabArray, Rig, lab_error};
use crate::rig::{processor, ssd};

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "smore-snapshot",
        question: "How long does a snapshot of the index take, and how long do writers wait for it?",
        setup: "Six Ha10, 5+1, one zone in 60 (960 in a quick run; 240 in a standard one, 960 below 16 MB), 80 % full. The \
                time is the drives', from the call to a durable superblock, while nobody writes, the median of 31. Then one writer puts a small \
                object every 47 ms, for 60 s without a snapshot and again during some, one after the other: what waits longer \
                waits for drives that write the snapshot. For the index itself nobody waits: a snapshot is a read view of \
                it. The rows with the processor's time take that too, of one thread, by costs measured on another server than \
                the paper's.",
        runs: Runs::SEEDS,
        run,
    }
}

/// The paper's value in seconds, an upper bound, and its extrapolation.
const PAPER: f64 = 0.15;
const PAPER_50_TB: f64 = 1.55;

/// Goal: the longest that a snapshot may hold a writer up.
const PAUSE_MS: f64 = 10.0;

/// Results of one array.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Seconds until a snapshot is durable: the median.
    taken: f64,
    /// The same with the processor's time.
    with_processor: f64,
    /// Waits of a writer: without, and with snapshots.
    waits: [Summary; 2],
    /// The same of an array with a buffer on SSDs.
    buffered: [Summary; 2],
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    note(context);
    let mut all: Vec<Sizes> = SIZES.iter().copied().map(Sizes::Equal).collect();
    if context.scale == Scale::Quick {
        all = vec![Sizes::Equal(16 << 20)];
    }
    let mixes: &[u32] = context.scale.pick(&[960, 480], &[240, 120, 60], &[240, 120, 60]);
    let runs = (all.len() + mixes.len()) as f64;
    let (mut rows, mut curve) = (Vec::new(), Vec::new());
    for (at, &sizes) in all.iter().enumerate() {
        (context.progress)(&sizes.name(), Some(at as f64 / runs));
        let Sizes::Equal(size) = sizes else { continue };
        let every = context.scale.pick(960, if size < SMALL { 960 } else { 240 }, 60);
        let array = LabArray::new(context, every)?;
        let found = measure(&array, sizes, context.seed)?;
        curve.push(((size >> 20) as f64, found.taken));
        rows.push(
            Row::new(format!("snapshot, {}", sizes.name()), "s", Better::Lower)
                .paper_shown(PAPER)
                .ours(found.taken)
                .note(format!("one zone in {every}; the paper: less, but for 1 MB objects, of one zone in 60"))
                .judged(),
        );
    }
    let (mut by_sets, mut with_processor) = (Vec::new(), Vec::new());
    let mut last = None;
    for (at, &every) in mixes.iter().enumerate() {
        (context.progress)(&format!("mixed sizes, one zone in {every}"), Some((all.len() + at) as f64 / runs));
        let array = LabArray::new(context, every)?;
        let found = measure(&array, Sizes::Mix, context.seed)?;
        let sets = f64::from(array.sets());
        by_sets.push((sets, found.taken));
        with_processor.push((sets, found.with_processor));
        last = Some((found, array));
    }
    let Some((mix, array)) = last else { return Err(LabError("nothing was measured".to_owned())) };
    // A snapshot of a larger array takes no less.
    let sets = f64::from(array.sets_of_whole());
    let whole = Line::through(&by_sets).at(sets).max(mix.taken);
    let whole_with = Line::through(&with_processor).at(sets).max(mix.with_processor);
    rows.push(Row::new("snapshot, mixed sizes", "s", Better::Lower).paper_shown(PAPER).ours(mix.taken).judged());
    rows.push(
        Row::new("snapshot, mixed sizes, 50 TB, extrapolated", "s", Better::Lower)
            .paper_shown(PAPER_50_TB)
            .ours(whole)
            .note("by the line through arrays of several sizes; in the paper nothing changes in that time, here everything")
            .judged(),
    );
    let with = |id: &str| Row::new(format!("snapshot, mixed sizes, {id}with the processor's time"), "s", Better::Lower);
    rows.push(with("").paper_shown(PAPER).ours(mix.with_processor).judged());
    rows.push(with("50 TB, extrapolated, ").paper_shown(PAPER_50_TB).ours(whole_with).judged());
    let [without, during] = &mix.waits;
    rows.push(
        Row::new("longest wait of a writer of small objects, during snapshots", "ms", Better::Lower)
            .ours(during.longest_ms)
            .goal(PAUSE_MS)
            .note(format!(
                "of drives that write the snapshot; no change of the index waits. Without snapshots the longest is {:.1} ms",
                without.longest_ms
            ))
            .judged(),
    );
    rows.push(
        Row::new(
            "longest wait of a writer of small objects, during snapshots, with a buffer on SSDs",
            "ms",
            Better::Lower,
        )
        .ours(mix.buffered[1].longest_ms)
        .goal(PAUSE_MS)
        .note(format!("without snapshots {:.1} ms", mix.buffered[0].longest_ms))
        .judged(),
    );
    rows.extend(times::rows("wait of a writer of small objects, no snapshot", None, Some(without)));
    rows.extend(times::rows("wait of a writer of small objects, during snapshots", None, Some(during)));
    Ok(Outcome { rows, figures: vec![figure(curve, mix.taken)], ..Outcome::default() })
}

fn figure(curve: Vec<(f64, f64)>, mix: f64) -> Figure {
    let span: Vec<f64> = curve.iter().map(|point| point.0).collect();
    let series = vec![
        Series::new("Shingle, until it is on the drives", Mark::LineAndPoints, curve),
        Series::new("Shingle, mixed sizes", Mark::Points, vec![(128.0, mix)]),
        Series::new("paper: less, but for 1 MB", Mark::Reference, span.iter().map(|&x| (x, PAPER)).collect()),
    ];
    Figure {
        name: "smore-snapshot".to_owned(),
        title: "Time to take a snapshot, array 80 % full (SMORE, Figure 7)".to_owned(),
        x: Axis::logarithmic("object size (MB)"),
        y: Axis::linear("time (s)"),
        series,
    }
}

/// Snapshots of an array: where the drives' arms are makes some take a tenth longer than others.
const SNAPSHOTS: usize = 31;

/// Time between two small objects of the writer whose waits are measured: no whole number of the platter's turns, or each would find it where
/// the last one left it.
const PACE: Duration = Duration::from_millis(47);

/// Time that it is watched.
const WATCHED: Duration = Duration::from_secs(60);

fn measure(array: &LabArray, sizes: Sizes, seed: u64) -> Result<Found, LabError> {
    let [array, opened, with_buffer] = [array.clone(), array.clone(), array.clone()];
    let (found, media) = Sim::new(seed).run(move |rt| async move {
        let (rig, load) = filled(&rt, &array, ours(), sizes, FULL, seed).await?;
        let media = rig.media();
        rig.keep_time();
        let taken = median(&rt, &rig, &load).await?;
        let waits = waits(&rt, &rig, &load).await?;
        Ok::<_, LabError>((Found { taken, with_processor: 0.0, waits, buffered: waits }, media))
    })?;
    let buffered = Sim::new(seed).run(move |rt| async move {
        let rig = with_buffer.format_with_buffer(&rt, ours(), Some(ssd::buffer(&rt))).await?;
        let load = fill(&rt, &rig, sizes, FULL, seed).await?;
        rig.keep_time();
        waits(&rt, &rig, &load).await
    })?;
    let with_processor = Sim::new(seed).run_on(Some(&processor::server()), move |runtimes| async move {
        let options = Options { background: false, ..ours() };
        let (rig, ..) = opened.open_on(&runtimes, media, options).await?;
        let load = Objects::new(&runtimes.program, &rig.store, sizes, seed, u64::MAX);
        median(&runtimes.program, &rig, &load).await
    })?;
    Ok(Found { with_processor, buffered, ..found })
}

/// Waits of a writer: without, and with snapshots.
async fn waits(rt: &Runtime, rig: &Rig, load: &Objects) -> Result<[Summary; 2], LabError> {
    load.take_waits();
    load.pace(PACE, WATCHED).await?;
    let without = load.take_waits();
    let over = Rc::new(Cell::new(false));
    let snapshots = rt.spawn({
        let (store, over, rt) = (rig.store.clone(), over.clone(), rt.clone());
        async move {
            while !over.get() {
                store.snapshot().await.map_err(lab_error)?;
                rt.sleep(PACE).await;
            }
            Ok::<(), LabError>(())
        }
    });
    load.pace(PACE, WATCHED).await?;
    over.set(true);
    snapshots.await.map_err(|_| LabError("a task was lost".to_owned()))??;
    Ok([without, load.take_waits()])
}

/// The median time of a snapshot, in seconds.
async fn median(rt: &Runtime, rig: &Rig, load: &Objects) -> Result<f64, LabError> {
    let mut all = Vec::new();
    for _ in 0..SNAPSHOTS {
        let began = rt.now();
        rig.store.snapshot().await.map_err(lab_error)?;
        all.push(rt.now().since(began).as_secs_f64());
        // Something changes, and the drives are elsewhere.
        load.pace(PACE, PACE).await?;
    }
    all.sort_by(f64::total_cmp);
    Ok(all[SNAPSHOTS / 2])
}
