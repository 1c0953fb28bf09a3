//! Traces on each layer: throughput, times of I/Os, the longest of them, throughput over time. (FSTL, Figures 5 to 7, 11 and 12.)

use shingle_base::BLOCK_SIZE;
use shingle_sim::Sim;

use super::filled::{fill, touched};
use super::rows::Found;
use super::traces::{self, Mode, Trace};
use super::{keeping_up, rows, systems};
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::replay::{self, Pace, Replayed};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::grid::{Grid, Measure};
use crate::report::row::Better;
use crate::rig::host::Host;
use crate::rig::processor;
use crate::rig::system::System;

/// Name in commands.
pub(crate) const NAME: &str = "stl-replay";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: NAME,
        question: "How fast are translation layers in the host beside one in the drive, and for how long does an I/O wait?",
        setup: "Traces on the modelled ST8000AS0002, drive-managed, and on layers on its zoned twin (same mechanics): TL1 as the paper has it \
                and with sequential writes past its cache, TL2, and models of ZDM and dm-zoned, all behind Linux 6.10. Each system is fresh; \
                all MiB that the trace touches are written in order, and ten minutes go by; then it is replayed with one and \
                two I/Os outstanding and the write cache off, and with one and the write cache on. Loads that stand for the \
                paper's traces are fitted to its description (src2_2: 98 % writes of 51 KiB, 60 % of I/Os sequential; src1_2: 75 %, 34 KiB, 40 %; \
                wdev_0: 80 %, 8 KiB, 20 %; skewed as in Figure 15). \
                Behind that, volumes on few zones, which are cleaned all the time: random writes of 64 KiB at half of the rate that each bears. \
                A trace of one's own: `--trace FILE`.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

/// Figures of each replay.
const MEASURES: [Measure; 10] = [
    Measure::shown("throughput", "MB/s", Better::Higher),
    Measure::shown("requests", "1/s", Better::Higher),
    Measure::shown("p50", "ms", Better::Lower),
    Measure::shown("p99", "ms", Better::Lower),
    Measure::shown("p99.9", "ms", Better::Lower),
    Measure { goal: Some(1000.0), ..Measure::shown("longest", "ms", Better::Lower) },
    Measure::shown("over 1 s", "requests", Better::Lower),
    Measure::shown("reads, p99", "ms", Better::Lower),
    Measure::shown("longest stall", "ms", Better::Lower),
    Measure::shown("write amplification", "x", Better::Lower),
];

/// A replay, and the blocks that it had written.
struct Run {
    replayed: Replayed,
    media_blocks: Option<u64>,
}

impl Run {
    /// In the order of [`MEASURES`].
    fn values(&self) -> Vec<Option<f64>> {
        let replayed = &self.replayed;
        let (times, written) = (replayed.all.summary(), replayed.written_bytes as f64);
        let seconds = replayed.took.as_secs_f64().max(f64::MIN_POSITIVE);
        let all = [
            replayed.bytes_s() / 1e6,
            replayed.ios as f64 / seconds,
            times.p50_ms,
            times.p99_ms,
            times.p999_ms,
            times.longest_ms,
            replayed.all.at_least(1_000_000_000) as f64,
        ];
        let reads = (replayed.reads.count() > 0).then(|| replayed.reads.summary().p99_ms);
        let stall = Some(replayed.longest_stall.as_secs_f64() * 1e3);
        let blocks = self.media_blocks.filter(|_| written > 0.0);
        let amplification = blocks.map(|blocks| blocks as f64 * BLOCK_SIZE as f64 / written);
        all.into_iter().map(Some).chain([reads, stall, amplification]).collect()
    }
}

fn measure(system: &System, trace: &Trace, mode: Mode, host: Host, seed: u64) -> Result<Run, LabError> {
    let (system, source) = (system.clone(), trace.source.clone());
    let pace = trace.pace.unwrap_or(Pace::Depth(mode.depth));
    Sim::new(seed).run_on(Some(&processor::server()), move |runtimes| async move {
        let opened = system.open(&runtimes, host, seed, mode.write_cache).await?;
        fill(&runtimes, &opened.store, touched(&*source, seed)?).await?;
        let before = opened.media_blocks();
        let rt = &runtimes.program;
        let replayed = replay::replay(rt, opened.store.clone(), source.open(seed)?, pace, |_| {}).await?;
        let media_blocks = opened.media_blocks().zip(before).map(|(after, before)| after - before);
        Ok(Run { replayed, media_blocks })
    })
}

/// Curves of a trace in a mode, one for each system.
#[derive(Default)]
struct Curves {
    times: Vec<Series>,
    throughput: Vec<Series>,
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let systems = systems::all(context)?;
    let host = Host::linux_6_10();
    let mut outcome = Outcome::default();
    let mut found = Found::default();
    for trace in traces::all(context) {
        systems::must_hold(&systems, &trace)?;
        for &mode in &trace.modes {
            let (grid, figures) = on_all(context, NAME, &systems, &trace, mode)?;
            outcome.figures.extend(figures);
            found.take(&trace.name, mode, &grid, host);
            outcome.grids.push(grid);
        }
    }
    if context.block_trace.is_none() {
        outcome.rows = rows::rows(&found, context.scale);
        let (grid, rows) = keeping_up::run(context, NAME)?;
        outcome.grids.push(grid);
        outcome.rows.extend(rows);
    }
    Ok(outcome)
}

/// Replays a trace in a mode on all systems behind Linux 6.10, for an experiment.
pub(super) fn on_all(
    context: &mut Context,
    experiment: &str,
    systems: &[System],
    trace: &Trace,
    mode: Mode,
) -> Result<(Grid, [Figure; 2]), LabError> {
    let name = format!("{experiment}-{}-{}", trace.name, mode.name);
    let mut grid = Grid::new(&name, &format!("{}, {}", trace.name, mode.words), &MEASURES);
    let mut curves = Curves::default();
    let measured = |system: &System, host: Host, seed: u64| {
        let run = measure(system, trace, mode, host, seed)?;
        let series = |points| Series::new(&system.name, Mark::Line, points);
        curves.times.push(series(run.replayed.all.distribution()));
        curves.throughput.push(series(run.replayed.throughput.points()));
        Ok(run.values())
    };
    grid.fill(context, (systems, &[Host::linux_6_10()], &[context.seed]), |system| &system.name, measured)?;
    Ok((grid, curves.figures(&name, trace, mode)))
}

impl Curves {
    fn figures(self, name: &str, trace: &Trace, mode: Mode) -> [Figure; 2] {
        let figure = |what: &str, title: &str, x: Axis, y: Axis, series: Vec<Series>| Figure {
            name: format!("{name}-{what}"),
            title: format!("{}, {}: {title}", trace.name, mode.words),
            x,
            y,
            series,
        };
        let times = "times of I/Os (Figures 7 and 12)";
        let (share, rate) = (Axis::linear("I/Os (%)"), Axis::linear("throughput (MB/s)"));
        [
            figure("times", times, Axis::logarithmic("time (ms)"), share, self.times),
            figure("rate", "throughput over time", Axis::linear("time (s)"), rate, self.throughput),
        ]
    }
}
