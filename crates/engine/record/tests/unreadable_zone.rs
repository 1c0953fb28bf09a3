//! RC-SCAN-3 and RC-SCAN-4: scans of zones of which much cannot be read. Each failed command takes a drive seconds, so there may be
//! few; and what can be read behind the unreadable part, and before it, is found all the same.

use std::ops::Range;
use std::rc::Rc;

use shingle_base::{BLOCK_SIZE, Blocks, StoreId, ZoneId, crc32c};
use shingle_record::{INFO_SIZE, RecordPlace, RecordType, Scanned, ZoneScanner, frame};
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

const ZONE: ZoneId = ZoneId(1);
const BLOCKS: u32 = 16 << 10;
/// Of each record.
const RECORD: u32 = 16;
const STORE: StoreId = StoreId(7);

/// A zone full of records from block 0 on.
fn full_zone() -> MemoryDevice {
    let device = MemoryDevice::new(Geometry::hm_smr(Blocks(u64::from(BLOCKS)), 4, 0, 4));
    let start = device.geometry().start_of(ZONE);
    let payload = vec![0x5A; 60 << 10];
    for block in (0..BLOCKS).step_by(RECORD as usize) {
        let place = RecordPlace { store: STORE, epoch: 9, zone: ZONE, block };
        let record = frame(RecordType(0x77), &place, u64::from(block), [0; INFO_SIZE], &[&payload]);
        device.write_now(start + Blocks(u64::from(block)), vec![record]).unwrap();
    }
    device
}

/// Records found whole, by their first blocks; the ranges that were said to be unreadable; and the commands that it took.
async fn scanned(device: SimDevice, window: u32) -> (Vec<u32>, Vec<Range<u32>>, u64) {
    let mut scanner = ZoneScanner::new(Rc::new(device.clone()), STORE, 9, ZONE, 0, BLOCKS).reading(window);
    let (mut whole, mut lost) = (Vec::new(), Vec::new());
    loop {
        match scanner.next().await.unwrap() {
            Scanned::Record { header, intact, unreadable, bytes } => {
                assert_eq!(bytes.len(), RECORD as usize * 4096);
                assert_eq!(intact, !unreadable);
                let block = header.place.block;
                if intact { whole.push(block) } else { lost.push(block..block + RECORD) }
            }
            Scanned::Gap { from, to, unreadable } => {
                assert!(unreadable);
                lost.push(from..to);
            }
            Scanned::Torn { from, unreadable } => {
                assert!(unreadable);
                lost.push(from..BLOCKS);
                break;
            }
            Scanned::Clean => break,
        }
    }
    (whole, lost, device.counts().reads.0)
}

/// Scans the zone with the ranges unreadable: only records that have unreadable blocks are missing (RC-SCAN-1).
fn only_what_is_unreadable_is_lost(unreadable: &[(u32, u32)], commands: u64) {
    for window in [256, 1024] {
        let unreadable: Vec<Range<u32>> = unreadable.iter().map(|&(from, to)| from..to).collect();
        Sim::new(1).run(move |rt| async move {
            let medium = full_zone();
            let start = medium.geometry().start_of(ZONE);
            for range in &unreadable {
                let length = Blocks(u64::from(range.end - range.start));
                medium.fail_reads(start + Blocks(u64::from(range.start)), length, None);
            }
            let (whole, lost, took) = scanned(SimDevice::new(&rt, &medium), window).await;
            println!("{} unreadable ranges, windows of {window}: {took} commands", unreadable.len());
            let bad = |block: u32| unreadable.iter().any(|range| range.start < block + RECORD && range.end > block);
            let expected: Vec<u32> = (0..BLOCKS).step_by(RECORD as usize).filter(|&block| !bad(block)).collect();
            assert_eq!(whole, expected, "window {window}");
            assert_eq!(lost.is_empty(), unreadable.is_empty());
            assert!(took <= commands + u64::from(BLOCKS / window), "window {window}: {took} commands");
        });
    }
}

#[test]
fn a_zone_that_can_be_read_takes_a_read_for_each_window() {
    only_what_is_unreadable_is_lost(&[], 0);
}

/// RC-BAD-2.
#[test]
fn a_zone_of_which_nothing_can_be_read_takes_few_commands() {
    only_what_is_unreadable_is_lost(&[(0, BLOCKS)], 2500);
}

#[test]
fn what_lies_before_and_behind_the_unreadable_part_is_found() {
    only_what_is_unreadable_is_lost(&[(0, 10_007)], 2500);
    only_what_is_unreadable_is_lost(&[(2003, 9001)], 2500);
    only_what_is_unreadable_is_lost(&[(12_000, BLOCKS)], 2500);
    only_what_is_unreadable_is_lost(&[(100, 5000), (6000, 6001), (9001, 15_001)], 2500);
}

#[test]
fn single_blocks_cost_their_records_alone() {
    let blocks: Vec<(u32, u32)> = (7..BLOCKS).step_by(500).map(|block| (block, block + 1)).collect();
    only_what_is_unreadable_is_lost(&blocks, 33 * 26);
}

/// RC-BAD-1: no block beside one that cannot be read is called unreadable.
#[test]
fn blocks_beside_an_unreadable_one_are_not_called_so() {
    Sim::new(1).run(|rt| async move {
        let medium = full_zone();
        let start = medium.geometry().start_of(ZONE);
        let bad: Vec<u32> = (7..BLOCKS).step_by(500).collect();
        bad.iter().for_each(|&block| medium.fail_reads(start + Blocks(u64::from(block)), Blocks(1), None));
        let mut scanner = ZoneScanner::new(Rc::new(SimDevice::new(&rt, &medium)), STORE, 9, ZONE, 0, BLOCKS);
        while !matches!(scanner.next().await.unwrap(), Scanned::Clean | Scanned::Torn { .. }) {}
        let found: Vec<u32> = (0..BLOCKS).filter(|&block| scanner.is_unreadable(block, block + 1)).collect();
        assert_eq!(found, bad);
    });
}

/// A read that fails once or twice is no loss, in the midst of those that fail for good either.
#[test]
fn passing_errors_cost_nothing() {
    Sim::new(1).run(|rt| async move {
        let medium = full_zone();
        let start = medium.geometry().start_of(ZONE);
        for block in (0..BLOCKS).step_by(1111) {
            medium.fail_reads(start + Blocks(u64::from(block)), Blocks(1), Some(2));
        }
        let (whole, lost, _) = scanned(SimDevice::new(&rt, &medium), 256).await;
        assert_eq!((whole.len() as u32, lost), (BLOCKS / RECORD, vec![]));
    });
}

/// RC-SCAN-2: records that were changed anywhere, in zones of noise and of zeros, with and without blocks that cannot be read.
#[test]
fn a_scan_of_any_bytes_comes_to_its_end() {
    for seed in seeds(40) {
        Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let medium = MemoryDevice::new(Geometry::hm_smr(Blocks(256), 4, 0, 4));
            let start = medium.geometry().start_of(ZONE);
            let mut block = 0;
            while block < 240 {
                let payload = random.bytes(random_length(seed, block));
                let place = RecordPlace { store: STORE, epoch: 9, zone: ZONE, block: block as u32 };
                let record = frame(RecordType(0x77), &place, block, [0; INFO_SIZE], &[&payload]);
                let blocks = (record.len() / BLOCK_SIZE) as u64;
                medium.write_now(start + Blocks(block), vec![record]).unwrap();
                for at in block..block + blocks {
                    let (kind, byte, other) = (random.below(8), random.below(96) as usize, random.number());
                    medium.corrupt(start + Blocks(at), |bytes| match kind {
                        0 => bytes[byte] ^= 1 << (other % 8),
                        // A header of this place that passes its check, with any flags and length in it.
                        1 => {
                            bytes[10..16].copy_from_slice(&other.to_le_bytes()[..6]);
                            let sum = crc32c(&bytes[..92]).to_le_bytes();
                            bytes[92..96].copy_from_slice(&sum);
                        }
                        2 => bytes.fill(other as u8),
                        _ => {}
                    });
                    if random.chance(0.05) {
                        medium.fail_reads(start + Blocks(at), Blocks(1), None);
                    }
                }
                block += blocks;
            }
            let dev: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &medium));
            let mut scanner = ZoneScanner::new(dev, STORE, 9, ZONE, 0, block as u32);
            for step in 0.. {
                assert!(step < 2 * block, "seed {seed}: the scan goes on for ever");
                match scanner.next().await {
                    Ok(Scanned::Clean | Scanned::Torn { .. }) => break,
                    Ok(Scanned::Record { header, .. }) => {
                        let end = u64::from(header.place.block) + header.blocks().0;
                        assert!(end <= block, "seed {seed}: a record ends at block {end} of {block}");
                    }
                    Ok(Scanned::Gap { .. }) => {}
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
        });
    }
}

/// Up to three blocks.
fn random_length(seed: u64, block: u64) -> usize {
    (seed.wrapping_mul(7919).wrapping_add(block.wrapping_mul(104_729)) % 12_000) as usize
}
