//! Looking things up. Each call sees one moment of the index (AS-IX-1).

use std::ops::Bound;

use bytes::Bytes;
use redb::{ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata};

use super::Index;
use super::error::IndexResult;
use super::tables::{
    COMPLETE, CompleteKey, Object, PARTS, PLACE_LENGTH, PartKey, PartsKey, newest_first, object_of, place_from_bytes,
    version_of,
};
use crate::types::{PartPlace, Version};

/// Both tables at one moment.
pub(super) struct IndexView {
    pub(super) parts: ReadOnlyTable<PartsKey, &'static [u8; PLACE_LENGTH]>,
    pub(super) complete: ReadOnlyTable<CompleteKey, &'static [u8]>,
}

impl IndexView {
    pub(super) fn new(transaction: &redb::ReadTransaction) -> IndexResult<Self> {
        Ok(Self { parts: transaction.open_table(PARTS)?, complete: transaction.open_table(COMPLETE)? })
    }
}

impl Index {
    pub(super) fn view(&self) -> IndexResult<IndexView> {
        IndexView::new(&self.database.begin_read()?)
    }

    /// The newest complete version of `name`.
    pub(crate) fn object(&self, name: &[u8]) -> IndexResult<Option<Object>> {
        let view = self.view()?;
        let found = ReadableTable::range(&view.complete, (name, 0)..=(name, u64::MAX))?.next().transpose()?;
        found.map(|(key, value)| object_of(key.value().1, value.value())).transpose()
    }

    /// The part of a version that begins at `offset`.
    pub(crate) fn part(&self, name: &[u8], version: Version, offset: u64) -> IndexResult<Option<PartPlace>> {
        let view = self.view()?;
        let found = ReadableTable::get(&view.parts, (name, version.0, offset))?;
        Ok(found.map(|place| place_from_bytes(place.value())))
    }

    /// Parts of a version with the offsets they begin at, in their order, at most `limit` of them: from the one that
    /// holds byte `from`, or the next one if none does.
    pub(crate) fn parts(
        &self,
        name: &[u8],
        version: Version,
        from: u64,
        limit: usize,
    ) -> IndexResult<Vec<(u64, PartPlace)>> {
        let view = self.view()?;
        let key = |offset| (name, version.0, offset);
        let before = ReadableTable::range(&view.parts, key(0)..key(from))?.next_back().transpose()?;
        let before = before.map(|(key, place)| (key.value().2, place_from_bytes(place.value())));
        let mut found: Vec<_> = before
            .into_iter()
            .filter(|(offset, place)| offset.saturating_add(u64::from(place.length)) > from)
            .take(limit)
            .collect();
        for entry in ReadableTable::range(&view.parts, key(from)..=key(u64::MAX))?.take(limit - found.len()) {
            let (key, place) = entry?;
            found.push((key.value().2, place_from_bytes(place.value())));
        }
        Ok(found)
    }

    /// All versions of `name` that have parts, oldest first, and whether each is complete.
    pub(crate) fn versions(&self, name: &[u8]) -> IndexResult<Vec<(Version, bool)>> {
        let view = self.view()?;
        let mut found = Vec::new();
        let mut from = Some(0);
        while let Some(version) = from {
            let next = ReadableTable::range(&view.parts, (name, version, 0)..=(name, u64::MAX, u64::MAX))?.next();
            let Some((key, _)) = next.transpose()? else { break };
            let version = Version(key.value().1);
            let complete = ReadableTable::get(&view.complete, (name, newest_first(version)))?.is_some();
            found.push((version, complete));
            from = version.0.checked_add(1);
        }
        Ok(found)
    }

    /// Objects whose names begin with `prefix` and come behind `after`, in their order, at most `limit` of them: the
    /// newest complete version of each.
    pub(crate) fn list(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> IndexResult<Vec<(Bytes, Object)>> {
        let view = self.view()?;
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded((after, u64::MAX)),
            _ => Bound::Included((prefix, 0)),
        };
        let mut found: Vec<(Bytes, Object)> = Vec::new();
        for entry in ReadableTable::range(&view.complete, (from, Bound::Unbounded))? {
            let (key, value) = entry?;
            let (name, version) = key.value();
            if !name.starts_with(prefix) || found.len() == limit {
                break;
            }
            // Older complete versions of the same name come behind the newest.
            if found.last().is_none_or(|(last, _)| last != name) {
                found.push((Bytes::copy_from_slice(name), object_of(version, value.value())?));
            }
        }
        Ok(found)
    }

    /// Calls `visit` for every part, in the order of names, versions and offsets.
    pub(crate) fn for_each_part(&self, mut visit: impl FnMut(&[u8], Version, u64, &PartPlace)) -> IndexResult<()> {
        for entry in ReadableTable::iter(&self.view()?.parts)? {
            let (key, place) = entry?;
            let (name, version, offset) = key.value();
            visit(name, Version(version), offset, &place_from_bytes(place.value()));
        }
        Ok(())
    }

    /// The same for at most `most` parts behind `after`; the key of the last, if there may be more.
    pub(crate) fn for_parts_behind(
        &self,
        after: Option<&PartKey>,
        most: usize,
        mut visit: impl FnMut(&[u8], Version, u64, &PartPlace),
    ) -> IndexResult<Option<PartKey>> {
        let from = after.map_or(Bound::Unbounded, |PartKey { name, version, offset }| {
            Bound::Excluded((&name[..], version.0, *offset))
        });
        let view = self.view()?;
        let mut parts = ReadableTable::range(&view.parts, (from, Bound::Unbounded))?;
        for left in (0..most).rev() {
            let Some(entry) = parts.next() else { return Ok(None) };
            let (key, place) = entry?;
            let (name, version, offset) = key.value();
            visit(name, Version(version), offset, &place_from_bytes(place.value()));
            if left == 0 {
                let name = Bytes::copy_from_slice(name);
                return Ok(Some(PartKey { name, version: Version(version), offset }));
            }
        }
        Ok(None)
    }

    /// Number of parts, of all versions.
    pub(crate) fn parts_count(&self) -> IndexResult<u64> {
        Ok(self.view()?.parts.len()?)
    }

    /// Names with a complete version, counted one by one.
    #[cfg(test)]
    pub(super) fn counted_objects(&self) -> IndexResult<u64> {
        let (mut count, mut last) = (0, Vec::new());
        for entry in ReadableTable::iter(&self.view()?.complete)? {
            let (key, _) = entry?;
            let (name, _version) = key.value();
            if count == 0 || last != name {
                count += 1;
                last = name.to_vec();
            }
        }
        Ok(count)
    }
}

/// The newest complete version of `name` in `complete`.
pub(super) fn newest_complete(
    complete: &impl ReadableTable<CompleteKey, &'static [u8]>,
    name: &[u8],
) -> IndexResult<Option<Version>> {
    let found = complete.range((name, 0)..=(name, u64::MAX))?.next().transpose()?;
    Ok(found.map(|(key, _)| version_of(key.value().1)))
}
