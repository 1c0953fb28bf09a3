//! Traces of virtual disks by VMware's vscsiStats, as CloudPhysics published them (Waldspurger et al., FAST 2015): binary records
//! without a head, little-endian. The version is the upper byte of the field `version`.
//!
//! | version 1 | bytes | version 2 | bytes |
//! |---|---:|---|---:|
//! | serial number | 4 | SCSI command | 2 |
//! | length in bytes | 4 | version | 2 |
//! | scatter-gather entries | 4 | serial number | 4 |
//! | SCSI command | 2 | length in bytes | 4 |
//! | version | 2 | scatter-gather entries | 4 |
//! | address in blocks of 512 bytes | 8 | address in blocks of 512 bytes | 8 |
//! | arrival in microseconds | 8 | arrival in microseconds | 8 |
//! | | | response time in microseconds | 8 |

use std::io::{BufRead, Read};

use super::reader::{Raw, Reader, Volumes};
use crate::error::LabError;
use crate::trace::io::{Io, IoKind, SECTOR};

/// Bytes of a record of the longer version.
const RECORD_MAX: usize = 40;

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn length(self) -> usize {
        match self {
            Self::One => 32,
            Self::Two => RECORD_MAX,
        }
    }
}

/// A trace of vscsiStats.
pub(super) struct Vscsi {
    bytes: Box<dyn BufRead>,
    version: Option<Version>,
    number: u64,
    volumes: Volumes,
    left_out: u64,
}

fn number<const N: usize>(record: &[u8], at: usize) -> u64 {
    let bytes = record.get(at..at + N).unwrap_or_default();
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

impl Vscsi {
    pub(super) fn new(bytes: Box<dyn BufRead>) -> Self {
        Self { bytes, version: None, number: 0, volumes: Volumes::default(), left_out: 0 }
    }

    fn wrong(&self, why: &str) -> LabError {
        LabError(format!("record {}: {why}", self.number))
    }

    /// The next record; `None` behind the last one.
    fn record(&mut self) -> Result<Option<(Version, [u8; RECORD_MAX])>, LabError> {
        self.number += 1;
        let mut record = [0; RECORD_MAX];
        let mut have = 0;
        // The shorter version's length tells which one it is.
        let mut want = self.version.map_or(Version::One.length(), Version::length);
        while have < want {
            let read = self.bytes.read(&mut record[have..want]).map_err(|error| self.wrong(&error.to_string()))?;
            if read == 0 && have == 0 {
                return Ok(None);
            }
            if read == 0 {
                return Err(self.wrong("the trace ends amid it"));
            }
            have += read;
            if have == want && self.version.is_none() {
                self.version = match (number::<2>(&record, 14) >> 8, number::<2>(&record, 2) >> 8) {
                    (1, _) => Some(Version::One),
                    (_, 2) => Some(Version::Two),
                    _ => return Err(self.wrong("it is of neither version of vscsi")),
                };
                want = self.version.map_or(want, Version::length);
            }
        }
        Ok(self.version.map(|version| (version, record)))
    }
}

/// Kind of a SCSI command, and if it is durable when it completes; `None` for those that move no data.
fn kind(command: u64) -> Option<(IoKind, bool)> {
    match command {
        0x08 | 0x28 | 0x88 | 0xa8 => Some((IoKind::Read, false)),
        0x0a | 0x2a | 0x8a | 0xaa => Some((IoKind::Write, false)),
        // Write and verify.
        0x2e | 0x8e | 0xae => Some((IoKind::Write, true)),
        0x35 | 0x91 => Some((IoKind::Flush, false)),
        _ => None,
    }
}

impl Reader for Vscsi {
    fn next_raw(&mut self) -> Result<Option<Raw>, LabError> {
        loop {
            let Some((version, record)) = self.record()? else { return Ok(None) };
            let (command, tag, length) = match version {
                Version::One => (number::<2>(&record, 12), number::<2>(&record, 14), number::<4>(&record, 4)),
                Version::Two => (number::<2>(&record, 0), number::<2>(&record, 2), number::<4>(&record, 8)),
            };
            let expected = if version == Version::One { 1 } else { 2 };
            if tag >> 8 != expected {
                return Err(self.wrong(&format!("its version is {} and not {expected}", tag >> 8)));
            }
            let micros = |value: u64| value.checked_mul(1000);
            let took = (version == Version::Two).then(|| micros(number::<8>(&record, 32))).flatten();
            let at = micros(number::<8>(&record, 24)).ok_or_else(|| self.wrong("its time is out of all bounds"))?;
            let Some((kind, fua)) = kind(command) else {
                self.left_out += 1;
                continue;
            };
            let io = match kind {
                IoKind::Flush => Io::flush(at),
                _ => {
                    let offset = number::<8>(&record, 16).checked_mul(SECTOR);
                    let offset = offset.ok_or_else(|| self.wrong("its address is out of all bounds"))?;
                    Io { fua, ..Io::new(at, kind, offset, length) }
                }
            };
            return Ok(Some(Raw { volume: self.volumes.number("disk")?, io: Io { took, ..io } }));
        }
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

    fn one(command: u16, length: u32, block: u64, micros: u64) -> Vec<u8> {
        let mut record = [7u32, length, 1].map(u32::to_le_bytes).concat();
        record.extend([command, 0x0100].map(u16::to_le_bytes).concat());
        record.extend([block, micros].map(u64::to_le_bytes).concat());
        record
    }

    fn two(command: u16, length: u32, block: u64, micros: u64, took: u64) -> Vec<u8> {
        let mut record = [command, 0x0200].map(u16::to_le_bytes).concat();
        record.extend([7, length, 1].map(u32::to_le_bytes).concat());
        record.extend([block, micros, took].map(u64::to_le_bytes).concat());
        record
    }

    #[test]
    fn records_of_both_versions_become_ios() {
        let bytes = [one(0x2a, 4096, 8, 1_000_000), one(0x12, 0, 0, 1_000_001), one(0x88, 512, 1, 1_000_005)].concat();
        let (ios, _) = read_all(Format::Vscsi, &bytes).unwrap();
        let found: Vec<_> = ios.iter().map(|raw| (raw.io.at, raw.io.kind, raw.io.offset, raw.io.length)).collect();
        let expected = [(1_000_000_000, IoKind::Write, 4096, 4096), (1_000_005_000, IoKind::Read, 512, 512)];
        assert_eq!(found, expected, "an inquiry is none");
        let bytes = [two(0x2e, 4096, 8, 5, 250), two(0x35, 0, 0, 6, 9), two(0x28, 512, 0, 7, 0)].concat();
        let (ios, _) = read_all(Format::Vscsi, &bytes).unwrap();
        assert_eq!((ios[0].io.fua, ios[0].io.took, ios[1].io.kind, ios.len()), (true, Some(250_000), IoKind::Flush, 3));
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_number() {
        let cut = |mut bytes: Vec<u8>| {
            bytes.pop();
            bytes
        };
        for (second, expected) in [
            (cut(one(0x2a, 512, 0, 0)), "record 2: the trace ends"),
            (two(0x2a, 512, 0, 0, 0), "record 2: its version is"),
            (one(0x2a, 512, u64::MAX, 0), "record 2: its address"),
            (one(0x2a, 512, 0, u64::MAX), "record 2: its time"),
        ] {
            let error = read_all(Format::Vscsi, &[one(0x2a, 512, 0, 0), second].concat()).unwrap_err().0;
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(read_all(Format::Vscsi, &[0; 64]).unwrap_err().0.contains("neither version"));
    }
}
