//! Halves of tails: memory with flushed bytes of a log, and its format.
//!
//! Each has a head (magic, length of the path, CRC-32C of all that follows in it, generation, path) and records (magic, length, offset in the
//! log, CRC-32C with the generation, bytes), all little-endian. A half is emptied by a new generation.

use std::fs;
use std::io::{self, Error, ErrorKind};
use std::path::PathBuf;

use shingle_base::crc32c;
use shingle_zoned_linux::MappedFile;

const HEAD_MAGIC: [u8; 4] = *b"ShT2";
const RECORD_MAGIC: [u8; 4] = *b"ShR1";
const HEAD: usize = 20;
const RECORD: usize = 20;
/// Bytes of a half.
pub(crate) const HALF_BYTES: usize = 2 << 20;
/// Most bytes of a half that are read back.
pub(crate) const HALF_BYTES_MAX: u64 = 2 * HALF_BYTES as u64;

/// Memory of a tail that is filled as a whole, and emptied as a whole.
pub(crate) struct Half {
    path: PathBuf,
    memory: MappedFile,
    log: String,
    generation: u64,
    /// Bytes in use.
    at: usize,
    /// End in the log of what it has.
    end: u64,
}

impl Half {
    pub(crate) fn new(path: PathBuf, log: &str) -> io::Result<Self> {
        let memory = MappedFile::create(&path, HALF_BYTES)?;
        let mut half = Self { path, memory, log: log.to_owned(), generation: 0, at: 0, end: 0 };
        half.empty();
        Ok(half)
    }

    fn head(&self) -> usize {
        HEAD + self.log.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at == self.head()
    }

    /// Records of earlier generations count no more.
    fn empty(&mut self) {
        self.generation += 1;
        let mut head = Vec::with_capacity(self.head());
        head.extend(HEAD_MAGIC);
        head.extend((self.log.len() as u32).to_le_bytes());
        let named = [&self.generation.to_le_bytes(), self.log.as_bytes()].concat();
        head.extend(crc32c(&named).to_le_bytes());
        head.extend(named);
        self.memory.write(0, &head);
        self.at = head.len();
    }

    /// Adds a record, if there is room for it.
    pub(crate) fn add(&mut self, offset: u64, bytes: &[u8]) -> bool {
        if self.at + RECORD + bytes.len() > self.memory.length() {
            return false;
        }
        let mut head = [0; RECORD];
        head[..4].copy_from_slice(&RECORD_MAGIC);
        head[4..8].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        head[8..16].copy_from_slice(&offset.to_le_bytes());
        head[16..].copy_from_slice(&check(self.generation, offset, bytes).to_le_bytes());
        self.memory.write(self.at, &head);
        self.memory.write(self.at + RECORD, bytes);
        self.at += RECORD + bytes.len();
        self.end = offset + bytes.len() as u64;
        true
    }

    /// Empties it, if all it has is written.
    pub(crate) fn written(&mut self, end: u64) {
        if !self.is_empty() && self.end <= end {
            self.empty();
        }
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        if self.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn check(generation: u64, offset: u64, bytes: &[u8]) -> u32 {
    let mut place = [0; 16];
    place[..8].copy_from_slice(&generation.to_le_bytes());
    place[8..].copy_from_slice(&offset.to_le_bytes());
    crc32c(bytes) ^ crc32c(&place)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

type Parsed = (String, Vec<(u64, Vec<u8>)>);

/// The path and the records of a half, up to the first that makes no sense. `None` if its head makes none: it was being emptied.
///
/// # Errors
/// It is of another version.
pub(crate) fn parse(bytes: &[u8]) -> io::Result<Option<Parsed>> {
    if bytes.starts_with(b"ShT") && !bytes.starts_with(&HEAD_MAGIC) && bytes.len() > HEAD {
        let text = "another version of Shingle left them: open the drive with that one first, or remove the directory if nobody needs these bytes";
        return Err(Error::new(ErrorKind::InvalidData, text));
    }
    Ok(parse_half(bytes))
}

fn parse_half(bytes: &[u8]) -> Option<Parsed> {
    let length = u32::from_le_bytes(number(bytes, 4)?) as usize;
    let start = HEAD.checked_add(length)?;
    let (named, path) = (bytes.get(12..start)?, bytes.get(HEAD..start)?);
    if number(bytes, 0)? != HEAD_MAGIC || u32::from_le_bytes(number(bytes, 8)?) != crc32c(named) {
        return None;
    }
    let generation = u64::from_le_bytes(number(bytes, 12)?);
    let path = std::str::from_utf8(path).ok()?.to_owned();
    let mut records = Vec::new();
    let mut rest = &bytes[start..];
    while let Some((offset, found)) = record(generation, rest) {
        records.push((offset, found.to_vec()));
        rest = &rest[RECORD + found.len()..];
    }
    Some((path, records))
}

fn record(generation: u64, bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = u32::from_le_bytes(number(bytes, 4)?) as usize;
    let offset = u64::from_le_bytes(number(bytes, 8)?);
    let found = bytes.get(RECORD..RECORD.checked_add(length)?)?;
    let sound =
        number(bytes, 0)? == RECORD_MAGIC && u32::from_le_bytes(number(bytes, 16)?) == check(generation, offset, found);
    (sound && offset.checked_add(length as u64).is_some()).then_some((offset, found))
}
