//! The contract of a block store: sectors that can be written in any order, as a disk has them.
//!
//! A store has one owner and lives on its thread, as its engine does; callers on other threads reach it through a client of
//! that owner.
//!
//! # Invariants
//! - API-BLK-1: an access that is not of whole sectors, of none, or not inside the store fails with `Invalid` and changes nothing.
//! - API-BLK-2: a write whose future completed is read back by every later read; a power cut it survives if it was
//!   [durable](Durability::Durable), or if a later [flush](BlockStore::flush) completed.

use std::ops::Range;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, ready};

use crate::error::{StoreError, StoreErrorKind, StoreResult};

/// The result of a call, some time later, on the same thread.
pub type LocalStoreFuture<'a, T> = LocalBoxFuture<'a, StoreResult<T>>;

/// Durability of a write when its future completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It may be in a volatile cache until the next flush.
    Cached,
    /// It survives a power cut (force unit access).
    Durable,
}

/// A store of sectors. Addresses and lengths are in bytes, in whole sectors.
///
/// Calls may complete in any order; those that overlap in time and place leave either's bytes. A call that has started belongs
/// to the store: dropping its future neither stops nor undoes it.
pub trait BlockStore {
    /// Bytes that can be addressed: a whole number of sectors.
    fn size_bytes(&self) -> u64;

    /// Bytes of a sector: 512 or 4,096.
    fn sector_bytes(&self) -> u64;

    /// Reads `length` bytes at `offset`. Sectors that were never written read as zeros.
    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes>;

    /// As [`read`](Self::read), as pieces that follow each other: a store whose bytes lie apart from each other need not copy them.
    fn read_pieces(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Vec<Bytes>> {
        async move { Ok(vec![self.read(offset, length).await?]) }.boxed_local()
    }

    /// Writes `data` at `offset`. The pieces together are one write, of whole sectors.
    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()>;

    /// Makes every write durable that had completed when this was called.
    fn flush(&self) -> LocalStoreFuture<'_, ()>;

    /// Says that the sectors' bytes are not needed any more. Until they are written again, each reads as before or as zeros.
    fn trim(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, ()>;

    /// Makes the sectors read as zeros. A store that can, writes nothing for it.
    fn write_zeros(&self, offset: u64, length: u64, durability: Durability) -> LocalStoreFuture<'_, ()> {
        match zeros(self, offset, length) {
            Ok(pieces) => self.write(offset, pieces, durability),
            Err(error) => ready(Err(error)).boxed_local(),
        }
    }

    /// The sectors of an access, as runs in order that are all mapped or all not: at most `runs_max`, so that the last ones may
    /// be left out. A store that cannot tell calls all of them mapped. One that would have to look at much may end after
    /// [`MAPPED_SECTORS_MIN`] sectors: callers ask on from there.
    fn mapped(&self, offset: u64, length: u64, _runs_max: usize) -> LocalStoreFuture<'_, Vec<MappedRun>> {
        ready(accessed(self, offset, length).map(|_| vec![MappedRun { offset, length, mapped: true }])).boxed_local()
    }
}

/// Sectors that [`BlockStore::mapped`] tells of at least, where it is asked for so many, and as many runs: a call takes a bounded time,
/// however long the access is and in however many pieces it lies.
pub const MAPPED_SECTORS_MIN: u64 = 1 << 12;

/// Bytes that follow each other, all of them mapped or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedRun {
    /// The first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// The store holds data for them. If not, they read as zeros.
    pub mapped: bool,
}

/// Bytes of zeros that are written at once where a store has nothing better.
const ZEROS: usize = 1 << 20;

/// They begin with a page, as devices want it of what they write.
#[repr(align(4096))]
struct Zeros([u8; ZEROS]);

/// Zeros as the pieces of one write: a caller that goes away leaves it whole.
fn zeros<S: BlockStore + ?Sized>(store: &S, offset: u64, length: u64) -> StoreResult<Vec<Bytes>> {
    static PIECE: Zeros = Zeros([0; ZEROS]);
    let Range { start, end } = accessed(store, offset, length)?;
    let pieces = (start..end).step_by(ZEROS);
    Ok(pieces.map(|at| Bytes::from_static(&PIECE.0[..(end - at).min(ZEROS as u64) as usize])).collect())
}

/// The bytes that an access touches, if it is of whole sectors inside the store. (API-BLK-1)
///
/// # Errors
/// `Invalid`, with the place and the rule.
pub fn accessed<S: BlockStore + ?Sized>(store: &S, offset: u64, length: u64) -> StoreResult<Range<u64>> {
    let (size, sector) = (store.size_bytes(), store.sector_bytes().max(1));
    let invalid = |rule: String| {
        Err(StoreError::new(StoreErrorKind::Invalid, format!("an access of {length} bytes at {offset}: {rule}")))
    };
    let Some(end) = offset.checked_add(length).filter(|&end| length > 0 && end <= size) else {
        return invalid(format!("it must be of one sector at least, and inside the store's {size} bytes"));
    };
    if !offset.is_multiple_of(sector) || !length.is_multiple_of(sector) {
        return invalid(format!("it must begin and end with a sector of {sector} bytes"));
    }
    Ok(offset..end)
}
