//! Reading an object: its newest complete version, streamed. (SMORE, section III-F.2.)

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use shingle_store_api::Named;

use crate::buffer::BUFFER_SET;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::object::naming::quoted;
use crate::object::put::check_name;
use crate::segment::{Fault, FaultKind, For, Shape, Source};
use crate::stats::add;
use crate::types::{PartPlace, Version};
use crate::zone_set::Pin;

/// An object, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its name.
    pub name: Bytes,
    /// Its newest complete version.
    pub version: Version,
    /// Its bytes.
    pub size: u64,
    /// Its writer's attributes.
    pub attributes: Bytes,
}

/// One version of an object, open for reading: it stays readable whatever happens to the object meanwhile.
pub struct Reader {
    engine: Rc<Engine>,
    object: Object,
    /// Offsets in the object and places, in order.
    parts: Vec<(u64, PartPlace)>,
    /// The bytes of an object that is buffered.
    buffered: Option<Bytes>,
    _pins: Vec<Pin>,
}

impl Reader {
    pub(crate) fn open(engine: &Rc<Engine>, name: &Bytes) -> Result<Self> {
        engine.running()?;
        check_name(name)?;
        let Some(entry) = engine.index()?.object(name).map_err(Error::index)? else { return Err(not_found(name)) };
        let parts = engine.index()?.parts(name, entry.version, 0, usize::MAX).map_err(Error::index)?;
        let mut sets: Vec<_> = parts.iter().map(|(_, place)| place.set).collect();
        sets.sort_unstable();
        sets.dedup();
        let pins = sets.into_iter().filter_map(|set| engine.sets.pin(set)).collect();
        let object =
            Object { name: name.clone(), version: entry.version, size: entry.size, attributes: entry.attributes };
        let buffered = match parts.first() {
            Some((_, place)) if place.set == BUFFER_SET => {
                engine.buffering.buffer.borrow().as_ref().and_then(|buffer| buffer.bytes_of(place.stamp))
            }
            _ => None,
        };
        Ok(Self { engine: engine.clone(), object, parts, buffered, _pins: pins })
    }

    /// The object's attributes.
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Up to `length` bytes from `offset`: as many as the segment there holds. Verified; reconstructed where fragments
    /// fail, as long as parity makes up for them.
    ///
    /// # Errors
    /// `OutOfRange` if `offset` is not in the object; `Corrupt` or `Device` if too many fragments fail.
    pub async fn read(&self, offset: u64, length: u64) -> Result<Bytes> {
        let size = self.object.size;
        if offset >= size {
            return Err(Error::new(
                ErrorKind::OutOfRange,
                format!("offset {offset} is past the object's {size} bytes"),
            ));
        }
        let at = self.parts.partition_point(|(start, place)| start + u64::from(place.length) <= offset);
        let Some((start, place)) = self.parts.get(at).filter(|(start, _)| *start <= offset) else {
            return Err(Error::new(ErrorKind::Corrupt, format!("the index has no part for offset {offset}")));
        };
        let from = (offset - start) as u32;
        let length = length.min(u64::from(place.length - from)) as u32;
        if let Some(bytes) = &self.buffered {
            return Ok(bytes.slice(from as usize..(from + length) as usize));
        }
        self.engine.read_place(place, from, length).await
    }

    /// End of the segment that `offset` lies in: the next read may begin there.
    pub fn segment_end(&self, offset: u64) -> Option<u64> {
        let at = self.parts.partition_point(|(start, place)| start + u64::from(place.length) <= offset);
        self.parts.get(at).map(|(start, place)| start + u64::from(place.length))
    }
}

impl Engine {
    /// An object's name in reports.
    pub(crate) fn named(&self, name: &[u8]) -> Result<Named> {
        let object = self.index()?.object(name).map_err(Error::index)?;
        let attributes = object.map(|object| object.attributes).unwrap_or_default();
        Ok((self.options.naming.0)(name, &attributes))
    }

    /// A whole part, to be written elsewhere.
    pub(crate) async fn read_to_copy(self: &Rc<Self>, place: &PartPlace) -> Result<Bytes> {
        self.read_for(For::Copy, place, 0, place.length).await
    }

    /// `length` bytes from `from` bytes into a part.
    pub(crate) async fn read_place(self: &Rc<Self>, place: &PartPlace, from: u32, length: u32) -> Result<Bytes> {
        self.read_for(For::Client, place, from, length).await
    }

    async fn read_for(self: &Rc<Self>, reader: For, place: &PartPlace, from: u32, length: u32) -> Result<Bytes> {
        if length == 0 {
            return Ok(Bytes::new());
        }
        let Some(set) = self.sets.get(place.set) else {
            return Err(Error::new(ErrorKind::Corrupt, format!("the index names {}, which does not exist", place.set)));
        };
        let members = self.framing.rotation.in_order(set.ordered_members(place.set), place.block);
        let shape = Shape::new(self.code, place.segment_length);
        let source = Source { drives: &self.drives, paces: &self.paces, members: &members, place, shape };
        let mut faults = Vec::new();
        let found =
            self.framing.payload(set.state()).part(&self.framing, &source, (from, length), reader, &mut faults).await;
        self.note_faults(place, &faults);
        match found {
            Some(bytes) => {
                if !faults.is_empty() {
                    add(&self.counters.reconstructed, u64::from(length));
                }
                Ok(bytes)
            }
            None => Err(self.unreadable(place, &faults)),
        }
    }

    /// The error of a segment of which too few fragments can be had: `Corrupt` if drives that are there lost too many of them, for then nothing
    /// brings it back; else `Device`, for with the other drives it may be read.
    pub(crate) fn unreadable(&self, place: &PartPlace, faults: &[Fault]) -> Error {
        let is_bad = |fault: &&Fault| fault.kind == FaultKind::Bad && self.drives.usable(fault.drive).is_some();
        let bad: BTreeSet<usize> = faults.iter().filter(is_bad).map(|fault| fault.fragment).collect();
        let lost = bad.len() > self.code.parity();
        let (kind, hope) = match lost {
            true => (ErrorKind::Corrupt, ""),
            false => (ErrorKind::Device, ". Once drives that are away, or do not answer, are back, it may be readable"),
        };
        // One that fails its reader, and then whoever computes another from it, is told once.
        let mut each: BTreeMap<usize, &Fault> = BTreeMap::new();
        for fault in faults {
            each.entry(fault.fragment).or_insert(fault);
        }
        let whys = each.values().map(|fault| format!("{}: {}", self.drives.name(fault.drive), fault.why));
        let whys: Vec<String> = whys.collect();
        let message = format!(
            "{} fragments of the segment at block {} of {} failed, and parity makes up for {}: {}{hope}",
            each.len(),
            place.block,
            place.set,
            self.code.parity(),
            whys.join("; ")
        );
        Error::new(kind, message)
    }
}

pub(crate) fn not_found(name: &[u8]) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no object {}", quoted(name)))
}
