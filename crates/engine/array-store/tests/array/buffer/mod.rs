//! AS-BUF-1 to AS-BUF-4: small objects in two mirrored files, whatever fails and whenever.

mod contents;
mod failures;
mod full;
mod mirrors;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{ArrayShape, Driver, Model, content, formatted, named, options, powered, shape};
use bytes::Bytes;
use futures_util::future::{Either, join_all, select};
use shingle_array_store::{ArrayStore, BufferFile, BufferFiles, ErrorKind, IndexPlace, Options, RecoveryReport};
use shingle_base::{Blocks, crc32c};
use shingle_erasure::Code;
use shingle_runtime::{LocalBoxFuture, Runtime};
use shingle_sim::{CommandKind, Random, Sim, SimDevice, Survival, seeds};
use shingle_zoned::{Geometry, MemoryDevice};

/// A file in memory whose power can fail.
pub(crate) struct SimFile {
    rt: Runtime,
    durable: RefCell<Vec<u8>>,
    /// Writes that have not returned.
    pending: RefCell<BTreeMap<u64, (u64, Bytes)>>,
    next: Cell<u64>,
    broken: Cell<bool>,
    /// Blocks that cannot be read until they are written again, by number.
    unreadable: RefCell<Vec<u64>>,
}

impl SimFile {
    pub(crate) fn new(rt: &Runtime, bytes: Vec<u8>) -> Rc<Self> {
        Rc::new(Self {
            rt: rt.clone(),
            durable: RefCell::new(bytes),
            pending: RefCell::default(),
            next: Cell::default(),
            broken: Cell::default(),
            unreadable: RefCell::default(),
        })
    }

    /// From now on every read and write fails.
    pub(crate) fn fail(&self) {
        self.broken.set(true);
    }

    /// A block cannot be read until it is written again.
    pub(crate) fn fail_reads(&self, block: u64) {
        self.unreadable.borrow_mut().push(block);
    }

    /// File after a power cut: of writes that have not returned, any blocks of 512 bytes.
    pub(crate) fn image(&self, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed);
        let mut bytes = self.durable.borrow().clone();
        for (offset, data) in self.pending.borrow().values() {
            let share = [0.0, 0.5, 1.0][random.below(3) as usize];
            for (at, piece) in data.chunks(512).enumerate() {
                if random.chance(share) {
                    put_at(&mut bytes, *offset as usize + at * 512, piece);
                }
            }
        }
        bytes
    }
}

fn put_at(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.resize(bytes.len().max(at + piece.len()), 0);
    bytes[at..at + piece.len()].copy_from_slice(piece);
}

impl BufferFile for SimFile {
    fn read(&self, offset: u64, length: usize) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(async move {
            let blocks = offset / 4096..(offset + length as u64).div_ceil(4096);
            if self.broken.get() || self.unreadable.borrow().iter().any(|block| blocks.contains(block)) {
                return Err(io::Error::other("broken"));
            }
            let durable = self.durable.borrow();
            let rest = durable.get(offset as usize..).unwrap_or_default();
            Ok(Bytes::copy_from_slice(&rest[..length.min(rest.len())]))
        })
    }

    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(async move {
            let number = self.next.replace(self.next.get() + 1);
            self.pending.borrow_mut().insert(number, (offset, data.clone()));
            self.rt.sleep(Duration::from_micros(self.rt.random() % 150)).await;
            self.pending.borrow_mut().remove(&number);
            if self.broken.get() {
                return Err(io::Error::other("broken"));
            }
            put_at(&mut self.durable.borrow_mut(), offset as usize, &data);
            let written = offset / 4096..(offset + data.len() as u64).div_ceil(4096);
            self.unreadable.borrow_mut().retain(|block| !written.contains(block));
            Ok(())
        })
    }
}

pub(crate) fn files(files: &[Rc<SimFile>; 2]) -> BufferFiles {
    BufferFiles([files[0].clone(), files[1].clone()])
}

async fn try_open(
    rt: &Runtime,
    devices: &[SimDevice],
    buffer: Option<&[Rc<SimFile>; 2]>,
    options: Options,
) -> shingle_array_store::Result<(ArrayStore, RecoveryReport)> {
    ArrayStore::open_with_buffer(rt, &named(devices), &IndexPlace::Memory, options, buffer.map(files)).await
}

fn plain() -> Options {
    Options { background: false, buffer_bytes: 512 << 10, ..Options::default() }
}

fn media() -> Vec<MemoryDevice> {
    let drives = vec![Geometry::hm_smr(Blocks(60), 16, 0, 12); 3];
    formatted(&ArrayShape { code: Code::new(2, 1).unwrap(), segment_length: 40_000, drives })
}

/// State of everything after a power cut.
pub(super) struct Left {
    pub(super) devices: Vec<MemoryDevice>,
    pub(super) files: [Vec<u8>; 2],
}

pub(super) fn left(devices: &[SimDevice], files: &[Rc<SimFile>; 2], seed: u64) -> Left {
    let survival = if seed.is_multiple_of(2) { Survival::AnySubset } else { Survival::Prefix };
    let image = |(at, device): (usize, &SimDevice)| device.crash_image_with(seed + at as u64, survival);
    Left {
        devices: devices.iter().enumerate().map(image).collect(),
        files: [files[0].image(seed), files[1].image(seed + 1)],
    }
}

/// Runs a history on fresh drives and files; what a power cut at its end leaves.
fn history<F>(test: impl FnOnce(Runtime, ArrayStore, [Rc<SimFile>; 2]) -> F + 'static) -> Left
where
    F: Future<Output = ()> + 'static,
{
    Sim::new(3).run(move |rt| async move {
        let devices = powered(&rt, &media());
        let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
        let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
        test(rt, store, buffer.clone()).await;
        left(&devices, &buffer, 1)
    })
}

/// Opens what is left with both files, and with each alone, the other new.
fn with_either<F>(left: Left, check: impl Fn(ArrayStore) -> F + Clone + 'static)
where
    F: Future<Output = ()> + 'static,
{
    for lost in [None, Some(0), Some(1)] {
        let mut files = left.files.clone();
        if let Some(lost) = lost {
            files[lost] = Vec::new();
        }
        let (media, check) = (left.devices.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>(), check.clone());
        Sim::new(9).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let buffer = files.map(|bytes| SimFile::new(&rt, bytes));
            let (store, _) = try_open(&rt, &devices, Some(&buffer), plain()).await.unwrap();
            check(store).await;
        });
    }
}

async fn put(store: &ArrayStore, name: &str, key: u64) {
    store.put(name.to_owned(), content((key, 3000)), Bytes::from_static(b"with it")).await.unwrap();
}

async fn is(store: &ArrayStore, name: &str, key: u64) {
    assert!(store.get(name.to_owned()).await.unwrap() == content((key, 3000)), "{name}");
    assert_eq!(&store.head(name.as_bytes()).unwrap().attributes[..], b"with it");
}
