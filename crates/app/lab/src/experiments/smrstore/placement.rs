//! Value of each of the three placement strategies. (SMRstore, Figure 19.)

use shingle_chunk_store::{Allocation, Placement};

use super::by_length::{self, ByLength, over};
use super::multistream_case::Case;
use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::multistream::MultiStreamResult;
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::engine::Setup;
use crate::rig::host::Host;
use crate::rig::store::Store;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "placement",
        question: "What is each placement strategy worth, once the drive is 80 % full and chunks are deleted at random?",
        setup: "The multi-stream load. None: streams mixed, chunks of 64 MiB, a zone drawn at random of 55 open ones. S2 \
                lets chunks of data and GC grow to a zone. The rest is the paper's configuration, behind the paper's Linux 4.19. \
                Ours over none is judged with both behind the same kernel, at the worse of Linux 4.19 and 6.10. Each with four lengths of chunks, with the first seed.",
        runs: Runs::SEEDS_AND_TURNS,
        run,
    }
}

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

/// The runs of one combination behind a kernel. Without strategy 2 no chunk is longer than the small ones.
pub(super) fn combination(
    context: &Context,
    name: &str,
    placement: Placement,
    host: Host,
) -> Result<ByLength, LabError> {
    let all = placement == COMBINATIONS[4].1;
    let setup = if all { Setup::Paper } else { Setup::Strategies(placement) };
    let name = format!("{name}, {}", host.name);
    ByLength::measure(context, &name, |lengths| {
        let lengths = if placement.zone_sized_chunks { lengths } else { lengths.all_small() };
        Case { lengths, host, ..Case::new(Store::Engine(setup), 0.8) }
    })
}

/// Half of the speed-up by all three.
const HALF: f64 = 1.0 + (2.35 - 1.0) / 2.0;

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let rate = |run: &MultiStreamResult| run.settled_bytes_s / 1e6;
    let (mut rates, mut bars, mut remarks) = (Vec::new(), Vec::new(), Vec::new());
    for (name, placement) in COMBINATIONS {
        let found = combination(context, name, placement, Host::linux_4_19())?;
        let chosen = found.chosen();
        remarks.push(format!(
            "{name}: {:.1} MB/s, write amplification {:.2}",
            rate(chosen),
            chosen.write_amplification
        ));
        bars.push(rate(chosen));
        rates.push(found.values(rate));
    }
    let behind = |host: Host| {
        let ours = ByLength::behind(context, Store::Engine(Setup::Ours), host, 0.8)?;
        let (name, placement) = COMBINATIONS[0];
        Ok(over(&ours.values(rate), &combination(context, name, placement, host)?.values(rate)))
    };
    let factors = Host::KERNELS.into_iter().map(behind).collect::<Result<Vec<_>, LabError>>()?;
    let (own, words) = by_length::least_of_kernels(&factors);
    let none = bars[0];
    let shown = |at: usize| {
        let name = format!("placement, {} over none", COMBINATIONS[at].0);
        by_length::paper(Row::new(name, "x", Better::Higher), &over(&rates[at], &rates[0]))
    };
    let all = shown(4).paper(2.35, 0.15).goal(2.35);
    let all = all.note(format!("note 0015 says which lengths of chunks are tried; {words}"));
    let rows = vec![
        shown(1).paper(1.0, 0.25).note("the paper: close to none; within 25 % is taken for that").judged(),
        shown(2).paper(HALF, 0.25).note("the paper: about half of the speed-up").judged(),
        shown(3).paper(HALF, 0.25).note("the paper: about half of the speed-up").judged(),
        by_length::ours(all, &own).judged(),
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
