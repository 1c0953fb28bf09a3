//! Recorded block I/O: a kernel's commands to a drive, in their order.
//!
//! **Owns** the format of recordings. **Knows nothing of** file systems and of playing.
//!
//! A recording is text, compressed by gzip. Its first line names it and the drive's shape; each other line is one command or
//! one mark, with numbers in decimal, and addresses and lengths in blocks of 4 KiB:
//!
//! | line            | meaning                                                                              |
//! |-----------------|--------------------------------------------------------------------------------------|
//! | `shingle-trace 1 NAME ZONE_BLOCKS ZONES CONVENTIONAL` | the first: conventional zones are counted, and come first |
//! | `W AT BLOCKS Q` | a write to a conventional zone                                                       |
//! | `A ZONE BLOCKS Q` | a write to a sequential zone, where its write pointer is                           |
//! | `R AT BLOCKS Q` | a read                                                                               |
//! | `X ZONE Q`      | the reset of a zone; `O`, `C`, `E`: its opening, closing, finish                     |
//! | `F Q`           | a flush                                                                              |
//! | `M BYTES`       | the load has had so many bytes acknowledged                                          |
//! | `N`             | the load was told that no space is left; it waits and tries again                    |
//! | `Z`             | the load has come to its end; where it is missing, the file system gave up before    |
//! | `D`             | the load begins to delete: the drive is as full as it gets                           |
//!
//! `Q` is the number of commands that were under way when this one was given to the drive. There are no times: they are
//! those of the machine where it was recorded, and mean nothing for another drive.
//!
//! # Invariants
//! - LAB-TRC-1: a parsed command lies on the drive, in one zone, and is of a kind that this zone takes.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use shingle_zoned::ZoneOp;

use crate::error::LabError;

/// Longest text that is read: far longer than any recording here, and no danger to memory.
const TEXT_MAX: u64 = 256 << 20;

const MAGIC: &str = "shingle-trace 1";

/// Kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Writes that many blocks in a conventional zone.
    Write(u32),
    /// Writes that many blocks to a sequential zone, at its write pointer.
    Append(u32),
    /// Reads so many blocks.
    Read(u32),
    /// A command on the zone as a whole.
    Zone(ZoneOp),
    /// Makes the earlier writes durable.
    Flush,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Kind of the command.
    pub action: Action,
    /// Its block; the first of the zone for commands on whole zones.
    pub at: u64,
    /// Commands under way when it came.
    pub outstanding: u32,
}

/// A line of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// A command.
    Command(Command),
    /// Bytes of the load acknowledged so far.
    Appended(u64),
    /// Deletion begins.
    Full,
    /// The file system reports that no space is left.
    NoSpace,
    /// The load has come to its end.
    End,
}

/// A recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Name of its store: one word.
    pub name: String,
    /// Blocks of a zone.
    pub zone_blocks: u64,
    /// Zones, conventional ones included.
    pub zones: u32,
    /// Zones that can be written anywhere: the first.
    pub conventional: u32,
    /// Commands and marks, in order.
    pub lines: Vec<Line>,
}

impl Trace {
    /// Reads a recording from a file.
    ///
    /// # Errors
    /// It cannot be read, or is none; the message names the wrong line.
    pub fn load(path: &Path) -> Result<Self, LabError> {
        let failed = |why: String| LabError(format!("the recording {}: {why}", path.display()));
        let packed = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        Self::unpack(&packed).map_err(|error| failed(error.0))
    }

    /// Reads a recording.
    ///
    /// # Errors
    /// It is none; the message names the wrong line.
    pub fn unpack(packed: &[u8]) -> Result<Self, LabError> {
        let mut text = String::new();
        GzDecoder::new(packed)
            .take(TEXT_MAX)
            .read_to_string(&mut text)
            .map_err(|error| LabError(format!("no text compressed by gzip: {error}")))?;
        Self::parse(&text)
    }

    /// The recording, as in a file.
    ///
    /// # Errors
    /// None that is expected: it is made in memory.
    pub fn pack(&self) -> Result<Vec<u8>, LabError> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        let packing = packed.write_all(self.text().as_bytes()).and_then(|()| packed.finish());
        packing.map_err(|error| LabError(error.to_string()))
    }

    fn parse(text: &str) -> Result<Self, LabError> {
        let mut lines = text.lines();
        let mut trace = Self::head(lines.next().unwrap_or_default())?;
        for (number, text) in (2..).zip(lines) {
            let line = trace.line(text).ok_or_else(|| LabError(format!("line {number} is wrong: `{text}`")))?;
            trace.lines.push(line);
        }
        Ok(trace)
    }

    /// A recording without lines, of its first one.
    pub(super) fn head(first: &str) -> Result<Self, LabError> {
        first.strip_prefix(MAGIC).and_then(head).ok_or_else(|| {
            let found: String = first.chars().take(60).collect();
            let expected = format!("`{MAGIC} NAME ZONE_BLOCKS ZONES CONVENTIONAL`");
            LabError(format!("it does not begin with {expected}, but with `{found}`"))
        })
    }

    /// The line of that text; `None` if it is wrong.
    pub(super) fn line(&self, text: &str) -> Option<Line> {
        let mut words = text.split(' ');
        let letter = words.next()?;
        let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let start = |zone: u64| zone.saturating_mul(self.zone_blocks);
        let line = match (letter, numbers.as_slice()) {
            ("M", &[bytes]) => return Some(Line::Appended(bytes)),
            ("D", []) => return Some(Line::Full),
            ("N", []) => return Some(Line::NoSpace),
            ("Z", []) => return Some(Line::End),
            ("F", &[q]) => (Action::Flush, 0, q),
            ("W", &[at, blocks, q]) => (Action::Write(u32::try_from(blocks).ok()?), at, q),
            ("A", &[zone, blocks, q]) => (Action::Append(u32::try_from(blocks).ok()?), start(zone), q),
            ("R", &[at, blocks, q]) => (Action::Read(u32::try_from(blocks).ok()?), at, q),
            ("X", &[zone, q]) => (Action::Zone(ZoneOp::Reset), start(zone), q),
            ("O", &[zone, q]) => (Action::Zone(ZoneOp::Open), start(zone), q),
            ("C", &[zone, q]) => (Action::Zone(ZoneOp::Close), start(zone), q),
            ("E", &[zone, q]) => (Action::Zone(ZoneOp::Finish), start(zone), q),
            _ => return None,
        };
        let (action, at, q) = line;
        let command = Command { action, at, outstanding: u32::try_from(q).ok()? };
        self.is_sound(&command).then_some(Line::Command(command))
    }

    /// LAB-TRC-1.
    fn is_sound(&self, command: &Command) -> bool {
        let end = self.zone_blocks * u64::from(self.zones);
        let inside = command.at % self.zone_blocks;
        let conventional = command.at < self.zone_blocks * u64::from(self.conventional);
        let fits = |blocks: u32| blocks > 0 && inside + u64::from(blocks) <= self.zone_blocks;
        command.at < end
            && match command.action {
                Action::Write(blocks) => conventional && fits(blocks),
                Action::Read(blocks) => fits(blocks),
                Action::Append(blocks) => !conventional && fits(blocks),
                Action::Zone(_) => !conventional,
                Action::Flush => true,
            }
    }

    fn text(&self) -> String {
        let mut text = format!("{MAGIC} {} {} {} {}\n", self.name, self.zone_blocks, self.zones, self.conventional);
        for line in &self.lines {
            let zone = if let Line::Command(command) = line { command.at / self.zone_blocks } else { 0 };
            // Writing to a string does not fail.
            let _ = match *line {
                Line::Appended(bytes) => writeln!(text, "M {bytes}"),
                Line::Full => writeln!(text, "D"),
                Line::NoSpace => writeln!(text, "N"),
                Line::End => writeln!(text, "Z"),
                Line::Command(Command { action, at, outstanding: q }) => match action {
                    Action::Write(blocks) => writeln!(text, "W {at} {blocks} {q}"),
                    Action::Append(blocks) => writeln!(text, "A {zone} {blocks} {q}"),
                    Action::Read(blocks) => writeln!(text, "R {at} {blocks} {q}"),
                    Action::Zone(ZoneOp::Reset) => writeln!(text, "X {zone} {q}"),
                    Action::Zone(ZoneOp::Open) => writeln!(text, "O {zone} {q}"),
                    Action::Zone(ZoneOp::Close) => writeln!(text, "C {zone} {q}"),
                    Action::Zone(ZoneOp::Finish) => writeln!(text, "E {zone} {q}"),
                    Action::Flush => writeln!(text, "F {q}"),
                },
            };
        }
        text
    }
}

fn head(text: &str) -> Option<Trace> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let &[name, zone_blocks, zones, conventional] = words.as_slice() else { return None };
    let trace = Trace {
        name: name.to_owned(),
        zone_blocks: zone_blocks.parse().ok()?,
        zones: zones.parse().ok()?,
        conventional: conventional.parse().ok()?,
        lines: Vec::new(),
    };
    let sound = (1..=1 << 20).contains(&trace.zone_blocks)
        && (1..=1 << 20).contains(&trace.zones)
        && trace.conventional <= trace.zones;
    sound.then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "shingle-trace 1 some 2048 10 2\nW 2047 1 0\nA 2 256 3\nR 4100 2 1\nX 2 0\nM 1048576\nD\nN\nZ\nF 2\nO 3 0\n\
                        C 3 0\nE 3 0\n";

    #[test]
    fn a_recording_is_read_back_as_it_was() {
        let trace = Trace::parse(TEXT).unwrap();
        assert_eq!(trace.text(), TEXT);
        assert_eq!(Trace::unpack(&trace.pack().unwrap()).unwrap(), trace);
    }

    /// LAB-TRC-1.
    #[test]
    fn what_is_no_recording_is_refused_with_its_line() {
        assert!(Trace::unpack(b"no gzip").is_err());
        assert!(Trace::parse("").is_err() && Trace::parse("shingle-trace 2 a 1 1 1").is_err());
        assert!(Trace::parse("shingle-trace 1 a 0 1 1").is_err() && Trace::parse("shingle-trace 1 a 16 2 3").is_err());
        for wrong in
            ["W 4096 1 0", "W 2047 2 0", "W 1 0 0", "A 1 1 0", "X 10 0", "R 20480 1 0", "", "Q", "W -1 1 0", "F 1 2"]
        {
            let error = Trace::parse(&format!("{TEXT}{wrong}\n")).unwrap_err().0;
            assert!(error.contains("line 14"), "{error}");
        }
    }
}
