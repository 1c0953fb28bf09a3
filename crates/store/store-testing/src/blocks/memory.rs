//! Blocks in memory: the block contract with the least code. Nothing survives it, and no call of it waits.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::ready;
use shingle_store_api::{BlockStore, Durability, LocalStoreFuture, MappedRun, StoreResult, accessed};

/// A store of blocks in memory.
pub struct MemoryBlocks {
    size_bytes: u64,
    sector_bytes: u64,
    /// Those that are mapped, by number.
    sectors: RefCell<BTreeMap<u64, Bytes>>,
}

impl MemoryBlocks {
    /// A store of so many bytes, of which none was ever written.
    pub fn new(size_bytes: u64, sector_bytes: u64) -> Self {
        Self { size_bytes, sector_bytes, sectors: RefCell::default() }
    }

    fn sectors(&self, offset: u64, length: u64) -> StoreResult<Range<u64>> {
        let bytes = accessed(self, offset, length)?;
        Ok(bytes.start / self.sector_bytes..bytes.end / self.sector_bytes)
    }

    fn unmap(&self, offset: u64, length: u64) -> StoreResult<()> {
        let (gone, mut sectors) = (self.sectors(offset, length)?, self.sectors.borrow_mut());
        sectors.retain(|sector, _| !gone.contains(sector));
        Ok(())
    }

    fn runs(&self, offset: u64, length: u64, runs_max: usize) -> StoreResult<Vec<MappedRun>> {
        let (range, sectors) = (self.sectors(offset, length)?, self.sectors.borrow());
        let mut runs: Vec<MappedRun> = Vec::new();
        for sector in range {
            let mapped = sectors.contains_key(&sector);
            let (offset, length) = (sector * self.sector_bytes, self.sector_bytes);
            if let Some(last) = runs.last_mut().filter(|last| last.mapped == mapped) {
                last.length += length;
            } else if runs.len() < runs_max {
                runs.push(MappedRun { offset, length, mapped });
            } else {
                break;
            }
        }
        Ok(runs)
    }
}

impl BlockStore for MemoryBlocks {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn sector_bytes(&self) -> u64 {
        self.sector_bytes
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        let bytes = self.sectors(offset, length).map(|range| {
            let (sectors, zeros) = (self.sectors.borrow(), Bytes::from(vec![0; self.sector_bytes as usize]));
            let of = |sector: u64| sectors.get(&sector).unwrap_or(&zeros).clone();
            range.map(of).collect::<Vec<_>>().concat().into()
        });
        ready(bytes).boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, _durability: Durability) -> LocalStoreFuture<'_, ()> {
        let data = Bytes::from(data.concat());
        let written = self.sectors(offset, data.len() as u64).map(|range| {
            let size = self.sector_bytes as usize;
            let pieces = range.zip((0..data.len()).step_by(size).map(|at| data.slice(at..at + size)));
            self.sectors.borrow_mut().extend(pieces);
        });
        ready(written).boxed_local()
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        ready(Ok(())).boxed_local()
    }

    fn trim(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, ()> {
        ready(self.unmap(offset, length)).boxed_local()
    }

    fn write_zeros(&self, offset: u64, length: u64, _durability: Durability) -> LocalStoreFuture<'_, ()> {
        ready(self.unmap(offset, length)).boxed_local()
    }

    fn mapped(&self, offset: u64, length: u64, runs_max: usize) -> LocalStoreFuture<'_, Vec<MappedRun>> {
        ready(self.runs(offset, length, runs_max)).boxed_local()
    }
}
