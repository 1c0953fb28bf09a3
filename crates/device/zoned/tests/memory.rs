//! The memory device beyond the contract: sharing, metadata-only mode, faults.

use std::sync::Arc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_runtime::real;
use shingle_zoned::{Geometry, MemoryDevice, ZoneOp, ZoneState, ZonedDevice};

fn geometry() -> Geometry {
    Geometry { conventional_zones: 1, ..Geometry::zns(Blocks(64), Blocks(60), 8, 4, 6) }
}

fn blocks(byte: u8, count: u64) -> Bytes {
    let mut buffer = AlignedBuf::zeroed(Blocks(count));
    buffer.fill(byte);
    buffer.freeze()
}

#[test]
fn what_is_written_is_kept_and_read_without_a_copy() {
    real::run(|_| async {
        let device = MemoryDevice::new(geometry());
        let [first, second] = [blocks(1, 4), blocks(2, 4)];
        device.write(Lba(64), vec![first.clone(), second.clone()]).await.unwrap();
        let read = device.read(Lba(66), Blocks(2)).await.unwrap();
        assert_eq!(read.as_ptr(), first[2 * BLOCK_SIZE..].as_ptr());
        let read = device.read(Lba(68), Blocks(4)).await.unwrap();
        assert_eq!(read.as_ptr(), second.as_ptr());
        let across = device.read(Lba(67), Blocks(2)).await.unwrap();
        assert!(across[..BLOCK_SIZE] == blocks(1, 1) && across[BLOCK_SIZE..] == blocks(2, 1));
    })
    .unwrap();
}

#[test]
fn a_snapshot_and_its_origin_go_separate_ways() {
    real::run(|_| async {
        let device = MemoryDevice::new(geometry());
        device.write(Lba(64), vec![blocks(1, 4)]).await.unwrap();
        device.write(Lba(3), vec![blocks(5, 1)]).await.unwrap();
        let image = device.snapshot();
        device.write(Lba(68), vec![blocks(2, 4)]).await.unwrap();
        device.write(Lba(3), vec![blocks(6, 1)]).await.unwrap();
        image.manage(ZoneId(1), ZoneOp::Reset).await.unwrap();
        image.write(Lba(64), vec![blocks(9, 1)]).await.unwrap();
        assert_eq!((device.zone(ZoneId(1)).written, image.zone(ZoneId(1)).written), (Blocks(8), Blocks(1)));
        assert!(device.read(Lba(64), Blocks(1)).await.unwrap() == blocks(1, 1));
        assert!(image.read(Lba(64), Blocks(1)).await.unwrap() == blocks(9, 1));
        assert!(image.read(Lba(3), Blocks(1)).await.unwrap() == blocks(5, 1));
    })
    .unwrap();
}

/// A buffer whose end can be seen.
struct Watched(Bytes, #[expect(dead_code, reason = "counted")] Arc<()>);

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[test]
fn metadata_only_keeps_what_it_is_told_of_each_piece() {
    real::run(|_| async {
        // The first byte of a piece says how many blocks, less 100 bytes, are kept.
        let device =
            MemoryDevice::metadata_only(geometry(), |piece| (usize::from(piece[0]) * BLOCK_SIZE).saturating_sub(100));
        assert!(!device.geometry().keeps_payload);
        let alive = Arc::new(());
        let header = Bytes::from_owner(Watched(blocks(1, 1), alive.clone()));
        device.write(Lba(64), vec![header, blocks(0, 3), blocks(2, 3), blocks(200, 1)]).await.unwrap();
        assert_eq!(Arc::strong_count(&alive), 1, "nothing holds on to the buffer");
        let mut expected = vec![0; 8 * BLOCK_SIZE];
        expected[..BLOCK_SIZE - 100].fill(1);
        expected[4 * BLOCK_SIZE..6 * BLOCK_SIZE - 100].fill(2);
        expected[7 * BLOCK_SIZE..].fill(200);
        let read = device.read(Lba(64), Blocks(8)).await.unwrap();
        assert!(read == expected);
        for (block, expected) in expected.chunks_exact(BLOCK_SIZE).enumerate() {
            assert!(device.read(Lba(64 + block as u64), Blocks(1)).await.unwrap() == expected, "block {block}");
        }
        assert_eq!(device.held_bytes(), 4 * BLOCK_SIZE as u64 - 200);
        device.manage(ZoneId(1), ZoneOp::Reset).await.unwrap();
        assert_eq!(device.held_bytes(), 0);
        // In a conventional zone, a piece of which less is kept covers all of what was there.
        device.write(Lba(0), vec![blocks(4, 4)]).await.unwrap();
        device.write(Lba(1), vec![blocks(1, 2)]).await.unwrap();
        let read = device.read(Lba(0), Blocks(4)).await.unwrap();
        let rows = [(0, 4), (1, 1), (2, 0), (3, 4)];
        for (block, byte) in rows {
            assert_eq!(read[block * BLOCK_SIZE], byte, "block {block}");
        }
    })
    .unwrap();
}

#[test]
fn faults_change_what_they_are_told_to_and_nothing_else() {
    real::run(|_| async {
        let device = MemoryDevice::new(geometry());
        let data = blocks(7, 8);
        device.write(Lba(64), vec![data.clone()]).await.unwrap();
        let image = device.snapshot();
        device.corrupt(Lba(66), |block| block[5] ^= 1);
        device.corrupt(Lba(72), |_| panic!("nothing is written there"));
        device.corrupt(Lba(1 << 40), |_| panic!("there is no such block"));
        let read = device.read(Lba(64), Blocks(8)).await.unwrap();
        let wrong: Vec<usize> = (0..read.len()).filter(|&at| read[at] != 7).collect();
        assert_eq!((wrong, read[2 * BLOCK_SIZE + 5]), (vec![2 * BLOCK_SIZE + 5], 6));
        assert!(data.iter().all(|&byte| byte == 7), "the writer's own buffer is left alone");
        assert!(image.read(Lba(64), Blocks(8)).await.unwrap() == data, "and so is a snapshot");

        device.truncate_zone(ZoneId(1), Blocks(3));
        assert_eq!((device.zone(ZoneId(1)).state, device.zone(ZoneId(1)).written), (ZoneState::Closed, Blocks(3)));
        device.write(Lba(67), vec![blocks(8, 2)]).await.unwrap();
        assert!(device.read(Lba(67), Blocks(2)).await.unwrap() == blocks(8, 2));
        device.truncate_zone(ZoneId(1), Blocks(10));
        assert!(device.read(Lba(69), Blocks(5)).await.unwrap() == blocks(0, 5), "never written");
        device.truncate_zone(ZoneId(1), Blocks(60));
        assert_eq!(device.zone(ZoneId(1)).state, ZoneState::Full);
        device.truncate_zone(ZoneId(1), Blocks::ZERO);
        assert_eq!(device.zone(ZoneId(1)).state, ZoneState::Empty);
    })
    .unwrap();
}

#[test]
fn a_power_cycle_closes_open_zones() {
    real::run(|_| async {
        let device = MemoryDevice::new(geometry());
        device.append(ZoneId(1), vec![blocks(1, 1)]).await.unwrap();
        device.append(ZoneId(2), vec![blocks(1, 1)]).await.unwrap();
        for zone in [2, 3] {
            device.manage(ZoneId(zone), ZoneOp::Open).await.unwrap();
        }
        device.append(ZoneId(4), vec![blocks(1, 60)]).await.unwrap();
        device.power_cycle();
        let states = [1, 2, 3, 4].map(|zone| device.zone(ZoneId(zone)).state);
        assert_eq!(states, [ZoneState::Closed, ZoneState::Closed, ZoneState::Empty, ZoneState::Full]);
        // Their open resources are free again, their active ones only where they were empty.
        for zone in [1, 2, 3, 5] {
            device.manage(ZoneId(zone), ZoneOp::Open).await.unwrap();
        }
    })
    .unwrap();
}
