//! Snapshots of an array's index. (SMORE, section V-F.1, Figure 7.)

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use shingle_array_store::Options;
use shingle_runtime::Runtime;
use shingle_sim::Sim;
use shingle_zoned::MemoryDevice;

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
                time is the drives', from the call to a durable superblock, while nobody writes, the median of 31. Then, of mixed sizes, one \
                writer puts a small object 47 ms after the one before, for 60 s without a snapshot and again during some, one after the other. \
                Its waits, and the rows with the processor's time, have that of one thread too, by costs measured on another server \
                than the paper's: so a writer waits for drives that write the snapshot, and for the thread that makes it. Arrays have \
                several sizes, and the line through their longest waits is drawn on to 50 TB.",
        runs: Runs::SEEDS,
        run,
    }
}

/// The paper's value in seconds, an upper bound, and its extrapolation.
const PAPER: f64 = 0.15;
const PAPER_50_TB: f64 = 1.55;

/// Goal: the longest that a snapshot may hold a writer up.
const PAUSE_MS: f64 = 10.0;

/// Waits of a writer of small objects: without, and with snapshots.
type Waits = [Summary; 2];

/// Results of one array of mixed sizes.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Seconds until a snapshot is durable: the median.
    taken: f64,
    /// The same with the processor's time.
    with_processor: f64,
    /// Waits, with the processor's time.
    waits: Waits,
    /// The same of an array with a buffer on SSDs.
    buffered: Waits,
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
        let (taken, _) = taken(&array, sizes, context.seed)?;
        curve.push(((size >> 20) as f64, taken));
        rows.push(
            Row::new(format!("snapshot, {}", sizes.name()), "s", Better::Lower)
                .paper_shown(PAPER)
                .ours(taken)
                .note(format!("one zone in {every}; the paper: less, but for 1 MB objects, of one zone in 60"))
                .judged(),
        );
    }
    let mut found = Vec::new();
    let mut whole = 0.0;
    for (at, &every) in mixes.iter().enumerate() {
        (context.progress)(&format!("mixed sizes, one zone in {every}"), Some((all.len() + at) as f64 / runs));
        let array = LabArray::new(context, every)?;
        whole = f64::from(array.sets_of_whole());
        found.push((f64::from(array.sets()), measure(&array, context.seed)?));
    }
    let Some((_, mix)) = found.last().copied() else { return Err(LabError("nothing was measured".to_owned())) };
    let of_whole = |of: fn(&Found) -> f64| extrapolated(&found, of, whole);
    rows.push(Row::new("snapshot, mixed sizes", "s", Better::Lower).paper_shown(PAPER).ours(mix.taken).judged());
    rows.push(
        Row::new("snapshot, mixed sizes, 50 TB, extrapolated", "s", Better::Lower)
            .paper_shown(PAPER_50_TB)
            .ours(of_whole(|found| found.taken))
            .note("by the line through arrays of several sizes; in the paper nothing changes in that time, here everything")
            .judged(),
    );
    let with = |id: &str| Row::new(format!("snapshot, mixed sizes, {id}with the processor's time"), "s", Better::Lower);
    rows.push(with("").paper_shown(PAPER).ours(mix.with_processor).judged());
    let whole_with = of_whole(|found| found.with_processor);
    rows.push(with("50 TB, extrapolated, ").paper_shown(PAPER_50_TB).ours(whole_with).judged());
    rows.extend(waits_rows(&found, whole, "", |found| &found.waits));
    rows.extend(waits_rows(&found, whole, ", with a buffer on SSDs", |found| &found.buffered));
    let [without, during] = &mix.waits;
    rows.extend(times::rows("wait of a writer of small objects, no snapshot", None, Some(without)));
    rows.extend(times::rows("wait of a writer of small objects, during snapshots", None, Some(during)));
    Ok(Outcome { rows, figures: vec![figure(curve, mix.taken)], ..Outcome::default() })
}

/// A figure of a larger array, by the line through those of smaller ones: no less than the last one's.
fn extrapolated(found: &[(f64, Found)], of: impl Fn(&Found) -> f64, sets: f64) -> f64 {
    let points: Vec<(f64, f64)> = found.iter().map(|(sets, found)| (*sets, of(found))).collect();
    Line::through(&points).at(sets).max(points.last().map_or(0.0, |point| point.1))
}

/// The longest wait during snapshots, on arrays of each size, and drawn on to `whole` sets; both the largest and that are judged.
fn waits_rows(found: &[(f64, Found)], whole: f64, how: &str, waits: impl Fn(&Found) -> &Waits) -> Vec<Row> {
    let longest = |found: &Found| waits(found)[1].longest_ms;
    let row = |more: String, value: f64| {
        let id = format!("longest wait of a writer of small objects, during snapshots{how}{more}");
        Row::new(id, "ms", Better::Lower).ours(value)
    };
    let Some(((sets, last), smaller)) = found.split_last() else { return Vec::new() };
    let mut rows: Vec<Row> =
        smaller.iter().map(|(sets, found)| row(format!(", {sets} sets"), longest(found)).judged()).collect();
    let without = waits(last)[0].longest_ms;
    rows.push(
        row(String::new(), longest(last))
            .goal(PAUSE_MS)
            .note(format!("{sets} sets; without snapshots the longest is {without:.1} ms"))
            .judged(),
    );
    rows.push(
        row(", 50 TB, extrapolated".to_owned(), extrapolated(found, longest, whole))
            .goal(PAUSE_MS)
            .note("by the line through arrays of several sizes")
            .judged(),
    );
    rows
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

/// A full array as a power cut leaves it, and the number of its next object.
type Full = (Vec<MemoryDevice>, u64);

/// The median time of a snapshot, which the drives alone take; and the array before.
fn taken(array: &LabArray, sizes: Sizes, seed: u64) -> Result<(f64, Full), LabError> {
    let array = array.clone();
    Sim::new(seed).run(move |rt| async move {
        let (rig, load) = filled(&rt, &array, ours(), sizes, FULL, seed).await?;
        let full = (rig.media(), load.next_number());
        rig.keep_time();
        Ok((median(&rt, &rig, &load).await?, full))
    })
}

fn measure(array: &LabArray, seed: u64) -> Result<Found, LabError> {
    let (taken, full) = taken(array, Sizes::Mix, seed)?;
    let full = || (full.0.iter().map(MemoryDevice::snapshot).collect(), full.1);
    let quiet = Options { background: false, ..ours() };
    let with_processor =
        opened(array, full(), quiet, seed, |rt, rig, load| async move { median(&rt, &rig, &load).await })?;
    let waited = opened(array, full(), ours(), seed, |rt, rig, load| async move { waits(&rt, &rig, &load).await })?;
    let array = array.clone();
    let buffered = Sim::new(seed).run_on(Some(&processor::server()), move |runtimes| async move {
        let rt = &runtimes.program;
        let rig = array.format_on(&runtimes, ours(), Some(ssd::buffer(rt))).await?;
        let load = fill(rt, &rig, Sizes::Mix, FULL, seed).await?;
        rig.keep_time();
        waits(rt, &rig, &load).await
    })?;
    Ok(Found { taken, with_processor, waits: waited, buffered })
}

/// Opens a full array by a program whose work takes time, and measures.
fn opened<T: 'static, F: Future<Output = Result<T, LabError>>>(
    array: &LabArray,
    (media, next): Full,
    options: Options,
    seed: u64,
    measured: impl FnOnce(Runtime, Rig, Rc<Objects>) -> F + 'static,
) -> Result<T, LabError> {
    let array = array.clone();
    Sim::new(seed).run_on(Some(&processor::server()), move |runtimes| async move {
        let (rig, ..) = array.open_on(&runtimes, media, options).await?;
        let load = Objects::new(&runtimes.program, &rig.store, Sizes::Mix, seed, u64::MAX);
        load.begin_at(next);
        measured(runtimes.program.clone(), rig, load).await
    })
}

/// Waits of a writer: without, and with snapshots.
async fn waits(rt: &Runtime, rig: &Rig, load: &Objects) -> Result<Waits, LabError> {
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
