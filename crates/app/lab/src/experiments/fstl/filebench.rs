//! Filebench on a file system on each layer. (FSTL, Figures 8, 9 and 13, Table II.)

use std::time::Duration;

use shingle_base::BLOCK_SIZE;
use shingle_sim::Sim;

use super::filebench_rows::{self, Found};
use super::systems;
use crate::baseline::ext4_files::{Ext4Files, Machine};
use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::filebench::{Calls, Filebench};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::grid::{Grid, Measure};
use crate::report::row::Better;
use crate::rig::host::Host;
use crate::rig::processor;
use crate::rig::system::System;

/// Name in commands.
pub(crate) const NAME: &str = "stl-filebench";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: NAME,
        question: "How fast are programs on a file system on each layer?",
        setup: "Filebench's loads of Table II on a model of ext4 with its page cache (ordered journal, commits every 5 s, delayed allocation, \
                fsync with barriers) on the systems of `stl-replay`, write caches on: random writes of 8 KiB and a stream of 1 MiB over \
                one file of 15 GiB, a file server of 10,000 files with 50 threads, the same with a sync after each append, and a mail \
                server of 1,000 files. Files are created and synced, and ten minutes go by; then the load runs for 600 s. Below `full`, \
                file, number of files, memory, time and TL1's cache are shorter in proportion; the drive's own cache is not. Bytes of \
                calls count, whether or not they went to the drive.",
        runs: Runs::ONE,
        run,
    }
}

/// Figures of each run.
const MEASURES: [Measure; 8] = [
    Measure::shown("throughput", "MB/s", Better::Higher),
    Measure::shown("calls", "1/s", Better::Higher),
    Measure::shown("p50", "ms", Better::Lower),
    Measure::shown("p99", "ms", Better::Lower),
    Measure::shown("p99.9", "ms", Better::Lower),
    Measure::shown("longest", "ms", Better::Lower),
    Measure::shown("longest stall", "ms", Better::Lower),
    Measure::shown("written to the drive for each byte", "x", Better::Lower),
];

/// Time between the making of the files and the run, in which everybody tidies up.
const QUIET: Duration = Duration::from_secs(600);

/// The paper's size divided by a scale's.
fn part(scale: Scale) -> u64 {
    scale.pick(60, 10, 1)
}

/// Names and loads. (Table II.)
fn loads(scale: Scale) -> [(&'static str, Filebench); 5] {
    let part = part(scale);
    let file = Filebench {
        calls: Calls::RandomWrite,
        threads: 1,
        files: 1,
        file_bytes: ((15 << 10) / part) << 20,
        io_bytes: 8 << 10,
        append_bytes: 16 << 10,
        time: Duration::from_secs(600 / part),
    };
    let server = Filebench {
        calls: Calls::FileServer { fsync: false },
        threads: 50,
        files: 10_000 / part,
        file_bytes: 128 << 10,
        io_bytes: 1 << 20,
        ..file
    };
    [
        (filebench_rows::RANDOM, file),
        (filebench_rows::STREAM, Filebench { calls: Calls::SingleStreamWrite, io_bytes: 1 << 20, ..file }),
        (filebench_rows::SERVER, server),
        (filebench_rows::SYNCED, Filebench { calls: Calls::FileServer { fsync: true }, ..server }),
        // So few bytes fit in any memory.
        (filebench_rows::MAIL, Filebench { calls: Calls::VarMail, files: 1_000, file_bytes: 16 << 10, ..server }),
    ]
}

/// A run: values in the order of [`MEASURES`], and throughput over time.
type Run = (Vec<Option<f64>>, Vec<(f64, f64)>);

fn measure(system: &System, load: Filebench, machine: Machine, host: Host, seed: u64) -> Result<Run, LabError> {
    let system = system.clone();
    Sim::new(seed).run_on(Some(&processor::server()), move |runtimes| async move {
        let opened = system.open(&runtimes, host, seed, true).await?;
        let rt = &runtimes.program;
        let files = Ext4Files::format(rt, opened.store.clone(), machine)?;
        let prepared = load.prepare(rt, files, seed).await?;
        rt.sleep(QUIET).await;
        let before = opened.media_blocks();
        let course = prepared.run().await?;
        let blocks = opened.media_blocks().zip(before).map(|(after, before)| after - before);
        let (seconds, times) = (load.time.as_secs_f64(), course.times.summary());
        let written = (course.written > 0).then_some(course.written as f64);
        let values = vec![
            Some(course.bytes as f64 / 1e6 / seconds),
            Some(course.calls as f64 / seconds),
            Some(times.p50_ms),
            Some(times.p99_ms),
            Some(times.p999_ms),
            Some(times.longest_ms),
            Some(course.longest_stall.as_secs_f64() * 1e3),
            blocks.zip(written).map(|(blocks, bytes)| blocks as f64 * BLOCK_SIZE as f64 / bytes),
        ];
        Ok((values, course.throughput.points()))
    })
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let systems = systems::for_files(context, context.scale.pick(2, 10, 100))?;
    let (host, machine) = (Host::linux_6_10(), Machine::fstl((8 << 30) / part(context.scale)));
    context.with_options("ext4", &machine);
    let (mut outcome, mut found) = (Outcome::default(), Found::default());
    for (name, load) in loads(context.scale) {
        let mut grid = Grid::new(&format!("{NAME}-{name}"), &format!("Filebench: {name}"), &MEASURES);
        let mut curves = Vec::new();
        let measured = |system: &System, host: Host, seed: u64| {
            let (values, points) = measure(system, load, machine, host, seed)?;
            curves.push(Series::new(&system.name, Mark::Line, points));
            Ok(values)
        };
        grid.fill(context, (&systems, &[host], &[context.seed]), |system| &system.name, measured)?;
        outcome.figures.push(Figure {
            name: format!("{NAME}-{name}-rate"),
            title: format!("Filebench, {name}: throughput over time (Figure 9)"),
            x: Axis::linear("time (s)"),
            y: Axis::linear("throughput (MB/s)"),
            series: curves,
        });
        found.take(name, &grid, host);
        outcome.grids.push(grid);
    }
    outcome.figures.insert(0, found.figure(NAME));
    outcome.rows = filebench_rows::rows(&found, context.scale);
    Ok(outcome)
}
