//! Rows of the index about itself: its owner, and its counters.

use bytes::BufMut;

use crate::index::{Index, IndexError, IndexErrorKind, IndexResult, Space};
use crate::keys;
use crate::wire::{Input, Malformed};

/// Counters the index keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Live objects.
    pub(crate) objects: u64,
    /// Their bytes.
    pub(crate) object_bytes: u64,
    /// Above all versions, files, blobs and uploads so far.
    pub(crate) sequence: u64,
}

impl Totals {
    pub(super) fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        out.put_u64_le(self.objects);
        out.put_u64_le(self.object_bytes);
        out.put_u64_le(self.sequence);
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let totals =
            Self { objects: input.u64("totals")?, object_bytes: input.u64("totals")?, sequence: input.u64("totals")? };
        input.end("totals")?;
        Ok(totals)
    }
}

/// Owner of this index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The store set, as chunk ids name it.
    pub(crate) set: u32,
    /// The drives' stores.
    pub(crate) stores: Vec<u64>,
    /// Each loose blob has a row of its own (OS-INX-7). Earlier builds kept none.
    pub(crate) lists_loose: bool,
}

impl Owner {
    /// Version of everything in the index. Another one is rebuilt.
    const FORMAT: u32 = 2;
    /// The version without rows of loose blobs, which an opening makes.
    const WITHOUT_LOOSE: u32 = 1;

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u32_le(if self.lists_loose { Self::FORMAT } else { Self::WITHOUT_LOOSE });
        out.put_u32_le(self.set);
        self.stores.iter().for_each(|store| out.put_u64_le(*store));
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let lists_loose = match input.u32("index format")? {
            Self::FORMAT => true,
            Self::WITHOUT_LOOSE => false,
            _ => return Err(Malformed("index: a format version this program does not know")),
        };
        let set = input.u32("store set")?;
        let (stores, []) = input.rest().as_chunks::<8>() else { return Err(Malformed("stores")) };
        Ok(Self { set, stores: stores.iter().map(|store| u64::from_le_bytes(*store)).collect(), lists_loose })
    }

    /// Owner of `index`; `None` if it is empty.
    ///
    /// # Errors
    /// If the index cannot be read, or is of another format version.
    pub(crate) fn of(index: &dyn Index) -> IndexResult<Option<Self>> {
        let found = index.get(Space::About, keys::ABOUT_OWNER)?;
        found.map(|bytes| Self::decode(&bytes).map_err(spoilt)).transpose()
    }
}

/// An index whose records are not what they should be.
pub(crate) fn spoilt(malformed: Malformed) -> IndexError {
    IndexError::caused("a record of the index is damaged; rebuild the index", malformed)
        .of_kind(IndexErrorKind::Damaged)
}
