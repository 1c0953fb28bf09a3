//! The output of Linux's `blkparse` in its default form: for each event a line
//!
//! ```text
//!   8,0    1        3     0.000012345   697  D  WFS 223490 + 8 [jbd2/sda1-8]
//! ```
//!
//! of device, processor, number, time in seconds, process, event, kind of I/O, first sector of 512 bytes, `+`, sectors and process.
//!
//! An I/O is an event `D` (issued to the driver, after merging); its time is up to the event `C` (completed) of the same device, sector
//! and length. All other events are passed over. Kinds: an `F` first asks for a flush before, `R`, `W` and `D` (discard) are what they
//! are, and an `F` behind is a durable write (force unit access). The summary at the end is passed over.

use std::collections::VecDeque;
use std::io::BufRead;

use super::reader::{Raw, Reader, Volumes};
use crate::error::LabError;
use crate::trace::io::{Io, IoKind, SECTOR};
use crate::trace::lines::{Lines, seconds};

/// I/Os whose completion is waited for, at most: as many as any queue in the kernel holds.
const WAITING_MAX: usize = 4096;

/// The output of blkparse.
pub(super) struct Blkparse {
    lines: Lines,
    volumes: Volumes,
    /// Issued I/Os in order, those at the front not completed, each with the sectors by which its completion names it.
    waiting: VecDeque<(Raw, (u64, u64))>,
    issued: u64,
    ended: bool,
    left_out: u64,
}

/// An event of a line.
struct Event<'a> {
    device: &'a str,
    at: u64,
    action: &'a str,
    kind: &'a str,
    sectors: (u64, u64),
}

/// A line's event; `None` of a line that has none.
fn event(line: &str) -> Option<Event<'_>> {
    let mut words = line.split_ascii_whitespace();
    let mut next = || words.next();
    let device = next()?;
    let (major, minor) = device.split_once(',')?;
    if major.parse::<u32>().is_err() || minor.parse::<u32>().is_err() {
        return None;
    }
    let (_, _, at, _, action, kind) = (next()?, next()?, seconds(next()?)?, next()?, next()?, next()?);
    // A flush has neither sector nor length.
    let first = next().and_then(|word| word.parse().ok());
    let count = if next() == Some("+") { next().and_then(|word| word.parse().ok()) } else { None };
    Some(Event { device, at, action, kind, sectors: first.zip(count).unwrap_or_default() })
}

/// A flush before, and the kind of I/O, and if it is durable; `None` for what moves no data.
fn kinds(text: &str) -> (bool, Option<(IoKind, bool)>) {
    let (flush, rest) = text.strip_prefix('F').map_or((false, text), |rest| (true, rest));
    let kind = match rest.chars().next() {
        Some('R') => Some((IoKind::Read, false)),
        Some('W') => Some((IoKind::Write, rest[1..].contains('F'))),
        Some('D') => Some((IoKind::Trim, false)),
        _ => None,
    };
    (flush, kind)
}

impl Blkparse {
    pub(super) fn new(text: Box<dyn BufRead>) -> Self {
        let (lines, volumes) = (Lines::new(text), Volumes::default());
        Self { lines, volumes, waiting: VecDeque::new(), issued: 0, ended: false, left_out: 0 }
    }

    /// Takes in the next line; `false` behind the last event.
    fn next_event(&mut self) -> Result<bool, LabError> {
        let Some(line) = self.lines.next_line()? else { return Ok(false) };
        // The summary begins with a line about a processor.
        if line.starts_with("CPU") || line.starts_with("Total") {
            return Ok(false);
        }
        if line.trim().is_empty() {
            return Ok(true);
        }
        let Some(event) = event(line) else {
            return Err(self
                .lines
                .wrong("it must be DEVICE CPU NUMBER SECONDS PROCESS EVENT KIND SECTOR + SECTORS")
                .into());
        };
        let volume = || event.device.replace(',', ":");
        match event.action {
            "D" => {
                let (flush, kind) = kinds(event.kind);
                let (offset, length) = (event.sectors.0.checked_mul(SECTOR), event.sectors.1.checked_mul(SECTOR));
                let ((Some(offset), Some(length)), at) = ((offset, length), event.at) else {
                    return Err(self.lines.wrong("its sectors are out of all bounds").into());
                };
                let number = self.volumes.number(&volume())?;
                let kind = kind.filter(|_| length > 0);
                if flush {
                    self.waiting.push_back((Raw { volume: number, io: Io::flush(at) }, (0, 0)));
                }
                if let Some((kind, fua)) = kind {
                    let io = Io { fua, ..Io::new(at, kind, offset, length) };
                    self.waiting.push_back((Raw { volume: number, io }, event.sectors));
                }
                self.left_out += u64::from(!flush && kind.is_none());
                self.issued += 1;
            }
            "C" => {
                let number = self.volumes.number(&volume())?;
                let is_it = |(raw, sectors): &&mut (Raw, (u64, u64))| {
                    raw.volume == number && *sectors == event.sectors && raw.io.took.is_none()
                };
                if let Some((raw, _)) = self.waiting.iter_mut().find(is_it) {
                    raw.io.took = Some(event.at.saturating_sub(raw.io.at));
                }
            }
            _ => {}
        }
        Ok(true)
    }
}

impl Reader for Blkparse {
    fn next_raw(&mut self) -> Result<Option<Raw>, LabError> {
        loop {
            let ready = self.waiting.front().is_some_and(|(raw, _)| raw.io.took.is_some());
            if ready || self.ended || self.waiting.len() > WAITING_MAX {
                if self.ended && self.issued == 0 {
                    return Err(LabError("it has no event `D`: is it the default output of blkparse?".to_owned()));
                }
                return Ok(self.waiting.pop_front().map(|(raw, _)| raw));
            }
            self.ended = !self.next_event()?;
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

    const FIRST: &str = "  8,0    1        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n";

    const TEXT: &str = "\
  8,0    1        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    1        2     0.000001000   697  D   W 223490 + 8 [kjournald]
  8,0    1        3     0.000002000   697  D   R 16 + 1 [cat]
  8,0    3        1     0.004002000     0  C   R 16 + 1 [0]
  8,16   3        2     0.005000000   700  D FWFS 64 + 8 [jbd2]
  8,0    3        3     0.006001000     0  C   W 223490 + 8 [0]
  8,16   3        4     0.007000000   700  D   D 128 + 64 [fstrim]
  8,16   3        5     0.008000000     0  C FWFS 64 + 8 [0]
  8,0    3        6     0.009000000   700  D   N 0 [smartctl]
  8,0    3        7     0.009500000   700  P   N [smartctl]

CPU1 (8,0):
 Reads Queued:           1,        4KiB
";

    #[test]
    fn issued_and_completed_become_ios_of_their_devices() {
        let (ios, volumes) = read_all(Format::Blkparse, TEXT.as_bytes()).unwrap();
        assert_eq!(volumes, ["8:0", "8:16"]);
        let found: Vec<_> =
            ios.iter().map(|raw| (raw.volume, raw.io.kind, raw.io.at, raw.io.took, raw.io.fua)).collect();
        let expected = [
            (0, IoKind::Write, 1_000, Some(6_000_000), false),
            (0, IoKind::Read, 2_000, Some(4_000_000), false),
            (1, IoKind::Flush, 5_000_000, None, false),
            (1, IoKind::Write, 5_000_000, Some(3_000_000), true),
            (1, IoKind::Trim, 7_000_000, None, false),
        ];
        assert_eq!(found, expected);
        assert_eq!((ios[0].io.offset, ios[0].io.length), (223_490 * 512, 4096));
    }

    #[test]
    fn a_wrong_line_is_named() {
        for wrong in ["8,0 1 1 now 697 D W 1 + 1 [x]", "sda 1 1 0.1 697 D W 1 + 1 [x]", "8,0 1"] {
            let error = read_all(Format::Blkparse, format!("{FIRST}{wrong}\n").as_bytes()).unwrap_err().0;
            assert!(error.contains("line 2: it must be DEVICE"), "{error}");
        }
        let large = "8,0 1 1 0.1 697 D W 18446744073709551615 + 8 [x]\n";
        assert!(read_all(Format::Blkparse, large.as_bytes()).unwrap_err().0.contains("line 1: its sectors"));
        assert!(read_all(Format::Blkparse, FIRST.as_bytes()).unwrap_err().0.contains("no event `D`"));
    }
}
