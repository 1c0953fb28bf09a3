//! High-concurrency writes, engine by kernel by order of files: what of a factor is the engine's. (Rows of
//! `micro-write`.)

use std::time::Duration;

use shingle_chunk_store::Stream;
use shingle_sim::Sim;

use crate::baseline::ext4::Ext4Options;
use crate::context::Context;
use crate::error::LabError;
use crate::load::micro::{self, Micro, MicroResult, Order};
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::engine::Setup;
use crate::rig::host::Host;
use crate::rig::store::Store;

/// The paper's factor of SMRstore over CS-Ext4 at 1 MiB.
pub(super) const OVER_EXT4: f64 = 1.3;

/// Goals of an I/O size.
struct Goals {
    io_bytes: u32,
    /// Least factor over the paper's configuration, and the same without rotational prediction.
    over_paper: f64,
    blind: Option<f64>,
    /// Least factor over ext4.
    over_ext4: Option<f64>,
}

const GOALS: [Goals; 2] = [
    Goals { io_bytes: 1 << 20, over_paper: 1.3, blind: None, over_ext4: Some(OVER_EXT4) },
    Goals { io_bytes: 4 << 10, over_paper: 10.0, blind: Some(3.0), over_ext4: None },
];

/// Rates in MB/s behind one kernel, with files at random.
struct AtRandom {
    paper: f64,
    ours: f64,
    blind: f64,
    /// On the drive of the paper's ext4, and on the twin of the shingled one.
    ext4: f64,
    ext4_on_twin: f64,
}

pub(super) fn rows(context: &Context) -> Result<Vec<Row>, LabError> {
    let (mut rows, mut all_times) = (Vec::new(), Vec::new());
    for goals in GOALS {
        let (size, mut at_random) = (goals.io_bytes, Vec::new());
        for host in Host::KERNELS {
            for (order_name, order) in [("files in turn", Order::Turn), ("files at random", Order::Random)] {
                let name = format!("HC-W, {} KiB, {}, {order_name}", size >> 10, host.name);
                (context.progress)(&name, None);
                let of = |store| measure(store, host, size, order, context);
                let engine = |setup| of(Store::Engine(setup));
                let (paper, ours, blind) = (engine(Setup::Paper)?, engine(Setup::Ours)?, engine(Setup::Blind)?);
                let [paper_mb, ours_mb, blind_mb] = [paper, ours, blind].map(|found| found.bytes_s / 1e6);
                if order == Order::Random {
                    let ext4 = |store: fn(Ext4Options) -> Store| {
                        of(store(Ext4Options::default())).map(|found| found.bytes_s / 1e6)
                    };
                    let (ext4, ext4_on_twin) = (ext4(Store::Ext4)?, ext4(Store::Ext4OnTwin)?);
                    at_random.push(AtRandom { paper: paper_mb, ours: ours_mb, blind: blind_mb, ext4, ext4_on_twin });
                    all_times.extend(times::rows(&format!("{name}: request"), Some(&paper.times), Some(&ours.times)));
                }
                rows.push(
                    Row::new(&name, "MB/s", Better::Higher)
                        .paper_config(paper_mb)
                        .ours(ours_mb)
                        .note(format!("{blind_mb:.2} without rotational prediction")),
                );
            }
        }
        rows.extend(factors(&goals, &at_random));
    }
    rows.extend(all_times);
    Ok(rows)
}

/// The least factors of any kernel, with files at random, and their goals.
fn factors(goals: &Goals, at_random: &[AtRandom]) -> Vec<Row> {
    let least = |of: fn(&AtRandom) -> f64| at_random.iter().map(of).fold(f64::INFINITY, f64::min);
    let row = |over: &str, more: &str| {
        let kib = goals.io_bytes >> 10;
        let id = format!("HC-W, {kib} KiB, over {over}, same kernel, files at random{more}");
        Row::new(id, "x", Better::Higher).note("three streams; the smaller one of both kernels")
    };
    let judged = |row: Row, goal: Option<f64>| match goal {
        Some(goal) => row.goal(goal).judged(),
        None => row,
    };
    let (paper, ext4) = ("the paper's configuration", "CS-Ext4 on the conventional twin");
    vec![
        row(paper, "").ours(least(|found| found.ours / found.paper)).goal(goals.over_paper).judged(),
        judged(row(paper, ", no rotational prediction").ours(least(|found| found.blind / found.paper)), goals.blind),
        judged(
            row(ext4, "")
                .paper_config(least(|found| found.paper / found.ext4_on_twin))
                .ours(least(|found| found.ours / found.ext4_on_twin)),
            goals.over_ext4,
        ),
        row("CS-Ext4 on its own drive", "")
            .paper_config(least(|found| found.paper / found.ext4))
            .ours(least(|found| found.ours / found.ext4)),
    ]
}

/// One store, one kernel, one size. Files in turn are of one stream, as in the paper; those at random of all.
pub(super) fn measure(
    store: Store,
    host: Host,
    io_bytes: u32,
    order: Order,
    context: &Context,
) -> Result<MicroResult, LabError> {
    let seconds = context.scale.pick((2, 6), (20, 60), (60, 600));
    let (warm_up, time) = (Duration::from_secs(seconds.0), Duration::from_secs(seconds.1));
    let fio = Micro::paper(io_bytes, warm_up, time);
    let streams: &[Stream] = if order == Order::Random { &Stream::ALL } else { fio.streams };
    let load = Micro { order, streams, ..fio };
    let drive = store.drive(context)?;
    context.on_host(host);
    Sim::new(context.seed).run(move |rt| async move {
        let (target, _) = store.format(&rt, &drive, host).await?;
        micro::write(&rt, target, load).await
    })
}
