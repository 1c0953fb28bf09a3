//! Objects into an array of 10+2 and out of it, fragments of 1 MiB, on one core, over memory devices.

use std::hint::black_box;
use std::rc::Rc;

use bytes::Bytes;
use shingle_array_store::{ArrayDrive, ArrayStore, FormatOptions, IndexPlace, Options, format};
use shingle_base::{Blocks, Lba, ZoneId, crc32c};
use shingle_erasure::{Code, Coder};
use shingle_runtime::Runtime;
use shingle_zoned::{DeviceFuture, Geometry, MemoryDevice, ZoneInfo, ZoneOp, ZonedDevice};

use crate::bench::{Figure, limit, median};
use crate::failure::{Failure, Outcome};

const DATA: u8 = 10;
const PARITY: u8 = 2;
const FRAGMENT: usize = 1 << 20;
const SEGMENT: usize = DATA as usize * FRAGMENT;
/// Segments that are written in a round, and that are read.
const PUT_SEGMENTS: u64 = 300;
const GET_SEGMENTS: u64 = 60;
const ROUNDS: usize = 5;

pub(crate) fn put() -> Outcome<Vec<Figure>> {
    let (mut rates, mut limits) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        limits.push(encode_limit(PUT_SEGMENTS)?);
        rates.push(shingle_runtime::real::run(put_round)??);
    }
    Ok(vec![Figure { id: "put_10+2_1mib", unit: "bytes/s", value: median(rates), limit: median(limits) }])
}

pub(crate) fn get() -> Outcome<Vec<Figure>> {
    let [whole, degraded] = shingle_runtime::real::run(get_rounds)??;
    let figure = |id, (value, limit)| Figure { id, unit: "bytes/s", value, limit };
    Ok(vec![figure("get_10+2_1mib", whole), figure("get_10+2_1mib_one_drive_lost", degraded)])
}

fn code() -> Outcome<Code> {
    Code::new(DATA, PARITY).map_err(|error| Failure::new(error.to_string()))
}

fn drives(device: impl Fn(Geometry) -> Rc<dyn ZonedDevice>) -> Vec<ArrayDrive> {
    let geometry = Geometry::hm_smr(Blocks(65_536), 8, 0, 128);
    let drive = |number| ArrayDrive { name: format!("memory {number}"), dev: device(geometry.clone()) };
    (0..DATA + PARITY).map(drive).collect()
}

/// A memory device that says it keeps payload but drops it: the engine encodes and checksums every byte, and the memory
/// that would hold it is not measured.
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

async fn fresh(rt: &Runtime, drives: &[ArrayDrive]) -> Outcome<ArrayStore> {
    let options = FormatOptions { segment_length: SEGMENT as u32, ..FormatOptions::new(code()?) };
    format(rt, drives, &options).await?;
    open(rt, drives).await
}

async fn open(rt: &Runtime, drives: &[ArrayDrive]) -> Outcome<ArrayStore> {
    let options = Options { background: false, ..Options::default() };
    Ok(ArrayStore::open(rt, drives, &IndexPlace::Memory, options).await?.0)
}

fn segment() -> Bytes {
    (0..SEGMENT as u32).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect::<Vec<u8>>().into()
}

/// Bytes a second of one object, written segment by segment.
async fn put_round(rt: Runtime) -> Outcome<f64> {
    let drives = drives(|geometry| {
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

/// The least a put has to do: encode, copy each byte once, take its CRC-32C once.
fn encode_limit(segments: u64) -> Outcome<f64> {
    let mut coder = Coder::new(code()?);
    let data = segment();
    let fragments: Vec<&[u8]> = data.chunks_exact(FRAGMENT).collect();
    let mut parity = vec![Vec::new(); usize::from(PARITY)];
    let mut target = vec![0u8; SEGMENT];
    let mut sum = 0;
    let began = limit::now();
    for _ in 0..segments {
        let encoded = coder.encode(black_box(&fragments), &mut parity);
        encoded.map_err(|error| Failure::new(error.to_string()))?;
        black_box(&parity);
        sum ^= copy_and_crc(&data, &mut target);
    }
    black_box(sum);
    Ok((segments * SEGMENT as u64) as f64 / began.elapsed().as_secs_f64())
}

fn copy_and_crc(from: &[u8], to: &mut [u8]) -> u32 {
    // Few at a time, so that what was copied is summed while it is in the cache.
    let pieces = from.chunks(4096).zip(to.chunks_mut(4096));
    pieces.fold(0, |sum, (from, to)| {
        to.copy_from_slice(black_box(from));
        sum ^ crc32c(black_box(to))
    })
}

/// Values and limits: with all drives, and with one lost.
async fn get_rounds(rt: Runtime) -> Outcome<[(f64, f64); 2]> {
    let mut drives = drives(|geometry| Rc::new(MemoryDevice::new(geometry)));
    let store = fresh(&rt, &drives).await?;
    let data = segment();
    let mut put = store.begin_put("object")?;
    for _ in 0..GET_SEGMENTS {
        put.write(data.clone()).await?;
    }
    put.finish(Bytes::new()).await?;
    let whole = read_rounds(&store, false).await?;
    store.close().await?;
    // The first set's first fragment is there: one of data.
    drives.remove(0);
    let store = open(&rt, &drives).await?;
    let degraded = read_rounds(&store, true).await?;
    store.close().await?;
    Ok([whole, degraded])
}

async fn read_rounds(store: &ArrayStore, degraded: bool) -> Outcome<(f64, f64)> {
    let (mut rates, mut limits) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        limits.push(read_limit(degraded)?);
        let reader = store.open_object("object")?;
        let began = limit::now();
        let mut at = 0;
        while at < reader.object().size {
            at += black_box(reader.read(at, SEGMENT as u64).await?).len() as u64;
        }
        rates.push(at as f64 / began.elapsed().as_secs_f64());
    }
    Ok((median(rates), median(limits)))
}

/// The least a get has to do: copy each byte once, take its CRC-32C once. With a drive lost, what it had of each segment, a
/// data fragment, is computed from the others.
fn read_limit(degraded: bool) -> Outcome<f64> {
    let mut coder = Coder::new(code()?);
    let data = segment();
    let copies = vec![data.to_vec(); GET_SEGMENTS as usize];
    let mut target = vec![0u8; SEGMENT];
    let mut sum = 0;
    let began = limit::now();
    for from in &copies {
        sum ^= copy_and_crc(from, &mut target);
        if degraded {
            // Any ten fragments do; that these are data does not change what it costs.
            let present: Vec<_> = from.chunks_exact(FRAGMENT).enumerate().map(|(at, bytes)| (at + 1, bytes)).collect();
            let made = coder.reconstruct(black_box(&present), &[0]);
            black_box(made.map_err(|error| Failure::new(error.to_string()))?);
        }
    }
    black_box(sum);
    Ok((GET_SEGMENTS * SEGMENT as u64) as f64 / began.elapsed().as_secs_f64())
}
