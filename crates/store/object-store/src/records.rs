//! Values of the index's keyspaces, and their encoding.
//!
//! The index is derived from the log and can be lost, so its values carry no checksums of their own (the library under
//! it has them) and need no upgrade path: an index of another format version is rebuilt.

use bytes::{BufMut, Bytes};

use crate::format::{Attributes, BlobRef};
use crate::wire::{Input, Malformed};

/// Location of an entry: its file, chunk, offset and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The file.
    pub file: u64,
    /// The chunk in the file.
    pub ordinal: u32,
    /// The offset of its header in the chunk.
    pub offset: u64,
    /// Bytes of header and head: its data begins after them.
    pub head: u32,
    /// Bytes of data.
    pub data: u32,
}

impl Location {
    /// Bytes of the whole entry.
    pub fn length(&self) -> u64 {
        u64::from(self.head) + u64::from(self.data)
    }

    /// The offset in the chunk after the entry.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.length())
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.file);
        out.put_u32_le(self.ordinal);
        out.put_u64_le(self.offset);
        out.put_u32_le(self.head);
        out.put_u32_le(self.data);
    }

    pub(crate) fn read(input: &mut Input<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            file: input.u64("file")?,
            ordinal: input.u32("ordinal")?,
            offset: input.u64("offset")?,
            head: input.u32("head length")?,
            data: input.u32("data length")?,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(28);
        self.put(&mut out);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let location = Self::read(&mut input)?;
        input.end("location")?;
        Ok(location)
    }
}

/// A place in a file between entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The chunk in the file.
    pub ordinal: u32,
    /// The offset in that chunk.
    pub offset: u64,
}

/// The files that may still hold entries an item has replaced, so that the item must outlive them.
///
/// A hot key is replaced in many files; past [`Ghosts::FILES_MAX`] only the highest number is kept, and any file up to
/// it counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ghosts {
    upto: u64,
    files: Vec<u64>,
}

impl Ghosts {
    const FILES_MAX: usize = 32;

    pub(crate) fn add(&mut self, file: u64) {
        if file <= self.upto {
            return;
        }
        if let Err(at) = self.files.binary_search(&file) {
            self.files.insert(at, file);
        }
        if self.files.len() > Self::FILES_MAX {
            self.upto = self.files.pop().unwrap_or(self.upto);
            self.files.clear();
        }
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        self.upto = self.upto.max(other.upto);
        self.files.retain(|file| *file > self.upto);
        other.files.iter().for_each(|file| self.add(*file));
    }

    /// Forgets files that are gone. `exists` says whether a file is there, `least` is the lowest that is.
    pub(crate) fn prune(&mut self, exists: impl Fn(u64) -> bool, least: Option<u64>) {
        self.files.retain(|file| exists(*file));
        if least.is_none_or(|least| least > self.upto) {
            self.upto = 0;
        }
    }

    /// True if a file other than `except` may hold a replaced entry. `files` are the existing files, in order.
    pub(crate) fn haunt<'a>(
        &self,
        files: impl Iterator<Item = &'a u64>,
        except: u64,
        exists: impl Fn(u64) -> bool,
    ) -> bool {
        self.files.iter().any(|file| *file != except && exists(*file))
            || (self.upto > 0 && files.take_while(|file| **file <= self.upto).any(|file| *file != except))
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.upto);
        out.put_u8(self.files.len() as u8);
        self.files.iter().for_each(|file| out.put_u64_le(*file));
    }

    fn read(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let upto = input.u64("ghosts")?;
        let count = input.u8("ghosts")?;
        let files = (0..count).map(|_| input.u64("ghosts")).collect::<Result<_, _>>()?;
        Ok(Self { upto, files })
    }
}

/// A bucket, object or upload, or the grave of one: the newest entry of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// The entry's version.
    pub(crate) version: u64,
    /// Location of the entry.
    pub(crate) location: Location,
    /// Files that may hold entries it replaced.
    pub(crate) ghosts: Ghosts,
    /// Its value: an [`ObjectRecord`], [`UploadRecord`] or [`BucketRecord`]; nothing for a grave.
    pub(crate) payload: Bytes,
}

impl Item {
    /// True if it is a bucket's without an entry of its own: it stands on an object's, of whose version nothing
    /// follows.
    pub(crate) fn is_implied(&self) -> bool {
        self.location.length() == 0
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.payload.len());
        out.put_u64_le(self.version);
        self.location.put(&mut out);
        self.ghosts.put(&mut out);
        out.put_slice(&self.payload);
        out
    }

    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let version = input.u64("version")?;
        let location = Location::read(&mut input)?;
        let ghosts = Ghosts::read(&mut input)?;
        let payload = bytes.slice_ref(input.rest());
        Ok(Self { version, location, ghosts, payload })
    }
}

/// The index's record of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectRecord {
    /// Bytes of the object.
    pub(crate) size: u64,
    /// Its bytes are blobs, named by a manifest; else they follow its entry's head.
    pub(crate) large: bool,
    pub(crate) attributes: Attributes,
}

impl ObjectRecord {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        out.put_u64_le(self.size);
        out.put_u8(u8::from(self.large));
        self.attributes.put(&mut out);
        out.into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let size = input.u64("size")?;
        let large = input.u8("shape")? != 0;
        let attributes = Attributes::read(&mut input)?;
        input.end("object record")?;
        Ok(Self { size, large, attributes })
    }
}

/// The index's record of an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadRecord {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) attributes: Attributes,
}

impl UploadRecord {
    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        crate::wire::put_text(&mut out, &self.bucket);
        crate::wire::put_text(&mut out, &self.key);
        self.attributes.put(&mut out);
        out.into()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let (bucket, key) = (input.text("bucket")?, input.text("key")?);
        let attributes = Attributes::read(&mut input)?;
        input.end("upload record")?;
        Ok(Self { bucket, key, attributes })
    }
}

/// The index's record of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketRecord {
    pub(crate) created_unix_ns: u64,
}

impl BucketRecord {
    pub(crate) fn encode(&self) -> Bytes {
        Bytes::copy_from_slice(&self.created_unix_ns.to_le_bytes())
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let created_unix_ns = input.u64("time")?;
        input.end("bucket record")?;
        Ok(Self { created_unix_ns })
    }
}

/// The index's record of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartRecord {
    pub(crate) version: u64,
    pub(crate) location: Location,
    pub(crate) part: BlobRef,
    pub(crate) attributes: Attributes,
}

impl PartRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64_le(self.version);
        self.location.put(&mut out);
        self.part.put(&mut out);
        self.attributes.put(&mut out);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let version = input.u64("version")?;
        let location = Location::read(&mut input)?;
        let part = BlobRef::read(&mut input)?;
        let attributes = Attributes::read(&mut input)?;
        input.end("part record")?;
        Ok(Self { version, location, part, attributes })
    }
}

/// Owner of a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlobState {
    /// A writer that has not committed it. After a restart: nobody.
    Open,
    /// A part of an upload.
    Part,
    /// An object.
    Object,
    /// Nobody: its segments are being forgotten.
    Dead,
}

impl BlobState {
    /// Neither an object nor a part needs the blob.
    pub(crate) fn is_loose(self) -> bool {
        matches!(self, Self::Open | Self::Dead)
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        vec![self as u8]
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        match bytes {
            [0] => Ok(Self::Open),
            [1] => Ok(Self::Part),
            [2] => Ok(Self::Object),
            [3] => Ok(Self::Dead),
            _ => Err(Malformed("blob state")),
        }
    }
}

/// The index's record of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRecord {
    /// The store (drive) it lies on.
    pub store: u64,
    /// Bytes of entries that are needed, graves included.
    pub live_bytes: u64,
    /// Bytes of graves: entries that only say that something is gone.
    pub grave_bytes: u64,
    /// All entries before this are in the index.
    pub indexed: Position,
    /// Its first chunk that is there: a deletion that was interrupted has taken those before.
    pub first: u32,
    /// It is being deleted: nothing in it is needed any more.
    pub dropping: bool,
}

impl FileRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40);
        out.put_u64_le(self.store);
        out.put_u64_le(self.live_bytes);
        out.put_u64_le(self.grave_bytes);
        out.put_u32_le(self.indexed.ordinal);
        out.put_u64_le(self.indexed.offset);
        out.put_u32_le(self.first);
        out.put_u8(u8::from(self.dropping));
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let record = Self {
            store: input.u64("store")?,
            live_bytes: input.u64("live bytes")?,
            grave_bytes: input.u64("grave bytes")?,
            indexed: Position { ordinal: input.u32("position")?, offset: input.u64("position")? },
            first: input.u32("first chunk")?,
            dropping: input.u8("dropping")? != 0,
        };
        input.end("file record")?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ghosts_are_kept_exactly_until_they_are_many_and_then_safely() {
        let mut ghosts = Ghosts::default();
        for file in 1..=Ghosts::FILES_MAX as u64 {
            ghosts.add(file * 10);
            ghosts.add(file * 10);
        }
        let there = [10u64, 15, 500];
        assert!(ghosts.haunt(there.iter(), 0, |file| there.contains(&file)));
        assert!(!ghosts.haunt(there.iter(), 10, |file| there.contains(&file)), "15 and 500 are no ghosts");
        ghosts.add(400);
        assert!(ghosts.haunt(there.iter(), 10, |file| there.contains(&file)), "any file up to 400 counts now");
        assert!(!ghosts.haunt([500u64].iter(), 0, |file| file == 500));
        ghosts.prune(|file| file == 500, Some(500));
        assert_eq!(ghosts, Ghosts::default());
    }
}
