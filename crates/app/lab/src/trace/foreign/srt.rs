//! Traces of Hewlett-Packard Laboratories (Ruemmler and Wilkes, USENIX 1993) in their SRT format, as its reader in the DiskSim
//! simulator has it: a text about system and disks, which a form feed (0x0c) ends; then records of 32-bit big-endian words:
//!
//! | word | meaning |
//! |---:|---|
//! | 0 | bytes of the record |
//! | 1 | version of the record (upper half, 1 to 4), and kind (lower half): 1 for an I/O, 4 for an I/O in doubt |
//! | 2, 3 | arrival: seconds and microseconds since the trace began |
//! | 4, 5 | start and end of the I/O at the disk, in microseconds from its arrival |
//! | 6 | bytes |
//! | 7 | first sector on the disk |
//! | 8 | device: the disk's number in bits 8 to 15 |
//! | 9, 10 | kind of driver; cylinder |
//! | 11 | flags: bit 0 for a read |
//! | 12 | origin of the I/O |
//! | 13 | length of the queue, in version 4 |
//!
//! Sectors are as long as the head's `sectorsize`. I/Os in doubt and records of other kinds are left out.

use std::io::{BufRead, Read};

use super::reader::{Raw, Reader, Volumes};
use crate::error::LabError;
use crate::trace::io::{Io, IoKind};

/// Beginning of a trace.
pub(super) const MAGIC: &[u8] = b"$$TR_IOREC";

/// Bytes of the head, at most.
const HEAD_MAX: u64 = 1 << 20;

/// End of the head.
const FORM_FEED: u8 = 0x0c;

/// Words of an I/O that are looked at.
const WORDS: usize = 13;

/// Bytes of a record, at most.
const RECORD_MAX: usize = 4096;

/// Kind of records that are I/Os.
const SHORT_IO: u32 = 1;

/// A trace of Hewlett-Packard Laboratories.
pub(super) struct Srt {
    bytes: Box<dyn BufRead>,
    /// Bytes of a sector, once the head is read.
    sector: Option<u64>,
    record: Vec<u8>,
    number: u64,
    volumes: Volumes,
    left_out: u64,
}

impl Srt {
    pub(super) fn new(bytes: Box<dyn BufRead>) -> Self {
        Self { bytes, sector: None, record: Vec::new(), number: 0, volumes: Volumes::default(), left_out: 0 }
    }

    fn wrong(&self, why: &str) -> LabError {
        LabError(format!("record {}: {why}", self.number))
    }

    /// Reads the head, and returns the bytes of a sector.
    fn head(&mut self) -> Result<u64, LabError> {
        let wrong = |why: String| LabError(format!("the head: {why}"));
        let mut head = Vec::new();
        let read = self.bytes.by_ref().take(HEAD_MAX).read_until(FORM_FEED, &mut head);
        read.map_err(|error| wrong(error.to_string()))?;
        if !head.starts_with(MAGIC) || head.last() != Some(&FORM_FEED) {
            return Err(wrong("it must begin with `$$TR_IOREC` and end with a form feed".to_owned()));
        }
        let head = String::from_utf8_lossy(&head);
        let sizes = head.lines().filter_map(|line| {
            let (name, value) = line.split_once('=')?;
            (name.trim() == "sectorsize").then(|| value.trim().trim_end_matches([',', ';']).parse::<u64>())
        });
        let mut size = None;
        for found in sizes {
            match found {
                Ok(found @ 128..=8192) if size.is_none_or(|size| size == found) => size = Some(found),
                _ => return Err(wrong("every `sectorsize` must be the same number, from 128 to 8192".to_owned())),
            }
        }
        size.ok_or_else(|| wrong("it names no `sectorsize`".to_owned()))
    }

    /// Reads the next record; `false` behind the last one.
    fn next_record(&mut self) -> Result<bool, LabError> {
        self.number += 1;
        let ended = self.bytes.fill_buf().map(<[u8]>::is_empty);
        if ended.map_err(|error| self.wrong(&error.to_string()))? {
            return Ok(false);
        }
        let mut length = [0; 4];
        self.bytes.read_exact(&mut length).map_err(|_| self.wrong("the trace ends amid it"))?;
        let bytes = u32::from_be_bytes(length) as usize;
        if !(16..=RECORD_MAX).contains(&bytes) || !bytes.is_multiple_of(4) {
            return Err(self.wrong(&format!("it claims a length of {bytes} bytes")));
        }
        self.record.clear();
        self.record.extend(length);
        self.record.resize(bytes, 0);
        let read = self.bytes.read_exact(&mut self.record[4..]);
        read.map_err(|_| self.wrong("the trace ends amid it"))?;
        Ok(true)
    }

    fn words(&self) -> [u32; WORDS] {
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(self.record.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        words
    }
}

impl Reader for Srt {
    fn next_raw(&mut self) -> Result<Option<Raw>, LabError> {
        let sector = match self.sector {
            Some(sector) => sector,
            None => self.head()?,
        };
        self.sector = Some(sector);
        while self.next_record()? {
            let [_, kind, seconds, micros, start, stop, length, first, device, _, _, flags, _] = self.words();
            let version = kind >> 16;
            if !(1..=4).contains(&version) {
                return Err(self.wrong(&format!("it claims to be of version {version}: there are 1 to 4")));
            }
            if kind & 0xffff != SHORT_IO {
                self.left_out += 1;
                continue;
            }
            if self.record.len() < WORDS * 4 || micros >= 1_000_000 || stop < start {
                return Err(self.wrong("it is no I/O: its length or its times are wrong"));
            }
            let at = u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1000;
            let kind = if flags & 1 == 1 { IoKind::Read } else { IoKind::Write };
            let io = Io::new(at, kind, u64::from(first) * sector, u64::from(length));
            let volume = self.volumes.number(&(device >> 8 & 0xff).to_string())?;
            return Ok(Some(Raw { volume, io: Io { took: Some(u64::from(stop) * 1000), ..io } }));
        }
        Ok(None)
    }

    fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::foreign::format::{Format, read_all};
    use crate::trace::io::IoKind;

    const HEAD: &str = "$$TR_IOREC-1.3 (x)\n\0\nversion = 1.3;\ndisks = {\n0 -> {\n\t\tsectorsize  = 256,\n},\n1 -> {\n\tsectorsize = 256;\n}\n};\n\x0c";

    fn record(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn io(version: u32, kind: u32, micros: u32, flags: u32) -> Vec<u8> {
        let words = [56, version << 16 | kind, 2, micros, 100, 20_000, 4096, 24, 0x0800_0107, 4, 1, flags, 9, 1];
        record(&words)
    }

    #[test]
    fn records_become_ios_of_their_disks() {
        let bytes = [HEAD.as_bytes(), &io(4, 1, 5, 0x1b), &io(4, 4, 6, 0), &io(4, 1, 7, 0x1a)].concat();
        let (ios, volumes) = read_all(Format::Srt, &bytes).unwrap();
        assert_eq!(volumes, ["1"]);
        let found: Vec<_> =
            ios.iter().map(|raw| (raw.io.at, raw.io.kind, raw.io.offset, raw.io.length, raw.io.took)).collect();
        let (offset, took) = (24 * 256, Some(20_000_000));
        let expected =
            [(2_000_005_000, IoKind::Read, offset, 4096, took), (2_000_007_000, IoKind::Write, offset, 4096, took)];
        assert_eq!(found, expected, "one in doubt is left out");
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_place() {
        let with = |record: Vec<u8>| [HEAD.as_bytes(), &io(4, 1, 5, 1), &record].concat();
        for (bytes, expected) in [
            (b"nothing".to_vec(), "the head: it must begin"),
            (HEAD.trim_end_matches('\x0c').as_bytes().to_vec(), "the head: it must begin"),
            (HEAD.replacen("= 256", "= 512", 1).into_bytes(), "the head: every `sectorsize`"),
            (HEAD.replace("sectorsize", "colour").into_bytes(), "the head: it names no"),
            (with(io(5, 1, 0, 0)), "record 2: it claims to be of version 5"),
            (with(io(4, 1, 1_000_000, 0)), "record 2: it is no I/O"),
            (with(record(&[16, 1 << 16 | 1, 0, 0])), "record 2: it is no I/O"),
            (with(record(&[u32::MAX])), "record 2: it claims a length"),
            (with(vec![0]), "record 2: the trace ends"),
            (with(record(&[56, 1])), "record 2: the trace ends"),
        ] {
            let error = read_all(Format::Srt, &bytes).unwrap_err().0;
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
