//! TL1 with each policy of cleaning: throughput, and what is written for each byte. (FSTL, section V-C, Figure 14.)

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use shingle_base::BLOCK_SIZE;
use shingle_runtime::Runtime;
use shingle_sim::Sim;
use shingle_translation::Volume;
use shingle_translation_layers::{CachePolicy, Tl1};

use super::cleaning_rows::{self, Found};
use super::traces::{self, CACHED, Trace};
use super::{filled, systems};
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::replay::Pace;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::grid::{Grid, Measure};
use crate::report::row::Better;
use crate::rig::host::Host;
use crate::rig::processor;
use crate::rig::system::System;

/// Name in commands.
pub(crate) const NAME: &str = "stl-cleaning";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: NAME,
        question: "By how much do policies of cleaning differ?",
        setup: "TL1 as in the paper (all writes go to the cache), but without its scratch zone, with each policy: fifo, min_valid and min_assoc of the paper, and \
                cost_benefit, dense and cheapest of this project. One I/O outstanding, write cache on, behind Linux 6.10, on the zoned twin of the modelled \
                ST8000AS0002. Each run begins with a fresh volume whose pieces that the load touches were written in order, and an empty cache. \
                Loads are like those of `stl-replay`, but write twice what the cache holds, and what goes to cold addresses comes in bursts; \
                H1-R6Lv1 stands for a file server of Hadoop, which writes what it never writes again. The layer cleans for a part of the run \
                that the grid gives. A trace of one's own: `--trace FILE`.",
        runs: Runs::SEEDS,
        run,
    }
}

/// Figures of each run.
const MEASURES: [Measure; 10] = [
    Measure::shown("throughput", "MB/s", Better::Higher),
    Measure::shown("write amplification", "x", Better::Lower),
    Measure::shown("time with copies", "%", Better::Lower),
    Measure::shown("zones won", "", Better::Higher),
    Measure::shown("zones in use, at most", "", Better::Lower),
    Measure::shown("p50", "ms", Better::Lower),
    Measure::shown("p99", "ms", Better::Lower),
    Measure::shown("p99.9", "ms", Better::Lower),
    Measure::shown("longest", "ms", Better::Lower),
    Measure::shown("longest stall", "ms", Better::Lower),
];

/// The interval in which a run is looked at: one in which a sector was copied counts as one of cleaning.
const LOOK: Duration = Duration::from_millis(500);

/// Looks, and those since whose predecessor sectors were copied.
#[derive(Default)]
struct Looks {
    all: Cell<u64>,
    copying: Cell<u64>,
    /// The fewest free zones.
    free: Cell<u32>,
    ended: Cell<bool>,
}

async fn look(rt: Runtime, volume: Volume, looks: Rc<Looks>) {
    let mut copied = volume.stats().counters.sectors_copied;
    looks.free.set(volume.stats().zones_free);
    while !looks.ended.get() {
        rt.sleep(LOOK).await;
        let stats = volume.stats();
        let now = stats.counters.sectors_copied;
        looks.free.set(looks.free.get().min(stats.zones_free));
        looks.all.set(looks.all.get() + 1);
        looks.copying.set(looks.copying.get() + u64::from(now > copied));
        copied = now;
    }
}

/// A run: values in the order of [`MEASURES`], and throughput over time.
type Run = (Vec<Option<f64>>, Vec<(f64, f64)>);

fn measure(system: &System, trace: &Trace, host: Host, seed: u64) -> Result<Run, LabError> {
    let (system, source) = (system.clone(), trace.source.clone());
    let pace = trace.pace.unwrap_or(Pace::Depth(CACHED.depth));
    Sim::new(seed).run_on(Some(&processor::server()), move |runtimes| async move {
        let opened = system.open(&runtimes, host, seed, CACHED.write_cache).await?;
        filled::fill(&runtimes, &opened.store, filled::touched(&*source, seed)?).await?;
        let volume = opened.volume().cloned().ok_or_else(|| LabError("the system has no counters".to_owned()))?;
        let (blocks, before) = (opened.media_blocks(), volume.stats());
        let (rt, looks) = (&runtimes.program, Rc::new(Looks::default()));
        rt.spawn_detached(look(rt.clone(), volume.clone(), looks.clone()));
        let replayed = crate::load::replay::replay(rt, opened.store.clone(), source.open(seed)?, pace, |_| {}).await?;
        looks.ended.set(true);
        let counters = volume.stats().counters;
        let blocks = opened.media_blocks().zip(blocks).map(|(after, before)| after - before);
        let written = (replayed.written_bytes > 0).then_some(replayed.written_bytes as f64);
        let (times, points) = (replayed.all.summary(), replayed.throughput.points());
        let values = vec![
            Some(replayed.bytes_s() / 1e6),
            blocks.zip(written).map(|(blocks, bytes)| blocks as f64 * BLOCK_SIZE as f64 / bytes),
            Some(looks.copying.get() as f64 * 100.0 / looks.all.get().max(1) as f64),
            Some((counters.freed - before.counters.freed) as f64),
            Some(f64::from(before.zones_free - looks.free.get().min(before.zones_free))),
            Some(times.p50_ms),
            Some(times.p99_ms),
            Some(times.p999_ms),
            Some(times.longest_ms),
            Some(replayed.longest_stall.as_secs_f64() * 1e3),
        ];
        Ok((values, points))
    })
}

/// TL1 with each policy, on the zoned twin with its write cache on.
fn layers(context: &Context, cache_zones: u32) -> Result<Vec<System>, LabError> {
    let zoned = systems::cached_twin(context)?;
    let layer = |policy: CachePolicy| {
        let options = Tl1 { policy, cache_zones, sequential: None, ..Tl1::default() };
        context.with_options(&format!("{}, {cache_zones} zones", policy.name()), &options);
        systems::first(policy.name(), &zoned, options)
    };
    Ok(CachePolicy::ALL.into_iter().map(layer).collect())
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let host = Host::linux_6_10();
    let (mut outcome, mut found) = (Outcome::default(), Found::default());
    for (trace, cache_zones) in traces::of_cleaning(context) {
        let layers = layers(context, cache_zones)?;
        systems::must_hold(&layers, &trace)?;
        let title = format!("{}, {}", trace.name, CACHED.words);
        let mut grid = Grid::new(&format!("{NAME}-{}", trace.name), &title, &MEASURES);
        let mut curves = Vec::new();
        let measured = |system: &System, host: Host, seed: u64| {
            let (values, points) = measure(system, &trace, host, seed)?;
            curves.push(Series::new(&system.name, Mark::Line, points));
            Ok(values)
        };
        grid.fill(context, (&layers, &[host], &[context.seed]), |system| &system.name, measured)?;
        outcome.figures.push(Figure {
            name: format!("{NAME}-{}-rate", trace.name),
            title: format!("{title}: throughput over time"),
            x: Axis::linear("time (s)"),
            y: Axis::linear("throughput (MB/s)"),
            series: curves,
        });
        found.take(&trace.name, &grid, host);
        outcome.grids.push(grid);
    }
    outcome.figures.insert(0, found.figure(NAME));
    if context.block_trace.is_none() {
        outcome.rows = cleaning_rows::rows(&found, context.scale);
    }
    Ok(outcome)
}
