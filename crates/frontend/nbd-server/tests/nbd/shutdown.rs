//! The end of servers and of owners.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use shingle_nbd_server::Limits;

use crate::client::{FLUSH, READ, WRITE};
use crate::harness::{Harness, until};

/// NBD-ACK-1.
#[tokio::test]
async fn a_shutdown_answers_requests_under_way_and_refuses_later_ones() {
    let mut harness = Harness::usual().await;
    let mut client = harness.attached().await;
    let idle = harness.attached().await;
    let haggling = harness.client().await;
    harness.volume.control.gate.send_replace(0..512);
    client.send((WRITE, 0), 1, 0, 512, &[1; 512]).await;
    until(|| harness.volume.control.held.load(Relaxed) == 1).await;
    harness.begin_stop();
    let metrics = harness.server.metrics();
    // The idle one and the one in its handshake end at once.
    until(|| metrics.connections_open.load(Relaxed) == 1).await;
    for mut other in [idle, haggling] {
        other.closed().await;
    }
    client.send((WRITE, 0), 2, 4096, 512, &[2; 512]).await;
    assert_eq!(client.errno(2).await, 108);
    client.send((READ, 0), 3, 4096, 512, &[]).await;
    assert_eq!(client.errno(3).await, 108);
    harness.volume.control.gate.send_replace(0..0);
    assert_eq!(client.errno(1).await, 0);
    client.closed().await;
    assert!(tokio::net::TcpStream::connect(harness.address).await.is_err());
    assert_eq!(harness.volume.control.writes.load(Relaxed), 1);
    drop(client);
    assert_eq!(harness.stop().await.cut, 0);
}

/// NBD-ACK-1.
#[tokio::test]
async fn a_shutdown_refuses_a_request_that_waits_for_a_place() {
    let mut harness = Harness::limited(Limits { requests_max: 1, ..Limits::default() }).await;
    let mut client = harness.attached().await;
    harness.volume.control.gate.send_replace(0..512);
    client.send((WRITE, 0), 1, 0, 512, &[1; 512]).await;
    client.send((WRITE, 0), 2, 4096, 512, &[2; 512]).await;
    until(|| harness.volume.control.held.load(Relaxed) == 1).await;
    harness.begin_stop();
    assert_eq!(client.errno(2).await, 108);
    harness.volume.control.gate.send_replace(0..0);
    assert_eq!(client.errno(1).await, 0);
    client.closed().await;
}

#[tokio::test]
async fn a_shutdown_waits_for_a_hung_store_no_longer_than_the_grace() {
    let limits = Limits { shutdown_grace: Duration::from_millis(200), ..Limits::default() };
    let harness = Harness::limited(limits).await;
    let mut client = harness.attached().await;
    harness.volume.control.gate.send_replace(0..512);
    client.send((WRITE, 0), 1, 0, 512, &[1; 512]).await;
    let control = harness.volume.control.clone();
    until(|| control.held.load(Relaxed) == 1).await;
    assert_eq!(harness.stop().await.cut, 1);
    client.closed().await;
    control.gate.send_replace(0..0);
}

/// NBD-ACK-1.
#[tokio::test]
async fn requests_to_an_owner_that_is_gone_fail() {
    let harness = Harness::usual().await;
    let mut client = harness.attached().await;
    client.write(0, &[1; 512]).await;
    harness.volume.close().await;
    until(|| harness.volume.desk.is_closed()).await;
    assert_eq!(client.ask((WRITE, 0), 0, 512, &[1; 512]).await, 108);
    assert_eq!(client.ask((READ, 0), 0, 512, &[]).await, 108);
    assert_eq!(client.ask((FLUSH, 0), 0, 0, &[]).await, 108);
}
