use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, Blocks, BufferPool, StoreId, ZoneId, crc32c};
use shingle_sim::{Random, seeds};

use super::*;
use crate::header::{Expect, FrameError, HEADER_SIZE, Header, RecordPlace, RecordType};

const PLACE: RecordPlace = RecordPlace { store: StoreId(7), epoch: 9, zone: ZoneId(3), block: 5 };

fn name(lba: u64, sectors: u32, kind: NameKind, number: u64) -> Name {
    Name { lba, sectors, kind, number }
}

/// A pair of 4 KiB sectors with such names, numbered from 40.
fn pair(names: &[(u64, u32, NameKind)]) -> Pair {
    let names = names.iter().zip(40..).map(|(&(lba, sectors, kind), number)| name(lba, sectors, kind, number));
    Pair {
        kind: RecordType(0x0401),
        place: PLACE,
        sequence: 40,
        sector_shift: 12,
        durable: 4,
        next: None,
        numbering: Numbering::Consecutive,
        names: names.collect(),
    }
}

fn data(length: u64) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + at / 256) as u8).collect()
}

fn framed(pair: &Pair) -> Bytes {
    let pool = BufferPool::new(0);
    let mut framer = PairFramer::new(pair.clone(), &pool);
    // In uneven pieces, as they come from a socket.
    data(pair.length()).chunks(1500).for_each(|piece| framer.extend(piece));
    framer.finish(&pool)
}

fn blocks_of(record: &Bytes) -> Vec<Option<Bytes>> {
    (0..record.len()).step_by(BLOCK_SIZE).map(|at| Some(record.slice(at..at + BLOCK_SIZE))).collect()
}

fn sample() -> Pair {
    let names = [(100, 2, NameKind::Data), (7, 9, NameKind::Discarded), ((1 << 48) - 1, 1, NameKind::Data)];
    Pair { next: Some(NextZone { zone: ZoneId(8), epoch: 77 }), ..pair(&names) }
}

#[test]
fn header_trailer_and_checks_take_one_block_up_to_1_mib() {
    assert_eq!([0, 1, 4096, 4097, 1 << 20].map(pair_blocks), [2, 2, 2, 3, 257].map(Blocks));
    assert_eq!(pair_blocks(500 << 10).bytes(), (500 << 10) + 4096);
    assert_eq!(pair_blocks(u64::from(PAIR_SLICES_MAX) * 4096).0, u64::from(PAIR_SLICES_MAX) + 1);
}

#[test]
fn a_pair_has_its_golden_bytes() {
    let record = framed(&sample());
    assert_eq!(record.len(), 4 * BLOCK_SIZE);
    let hex: String = record[HEADER_SIZE..HEADER_SIZE + 24].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "640000000000020000000000070000000000090000000200");
    assert_eq!(crc32c(&record), GOLDEN);
}

#[test]
fn a_hollow_pair_is_as_long_and_a_device_without_payload_keeps_its_names() {
    let (pair, record) = (sample(), framed(&sample()));
    let pieces = frame_hollow_pair(&pair);
    assert_eq!(pieces.iter().map(Bytes::len).sum::<usize>(), record.len());
    assert_eq!(pieces[0][..SIDE_SIZE], record[..SIDE_SIZE]);
    let kept: Vec<usize> = pieces.iter().map(|piece| crate::keep_metadata(piece)).collect();
    assert!(
        (HEADER_SIZE + 2 * 12..=HEADER_SIZE + 3 * 12).contains(&kept[0]) && kept[1..].iter().all(|&kept| kept == 0)
    );
    let mut block = pieces[0][..kept[0]].to_vec();
    block.resize(BLOCK_SIZE, 0);
    assert_eq!(Pair::from_front(&block, &Expect::place(&PLACE)), Ok(pair));
}

/// Checksum of all bytes of the sample.
const GOLDEN: u32 = 386_997_782;

#[test]
fn header_and_trailer_tell_the_same() {
    for own in [false, true] {
        let numbering = if own { Numbering::Own } else { Numbering::Consecutive };
        let mut pair = Pair { numbering, ..sample() };
        if own {
            pair.names.iter_mut().zip([5, 0, 1 << 40]).for_each(|(name, number)| name.number = number);
        }
        let record = framed(&pair);
        assert_eq!(Pair::from_front(&record, &Expect::place(&PLACE)), Ok(pair.clone()));
        let last = RecordPlace { block: 8, ..PLACE };
        let back = &record[3 * BLOCK_SIZE..];
        assert_eq!(Pair::from_back(back, &Expect::place(&last)), Ok(pair.clone()));
        assert_eq!(Pair::from_back(back, &Expect::place(&PLACE)), Err(FrameError::WrongPlace(ZoneId(3), 8)));
        assert_eq!(Pair::from_front(&back[BLOCK_SIZE - SIDE_SIZE..], &Expect::default()), Err(FrameError::NotARecord));
        let header = Header::decode(&record, &Expect::default()).unwrap();
        assert_eq!((header.blocks(), header.verify_payload(&record)), (Blocks(4), Ok(())));
        assert!(judge_pair(&blocks_of(&record), &PLACE).is_whole());
    }
}

/// RC-PAIR-1, and that data is lost only with its own blocks.
#[test]
fn the_loss_of_a_block_costs_the_data_in_it() {
    let pair = sample();
    let record = framed(&pair);
    let slices_in = |block: usize| {
        (0..3).filter(move |slice| {
            let (from, to) = (SIDE_SIZE + slice * STRIDE, SIDE_SIZE + (slice + 1) * STRIDE);
            from < (block + 1) * BLOCK_SIZE && block * BLOCK_SIZE < to
        })
    };
    for lost in 0..4 {
        let mut blocks = blocks_of(&record);
        blocks[lost] = None;
        let judged = judge_pair(&blocks, &PLACE);
        assert_eq!((judged.front, judged.back), (lost != 0, lost != 3), "block {lost}");
        assert_eq!(judged.pair.as_ref(), Some(&pair), "block {lost}");
        let slices: Vec<u32> = slices_in(lost).map(|slice| slice as u32).collect();
        assert_eq!((judged.unreadable, judged.damaged), (slices, vec![]), "block {lost}");
    }
}

#[test]
fn every_flipped_bit_is_noticed_and_costs_no_other_data() {
    let pair = pair(&[(100, 2, NameKind::Data), (3, 1, NameKind::Zeros)]);
    let record = framed(&pair);
    let unused = |byte: usize| {
        let in_side = |at: usize| (HEADER_SIZE + 2 * 12..SIDE_SIZE).contains(&at);
        let back = record.len() - SIDE_SIZE;
        in_side(byte) || byte >= back && in_side(byte - back) || (SIDE_SIZE + 2 * STRIDE..back).contains(&byte)
    };
    for byte in 0..record.len() {
        let mut bytes = record.to_vec();
        bytes[byte] ^= 1 << (byte % 8);
        let judged = judge_pair(&blocks_of(&Bytes::from(bytes.clone())), &PLACE);
        assert_eq!(judged.is_whole(), unused(byte), "byte {byte}");
        assert_eq!(judged.pair.as_ref(), Some(&pair), "byte {byte}");
        let slice = (byte >= SIDE_SIZE).then(|| ((byte - SIDE_SIZE) / STRIDE) as u32).filter(|slice| *slice < 2);
        assert_eq!(judged.damaged, Vec::from_iter(slice), "byte {byte}");
        if let Ok(header) = Header::decode(&bytes, &Expect::place(&PLACE)) {
            assert_eq!(header.verify_payload(&bytes).is_ok(), unused(byte), "byte {byte}");
        }
    }
}

/// RC-PAIR-2.
#[test]
fn a_slice_passes_only_at_its_place() {
    let record = framed(&pair(&[(100, 2, NameKind::Data)]));
    let slice = &record[SIDE_SIZE..SIDE_SIZE + STRIDE];
    assert_eq!(check_slice(&PLACE, 0, slice), Ok(&data(4096)[..]));
    let others = [
        RecordPlace { store: StoreId(8), ..PLACE },
        RecordPlace { epoch: 10, ..PLACE },
        RecordPlace { zone: ZoneId(4), ..PLACE },
        RecordPlace { block: 6, ..PLACE },
    ];
    for other in others {
        assert_eq!(check_slice(&other, 0, slice), Err(PairSliceError { slice: 0 }), "{other:?}");
    }
    assert_eq!(check_slice(&PLACE, 1, slice), Err(PairSliceError { slice: 1 }));
    assert_eq!(check_slice(&PLACE, 0, &slice[1..]), Err(PairSliceError { slice: 0 }));
}

#[test]
fn every_range_is_read_from_the_planned_blocks_alone() {
    let pair = Pair { sector_shift: 9, ..pair(&[(0, 3, NameKind::Data), (50, 20, NameKind::Data)]) };
    let (record, length) = (framed(&pair), pair.length());
    for from in (0..=length).step_by(97) {
        for size in [0, 1, 512, 4096, length] {
            let size = size.min(length - from);
            let plan = PairPlan::new(from as u32, size as u32);
            let begin = plan.first_block().bytes() as usize;
            let raw = &record[begin..begin + plan.blocks().bytes() as usize];
            let found: Result<Vec<_>, _> = plan.extract(raw, &PLACE).collect();
            assert_eq!(found.unwrap().concat(), data(length)[from as usize..(from + size) as usize], "{from} + {size}");
            if size > 0 {
                let short = &raw[..raw.len() - BLOCK_SIZE];
                assert!(plan.extract(short, &PLACE).any(|slice| slice.is_err()), "{from} + {size}");
            }
        }
    }
    // A sector of 4 KiB lies in two blocks.
    assert!((0..256).all(|slice| PairPlan::new(slice * 4096, 4096).blocks() == Blocks(2)));
}

#[test]
fn a_pair_is_full_of_names() {
    for (numbering, most) in [(Numbering::Consecutive, 120), (Numbering::Own, 72)] {
        assert_eq!(numbering.names_max(), most);
        let names = (0..most as u64).map(|at| name(at * 10, 1, NameKind::Discarded, 40 + at));
        let pair = Pair { numbering, names: names.collect(), ..pair(&[]) };
        let record = framed(&pair);
        assert_eq!(Pair::from_front(&record, &Expect::place(&PLACE)), Ok(pair));
    }
    assert_eq!(NAMES_MAX, 120);
}

/// RC-PAIR-3: a header whose checksums hold, and whose names tell of more or less than there is, as no framer writes it.
#[test]
fn names_that_do_not_fit_their_data_are_not_believed() {
    let whole = framed(&pair(&[(100, 2, NameKind::Data)]));
    let header = Header::decode(&whole, &Expect::default()).unwrap();
    for (length, good) in [(8192, true), (4096, false), (0, false), (8193, false)] {
        let mut bytes = whole.to_vec();
        bytes[..HEADER_SIZE].copy_from_slice(&Header { length, ..header }.encode());
        assert_eq!(Pair::from_front(&bytes, &Expect::default()).is_ok(), good, "{length}");
    }
    for (at, value) in [(0, 1), (1, 8), (1, 13), (2, 121), (8, 6), (24, 2)] {
        let (mut bytes, mut info) = (whole.to_vec(), header.info);
        info[at] = value;
        bytes[..HEADER_SIZE].copy_from_slice(&Header { info, ..header }.encode());
        assert!(Pair::from_front(&bytes, &Expect::default()).is_err(), "byte {at} of info is {value}");
    }
}

/// Damage of any kind is judged without a panic.
#[test]
fn damaged_pairs_are_judged() {
    for seed in seeds(20) {
        let mut random = Random::new(seed);
        let names: Vec<_> =
            (0..1 + random.below(5)).map(|at| (at * 100, 1 + random.below(3) as u32, NameKind::Data)).collect();
        let whole = framed(&pair(&names));
        for _ in 0..200 {
            let mut bytes = whole.to_vec();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.number() as u8;
            }
            let mut blocks = blocks_of(&Bytes::from(bytes));
            if random.chance(0.3) {
                blocks.truncate(random.below(blocks.len() as u64) as usize);
            }
            if random.chance(0.3) && !blocks.is_empty() {
                let at = random.below(blocks.len() as u64) as usize;
                blocks[at] = None;
            }
            let judged = judge_pair(&blocks, &PLACE);
            assert!(judged.pair.is_some() == (judged.front || judged.back), "seed {seed}");
        }
    }
}
