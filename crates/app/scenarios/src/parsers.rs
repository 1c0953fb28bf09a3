//! Each parser of on-disk bytes as a function of arbitrary bytes, which says whether they made sense. None may panic.

use std::hint::black_box;

use bytes::Bytes;
use shingle_array_store::parse as array_parse;
use shingle_base::{BLOCK_SIZE, BufferPool, ChunkId, StoreId, ZoneId};
use shingle_blue_store::parse as blue_parse;
use shingle_chunk_store::parse;
use shingle_object_store::format::{ChunkName, EntryPlace, Header as EntryHeader, read_backup_piece};
use shingle_record::parse as log_parse;
use shingle_record::{
    DataInfo, Expect, Header, Name, NameKind, Numbering, Pair, PairFramer, RecordPlace, RecordType, SlicePlan,
    Superblock, extract, judge_pair, parse_journal, read_zone_head,
};
use shingle_translation::parse as volume_parse;
use shingle_zone_files::parse as files_parse;
use shingle_zoned::parse_file_device;

/// A parser by name.
pub type Parser = (&'static str, fn(&[u8]) -> bool);

/// All of them.
pub const ALL: [Parser; 46] = [
    ("record_header", record_header),
    ("zone_head", zone_head),
    ("slices", slices),
    ("pair", pair),
    ("superblock", superblock),
    ("journal", journal),
    ("log_end_mark", log_parse::end_mark),
    ("log_link", log_parse::link),
    ("log_journal_record", log_parse::journal_record),
    ("log_zone_head", log_parse::zone_head),
    ("object_entry", object_entry),
    ("chunk_name", chunk_name),
    ("index_backup", index_backup),
    ("index_row", shingle_object_store::parse::row),
    ("chunk_superblock", parse::superblock),
    ("chunk_journal_entry", parse::journal_entry),
    ("chunk_checkpoint_part", parse::checkpoint_part),
    ("partitions_superblock", shingle_partitions::parse_superblock),
    ("partition_table", shingle_partitions::parse_table),
    ("volume_superblock", volume_parse::superblock),
    ("volume_journal_entry", volume_parse::journal_entry),
    ("volume_checkpoint_part", volume_parse::checkpoint_part),
    ("files_superblock", files_parse::superblock),
    ("files_operations", files_parse::operations),
    ("blue_superblock", blue_parse::superblock),
    ("blue_key", blue_parse::key),
    ("blue_head", blue_parse::head),
    ("blue_extents", blue_parse::extents),
    ("blue_value", blue_parse::value),
    ("blue_zone_merge", blue_parse::zone_merge),
    ("blue_packed", blue_parse::packed),
    ("blue_log_record", blue_parse::record),
    ("blue_objects_value", shingle_blue_objects::parse::value),
    ("blue_objects_key", shingle_blue_objects::parse::key),
    ("file_device", file_device),
    ("array_superblock", array_parse::superblock),
    ("array_superblock_chain", array_parse::superblock_chain),
    ("array_digest", array_parse::digest),
    ("array_tombstones", array_parse::tombstones),
    ("array_marker", array_parse::marker),
    ("array_set_head", array_parse::set_head),
    ("array_trailer", array_parse::trailer),
    ("array_snapshot", array_snapshot),
    ("array_buffer", array_buffer),
    ("array_attributes", shingle_array_objects::parse::attributes),
    ("array_name", shingle_array_objects::parse::name),
];

/// The chunk whose slices [`slices`] expects.
pub const CHUNK: ChunkId = ChunkId([7; 24]);

/// A record's header, and then its payload.
pub fn record_header(bytes: &[u8]) -> bool {
    let Ok(header) = Header::decode(bytes, &Expect::default()) else { return false };
    black_box(header.blocks());
    black_box(DataInfo::decode(&header.info));
    header.verify_payload(bytes).is_ok()
}

/// The record that opens a zone.
pub fn zone_head(bytes: &[u8]) -> bool {
    read_zone_head(bytes, None, ZoneId(1)).is_ok() | read_zone_head(bytes, Some(StoreId(1)), ZoneId(1)).is_ok()
}

/// Three numbers for length and range, then the record's bytes.
pub fn slices(bytes: &[u8]) -> bool {
    let Some((numbers, raw)) = bytes.split_first_chunk::<12>() else { return false };
    let (numbers, _) = numbers.as_chunks::<4>();
    let number = |at: usize| numbers.get(at).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let plan = SlicePlan::new(number(0), number(1), number(2));
    let mut out = Vec::new();
    let whole = extract(&plan, raw, CHUNK, 0, &mut out).is_ok();
    assert!(out.len() as u64 <= raw.len() as u64, "more came out than went in");
    whole
}

/// The blocks of a pair, at the place that its header or trailer names.
pub fn pair(bytes: &[u8]) -> bool {
    let last = bytes.len().saturating_sub(1) / BLOCK_SIZE * BLOCK_SIZE;
    let back = bytes.get(last..).and_then(|block| Pair::from_back(block, &Expect::default()).ok());
    let Some(pair) = Pair::from_front(bytes, &Expect::default()).ok().or(back) else { return false };
    let blocks: Vec<_> = bytes.chunks(BLOCK_SIZE).map(|block| Some(Bytes::copy_from_slice(block))).collect();
    let judged = judge_pair(&blocks, &pair.place);
    assert!(judged.damaged.len() + judged.unreadable.len() <= blocks.len(), "more slices than blocks");
    judged.is_whole()
}

/// Input of [`pair`]: one with two names, and data of 5,120 bytes.
pub fn sample_pair() -> Vec<u8> {
    let name = |lba, sectors, kind, number| Name { lba, sectors, kind, number };
    let pair = Pair {
        kind: RecordType(0x0401),
        place: RecordPlace { store: StoreId(1), epoch: 9, zone: ZoneId(1), block: 1 },
        sequence: 12,
        sector_shift: 9,
        durable: 0,
        next: None,
        numbering: Numbering::Consecutive,
        names: vec![name(100, 10, NameKind::Data, 12), name(7, 3, NameKind::Discarded, 13)],
    };
    let pool = BufferPool::new(0);
    let mut framer = PairFramer::new(pair, &pool);
    framer.extend(&[5; 5120]);
    framer.finish(&pool).to_vec()
}

/// A copy of the superblock.
pub fn superblock(bytes: &[u8]) -> bool {
    Superblock::parse(bytes, ZoneId(0), 0).is_ok()
}

/// A record of a metadata log.
pub fn log_record(bytes: &[u8]) -> bool {
    log_parse::end_mark(bytes) | log_parse::link(bytes) | log_parse::journal_record(bytes) | log_parse::zone_head(bytes)
}

/// The payload of a journal record, and the entries in it.
pub fn journal(bytes: &[u8]) -> bool {
    parse_journal(&Bytes::copy_from_slice(bytes)).is_some()
}

/// `N` bytes at a place; zeros behind the end.
fn at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// An entry of an object file, at the place that it names: its header, then keys and metadata.
pub fn object_entry(bytes: &[u8]) -> bool {
    let place = EntryPlace {
        set: u32::from_le_bytes(at(bytes, 28)),
        file: u64::from_le_bytes(at(bytes, 16)),
        ordinal: u32::from_le_bytes(at(bytes, 24)),
        offset: u64::from_le_bytes(at(bytes, 32)),
    };
    let Ok(header) = EntryHeader::decode(bytes, place) else { return false };
    black_box(header.length());
    let head = bytes.get(56..).and_then(|rest| rest.get(..header.head as usize));
    head.is_some_and(|head| header.decode_head(head).is_ok())
}

/// The name of a chunk of an object file.
pub fn chunk_name(bytes: &[u8]) -> bool {
    bytes.split_first_chunk::<24>().is_some_and(|(id, _)| ChunkName::parse(ChunkId(*id)).is_some())
}

/// A piece of the index's backup that it names.
pub fn index_backup(bytes: &[u8]) -> bool {
    read_backup_piece(bytes, u64::from_le_bytes(at(bytes, 8)), u32::from_le_bytes(at(bytes, 16))).is_ok()
}

/// Superblock, journal entries and checkpoint parts of the chunk store.
pub fn chunk_metadata(bytes: &[u8]) -> bool {
    parse::superblock(bytes) | parse::journal_entry(bytes) | parse::checkpoint_part(bytes)
}

/// The header and the zone table of a drive's file.
pub fn file_device(bytes: &[u8]) -> bool {
    parse_file_device(bytes)
}

/// Superblock, its base, digest, tombstones, marker, head and trailer of an array.
pub fn array(bytes: &[u8]) -> bool {
    let superblock = array_parse::superblock(bytes) | array_parse::superblock_chain(bytes);
    let small = array_parse::set_head(bytes) | array_parse::trailer(bytes) | array_parse::marker(bytes);
    superblock | small | array_parse::digest(bytes) | array_parse::tombstones(bytes)
}

/// Chunks of the snapshot of an array's index.
pub fn array_snapshot(bytes: &[u8]) -> bool {
    array_parse::snapshot(bytes)
}

/// A file of an array's buffer.
pub fn array_buffer(bytes: &[u8]) -> bool {
    array_parse::buffer(bytes)
}

/// Attributes and names of what an array holds for buckets.
pub fn array_objects(bytes: &[u8]) -> bool {
    shingle_array_objects::parse::attributes(bytes) | shingle_array_objects::parse::name(bytes)
}

/// Input of `array_superblock_chain`, made by hand: a piece of a base with one set, and the superblock behind it, which
/// changes that set.
pub fn array_chain() -> Vec<u8> {
    let set =
        [&[4, 1][..], &5u64.to_le_bytes(), &6u32.to_le_bytes(), &7u32.to_le_bytes(), &[0xff; 4], &[0, 3, 0, 0, 0]]
            .concat();
    let piece = [&[0; 5][..], &7u32.to_le_bytes(), &[0; 4], &1u32.to_le_bytes(), &set].concat();
    let fields =
        [&[1][..], &7u32.to_le_bytes(), &7u64.to_le_bytes(), &8u64.to_le_bytes(), &[2, 1], &[9; 4], &[0; 49], &[0; 4]]
            .concat();
    let drive = [&1u32.to_le_bytes()[..], &[1; 8], &[0], &[4; 16], &1u16.to_le_bytes(), b"d"].concat();
    let base = [&1u64.to_le_bytes()[..], &0u32.to_le_bytes(), &1u32.to_le_bytes(), &0u64.to_le_bytes()].concat();
    let changes = [&1u32.to_le_bytes()[..], &0u32.to_le_bytes(), &set].concat();
    let update = [fields, drive, base, changes].concat();
    let framed = |record: Vec<u8>| [&(record.len() as u32).to_le_bytes()[..], &record].concat();
    [framed(piece), framed(update)].concat()
}
