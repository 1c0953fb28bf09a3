//! Each parser of on-disk bytes as a function of arbitrary bytes. None may panic; what comes out is dropped.

use std::hint::black_box;

use bytes::Bytes;
use shingle_array_store::parse as array_parse;
use shingle_base::{ChunkId, StoreId, ZoneId};
use shingle_chunk_store::parse;
use shingle_object_store::format::{ChunkName, Header as EntryHeader, Place as EntryPlace, read_backup_piece};
use shingle_record::{DataInfo, Expect, Header, SlicePlan, Superblock, extract, parse_journal, read_zone_head};
use shingle_zoned::parse_file_device;

/// A parser by name.
pub type Parser = (&'static str, fn(&[u8]));

/// All of them.
pub const ALL: [Parser; 13] = [
    ("record_header", record_header),
    ("zone_head", zone_head),
    ("slices", slices),
    ("superblock", superblock),
    ("journal", journal),
    ("object_entry", object_entry),
    ("index_backup", index_backup),
    ("chunk_metadata", chunk_metadata),
    ("file_device", file_device),
    ("array", array),
    ("array_snapshot", array_snapshot),
    ("array_buffer", array_buffer),
    ("array_objects", array_objects),
];

/// The chunk whose slices [`slices`] expects.
pub const CHUNK: ChunkId = ChunkId([7; 24]);

/// Where [`object_entry`] expects its entry.
pub const PLACE: EntryPlace = EntryPlace { set: 1, file: 2, ordinal: 3, offset: 0 };

/// A record's header, and then its payload.
pub fn record_header(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes, &Expect::default()) {
        black_box(header.blocks());
        black_box(DataInfo::decode(&header.info));
        black_box(header.verify_payload(bytes).is_ok());
    }
}

/// The record that opens a zone.
pub fn zone_head(bytes: &[u8]) {
    black_box(read_zone_head(bytes, None, ZoneId(1)).is_ok());
    black_box(read_zone_head(bytes, Some(StoreId(1)), ZoneId(1)).is_ok());
}

/// Three numbers for length and range, then the record's bytes.
pub fn slices(bytes: &[u8]) {
    let Some((numbers, raw)) = bytes.split_first_chunk::<12>() else { return };
    let (numbers, _) = numbers.as_chunks::<4>();
    let number = |at: usize| numbers.get(at).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let plan = SlicePlan::new(number(0), number(1), number(2));
    let mut out = Vec::new();
    black_box(extract(&plan, raw, CHUNK, 0, &mut out).is_ok());
    assert!(out.len() as u64 <= raw.len() as u64, "more came out than went in");
}

/// A copy of the superblock.
pub fn superblock(bytes: &[u8]) {
    black_box(Superblock::parse(bytes, ZoneId(0), 0).is_ok());
}

/// The payload of a journal record, and the entries in it.
pub fn journal(bytes: &[u8]) {
    black_box(parse_journal(&Bytes::copy_from_slice(bytes)));
}

/// An entry of an object file: its header, then keys and metadata. Chunk names, too.
pub fn object_entry(bytes: &[u8]) {
    if let Ok(header) = EntryHeader::decode(bytes, PLACE) {
        black_box(header.length());
        black_box(header.decode_head(bytes).is_ok());
    }
    if let Some((id, _)) = bytes.split_first_chunk::<24>() {
        black_box(ChunkName::parse(ChunkId(*id)));
    }
}

/// A piece of the index's backup.
pub fn index_backup(bytes: &[u8]) {
    black_box(read_backup_piece(bytes, 2, 1).is_ok());
}

/// Superblock, journal entries and checkpoint parts of the chunk store.
pub fn chunk_metadata(bytes: &[u8]) {
    black_box(parse::superblock(bytes) | parse::journal_entry(bytes) | parse::checkpoint_part(bytes));
}

/// The header and the zone table of a drive's file.
pub fn file_device(bytes: &[u8]) {
    black_box(parse_file_device(bytes));
}

/// Superblock, digest, tombstones and marker of an array.
pub fn array(bytes: &[u8]) {
    black_box(array_parse::superblock(bytes) | array_parse::digest(bytes));
    black_box(array_parse::tombstones(bytes) | array_parse::marker(bytes));
}

/// Chunks of the snapshot of an array's index.
pub fn array_snapshot(bytes: &[u8]) {
    black_box(array_parse::snapshot(bytes));
}

/// A file of an array's buffer.
pub fn array_buffer(bytes: &[u8]) {
    black_box(array_parse::buffer(bytes));
}

/// Attributes and names of what an array holds for buckets.
pub fn array_objects(bytes: &[u8]) {
    black_box(shingle_array_objects::parse::attributes(bytes) | shingle_array_objects::parse::name(bytes));
}
