//! The index at one moment as a stream of bytes, and back. The bytes: `docs/formats/array-snapshot.md`.
//!
//! A chunk can be read by itself, in its place: it refers to no other. It has no checksum, since each becomes a record.

use std::collections::BTreeSet;
use std::ops::Bound;

use redb::{ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, WriteTransaction};
use shingle_runtime::{Runtime, Work};

use super::Index;
use super::error::{IndexError, IndexResult};
use super::read::IndexView;
use super::tables::{
    COMPLETE, PARTS, complete_parts, complete_value, newest_first, place_from_bytes, place_to_bytes, version_of,
};
use super::wire::{self, Bytes, END_CHUNK, OBJECTS_CHUNK, PARTS_CHUNK, Previous};
use crate::types::{PartPlace, Version};

/// Bytes of chunks that one transaction of the loader takes: large, since each writes the way to its leaves anew; not
/// larger, since what it writes is held in memory.
const LOAD_AT_ONCE: usize = 32 << 20;

/// No entry has more bytes than this beside its name and attributes.
const NUMBERS_MAX: usize = 80;

/// The index at one moment (AS-IX-3), to be read once from its beginning to its end.
pub(crate) struct Snapshot {
    view: IndexView,
    next: Next,
    number: u64,
    /// Told of the work, if there is one.
    runtime: Option<Runtime>,
}

/// The key of a part.
type PartAt = (Vec<u8>, u64, u64);

/// The key of a complete version.
type ObjectAt = (Vec<u8>, Version);

/// Key that the next chunk begins behind.
enum Next {
    Parts(Option<PartAt>),
    Objects(Option<ObjectAt>),
    End,
    Nothing,
}

impl Index {
    /// Takes a snapshot: a read transaction of the tree, microseconds, whatever its size. Changes go on meanwhile; pages
    /// that they replace stay in the file until the snapshot is dropped.
    pub(crate) fn snapshot(&self) -> IndexResult<Snapshot> {
        Snapshot::new(self.database.begin_read()?, self.runtime.clone())
    }
}

impl Snapshot {
    pub(super) fn new(transaction: ReadTransaction, runtime: Option<Runtime>) -> IndexResult<Self> {
        Ok(Self { view: IndexView::new(&transaction)?, next: Next::Parts(None), number: 0, runtime })
    }

    /// The next chunk, of at most `max_bytes` unless one entry alone is larger (by name and attributes up to 258 KiB);
    /// nothing behind the last.
    pub(crate) fn next_chunk(&mut self, max_bytes: usize) -> IndexResult<Option<Vec<u8>>> {
        loop {
            let (chunk, next) = match &self.next {
                Next::Parts(after) => match self.parts(after.as_ref(), max_bytes)? {
                    (chunk, Some(last)) => (chunk, Next::Parts(Some(last))),
                    (_, None) => {
                        self.next = Next::Objects(None);
                        continue;
                    }
                },
                Next::Objects(after) => match self.objects(after.as_ref(), max_bytes)? {
                    (chunk, Some(last)) => (chunk, Next::Objects(Some(last))),
                    (_, None) => {
                        self.next = Next::End;
                        continue;
                    }
                },
                Next::End => (self.end()?, Next::Nothing),
                Next::Nothing => return Ok(None),
            };
            self.next = next;
            self.number += 1;
            return Ok(Some(chunk));
        }
    }

    /// Parts behind `after`, and the key of the last, if there is any.
    fn parts(&self, after: Option<&PartAt>, max_bytes: usize) -> IndexResult<(Vec<u8>, Option<PartAt>)> {
        let from = after
            .map_or(Bound::Unbounded, |(name, version, offset)| Bound::Excluded((name.as_slice(), *version, *offset)));
        let mut chunk = wire::begin(PARTS_CHUNK, self.number);
        let (mut previous, mut last, mut entries) = (Previous::default(), None, 0);
        for entry in ReadableTable::range(&self.view.parts, (from, Bound::Unbounded))? {
            let (key, place) = entry?;
            let key = key.value();
            if last.is_some() && chunk.len() + key.0.len() + NUMBERS_MAX > max_bytes {
                break;
            }
            wire::put_part(&mut chunk, key, &place_from_bytes(place.value()), &mut previous);
            last = Some((key.1, key.2));
            entries += 1;
        }
        self.worked(entries);
        Ok((chunk, last.map(|(version, offset)| (previous.name, version, offset))))
    }

    /// Complete versions behind `after`, and the key of the last, if there is any.
    fn objects(&self, after: Option<&ObjectAt>, max_bytes: usize) -> IndexResult<(Vec<u8>, Option<ObjectAt>)> {
        let from = after
            .map_or(Bound::Unbounded, |(name, version)| Bound::Excluded((name.as_slice(), newest_first(*version))));
        let mut chunk = wire::begin(OBJECTS_CHUNK, self.number);
        let (mut previous, mut last, mut entries) = (Previous::default(), None, 0);
        for entry in ReadableTable::range(&self.view.complete, (from, Bound::Unbounded))? {
            let (key, value) = entry?;
            let ((name, version), value) = (key.value(), value.value());
            if last.is_some() && chunk.len() + name.len() + value.len() + NUMBERS_MAX > max_bytes {
                break;
            }
            let version = version_of(version);
            let (size, attributes) = complete_parts(value)?;
            wire::put_object(&mut chunk, (name, version), size, attributes, &mut previous);
            last = Some(version);
            entries += 1;
        }
        self.worked(entries);
        Ok((chunk, last.map(|version| (previous.name, version))))
    }

    fn worked(&self, entries: u64) {
        if let Some(runtime) = &self.runtime {
            runtime.worked(Work::Scan, entries);
        }
    }

    fn end(&self) -> IndexResult<Vec<u8>> {
        let mut chunk = wire::begin(END_CHUNK, self.number);
        wire::put_varint(&mut chunk, self.view.parts.len()?);
        wire::put_varint(&mut chunk, self.view.complete.len()?);
        Ok(chunk)
    }
}

/// Makes an index of a snapshot's chunks.
pub(crate) struct Loader {
    index: Index,
    transaction: Option<WriteTransaction>,
    /// Bytes of chunks in the transaction.
    pending: usize,
    /// The next chunk's number.
    number: u64,
    last_part: Option<PartAt>,
    last_object: Option<ObjectAt>,
    parts: u64,
    versions: u64,
    objects: i64,
    ended: bool,
    /// Says which parts are taken; and versions whose last part was not (AS-IX-2).
    keep: Option<Box<Keep>>,
    left_out: BTreeSet<ObjectAt>,
    /// The last name that counts as an object.
    last_counted: Option<Vec<u8>>,
}

/// True if a part at this place is taken into the index.
pub(crate) type Keep = dyn Fn(&PartPlace) -> bool;

impl Loader {
    /// Loads into `index`, which must be empty.
    ///
    /// # Errors
    /// `Tree`; `Malformed` if the index is not empty.
    pub(crate) fn new(index: Index) -> IndexResult<Self> {
        if index.parts_count()? != 0 {
            return Err(IndexError::Malformed("a snapshot is loaded into an index that is not empty"));
        }
        Ok(Self {
            index,
            transaction: None,
            pending: 0,
            number: 0,
            last_part: None,
            last_object: None,
            parts: 0,
            versions: 0,
            objects: 0,
            ended: false,
            keep: None,
            left_out: BTreeSet::new(),
            last_counted: None,
        })
    }

    /// Leaves parts out that `keep` does not want. A version whose last part is left out is not complete.
    pub(crate) fn keeping(mut self, keep: Box<Keep>) -> Self {
        self.keep = Some(keep);
        self
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// `Malformed`, if these bytes are no chunk, or not the next one. The loader should be dropped then, and the index
    /// made anew.
    pub(crate) fn add(&mut self, chunk: &[u8]) -> IndexResult<()> {
        let mut bytes = Bytes(chunk);
        let (kind, number) = bytes.begin()?;
        if number != self.number || self.ended {
            return Err(IndexError::Malformed("a chunk of a snapshot is missing, or out of its place"));
        }
        let before = self.parts + self.versions;
        match kind {
            PARTS_CHUNK if self.last_object.is_none() => self.add_parts(bytes)?,
            OBJECTS_CHUNK => self.add_objects(bytes)?,
            END_CHUNK => {
                let counts = (bytes.varint()?, bytes.varint()?);
                if counts != (self.parts, self.versions) || !bytes.is_empty() {
                    return Err(IndexError::Malformed("a snapshot does not hold what its end says"));
                }
                self.ended = true;
            }
            _ => return Err(IndexError::Malformed("a chunk of a snapshot is of an unknown kind, or out of its place")),
        }
        self.number += 1;
        self.index.worked(Work::Load, self.parts + self.versions - before);
        self.pending += chunk.len();
        if self.pending >= LOAD_AT_ONCE {
            self.pending = 0;
            if let Some(full) = self.transaction.take() {
                full.commit()?;
            }
        }
        Ok(())
    }

    fn add_parts(&mut self, mut bytes: Bytes<'_>) -> IndexResult<()> {
        let mut table = transaction(&mut self.transaction, &self.index)?.open_table(PARTS)?;
        // At the end of the table: whatever is added comes behind, so no way down the tree is looked for.
        let mut end = table.upper_bound_mut(Bound::<(&[u8], u64, u64)>::Unbounded)?;
        let mut previous = Previous::default();
        while !bytes.is_empty() {
            let (offset, place) = bytes.part(&mut previous)?;
            let key = (previous.name.as_slice(), previous.version, offset);
            if self
                .last_part
                .as_ref()
                .is_some_and(|(name, version, offset)| (name.as_slice(), *version, *offset) >= key)
            {
                return Err(IndexError::Malformed("parts are out of their order"));
            }
            if self.keep.as_ref().is_none_or(|keep| keep(&place)) {
                end.insert_before(key, &place_to_bytes(&place))?;
            } else if place.last {
                self.left_out.insert((previous.name.clone(), Version(previous.version)));
            }
            let (name, version, at) = self.last_part.get_or_insert_default();
            name.clone_from(&previous.name);
            (*version, *at) = (previous.version, offset);
            self.parts += 1;
        }
        Ok(end.close()?)
    }

    fn add_objects(&mut self, mut bytes: Bytes<'_>) -> IndexResult<()> {
        let mut table = transaction(&mut self.transaction, &self.index)?.open_table(COMPLETE)?;
        let mut end = table.upper_bound_mut(Bound::<(&[u8], u64)>::Unbounded)?;
        let mut previous = Previous::default();
        while !bytes.is_empty() {
            let (size, attributes) = bytes.object(&mut previous)?;
            let (name, version) = (previous.name.as_slice(), Version(previous.version));
            if self
                .last_object
                .as_ref()
                .is_some_and(|(last, newer)| (last.as_slice(), newest_first(*newer)) >= (name, newest_first(version)))
            {
                return Err(IndexError::Malformed("objects are out of their order"));
            }
            if !self.left_out.contains(&(name.to_vec(), version)) {
                end.insert_before((name, newest_first(version)), complete_value(size, attributes).as_slice())?;
                if self.last_counted.as_ref().is_none_or(|last| last != name) {
                    self.objects += 1;
                    self.last_counted = Some(name.to_vec());
                }
            }
            let (last, newer) = self.last_object.get_or_insert_default();
            last.clone_from(&previous.name);
            *newer = version;
            self.versions += 1;
        }
        Ok(end.close()?)
    }

    /// The index, if the last chunk was taken.
    ///
    /// # Errors
    /// `Malformed` if it was not; `Tree`.
    pub(crate) fn finish(self) -> IndexResult<Index> {
        if !self.ended {
            return Err(IndexError::Malformed("a snapshot has no end"));
        }
        if let Some(rest) = self.transaction {
            rest.commit()?;
        }
        self.index.count_objects(self.objects);
        Ok(self.index)
    }
}

/// The loader's transaction, begun if there is none.
fn transaction<'a>(open: &'a mut Option<WriteTransaction>, index: &Index) -> IndexResult<&'a WriteTransaction> {
    Ok(match open {
        Some(transaction) => transaction,
        none => none.insert(index.database.begin_write()?),
    })
}
