//! Scans of zones with pairs.

use std::rc::Rc;

use shingle_base::{Blocks, BufferPool, StoreId, ZoneId};
use shingle_record::{
    Name, NameKind, Numbering, Pair, PairFramer, RecordPlace, RecordType, Scanned, ZoneScanner, keep_metadata,
    pair_blocks,
};
use shingle_sim::{Sim, SimDevice};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

const ZONE: ZoneId = ZoneId(1);
const STORE: StoreId = StoreId(7);
/// Data of the pairs, in blocks.
const DATA: [u32; 5] = [1, 3, 0, 256, 2];

/// First blocks of the pairs, and the block behind them.
fn starts() -> Vec<u32> {
    let after = |at: &mut u32, data: &u32| {
        let start = *at;
        *at += pair_blocks(u64::from(*data) * 4096).0 as u32;
        Some(start)
    };
    DATA.iter().chain([&0]).scan(0, after).collect()
}

/// A zone with pairs, the last of which lacks its last `missing` blocks, on a device that keeps so much of each piece.
fn written(missing: usize, keep: Option<fn(&[u8]) -> usize>) -> MemoryDevice {
    let geometry = Geometry::hm_smr(Blocks(1024), 4, 0, 4);
    let device = match keep {
        Some(keep) => MemoryDevice::metadata_only(geometry, keep),
        None => MemoryDevice::new(geometry),
    };
    let start = device.geometry().start_of(ZONE);
    for (number, (block, data)) in starts().into_iter().zip(DATA).enumerate() {
        let kind = if data == 0 { NameKind::Discarded } else { NameKind::Data };
        let pair = Pair {
            kind: RecordType(0x0401),
            place: RecordPlace { store: STORE, epoch: 9, zone: ZONE, block },
            sequence: number as u64,
            sector_shift: 12,
            durable: 0,
            next: None,
            numbering: Numbering::Consecutive,
            names: vec![Name { lba: 9, sectors: data.max(1), kind, number: number as u64 }],
        };
        let pool = BufferPool::new(0);
        let mut framer = PairFramer::new(pair, &pool);
        framer.extend(&vec![number as u8; data as usize * 4096]);
        let record = framer.finish(&pool);
        let length = if number + 1 == DATA.len() { record.len() - missing * 4096 } else { record.len() };
        device.write_now(start + Blocks(u64::from(block)), vec![record.slice(..length)]).unwrap();
    }
    device
}

/// The steps of a scan: whole pairs by their first blocks, and in words what else was met.
fn steps(medium: MemoryDevice) -> (Vec<u32>, Vec<String>) {
    Sim::new(1).run(move |rt| async move {
        let end = medium.zone(ZONE).written.0 as u32;
        let device = SimDevice::new(&rt, &medium);
        let mut scanner = ZoneScanner::new(Rc::new(device), STORE, 9, ZONE, 0, end);
        let (mut whole, mut others) = (Vec::new(), Vec::new());
        loop {
            match scanner.next().await.unwrap() {
                Scanned::Record { header, intact: true, .. } => whole.push(header.place.block),
                Scanned::Record { header, unreadable, .. } => {
                    others.push(format!("bad {} {unreadable}", header.place.block));
                }
                Scanned::Gap { from, to, unreadable } => others.push(format!("gap {from}..{to} {unreadable}")),
                Scanned::Torn { from, unreadable } => {
                    others.push(format!("torn {from} {unreadable}"));
                    return (whole, others);
                }
                Scanned::Clean => return (whole, others),
            }
        }
    })
}

#[test]
fn a_scan_finds_pairs_whole_torn_and_damaged() {
    let starts = starts();
    assert_eq!(starts, [0, 2, 6, 8, 265, 268]);
    assert_eq!(steps(written(0, None)), (starts[..5].to_vec(), vec![]));
    for missing in 1..3 {
        assert_eq!(steps(written(missing, None)), (starts[..4].to_vec(), vec!["torn 265 false".to_owned()]));
    }
    let without = |at: usize| starts[..5].iter().copied().filter(|start| *start != starts[at]).collect::<Vec<_>>();
    let first = written(0, None).geometry().start_of(ZONE);
    let cases: [(u64, bool, usize, &str); 4] = [
        (2, false, 1, "gap 2..6 false"),
        (5, false, 1, "bad 2 false"),
        (7, true, 2, "bad 6 true"),
        (8, true, 3, "gap 8..265 true"),
    ];
    for (block, unreadable, lost, expected) in cases {
        let medium = written(0, None);
        match unreadable {
            true => medium.fail_reads(first + Blocks(block), Blocks(1), None),
            false => medium.corrupt(first + Blocks(block), |bytes| bytes[2600] ^= 1),
        }
        if expected.starts_with("gap") && !unreadable {
            medium.corrupt(first + Blocks(block), |bytes| bytes[20] ^= 1);
        }
        assert_eq!(steps(medium), (without(lost), vec![expected.to_owned()]), "block {block}");
    }
}

/// A device that keeps no data keeps headers and names: a scan believes these.
#[test]
fn a_device_without_payload_keeps_names() {
    assert_eq!(steps(written(0, Some(keep_metadata))), (starts()[..5].to_vec(), vec![]));
}
