//! A store in memory, with a volatile cache, failures, and gates that hold requests.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use futures_util::FutureExt;
use shingle_store_api::{
    BlockStore, Durability, LocalStoreFuture, MappedRun, StoreError, StoreErrorKind, StoreResult, accessed,
};
use tokio::sync::watch;

/// The hold of a test on its store, from any thread.
#[derive(Debug)]
pub(crate) struct Control {
    /// Requests that touch these bytes wait.
    pub(crate) gate: watch::Sender<Range<u64>>,
    /// Requests fail.
    pub(crate) failure: Mutex<Option<StoreErrorKind>>,
    /// Requests that wait at the gate, or did.
    pub(crate) held: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) trims: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) zeros: AtomicU64,
}

impl Default for Control {
    fn default() -> Self {
        Self {
            gate: watch::Sender::new(0..0),
            failure: Mutex::default(),
            held: AtomicU64::default(),
            flushes: AtomicU64::default(),
            trims: AtomicU64::default(),
            writes: AtomicU64::default(),
            zeros: AtomicU64::default(),
        }
    }
}

/// Sectors by number.
type Image = BTreeMap<u64, Vec<u8>>;

pub(crate) struct MemoryStore {
    size: u64,
    sector: u64,
    live: RefCell<Image>,
    durable: RefCell<Image>,
    /// Sectors that may differ in the two.
    changed: RefCell<BTreeSet<u64>>,
    control: std::sync::Arc<Control>,
}

impl MemoryStore {
    pub(crate) fn new(size: u64, sector: u64, control: std::sync::Arc<Control>) -> Self {
        let (live, durable, changed) = Default::default();
        Self { size, sector, live, durable, changed, control }
    }

    /// Loses the volatile cache.
    pub(crate) fn cut_power(&self) {
        self.live.replace(self.durable.borrow().clone());
    }

    async fn admit(&self, offset: u64, length: u64) -> StoreResult<Range<u64>> {
        let range = accessed(self, offset, length)?;
        let mut gate = self.control.gate.subscribe();
        let shut = |gate: &Range<u64>| gate.start < range.end && range.start < gate.end;
        if shut(&gate.borrow()) {
            self.control.held.fetch_add(1, Relaxed);
            let _ = gate.wait_for(|gate| !shut(gate)).await;
        }
        match *self.control.failure.lock().unwrap() {
            Some(kind) => Err(StoreError::new(kind, "told to fail")),
            None => Ok(offset / self.sector..(offset + length) / self.sector),
        }
    }

    /// Sectors get bytes, or are unmapped.
    fn put(&self, sectors: Range<u64>, bytes: Option<&[u8]>, durability: Durability) {
        if durability == Durability::Cached {
            self.changed.borrow_mut().extend(sectors.clone());
        }
        let images = [Some(&self.live), Some(&self.durable).filter(|_| durability == Durability::Durable)];
        for image in images.into_iter().flatten() {
            for (number, sector) in sectors.clone().enumerate() {
                let from = number * self.sector as usize;
                match bytes {
                    Some(bytes) => image.borrow_mut().insert(sector, bytes[from..][..self.sector as usize].to_vec()),
                    None => image.borrow_mut().remove(&sector),
                };
            }
        }
    }
}

impl BlockStore for MemoryStore {
    fn size_bytes(&self) -> u64 {
        self.size
    }

    fn sector_bytes(&self) -> u64 {
        self.sector
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        async move {
            let sectors = self.admit(offset, length).await?;
            let live = self.live.borrow();
            let zeros = vec![0; self.sector as usize];
            let bytes: Vec<&[u8]> = sectors.map(|sector| live.get(&sector).unwrap_or(&zeros).as_slice()).collect();
            Ok(bytes.concat().into())
        }
        .boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()> {
        async move {
            let bytes = data.concat();
            let sectors = self.admit(offset, bytes.len() as u64).await?;
            self.control.writes.fetch_add(1, Relaxed);
            self.put(sectors, Some(&bytes), durability);
            Ok(())
        }
        .boxed_local()
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        async move {
            let changed = self.changed.take();
            self.admit(0, self.sector).await?;
            self.control.flushes.fetch_add(1, Relaxed);
            let (live, mut durable) = (self.live.borrow(), self.durable.borrow_mut());
            for sector in changed {
                match live.get(&sector) {
                    Some(bytes) => durable.insert(sector, bytes.clone()),
                    None => durable.remove(&sector),
                };
            }
            Ok(())
        }
        .boxed_local()
    }

    fn trim(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, ()> {
        async move {
            let sectors = self.admit(offset, length).await?;
            self.control.trims.fetch_add(1, Relaxed);
            self.put(sectors, None, Durability::Cached);
            Ok(())
        }
        .boxed_local()
    }

    fn write_zeros(&self, offset: u64, length: u64, durability: Durability) -> LocalStoreFuture<'_, ()> {
        async move {
            let sectors = self.admit(offset, length).await?;
            self.control.zeros.fetch_add(1, Relaxed);
            self.put(sectors, None, durability);
            Ok(())
        }
        .boxed_local()
    }

    fn mapped(&self, offset: u64, length: u64, runs_max: usize) -> LocalStoreFuture<'_, Vec<MappedRun>> {
        async move {
            let sectors = self.admit(offset, length).await?;
            let live = self.live.borrow();
            let mut runs: Vec<MappedRun> = Vec::new();
            for sector in sectors {
                let mapped = live.contains_key(&sector);
                let full = runs.len() == runs_max;
                match runs.last_mut() {
                    Some(run) if run.mapped == mapped => run.length += self.sector,
                    _ if full => break,
                    _ => runs.push(MappedRun { offset: sector * self.sector, length: self.sector, mapped }),
                }
            }
            Ok(runs)
        }
        .boxed_local()
    }
}
