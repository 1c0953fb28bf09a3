//! A snapshot as a disk that can be read.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::ready;
use shingle_store_api::{
    BlockStore, Durability, LocalStoreFuture, MappedRun, StoreError, StoreErrorKind, StoreResult, accessed,
};

use crate::engine::Engine;
use crate::map::Extent;
use crate::place::Place;

/// A snapshot as a disk that can be read. Once the snapshot is removed, or the volume closes, reads fail.
#[derive(Clone)]
pub struct SnapshotView {
    engine: Rc<Engine>,
    number: u64,
    sectors: u64,
}

impl SnapshotView {
    pub(crate) fn new(engine: &Rc<Engine>, name: &str) -> StoreResult<Self> {
        let state = engine.state.borrow();
        let snapshot = state.snapshot(name).ok_or_else(|| {
            StoreError::new(StoreErrorKind::Invalid, format!("the volume has no snapshot named {name}"))
        })?;
        Ok(Self { engine: engine.clone(), number: snapshot.number, sectors: snapshot.sectors })
    }

    /// Up to `most` extents, from sector `from` on, of those that neither the volume nor a younger snapshot has; and where the next ones begin;
    /// `None` at the end.
    pub fn kept(&self, from: u64, most: usize) -> (Vec<Extent>, Option<u64>) {
        let (state, mut extents) = (self.engine.state.borrow(), Vec::new());
        let map = state.maps.map(Some(self.number));
        let next = map.and_then(|map| map.some(from, most, |extent| extents.push(extent)));
        extents.retain(|extent| extent.place != Place::HOLE);
        (extents, next)
    }

    fn sectors(&self, offset: u64, length: u64) -> StoreResult<(u64, u64)> {
        let bytes = accessed(self, offset, length)?;
        let shift = self.engine.drive.layout.shape.sector_shift;
        Ok((bytes.start >> shift, (bytes.end - bytes.start) >> shift))
    }
}

fn refused() -> LocalStoreFuture<'static, ()> {
    ready(Err(StoreError::new(StoreErrorKind::Invalid, "a snapshot can only be read"))).boxed_local()
}

impl BlockStore for SnapshotView {
    fn size_bytes(&self) -> u64 {
        self.engine.drive.layout.shape.bytes(self.sectors)
    }

    fn sector_bytes(&self) -> u64 {
        self.engine.drive.layout.shape.bytes(1)
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        let sectors = self.sectors(offset, length);
        async move {
            let (lba, sectors) = sectors?;
            self.engine.read(Some(self.number), lba, sectors).await
        }
        .boxed_local()
    }

    fn read_pieces(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Vec<Bytes>> {
        let sectors = self.sectors(offset, length);
        async move {
            let (lba, sectors) = sectors?;
            self.engine.read_pieces(Some(self.number), lba, sectors).await
        }
        .boxed_local()
    }

    fn write(&self, _: u64, _: Vec<Bytes>, _: Durability) -> LocalStoreFuture<'_, ()> {
        refused()
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        ready(Ok(())).boxed_local()
    }

    fn trim(&self, _: u64, _: u64) -> LocalStoreFuture<'_, ()> {
        refused()
    }

    fn write_zeros(&self, _: u64, _: u64, _: Durability) -> LocalStoreFuture<'_, ()> {
        refused()
    }

    fn mapped(&self, offset: u64, length: u64, runs_max: usize) -> LocalStoreFuture<'_, Vec<MappedRun>> {
        let sectors = self.sectors(offset, length);
        let runs = sectors.and_then(|(lba, sectors)| self.engine.mapped(Some(self.number), lba, sectors, runs_max));
        ready(runs).boxed_local()
    }
}
