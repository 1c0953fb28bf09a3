//! Recorded calls.
//!
//! **Owns** their types. **Knows nothing of** the text that they are read from, and of what they wait for.

use std::sync::Arc;

/// A file, by its place among those of a recording.
pub type FileNumber = u32;

/// A request to files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The file was there before, with so many bytes: takes no time.
    Was(u64),
    /// An empty file was made, in place of one of that name.
    Create,
    /// The file was opened to be read.
    Open,
    /// So many bytes were appended; to a log, by one or more calls.
    Append(u64),
    /// All appends were made durable.
    Sync,
    /// Appends were sent on their way to the drive.
    RangeSync,
    /// Bytes were read.
    Read {
        /// The first.
        offset: u64,
        /// Their number.
        length: u64,
    },
    /// The file was closed by its writer.
    Close,
    /// It got another name.
    Rename,
    /// Its name was removed.
    Delete,
    /// Names were made durable.
    SyncNames,
    /// Its expected lifetime: RocksDB's hint, from 0 (unknown) over 2 (short) to 5 (extreme).
    Lifetime(u8),
    /// Its expected bytes.
    Expect(u64),
}

/// A call. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The thread that made it.
    pub thread: u32,
    /// Its file; without meaning for [`Kind::SyncNames`].
    pub file: FileNumber,
    /// The request.
    pub kind: Kind,
    /// When it ended, from the beginning of the recording on.
    pub end: u64,
    /// Its time.
    pub took: u64,
    /// Processor time of the thread since its last call.
    pub worked: u64,
    /// Time since then in which it waited for a processor.
    pub queued: u64,
    /// The file that loses its name to this one.
    pub replaces: Option<FileNumber>,
}

impl Call {
    /// When it began.
    pub fn start(&self) -> u64 {
        self.end.saturating_sub(self.took)
    }
}

/// Use of a file, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A write-ahead log.
    Log,
    /// A sorted table.
    Table,
    /// The log of versions.
    Manifest,
    /// Another one.
    Other,
}

impl Use {
    /// That of a name.
    pub fn of(name: &str) -> Self {
        let numbered =
            |end| name.strip_suffix(end).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        if numbered(".log") {
            Self::Log
        } else if numbered(".sst") {
            Self::Table
        } else if name.starts_with("MANIFEST") {
            Self::Manifest
        } else {
            Self::Other
        }
    }
}

/// A file of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOf {
    /// The name under which it was made, or was there.
    pub name: Arc<str>,
    /// Its use.
    pub is: Use,
}

/// A recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// Its files.
    pub files: Vec<FileOf>,
    /// Its calls, in the order in which they ended.
    pub calls: Vec<Call>,
    /// Threads that made them.
    pub threads: u32,
}

impl Recording {
    /// Use of a call's file.
    pub fn is(&self, call: &Call) -> Use {
        self.files.get(call.file as usize).map_or(Use::Other, |file| file.is)
    }

    /// The same load, cut short: calls until so much of all bytes was appended to logs. Calls under way then are left out.
    #[must_use]
    pub fn beginning(&self, share: f64) -> Self {
        let logged = |call: &Call| match call.kind {
            Kind::Append(bytes) if self.is(call) == Use::Log => bytes,
            _ => 0,
        };
        let most = self.calls.iter().map(logged).sum::<u64>() as f64 * share;
        let mut sum = 0;
        let calls = self.calls.iter().take_while(|call| {
            sum += logged(call);
            sum as f64 <= most
        });
        Self { calls: calls.cloned().collect(), ..self.clone() }
    }

    /// Bytes that were appended to files of a use.
    pub fn appended(&self, to: Use) -> u64 {
        let of = |call: &Call| match call.kind {
            Kind::Append(bytes) if self.is(call) == to => bytes,
            _ => 0,
        };
        self.calls.iter().map(of).sum()
    }

    /// Seconds from the beginning to the end of the last append to a log: those that a benchmark of inserts counts.
    pub fn seconds(&self) -> f64 {
        let logged = |call: &&Call| matches!(call.kind, Kind::Append(_)) && self.is(call) == Use::Log;
        self.calls.iter().filter(logged).map(|call| call.end).max().unwrap_or(0) as f64 / 1e6
    }
}
