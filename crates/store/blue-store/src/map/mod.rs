//! Extent maps: the bytes of an object that are blobs' content. (Dissertation, section 4.4.2.)
//!
//! A map is cut into shards of 512 KiB. No extent crosses a shard's end, and a blob that is not shared has all its extents in one shard,
//! so that a small write changes one shard. Extents of a shard are a list that is never changed in place: a transaction makes a new one,
//! and earlier ones are kept until they are durable.
//!
//! # Invariants
//! - BLU-MAP-1: extents of a shard are in order, do not overlap, lie inside of it, and inside of their blobs' content.

mod diff;
#[cfg(test)]
mod tests;
mod thin;

use std::ops::Range;
use std::rc::Rc;

use crate::blob::Blob;

pub(crate) use diff::{changes, needed_by_blob};
pub(crate) use thin::thin_blobs;

/// Bytes of an object that one shard of its map is for.
pub(crate) const SHARD: u32 = 512 << 10;

/// Bytes of an object that are content of a blob.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    /// First byte in the object.
    pub(crate) at: u32,
    pub(crate) length: u32,
    pub(crate) blob: Rc<Blob>,
    /// First byte in the blob's content.
    pub(crate) from: u32,
}

/// Deferred writes of a shard from which on they are gathered. (BLU-DEFER-2)
pub(crate) const DEFERRED_MAX: usize = 64;

impl Extent {
    /// Its bytes are metadata.
    pub(crate) fn is_deferred(&self) -> bool {
        self.blob.state.borrow().deferred.is_some()
    }

    pub(crate) fn end(&self) -> u32 {
        self.at + self.length
    }

    /// The bytes of content that it shows.
    pub(crate) fn content(&self) -> Range<u32> {
        self.from..self.from + self.length
    }

    /// The part of it that is in a range of the object.
    pub(crate) fn part(&self, range: &Range<u32>) -> Option<Self> {
        let (from, to) = (self.at.max(range.start), self.end().min(range.end));
        let skipped = from.saturating_sub(self.at);
        (from < to).then(|| Self { at: from, length: to - from, blob: self.blob.clone(), from: self.from + skipped })
    }
}

/// Extents of a shard. (BLU-MAP-1)
#[derive(Clone, Debug, Default)]
pub(crate) struct Extents(Vec<Extent>);

impl Extents {
    /// Extents that come from outside; `None` if they break BLU-MAP-1.
    pub(crate) fn checked(shard: u32, extents: Vec<Extent>) -> Option<Self> {
        let range = range_of(shard)?;
        let mut at = range.start;
        for extent in &extents {
            let (end, content) = (extent.at.checked_add(extent.length)?, extent.from.checked_add(extent.length)?);
            if extent.length == 0 || extent.at < at || end > range.end || content > extent.blob.raw {
                return None;
            }
            at = end;
        }
        Some(Self(extents))
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Extent> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The parts of extents that are in a range of the object.
    pub(crate) fn parts(&self, range: Range<u32>) -> Vec<Extent> {
        let first = self.0.partition_point(|extent| extent.end() <= range.start);
        self.0[first..].iter().map_while(|extent| extent.part(&range)).collect()
    }

    /// Without the bytes of a range.
    pub(crate) fn punched(&self, range: &Range<u32>) -> Self {
        let mut left = Vec::with_capacity(self.0.len() + 1);
        for extent in &self.0 {
            left.extend(extent.part(&(0..range.start)));
            left.extend(extent.part(&(range.end..u32::MAX)));
        }
        Self(left)
    }

    /// With other extents in place of those of their bytes. The extents are in order and do not overlap.
    pub(crate) fn with(&self, extents: &[Extent]) -> Self {
        let mut all = self.clone();
        for extent in extents {
            all = all.punched(&(extent.at..extent.end()));
            let place = all.0.partition_point(|other| other.at < extent.at);
            all.0.insert(place, extent.clone());
        }
        all.joined()
    }

    /// With extents that show one piece of content as one.
    fn joined(self) -> Self {
        let mut joined: Vec<Extent> = Vec::with_capacity(self.0.len());
        for extent in self.0 {
            match joined.last_mut() {
                Some(last)
                    if last.end() == extent.at
                        && Rc::ptr_eq(&last.blob, &extent.blob)
                        && last.from + last.length == extent.from =>
                {
                    last.length += extent.length;
                }
                _ => joined.push(extent),
            }
        }
        Self(joined)
    }
}

/// The shard of a byte of an object.
pub(crate) fn shard_of(at: u32) -> u32 {
    at / SHARD
}

/// Bytes of an object that a shard is for; `None` if no object has them.
pub(crate) fn range_of(shard: u32) -> Option<Range<u32>> {
    let start = shard.checked_mul(SHARD)?;
    Some(start..start.saturating_add(SHARD))
}

/// A range of an object, cut where shards end: the shards, and the part in each.
pub(crate) fn by_shard(range: Range<u32>) -> impl Iterator<Item = (u32, Range<u32>)> {
    let shards = if range.is_empty() { 0..0 } else { shard_of(range.start)..shard_of(range.end - 1) + 1 };
    shards.filter_map(move |shard| {
        let whole = range_of(shard)?;
        Some((shard, whole.start.max(range.start)..whole.end.min(range.end)))
    })
}
