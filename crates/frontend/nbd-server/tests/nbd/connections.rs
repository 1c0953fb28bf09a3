//! Connections: pipelining, disconnections in the middle of anything, slow clients, many clients.

use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use shingle_nbd_server::{About, Limits, Listener};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

use crate::client::{Client, DISC, FLUSH, FUA, Message, READ, TRIM, WRITE, info, request};
use crate::harness::{Harness, Volume, short, until};

#[tokio::test]
async fn replies_come_as_they_are_ready() {
    let harness = Harness::usual().await;
    let mut client = harness.attached().await;
    harness.volume.control.gate.send_replace(0..512);
    client.send((WRITE, 0), 1, 0, 512, &[1; 512]).await;
    client.send((READ, 0), 2, 0, 512, &[]).await;
    client.send((WRITE, 0), 3, 4096, 512, &[3; 512]).await;
    client.send((READ, 0), 4, 8192, 512, &[]).await;
    let mut early = Vec::new();
    for _ in 0..2 {
        early.push(match client.message().await {
            Message::Simple { error: 0, cookie } | Message::Chunk { cookie, done: true, kind: 1, .. } => cookie,
            other => panic!("{other:?}"),
        });
    }
    early.sort_unstable();
    assert_eq!(early, [3, 4]);
    harness.volume.control.gate.send_replace(0..0);
    let mut late = [client.message().await, client.message().await].map(|message| match message {
        Message::Simple { cookie, .. } | Message::Chunk { cookie, .. } => cookie,
    });
    late.sort_unstable();
    assert_eq!(late, [1, 2]);
}

/// NBD-ACK-1.
#[tokio::test]
async fn a_thousand_requests_in_one_go_are_all_answered() {
    let harness = Harness::usual().await;
    let mut client = harness.attached().await;
    let mut bytes = Vec::new();
    for number in 0..1000u64 {
        let data = vec![number as u8; 512];
        bytes.extend([request((WRITE, 0), number, number * 512, 512), data].concat());
    }
    client.send_raw(&bytes).await;
    let mut answered: Vec<u64> = Vec::new();
    for _ in 0..1000 {
        let Message::Simple { error: 0, cookie } = client.message().await else { panic!("a write failed") };
        answered.push(cookie);
    }
    answered.sort_unstable();
    assert!(answered.into_iter().eq(0..1000));
    let all = client.read(0, 512_000).await;
    assert!(all.chunks(512).zip(0u64..).all(|(sector, number)| sector == [number as u8; 512]));
}

/// NBD-SAFE-2.
#[tokio::test]
async fn no_more_requests_and_bytes_are_under_way_than_may_be() {
    let harness = Harness::limited(Limits { requests_max: 4, ..Limits::default() }).await;
    let mut client = harness.attached().await;
    let control = harness.volume.control.clone();
    control.gate.send_replace(0..u64::MAX);
    for number in 0..10u64 {
        client.send((READ, 0), number, number * 512, 512, &[]).await;
    }
    until(|| control.held.load(Relaxed) == 4).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(control.held.load(Relaxed), 4, "the others wait in the socket");
    control.gate.send_replace(0..0);
    for _ in 0..10 {
        assert!(matches!(client.message().await, Message::Chunk { done: true, kind: 1, .. }));
    }
    // By bytes: two reads of 20 MiB are more than 32 MiB.
    control.gate.send_replace(0..u64::MAX);
    let before = control.held.load(Relaxed);
    for number in 0..2u64 {
        client.send((READ, 4), number, 0, 20 << 20, &[]).await;
    }
    until(|| control.held.load(Relaxed) == before + 1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(control.held.load(Relaxed), before + 1);
    control.gate.send_replace(0..0);
    for _ in 0..2 {
        assert!(matches!(client.message().await, Message::Chunk { done: true, kind: 1, .. }));
    }
}

/// NBD-ACK-1.
#[tokio::test]
async fn a_client_that_takes_its_leave_has_its_answers_first() {
    let harness = Harness::usual().await;
    let mut client = harness.attached().await;
    harness.volume.control.gate.send_replace(0..512);
    client.send((WRITE, FUA), 1, 0, 512, &[1; 512]).await;
    client.send((DISC, 0), 2, 0, 0, &[]).await;
    until(|| harness.volume.control.held.load(Relaxed) == 1).await;
    harness.volume.control.gate.send_replace(0..0);
    assert_eq!(client.errno(1).await, 0);
    client.closed().await;
    // One that only closes its side is answered, too.
    let mut client = harness.attached().await;
    client.send((FLUSH, 0), 3, 0, 0, &[]).await;
    client.socket.shutdown().await.unwrap();
    assert_eq!(client.errno(3).await, 0);
    client.closed().await;
}

/// NBD-SAFE-1: a client that breaks off anywhere, in each message of a session, harms nobody.
#[tokio::test]
async fn a_client_may_vanish_after_any_byte() {
    let harness = Harness::usual().await;
    let mut other = harness.attached().await;
    let option = |option: u32, data: &[u8]| {
        [&b"IHAVEOPT"[..], &option.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
    };
    let session = [
        3u32.to_be_bytes().to_vec(),
        option(8, &[]),
        option(7, &info("disk", &[3])),
        request((WRITE, 0), 1, 0, 512),
        vec![7; 512],
        request((READ, 0), 2, 0, 4096),
        request((FLUSH, 0), 3, 0, 0),
        request((TRIM, 0), 4, 0, 512),
        request((DISC, 0), 5, 0, 0),
    ]
    .concat();
    for cut in (0..session.len()).filter(|cut| cut % 3 == 0 || *cut > session.len() - 120) {
        let mut socket = tokio::net::TcpStream::connect(harness.address).await.unwrap();
        socket.write_all(&session[..cut]).await.unwrap();
        if cut % 2 == 0 {
            // A reset, and not an orderly end.
            socket.set_zero_linger().unwrap();
        }
        drop(socket);
        if cut % 50 == 0 {
            other.write(1024, &[cut as u8; 512]).await;
        }
    }
    let metrics = harness.server.metrics();
    until(|| metrics.connections_open.load(Relaxed) == 1).await;
    until(|| metrics.requests_in_flight.load(Relaxed) == 0).await;
    assert_eq!(other.read(1024, 512).await.len(), 512);
}

/// NBD-SAFE-2.
#[tokio::test]
async fn a_client_that_reads_no_replies_holds_up_nobody_and_is_cut() {
    let harness = Harness::limited(short()).await;
    let mut slow = harness.attached().await;
    for number in 0..8u64 {
        slow.send((READ, 4), number, 0, 16 << 20, &[]).await;
    }
    let mut other = harness.attached().await;
    for round in 0..20u8 {
        other.write(0, &[round; 512]).await;
        assert_eq!(other.read(0, 512).await, [round; 512]);
    }
    let metrics = harness.server.metrics();
    until(|| metrics.connections_open.load(Relaxed) == 1).await;
    until(|| metrics.requests_in_flight.load(Relaxed) == 0).await;
}

/// NBD-SAFE-2.
#[tokio::test]
async fn a_client_that_stops_in_a_request_is_cut_and_one_that_is_idle_is_not() {
    let harness = Harness::limited(short()).await;
    let mut idle = harness.attached().await;
    for sent in [&request((WRITE, 0), 1, 0, 512)[..10], &[request((WRITE, 0), 1, 0, 512), vec![1; 511]].concat()] {
        let mut client = harness.attached().await;
        client.send_raw(sent).await;
        client.closed().await;
    }
    assert_eq!(harness.volume.control.writes.load(Relaxed), 0, "half a write is none");
    tokio::time::sleep(2 * short().stall_timeout).await;
    idle.write(0, &[1; 512]).await;
}

/// NBD-SAFE-2.
#[tokio::test]
async fn a_store_that_hangs_holds_up_only_its_own_clients() {
    let harness = Harness::limited(Limits { connections_max: 5, connections_per_export_max: 2, ..short() }).await;
    let other = Volume::new(About::new("other"), 512).await;
    harness.server.add(other.export.clone()).unwrap();
    let control = harness.volume.control.clone();
    let metrics = harness.server.metrics();
    control.gate.send_replace(0..u64::MAX);
    // A client that comes again and again leaves requests behind only as often as there are seats at the export.
    for round in 1..=2 {
        let mut stuck = harness.attached().await;
        for number in 0..100u64 {
            stuck.send((WRITE, 0), number, 0, 512, &[1; 512]).await;
        }
        until(|| control.held.load(Relaxed) == round * 100).await;
        drop(stuck);
        until(|| metrics.connections_open.load(Relaxed) == 0).await;
    }
    let mut refused = harness.client().await;
    assert_eq!(refused.verdict(7, &info("disk", &[3])).await, -2);
    refused.go("other", &[3]).await;
    refused.write(0, &[2; 512]).await;
    assert_eq!(refused.read(0, 512).await, [2; 512]);
    let mut old = harness.client().await;
    old.send_option(1, b"disk").await;
    old.closed().await;
    control.gate.send_replace(0..0);
    until(|| metrics.requests_in_flight.load(Relaxed) == 0).await;
    harness.attached().await.write(0, &[3; 512]).await;
}

/// NBD-SAFE-2: a client that is gone would not be noticed while its next request waits for a place.
#[tokio::test]
async fn a_request_waits_for_a_place_no_longer_than_a_stall() {
    let harness = Harness::limited(Limits { requests_max: 4, ..short() }).await;
    let mut client = harness.attached().await;
    let control = harness.volume.control.clone();
    control.gate.send_replace(0..u64::MAX);
    for number in 0..5u64 {
        client.send((WRITE, 0), number, 0, 512, &[1; 512]).await;
    }
    until(|| control.held.load(Relaxed) == 4).await;
    let metrics = harness.server.metrics();
    until(|| metrics.connections_open.load(Relaxed) == 0).await;
    client.closed().await;
    control.gate.send_replace(0..0);
    until(|| metrics.requests_in_flight.load(Relaxed) == 0).await;
}

/// NBD-SAFE-2.
#[tokio::test]
async fn clients_who_are_silent_from_the_beginning_keep_nobody_out() {
    let harness = Harness::limited(Limits { connections_max: 4, ..Limits::default() }).await;
    let mut first = harness.attached().await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(tokio::net::TcpStream::connect(harness.address).await.unwrap());
    }
    let mut second = harness.attached().await;
    for client in [&mut first, &mut second] {
        client.write(0, &[1; 512]).await;
    }
}

#[tokio::test]
async fn unix_sockets_are_served_and_cleaned_up() {
    let folder = std::env::temp_dir().join(format!("shingle-nbd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("socket");
    // One that a server left behind.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let harness = Harness::usual().await;
    let listener = Listener::unix(&path).await.unwrap();
    assert_eq!(Listener::unix(&path).await.unwrap_err().kind(), std::io::ErrorKind::AddrInUse, "there is a server");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = harness.server.clone();
    let serving = tokio::spawn(async move { server.serve(vec![listener], async { drop(stopped.await) }).await });
    let mut client = Client::greet(Box::new(UnixStream::connect(&path).await.unwrap()), 3).await;
    client.go("", &[3]).await;
    client.write(0, &[1; 512]).await;
    assert_eq!(client.read(0, 512).await, [1; 512]);
    drop(stop);
    assert_eq!(serving.await.unwrap().cut, 0);
    assert!(!path.exists());
    // A file that is no socket stays.
    std::fs::write(&path, "text").unwrap();
    assert!(Listener::unix(&path).await.is_err() && path.exists());
    std::fs::remove_dir_all(&folder).unwrap();
}
