//! Handshakes: flags, options, exports by name.

use shingle_nbd_server::{About, Limits, Options};
use tokio::net::TcpStream;

use crate::client::{Client, READ, info, number, string};
use crate::harness::{Harness, SIZE, Volume, short};

#[tokio::test]
async fn an_export_tells_all_about_itself() {
    let about = About { description: "a disk".to_owned(), preferred_bytes: 1 << 20, ..About::new("disk") };
    let harness = Harness::new(about, 4096, Options::default()).await;
    let mut client = harness.client().await;
    let answers = client.option(6, &info("", &[1, 2, 3, 77])).await;
    let numbers = |numbers: &[u32]| numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    let export = [&[0, 0][..], &SIZE.to_be_bytes(), &0b1001_0110_1101u16.to_be_bytes()].concat();
    let sizes = [vec![0, 3], numbers(&[4096, 1 << 20, 32 << 20])].concat();
    let expected = [(3, export), (3, b"\0\x01disk".to_vec()), (3, b"\0\x02a disk".to_vec()), (3, sizes), (1, vec![])];
    assert_eq!(answers, expected);
    // Another answer beside it, and the same export by its name.
    let listed = client.option(3, &[]).await;
    assert_eq!(listed, [(2, [string("disk"), b"a disk".to_vec()].concat()), (1, vec![])]);
    client.structured().await;
    let (size, flags) = client.go("disk", &[]).await;
    assert_eq!((size, flags), (SIZE, 0b1001_1110_1101));
    assert_eq!(client.read(1, 3).await, [0; 3]);
}

#[tokio::test]
async fn old_clients_get_an_export_by_export_name() {
    let harness = Harness::usual().await;
    for (flags, zeroes) in [(0, 124), (1, 124), (3, 0), (2, 0)] {
        let socket = Box::new(TcpStream::connect(harness.address).await.unwrap());
        let mut client = Client::greet(socket, flags).await;
        client.send_option(1, b"disk").await;
        let answer = client.bytes(10 + zeroes).await;
        assert_eq!(number(&answer[..8]), SIZE);
        assert!(answer[10..].iter().all(|byte| *byte == 0));
        assert_eq!(client.read(0, 512).await, [0; 512]);
    }
    let mut client = harness.client().await;
    client.send_option(1, b"another").await;
    client.closed().await;
}

#[tokio::test]
async fn clients_that_break_the_handshake_are_closed() {
    let harness = Harness::limited(short()).await;
    let connect = || async { Box::new(TcpStream::connect(harness.address).await.unwrap()) };
    // A flag that nobody knows.
    Client::greet(connect().await, 7).await.closed().await;
    // Options by a client that cannot understand their answers.
    let mut client = Client::greet(connect().await, 0).await;
    client.send_option(3, &[]).await;
    client.closed().await;
    // No option.
    let mut client = harness.client().await;
    client.send_raw(b"GET / HTTP/1.1\r\n\r\n").await;
    client.closed().await;
    // Options of a size that nobody needs.
    for (option, length) in [(1, 4097u32), (7, (1 << 20) + 1), (7, u32::MAX)] {
        let mut client = harness.client().await;
        client.send_raw(&[&b"IHAVEOPT"[..], &u32::to_be_bytes(option), &length.to_be_bytes()].concat()).await;
        client.closed().await;
    }
    // Silence, and silence in the middle of an option. (NBD-SAFE-2)
    for bytes in [&b""[..], b"IHAV"] {
        let mut client = harness.client().await;
        client.send_raw(bytes).await;
        client.closed().await;
    }
    // The server goes on.
    harness.attached().await.write(0, &[1; 512]).await;
}

#[tokio::test]
async fn options_that_fail_leave_the_haggling_open() {
    let harness = Harness::usual().await;
    let mut client = harness.client().await;
    assert_eq!(client.verdict(7, &info("none", &[3])).await, -6);
    assert_eq!(client.verdict(7, b"abc").await, -3);
    assert_eq!(client.verdict(7, &vec![0; 100_000]).await, -9, "too long, and passed over");
    assert_eq!(client.verdict(11, &[]).await, -1, "extended headers are not known");
    assert_eq!(client.verdict(4, &[]).await, -1);
    assert_eq!(client.verdict(5, &[]).await, -2, "there is no TLS");
    assert_eq!(client.contexts("disk", &["base:allocation"]).await[0].0, (1 << 31) + 3, "before structured replies");
    client.structured().await;
    let chosen = client.contexts("disk", &["x-own:thing", "base:allocation"]).await;
    assert_eq!(chosen, [(4, b"\0\0\0\x01base:allocation".to_vec()), (1, vec![])]);
    let listed = client.option(9, &[string("disk"), vec![0; 4]].concat()).await;
    assert_eq!(listed, [(4, b"\0\0\0\0base:allocation".to_vec()), (1, vec![])]);
    client.go("disk", &[3]).await;
    let mut client = harness.client().await;
    assert_eq!(client.verdict(2, &[]).await, 1, "a client may take its leave");
    client.closed().await;
}

#[tokio::test]
async fn exports_come_and_go_while_the_server_runs() {
    let harness = Harness::usual().await;
    let mut first = harness.client().await;
    first.go("", &[3]).await;
    let second = Volume::new(About { read_only: true, ..About::new("other") }, 512).await;
    harness.server.add(second.export.clone()).unwrap();
    assert_eq!(harness.server.add(second.export.clone()).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
    let mut client = harness.client().await;
    assert_eq!(client.option(3, &[]).await.len(), 3);
    assert_eq!(client.verdict(7, &info("", &[3])).await, -6, "no export is the only one now");
    let (_, flags) = client.go("other", &[3]).await;
    assert_eq!(flags & 2, 2, "read-only");
    assert!(harness.server.remove("disk") && !harness.server.remove("disk"));
    assert_eq!(harness.client().await.verdict(7, &info("disk", &[3])).await, -6);
    assert_eq!(first.read(0, 512).await, [0; 512], "whoever has it keeps it");
}

/// NBD-SAFE-2.
#[tokio::test]
async fn connections_beyond_the_limit_are_closed_at_once() {
    let harness = Harness::limited(Limits { connections_max: 2, ..Limits::default() }).await;
    let (mut first, second) = (harness.attached().await, harness.attached().await);
    let third = TcpStream::connect(harness.address).await.unwrap();
    Client { socket: Box::new(third), structured: false }.closed().await;
    first.write(0, &[1; 512]).await;
    drop(second);
    let metrics = harness.server.metrics();
    crate::harness::until(|| metrics.connections_open.load(std::sync::atomic::Ordering::Relaxed) == 1).await;
    let mut fourth = harness.attached().await;
    fourth.send((READ, 0), 1, 0, 512, &[]).await;
    assert_eq!(fourth.chunks(1).await.len(), 1);
}
