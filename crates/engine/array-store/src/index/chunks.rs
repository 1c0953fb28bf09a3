//! A snapshot's chunks of entries that no index has: for arrays that hold what nobody wrote ([`crate::modelled`]).

use super::PartKey;
use super::wire::{self, END_CHUNK, OBJECTS_CHUNK, PARTS_CHUNK, Previous};
use crate::types::{PartPlace, Version};

/// Entries in their order become chunks: all parts, then all objects.
pub(crate) struct Chunks {
    max_bytes: usize,
    kind: u8,
    number: u64,
    chunk: Vec<u8>,
    previous: Previous,
    parts: u64,
    objects: u64,
}

impl Chunks {
    pub(crate) fn new(max_bytes: usize) -> Self {
        let chunk = wire::begin(PARTS_CHUNK, 0);
        Self { max_bytes, kind: PARTS_CHUNK, number: 0, chunk, previous: Previous::default(), parts: 0, objects: 0 }
    }

    /// Entries so far: parts, and objects.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.parts, self.objects)
    }

    /// Adds a part; the chunk before it, if that is full.
    pub(crate) fn part(&mut self, key: &PartKey, place: &PartPlace) -> Option<Vec<u8>> {
        let full = self.chunk_for(PARTS_CHUNK);
        wire::put_part(&mut self.chunk, (&key.name, key.version.0, key.offset), place, &mut self.previous);
        self.parts += 1;
        full
    }

    /// Adds a complete version of an object; the chunk before it, if that is full.
    pub(crate) fn object(&mut self, name: &[u8], version: Version, size: u64, attributes: &[u8]) -> Option<Vec<u8>> {
        let full = self.chunk_for(OBJECTS_CHUNK);
        wire::put_object(&mut self.chunk, (name, version), size, attributes, &mut self.previous);
        self.objects += 1;
        full
    }

    /// The last chunk that has entries, and the one behind it that says how many there are.
    pub(crate) fn end(mut self) -> [Vec<u8>; 2] {
        let last = self.begin(END_CHUNK);
        wire::put_varint(&mut self.chunk, self.parts);
        wire::put_varint(&mut self.chunk, self.objects);
        [last, self.chunk]
    }

    /// Begins a chunk for entries of that kind, if the present one is full or of the other kind; returns the full one.
    fn chunk_for(&mut self, kind: u8) -> Option<Vec<u8>> {
        (kind != self.kind || self.chunk.len() >= self.max_bytes).then(|| self.begin(kind))
    }

    /// Begins a chunk of that kind; the one before it.
    fn begin(&mut self, kind: u8) -> Vec<u8> {
        self.number += 1;
        (self.kind, self.previous) = (kind, Previous::default());
        std::mem::replace(&mut self.chunk, wire::begin(kind, self.number))
    }
}
