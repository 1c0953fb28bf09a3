//! Extents of TL2's map after a trace. (FSTL, Table I.)

use std::rc::Rc;

use shingle_sim::{Random, Sim};
use shingle_store_api::BlockStore;
use shingle_translation::VolumeStats;

use super::systems;
use super::traces::{self, CACHED, Trace};
use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::replay::{self, Pace};
use crate::report::row::{Better, Row};
use crate::rig::host::Host;
use crate::rig::system::System;
use crate::trace::io::{Io, IoKind};

/// Name in commands.
pub(crate) const NAME: &str = "stl-map-size";

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: NAME,
        question: "How large is the map of a fully extent-mapped layer?",
        setup: "Each load of `stl-replay` on a fresh TL2: extents of the map at the end, and the memory of the map. Loads are generated, \
                so that the paper's numbers of extents, of traces of a week, are only shown. Writes alone are played, 16 at a time: the order of \
                writes decides the map. Behind that, random writes of 4 KiB, 16 at a time, to half of a volume on few zones, with the smallest map that it can have and \
                with any: what joining its extents costs. A trace of one's own: `--trace FILE`.",
        runs: Runs::TURNS,
        run,
    }
}

/// Extents of the paper's traces.
fn published(trace: &str) -> Option<f64> {
    match trace {
        "src2_2" => Some(349_483.0),
        "src1_2" => Some(18_143.0),
        _ => None,
    }
}

fn measure(system: &System, trace: &Trace, seed: u64) -> Result<VolumeStats, LabError> {
    let (system, source) = (system.clone(), trace.source.clone());
    Sim::new(seed).run(move |rt| async move {
        let opened = system.open(&(&rt).into(), Host::linux_6_10(), seed, CACHED.write_cache).await?;
        let writes = source.open(seed)?.filter(|io| !matches!(io, Ok(io) if io.kind == IoKind::Read));
        let volume = opened.volume().cloned().ok_or_else(|| LabError("the system has no map".to_owned()))?;
        replay::replay(&rt, Rc::clone(&opened.store), Box::new(writes), Pace::Depth(16), |_| {}).await?;
        Ok(volume.stats())
    })
}

/// Random writes of 4 KiB on a volume that has the smallest map it can have, and on one that has any: throughput in MB/s, blocks written for each of theirs, and extents.
fn gathered(system: &System, ios: u64, seed: u64) -> Result<[f64; 3], LabError> {
    let system = system.clone();
    Sim::new(seed).run(move |rt| async move {
        let opened = system.open(&(&rt).into(), Host::linux_6_10(), seed, CACHED.write_cache).await?;
        let volume = opened.volume().cloned().ok_or_else(|| LabError("the system has no map".to_owned()))?;
        let pieces = (volume.size_bytes() >> 20) / 2;
        super::filled::fill(&(&rt).into(), &opened.store, (0..pieces).collect()).await?;
        let (mut random, before) = (Random::new(seed), volume.stats().counters);
        let writes = (0..ios).map(move |_| {
            let offset = random.below(pieces << 8) << 12;
            Ok(Io { at: 0, kind: IoKind::Write, offset, length: 4096, fua: false, took: None, after: Vec::new() })
        });
        let replayed = replay::replay(&rt, Rc::clone(&opened.store), Box::new(writes), Pace::Depth(16), |_| {}).await?;
        let (after, extents) = (volume.stats().counters, volume.stats().extents);
        let blocks = after.blocks_written + after.blocks_copied - before.blocks_written - before.blocks_copied;
        Ok([replayed.bytes_s() / 1e6, blocks as f64 / ios as f64, extents as f64])
    })
}

/// Rows of what a limit of the map costs.
fn gathering(context: &Context) -> Result<Vec<Row>, LabError> {
    let system = System::volume("a volume", systems::few_zones(context)?);
    let ios = context.scale.pick(20_000, 200_000, 1_000_000);
    let [any, small] = [system.clone(), system.with_map_of(0)].map(|system| gathered(&system, ios, context.seed));
    let ([any_mb_s, any_written, any_extents], [mb_s, written, extents]) = (any?, small?);
    let row = |what: &str, unit, better, value: f64, beside: f64| {
        let row = Row::new(format!("random 4 KiB, smallest map: {what}"), unit, better).ours(value);
        row.note(format!("without a limit: {beside:.3}"))
    };
    Ok(vec![
        row("throughput", "MB/s", Better::Higher, mb_s, any_mb_s),
        row("write amplification", "x", Better::Lower, written, any_written),
        row("extents", "", Better::Lower, extents, any_extents),
    ])
}

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let system = systems::log(context)?;
    context.on_host(Host::linux_6_10());
    let mut outcome = Outcome::default();
    for trace in traces::all(context) {
        (context.progress)(&trace.name, None);
        let stats = measure(&system, &trace, context.seed)?;
        let extents = Row::new(format!("{}: extents", trace.name), "", Better::Lower).ours(stats.extents as f64);
        let extents = Row { paper: published(&trace.name), ..extents };
        outcome.rows.push(extents.note("the paper's are of a trace of a week").judged());
        let bytes = stats.map_bytes as f64 / stats.extents.max(1) as f64;
        let row = Row::new(format!("{}: bytes of memory an extent", trace.name), "bytes", Better::Lower);
        let row = Row { paper: Some(64.0), ..row }.ours(bytes).goal(16.0);
        outcome.rows.push(match context.scale {
            Scale::Quick => row.note("not judged: so few extents are in leaves of their own"),
            _ => row.note("the goal is of millions of extents; leaves of a small map are less full").judged(),
        });
    }
    if context.block_trace.is_none() {
        outcome.rows.extend(gathering(context)?);
    }
    Ok(outcome)
}
