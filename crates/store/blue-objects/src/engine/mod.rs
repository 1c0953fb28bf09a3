//! The owner's state, shared by the tasks of its thread, and what all calls need.
//!
//! No borrow of a cell is held across an `await`: clippy's `await_holding_refcell_ref` holds that.
//!
//! # Invariants
//! - BO-NUM-1: no number is given out twice, whatever becomes of what it was for: it has the number of the opening, which is durable
//!   before the first of them, in its upper bits. `fresh`
//! - BO-END-1: once the store below has stopped, the owner ends, so that it is opened anew. `a_store_that_stopped_ends_its_owner`

mod catalog;
mod change;
mod counting;
mod doomed;
mod layouts;
mod listing;
mod objects;
mod pins;
mod purge;
mod reading;
pub(crate) mod run;
pub(crate) mod streams;
mod tally;
mod uploads;
mod writers;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use bytes::Bytes;
use shingle_blue_store::{Access, BlueError, BlueErrorKind, Hints, ObjectId, Store, Transaction};
use shingle_buckets::Names;
use shingle_runtime::Runtime;
use shingle_runtime::owner::Closing;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult, StoreUsage};

use self::doomed::Purge;
use self::layouts::Layouts;
use self::pins::Pins;
use self::tally::Tally;
use self::writers::Writers;
use crate::errors::{from_blue, malformed};
use crate::format::Record;
use crate::ids::{self, Use};
use crate::options::{BlueFigures, Options};

/// Bits of a number that one opening gives out.
const SERIAL_BITS: u32 = 40;

/// State shared by an owner's tasks.
pub(crate) struct Core {
    pub(crate) rt: Runtime,
    store: Store,
    options: Options,
    piece_bytes: u64,
    names: Names,
    /// Numbers of buckets, by name.
    numbers: RefCell<BTreeMap<String, u64>>,
    writers: Writers,
    pins: Pins,
    layouts: Layouts,
    purge: Purge,
    tally: Tally,
    /// Number of this opening; zero if it is for reading alone.
    opening: u64,
    next: Cell<u64>,
    pub(crate) closing: Closing,
}

impl Core {
    /// A number that nothing has, nor ever had. (BO-NUM-1)
    fn fresh(&self) -> StoreResult<u64> {
        let serial = self.next.replace(self.next.get() + 1);
        if self.opening == 0 || serial >> SERIAL_BITS != 0 || self.opening >> (u64::BITS - SERIAL_BITS) != 0 {
            let words = "the store was opened for reading alone, or has no numbers left: open it anew";
            return Err(StoreError::new(StoreErrorKind::Unavailable, words));
        }
        Ok(self.opening << SERIAL_BITS | serial)
    }

    /// A failure of the store below. (BO-END-1)
    fn failed(&self, error: BlueError) -> StoreError {
        if error.kind == BlueErrorKind::Unavailable && !self.closing.get() {
            tracing::error!(%error, "the store below has stopped");
            self.closing.begin();
        }
        from_blue(error)
    }

    fn bucket_number(&self, bucket: &str) -> StoreResult<u64> {
        self.numbers.borrow().get(bucket).copied().ok_or_else(|| StoreError::no_bucket(bucket))
    }

    /// Values of an index of a bucket from `from` on. An index that is not there was deleted meanwhile: the opening has seen it.
    async fn index_page(
        &self,
        bucket: &str,
        index: &ObjectId,
        from: &[u8],
        limit: usize,
    ) -> StoreResult<Vec<(Vec<u8>, Bytes)>> {
        let page = self.store.omap_list(index, from, limit).await;
        page.map_err(|error| match error.kind {
            BlueErrorKind::NotFound => StoreError::no_bucket(bucket),
            _ => self.failed(error),
        })
    }

    /// A value of an index of a bucket.
    async fn index_value(&self, bucket: &str, index: &ObjectId, name: &[u8]) -> StoreResult<Option<Bytes>> {
        let value = self.store.omap_get(index, name).await;
        value.map_err(|error| match error.kind {
            BlueErrorKind::NotFound => StoreError::no_bucket(bucket),
            _ => self.failed(error),
        })
    }

    /// The present version of an object.
    async fn find(&self, bucket: &str, key: &str) -> StoreResult<Option<Record>> {
        let index = ids::names(self.bucket_number(bucket)?);
        let Some(value) = self.index_value(bucket, &index, key.as_bytes()).await? else { return Ok(None) };
        Record::decode_object(&value).map(Some).map_err(|error| malformed(key.as_bytes(), error))
    }

    /// Adds bytes of a blob to a transaction, from `offset` of the blob on.
    fn write_bytes(&self, to: &mut Transaction, blob: u64, mut offset: u64, mut data: Bytes, access: Access) {
        // Of how long an object lives S3 says nothing: its storage class has chosen the store. (Note 0108.)
        let hints = Hints { access, compression: self.options.compression, ..Hints::default() };
        while !data.is_empty() {
            let from = offset % self.piece_bytes;
            let length = (self.piece_bytes - from).min(data.len() as u64);
            let id = ids::piece(blob, (offset / self.piece_bytes) as u32);
            if from == 0 {
                to.set_hints(&id, hints);
            }
            to.write(&id, from, data.split_to(length as usize));
            offset += length;
        }
    }

    /// Pieces of a blob. They are written in order and removed together, so only a repair leaves one behind one that is not there.
    async fn pieces(&self, blob: u64) -> StoreResult<Vec<ObjectId>> {
        let (mut pieces, mut index) = (Vec::new(), 0);
        loop {
            let id = ids::piece(blob, index);
            match self.store.stat(&id).await {
                Ok(_) => pieces.push(id),
                Err(error) if error.kind == BlueErrorKind::NotFound => {
                    // A repair may have taken some away that lay before others.
                    let next =
                        self.store.list(ids::COLLECTION.id, Some(&id), 1).await.map_err(|error| self.failed(error))?;
                    match next.first().and_then(ids::use_of) {
                        Some(Use::Piece(of, at)) if of == blob && at > index => index = at - 1,
                        _ => break,
                    }
                }
                Err(error) => return Err(self.failed(error)),
            }
            index += 1;
        }
        Ok(pieces)
    }

    /// Fill level of the store.
    fn room(&self) -> StoreUsage {
        let stats = self.store.stats();
        let reserved = stats.reserved_bytes;
        let (objects, _) = self.tally.get();
        StoreUsage {
            capacity_bytes: stats.capacity_bytes.saturating_sub(reserved),
            available_bytes: stats.capacity_bytes.saturating_sub(stats.live_bytes + reserved),
            live_bytes: stats.live_bytes,
            objects,
        }
    }

    pub(crate) fn figures(&self) -> BlueFigures {
        let (objects, object_bytes) = self.tally.get();
        BlueFigures { store: self.store.stats(), objects, object_bytes, purging: self.purge.waiting() }
    }
}

/// The name of an object in the order in which objects are counted.
fn counted_name(bucket: &str, key: &str) -> Vec<u8> {
    [bucket.as_bytes(), b"\0", key.as_bytes()].concat()
}
