//! Calls to a store that its shadow watches.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use shingle_store_api::{BlockStore, Durability, StoreError};

use super::shadow::BlockShadow;

/// A call that did not go well.
#[derive(Debug)]
pub enum Failed {
    /// The store refused it, or could not do it. The caller knows if it had a reason.
    Refused(StoreError),
    /// The store broke its contract.
    Broken(String),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "a call failed: {:?}: {error}", error.kind),
            Self::Broken(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Failed {}

impl BlockShadow {
    fn place(&self, sectors: &Range<u64>) -> (u64, u64) {
        let sector = self.sector_bytes();
        (sectors.start * sector, (sectors.end - sectors.start) * sector)
    }

    /// Writes the sectors.
    ///
    /// # Errors
    /// The store's.
    pub async fn write(
        &self,
        store: &dyn BlockStore,
        sectors: Range<u64>,
        durability: Durability,
    ) -> Result<(), Failed> {
        self.write_pieces(store, sectors, durability, |data| vec![data]).await
    }

    /// Writes the sectors, with the data in pieces as `cut` makes them.
    ///
    /// # Errors
    /// The store's.
    pub async fn write_pieces(
        &self,
        store: &dyn BlockStore,
        sectors: Range<u64>,
        durability: Durability,
        cut: impl FnOnce(Bytes) -> Vec<Bytes>,
    ) -> Result<(), Failed> {
        let (offset, _) = self.place(&sectors);
        let call = self.begin_write(sectors, durability);
        store.write(offset, cut(call.data()), durability).await?;
        call.completed();
        Ok(())
    }

    /// Has the sectors read as zeros.
    ///
    /// # Errors
    /// The store's.
    pub async fn write_zeros(
        &self,
        store: &dyn BlockStore,
        sectors: Range<u64>,
        durability: Durability,
    ) -> Result<(), Failed> {
        let (offset, length) = self.place(&sectors);
        let call = self.begin_zeros(sectors, durability);
        store.write_zeros(offset, length, durability).await?;
        call.completed();
        Ok(())
    }

    /// Trims the sectors.
    ///
    /// # Errors
    /// The store's.
    pub async fn trim(&self, store: &dyn BlockStore, sectors: Range<u64>) -> Result<(), Failed> {
        let (offset, length) = self.place(&sectors);
        let call = self.begin_trim(sectors);
        store.trim(offset, length).await?;
        call.completed();
        Ok(())
    }

    /// Flushes.
    ///
    /// # Errors
    /// The store's.
    pub async fn flush(&self, store: &dyn BlockStore) -> Result<(), Failed> {
        let call = self.begin_flush();
        store.flush().await?;
        call.completed();
        Ok(())
    }

    /// Reads the sectors and holds them against what they may have.
    ///
    /// # Errors
    /// The store's, or a broken promise.
    pub async fn read(&self, store: &dyn BlockStore, sectors: Range<u64>) -> Result<(), Failed> {
        let (offset, length) = self.place(&sectors);
        let call = self.begin_read(sectors);
        let bytes = store.read(offset, length).await?;
        call.completed(&bytes).map_err(Failed::Broken)
    }

    /// Asks for the mapped ones among the sectors, and holds the answer against what they may have.
    ///
    /// # Errors
    /// The store's, or a broken promise.
    pub async fn mapped(&self, store: &dyn BlockStore, sectors: Range<u64>, runs_max: usize) -> Result<(), Failed> {
        let (offset, length) = self.place(&sectors);
        let call = self.begin_read(sectors);
        let runs = store.mapped(offset, length, runs_max).await?;
        call.mapped(&runs, runs_max).map_err(Failed::Broken)
    }
}
