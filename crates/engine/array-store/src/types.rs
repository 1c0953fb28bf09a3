//! Names, versions and places.

use std::fmt;

use bytes::Bytes;

/// The longest name of an object, in bytes: an S3 bucket, a slash and a key, with room for a prefix.
pub const NAME_MAX: usize = 1280;

/// The most that may be stored with an object beside its bytes.
pub const ATTRIBUTES_MAX: usize = 256 << 10;

/// A zone set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId(pub u32);

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone set {}", self.0)
    }
}

/// A version of an object: nanoseconds since 1970 when it was begun, made to rise strictly within an array.
/// (SMORE, section III-A.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// Fields that complete a version: known with its last part. (The paper's complete bit.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Bytes of the whole object.
    pub size: u64,
    /// Its writer's attributes; the engine does not look into them.
    pub attributes: Bytes,
}

/// A run of one version of an object in a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The object's name.
    pub name: Bytes,
    /// The version.
    pub version: Version,
    /// Offset of the part in the object.
    pub offset: u64,
    /// Its offset in its segment's data.
    pub at: u32,
    /// Its bytes.
    pub length: u32,
    /// In the last part: what completes the version.
    pub completion: Option<Completion>,
}

/// Place of a part: the index's value. (SMORE, section III-D.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartPlace {
    /// Its zone set.
    pub set: SetId,
    /// The block of its segment's fragments, behind their layout markers; the same in all zones of the set.
    pub block: u32,
    /// When the segment was written: newer than any other copy's. Segments never share one.
    pub stamp: u64,
    /// Bytes of the segment's data.
    pub segment_length: u32,
    /// Offset of the part in them.
    pub at: u32,
    /// Its bytes.
    pub length: u32,
    /// It is the last part of a complete version.
    pub last: bool,
}

/// A drive's number in its array. Another drive may have it once this one was taken out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriveId(pub u8);

impl fmt::Display for DriveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "drive {}", self.0)
    }
}

/// Drives of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DriveSet([u64; 4]);

impl DriveSet {
    pub(crate) const EMPTY: Self = Self([0; 4]);

    /// True if some drive is in both.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        self.common(other) > 0
    }

    pub(crate) fn has(&self, drive: DriveId) -> bool {
        self.0[usize::from(drive.0 / 64)] & 1 << (drive.0 % 64) != 0
    }

    /// The drives of both.
    pub(crate) fn with(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    /// The drives.
    pub(crate) fn iter(self) -> impl Iterator<Item = DriveId> {
        (0..=u8::MAX).map(DriveId).filter(move |drive| self.has(*drive))
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|drives| drives.count_ones()).sum()
    }

    /// Number of drives in both.
    pub(crate) fn common(&self, other: &Self) -> u32 {
        self.0.iter().zip(other.0).map(|(one, other)| (one & other).count_ones()).sum()
    }
}

impl FromIterator<DriveId> for DriveSet {
    fn from_iter<T: IntoIterator<Item = DriveId>>(drives: T) -> Self {
        let mut all = Self::default();
        drives.into_iter().for_each(|DriveId(number)| all.0[usize::from(number / 64)] |= 1 << (number % 64));
        all
    }
}

/// The state of a zone set. (SMORE, section III-C and Figure 4.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetState {
    /// Holds nothing, and may not be opened before a superblock says `Available`.
    Empty,
    /// May be opened at any time: recovery has to look at it.
    Available,
    /// Receives writes.
    Open,
    /// Full, and not covered by a snapshot of the index.
    Closed,
    /// Full, and covered by a snapshot: recovery need not read it.
    Indexed,
    /// Holds a snapshot of the index.
    Index,
}

impl SetState {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Empty => 1,
            Self::Available => 2,
            Self::Open => 3,
            Self::Closed => 4,
            Self::Indexed => 5,
            Self::Index => 6,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Self::Empty, Self::Available, Self::Open, Self::Closed, Self::Indexed, Self::Index]
            .into_iter()
            .find(|state| state.number() == number)
    }
}
