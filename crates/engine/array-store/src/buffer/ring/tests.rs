//! Files of the buffer as bytes: golden ones, torn ones, rotten ones.

use super::*;

const ID: u64 = 4;

fn head() -> FileHead {
    FileHead {
        array: StoreId(3),
        id: ID,
        generation: 5,
        number: 6,
        ring: u64::from(RING_MIN),
        first: Cursor { position: 7 * u64::from(RING_MIN), sequence: 90, previous: 17 },
    }
}

fn name(name: &'static str) -> Bytes {
    Bytes::from_static(name.as_bytes())
}

fn entries() -> [Entry; 4] {
    let completion = Completion { size: 4, attributes: name("at") };
    [
        Entry::Put { name: name("a"), version: Version(7), completion, data: name("data") },
        Entry::Delete { name: name("a"), version: Version(9) },
        Entry::Put {
            name: name("empty"),
            version: Version(8),
            completion: Completion { size: 0, attributes: Bytes::new() },
            data: Bytes::new(),
        },
        Entry::Delete { name: name("last"), version: Version(11) },
    ]
}

/// Writes records one behind the other, all in one write or each in its own. Returns the place of the next one.
fn write(file: &mut Vec<u8>, id: u64, mut at: Cursor, entries: &[Entry], together: bool) -> Cursor {
    let batch = at.sequence;
    for entry in entries {
        at = at.fitting(entry.length(), head().ring);
        let mut record = Vec::new();
        let crc = entry.encode(&at, id, if together { batch } else { at.sequence }, &mut record);
        let start = head().offset(at.position) as usize;
        file.resize(file.len().max(start + record.len()), 0);
        file[start..start + record.len()].copy_from_slice(&record);
        at = Cursor { position: at.position + entry.length(), sequence: at.sequence + 1, previous: crc };
    }
    at
}

fn file(together: bool) -> Vec<u8> {
    let (at, mut out) = (head().encode(), Vec::new());
    out.resize(RING as usize, 0);
    out[at.0 as usize..][..at.1.len()].copy_from_slice(&at.1);
    write(&mut out, ID, head().first, &entries(), together);
    out
}

fn found(file: &[u8]) -> Log {
    walk(&head(), &[Bytes::copy_from_slice(file)])
}

fn said(log: &Log) -> Vec<Entry> {
    log.records.iter().map(|logged| logged.entry.clone()).collect()
}

/// AS-RING-3.
#[test]
fn a_file_comes_back_and_the_newer_head_counts() {
    let mut bytes = file(true);
    assert_eq!(parse(&bytes), Kind::Buffer(head()));
    let log = found(&bytes);
    assert_eq!((said(&log), log.lost), (entries().to_vec(), 0));
    let length = entries().iter().map(Entry::length).sum::<u64>();
    assert_eq!((log.end.position, log.end.sequence), (head().first.position + length, 94));
    let newer = FileHead { number: 7, first: log.end, ..head() };
    bytes[BLOCK as usize..RING as usize].copy_from_slice(&newer.encode().1);
    assert_eq!(parse(&bytes), Kind::Buffer(newer));
    // A power cut tore it.
    bytes[BLOCK as usize + 20] ^= 1;
    assert_eq!(parse(&bytes), Kind::Buffer(head()));
}

/// The bytes of version 02.
#[test]
fn golden_bytes() {
    assert_eq!(crc32c(&file(true)), GOLDEN);
    assert_eq!(&file(true)[..8], b"SHGABF02");
}
const GOLDEN: u32 = 3_003_636_023;

#[test]
fn the_version_before_is_known_and_not_read() {
    let mut before = MAGIC_BEFORE.to_vec();
    [3u64, 4, 5, 1 << 20].iter().for_each(|number| before.extend_from_slice(&number.to_le_bytes()));
    before.extend_from_slice(&crc32c(&before).to_le_bytes());
    assert_eq!(parse(&before), Kind::Before(StoreId(3)));
    before[9] ^= 1;
    assert_eq!(parse(&before), Kind::None);
}

#[test]
fn a_torn_end_or_a_flipped_bit_of_one_write_ends_the_log_there() {
    let whole = file(true);
    let start = RING as usize;
    for length in start..whole.len() {
        let log = found(&whole[..length]);
        assert!(log.records.len() < 4 && entries().starts_with(&said(&log)) && log.lost == 0);
    }
    for bit in start * 8..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let log = found(&bytes);
        assert!(log.records.len() < 4 && entries().starts_with(&said(&log)) && log.lost == 0, "bit {bit}");
    }
}

/// AS-RING-2: each record was durable before the next was written, so a gap is no torn write.
#[test]
fn a_record_that_rots_is_told_and_costs_no_other() {
    let whole = file(false);
    let ends: Vec<usize> = found(&whole)
        .records
        .iter()
        .map(|logged| (head().offset(logged.at.position) + logged.entry.length()) as usize)
        .collect();
    for bit in RING as usize * 8..ends[2] * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let which = ends.iter().filter(|end| **end <= bit / 8).count();
        let mut left = entries().to_vec();
        left.remove(which);
        let log = found(&bytes);
        assert_eq!((said(&log), log.lost), (left.clone(), 1), "bit {bit}");
        // The other file has it, and lacks another one.
        let other = (which + 1) % 3;
        let mut second = whole.clone();
        second[ends[other] - 1] ^= 1;
        let both = walk(&head(), &[bytes.into(), second.into()]);
        assert_eq!((said(&both), both.lost), (entries().to_vec(), 0), "bit {bit}");
        assert_eq!((&both.records[which].files[..], &both.records[other].files[..]), (&[1][..], &[0][..]));
    }
}

/// AS-RING-2: a later write proves that all of the one before was durable, also what lies behind its rotten record.
#[test]
fn what_was_written_together_with_a_record_that_rots_still_counts() {
    let all = entries();
    let mut bytes = Vec::new();
    let end = write(&mut bytes, ID, head().first, &all[..3], true);
    write(&mut bytes, ID, end, &all[3..], true);
    let whole = found(&bytes);
    assert_eq!((said(&whole), whole.lost), (all.to_vec(), 0));
    for rotten in 0..3 {
        let mut bytes = bytes.clone();
        bytes
            [(head().offset(whole.records[rotten].at.position) + whole.records[rotten].entry.length()) as usize - 1] ^=
            1;
        let log = found(&bytes);
        let mut left = all.to_vec();
        left.remove(rotten);
        assert_eq!((said(&log), log.lost), (left, 1), "record {rotten}");
    }
}

/// A torn write left a whole record behind a gap; a record of the gap's length is written into it.
#[test]
fn what_lies_behind_a_gap_never_counts() {
    let mut bytes = file(true);
    let first = found(&bytes).records[1].at;
    let other = Entry::Delete { name: name("b"), version: Version(10) };
    write(&mut bytes, ID, first, std::slice::from_ref(&other), false);
    let log = found(&bytes);
    assert_eq!((said(&log), log.lost), (vec![entries()[0].clone(), other], 0));
}

/// AS-RING-1: the same records, from a buffer that had this file before.
#[test]
fn records_of_a_former_buffer_do_not_count() {
    let mut bytes = file(false);
    assert_eq!(walk(&FileHead { id: ID + 1, ..head() }, &[Bytes::copy_from_slice(&bytes)]).records, []);
    // Nor behind the records of this one.
    let other = Entry::Delete { name: name("as long"), version: Version(10) };
    assert_eq!(other.length(), entries()[0].length());
    write(&mut bytes, ID + 1, head().first, std::slice::from_ref(&other), false);
    assert_eq!(said(&walk(&FileHead { id: ID + 1, ..head() }, &[bytes.into()])), [other]);
}

#[test]
fn the_log_goes_on_at_the_start_of_the_ring() {
    let head = FileHead { first: Cursor { position: 8 * u64::from(RING_MIN) - 100, ..head().first }, ..head() };
    let mut bytes = Vec::new();
    write(&mut bytes, ID, head.first, &entries(), false);
    let log = walk(&head, &[bytes.into()]);
    assert_eq!((said(&log), log.lost), (entries().to_vec(), 0));
    assert_eq!(log.records[1].at.position, 8 * u64::from(RING_MIN));
}
