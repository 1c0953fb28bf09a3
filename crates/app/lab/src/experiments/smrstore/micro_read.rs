//! High-concurrency random reads. (SMRstore, Figure 16.)

use std::time::Duration;

use shingle_chunk_store::Stream;
use shingle_sim::Sim;

use super::micro_write::SIZES;
use crate::baseline::ext4::Ext4Options;
use crate::baseline::f2fs::F2fsOptions;
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::micro::{self, Micro, MicroResult};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::engine::Setup;
use crate::rig::host::Host;
use crate::rig::store::Store;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "micro-read",
        question: "How fast does one drive serve random reads of filled chunks, by I/O size?",
        setup: "512 chunks of 252 MiB (64 in a quick run), written sixteen at a time in 1 MiB appends, on the outermost zones of each drive; \
                then four fio jobs, four requests outstanding each, that read anywhere in them: every store is asked for the same bytes in the same order. The paper's figures are of \
                drives at their own speeds: at queue depth 1 they differ by 121 to 113 reads a second (Table 2). The goals are of ext4 on \
                the conventional twin of the shingled drive, behind the kernel of the project's own.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

/// Tolerance of "comparable".
const COMPARABLE: f64 = 0.15;

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let sizes: &'static [u32] = context.scale.pick(&[4 << 10, 128 << 10, 1 << 20], &SIZES, &SIZES);
    let own = |store: Store| (store, store.host());
    let stores = [
        own(Store::Ext4(Ext4Options::default())),
        own(Store::F2fs(F2fsOptions::default())),
        own(Store::Engine(Setup::Paper)),
        own(Store::Engine(Setup::Ours)),
        (Store::Ext4OnTwin(Ext4Options::default()), Store::Engine(Setup::Ours).host()),
    ];
    let mut curves = Vec::new();
    for (number, &(store, host)) in stores.iter().enumerate() {
        (context.progress)(store.name(), Some(number as f64 / stores.len() as f64));
        curves.push(measure(store, host, sizes, context)?);
    }
    let found: [Vec<(f64, f64)>; 4] =
        [0, 2, 3, 4].map(|at| curves[at].iter().map(|(kib, found)| (*kib, found.bytes_s / 1e6)).collect());
    let [ext4, paper, ours, on_twin] = &found;
    let mut rows: Vec<Row> = (0..sizes.len())
        .map(|at| {
            Row::new(format!("HC-RR, {} KiB", sizes[at] >> 10), "MB/s", Better::Higher)
                .paper_config(paper[at].1)
                .ours(ours[at].1)
                .goal(on_twin[at].1)
                .note(format!(
                    "the goal is CS-Ext4 on the conventional twin, behind the same kernel; {:.2} on its own drive and kernel",
                    ext4[at].1
                ))
                .judged()
        })
        .collect();
    let ratios = paper.iter().zip(ext4).map(|(paper, ext4)| paper.1 / ext4.1);
    let mean = ratios.sum::<f64>() / sizes.len() as f64;
    rows.push(
        Row::new("HC-RR, / CS-Ext4, mean of all sizes", "x", Better::Higher)
            .paper(1.0, COMPARABLE)
            .paper_config(mean)
            .note("the paper says comparable; 1 within 15 % is taken for that")
            .judged(),
    );
    for at in [0, sizes.len() - 1] {
        let id = format!("HC-RR, {} KiB: request", sizes[at] >> 10);
        rows.extend(times::rows(&id, Some(&curves[2][at].1.times), Some(&curves[3][at].1.times)));
    }
    let figure = |name: &str, title: &str, y: Axis, value: fn(&MicroResult) -> f64| {
        let points = |curve: &Curve| curve.iter().map(|(kib, found)| (*kib, value(found))).collect();
        Figure {
            name: name.to_owned(),
            title: format!("High-concurrency random reads, one drive{title} (SMRstore, Figure 16)"),
            x: Axis::logarithmic("I/O size (KiB)"),
            y,
            series: stores
                .iter()
                .zip(&curves)
                .map(|((store, _), curve)| Series::new(store.name(), Mark::LineAndPoints, points(curve)))
                .collect(),
        }
    };
    let figures = vec![
        figure("micro-read", "", Axis::linear("throughput (MB/s)"), |found| found.bytes_s / 1e6),
        figure("micro-read-p99", ": 99th percentile", Axis::logarithmic("time (ms)"), |found| found.times.p99_ms),
    ];
    Ok(Outcome { rows, figures, ..Outcome::default() })
}

/// Results by size in KiB.
type Curve = Vec<(f64, MicroResult)>;

/// One store behind a kernel. It is filled once.
fn measure(store: Store, host: Host, sizes: &'static [u32], context: &Context) -> Result<Curve, LabError> {
    const LENGTH: u64 = 252 << 20;
    let chunks = context.scale.pick(64, 512, 512);
    let seconds = context.scale.pick((1, 8), (5, 60), (10, 600));
    let drive = store.drive(context)?;
    context.on_host(host);
    let seed = context.seed;
    Sim::new(seed).run(move |rt| async move {
        let (target, _) = store.format(&rt, &drive, host).await?;
        let chunks = micro::fill(&rt, &target, chunks, LENGTH, Stream::Gc).await?;
        let mut curve = Vec::new();
        for &size in sizes {
            let load = Micro::paper(size, Duration::from_secs(seconds.0), Duration::from_secs(seconds.1));
            let found = micro::read(&rt, target.clone(), load, chunks.clone(), LENGTH, seed).await?;
            curve.push((f64::from(size) / 1024.0, found));
        }
        Ok(curve)
    })
}
