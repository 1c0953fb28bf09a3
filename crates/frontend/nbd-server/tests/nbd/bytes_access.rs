//! Clients that were not told of sectors: access by the byte.

use std::sync::atomic::Ordering::Relaxed;

use shingle_nbd_server::{About, Options};

use crate::client::{Client, FUA, TRIM, WRITE, ZEROES, request};
use crate::harness::{Harness, until};

/// Sectors of 4,096 bytes, which the client was not told of.
async fn untold() -> (Harness, Client) {
    let harness = Harness::new(About::new("disk"), 4096, Options::default()).await;
    let client = harness.untold().await;
    (harness, client)
}

#[tokio::test]
async fn any_bytes_can_be_written_zeroed_and_read() {
    let (harness, mut client) = untold().await;
    let mut model = vec![0u8; 64 << 10];
    // A fixed walk over offsets and lengths: inside a sector, across one border, across many.
    let mut state = 1u64;
    for step in 0..300u32 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let offset = (state >> 33) as usize % 50_000;
        let length = 1 + (state >> 20) as usize % [10, 5000, 14_000][step as usize % 3];
        let range = offset..offset + length;
        match step % 4 {
            0 | 1 => {
                client.write(offset as u64, &vec![step as u8 | 1; length]).await;
                model[range].fill(step as u8 | 1);
            }
            2 => {
                let filled = if step % 8 == 2 { 2 } else { 0 };
                assert_eq!(client.ask((ZEROES, filled), offset as u64, length as u32, &[]).await, 0);
                model[range].fill(0);
            }
            _ => assert_eq!(client.read(offset as u64, length as u32).await, model[range], "step {step}"),
        }
    }
    assert!(client.read(0, 64 << 10).await == model);
    // A trim of less than a sector keeps it.
    client.write(4096, &[9; 8192]).await;
    assert_eq!(client.ask((TRIM, 0), 4097, 8000, &[]).await, 0);
    assert_eq!(client.read(4096, 8192).await, [9; 8192]);
    assert_eq!(client.ask((TRIM, FUA), 4097, 8191, &[]).await, 0);
    assert_eq!(client.read(4096, 8192).await, [[9; 4096], [0; 4096]].concat());
    assert_eq!(harness.volume.control.trims.load(Relaxed), 1);
}

/// NBD-EDGE-1.
#[tokio::test]
async fn writes_of_parts_of_one_sector_undo_none_of_each_other() {
    let (harness, mut first) = untold().await;
    let mut second = harness.untold().await;
    for round in 1..=20u8 {
        // All of them wait at the store together.
        harness.volume.control.gate.send_replace(0..8192);
        let before = harness.volume.control.held.load(Relaxed);
        for part in 0..8u64 {
            let client = if part % 2 == 0 { &mut first } else { &mut second };
            client
                .send_raw(&[request((WRITE, 0), part, part * 512, 512), vec![round ^ part as u8; 512]].concat())
                .await;
        }
        until(|| harness.volume.control.held.load(Relaxed) > before).await;
        harness.volume.control.gate.send_replace(0..0);
        for client in [&mut first, &mut second] {
            for _ in 0..4 {
                assert!(matches!(client.message().await, crate::client::Message::Simple { error: 0, .. }));
            }
        }
        let expected: Vec<u8> = (0..8u8).flat_map(|part| [round ^ part; 512]).collect();
        assert_eq!(first.read(0, 4096).await, expected);
    }
}

/// NBD-EDGE-1: a write of whole sectors that is answered while a part of one waits is not undone.
#[tokio::test]
async fn a_write_of_a_sector_is_not_undone_by_one_of_its_parts() {
    let (harness, mut first) = untold().await;
    let mut second = harness.untold().await;
    harness.volume.control.gate.send_replace(0..4096);
    // It waits for the read of its sector.
    first.send((WRITE, 0), 1, 0, 10, &[1; 10]).await;
    until(|| harness.volume.control.held.load(Relaxed) == 1).await;
    second.send((WRITE, 0), 2, 0, 4096, &[2; 4096]).await;
    harness.volume.control.gate.send_replace(0..0);
    assert_eq!((first.errno(1).await, second.errno(2).await), (0, 0));
    let sector = first.read(0, 4096).await;
    assert!(sector[10..].iter().all(|byte| *byte == 2), "the later bytes of the sector are the second write's");
    assert_eq!(sector[..10], [2; 10], "it came later");
}

/// NBD-EDGE-2.
#[tokio::test]
async fn zeros_that_take_their_room_hold_up_no_other_write() {
    let (harness, mut first) = untold().await;
    let mut second = harness.untold().await;
    first.write(0, &[7; 4096]).await;
    for (offset, length) in [(100, 32 << 20), (4096, 32 << 20)] {
        // They wait half-way.
        harness.volume.control.gate.send_replace(8 << 20..9 << 20);
        let before = harness.volume.control.held.load(Relaxed);
        first.send((ZEROES, 2), 1, offset, length, &[]).await;
        until(|| harness.volume.control.held.load(Relaxed) > before).await;
        let others = async {
            second.write(40 << 20, &[1; 4096]).await;
            assert_eq!(second.ask((TRIM, 0), 42 << 20, 4096, &[]).await, 0);
            // One that is to be alone waits for the piece that is under way, and for none that comes behind.
            second.send((WRITE, 0), 2, (40 << 20) + 5000, 100, &[2; 100]).await;
            assert_eq!(second.read(50 << 20, 4096).await, [0; 4096]);
            harness.volume.control.gate.send_replace(20 << 20..21 << 20);
            assert_eq!(second.errno(2).await, 0);
        };
        let answered = tokio::time::timeout(std::time::Duration::from_secs(10), others).await;
        assert!(answered.is_ok(), "zeros from {offset} on hold up all writes");
        harness.volume.control.gate.send_replace(0..0);
        assert_eq!(first.errno(1).await, 0);
    }
    let (edge, end) = (first.read(0, 4096).await, first.read((32 << 20) - 4096, 8192).await);
    assert_eq!(edge, [[7; 100].as_slice(), &[0; 3996]].concat());
    assert_eq!(end, [0; 8192]);
    assert_eq!(second.read((40 << 20) + 5000, 100).await, [2; 100]);
}
