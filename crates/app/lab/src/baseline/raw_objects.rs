//! BlueStore on a drive that takes writes anywhere: which commands it gives for objects that are written once. (Dissertation, section 4.4.)
//!
//! **Owns** the places of objects and of the log of RocksDB, in memory. **Knows nothing of** data, of other operations, and of what compactions
//! of RocksDB cost: metadata of large objects are few.
//!
//! | choice | value | |
//! |---|---|---|
//! | data | written to fresh space at once, without a journal | published (section 4.4.2) |
//! | space | the next that is free, in the order of calls | published: the allocators of fresh drives give it in order |
//! | metadata | a batch in RocksDB's log: batches of all whose data are written then are one write | published (`_kv_sync_thread` of BlueStore) |
//! | batches on a disk | none begins while data are being written, for 200 ms at most | ours: the store on zones does the same |
//! | barriers | a flush between data and log, a flush behind the log | published (the same) |
//! | log | a ring of files that are used again, so that a sync writes no file-system metadata | published (section 4.4.1) |
//! | bytes of a batch | 1 KiB for each object | assumed |

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks};
use shingle_runtime::Runtime;
use shingle_store_api::{BlockStore, Durability, StoreError};
use tokio::sync::Notify;

use crate::rig::target::TargetError;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Bytes of the ring of logs, at the beginning of the drive.
const LOGS: u64 = 1 << 30;

/// Bytes of an object's metadata.
const METADATA: u64 = 1 << 10;

/// Bytes of a piece of zeros.
const PIECE: u64 = 1 << 20;

/// Time for which a batch waits, on a disk, for data that are being written: that of the store on zones.
const GATHERING: Duration = Duration::from_millis(200);

struct Inner {
    rt: Runtime,
    store: Rc<dyn BlockStore>,
    /// The arm of a disk leaves the data once for all that come in a short time.
    gathers: bool,
    zeros: Bytes,
    places: RefCell<BTreeMap<u64, (u64, u64)>>,
    next: Cell<u64>,
    log: Cell<u64>,
    /// Objects whose data are being written.
    writing: Cell<u64>,
    written: Notify,
    /// Objects that wait for the next batch, and the number of that batch.
    waiting: Cell<u64>,
    batch: Cell<u64>,
    committed: Cell<u64>,
    busy: Cell<bool>,
    done: Notify,
    failed: RefCell<Option<TargetError>>,
}

/// Objects on a drive.
#[derive(Clone)]
pub struct RawObjects(Rc<Inner>);

fn failed(error: StoreError) -> TargetError {
    TargetError::Failed(error.to_string())
}

impl RawObjects {
    /// No objects yet. `gathers` on a disk.
    pub fn new(rt: &Runtime, store: Rc<dyn BlockStore>, gathers: bool) -> Self {
        Self(Rc::new(Inner {
            rt: rt.clone(),
            store,
            gathers,
            zeros: AlignedBuf::zeroed(Blocks(PIECE / BLOCK)).freeze(),
            places: RefCell::default(),
            next: Cell::new(LOGS),
            log: Cell::new(0),
            writing: Cell::new(0),
            written: Notify::new(),
            waiting: Cell::new(0),
            batch: Cell::new(1),
            committed: Cell::new(0),
            busy: Cell::new(false),
            done: Notify::new(),
            failed: RefCell::default(),
        }))
    }

    /// Writes a new object of so many bytes, durably.
    ///
    /// # Errors
    /// `NoSpace`, or that of the drive.
    pub async fn write(&self, object: u64, bytes: u64) -> Result<(), TargetError> {
        let inner = &self.0;
        let length = bytes.next_multiple_of(BLOCK);
        let at = inner.next.get();
        if at + length > inner.store.size_bytes() {
            return Err(TargetError::NoSpace);
        }
        inner.next.set(at + length);
        let pieces = inner.pieces(length);
        inner.writing.set(inner.writing.get() + 1);
        let written = inner.store.write(at, pieces, Durability::Cached).await;
        inner.writing.set(inner.writing.get() - 1);
        inner.written.notify_one();
        written.map_err(failed)?;
        self.commit().await?;
        inner.places.borrow_mut().insert(object, (at, length));
        Ok(())
    }

    /// Reads an object.
    ///
    /// # Errors
    /// There is none, or that of the drive.
    pub async fn read(&self, object: u64) -> Result<(), TargetError> {
        let place = self.0.places.borrow().get(&object).copied();
        let (at, length) = place.ok_or_else(|| TargetError::Failed(format!("there is no object {object}")))?;
        self.0.store.read(at, length).await.map(drop).map_err(failed)
    }

    /// Makes an object's metadata durable, together with those that come until the log is free.
    async fn commit(&self) -> Result<(), TargetError> {
        let inner = &self.0;
        inner.waiting.set(inner.waiting.get() + 1);
        let batch = inner.batch.get();
        if !inner.busy.replace(true) {
            let all = inner.clone();
            inner.rt.spawn_detached(async move { all.write_batches().await });
        }
        loop {
            let done = inner.done.notified();
            if let Some(error) = inner.failed.borrow().clone() {
                return Err(error);
            }
            if inner.committed.get() >= batch {
                return Ok(());
            }
            done.await;
        }
    }
}

impl Inner {
    fn pieces(&self, length: u64) -> Vec<Bytes> {
        (0..length).step_by(PIECE as usize).map(|at| self.zeros.slice(..PIECE.min(length - at) as usize)).collect()
    }

    /// Waits while data are being written, for a short time at most.
    async fn gather(&self) {
        let mut over = pin!(self.rt.sleep(GATHERING));
        while self.gathers && self.writing.get() > 0 {
            let written = pin!(self.written.notified());
            if let Either::Right(_) = select(written, &mut over).await {
                break;
            }
        }
    }

    async fn write_batches(&self) {
        while self.waiting.get() > 0 {
            self.gather().await;
            let (objects, batch) = (self.waiting.replace(0), self.batch.get());
            self.batch.set(batch + 1);
            if let Err(error) = self.write_batch(objects).await {
                self.failed.borrow_mut().get_or_insert(error);
            }
            self.committed.set(batch);
            self.done.notify_waiters();
        }
        self.busy.set(false);
    }

    async fn write_batch(&self, objects: u64) -> Result<(), TargetError> {
        self.store.flush().await.map_err(failed)?;
        let length = (objects * METADATA).next_multiple_of(BLOCK);
        let at = if self.log.get() + length > LOGS { 0 } else { self.log.get() };
        self.log.set(at + length);
        self.store.write(at, self.pieces(length), Durability::Cached).await.map_err(failed)?;
        self.store.flush().await.map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::try_join_all;
    use shingle_drive_model::Profile;
    use shingle_sim::Sim;

    use super::*;
    use crate::rig::blocks::DriveBlocks;
    use crate::rig::host::Host;

    #[test]
    fn objects_that_come_together_share_their_flushes() {
        let seconds = |at_once: u64| {
            Sim::new(1).run(move |rt| async move {
                let drive = DriveBlocks::of_profile(&rt, &Profile::named("st4000nc001").unwrap(), Host::linux_4_18());
                let drive = Rc::new(drive.unwrap());
                assert!(drive.set_write_cache(true));
                let objects = RawObjects::new(&rt, drive, true);
                for round in 0..64 / at_once {
                    let writes = (0..at_once).map(|object| objects.write(round * at_once + object, 64 << 10));
                    try_join_all(writes).await.unwrap();
                }
                let took = rt.now().nanos as f64 / 1e9;
                objects.read(63).await.unwrap();
                assert!(objects.read(64).await.is_err());
                rt.sleep(Duration::from_secs(1)).await;
                took
            })
        };
        let (alone, together) = (seconds(1), seconds(64));
        assert!(alone > 8.0 * together, "{alone} s and {together} s");
    }
}
