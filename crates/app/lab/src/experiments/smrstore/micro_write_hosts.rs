//! High-concurrency writes, engine by kernel by order of files: what of a factor is the engine's. (Rows of
//! `micro-write`.)

use std::time::Duration;

use shingle_chunk_store::Stream;
use shingle_sim::Sim;

use crate::context::Context;
use crate::error::LabError;
use crate::load::micro::{self, Micro, MicroResult, Order};
use crate::report::row::{Better, Row};
use crate::rig::engine::Setup;
use crate::rig::host::Host;
use crate::rig::store::Store;

/// I/O size, with the least factor over the paper's configuration, and the same without rotational prediction.
const GOALS: [(u32, f64, Option<f64>); 2] = [(1 << 20, 1.3, None), (4 << 10, 10.0, Some(3.0))];

const ORDERS: [(&str, Order); 2] = [("files in turn", Order::Turn), ("files at random", Order::Random)];

/// One cell of the table, in MB/s.
struct Cell {
    paper: f64,
    ours: f64,
    blind: f64,
}

pub(super) fn rows(context: &Context) -> Result<Vec<Row>, LabError> {
    let hosts = [("Linux 4.19", Host::linux_4_19()), ("Linux 6.10", Host::linux_6_10())];
    let mut rows = Vec::new();
    for (size, goal, blind_goal) in GOALS {
        let kib = size >> 10;
        // The least factor of any kernel, with files at random.
        let (mut factor, mut blind_factor) = (f64::INFINITY, f64::INFINITY);
        for (host_name, host) in hosts {
            for (order_name, order) in ORDERS {
                let name = format!("HC-W, {kib} KiB, {host_name}, {order_name}");
                (context.progress)(&name, None);
                let of = |setup| -> Result<f64, LabError> {
                    Ok(measure(Store::Engine(setup), host, size, order, context)?.bytes_s / 1e6)
                };
                let cell = Cell { paper: of(Setup::Paper)?, ours: of(Setup::Ours)?, blind: of(Setup::Blind)? };
                if order == Order::Random {
                    factor = factor.min(cell.ours / cell.paper);
                    blind_factor = blind_factor.min(cell.blind / cell.paper);
                }
                rows.push(
                    Row::new(name, "MB/s", Better::Higher)
                        .paper_config(cell.paper)
                        .ours(cell.ours)
                        .note(format!("{:.2} without rotational prediction", cell.blind)),
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
    Sim::new(context.seed).run(move |rt| async move {
        let (target, _) = store.format_on(&rt, &drive, host).await?;
        micro::write(&rt, target, load, Stream::Gc).await
    })
}
