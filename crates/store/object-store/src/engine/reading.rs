//! Reading objects: a reader holds what it reads from, whatever happens to the object meanwhile.
//!
//! # Invariants
//! - OS-RD-2: a row that names what is not there is read again, since that has moved. If it names the same again the index is damaged, and the
//!   caller gets an error. `a_row_that_names_what_is_not_there_is_an_error`.
//! - OS-RD-1: no call of the store's waits for a drive's read: a drive that hangs holds up its own readers alone.

use std::sync::Arc;

use bytes::Bytes;
use shingle_chunk_store::{ChunkClient, ChunkId};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

use crate::client::direct::{Opened, Source};
use crate::engine::Core;
use crate::engine::objects::sizes_of;
use crate::errors::{for_client, from_record, unavailable};
use crate::files::pins::{Pin, Release};
use crate::format::BlobRef;
use crate::index::{Index, Space};
use crate::keys;
use crate::records::Location;
use tokio::sync::mpsc;

/// Takes word of places that are not held any more.
pub(crate) type Releases = mpsc::UnboundedSender<Release>;

/// The row that named what is not there. (OS-RD-2)
#[derive(Debug, Default)]
pub(super) struct Missed(Option<(u64, Location)>);

impl Missed {
    /// Takes note of a row, by its version and place, that named what was gone when the row was read.
    ///
    /// # Errors
    /// `Corrupt` if it is the same as before.
    pub(super) fn note(&mut self, version: u64, place: Location) -> StoreResult<()> {
        if self.0.replace((version, place)) == Some((version, place)) {
            let message =
                "the index names bytes that are not there: it is damaged, and can be made anew from the drives";
            return Err(StoreError::new(StoreErrorKind::Corrupt, message));
        }
        Ok(())
    }
}

impl Core {
    /// Opens the present version, and pins what it lies in.
    pub(crate) async fn open_object(&self, bucket: &str, key: &str, releases: &Releases) -> StoreResult<Opened> {
        let mut missed = Missed::default();
        loop {
            self.working()?;
            self.require_bucket(bucket)?;
            let (item, record) = self.find(bucket, key).await?.ok_or_else(|| StoreError::no_key(bucket, key))?;
            if !record.large {
                let found = self.pin(item.location.file, item.location.ordinal, releases)?;
                let Some((client, chunk, pin)) = found else {
                    if self.direct.files.find(item.location.file).is_none() {
                        missed.note(item.version, item.location)?;
                    }
                    // As in `locate`; a row in memory is found without a wait, so that others get their turn only here.
                    self.runtime.yield_now().await;
                    continue;
                };
                let offset = item.location.offset + u64::from(item.location.head);
                let source = Source::Whole { client, chunk, offset, _pin: pin };
                let info = record.attributes.info(key, item.version, record.size, Vec::new());
                self.stats.borrow_mut().opens += 1;
                return Ok(Opened { info, source });
            }
            let Some(manifest) = self.manifest(item.version).await? else {
                missed.note(item.version, item.location)?;
                continue;
            };
            let blobs: Arc<[BlobRef]> = manifest.blobs.iter().copied().collect();
            self.pin_blobs(&blobs);
            // Pinned too late if the version was replaced meanwhile and its segments are being forgotten.
            let present = self.find(bucket, key).await;
            if !present.as_ref().is_ok_and(|found| found.as_ref().is_some_and(|(now, _)| now.version == item.version)) {
                self.release(Release::Blobs(blobs.iter().map(|blob| blob.blob).collect()));
                present?;
                continue;
            }
            let info = record.attributes.info(key, item.version, record.size, sizes_of(&manifest));
            self.stats.borrow_mut().opens += 1;
            return Ok(Opened { info, source: Source::Blobs(blobs) });
        }
    }

    fn pin_blobs(&self, blobs: &[BlobRef]) {
        let mut pins = self.blob_pins.borrow_mut();
        for blob in blobs {
            *pins.entry(blob.blob).or_default() += 1;
        }
    }

    /// Pins a file and says how to read its chunk; none if the file has just gone, and what was in it has moved.
    ///
    /// # Errors
    /// `Unavailable` if its drive is missing.
    fn pin(&self, number: u64, ordinal: u32, releases: &Releases) -> StoreResult<Option<(ChunkClient, ChunkId, Pin)>> {
        let Some(pin) = self.direct.files.pin(number, releases) else { return Ok(None) };
        let Some(drive) = pin.file.drive else {
            let store = self.files.borrow().get(number).map_or(0, |file| file.record.store);
            // Clients hear it, whom paths of the server do not concern.
            return Err(unavailable(format!("the drive with store {store:016x}, which the object is on, is missing")));
        };
        let chunk = pin.file.chunk(ordinal, self.set);
        Ok(Some((self.drives.borrow()[drive].client.clone(), chunk, pin)))
    }

    /// Finds where segments of a large object lie, wherever GC has taken them, and keeps them there: the first one, and of those behind it
    /// as many as are found at once.
    ///
    /// The drive is not asked: whoever reads waits for it alone, and holds no place of the store's (OS-RD-1).
    pub(crate) async fn locate(&self, want: Vec<SegmentRange>, releases: Releases) -> StoreResult<Vec<Located>> {
        let mut missed = Missed::default();
        loop {
            self.working()?;
            let keys: Vec<_> = want.iter().map(|want| keys::segment(want.blob, want.index)).collect();
            let get = move |view: &dyn Index| keys.iter().map(|key| view.get(Space::Segments, key)).collect();
            let rows: Vec<Option<Bytes>> = self.read(get).await?;
            let first = rows.first().and_then(|row| Location::decode(row.as_ref()?).ok());
            let mut located = Vec::new();
            for (want, row) in want.iter().zip(rows) {
                match self.take_place(want, row, &releases) {
                    Ok(Some(segment)) => located.push(segment),
                    Err(error) if located.is_empty() => return Err(error),
                    // The next reader that comes to it asks again.
                    Ok(None) | Err(_) => break,
                }
            }
            if !located.is_empty() || want.is_empty() {
                return Ok(located);
            }
            if let Some(place) = first.filter(|place| self.direct.files.find(place.file).is_none()) {
                missed.note(0, place)?;
            }
            // The entry that pointed there has moved, or will have as soon as GC's changes are in the index.
            self.runtime.yield_now().await;
        }
    }

    /// Pins the place that a segment's row names; none if the file has just gone.
    fn take_place(&self, want: &SegmentRange, row: Option<Bytes>, releases: &Releases) -> StoreResult<Option<Located>> {
        let SegmentRange { blob, index, offset, length } = *want;
        let Some(row) = row else {
            let message = format!("segment {index} of one of its parts is lost");
            return Err(StoreError::new(StoreErrorKind::Corrupt, message));
        };
        let location = Location::decode(&row).map_err(from_record)?;
        if offset + length > u64::from(location.data) {
            let message = format!("segment {index} of one of its parts is shorter than it was");
            return Err(StoreError::new(StoreErrorKind::Corrupt, message));
        }
        let Some((client, chunk, pin)) = self.pin(location.file, location.ordinal, releases)? else { return Ok(None) };
        let (offset, length) = (location.offset + u64::from(location.head), u64::from(location.data));
        Ok(Some(Located { blob, index, client, chunk, offset, length, _pin: pin }))
    }
}

/// Bytes of a segment of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentRange {
    blob: u64,
    index: u32,
    offset: u64,
    length: u64,
}

impl SegmentRange {
    /// Bytes in it.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// True if both are of one segment.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        (self.blob, self.index) == (other.blob, other.index)
    }
}

/// Place of a segment of a blob, which stays there as long as this is kept.
pub(crate) struct Located {
    blob: u64,
    index: u32,
    client: ChunkClient,
    chunk: ChunkId,
    /// Of its first byte in the chunk.
    offset: u64,
    length: u64,
    _pin: Pin,
}

impl Located {
    /// True if the range's segment is this one.
    pub(crate) fn is_of(&self, range: &SegmentRange) -> bool {
        (self.blob, self.index) == (range.blob, range.index)
    }

    /// True if the range lies in this segment.
    pub(crate) fn holds(&self, range: &SegmentRange) -> bool {
        self.is_of(range) && range.offset + range.length <= self.length
    }

    /// Reads a range of it.
    pub(crate) async fn read(&self, range: &SegmentRange) -> StoreResult<Bytes> {
        self.client.read_here(self.chunk, self.offset + range.offset, range.length).await.map_err(for_client)
    }
}

/// The ranges of segments that hold `length` bytes from `offset` of a large object, in order.
pub(crate) fn ranges(blobs: &[BlobRef], mut offset: u64, mut left: u64) -> Vec<SegmentRange> {
    let mut ranges = Vec::new();
    for blob in blobs {
        if offset >= blob.size {
            offset -= blob.size;
            continue;
        }
        let segment_bytes = u64::from(blob.segment_bytes);
        while left > 0 && offset < blob.size {
            let index = offset / segment_bytes;
            let end = ((index + 1) * segment_bytes).min(blob.size);
            let length = left.min(end - offset);
            ranges.push(SegmentRange {
                blob: blob.blob,
                index: index as u32,
                offset: offset - index * segment_bytes,
                length,
            });
            offset += length;
            left -= length;
        }
        offset = 0;
    }
    ranges
}
