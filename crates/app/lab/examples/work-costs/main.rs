//! Costs of work on a core of this machine: the figures of `rig/processor.rs`.
//!
//! Stores are filled on devices in memory that take no time, and then opened. The processor's time of an opening, all of it,
//! is put down to the work that it told of: shapes are chosen so that one kind is nearly all of it. The devices drop the data
//! of chunks and objects, so that bytes are measured apart.
//!
//! `cargo run --release -p shingle-lab --example work-costs`

use std::error::Error;
use std::hint::black_box;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_array_store::{ArrayDrive, ArrayStore, FormatOptions as ArrayFormat, IndexPlace, Options as ArrayOptions};
use shingle_base::{AlignedBuf, Blocks, ChunkId, crc32c};
use shingle_chunk_store::{ChunkStore, FormatOptions, Options, Stream};
use shingle_lab::rig::array::{DRIVES, LabArray};
use shingle_lab::rig::drives::LabDrive;
use shingle_lab::rig::engine::Setup;
use shingle_runtime::{Runtime, Work};
use shingle_sim::{Costs, Processor, Sim};
use shingle_zoned::{MemoryDevice, ZonedDevice};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Openings of each image; the least time counts, which others on the machine disturbed least.
const TRIES: u32 = 5;

/// Time between two steps of a load. Not zero: a run that takes no time at all looks like one that never ends.
const STEP: Duration = Duration::from_micros(1);

/// Processor time of this thread so far, in nanoseconds.
fn now() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok()).unwrap_or(f64::NAN)
}

/// Processor time, and the work that it was for.
struct Taken {
    nanos: f64,
    things: [u64; Work::ALL.len()],
}

impl Taken {
    fn of(&self, work: Work) -> f64 {
        self.things[work as usize] as f64
    }
}

/// The least processor time of several runs.
fn least(mut run: impl FnMut(&Rc<Processor>) -> Outcome<f64>) -> Outcome<Taken> {
    let mut best = Taken { nanos: f64::INFINITY, things: [0; Work::ALL.len()] };
    for _ in 0..TRIES {
        let processor = Processor::new(1, Costs::FREE);
        let nanos = run(&processor)?;
        if nanos < best.nanos {
            best = Taken { nanos, things: Work::ALL.map(|work| processor.things(work)) };
        }
    }
    Ok(best)
}

/// Nanoseconds to check a byte: of as much as does not stay in a cache.
fn byte() -> f64 {
    let data: Vec<u8> = (0..256u32 << 20).map(|at| (at ^ (at >> 11)) as u8).collect();
    let once = || {
        let began = now();
        black_box(data.chunks(1 << 20).fold(0, |sum, piece| sum ^ crc32c(piece)));
        now() - began
    };
    (0..TRIES).map(|_| once()).fold(f64::INFINITY, f64::min) / data.len() as f64
}

/// A drive with that many chunks of that many records, half of them longer than the others so that none are a run.
fn chunks(chunks: u64, records: u32, checkpoint: bool) -> Outcome<MemoryDevice> {
    let drive = LabDrive::new("st20000nm001j").map_err(|error| error.to_string())?.every(8);
    let medium = Rc::new(drive.medium());
    Sim::new(1).run(move |rt| async move {
        let dev: Rc<dyn ZonedDevice> = medium.clone();
        ChunkStore::format(&rt, dev.clone(), &FormatOptions::default()).await?;
        let (store, _) = ChunkStore::open(&rt, dev, quiet()).await?;
        let zeros = AlignedBuf::zeroed(Blocks(4)).freeze();
        for id in 0..chunks {
            let id = ChunkId::from_u64(id);
            store.create(id, Stream::Data).await?;
            let mut offset = 0;
            for record in 0..records {
                let length = 4096 * (1 + record as usize % 2);
                store.append(id, offset, vec![zeros.slice(..length)]).await?;
                offset += length as u64;
                rt.sleep(STEP).await;
            }
            store.seal(id).await?;
        }
        if checkpoint {
            store.checkpoint().await?;
        }
        let image = medium.snapshot();
        image.power_cycle();
        Ok(image)
    })
}

/// No marks and no background work: what is opened is checkpoint, journal and scan.
fn quiet() -> Options {
    Options { background: false, checkpoint_every: Duration::MAX, ..Setup::Paper.options() }
}

fn open_chunks(image: &MemoryDevice) -> Outcome<Taken> {
    least(|processor| {
        let dev: Rc<dyn ZonedDevice> = Rc::new(image.snapshot());
        Sim::new(1).run_on(Some(processor), |runtimes| async move {
            let began = now();
            let opened = ChunkStore::open(&runtimes.program, dev, quiet()).await?;
            let taken = now() - began;
            drop(opened);
            Ok(taken)
        })
    })
}

/// Objects put by as many writers at once.
const OBJECTS: u64 = 100_000;
const WRITERS: u64 = 50;

async fn array(rt: &Runtime, media: Vec<Rc<MemoryDevice>>, format: bool) -> Outcome<ArrayStore> {
    let drive = |(number, dev): (usize, Rc<MemoryDevice>)| ArrayDrive { name: number.to_string(), dev };
    let drives: Vec<ArrayDrive> = media.into_iter().enumerate().map(drive).collect();
    if format {
        shingle_array_store::format(rt, &drives, &ArrayFormat::new(LabArray::code())).await?;
    }
    let options = ArrayOptions { background: false, ..ArrayOptions::default() };
    Ok(ArrayStore::open(rt, &drives, &IndexPlace::Memory, options).await?.0)
}

/// Media as a power cut leaves them.
fn images(media: &[Rc<MemoryDevice>]) -> Vec<MemoryDevice> {
    let image = |medium: &Rc<MemoryDevice>| {
        let image = medium.snapshot();
        image.power_cycle();
        image
    };
    media.iter().map(image).collect()
}

/// Processor time of an opening without a snapshot, of a snapshot, and of an opening with it.
fn arrays() -> Outcome<[Taken; 3]> {
    let drive = LabDrive::new("ha10").map_err(|error| error.to_string())?.every(240);
    let medium = || MemoryDevice::metadata_only(drive.geometry(), shingle_record::keep_unless_hollow);
    let media: Vec<Rc<MemoryDevice>> = (0..DRIVES).map(|_| Rc::new(medium())).collect();
    let [without, with] = Sim::new(1).run(move |rt| async move {
        let store = array(&rt, media.clone(), true).await?;
        for at in 0..OBJECTS / WRITERS {
            let put = |writer: u64| {
                store.put(
                    format!("{:08}", (at * WRITERS + writer) * 7919 % OBJECTS),
                    Bytes::from_static(&[0; 4096]),
                    Bytes::new(),
                )
            };
            for done in join_all((0..WRITERS).map(put)).await {
                done?;
            }
            rt.sleep(STEP).await;
        }
        let without = images(&media);
        store.snapshot().await?;
        Ok::<_, Box<dyn Error>>([without, images(&media)])
    })?;
    let open = |image: &[MemoryDevice], then_snapshot: bool| {
        least(|processor| {
            let media = image.iter().map(|medium| Rc::new(medium.snapshot())).collect();
            Sim::new(1).run_on(Some(processor), |runtimes| async move {
                let mut began = now();
                let store = array(&runtimes.program, media, false).await?;
                if then_snapshot {
                    began = now();
                    store.snapshot().await?;
                }
                Ok(now() - began)
            })
        })
    };
    Ok([open(&without, false)?, open(&without, true)?, open(&with, false)?])
}

fn main() -> Outcome<()> {
    let byte = byte();
    println!("Byte: {byte:.4} ns");
    // Two equations for the two kinds of a checkpoint: many chunks of one record, and few of many.
    let (many, few) = (open_chunks(&chunks(50_000, 1, true)?)?, open_chunks(&chunks(500, 400, true)?)?);
    let base = open_chunks(&chunks(1, 1, true)?)?;
    let more = |taken: &Taken| {
        let entries = taken.of(Work::Entry) - base.of(Work::Entry);
        (taken.nanos - base.nanos, entries, taken.of(Work::Extent) - base.of(Work::Extent))
    };
    let ((nanos, entries, extents), (other_nanos, other_entries, other_extents)) = (more(&many), more(&few));
    let determinant = entries * other_extents - other_entries * extents;
    println!("Entry: {:.1} ns of {entries}", (nanos * other_extents - other_nanos * extents) / determinant);
    println!("Extent: {:.1} ns of {other_extents}", (entries * other_nanos - other_entries * nanos) / determinant);
    let scanned = open_chunks(&chunks(500, 400, false)?)?;
    let records = scanned.of(Work::Record);
    println!(
        "Record: {:.1} ns of {records}, its header's bytes taken off",
        (scanned.nanos - base.nanos) / records - 4096.0 * byte
    );
    let [without, snapshot, with] = arrays()?;
    println!("Change: {:.1} ns of {}", without.nanos / without.of(Work::Change), without.of(Work::Change));
    // The opening before it told of its own work, but not of any that a snapshot has.
    println!("Scan: {:.1} ns of {}", snapshot.nanos / snapshot.of(Work::Scan), snapshot.of(Work::Scan));
    println!("Load: {:.1} ns of {}", with.nanos / with.of(Work::Load), with.of(Work::Load));
    Ok(())
}
