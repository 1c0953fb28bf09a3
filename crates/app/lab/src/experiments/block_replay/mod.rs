//! Block I/Os on drives of each kind of mapping: what do they cost, and for how long does a request wait?

mod loads;
mod systems;

use shingle_base::BLOCK_SIZE;
use shingle_drive_model::Motion;
use shingle_sim::Sim;

use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::replay::{self, Replayed};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::grid::{Grid, Measure};
use crate::report::row::{Better, Row};
use crate::rig::host::Host;
use crate::rig::processor;
use crate::rig::system::System;
use loads::Load;
use systems::{MEDIA_CACHE, MEDIA_CACHE_8TB};

/// Name in commands.
pub(super) const NAME: &str = "block-replay";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: NAME,
        question: "What do block I/Os cost on drives that translate inside, and for how long does a request wait?",
        setup: "Every load on a fresh drive of each kind: conventional, media cache (Seagate's, of 5 and 8 TB), a volume of this project on the \
                zoned twin of the latter (same mechanics), set-associative with its cache on disk and on flash, fully associative, mixed cleaning, SSD. Behind Linux 4.19 (commands of 1 MiB), Linux 6.10 \
                (8 MiB), and 6.10 with one command at a time. Seeds draw the load, and each drive's deviations from nominal times. A \
                trace of one's own: `--trace FILE --format FORMAT --pace PACE`. No request should wait for more than a second, which \
                is FSTL's line for a translation layer. Times count from when a request was due. The conventional drive and the \
                volume's, of which no row is, lose a turn at each write in sequence while their caches are off.",
        runs: Runs::SEEDS,
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

/// A replay, and what the drive says of it.
struct Run {
    replayed: Replayed,
    /// Blocks written to the medium.
    media_blocks: Option<u64>,
    motions: Vec<Motion>,
}

impl Run {
    /// In the order of [`MEASURES`].
    fn values(&self) -> Vec<Option<f64>> {
        let Self { replayed, media_blocks, .. } = self;
        let times = replayed.all.summary();
        let seconds = replayed.took.as_secs_f64().max(f64::MIN_POSITIVE);
        let written = replayed.written_bytes as f64;
        let amplification =
            media_blocks.filter(|_| written > 0.0).map(|blocks| blocks as f64 * BLOCK_SIZE as f64 / written);
        let reads = (replayed.reads.count() > 0).then(|| replayed.reads.summary().p99_ms);
        let all = [
            replayed.bytes_s() / 1e6,
            replayed.ios as f64 / seconds,
            times.p50_ms,
            times.p99_ms,
            times.p999_ms,
            times.longest_ms,
            replayed.all.at_least(1_000_000_000) as f64,
        ];
        let stall = Some(replayed.longest_stall.as_secs_f64() * 1e3);
        all.into_iter().map(Some).chain([reads, stall, amplification]).collect()
    }
}

fn measure(system: &System, load: &Load, host: Host, seed: u64, watch: bool) -> Result<Run, LabError> {
    let (system, source, pace, write_cache) = (system.clone(), load.source.clone(), load.pace, load.write_cache);
    Sim::new(seed).run_on(Some(&processor::server()), move |runtimes| async move {
        let opened = system.open(&runtimes, host, seed, write_cache).await?;
        opened.watch_arm(watch);
        let before = opened.media_blocks();
        let replayed =
            replay::replay(&runtimes.program, opened.store.clone(), source.open(seed)?, pace, |_| {}).await?;
        let media_blocks = opened.media_blocks().zip(before).map(|(after, before)| after - before);
        Ok(Run { replayed, media_blocks, motions: opened.take_motions() })
    })
}

/// Curves of a load, one for each system.
#[derive(Default)]
struct Curves {
    times: Vec<Series>,
    throughput: Vec<Series>,
    arm: Vec<Series>,
    /// I/Os that were not of whole blocks.
    widened: u64,
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let all = systems::all(context)?;
    let hosts = [Host::linux_4_19(), Host::linux_6_10(), Host::one_at_a_time()];
    let sized = all.into_iter().map(|system| Ok((system.size_bytes()?, system)));
    let sized = sized.collect::<Result<Vec<(u64, System)>, LabError>>()?;
    let mut outcome = Outcome::default();
    for load in loads::all(context) {
        let size = load.source.size_bytes();
        let (fit, small): (Vec<_>, Vec<_>) = sized.iter().cloned().partition(|(have, _)| *have >= size);
        let fit: Vec<System> = fit.into_iter().map(|(_, system)| system).collect();
        outcome.remarks.extend(small.iter().map(|(have, system)| {
            format!("{}: {} has {have} bytes, and the load's addresses go up to {size}", load.title, system.name)
        }));
        if fit.is_empty() {
            return Err(LabError(format!("no drive has the {size} bytes of {}: select a volume of it", load.title)));
        }
        let mut grid = Grid::new(&format!("{NAME}-{}", load.name), &load.title, &MEASURES);
        let mut curves = Curves::default();
        let measured = |system: &System, host: Host, seed: u64| {
            // Curves are of the newest kernel.
            let drawn = host == Host::linux_6_10();
            let watched = drawn && system.name == MEDIA_CACHE && load.name == loads::ARRIVALS;
            let run = measure(system, &load, host, seed, watched)?;
            if drawn {
                curves.take(&system.name, &run);
            }
            Ok(run.values())
        };
        grid.fill(context, (&fit, &hosts, &[context.seed]), |system| &system.name, measured)?;
        outcome.rows.extend(rows(&load, &grid, context.scale));
        if curves.widened > 0 {
            let what = "I/Os are not of whole blocks of 4 KiB, and touch all that they touch part of, without reading it before";
            outcome.remarks.push(format!("{}: {} {what}", load.title, curves.widened));
        }
        outcome.figures.extend(curves.figures(&load));
        outcome.grids.push(grid);
    }
    Ok(outcome)
}

/// Rows that papers have figures for.
fn rows(load: &Load, grid: &Grid, scale: Scale) -> Vec<Row> {
    let value = |system: &str, measure: &str| {
        grid.values(system, Host::linux_6_10(), measure).first().copied().unwrap_or(f64::NAN)
    };
    match load.name.as_str() {
        loads::RANDOM => {
            let synchronous = Row::new("media cache: synchronous write of 4 KiB, p50", "ms", Better::Lower)
                .paper(25.0, 0.05)
                .paper_config(value(MEDIA_CACHE, "p50"));
            let longest = Row::new("media cache, 8 TB: longest request while it cleans", "ms", Better::Lower)
                .paper_at_least(1000.0)
                .paper_config(value(MEDIA_CACHE_8TB, "longest"));
            let longest = match scale {
                Scale::Quick => longest.note("not judged: so few writes fill no cache"),
                _ => longest.note("the paper: up to 5 s, of another trace").judged(),
            };
            vec![synchronous.judged(), longest]
        }
        loads::STREAM => {
            let row = Row::new("media cache, 8 TB: streaming overwrites", "MB/s", Better::Higher)
                .paper_at_least(100.0)
                .paper_config(value(MEDIA_CACHE_8TB, "throughput"))
                .note("the paper: 100 to 175, of files, whose file system takes its share");
            vec![row.judged()]
        }
        _ => Vec::new(),
    }
}

/// Motions of the arm that are drawn.
const MOTIONS_DRAWN: usize = 4000;

/// Points of a distribution that a curve needs: so few that dashes can tell the curves apart.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let last = points.last().copied();
    for point in points {
        let far = kept.last().is_none_or(|before| point.0 > before.0 * 1.3 || point.1 > before.1 + 1.5);
        if far || Some(point) == last {
            kept.push(point);
        }
    }
    kept
}

impl Curves {
    fn take(&mut self, system: &str, run: &Run) {
        self.widened = run.replayed.widened;
        let series = |points| Series::new(system, Mark::Line, points);
        self.times.push(series(thinned(run.replayed.all.distribution())));
        self.throughput.push(series(run.replayed.throughput.points()));
        if !run.motions.is_empty() {
            // The last ones: a drive that has just begun has nothing to clean.
            let from = run.motions.len().saturating_sub(MOTIONS_DRAWN);
            let place = |motion: &Motion| (motion.reached as f64 / 1e9, motion.at as f64);
            self.arm.push(Series::new(system, Mark::Dots, run.motions[from..].iter().map(place).collect()));
        }
    }

    fn figures(self, load: &Load) -> Vec<Figure> {
        let figure = |what: &str, title: &str, x: Axis, y: Axis, series: Vec<Series>| Figure {
            name: format!("{NAME}-{}-{what}", load.name),
            title: format!("{}: {title}", load.title),
            x,
            y,
            series,
        };
        let all = [
            figure(
                "times",
                "times of requests",
                Axis::logarithmic("time (ms)"),
                Axis::linear("requests (%)"),
                self.times,
            ),
            figure("rate", "throughput", Axis::linear("time (s)"), Axis::linear("throughput (MB/s)"), self.throughput),
            figure(
                "arm",
                "position of the arm",
                Axis::linear("time (s)"),
                Axis::linear("cylinder, from outside"),
                self.arm,
            ),
        ];
        all.into_iter().filter(|figure| !figure.series.is_empty()).collect()
    }
}
