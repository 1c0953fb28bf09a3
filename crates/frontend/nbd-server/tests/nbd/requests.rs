//! Requests and their replies, one after the other.

use std::sync::atomic::Ordering::Relaxed;

use shingle_nbd_server::{About, Options};
use shingle_store_api::StoreErrorKind;

use crate::client::{Client, FLUSH, FUA, Message, READ, STATUS, TRIM, WRITE, ZEROES, number};
use crate::harness::{Harness, SIZE};

const KIB: u32 = 1 << 10;

#[tokio::test]
async fn data_comes_back_by_simple_and_by_structured_replies() {
    let harness = Harness::usual().await;
    let mut simple = harness.client().await;
    simple.go("disk", &[3]).await;
    let mut structured = harness.attached().await;
    let data: Vec<u8> = (0..3 << 20).map(|number: u32| (number / 7) as u8).collect();
    simple.write(1 << 20, &data).await;
    assert!(structured.read(1 << 20, 3 << 20).await == data);
    structured.write(SIZE - 1024, &data[..1024]).await;
    assert!(simple.read(SIZE - 1024, 1024).await == data[..1024]);
    let whole = vec![5; 32 << 20];
    simple.write(0, &whole).await;
    assert!(structured.read(0, 32 << 20).await == whole);
    let metrics = harness.server.metrics();
    assert_eq!(metrics.requests_in_flight.load(Relaxed), 0);
    let of = |name| metrics.commands().find(|(command, _)| *command == name).unwrap().1;
    assert_eq!((of("write").done.load(Relaxed), of("read").done.load(Relaxed)), (3, 3));
    assert_eq!(of("read").bytes.load(Relaxed), (35 << 20) + 1024);
}

#[tokio::test]
async fn holes_are_told_unless_the_client_wants_no_fragments() {
    let harness = Harness::usual().await;
    let mut client = harness.attached().await;
    client.write(64 << 10, &[7; 4096]).await;
    client.send((READ, 0), 1, 0, 256 * KIB, &[]).await;
    let chunks = client.chunks(1).await;
    let shape: Vec<_> = chunks.iter().map(|(at, length, data)| (at >> 10, length >> 10, data.is_some())).collect();
    assert_eq!(shape, [(0, 64, false), (64, 4, true), (68, 188, false)]);
    client.send((READ, 4), 2, 0, 256 * KIB, &[]).await;
    let [(0, length, Some(data))] = &client.chunks(2).await[..] else { panic!("more than one chunk") };
    assert!(*length == 256 << 10 && data[..64 << 10].iter().all(|byte| *byte == 0) && data[64 << 10] == 7);
    client.send((STATUS, 0), 3, 0, 256 * KIB, &[]).await;
    let Message::Chunk { done: true, kind: 5, data, .. } = client.message().await else { panic!("no status") };
    let numbers: Vec<u64> = data.chunks(4).map(number).collect();
    assert_eq!(numbers, [1, 64 << 10, 3, 4 << 10, 0, 188 << 10, 3]);
    client.send((STATUS, 8), 4, 64 << 10, 256 * KIB, &[]).await;
    let Message::Chunk { done: true, kind: 5, data, .. } = client.message().await else { panic!("no status") };
    assert_eq!(data.chunks(4).map(number).collect::<Vec<_>>(), [1, 4096, 0], "one run only");
}

/// NBD-ORD-1.
#[tokio::test]
async fn a_flush_covers_the_answered_writes_of_all_connections() {
    let harness = Harness::usual().await;
    let (mut first, mut second) = (harness.attached().await, harness.attached().await);
    first.write(0, &[1; 512]).await;
    assert_eq!(second.ask((FLUSH, 0), 0, 0, &[]).await, 0);
    first.write(512, &[2; 512]).await;
    harness.volume.cut_power().await;
    assert_eq!(first.read(0, 1024).await, [[1; 512], [0; 512]].concat());
}

/// NBD-ORD-2.
#[tokio::test]
async fn fua_makes_each_kind_of_write_durable() {
    let harness = Harness::usual().await;
    let mut client = harness.attached().await;
    assert_eq!(client.ask((WRITE, FUA), 0, 2048, &[1; 2048]).await, 0);
    harness.volume.cut_power().await;
    assert_eq!(client.read(0, 2048).await, [1; 2048]);
    assert_eq!(client.ask((ZEROES, FUA), 0, 512, &[]).await, 0);
    assert_eq!(client.ask((ZEROES, FUA | 2), 512, 512, &[]).await, 0);
    harness.volume.cut_power().await;
    assert_eq!(client.read(0, 2048).await, [[0; 1024], [1; 1024]].concat());
    assert_eq!(harness.volume.control.flushes.load(Relaxed), 0);
    assert_eq!(client.ask((TRIM, FUA), 1024, 512, &[]).await, 0);
    harness.volume.cut_power().await;
    assert_eq!(client.read(0, 2048).await, [[0; 512], [0; 512], [0; 512], [1; 512]].concat());
    client.send((READ, FUA), 1, 0, 512, &[]).await;
    assert_eq!(client.chunks(1).await.len(), 1, "FUA of a read means nothing");
}

#[tokio::test]
async fn zeros_are_holes_unless_the_client_wants_them_filled() {
    let harness = Harness::usual().await;
    let mut client = harness.attached().await;
    client.write(0, &[1; 4096]).await;
    assert_eq!(client.ask((ZEROES, 0), 0, 2048, &[]).await, 0);
    let control = &harness.volume.control;
    assert_eq!((control.zeros.load(Relaxed), control.writes.load(Relaxed)), (1, 1));
    // Longer than any request with data.
    assert_eq!(client.ask((ZEROES, 2), 2048, 40 << 20, &[]).await, 0);
    assert_eq!((control.zeros.load(Relaxed), control.writes.load(Relaxed)), (1, 41));
    assert_eq!(client.read(0, 4096).await, [0; 4096]);
    client.send((STATUS, 0), 3, 0, 4096, &[]).await;
    let Message::Chunk { data, .. } = client.message().await else { panic!("no status") };
    assert_eq!(data.chunks(4).map(number).collect::<Vec<_>>(), [1, 2048, 3, 2048, 0]);
    assert_eq!(client.ask((ZEROES, 16), 0, 4096, &[]).await, 95, "not known to be fast");
}

#[tokio::test]
async fn failures_of_the_store_have_their_numbers() {
    let harness = Harness::usual().await;
    let mut simple = harness.client().await;
    simple.go("disk", &[3]).await;
    let mut structured = harness.attached().await;
    let kinds = [
        (StoreErrorKind::NoSpace, 28),
        (StoreErrorKind::Corrupt, 5),
        (StoreErrorKind::Device, 5),
        (StoreErrorKind::Invalid, 22),
        (StoreErrorKind::Unavailable, 108),
    ];
    for (kind, errno) in kinds {
        *harness.volume.control.failure.lock().unwrap() = Some(kind);
        for client in [&mut simple, &mut structured] {
            assert_eq!(client.ask((READ, 0), 0, 512, &[]).await, errno);
            assert_eq!(client.ask((READ, 0), 0, 256 * KIB, &[]).await, errno);
            assert_eq!(client.ask((WRITE, 0), 0, 512, &[1; 512]).await, errno);
            assert_eq!(client.ask((FLUSH, 0), 0, 0, &[]).await, errno);
            assert_eq!(client.ask((TRIM, 0), 0, 512, &[]).await, errno);
            assert_eq!(client.ask((ZEROES, 0), 0, 512, &[]).await, errno);
        }
        assert_eq!(structured.ask((STATUS, 0), 0, 512, &[]).await, errno);
    }
    *harness.volume.control.failure.lock().unwrap() = None;
    for client in [&mut simple, &mut structured] {
        assert_eq!(client.read(0, 512).await, [0; 512], "the connection goes on");
    }
}

#[tokio::test]
async fn requests_that_cannot_be_are_refused_and_their_data_is_passed_over() {
    let harness = Harness::usual().await;
    let mut client = harness.attached().await;
    assert_eq!(client.ask((WRITE, 0), SIZE, 512, &[1; 512]).await, 28);
    assert_eq!(client.ask((WRITE, 0), 100, 512, &[1; 512]).await, 22);
    assert_eq!(client.ask((WRITE, 2), 0, 512, &[1; 512]).await, 22);
    assert_eq!(client.ask((READ, 0), SIZE - 512, 1024, &[]).await, 22);
    assert_eq!(client.ask((READ, 0), 0, (32 << 20) + 512, &[]).await, 22);
    assert_eq!(client.ask((READ, 0), 0, 0, &[]).await, 22);
    assert_eq!(client.ask((WRITE, 0), 0, 0, &[]).await, 22);
    assert_eq!(client.ask((77, 0), 0, 512, &[]).await, 22);
    assert_eq!(client.ask((5, 0), 0, 512, &[]).await, 22, "CACHE is not offered");
    assert_eq!(harness.volume.control.writes.load(Relaxed), 0);
    client.write(0, &[1; 512]).await;
    // More than any write may have cannot be passed over.
    client.send((WRITE, 0), 1, 0, (32 << 20) + 512, &[]).await;
    client.closed().await;
    let mut client = harness.attached().await;
    client.send_raw(&[0; 28]).await;
    client.closed().await;
}

/// NBD-RO-1.
#[tokio::test]
async fn nothing_gets_through_to_a_read_only_export() {
    let about = About { read_only: true, ..About::new("disk") };
    let harness = Harness::new(about, 512, Options::default()).await;
    let mut client = harness.attached().await;
    assert_eq!(client.ask((WRITE, 0), 0, 512, &[1; 512]).await, 1);
    assert_eq!(client.ask((TRIM, 0), 0, 512, &[]).await, 1);
    assert_eq!(client.ask((ZEROES, 0), 0, 512, &[]).await, 1);
    assert_eq!(client.ask((FLUSH, 0), 0, 0, &[]).await, 0);
    assert_eq!(client.read(0, 512).await, [0; 512]);
    let control = &harness.volume.control;
    for count in [&control.writes, &control.trims, &control.zeros] {
        assert_eq!(count.load(Relaxed), 0);
    }
}

#[tokio::test]
async fn a_status_needs_a_context_and_a_fragmentless_read_structured_replies() {
    let harness = Harness::usual().await;
    let mut client: Client = harness.client().await;
    client.go("disk", &[3]).await;
    assert_eq!(client.ask((STATUS, 0), 0, 512, &[]).await, 22);
    assert_eq!(client.ask((READ, 4), 0, 512, &[]).await, 22);
}
