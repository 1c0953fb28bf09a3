//! Objects into an array of 10+2 and out of it, and a lost drive of it rebuilt; fragments of 1 MiB, on one core, over
//! memory devices.

mod least;
mod shape;

use std::hint::black_box;
use std::rc::Rc;

use bytes::Bytes;
use shingle_array_store::{ArrayDrive, ArrayStore, FormatOptions, IndexPlace, Options, RebuildOptions, format};
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::{DeviceFuture, Geometry, MemoryDevice, ZoneInfo, ZoneOp, ZonedDevice};

use self::shape::{DATA, FRAGMENT, PARITY, SEGMENT, code, segment};
use crate::bench::figure::{Figure, median};
use crate::bench::limit;
use crate::failure::{Failure, Outcome};

/// Segments written in a round, and read or rebuilt.
const PUT_SEGMENTS: u64 = 300;
const GET_SEGMENTS: u64 = 60;
const ROUNDS: usize = 5;

pub(crate) fn put() -> Outcome<Vec<Figure>> {
    let (mut rates, mut limits) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        limits.push(least::put(GET_SEGMENTS as usize)?);
        rates.push(shingle_runtime::real::run(put_round)??);
    }
    Ok(vec![Figure {
        id: "put_10+2_1mib",
        unit: "bytes/s",
        value: median(rates),
        limit: least::best(&limits) * SEGMENT as f64,
    }])
}

pub(crate) fn get() -> Outcome<Vec<Figure>> {
    let [whole, degraded] = shingle_runtime::real::run(get_rounds)??;
    let figure = |id, (value, limit)| Figure { id, unit: "bytes/s", value, limit };
    Ok(vec![figure("get_10+2_1mib", whole), figure("get_10+2_1mib_one_drive_lost", degraded)])
}

pub(crate) fn rebuild() -> Outcome<Vec<Figure>> {
    let (value, limit) = shingle_runtime::real::run(rebuild_rounds)??;
    Ok(vec![Figure { id: "rebuild_10+2_1mib", unit: "bytes/s", value, limit }])
}

fn drives(geometry: &Geometry, device: impl Fn(Geometry) -> Rc<dyn ZonedDevice>) -> Vec<ArrayDrive> {
    let drive = |number| ArrayDrive { name: format!("memory {number}"), dev: device(geometry.clone()) };
    (0..DATA + PARITY).map(drive).collect()
}

/// A memory device that claims to keep payload but drops it: the engine encodes and checksums every byte, and memory
/// for the payload is not measured.
struct Sink {
    inner: MemoryDevice,
    geometry: Geometry,
}

impl ZonedDevice for Sink {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.inner.report(first, count)
    }
    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        self.inner.read(at, length)
    }
    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        self.inner.write(at, data)
    }
    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        self.inner.append(zone, data)
    }
    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        self.inner.manage(zone, op)
    }
    fn flush(&self) -> DeviceFuture<'_, ()> {
        self.inner.flush()
    }
}

fn large_zones() -> Geometry {
    Geometry::hm_smr(Blocks(65_536), 8, 0, 128)
}

async fn fresh(rt: &Runtime, drives: &[ArrayDrive]) -> Outcome<ArrayStore> {
    let options = FormatOptions { segment_length: SEGMENT as u32, ..FormatOptions::new(code()?) };
    format(rt, drives, &options).await?;
    open(rt, drives).await
}

async fn open(rt: &Runtime, drives: &[ArrayDrive]) -> Outcome<ArrayStore> {
    let options = Options { background: false, ..Options::default() };
    Ok(ArrayStore::open(rt, drives, &IndexPlace::Memory, options).await?.0)
}

/// Bytes a second of one object, written segment by segment.
async fn put_round(rt: Runtime) -> Outcome<f64> {
    let drives = drives(&large_zones(), |geometry| {
        let inner = MemoryDevice::metadata_only(geometry.clone(), shingle_record::keep_metadata);
        Rc::new(Sink { inner, geometry })
    });
    let store = fresh(&rt, &drives).await?;
    let data = segment();
    let began = limit::now();
    let mut put = store.begin_put("object")?;
    for _ in 0..PUT_SEGMENTS {
        put.write(data.clone()).await?;
    }
    put.finish(Bytes::new()).await?;
    let rate = (PUT_SEGMENTS * SEGMENT as u64) as f64 / began.elapsed().as_secs_f64();
    store.close().await?;
    Ok(rate)
}

/// Values and limits: with all drives, and with one lost.
async fn get_rounds(rt: Runtime) -> Outcome<[(f64, f64); 2]> {
    let mut drives = drives(&large_zones(), |geometry| Rc::new(MemoryDevice::new(geometry)));
    let store = fresh(&rt, &drives).await?;
    fill(&store).await?;
    let stored = stored();
    let whole = read_rounds(&store, &stored, false).await?;
    store.close().await?;
    // The first set's first fragment is there: one of data.
    drives.remove(0);
    let store = open(&rt, &drives).await?;
    let degraded = read_rounds(&store, &stored, true).await?;
    store.close().await?;
    Ok([whole, degraded])
}

/// Writes the object to be read.
async fn fill(store: &ArrayStore) -> Outcome<()> {
    let data = segment();
    let mut put = store.begin_put("object")?;
    for _ in 0..GET_SEGMENTS {
        put.write(data.clone()).await?;
    }
    put.finish(Bytes::new()).await?;
    Ok(())
}

async fn read_rounds(store: &ArrayStore, stored: &[Vec<u8>], degraded: bool) -> Outcome<(f64, f64)> {
    let (mut rates, mut limits) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        limits.push(least::get(stored, degraded)?);
        let reader = store.open_object("object")?;
        let began = limit::now();
        let mut at = 0;
        while at < reader.object().size {
            at += black_box(reader.read(at, SEGMENT as u64).await?).len() as u64;
        }
        rates.push(at as f64 / began.elapsed().as_secs_f64());
    }
    Ok((median(rates), least::best(&limits) * SEGMENT as f64))
}

/// Segments as they lie on drives: each in memory of its own.
fn stored() -> Vec<Vec<u8>> {
    let data = segment();
    (0..GET_SEGMENTS).map(|_| data.to_vec()).collect()
}

/// Bytes a second written to a new drive, in each round another one, and the limit of that.
async fn rebuild_rounds(rt: Runtime) -> Outcome<(f64, f64)> {
    let device = |geometry| -> Rc<dyn ZonedDevice> { Rc::new(MemoryDevice::new(geometry)) };
    // Sets of few segments: otherwise most writes would only fill the last set.
    let geometry = Geometry::hm_smr(Blocks(4096), 64, 0, 128);
    let mut drives = drives(&geometry, device);
    let store = fresh(&rt, &drives).await?;
    fill(&store).await?;
    store.close().await?;
    let stored = stored();
    let (mut rates, mut limits) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        limits.push(least::rebuild(&stored)?);
        drives.remove(0);
        let store = open(&rt, &drives).await?;
        let new = ArrayDrive { name: format!("new memory {round}"), dev: device(geometry.clone()) };
        store.add_drive(&new).await?;
        drives.push(new);
        let began = limit::now();
        let done = store.rebuild(RebuildOptions::default(), |_| {}).await?;
        rates.push(done.bytes as f64 / began.elapsed().as_secs_f64());
        if done.failed > 0 || done.bytes < GET_SEGMENTS * FRAGMENT as u64 {
            return Err(Failure::new(format!("the lost drive was not rebuilt: {done:?}")));
        }
        store.close().await?;
    }
    Ok((median(rates), least::best(&limits) * FRAGMENT as f64))
}
