//! Value of each of the three placement strategies. (SMRstore, Figure 19.)

use std::sync::Arc;

use shingle_chunk_store::{Allocation, Placement};

use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::experiments::smrstore::multistream::{Case, measure};
use crate::load::multistream::{MultiStreamResult, data_bytes};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::engine::Setup;
use crate::rig::store::Store;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "placement",
        question: "What is each placement strategy worth, once the drive is 80 % full and chunks are deleted at random?",
        setup: "The multi-stream load. None: streams mixed, chunks of 64 MiB, a zone drawn at random of 55 open ones. S2 \
                lets chunks of data and GC grow to a zone. The rest is the paper's configuration.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

/// The size limit of chunks without strategy 2.
const SMALL_CHUNK_MIB: u64 = 64;

/// The paper's five, in its order.
pub(crate) const COMBINATIONS: [(&str, Placement); 5] = [
    ("none", placement(false, false, false)),
    ("S1", placement(true, false, false)),
    ("S1+S2", placement(true, true, false)),
    ("S1+S3", placement(true, false, true)),
    ("S1+S2+S3", placement(true, true, true)),
];

const fn placement(separate_streams: bool, zone_sized_chunks: bool, round_robin: bool) -> Placement {
    let allocation = if round_robin { Allocation::RoundRobin } else { Allocation::Random };
    Placement { separate_streams, zone_sized_chunks, allocation }
}

/// The run of one combination.
pub(crate) fn combination(
    context: &Context,
    name: &str,
    placement: Placement,
) -> Result<Arc<MultiStreamResult>, LabError> {
    let all = placement == COMBINATIONS[4].1;
    let setup = if all { Setup::Paper } else { Setup::Strategies(placement) };
    let chunk_max = if placement.zone_sized_chunks { u64::MAX } else { data_bytes(SMALL_CHUNK_MIB) };
    measure(Case { chunk_max, ..Case::new(Store::Engine(setup), 0.8) }, context, name)
}

/// Half of the speed-up by all three.
const HALF: f64 = 1.0 + (2.35 - 1.0) / 2.0;

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let mut bars = Vec::new();
    let mut remarks = Vec::new();
    for (name, placement) in COMBINATIONS {
        let found = combination(context, name, placement)?;
        remarks.push(format!(
            "{name}: {:.1} MB/s, write amplification {:.2}",
            found.settled_bytes_s / 1e6,
            found.write_amplification
        ));
        bars.push(found.settled_bytes_s / 1e6);
    }
    let ours = measure(Case::new(Store::Engine(Setup::Ours), 0.8), context, Setup::Ours.name())?.settled_bytes_s / 1e6;
    let none = bars[0].max(f64::MIN_POSITIVE);
    let shown = |at: usize| {
        let name = format!("placement, {} over none", COMBINATIONS[at].0);
        Row::new(name, "x", Better::Higher).paper_config(bars[at] / none)
    };
    let rows = vec![
        shown(1).paper(1.0, 0.25).note("the paper: close to none; within 25 % is taken for that").judged(),
        shown(2).paper(HALF, 0.25).note("the paper: about half of the speed-up").judged(),
        shown(3).paper(HALF, 0.25).note("the paper: about half of the speed-up").judged(),
        shown(4)
            .paper(2.35, 0.15)
            .tried([bars[4] / none])
            .ours(ours / none)
            .goal(2.35)
            .note("the sizes of chunks, which the paper leaves open, were chosen among four; note 0015 has the others")
            .judged(),
    ];
    let names = COMBINATIONS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let figure = Figure {
        name: "placement".to_owned(),
        title: "Throughput by placement strategy, 80 % full, random deletion (SMRstore, Figure 19)".to_owned(),
        x: Axis::of_names("", names),
        y: Axis::linear("throughput (MB/s)"),
        series: vec![
            Series::new("modelled", Mark::Bars, bars.iter().enumerate().map(|(at, &bar)| (at as f64, bar)).collect()),
            Series::new("paper: 2.35 times none", Mark::Paper, vec![(4.0, 2.35 * none)]),
        ],
    };
    Ok(Outcome { rows, figures: vec![figure], remarks, ..Outcome::default() })
}
