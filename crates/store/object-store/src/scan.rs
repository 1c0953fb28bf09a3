//! Reading a chunk's entries one after the other, also past bytes that cannot be read.

use bytes::Bytes;
use shingle_chunk_store::{ChunkClient, ErrorKind, Result as ChunkResult};

use crate::format::{Body, ChunkName, EntryPlace, HEADER_SIZE, Header, MAGIC};
use crate::records::Location;
use crate::wire::Malformed;

/// The first read after a jump.
const WINDOW_MIN: u64 = 16 << 10;
/// Reads grow to this while entries follow each other closely.
const WINDOW_MAX: u64 = 1 << 20;
/// Unreadable places are stepped over in this size: less than a slice of the chunk store, whose borders are not known
/// here.
const STEP: u64 = 512;

/// An entry found in a chunk.
#[derive(Clone, Debug)]
pub(crate) struct Scanned {
    pub(crate) version: u64,
    pub(crate) body: Body,
    pub(crate) location: Location,
}

/// Next entry of a chunk, or its end.
#[derive(Debug)]
pub(crate) enum Next {
    Entry(Scanned),
    /// Bytes between two entries, or after the last, that are no entry or cannot be read.
    Damage {
        from: u64,
        to: u64,
        why: String,
        /// The drive did not give all of them: another time it may.
        again: bool,
    },
    End,
}

/// A pass over a chunk's entries.
pub(crate) struct Scanner {
    client: ChunkClient,
    name: ChunkName,
    size: u64,
    offset: u64,
    window: Bytes,
    window_at: u64,
    window_bytes: u64,
    /// A read failed that may succeed another time, since the last entry.
    again: bool,
    /// Bytes read so far.
    pub(crate) read: u64,
}

impl Scanner {
    /// A pass over `size` bytes of a chunk, from `offset`, which is a border between entries.
    pub(crate) fn new(client: ChunkClient, name: ChunkName, offset: u64, size: u64) -> Self {
        let window_bytes = WINDOW_MIN;
        Self { client, name, size, offset, window: Bytes::new(), window_at: 0, window_bytes, again: false, read: 0 }
    }

    /// The next entry. A drive that no longer answers is an error; single unreadable places are not.
    pub(crate) async fn next(&mut self) -> ChunkResult<Next> {
        if self.offset >= self.size {
            return Ok(Next::End);
        }
        let from = self.offset;
        self.again = false;
        let why = match self.entry_at(from).await? {
            Ok(scanned) => {
                self.offset = scanned.location.end();
                return Ok(Next::Entry(scanned));
            }
            Err(why) => why,
        };
        self.offset = self.resync(from + 1).await?;
        Ok(Next::Damage { from, to: self.offset, why, again: self.again })
    }

    /// The bytes of an entry's data.
    pub(crate) async fn data(&mut self, location: &Location) -> ChunkResult<Bytes> {
        let at = location.offset + u64::from(location.head);
        if location.data == 0 {
            return Ok(Bytes::new());
        }
        if let Some(data) = self.windowed(at, u64::from(location.data)) {
            return Ok(data);
        }
        self.read += u64::from(location.data);
        self.client.read(self.name.id(), at, u64::from(location.data)).await
    }

    /// The bytes of an entry's data, if they have been read already.
    pub(crate) fn buffered(&self, location: &Location) -> Option<Bytes> {
        self.windowed(location.offset + u64::from(location.head), u64::from(location.data))
    }

    async fn entry_at(&mut self, offset: u64) -> ChunkResult<Result<Scanned, String>> {
        let place = EntryPlace { set: self.name.set, file: self.name.file, ordinal: self.name.ordinal, offset };
        let front = match self.bytes(offset, HEADER_SIZE as u64).await? {
            Ok(front) => front,
            Err(why) => return Ok(Err(why)),
        };
        let header = match Header::decode(&front, place) {
            Ok(header) if offset + header.length() <= self.size => header,
            Ok(_) => return Ok(Err(Malformed("entry: longer than its chunk").to_string())),
            Err(why) => return Ok(Err(why.to_string())),
        };
        let head = match self.bytes(offset + HEADER_SIZE as u64, u64::from(header.head)).await? {
            Ok(head) => head,
            Err(why) => return Ok(Err(why)),
        };
        Ok(header.decode_head(&head).map_err(|why| why.to_string()).map(|body| Scanned {
            version: header.version,
            body,
            location: Location {
                file: self.name.file,
                ordinal: self.name.ordinal,
                offset,
                head: HEADER_SIZE as u32 + header.head,
                data: header.data,
            },
        }))
    }

    /// The first place at or after `from` that looks like an entry's; else the end.
    async fn resync(&mut self, from: u64) -> ChunkResult<u64> {
        let mut at = from;
        while at + HEADER_SIZE as u64 <= self.size {
            let step = STEP - at % STEP;
            let length = (step + HEADER_SIZE as u64 - 1).min(self.size - at);
            let bytes = match self.bytes(at, length).await? {
                Ok(bytes) => bytes,
                // The next slice may be fine even though this one, or the one after, is not.
                Err(_) => match self.bytes(at, step.min(self.size - at)).await? {
                    Ok(bytes) => bytes,
                    Err(_) => {
                        at += step;
                        continue;
                    }
                },
            };
            for (skip, window) in bytes.windows(MAGIC.len()).enumerate().take(step as usize) {
                let offset = at + skip as u64;
                let place = EntryPlace { set: self.name.set, file: self.name.file, ordinal: self.name.ordinal, offset };
                if window == MAGIC && bytes.get(skip..).is_some_and(|rest| Header::decode(rest, place).is_ok()) {
                    return Ok(offset);
                }
            }
            at += step;
        }
        Ok(self.size)
    }

    fn windowed(&self, at: u64, length: u64) -> Option<Bytes> {
        let start = at.checked_sub(self.window_at)?;
        let end = start.checked_add(length)?;
        (end <= self.window.len() as u64).then(|| self.window.slice(start as usize..end as usize))
    }

    /// `length` bytes at `offset`, from the window where they are in it; or why that place cannot be read.
    async fn bytes(&mut self, offset: u64, length: u64) -> ChunkResult<Result<Bytes, String>> {
        if offset.saturating_add(length) > self.size {
            return Ok(Err("the chunk ends inside an entry".to_owned()));
        }
        if let Some(bytes) = self.windowed(offset, length) {
            return Ok(Ok(bytes));
        }
        let follows = offset <= self.window_at + self.window.len() as u64 && !self.window.is_empty();
        self.window_bytes = if follows { (self.window_bytes * 2).min(WINDOW_MAX) } else { WINDOW_MIN };
        let wide = self.window_bytes.max(length).min(self.size - offset);
        for want in [wide, length] {
            match self.client.read(self.name.id(), offset, want).await {
                Ok(bytes) => {
                    self.read += want;
                    self.window = bytes;
                    self.window_at = offset;
                    return Ok(Ok(self.window.slice(..length as usize)));
                }
                Err(error) if error.kind == ErrorKind::Stopped => return Err(error),
                // A wide read may fail for what lies beyond; only what is needed counts.
                Err(error) if want == length => {
                    self.again |= error.kind != ErrorKind::Corrupt;
                    return Ok(Err(error.to_string()));
                }
                Err(_) => {}
            }
        }
        Ok(Err("unreadable".to_owned()))
    }
}
