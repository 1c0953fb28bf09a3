//! GW-S3-1, and what connections may do: time, number, and their end.

#![expect(clippy::disallowed_methods, reason = "tests of a front end run on tokio's threads and clock")]

mod client;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use client::{Connection, Payload, Request, Server};
use shingle_s3_gateway::{Limits, Served};
use tokio::io::AsyncReadExt;

const SHORT: Duration = Duration::from_millis(200);

#[tokio::test]
async fn only_the_right_keys_open_anything() {
    let server = Server::start(Limits::default()).await;
    assert_eq!(server.send(Request::put("/bucket/k", b"data".to_vec())).await.status, 200);

    let wrong = Request { secret: "another secret", ..Request::new("GET", "/bucket/k") };
    let answer = server.send(wrong).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "SignatureDoesNotMatch"));

    let head = String::from_utf8(Request::new("GET", "/bucket/k").head(server.address)).unwrap();
    let mut unknown = Connection::open(server.address).await;
    unknown.write(head.replace(client::ACCESS_KEY, "AKOTHER").as_bytes()).await;
    let answer = unknown.answer(false).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "InvalidAccessKeyId"));

    for target in ["/", "/bucket", "/bucket/k", "/bucket?list-type=2", "/bucket/missing", "/bucket/k?uploads", "/other"]
    {
        for method in ["GET", "PUT", "POST", "DELETE"] {
            let mut connection = Connection::open(server.address).await;
            let head = format!("{method} {target} HTTP/1.1\r\nhost: {}\r\ncontent-length: 0\r\n\r\n", server.address);
            connection.write(head.as_bytes()).await;
            let answer = connection.answer(false).await;
            let refused = answer.code() == "AccessDenied" && answer.status == 403;
            // A request that is no operation at all is refused before its sender is checked.
            assert!(refused || matches!(answer.status, 405 | 501), "{method} {target}: {answer:?}");
        }
    }
    assert_eq!(server.send(Request::new("GET", "/bucket/k")).await.body, b"data");
}

#[tokio::test]
async fn a_header_added_behind_the_signature_is_refused() {
    let server = Server::start(Limits::default()).await;
    let head = String::from_utf8(Request::put("/bucket/k", b"".to_vec()).head(server.address)).unwrap();
    let mut connection = Connection::open(server.address).await;
    let with = head.replace("\r\n\r\n", "\r\nx-amz-copy-source: /bucket/secret\r\n\r\n");
    connection.write(with.as_bytes()).await;
    let answer = connection.answer(false).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "AccessDenied"));
}

#[tokio::test]
async fn a_form_is_refused_before_its_body_is_collected() {
    let server = Server::start(Limits::default()).await;
    let mut connection = Connection::open(server.address).await;
    let head = format!(
        "POST /bucket HTTP/1.1\r\nhost: {}\r\ncontent-type: multipart/form-data; boundary=b\r\ncontent-length: 4000000000\r\nexpect: 100-continue\r\n\r\n",
        server.address
    );
    connection.write(head.as_bytes()).await;
    let answer = connection.answer(false).await;
    assert_eq!((answer.status, answer.code().as_str()), (501, "NotImplemented"));
}

#[tokio::test]
async fn a_refused_upload_gets_its_answer_though_it_is_still_sending() {
    let server = Server::start(Limits::default()).await;
    let put =
        Request { payload: Payload::Named("UNSIGNED-PAYLOAD"), ..Request::put("/no-bucket/k", vec![7; 16 << 20]) };
    let answer = server.send(put).await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "NoSuchBucket"));
}

#[tokio::test]
async fn a_client_that_waits_to_be_told_sends_nothing_in_vain() {
    let server = Server::start(Limits::default()).await;
    for (path, told) in [("/no-bucket/k", "HTTP/1.1 404"), ("/bucket/k", "HTTP/1.1 100")] {
        let put = Request { payload: Payload::Named("UNSIGNED-PAYLOAD"), ..Request::put(path, vec![7; 100_000]) };
        let put = put.header("expect", "100-continue");
        let mut connection = Connection::open(server.address).await;
        connection.write(&put.head(server.address)).await;
        let mut first = [0; 12];
        connection.socket.read_exact(&mut first).await.unwrap();
        assert_eq!(std::str::from_utf8(&first), Ok(told), "{path}");
    }
}

/// botocore misreads what follows on such a connection, which stalled every tree with an empty file.
#[tokio::test]
async fn a_connection_ends_where_an_answer_came_before_its_continue() {
    let server = Server::start(Limits::default()).await;
    for (body, status) in [(Vec::new(), 200), (vec![7; 100_000], 404)] {
        let path = if status == 200 { "/bucket/empty" } else { "/no-bucket/k" };
        let put = Request { payload: Payload::Named("UNSIGNED-PAYLOAD"), ..Request::put(path, body) };
        let put = put.header("expect", "100-continue");
        let mut connection = Connection::open(server.address).await;
        connection.write(&put.head(server.address)).await;
        let answer = connection.answer(false).await;
        assert_eq!((answer.status, answer.header("connection")), (status, Some("close")));
        assert!(connection.closed().await.is_empty());
    }
}

#[tokio::test]
async fn a_connection_that_sends_no_head_is_closed() {
    let server = Server::start(Limits { head_timeout: SHORT, ..Limits::default() }).await;
    let mut slow = Connection::open(server.address).await;
    slow.write(b"GET / HTTP/1.1\r\nhost:").await;
    slow.closed().await;
    Connection::open(server.address).await.closed().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let server = Server::start(Limits { stall_timeout: SHORT, ..Limits::default() }).await;
    let size = 64 << 20;
    assert_eq!(server.send(Request::put("/bucket/k", vec![1; size])).await.status, 200);
    let mut idle = Connection::open(server.address).await;
    idle.write(&Request::new("GET", "/bucket/k").head(server.address)).await;
    tokio::time::timeout(Duration::from_secs(10), async {
        while server.metrics.connections_open.load(Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("the connection is closed");
    assert!(idle.closed().await.len() < size);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_their_turn() {
    let server = Server::start(Limits { connections_max: 2, ..Limits::default() }).await;
    let (first, second) = (Connection::open(server.address).await, Connection::open(server.address).await);
    let mut third = Connection::open(server.address).await;
    third.write(&Request::new("GET", "/").head(server.address)).await;
    let mut byte = [0; 1];
    let waiting = tokio::time::timeout(SHORT, third.socket.peek(&mut byte)).await;
    assert!(waiting.is_err(), "the third was served while two were open");
    drop(first);
    assert_eq!(third.answer(false).await.status, 200);
    drop(second);
}

#[tokio::test]
async fn a_stop_lets_requests_finish_and_ends_idle_connections() {
    let server = Server::start(Limits::default()).await;
    let idle = Connection::open(server.address).await;
    let put = Request { payload: Payload::Named("UNSIGNED-PAYLOAD"), ..Request::put("/bucket/k", vec![7; 100_000]) };
    let mut working = Connection::open(server.address).await;
    working.write(&put.head(server.address)).await;
    working.write(&put.body[..50_000]).await;
    while server.metrics.requests_in_flight.load(Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let store = server.store.clone();
    let finish = async {
        tokio::time::sleep(SHORT).await;
        working.write(&put.body[50_000..]).await;
        working.answer(false).await.status
    };
    let (served, status) = tokio::join!(server.stop(), finish);
    assert_eq!((served, status), (Served { cut: 0 }, 200));
    idle.closed().await;
    use shingle_store_api::ObjectStore;
    assert_eq!(store.head("bucket", "k").await.unwrap().size, 100_000);
}

#[tokio::test]
async fn a_stop_cuts_what_does_not_finish() {
    let server = Server::start(Limits { shutdown_grace: SHORT, ..Limits::default() }).await;
    let put = Request { payload: Payload::Named("UNSIGNED-PAYLOAD"), ..Request::put("/bucket/k", vec![7; 100_000]) };
    let mut working = Connection::open(server.address).await;
    working.write(&put.head(server.address)).await;
    while server.metrics.requests_in_flight.load(Relaxed) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.stop().await, Served { cut: 1 });
}

#[tokio::test]
async fn one_connection_serves_one_request_after_the_other() {
    let server = Server::start(Limits::default()).await;
    let mut connection = Connection::open(server.address).await;
    for round in 0..20 {
        let put = Request::put("/bucket/k", vec![round; 10_000]);
        connection.write(&put.head(server.address)).await;
        connection.write(&put.body).await;
        assert_eq!(connection.answer(false).await.status, 200);
        connection.write(&Request::new("GET", "/bucket/k").head(server.address)).await;
        let got = connection.answer(false).await;
        assert_eq!(got.body, vec![round; 10_000]);
        let fresh = got.header("etag").unwrap().to_owned();
        let cached = Request::new("GET", "/bucket/k").header("if-none-match", &fresh);
        connection.write(&cached.head(server.address)).await;
        let unchanged = connection.answer(false).await;
        assert_eq!((unchanged.status, unchanged.header("etag")), (304, Some(fresh.as_str())));
        connection.write(&Request::new("HEAD", "/bucket/none").head(server.address)).await;
        assert_eq!(connection.answer(true).await.status, 404);
    }
    assert_eq!(server.metrics.connections_accepted.load(Relaxed), 2);
}

#[tokio::test]
async fn a_bucket_may_be_named_by_the_host() {
    let server = Server::start_in(Some("s3.example.com"), Limits::default()).await;
    for (host, path) in
        [("bucket.s3.example.com:9000", "/k"), ("s3.example.com", "/bucket/k"), ("elsewhere", "/bucket/k")]
    {
        let put = Request { host: Some(host), ..Request::put(path, host.as_bytes()) };
        assert_eq!(server.send(put).await.status, 200, "{host}");
        assert_eq!(server.send(Request::new("GET", "/bucket/k")).await.body, host.as_bytes());
    }
}

/// GW-SEAT-2.
#[tokio::test]
async fn silent_connections_lock_nobody_out() {
    let server = Server::start(Limits { connections_max: 8, ..Limits::default() }).await;
    let mut put = Connection::open(server.address).await;
    let request = Request { payload: Payload::Named("UNSIGNED-PAYLOAD"), ..Request::put("/bucket/k", vec![7; 100]) };
    put.write(&request.head(server.address)).await;
    let mut silent = Vec::new();
    for number in 0..20 {
        let mut connection = Connection::open(server.address).await;
        if number % 2 == 0 {
            connection.write(b"GET / HTTP/1.1\r\nhost:").await;
        }
        silent.push(connection);
    }
    for _ in 0..3 {
        assert_eq!(server.send(Request::new("GET", "/")).await.status, 200);
    }
    assert!(server.metrics.connections_displaced.load(Relaxed) >= 13);
    put.write(&request.body).await;
    assert_eq!(put.answer(false).await.status, 200, "a request under way keeps its connection");
}
