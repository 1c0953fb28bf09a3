//! Reading a file of the buffer, as far as it can be read.
//!
//! # Invariants
//! - AS-BUF-7: a block that cannot be read costs what it holds and nothing else, and is told from one that was never
//!   written: where the log seems to end in such a block, in each file that counts, a record of it is lost.

use std::io;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::file::BufferFile;
use super::ring::{BLOCK, Cursor, FileHead, Kind, RING, extent, parse};

/// Bytes that are asked for at once.
const PIECE: u64 = 1 << 20;

/// Reads of a block before it counts as unreadable.
const TRIES: usize = 3;

/// Limit of unreadable blocks after which no more are read one by one: the device takes seconds for each.
const UNREADABLE_MAX: usize = 1024;

/// Bytes of a file, with zeros for those that cannot be read.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) raw: Bytes,
    unreadable: Vec<Range<u64>>,
}

impl Contents {
    /// The next record would lie where nothing can be read.
    pub(super) fn hides(&self, head: &FileHead, end: &Cursor) -> bool {
        let places = [*end, end.at_the_start(head.ring)].map(|at| extent(head, &self.raw, &at));
        let mut pairs = places.iter().flat_map(|place| self.unreadable.iter().map(move |bad| (place, bad)));
        pairs.any(|(place, bad)| place.start.max(bad.start) < place.end.min(bad.end))
    }
}

/// Reads a file's heads, and the ring that they tell of.
///
/// # Errors
/// The file's, if neither head can be read.
pub(super) async fn contents(file: &dyn BufferFile) -> io::Result<Contents> {
    let mut reading = Reading { file, raw: BytesMut::new(), unreadable: Vec::new(), ended: false };
    let error = reading.read_to(RING).await;
    if reading.unreadable.len() == (RING / BLOCK) as usize
        && let Some(error) = error
    {
        return Err(error);
    }
    if let Kind::Buffer(head) = parse(&reading.raw) {
        reading.read_to(RING + head.ring).await;
    }
    let Reading { raw, unreadable, .. } = reading;
    if !unreadable.is_empty() {
        tracing::warn!(places = unreadable.len(), "a file of the buffer has places that cannot be read");
    }
    Ok(Contents { raw: raw.freeze(), unreadable })
}

/// A file that is being read from its front.
struct Reading<'f> {
    file: &'f dyn BufferFile,
    raw: BytesMut,
    unreadable: Vec<Range<u64>>,
    /// The file has no more bytes.
    ended: bool,
}

impl Reading<'_> {
    /// Reads on to `end`. The last error, if there was one.
    async fn read_to(&mut self, end: u64) -> Option<io::Error> {
        let mut last = None;
        while !self.ended && self.at() < end {
            let piece = PIECE.min(end - self.at());
            if self.take(piece).await.is_ok() {
                continue;
            }
            let behind = self.at() + piece;
            while !self.ended && self.at() < behind {
                last = self.read_block(BLOCK.min(behind - self.at())).await.err().or(last);
            }
        }
        last
    }

    fn at(&self) -> u64 {
        self.raw.len() as u64
    }

    async fn take(&mut self, length: u64) -> io::Result<()> {
        let bytes = self.file.read(self.at(), length as usize).await?;
        self.ended = (bytes.len() as u64) < length;
        self.raw.extend_from_slice(&bytes);
        Ok(())
    }

    /// Reads a block, or puts zeros in its place.
    async fn read_block(&mut self, length: u64) -> io::Result<()> {
        let tries = if self.unreadable.len() < UNREADABLE_MAX { TRIES } else { 0 };
        let mut failed = io::Error::other("too many blocks cannot be read");
        for _ in 0..tries {
            match self.take(length).await {
                Ok(()) => return Ok(()),
                Err(error) => failed = error,
            }
        }
        let start = self.at();
        self.unreadable.push(start..start + length);
        self.raw.resize((start + length) as usize, 0);
        Err(failed)
    }
}
