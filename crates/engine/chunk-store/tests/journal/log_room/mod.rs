//! CS-ROOM-1 to CS-ROOM-3: what the metadata log has no room for is refused, and reads go on.

mod changes;
mod gc;
mod refusals;
mod starved;

use std::rc::Rc;
use std::time::Duration;

use crate::common::{content, formatted, open};
use bytes::Bytes;
use futures_util::future::{Either, join, join_all, select};
use shingle_base::{Blocks, ChunkId, StoreId, ZoneId};
use shingle_chunk_store::{
    Allocation, ChunkClient, ChunkStore, ErrorKind, FormatOptions, Landing, Options, Placement, Request, Stream,
    ZoneStatus, dump,
};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{Geometry, MemoryDevice, ZoneState, ZonedDevice};
use tokio::sync::{mpsc, oneshot};

fn id(number: u64) -> ChunkId {
    ChunkId::from_u64(number)
}

fn quiet() -> Options {
    Options { background: false, landing: None, record_max: 1, ..Options::default() }
}

async fn append(store: &ChunkStore, chunk: u64, at: u64, length: u64) -> shingle_chunk_store::Result<u64> {
    store.append(id(chunk), at, vec![Bytes::from(content(chunk, at, length))]).await
}

/// Result of an operation, which has to end within a minute.
async fn ends<T>(rt: &Runtime, what: &str, operation: impl Future<Output = T>) -> T {
    match select(Box::pin(operation), Box::pin(rt.sleep(Duration::from_secs(60)))).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => panic!("{what} does not end"),
    }
}

/// A drive of zones of 16 blocks with that many metazones.
fn with_metazones(zones: u32, metazones: u32) -> MemoryDevice {
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(16), zones, 0, 16)));
        let options =
            FormatOptions { store: Some(StoreId(42)), metazones: Some(metazones), ..FormatOptions::default() };
        ChunkStore::format(&rt, Rc::new(device.clone()), &options).await.unwrap();
        device.image()
    })
}

/// Metazones with the newest checkpoint and what came after it, the newest last.
async fn needed_metazones(rt: &Runtime, medium: &MemoryDevice) -> Vec<ZoneId> {
    let log = dump(rt, Rc::new(SimDevice::new(rt, medium))).await.unwrap().log;
    let start = log.iter().filter(|record| record.kind == "checkpoint start").map(|record| record.position).max();
    let mut needed: Vec<ZoneId> = log.iter().filter(|at| Some(at.position) >= start).map(|at| at.zone).collect();
    needed.dedup();
    needed
}

/// Creates chunks and deletes them: entries of the journal, for an index that stays as it is.
async fn churn(store: &ChunkStore, first: u64, rounds: u64) -> shingle_chunk_store::Result<()> {
    for number in first..first + rounds {
        store.create(id(number), Stream::Data).await?;
        store.delete(id(number)).await?;
    }
    Ok(())
}

/// Three of six metazones, which hold nothing that is needed, turn read-only: no checkpoint makes room any more.
async fn shrink_log(rt: &Runtime, device: &SimDevice, store: &ChunkStore) {
    store.checkpoint().await.unwrap();
    let needed = needed_metazones(rt, &device.image()).await;
    let spare = (1..=6).map(ZoneId).filter(|zone| !needed.contains(zone)).take(3);
    spare.for_each(|zone| device.medium().set_state(zone, ZoneState::ReadOnly));
}

/// Lets the metadata log run full in this life.
async fn fill_log(rt: &Runtime, device: &SimDevice, store: &ChunkStore) {
    shrink_log(rt, device, store).await;
    let error = churn(store, 10_000, 5000).await.expect_err("the log never fills");
    assert_eq!(error.kind, ErrorKind::Device, "{error}");
}

/// CS-ROOM-3: where no zone that GC empties can be reset it waits, and does not read the same again and again.
#[test]
fn gc_rests_while_the_log_is_full() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        for chunk in 1..=40 {
            store.create(id(chunk), Stream::Data).await.unwrap();
            append(&store, chunk, 0, 80_000).await.unwrap();
        }
        for chunk in (1..=40).step_by(2) {
            store.delete(id(chunk)).await.unwrap();
        }
        store.close().await.unwrap();
        let medium = device.image();
        for zone in 4..=6 {
            medium.set_state(ZoneId(zone), ZoneState::ReadOnly);
        }
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, Options { background: true, gc_start: 1.0, ..quiet() }).await;
        rt.sleep(Duration::from_secs(10)).await;
        let before = device.counts();
        rt.sleep(Duration::from_secs(600)).await;
        let after = device.counts();
        let commands = after.reads.0 + after.writes.0 - before.reads.0 - before.writes.0;
        assert!(commands < 20, "{commands} commands in ten minutes");
        let error = ends(&rt, "gc", store.gc(1, |_| {})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Device, "{error}");
        for chunk in (2..=40).step_by(2) {
            assert!(store.read(id(chunk), 0, 80_000).await.unwrap() == content(chunk, 0, 80_000));
        }
        drop(ends(&rt, "close", store.close()).await);
    });
}
/// CS-ROOM-3: no zone is free, and what is garbage cannot be reset, as the log is full. GC says so, and does not wait for it.
#[test]
fn gc_does_not_wait_for_garbage_that_a_full_log_keeps() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        let mut chunks = 0;
        loop {
            store.create(id(chunks + 1), Stream::Data).await.unwrap();
            if append(&store, chunks + 1, 0, 80_000).await.is_err() {
                break;
            }
            chunks += 1;
        }
        // One zone is kept free for GC: it fails.
        let free: Vec<_> =
            store.zones().iter().filter(|zone| zone.status == ZoneStatus::Free).map(|zone| zone.zone).collect();
        // All of some zones, and half of others. The power fails before one is reset.
        let dead = (1..=12).chain((13..=chunks).step_by(2));
        join_all(dead.map(|chunk| store.delete(id(chunk)))).await.into_iter().for_each(|deleted| deleted.unwrap());
        let medium = device.crash_image(1);
        for zone in (4..=6).map(ZoneId).chain(free) {
            medium.set_state(zone, ZoneState::ReadOnly);
        }
        let device = SimDevice::new(&rt, &medium);
        // Nor is one while the log fills.
        let hangs = FaultRule { trigger: Trigger::Rate(CommandKind::Reset, 1.0), fault: Fault::Hang };
        device.set_faults(Faults::new([hangs]).sparing((0..=6).map(ZoneId)));
        let (store, _) = open(&rt, &device, quiet()).await;
        let count = |status| store.zones().iter().filter(|zone| zone.status == status).count();
        churn(&store, 10_000, 5000).await.expect_err("the log never fills");
        let (free, garbage) = (count(ZoneStatus::Free), count(ZoneStatus::Garbage));
        assert!(free == 0 && garbage > 0, "the case is not met: {free} free, {garbage} garbage");
        let error = ends(&rt, "gc", store.gc(1, |_| {})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Device, "{error}");
        assert!(store.read(id(14), 0, 80_000).await.unwrap() == content(14, 0, 80_000));
    });
}

/// Appends records of a block by turns to chunks of one kind, which follow each other as they fill up.
struct Kind {
    next: u64,
    at: u64,
    full: Vec<(u64, u64)>,
}

impl Kind {
    async fn append(&mut self, store: &ChunkStore) {
        loop {
            if self.at == 0 {
                store.create(id(self.next), Stream::Data).await.unwrap();
            }
            match append(store, self.next, self.at, 10).await {
                Ok(end) => return self.at = end,
                Err(error) => assert_eq!(error.kind, ErrorKind::ChunkFull, "{error}"),
            }
            self.end(store).await;
        }
    }

    async fn end(&mut self, store: &ChunkStore) {
        store.seal(id(self.next)).await.unwrap();
        self.full.push((self.next, self.at));
        (self.next, self.at) = (self.next + 1, 0);
    }
}
