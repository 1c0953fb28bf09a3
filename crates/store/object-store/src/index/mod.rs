//! The index: ordered keyspaces with atomic batches, which say where everything is.
//!
//! **Knows nothing of** objects or files: it keeps bytes under bytes. [`FjallIndex`] keeps them in a directory;
//! [`MemoryIndex`] in memory, for simulations, where it can be lost or come back older than it was.
//!
//! # Invariants
//! - OS-IDX-1: a batch is there whole or not at all, also after a crash; batches survive in order: what is found after a
//!   crash is what some prefix of the batches made, and at least all up to the last [`Index::persist`].

mod fjall;
mod memory;
mod recent;

use std::fmt;

use bytes::Bytes;

pub use self::fjall::FjallIndex;
pub use memory::MemoryIndex;
pub(crate) use recent::{Recent, RecentRows};

/// A keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    /// About the index itself: whose it is, counters.
    About,
    /// Bucket name -> bucket.
    Buckets,
    /// Bucket, zero byte, key -> object.
    Objects,
    /// Version -> manifest of a large object.
    Manifests,
    /// Upload -> upload.
    Uploads,
    /// Bucket, zero byte, escaped key, upload -> nothing: uploads in the order they are listed.
    UploadNames,
    /// Upload, part number -> part.
    Parts,
    /// Blob -> who needs it.
    Blobs,
    /// Blob, segment number -> where it is.
    Segments,
    /// Kind, key -> what was deleted, while older entries of the key may be in files.
    Graves,
    /// File -> what is known of it.
    Files,
}

impl Space {
    /// All keyspaces.
    pub const ALL: [Self; 11] = [
        Self::About,
        Self::Buckets,
        Self::Objects,
        Self::Manifests,
        Self::Uploads,
        Self::UploadNames,
        Self::Parts,
        Self::Blobs,
        Self::Segments,
        Self::Graves,
        Self::Files,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::About => "about",
            Self::Buckets => "buckets",
            Self::Objects => "objects",
            Self::Manifests => "manifests",
            Self::Uploads => "uploads",
            Self::UploadNames => "upload-names",
            Self::Parts => "parts",
            Self::Blobs => "blobs",
            Self::Segments => "segments",
            Self::Graves => "graves",
            Self::Files => "files",
        }
    }

    /// Its number in index backups.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// The keyspace of a number.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Next step of a scan after a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the next one.
    Next,
    /// To the first one at or after this key, which must lie after the present one.
    Seek(Vec<u8>),
    /// Nowhere.
    Stop,
}

/// Changes that happen together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Space, key, and the new value or none to remove it; of two changes of one key the later counts.
    pub changes: Vec<(Space, Vec<u8>, Option<Vec<u8>>)>,
}

/// Kind of an index's failure, by the caller's next action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexErrorKind {
    /// Its file system has no room: it can be read, and be written again once there is room.
    Full,
    /// Stored bytes are wrong: the index has to be made again from the drives.
    Damaged,
    /// It could not be reached, for a reason that says nothing of what is stored: permissions, limits, a disk that is gone.
    #[default]
    Unreachable,
}

/// The index failed: its storage is full, gone or damaged.
#[derive(Debug)]
pub struct IndexError {
    kind: IndexErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl IndexError {
    /// An error that says `message`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { kind: IndexErrorKind::default(), message: message.into(), source: None }
    }

    /// The same, of another kind.
    pub fn of_kind(self, kind: IndexErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// Kind of the failure.
    pub fn kind(&self) -> IndexErrorKind {
        self.kind
    }

    /// As [`IndexError::new`], caused by `source`.
    pub fn caused(message: impl Into<String>, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self { kind: IndexErrorKind::default(), message: message.into(), source: Some(Box::new(source)) }
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(f, ": {source}"))
    }
}

impl std::error::Error for IndexError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// The result of an index call.
pub type IndexResult<T> = Result<T, IndexError>;

/// Reading an index, or one moment of it.
pub trait View: Send {
    /// The value of `key`.
    fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>>;
    /// Visits records in order, from the first at or after `from`, until there are no more or `visit` stops.
    fn scan(&self, space: Space, from: &[u8], visit: &mut dyn FnMut(&[u8], Bytes) -> Step) -> IndexResult<()>;
}

/// An index. All calls may block.
pub trait Index: View + Sync {
    /// Applies a batch (OS-IDX-1). It need not survive a power cut before the next [`Index::persist`].
    fn apply(&self, batch: Batch) -> IndexResult<()>;
    /// Makes all batches so far survive a power cut.
    fn persist(&self) -> IndexResult<()>;
    /// Makes an index whose last write failed take writes again, if it can. Of the batch that failed it then holds all or
    /// nothing. It is read as before while it fails.
    fn revive(&self) -> IndexResult<()>;
    /// Removes everything.
    fn clear(&self) -> IndexResult<()>;
    /// This moment, unchanged by later batches.
    fn snapshot(&self) -> IndexResult<Box<dyn View>>;
    /// True if calls touch a disk, and so belong on another thread than the engine's.
    fn blocks(&self) -> bool;
}

/// The least key after all keys that begin with `prefix`; none if there is no such key.
pub(crate) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let end = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut next = prefix[..=end].to_vec();
    next[end] += 1;
    Some(next)
}

/// Visits the records whose keys begin with `prefix`, until `visit` gives `false`.
pub(crate) fn scan_prefix(
    view: &(impl View + ?Sized),
    space: Space,
    prefix: &[u8],
    visit: &mut dyn FnMut(&[u8], Bytes) -> bool,
) -> IndexResult<()> {
    view.scan(space, prefix, &mut |key, value| {
        if key.starts_with(prefix) && visit(key, value) { Step::Next } else { Step::Stop }
    })
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
