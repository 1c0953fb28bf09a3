//! Calls and answers, as they travel between threads and processes.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shingle_zone_files::{CreateOptions, FileInfo, FileKind, FilesError, FilesErrorKind, WriteLifetime};

/// Version of the calls. Both ends must have the same.
pub(crate) const VERSION: u32 = 2;
/// Most bytes that one call appends, or one read returns.
pub(crate) const DATA_BYTES_MAX: usize = 4 << 20;

/// A call on the files. Handles and locks are numbers of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Makes an empty file, in place of one that has the name: a handle.
    Create {
        /// Its path.
        path: String,
        /// Number of its kind.
        kind: u8,
        /// Number of its lifetime.
        lifetime: u8,
    },
    /// Opens a file: a handle.
    Open {
        /// Its path.
        path: String,
    },
    /// Lets go of a handle. Bytes that were appended are written, and durable some time later.
    Close {
        /// The handle.
        handle: u64,
    },
    /// Appends the data that come with the call.
    Append {
        /// The handle.
        handle: u64,
        /// The steps before the answer.
        then: Then,
    },
    /// Reads bytes: data.
    Read {
        /// The handle.
        handle: u64,
        /// First byte.
        offset: u64,
        /// Bytes, fewer at the end of the file.
        length: u64,
    },
    /// Cuts a file.
    Truncate {
        /// The handle.
        handle: u64,
        /// Bytes that stay.
        size: u64,
    },
    /// Says how large a file will be.
    Expect {
        /// The handle.
        handle: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Says how long a file will live.
    SetLifetime {
        /// The handle.
        handle: u64,
        /// Number of the lifetime.
        lifetime: u8,
    },
    /// Describes the file of a handle.
    Info {
        /// The handle.
        handle: u64,
    },
    /// Describes a path.
    Stat {
        /// It.
        path: String,
    },
    /// Lists a directory.
    List {
        /// Its path.
        path: String,
    },
    /// Removes a file's name.
    Remove {
        /// It.
        path: String,
    },
    /// Gives a file or directory another name.
    Rename {
        /// The name that it has.
        from: String,
        /// The new one.
        to: String,
    },
    /// Gives a file one more name.
    Link {
        /// A name that it has.
        from: String,
        /// The new one.
        to: String,
    },
    /// Makes a directory.
    MakeDir {
        /// Its path.
        path: String,
        /// Makes also those above it, and is content with one that is there.
        all: bool,
    },
    /// Removes an empty directory.
    RemoveDir {
        /// Its path.
        path: String,
    },
    /// Locks a path: a number.
    Lock {
        /// It.
        path: String,
    },
    /// Gives a lock back.
    Unlock {
        /// Its number.
        lock: u64,
    },
    /// Tells how much room there is.
    Room,
    /// Tells figures for monitoring.
    Metrics,
}

/// Steps with appended bytes before the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// They wait until there are enough for a write.
    Gather,
    /// They are written soon.
    Flush,
    /// They are durable.
    Sync,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It is done.
    Done,
    /// A handle, and its file.
    Opened(u64, About),
    /// Bytes of a file, which travel beside the rest.
    Data(#[serde(skip)] Bytes),
    /// A file, or `None` for a directory.
    Found(Option<About>),
    /// Entries of a directory, by name.
    Entries(Vec<(String, Option<About>)>),
    /// A lock.
    Locked(u64),
    /// Room.
    Room(Room),
    /// Figures, in the Prometheus text format.
    Metrics(String),
}

pub(crate) type Answer = Result<Reply, FilesError>;

/// A file, as calls describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its number, which no other file of the drive ever has.
    pub serial: u64,
    /// Bytes.
    pub size: u64,
    /// Nanoseconds since 1970 when its bytes last changed.
    pub modified: u64,
    /// Names that it has.
    pub links: u32,
    /// It is a table: its bytes never change once they are written.
    pub table: bool,
    /// It is a log: flushed bytes outlive the process that flushed them.
    pub log: bool,
}

impl From<FileInfo> for About {
    fn from(info: FileInfo) -> Self {
        let FileInfo { serial, kind, size, modified, links, .. } = info;
        Self { serial, size, modified: modified.nanos, links, table: kind == FileKind::Sst, log: kind == FileKind::Wal }
    }
}

/// Room of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// Identity of the store of files.
    pub store: u64,
    /// Bytes of data zones.
    pub capacity_bytes: u64,
    /// Bytes that can still be written.
    pub free_bytes: u64,
    /// Bytes of files that were written since the drive was opened.
    pub written_bytes: u64,
    /// Bytes that the drive wrote for them, with those that cleaning copied.
    pub drive_bytes: u64,
}

pub(crate) fn create_options(kind: u8, lifetime: u8) -> CreateOptions {
    let kind = match kind {
        1 => FileKind::Wal,
        2 => FileKind::Sst,
        3 => FileKind::Manifest,
        _ => FileKind::Other,
    };
    CreateOptions { kind, lifetime: lifetime_of(lifetime), ..CreateOptions::default() }
}

pub(crate) fn kind_number(kind: FileKind) -> u8 {
    match kind {
        FileKind::Wal => 1,
        FileKind::Sst => 2,
        FileKind::Manifest => 3,
        FileKind::Other => 0,
    }
}

pub(crate) fn lifetime_of(number: u8) -> WriteLifetime {
    match number {
        1 => WriteLifetime::Short,
        2 => WriteLifetime::Medium,
        3 => WriteLifetime::Long,
        4 => WriteLifetime::Extreme,
        _ => WriteLifetime::None,
    }
}

pub(crate) fn lifetime_number(lifetime: WriteLifetime) -> u8 {
    match lifetime {
        WriteLifetime::None => 0,
        WriteLifetime::Short => 1,
        WriteLifetime::Medium => 2,
        WriteLifetime::Long => 3,
        WriteLifetime::Extreme => 4,
    }
}

/// Kinds of errors by their numbers, in calls and in the C interface.
const ERROR_KINDS: [FilesErrorKind; 12] = [
    FilesErrorKind::NotFound,
    FilesErrorKind::Exists,
    FilesErrorKind::IsDirectory,
    FilesErrorKind::NotDirectory,
    FilesErrorKind::NotEmpty,
    FilesErrorKind::NoSpace,
    FilesErrorKind::Corrupt,
    FilesErrorKind::Device,
    FilesErrorKind::Locked,
    FilesErrorKind::ReadOnly,
    FilesErrorKind::Invalid,
    FilesErrorKind::Unavailable,
];

/// Number of an error's kind, from 1.
pub fn error_number(kind: FilesErrorKind) -> u8 {
    let found = ERROR_KINDS.iter().position(|known| *known == kind);
    found.map_or(ERROR_KINDS.len() as u8, |at| at as u8 + 1)
}

pub(crate) fn error_kind(number: u8) -> FilesErrorKind {
    let at = usize::from(number).wrapping_sub(1);
    ERROR_KINDS.get(at).copied().unwrap_or(FilesErrorKind::Unavailable)
}

/// The owner of the files has ended.
pub(crate) fn owner_gone() -> FilesError {
    FilesError::new(
        FilesErrorKind::Unavailable,
        "the process that owned the drive has ended, or closed it; open the files again",
    )
}

/// An answer of another kind than the call's.
pub(crate) fn out_of_place() -> FilesError {
    FilesError::new(FilesErrorKind::Unavailable, "the owner of the drive gave an answer to another question")
}
