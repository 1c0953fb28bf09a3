//! Waits of writes at a rate at which cleaning keeps up, for the volume's own cleaner and both layers.

use std::rc::Rc;

use shingle_sim::{Random, Sim};
use shingle_store_api::BlockStore;

use super::filled::fill;
use super::systems::{self, OWN_CLEANER, TL1, TL2};
use crate::context::{Context, Scale};
use crate::error::LabError;
use crate::load::replay::{Pace, Replayed};
use crate::report::grid::{Grid, Measure};
use crate::report::row::{Better, Row};
use crate::rig::host::Host;
use crate::rig::processor;
use crate::rig::system::System;
use crate::trace::io::{Io, IoKind, Ios};

/// The longest that a write is to wait.
const LONGEST_MS: f64 = 250.0;

/// Bytes of a write.
const WRITE: u64 = 64 << 10;

/// Writes outstanding while the layer is driven as fast as it goes.
const DEPTH: u32 = 4;

/// Part of that throughput at which writes come then.
const SHARE: f64 = 0.5;

/// Figures of each run.
const MEASURES: [Measure; 6] = [
    Measure::shown("throughput, four outstanding", "MB/s", Better::Higher),
    Measure::shown("rate", "MB/s", Better::Higher),
    Measure::shown("p99", "ms", Better::Lower),
    Measure::shown("p99.9", "ms", Better::Lower),
    Measure { goal: Some(LONGEST_MS), ..Measure::shown("longest", "ms", Better::Lower) },
    Measure::shown("write amplification", "x", Better::Lower),
];

/// Random writes, `gap_ns` apart in the mean.
fn writes(seed: u64, count: u64, bytes: u64, gap_ns: u64) -> Ios {
    let (mut random, mut at) = (Random::new(seed), 0);
    Box::new((0..count).map(move |_| {
        at += if gap_ns > 0 { random.between(1, 2 * gap_ns) } else { 0 };
        let offset = random.below(bytes / WRITE) * WRITE;
        Ok(Io { at, kind: IoKind::Write, offset, length: WRITE, fua: false, took: None, after: Vec::new() })
    }))
}

fn measure(system: &System, scale: Scale, host: Host, seed: u64) -> Result<Vec<Option<f64>>, LabError> {
    let system = system.clone();
    Sim::new(seed).run_on(Some(&processor::server()), move |runtimes| async move {
        let opened = system.open(&runtimes, host, seed, false).await?;
        let volume = opened.volume().cloned().ok_or_else(|| LabError("the system is no volume".to_owned()))?;
        // Nine tenths of the zones that it has are a volume's; of it two thirds are used.
        let pieces = (volume.size_bytes() >> 20) * 2 / 3;
        fill(&runtimes, &opened.store, (0..pieces).collect()).await?;
        let rt = &runtimes.program;
        let play = async |seed: u64, count: u64, gap_ns: u64| -> Result<Replayed, LabError> {
            let pace = if gap_ns > 0 { Pace::Open } else { Pace::Depth(DEPTH) };
            let ios = writes(seed, count, pieces << 20, gap_ns);
            crate::load::replay::replay(rt, Rc::clone(&opened.store), ios, pace, |_| {}).await
        };
        // By the end of the first of these, zones are short.
        let quarter = (pieces << 20) / WRITE / 4;
        play(seed, 2 * quarter, 0).await?;
        let fast = play(seed + 1, quarter, 0).await?.bytes_s();
        let before = volume.stats().counters;
        let rate = fast * SHARE;
        let count = scale.pick(6_000, 20_000, 80_000);
        let replayed = play(seed + 2, count, (WRITE as f64 / rate * 1e9) as u64).await?;
        let after = volume.stats().counters;
        if after.freed == before.freed {
            return Err(LabError(format!("{}: nothing was cleaned", system.name)));
        }
        let blocks = |counters: shingle_translation::Counters| counters.blocks_written + counters.blocks_copied;
        let times = replayed.all.summary();
        let values = [
            fast / 1e6,
            rate / 1e6,
            times.p99_ms,
            times.p999_ms,
            times.longest_ms,
            (blocks(after) - blocks(before)) as f64 * 4096.0 / replayed.written_bytes as f64,
        ];
        Ok(values.map(Some).to_vec())
    })
}

/// The grid, and a row for each cleaner.
pub(super) fn run(context: &Context, experiment: &str) -> Result<(Grid, Vec<Row>), LabError> {
    let systems = systems::on_few_zones(context)?;
    let title = "Random writes of 64 KiB at half of the rate that a full volume bears, write cache off";
    let mut grid = Grid::new(&format!("{experiment}-keeping-up"), title, &MEASURES);
    let host = Host::linux_6_10();
    let measured = |system: &System, host: Host, seed: u64| measure(system, context.scale, host, seed);
    grid.fill(context, (&systems, &[host], &[context.seed]), |system| &system.name, measured)?;
    let row = |name: &str| {
        let longest = grid.values(name, host, "longest").first().copied().unwrap_or(f64::NAN);
        let row = Row::new(format!("{name}: longest write while cleaning keeps up"), "ms", Better::Lower);
        row.ours(longest).goal(LONGEST_MS).note("at half of the throughput with four outstanding").judged()
    };
    let rows = [OWN_CLEANER, TL1, TL2].map(row).to_vec();
    Ok((grid, rows))
}
