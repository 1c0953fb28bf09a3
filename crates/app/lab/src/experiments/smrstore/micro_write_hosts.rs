//! High-concurrency writes, engine by kernel by order of files: what of a factor is the engine's. (Rows of
//! `micro-write`.)

use std::time::Duration;

use shingle_chunk_store::Stream;
use shingle_sim::Sim;

use crate::context::Context;
use crate::error::LabError;
use crate::load::micro::{self, Micro, MicroResult, Order};
use crate::report::row::{Better, Row};
use crate::report::times;
use crate::rig::engine::Setup;
use crate::rig::host::Host;
use crate::rig::store::Store;

/// I/O size, with the least factor over the paper's configuration, and the same without rotational prediction.
const GOALS: [(u32, f64, Option<f64>); 2] = [(1 << 20, 1.3, None), (4 << 10, 10.0, Some(3.0))];

const ORDERS: [(&str, Order); 2] = [("files in turn", Order::Turn), ("files at random", Order::Random)];

pub(super) fn rows(context: &Context) -> Result<Vec<Row>, LabError> {
    let hosts = [("Linux 4.19", Host::linux_4_19()), ("Linux 6.10", Host::linux_6_10())];
    let (mut rows, mut all_times) = (Vec::new(), Vec::new());
    for (size, goal, blind_goal) in GOALS {
        let kib = size >> 10;
        // The least factor of any kernel, with files at random.
        let (mut factor, mut blind_factor) = (f64::INFINITY, f64::INFINITY);
        for (host_name, host) in hosts {
            for (order_name, order) in ORDERS {
                let name = format!("HC-W, {kib} KiB, {host_name}, {order_name}");
                (context.progress)(&name, None);
                let of = |setup| measure(Store::Engine(setup), host, size, order, context);
                let (paper, ours, blind) = (of(Setup::Paper)?, of(Setup::Ours)?, of(Setup::Blind)?);
                let [paper_mb, ours_mb, blind_mb] = [paper, ours, blind].map(|found| found.bytes_s / 1e6);
                if order == Order::Random {
                    factor = factor.min(ours_mb / paper_mb);
                    blind_factor = blind_factor.min(blind_mb / paper_mb);
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
        let over = |what: &str, found: f64| {
            let id = format!("HC-W, {kib} KiB, over the paper's configuration, same kernel, files at random{what}");
            Row::new(id, "x", Better::Higher).ours(found).note("the smaller one of both kernels")
        };
        rows.push(over("", factor).goal(goal).judged());
        let blind = over(", no rotational prediction", blind_factor);
        rows.push(blind_goal.map_or(blind.clone(), |goal| blind.goal(goal).judged()));
    }
    rows.extend(all_times);
    Ok(rows)
}

/// One store, one kernel, one size.
pub(super) fn measure(
    store: Store,
    host: Host,
    io_bytes: u32,
    order: Order,
    context: &Context,
) -> Result<MicroResult, LabError> {
    let seconds = context.scale.pick((2, 6), (20, 60), (60, 600));
    let (warm_up, time) = (Duration::from_secs(seconds.0), Duration::from_secs(seconds.1));
    let load = Micro { order, ..Micro::paper(io_bytes, warm_up, time) };
    let drive = store.drive(context)?;
    context.on_host(host);
    Sim::new(context.seed).run(move |rt| async move {
        let (target, _) = store.format_on(&rt, &drive, host).await?;
        micro::write(&rt, target, load, Stream::Gc).await
    })
}
