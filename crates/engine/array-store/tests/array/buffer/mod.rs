//! AS-BUF-1 to AS-BUF-4: small objects in two mirrored files, whatever fails and whenever.

mod contents;
mod failures;
mod full;
mod losses;
mod mirrors;

use std::cell::{Cell, RefCell};
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
use shingle_sim::{CommandKind, Random, Sim, SimDevice, SimFile, Survival, seeds};
use shingle_zoned::{Geometry, MemoryDevice};

/// A file of the buffer.
struct OfBuffer(Rc<SimFile>);

impl BufferFile for OfBuffer {
    fn read(&self, offset: u64, length: usize) -> LocalBoxFuture<'_, io::Result<Bytes>> {
        Box::pin(self.0.read(offset, length))
    }

    fn write(&self, offset: u64, data: Bytes) -> LocalBoxFuture<'_, io::Result<()>> {
        Box::pin(self.0.write(offset, data))
    }
}

pub(crate) fn files(files: &[Rc<SimFile>; 2]) -> BufferFiles {
    BufferFiles(files.clone().map(|file| Rc::new(OfBuffer(file)) as Rc<dyn BufferFile>))
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

/// Drives of an array of which two others were lost with superblocks that nobody has seen; the loss was accepted.
fn behind_an_accepted_loss() -> Vec<MemoryDevice> {
    let drives = vec![Geometry::hm_smr(Blocks(60), 16, 0, 12); 5];
    let media = formatted(&ArrayShape { code: Code::new(2, 1).unwrap(), segment_length: 40_000, drives });
    Sim::new(2).run(move |rt| async move {
        let devices = powered(&rt, &media[..3]);
        let (store, _) = try_open(&rt, &devices, None, Options { accept_loss: true, ..plain() }).await.unwrap();
        store.close().await.unwrap();
        devices.iter().map(SimDevice::image).collect()
    })
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
    history_with(plain(), test)
}

fn history_with<F>(options: Options, test: impl FnOnce(Runtime, ArrayStore, [Rc<SimFile>; 2]) -> F + 'static) -> Left
where
    F: Future<Output = ()> + 'static,
{
    history_on(media(), options, test)
}

fn history_on<F>(
    media: Vec<MemoryDevice>,
    options: Options,
    test: impl FnOnce(Runtime, ArrayStore, [Rc<SimFile>; 2]) -> F + 'static,
) -> Left
where
    F: Future<Output = ()> + 'static,
{
    Sim::new(3).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let buffer = [SimFile::new(&rt, Vec::new()), SimFile::new(&rt, Vec::new())];
        let (store, _) = try_open(&rt, &devices, Some(&buffer), options).await.unwrap();
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
