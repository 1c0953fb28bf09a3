//! Memory of the index. (SMRstore, section 6.5.)

use std::rc::Rc;

use shingle_chunk_store::{ChunkStore, FormatOptions, IndexMemory, Stream};
use shingle_record::{HEADER_SIZE, keep_metadata};
use shingle_sim::{Sim, SimDevice};
use shingle_zoned::MemoryDevice;

use crate::context::Context;
use crate::error::LabError;
use crate::experiment::{Experiment, Outcome, Runs};
use crate::load::mix::{self, Mix};
use crate::report::figure::{Axis, Figure, Mark, Series};
use crate::report::row::{Better, Row};
use crate::rig::drives::LabDrive;
use crate::rig::engine::Setup;

pub(crate) fn experiment() -> Experiment {
    Experiment {
        name: "memory",
        question: "How much memory does the index take, a chunk and a record?",
        setup: "The first zones of the drive are filled to 80 % by one drive's share of Table 3, and in another run by \
                the same streams with appends of data and GC of random length, 512 KiB to 1 MiB, so that hardly \
                two neighbours are equal; all chunks are sealed then. Bytes are counted from the capacities of the index's \
                structures. A chunk's bytes are all but those of its records: its entry in the table, its place in the \
                order of ids, its groups, its mention in the zone table.",
        runs: Runs::SEEDS,
        run,
    }
}

/// The paper's figures.
const PAPER_CHUNK: f64 = 200.0;
const PAPER_RECORD: f64 = 8.0;

/// A drive of the paper, in bytes.
const DRIVE_BYTES: f64 = 20e12;
const FULL: f64 = 0.8;

fn run(context: &mut Context) -> Result<Outcome, LabError> {
    let loads = [("Table 3", Mix::table3()), ("random sizes", Mix::random_sizes())];
    let count = loads.len();
    let mut found = Vec::new();
    for (at, (name, mix)) in loads.into_iter().enumerate() {
        (context.progress)(name, Some(at as f64 / count as f64));
        found.push((name, measure(mix, context)?));
    }
    let mut rows = Vec::new();
    for (name, (memory, live_bytes)) in &found {
        // The goals are the paper's own figures for a load without equal appends, since nothing can collapse there.
        let (chunk, record) = if *name == "Table 3" { (100.0, 4.0) } else { (PAPER_CHUNK, PAPER_RECORD) };
        rows.push(
            Row::new(format!("{name}: memory a chunk"), "bytes", Better::Lower)
                .paper_shown(PAPER_CHUNK)
                .ours(memory.chunk_bytes())
                .goal(chunk)
                .judged(),
        );
        rows.push(
            Row::new(format!("{name}: memory a record"), "bytes", Better::Lower)
                .paper_shown(PAPER_RECORD)
                .ours(memory.record_bytes())
                .goal(record)
                .judged(),
        );
        let scale = DRIVE_BYTES * FULL / *live_bytes as f64 / 1e6;
        let paper = PAPER_CHUNK * memory.chunks() as f64 + PAPER_RECORD * memory.records() as f64;
        rows.push(
            Row::new(format!("{name}: index of a 20 TB drive at 80 %"), "MB", Better::Lower)
                .paper_config(paper * scale)
                .ours(memory.total_bytes() as f64 * scale)
                .goal(paper * scale / 2.0)
                .note(format!(
                    "the paper's configuration is its 200 and 8 bytes for the same {:.1} million chunks and {:.0} \
                     million records, of which {:.1} million runs are left",
                    memory.chunks() as f64 * scale,
                    memory.records() as f64 * scale,
                    memory.runs() as f64 * scale,
                ))
                .judged(),
        );
    }
    let remarks = found.iter().map(|(name, (memory, _))| remark(name, memory)).collect();
    let figures = vec![
        bars("memory-chunk", "Index memory a chunk", PAPER_CHUNK, &found, |memory, stream| match stream {
            Some(stream) => memory.chunk_bytes_of(stream),
            None => memory.chunk_bytes(),
        }),
        bars("memory-record", "Index memory a record", PAPER_RECORD, &found, |memory, stream| match stream {
            Some(stream) => memory.record_bytes_of(stream),
            None => memory.record_bytes(),
        }),
    ];
    Ok(Outcome { rows, figures, remarks, ..Outcome::default() })
}

/// Memory of the index, and the live bytes.
type Found = (IndexMemory, u64);

fn remark(name: &str, memory: &IndexMemory) -> String {
    let each = |stream: Stream| {
        let of = memory.stream(stream);
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        format!(
            "{stream} {} chunks of {:.2} groups and {:.0} records, {:.2} runs a record",
            of.chunks,
            share(of.groups, of.chunks),
            share(of.records, of.chunks),
            share(of.runs, of.records),
        )
    };
    format!("{name}: {}", Stream::ALL.map(each).join("; "))
}

/// A bar for each stream and one for all.
fn bars(
    name: &str,
    title: &str,
    paper: f64,
    found: &[(&str, Found)],
    of: impl Fn(&IndexMemory, Option<Stream>) -> f64,
) -> Figure {
    let streams = [Some(Stream::Gc), Some(Stream::Data), Some(Stream::Meta), None];
    let names = streams.map(|stream| stream.map_or("all", |stream| stream.name()).to_owned());
    let points = |of: &dyn Fn(Option<Stream>) -> f64| {
        streams.iter().enumerate().map(|(at, &stream)| (at as f64, of(stream))).collect::<Vec<_>>()
    };
    let mut series = vec![Series::new("paper", Mark::Bars, points(&|_| paper))];
    series.extend(found.iter().map(|(name, (memory, _))| {
        Series::new(format!("Shingle, {name}"), Mark::Bars, points(&|stream| of(memory, stream)))
    }));
    Figure {
        name: name.to_owned(),
        title: format!("{title} (SMRstore, section 6.5)"),
        x: Axis::of_names("stream", names.to_vec()),
        y: Axis::linear("bytes"),
        series,
    }
}

/// Fills a drive and counts.
fn measure(mix: Mix, context: &Context) -> Result<Found, LabError> {
    let zones = context.scale.pick(1_500, 8_000, u32::MAX);
    let geometry = context.untimed(|| LabDrive::shingled(context))?.first_zones(zones).geometry();
    Sim::new(context.seed).run(move |rt| async move {
        let medium = MemoryDevice::metadata_only(geometry.clone(), keep_no_headers);
        let device = Rc::new(SimDevice::without_power_cuts(&rt, medium));
        let failed = |error: shingle_chunk_store::Error| LabError(error.to_string());
        ChunkStore::format(&rt, device.clone(), &FormatOptions::default()).await.map_err(failed)?;
        let (store, _) = ChunkStore::open(&rt, device, Setup::Ours.options()).await.map_err(failed)?;
        let room = store.store_stat().capacity_bytes as f64 * FULL;
        mix::fill(&store, &mix, room as u64, rt.random()).await?;
        Ok((store.index_memory(), store.store_stat().live_bytes))
    })
}

/// Keeps the store's own metadata, and of chunks nothing.
fn keep_no_headers(piece: &[u8]) -> usize {
    match keep_metadata(piece) {
        HEADER_SIZE => 0,
        kept => kept,
    }
}
