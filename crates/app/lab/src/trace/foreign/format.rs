//! Formats of traces by name, and their readers.

use std::fmt;
use std::io::BufRead;
use std::str::FromStr;

use super::reader::Reader;
use super::{blkparse, msr, recorded, spc, srt, tencent, vscsi};

/// A format of traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// This project's block traces.
    Shingle,
    /// This project's recordings of zoned drives (version 1).
    ShingleZoned,
    /// MSR Cambridge, as SNIA has them: lines of comma-separated values.
    Msr,
    /// VMware's vscsiStats, as CloudPhysics published them: binary.
    Vscsi,
    /// The Storage Performance Council's, as UMass has them: lines of comma-separated values.
    Spc,
    /// Hewlett-Packard Laboratories' SRT: a text head, then binary.
    Srt,
    /// The output of Linux's blkparse.
    Blkparse,
    /// Tencent's cloud block storage: lines of comma-separated values.
    Tencent,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Shingle,
        Self::ShingleZoned,
        Self::Msr,
        Self::Vscsi,
        Self::Spc,
        Self::Srt,
        Self::Blkparse,
        Self::Tencent,
    ];

    /// Name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shingle => "shingle",
            Self::ShingleZoned => "shingle-zoned",
            Self::Msr => "msr",
            Self::Vscsi => "vscsi",
            Self::Spc => "spc",
            Self::Srt => "srt",
            Self::Blkparse => "blkparse",
            Self::Tencent => "tencent",
        }
    }

    /// True of a format whose traces may say how long I/Os took, but not what they waited for.
    pub fn gives_times(self) -> bool {
        matches!(self, Self::Msr | Self::Vscsi | Self::Srt | Self::Blkparse)
    }

    /// The format that a trace says it has in its first bytes, if it is one that says so.
    pub fn told_by(start: &[u8]) -> Option<Self> {
        let marks: [(&[u8], Self); 3] = [
            (b"{\"shingle_trace\":", Self::Shingle),
            (b"shingle-trace 1", Self::ShingleZoned),
            (srt::MAGIC, Self::Srt),
        ];
        marks.into_iter().find(|(mark, _)| start.starts_with(mark)).map(|(_, format)| format)
    }

    /// A reader of a trace of another's format; `None` of the project's own, which needs no translation.
    pub fn reader(self, bytes: Box<dyn BufRead>) -> Option<Box<dyn Reader>> {
        Some(match self {
            Self::Shingle => return None,
            Self::ShingleZoned => Box::new(recorded::Recorded::new(bytes)),
            Self::Msr => Box::new(msr::Msr::new(bytes)),
            Self::Vscsi => Box::new(vscsi::Vscsi::new(bytes)),
            Self::Spc => Box::new(spc::Spc::new(bytes)),
            Self::Srt => Box::new(srt::Srt::new(bytes)),
            Self::Blkparse => Box::new(blkparse::Blkparse::new(bytes)),
            Self::Tencent => Box::new(tencent::Tencent::new(bytes)),
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| format!("`{text}` is no format of traces: {}", names()))
    }
}

/// All I/Os of a trace in memory, and the names of its volumes.
#[cfg(test)]
pub(super) fn read_all(
    format: Format,
    bytes: &[u8],
) -> Result<(Vec<super::reader::Raw>, Vec<String>), crate::error::LabError> {
    let mut reader = format.reader(Box::new(std::io::Cursor::new(bytes.to_vec()))).unwrap();
    let mut found = Vec::new();
    while let Some(raw) = reader.next_raw()? {
        found.push(raw);
    }
    Ok((found, reader.volumes().names().to_vec()))
}
