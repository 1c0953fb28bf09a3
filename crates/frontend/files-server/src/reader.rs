//! A file that is being read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use bytes::Bytes;
use shingle_zone_files::FilesError;

use crate::cache::{BLOCK, Key};
use crate::client::Client;
use crate::wire::{About, Answer, Call, DATA_BYTES_MAX, Reply, out_of_place};

/// First and largest bytes that are read ahead of one who reads in order.
const AHEAD_MIN: u64 = 64 << 10;
const AHEAD_MAX: u64 = 1 << 20;

/// A file that is being read. All its bytes were verified.
pub struct Reader {
    client: Client,
    handle: u64,
    about: About,
    /// End of the last read.
    last: AtomicU64,
    /// Bytes to read ahead.
    ahead: AtomicU64,
}

/// A read under way.
pub struct Pending {
    client: Client,
    answer: Receiver<Answer>,
    /// Bytes before those that were asked for, and how many were.
    within: usize,
    length: usize,
    /// The table, and its first block, that the cache is to have.
    blocks: Option<Key>,
}

impl Pending {
    /// Waits for the bytes: fewer than asked for at the end of the file.
    ///
    /// # Errors
    /// `Corrupt`, `Device`, `Unavailable`.
    pub fn wait(self) -> Result<Bytes, FilesError> {
        let bytes = data(self.client.wait(&self.answer))?;
        if let Some(first) = self.blocks {
            remember(&self.client, first, &bytes);
        }
        let from = self.within.min(bytes.len());
        Ok(bytes.slice(from..bytes.len().min(from + self.length)))
    }
}

/// Puts blocks of a table into the cache, from `first` on.
fn remember(client: &Client, (serial, first): Key, bytes: &Bytes) {
    for (number, block) in bytes.chunks(BLOCK as usize).enumerate() {
        // A copy: a slice would keep all that was read in memory as long as one block of it is used.
        client.cache().read((serial, first + number as u64), Bytes::copy_from_slice(block));
    }
}

fn data(answer: Answer) -> Result<Bytes, FilesError> {
    match answer? {
        Reply::Data(bytes) => Ok(bytes),
        _ => Err(out_of_place()),
    }
}

impl Reader {
    pub(crate) fn new(client: &Client, handle: u64, about: About) -> Self {
        Self { client: client.clone(), handle, about, last: AtomicU64::new(u64::MAX), ahead: AtomicU64::new(0) }
    }

    /// The file, as it was when it was opened.
    pub fn about(&self) -> About {
        self.about
    }

    /// Reads into `into` from byte `offset` on. Returns how many bytes there were: fewer at the end of the file.
    ///
    /// # Errors
    /// `Corrupt` if bytes are damaged or lost, `Device`, `Unavailable`.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize, FilesError> {
        if self.caches() {
            return self.cached(offset, into);
        }
        let held = if self.about.table { self.held(offset, into) } else { 0 };
        self.direct(offset + held as u64, &mut into[held..]).map(|read| held + read)
    }

    /// Begins to read; the bytes are there when [`Pending::wait`] returns. At most 4 MiB.
    pub fn begin(&self, offset: u64, length: u64) -> Pending {
        let length = length.min(DATA_BYTES_MAX as u64);
        let (first, end) = (offset / BLOCK, offset.saturating_add(length).div_ceil(BLOCK));
        let whole = (end - first) * BLOCK;
        if !self.caches() || whole > DATA_BYTES_MAX as u64 {
            return self.ask(offset, length, length);
        }
        let within = (offset % BLOCK) as usize;
        Pending { within, blocks: Some((self.about.serial, first)), ..self.ask(first * BLOCK, whole, length) }
    }

    /// Begins to read `whole` bytes, of which `length` are wanted.
    fn ask(&self, offset: u64, whole: u64, length: u64) -> Pending {
        let call = Call::Read { handle: self.handle, offset, length: whole };
        let answer = self.client.begin(call, Bytes::new());
        Pending { client: self.client.clone(), answer, within: 0, length: length as usize, blocks: None }
    }

    /// Blocks that it reads are kept.
    fn caches(&self) -> bool {
        self.about.table && self.client.cache().holds_reads()
    }

    /// Bytes from memory alone, if all of them are there.
    pub fn remembered(&self, offset: u64, into: &mut [u8]) -> bool {
        self.about.table && self.held(offset, into) == into.len()
    }

    /// Copies the first bytes that the cache has, and returns how many.
    fn held(&self, offset: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len()
            && let Some(copied) = self.copy_cached(offset + done as u64, &mut into[done..])
        {
            done += copied;
        }
        done
    }

    fn direct(&self, offset: u64, into: &mut [u8]) -> Result<usize, FilesError> {
        let mut done = 0;
        while done < into.len() {
            let bytes = self.begin(offset + done as u64, (into.len() - done) as u64).wait()?;
            let length = bytes.len().min(into.len() - done);
            into[done..done + length].copy_from_slice(&bytes[..length]);
            done += length;
            if length == 0 {
                break;
            }
        }
        Ok(done)
    }

    /// Copies from the block at `at` what the cache has of it. `None` if it lacks the byte at `at`.
    fn copy_cached(&self, at: u64, into: &mut [u8]) -> Option<usize> {
        let (block, within) = (at / BLOCK, (at % BLOCK) as usize);
        let found = self.client.cache().get((self.about.serial, block))?;
        let here = found.get(within..).filter(|here| !here.is_empty())?;
        let length = here.len().min(into.len());
        into[..length].copy_from_slice(&here[..length]);
        Some(length)
    }

    fn cached(&self, offset: u64, into: &mut [u8]) -> Result<usize, FilesError> {
        let ahead = self.read_ahead(offset, into.len() as u64);
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            if let Some(copied) = self.copy_cached(at, &mut into[done..]) {
                done += copied;
                continue;
            }
            let first = at / BLOCK;
            let end = (offset + into.len() as u64 + ahead).div_ceil(BLOCK).max(first + 1);
            let length = ((end - first) * BLOCK).min(DATA_BYTES_MAX as u64);
            // These are whole blocks, which the cache gets.
            let bytes = self.begin(first * BLOCK, length).wait()?;
            let within = ((at - first * BLOCK) as usize).min(bytes.len());
            let here = &bytes[within..];
            let length = here.len().min(into.len() - done);
            into[done..done + length].copy_from_slice(&here[..length]);
            done += length;
            if length == 0 {
                break;
            }
        }
        Ok(done)
    }

    /// Bytes to read behind those that are asked for: more, the longer one reads in order.
    fn read_ahead(&self, offset: u64, length: u64) -> u64 {
        let last = self.last.swap(offset + length, Ordering::Relaxed);
        let ahead = self.ahead.load(Ordering::Relaxed);
        let next = if offset == last { (ahead * 2).clamp(AHEAD_MIN, AHEAD_MAX) } else { 0 };
        self.ahead.store(next, Ordering::Relaxed);
        next
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.client.tell(Call::Close { handle: self.handle });
    }
}
