//! Memory of an opening: all drives of a server open at once.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, ChunkId, Lba, ZoneId};
use shingle_chunk_store::{ChunkStore, Options, PoolSizes, Stream};
use shingle_sim::{Sim, SimDevice};
use shingle_zoned::{DeviceFuture, Geometry, MemoryDevice, ZoneInfo, ZoneOp, ZonedDevice};

use crate::common::formatted;

const MIB: u64 = 1 << 20;

/// Bytes that were read and are held, and the most that ever were.
#[derive(Clone, Default)]
struct Held(Arc<(AtomicU64, AtomicU64)>);

/// Bytes that count for as long as any slice of them lives.
struct Counted(Bytes, Held);

impl Counted {
    fn new(bytes: Bytes, held: Held) -> Self {
        let (now, most) = &*held.0;
        most.fetch_max(now.fetch_add(bytes.len() as u64, Relaxed) + bytes.len() as u64, Relaxed);
        Self(bytes, held)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.0.0.fetch_sub(self.0.len() as u64, Relaxed);
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A device that counts what its reader holds.
struct Counting {
    inner: SimDevice,
    held: Held,
}

impl ZonedDevice for Counting {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.inner.report(first, count)
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        Box::pin(async move {
            let bytes = self.inner.read(at, length).await?;
            Ok(Bytes::from_owner(Counted::new(bytes, self.held.clone())))
        })
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

/// A store that writes to many zones, and leaves an opening everything to scan.
fn quiet() -> Options {
    let pools = PoolSizes { gc: 2, data: 12, meta: 2 };
    Options { background: false, mark_every: None, landing: None, pools, ..Options::default() }
}

/// The most bytes read from a drive that an opening of it holds at once.
fn most_held(image: MemoryDevice) -> u64 {
    Sim::new(1).run(move |rt| async move {
        let held = Held::default();
        let device = Rc::new(Counting { inner: SimDevice::new(&rt, &image), held: held.clone() });
        ChunkStore::open(&rt, device, quiet()).await.unwrap();
        held.0.1.load(Relaxed)
    })
}

/// Zones of 16 MiB.
fn drive() -> MemoryDevice {
    formatted(Geometry::hm_smr(Blocks(4096), 40, 2, 32))
}

#[test]
fn an_opening_scans_many_zones_in_the_memory_of_a_few() {
    let image = drive();
    let filled = Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &image);
        let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), quiet()).await.unwrap();
        let data = AlignedBuf::zeroed(Blocks(256)).freeze();
        for id in (0..12).map(ChunkId::from_u64) {
            store.create(id, Stream::Data).await.unwrap();
            for piece in 0..12 {
                store.append(id, piece * MIB, vec![data.clone()]).await.unwrap();
            }
        }
        device.image()
    });
    let most = most_held(filled);
    assert!(most <= 32 * MIB, "144 MiB to be scanned, of which {} were held at once", most / MIB);
}

#[test]
fn an_opening_holds_no_more_of_the_journal_than_its_entries() {
    let image = drive();
    let filled = Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &image);
        let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), quiet()).await.unwrap();
        for id in (0..4000).map(ChunkId::from_u64) {
            store.create(id, Stream::Data).await.unwrap();
        }
        device.image()
    });
    let most = most_held(filled);
    assert!(most <= 9 * MIB, "a journal of 31 MiB, of which {} were held at once", most / MIB);
}
