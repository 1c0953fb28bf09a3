//! The short way in: what a caller does on its own thread, where the engine and the index's thread need not be asked.
//!
//! **Owns** nothing: it looks at rows in memory and at files' pins, which the engine keeps up to date. It answers only what it is
//! sure of, and leaves all else, errors among it, to the engine.
//!
//! # Invariants
//! - OS-DIRECT-1: an answer is one that the engine could give at some moment of the call: a row in memory is never older than a change
//!   that was acknowledged before (OS-ROW-1), and the file is pinned, or the row does not count (OS-PIN-1).
//!   `an_open_that_meets_an_overwrite_reads_one_version_or_the_other`.
//! - OS-DIRECT-2: a put begins here only with segments that the chunks of each drive take; until each has shown its chunks, the
//!   engine is asked. `a_put_begins_without_the_owner_only_where_it_may`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use shingle_buckets::Buckets;
use shingle_chunk_store::{ChunkClient, ChunkId};
use shingle_store_api::ObjectInfo;
use tokio::sync::mpsc;

use crate::files::pins::{Pin, Pinnables, Release};
use crate::format::BlobRef;
use crate::index::RecentRows;
use crate::keys;
use crate::records::{Item, ObjectRecord};

/// An object opened for reading.
pub(crate) struct Opened {
    pub(crate) info: ObjectInfo,
    pub(crate) source: Source,
}

/// Place of a reader's bytes.
pub(crate) enum Source {
    /// In one place, which is pinned.
    Whole { client: ChunkClient, chunk: ChunkId, offset: u64, _pin: Pin },
    /// In segments: the blobs are pinned.
    Blobs(Arc<[BlobRef]>),
}

/// Inputs of a writer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    /// Names the segments, should there be any.
    pub(crate) blob: u64,
    /// Bytes in a segment.
    pub(crate) segment_bytes: u32,
}

/// State shared by callers and the engine.
pub(crate) struct Direct {
    pub(crate) rows: Arc<RecentRows>,
    pub(crate) files: Arc<Pinnables>,
    /// The drives, as files name them.
    pub(crate) drives: Vec<ChunkClient>,
    /// The store set, as chunk ids name it.
    pub(crate) set: u32,
    pub(crate) buckets: Buckets,
    /// The next version, file, blob or upload.
    pub(crate) sequence: AtomicU64,
    /// Bytes in a segment; 0 until each drive has shown what its chunks take.
    pub(crate) segment_bytes: AtomicU32,
    /// The engine works no more: it has the error.
    pub(crate) failed: AtomicBool,
    /// Objects opened here.
    pub(crate) opens: AtomicU64,
    /// Bytes that readers have read.
    pub(crate) read_bytes: AtomicU64,
}

impl Direct {
    /// A number no version, file, blob or upload has had.
    pub(crate) fn next_number(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::AcqRel)
    }

    /// Inputs of a writer, if the engine works and knows how long segments are. (OS-DIRECT-2)
    pub(crate) fn begin(&self) -> Option<Begun> {
        let segment_bytes = self.segment_bytes.load(Ordering::Acquire);
        let sure = segment_bytes > 0 && !self.failed.load(Ordering::Acquire);
        sure.then(|| Begun { blob: self.next_number(), segment_bytes })
    }

    /// An object's row, if it is in memory; none of a large object, whose manifest is not.
    fn find(&self, bucket: &str, key: &str) -> Option<(Item, ObjectRecord)> {
        if self.failed.load(Ordering::Acquire) {
            return None;
        }
        let row = self.rows.row(&keys::object(bucket, key))?;
        let item = Item::decode(&row).ok()?;
        let record = ObjectRecord::decode(&item.payload).ok()?;
        (!record.large).then_some((item, record))
    }

    /// An object without its bytes.
    pub(crate) fn head(&self, bucket: &str, key: &str) -> Option<ObjectInfo> {
        let (item, record) = self.find(bucket, key)?;
        Some(record.attributes.info(key, item.version, record.size, Vec::new()))
    }

    /// Opens an object that lies in one place.
    pub(crate) fn open(&self, bucket: &str, key: &str, releases: &mpsc::UnboundedSender<Release>) -> Option<Opened> {
        let (item, record) = self.find(bucket, key)?;
        let location = item.location;
        let pin = self.files.pin(location.file, releases)?;
        let client = self.drives.get(pin.file.drive?)?.clone();
        let chunk = pin.file.chunk(location.ordinal, self.set);
        let source = Source::Whole { client, chunk, offset: location.offset + u64::from(location.head), _pin: pin };
        self.opens.fetch_add(1, Ordering::Relaxed);
        Some(Opened { info: record.attributes.info(key, item.version, record.size, Vec::new()), source })
    }
}
