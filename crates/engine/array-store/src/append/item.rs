//! Items for an open set, and the results of appending them.

use bytes::Bytes;
use shingle_runtime::Task;

use crate::append::open_set::Flight;
use crate::error::Result;
use crate::format::{ITEM_FIXED, Tombstone, encode_tombstones, part_bytes};
use crate::types::{Completion, Part, PartPlace, SetId, Version};

/// Something to append.
#[derive(Clone)]
pub(crate) enum Item {
    /// Bytes of one version of an object; cut where the set ends.
    Run { name: Bytes, version: Version, offset: u64, data: Bytes, completion: Option<Completion> },
    /// Parts of several objects, one behind the other; cut between two where the set ends, unless all are to stay
    /// together.
    Shared { parts: Vec<Part>, data: Bytes, together: bool },
    /// Deletions.
    Tombstones(Vec<Tombstone>),
}

impl Item {
    /// Bytes of its entry in the digest; an upper bound.
    pub(crate) fn entry_bytes(&self) -> usize {
        ITEM_FIXED
            + match self {
                Self::Run { name, completion, .. } => {
                    let part = Part {
                        name: name.clone(),
                        version: Version(0),
                        offset: 0,
                        at: 0,
                        length: 0,
                        completion: completion.clone(),
                    };
                    part_bytes(&part)
                }
                Self::Shared { parts, .. } => parts.iter().map(part_bytes).sum(),
                Self::Tombstones(tombstones) => encode_tombstones(tombstones).len(),
            }
    }

    pub(crate) fn data(&self) -> Option<&Bytes> {
        match self {
            Self::Run { data, .. } | Self::Shared { data, .. } => Some(data),
            Self::Tombstones(_) => None,
        }
    }
}

/// An item that is durable. Enter it in the index before this is dropped (AS-WRITE-2).
pub(crate) struct Placed {
    pub(crate) set: SetId,
    /// The block behind the layout markers: the fragments'.
    pub(crate) block: u32,
    pub(crate) stamp: u64,
    /// Parts in the marker, for segments.
    pub(crate) parts: Vec<Part>,
    pub(crate) segment_length: u32,
    pub(crate) _flight: Flight,
}

/// An item whose writes have started.
pub(crate) struct Started {
    pub(crate) outcome: Task<Result<Option<Placed>>>,
    /// Bytes of its data that went into it.
    pub(crate) consumed: usize,
}

impl Placed {
    /// Place of a part of it.
    pub(crate) fn place(&self, part: &Part) -> PartPlace {
        PartPlace {
            set: self.set,
            block: self.block,
            stamp: self.stamp,
            segment_length: self.segment_length,
            at: part.at,
            length: part.length,
            last: part.completion.is_some(),
        }
    }
}
