//! Space that framing takes. (SMRstore, section 6.5.)

use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, ChunkId};
use shingle_chunk_store::{ChunkStore, FormatOptions, Stream};
use shingle_sim::{Sim, SimDevice};

use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::experiments::smrstore::micro_write::SIZES;
use crate::load::mix::{self, Mix};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::drives::LabDrive;
use crate::rig::engine::Setup;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "space",
        question: "How much space do record headers, slice footers and padding take, by I/O size?",
        setup: "Appends of one size to 16 chunks: one at a time in each chunk, so that each is a record; and eight at a \
                time, so that those which wait become one record of up to 1 MiB. What live data takes in the zones over \
                bytes appended, once every chunk is sealed: small appends have then moved from where they landed. Also \
                one drive's share of Table 3.",
        runs: Runs::SEEDS,
        run,
    }
}

const CHUNKS: u64 = 16;

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let bytes = context.scale.pick(32 << 20, 256 << 20, 1 << 30);
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for (at, &size) in SIZES.iter().enumerate() {
        (context.progress)(&format!("{} KiB", size >> 10), Some(at as f64 / (SIZES.len() + 1) as f64));
        let kib = f64::from(size) / 1024.0;
        alone.push((kib, measure(Load::Size { size, outstanding: 1, bytes }, context)?));
        together.push((kib, measure(Load::Size { size, outstanding: 8, bytes }, context)?));
    }
    (context.progress)("Table 3", Some(SIZES.len() as f64 / (SIZES.len() + 1) as f64));
    let mix = measure(Load::Table3 { zones: context.scale.pick(100, 1_000, 10_000) }, context)?;
    let at = |curve: &[(f64, f64)], kib: f64| curve.iter().find(|point| point.0 == kib).map_or(0.0, |point| point.1);
    // The paper gives a range for both sizes together, and no load: it is shown, not judged. One load for both goals.
    let range = "the paper says 1 to 2 % for 512 KiB to 1 MiB";
    let rows = vec![
        Row::new("Space overhead, 1 MiB", "%", Better::Lower).ours(at(&alone, 1024.0)).goal(1.2).note(range).judged(),
        Row::new("Space overhead, 512 KiB", "%", Better::Lower)
            .ours(at(&alone, 512.0))
            .goal(1.2)
            .note(format!(
                "{range}. With eight appends outstanding in a chunk, records become longer: {:.2} %",
                at(&together, 512.0)
            ))
            .judged(),
        Row::new("Space overhead, Table 3", "%", Better::Lower)
            .ours(mix)
            .goal(1.2)
            .note("all streams together; metadata appends of 4 to 128 KiB, 2 % of the bytes, cost most of the rest")
            .judged(),
    ];
    let figure = Figure {
        name: "space".to_owned(),
        title: "Headers, footers and padding (SMRstore, section 6.5)".to_owned(),
        x: Axis::logarithmic("I/O size (KiB)"),
        y: Axis::logarithmic("overhead (% of the data)"),
        series: vec![
            Series::new("one append at a time in a chunk", Mark::LineAndPoints, alone),
            Series::new("eight at a time", Mark::LineAndPoints, together),
            Series::new("paper: 2 % and 1 %", Mark::Paper, vec![(512.0, 2.0), (1024.0, 1.0)]),
        ],
    };
    Ok(Outcome { rows, figures: vec![figure], ..Outcome::default() })
}

/// Sizes of appends.
#[derive(Clone, Copy)]
enum Load {
    Size { size: u32, outstanding: u64, bytes: u64 },
    Table3 { zones: u64 },
}

/// The overhead, in percent.
fn measure(load: Load, context: &Context) -> Result<f64, LabError> {
    let drive = context.untimed(|| LabDrive::shingled(context))?.first_zones(context.scale.pick(2_000, 4_000, 14_000));
    Sim::new(context.seed).run(move |rt| async move {
        let device = Rc::new(SimDevice::without_power_cuts(&rt, drive.medium()));
        let failed = |error: shingle_chunk_store::Error| LabError(error.to_string());
        ChunkStore::format(&rt, device.clone(), &FormatOptions::default()).await.map_err(failed)?;
        let (store, _) = ChunkStore::open(&rt, device, Setup::Ours.options()).await.map_err(failed)?;
        match load {
            Load::Table3 { zones } => {
                mix::fill(&store, &Mix::table3(), zones << 28, rt.random()).await?;
            }
            Load::Size { size, outstanding, bytes } => {
                let data = AlignedBuf::zeroed(Blocks(u64::from(size) / BLOCK_SIZE as u64)).freeze();
                let each = (bytes / CHUNKS / u64::from(size)).next_multiple_of(outstanding);
                let files = (1..=CHUNKS).map(ChunkId::from_u64).map(|id| {
                    let (store, data) = (store.clone(), data.clone());
                    async move {
                        store.create(id, Stream::Gc).await.map_err(failed)?;
                        for first in (0..each).step_by(outstanding as usize) {
                            let appends = (first..first + outstanding)
                                .map(|number| store.append(id, number * u64::from(size), vec![data.clone()]));
                            for appended in join_all(appends).await {
                                appended.map_err(failed)?;
                            }
                        }
                        // Landed appends move to their last places.
                        store.seal(id).await.map(drop).map_err(failed)
                    }
                });
                join_all(files).await.into_iter().collect::<Result<Vec<()>, LabError>>()?;
            }
        }
        Ok((store.store_stat().live_bytes as f64 / store.counters().appended_bytes as f64 - 1.0) * 100.0)
    })
}
