//! Every parser of on-disk bytes, over random bytes and over real ones that were damaged: none panics (SC-PARSE-1).

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use shingle_base::{BufferPool, StoreId, ZoneId, crc32c};
use shingle_record::{
    INFO_SIZE, RecordPlace, RecordType, SUPERBLOCK, Superblock, ZONE_HEAD, frame, frame_sliced, frame_zone_head,
};
use shingle_runtime::UnixTime;
use shingle_scenarios::parsers::{ALL, CHUNK, Parser, array_chain, sample_pair};

/// Inputs of each kind for each parser.
const INPUTS: u64 = 4000;

const ORIGIN: RecordPlace = RecordPlace { store: StoreId(1), epoch: 9, zone: ZoneId(1), block: 0 };

/// Real bytes, one for each kind of record.
fn specimens() -> Vec<Vec<u8>> {
    let journal: Vec<u8> = (0..40u64)
        .flat_map(|sequence| {
            let length = (sequence % 7) as u32;
            [sequence.to_le_bytes().to_vec(), length.to_le_bytes().to_vec(), vec![1; length as usize]].concat()
        })
        .collect();
    let data = Bytes::from(vec![3u8; 10_000]);
    let sliced = frame_sliced(RecordType(0x0101), &ORIGIN, 10, CHUNK, 0, &[data], &BufferPool::new(0));
    let range = [10_000u32, 100, 9_000].iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let superblock = RecordPlace { epoch: 0, zone: ZoneId(0), ..ORIGIN };
    vec![
        frame(RecordType(0x0201), &ORIGIN, 11, [1; INFO_SIZE], &[&journal]).to_vec(),
        frame_zone_head(StoreId(1), 9, ZoneId(1), 0x0100, UnixTime { nanos: 5 }).to_vec(),
        frame(SUPERBLOCK, &superblock, 0, [2; INFO_SIZE], &[b"payload"]).to_vec(),
        [range, sliced.to_vec()].concat(),
        sliced.to_vec(),
        sample_pair(),
        journal,
        array_digest(),
        array_chain(),
        array_snapshot(),
        buffer_record(),
        manifest(),
    ]
}

/// The digest of a zone set with one segment of one object.
fn array_digest() -> Vec<u8> {
    let name = b"films/one";
    let mut part = (name.len() as u16).to_le_bytes().to_vec();
    part.extend_from_slice(name);
    part.extend_from_slice(&[7; 8]);
    part.extend_from_slice(&[0; 12]);
    part.extend_from_slice(&1000u32.to_le_bytes());
    part.push(0);
    let body = [&1000u32.to_le_bytes()[..], &[5, 1], &1u32.to_le_bytes(), &part].concat();
    let head = [&[1][..], &1u32.to_le_bytes(), &9u64.to_le_bytes(), &(body.len() as u32).to_le_bytes()].concat();
    [head, body].concat()
}

/// The end of a snapshot of nothing.
fn array_snapshot() -> Vec<u8> {
    [&12u32.to_le_bytes()[..], b"SHGAIS01", &[3, 0, 0, 0]].concat()
}

/// A record of an object in an array's buffer; its checksum is another matter.
fn buffer_record() -> Vec<u8> {
    let lengths = [&3u16.to_le_bytes()[..], &2u32.to_le_bytes(), &4u32.to_le_bytes()].concat();
    [&[0; 32][..], &[1], &[5; 8], &lengths, b"one", b"at", b"data"].concat()
}

/// The attributes of an object in two parts.
fn manifest() -> Vec<u8> {
    let parts = [1u8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0].repeat(2);
    let head = [1, 2, 5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, b'e', 0, 0, 0, 0, 2, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0];
    [&head[..], &parts].concat()
}

fn try_all(seed: u64, bytes: &[u8]) {
    for (name, parse) in ALL {
        let parse: Parser = (name, parse);
        let outcome = catch_unwind(AssertUnwindSafe(|| (parse.1)(bytes)));
        assert!(outcome.is_ok(), "{name} panicked on {} bytes of seed {seed}", bytes.len());
    }
}

fn below(random: &mut impl Rng, limit: usize) -> usize {
    (random.next_u64() % limit.max(1) as u64) as usize
}

#[test]
fn random_bytes_make_no_parser_panic() {
    for seed in 0..INPUTS {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut bytes = vec![0; below(&mut random, if seed % 50 == 0 { 20_000 } else { 300 })];
        random.fill_bytes(&mut bytes);
        try_all(seed, &bytes);
    }
}

#[test]
fn damaged_records_make_no_parser_panic() {
    let specimens = specimens();
    for seed in 0..INPUTS {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut bytes = specimens[below(&mut random, specimens.len())].clone();
        for _ in 0..=below(&mut random, 4) {
            let at = below(&mut random, if seed % 2 == 0 { 96 } else { bytes.len() }).min(bytes.len() - 1);
            bytes[at] ^= random.next_u64() as u8;
        }
        if seed % 3 == 0 {
            bytes.truncate(below(&mut random, bytes.len()));
        }
        // With the header's checksum made right again, what lies behind it is reached.
        if seed % 4 != 0 && bytes.len() >= 96 {
            let crc = crc32c(&bytes[..92]);
            bytes[92..96].copy_from_slice(&crc.to_le_bytes());
        }
        try_all(seed, &bytes);
    }
}

#[test]
fn what_is_whole_is_read() {
    let [_, head, superblock, ..] = &specimens()[..] else { unreachable!("there are specimens") };
    assert!(shingle_record::read_zone_head(head, Some(StoreId(1)), ZoneId(1)).is_ok());
    assert_eq!(
        Superblock::parse(superblock, ZoneId(0), 0).map(|read| read.payload),
        Ok(Bytes::from_static(b"payload"))
    );
    assert_ne!(SUPERBLOCK, ZONE_HEAD);
    use shingle_array_store::parse;
    assert!(parse::superblock_chain(&array_chain()));
    assert!(parse::digest(&array_digest()) && parse::snapshot(&array_snapshot()) && parse::buffer(&buffer_record()));
    assert!(shingle_array_objects::parse::attributes(&manifest()));
}
