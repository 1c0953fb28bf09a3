//! GW-S3-2 and GW-S3-3: bodies that are not what was stated leave nothing behind, however they are framed.

#![expect(clippy::disallowed_methods, reason = "tests of a front end run on tokio's threads and clock")]

mod client;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use client::{Connection, Payload, Request, Server, signed_length};
use s3s::crypto::{Checksum as _, Crc32, Md5};
use shingle_s3_gateway::Limits;
use tokio::io::AsyncWriteExt;

const UNSIGNED: &str = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
const SIGNED: &str = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";

fn crc32(data: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(Crc32::checksum(data))
}

fn data(length: usize) -> Vec<u8> {
    (0..length as u32).flat_map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()).take(length).collect()
}

/// One unsigned chunk, whatever the size, as some SDKs send it.
fn one_chunk(data: &[u8], trailer: &str) -> Vec<u8> {
    let head = format!("{:x}\r\n", data.len());
    [head.as_bytes(), data, b"\r\n0\r\n", trailer.as_bytes(), b"\r\n"].concat()
}

async fn is_absent(server: &Server, path: &str) {
    assert_eq!(server.send(Request::new("HEAD", path)).await.status, 404, "{path} was stored");
}

#[tokio::test]
async fn an_object_in_one_huge_unsigned_chunk_is_stored() {
    let server = Server::start(Limits::default()).await;
    let data = data(20 << 20);
    let framed = one_chunk(&data, &format!("x-amz-checksum-crc32:{}\r\n", crc32(&data)));
    let put =
        Request::framed("/bucket/k", UNSIGNED, data.len(), framed).header("x-amz-trailer", "x-amz-checksum-crc32");
    let answer = server.send(put).await;
    assert_eq!(answer.status, 200, "{}", answer.code());
    assert_eq!(answer.header("x-amz-checksum-crc32"), Some(crc32(&data).as_str()));
    let etag = format!("\"{}\"", client::hex(&Md5::checksum(&data)));
    assert_eq!(answer.header("etag"), Some(etag.as_str()));
    let got = server.send(Request::new("GET", "/bucket/k")).await;
    assert!(got.status == 200 && got.body == data);
    assert_eq!(got.header("content-encoding"), None, "the framing is no property of the object");
}

/// As proxies, the JavaScript SDK's streams and empty uploads of minio-go send it.
#[tokio::test]
async fn a_streamed_body_may_come_in_chunks_of_http_too() {
    let server = Server::start(Limits::default()).await;
    for size in [0, 1, 100_000] {
        let data = data(size);
        let trailer = format!("x-amz-checksum-crc32:{}\r\n", crc32(&data));
        let framed = if size == 0 { format!("0\r\n{trailer}\r\n").into_bytes() } else { one_chunk(&data, &trailer) };
        let put = Request::framed("/bucket/k", UNSIGNED, size, framed).header("x-amz-trailer", "x-amz-checksum-crc32");
        let answer = server.send(Request { chunked: true, ..put }).await;
        assert_eq!(answer.status, 200, "{size}: {}", answer.code());
        assert_eq!(server.send(Request::new("GET", "/bucket/k")).await.body, data);

        let upload =
            server.send(Request { query: "uploads=".to_owned(), ..Request::new("POST", "/bucket/parts") }).await;
        let text = String::from_utf8(upload.body).unwrap();
        let id = text.split_once("<UploadId>").and_then(|(_, rest)| rest.split_once("</UploadId>")).unwrap().0;
        let framed = if size == 0 { format!("0\r\n{trailer}\r\n").into_bytes() } else { one_chunk(&data, &trailer) };
        let put = Request::framed("/bucket/parts", UNSIGNED, size, framed);
        let put = put.header("x-amz-trailer", "x-amz-checksum-crc32");
        let answer = server.send(Request { chunked: true, query: format!("partNumber=1&uploadId={id}"), ..put }).await;
        assert_eq!(answer.status, 200, "{size}: {}", answer.code());
    }
    let unstated =
        Request { chunked: true, payload: Payload::Named("UNSIGNED-PAYLOAD"), ..Request::put("/bucket/k", "x") };
    assert_eq!(server.send(unstated).await.code(), "MissingContentLength");
}

/// GW-PACE-1, of those who send.
#[tokio::test]
async fn a_body_that_comes_too_slowly_is_ended() {
    for (writer_rate_min, status) in [(10_000, 400), (0, 200)] {
        let stall_timeout = Duration::from_millis(500);
        let server = Server::start(Limits { stall_timeout, writer_rate_min, ..Limits::default() }).await;
        let put = Request { payload: Payload::Named("UNSIGNED-PAYLOAD"), ..Request::put("/bucket/k", vec![7; 100]) };
        let mut connection = Connection::open(server.address).await;
        connection.write(&put.head(server.address)).await;
        let drip = async {
            for byte in put.body.chunks(1) {
                tokio::time::sleep(Duration::from_millis(20)).await;
                if connection.socket.write_all(byte).await.is_err() {
                    break;
                }
            }
            connection.answer(false).await
        };
        let answer = drip.await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.status == 400, answer.code() == "RequestTimeout");
    }
}

#[tokio::test]
async fn an_unsigned_body_that_is_not_what_was_stated_is_refused() {
    let server = Server::start(Limits::default()).await;
    let data = data(300_000);
    let good = format!("x-amz-checksum-crc32:{}\r\n", crc32(&data));
    let bad = format!("x-amz-checksum-crc32:{}\r\n", crc32(b"other"));
    let cut = |bytes: usize| {
        let whole = one_chunk(&data, &good);
        whole[..whole.len() - bytes].to_vec()
    };
    let cases = [
        ("BadDigest", one_chunk(&data, &bad), data.len()),
        ("MalformedTrailerError", one_chunk(&data, ""), data.len()),
        ("IncompleteBody", one_chunk(&data, &good), data.len() + 1),
        ("InvalidRequest", one_chunk(&data, &good), data.len() - 1),
        // Without its last chunk, so without its trailer.
        ("MalformedTrailerError", cut(good.len() + 5), data.len()),
        ("IncompleteBody", cut(good.len() + 100), data.len()),
        ("InvalidRequest", [b"zz\r\n".to_vec(), data.clone()].concat(), data.len()),
        ("InvalidRequest", one_chunk(&data, &format!("{}\r\n", "x".repeat(20_000))), data.len()),
    ];
    for (index, (code, framed, decoded)) in cases.into_iter().enumerate() {
        let put = Request::framed("/bucket/k", UNSIGNED, decoded, framed);
        let answer = server.send(put.header("x-amz-trailer", "x-amz-checksum-crc32")).await;
        assert_eq!(answer.code(), code, "case {index}");
        assert_eq!(answer.status, 400, "case {index}");
        is_absent(&server, "/bucket/k").await;
    }
}

/// Sends a body in signed chunks; `spoil` may change what goes over the wire.
async fn send_signed(server: &Server, chunks: &[&[u8]], spoil: impl Fn(&mut Vec<u8>)) -> client::Answer {
    let decoded = chunks.iter().map(|chunk| chunk.len()).sum();
    let all: Vec<&[u8]> = chunks.iter().copied().chain([&b""[..]]).collect();
    let request = Request::framed("/bucket/signed", SIGNED, decoded, vec![0; signed_length(&all)]);
    let (head, mut signer) = request.signed_head(server.address);
    let mut framed: Vec<u8> = all.iter().flat_map(|chunk| signer.chunk(chunk)).collect();
    assert_eq!(framed.len(), request.body.len());
    spoil(&mut framed);
    let mut connection = Connection::open(server.address).await;
    connection.write(&head).await;
    connection.write(&framed).await;
    connection.answer(false).await
}

#[tokio::test]
async fn signed_chunks_are_verified_one_by_one() {
    let server = Server::start(Limits::default()).await;
    let (first, second) = (data(64 << 10), data(100_001));
    let answer = send_signed(&server, &[&first, &second], |_| {}).await;
    assert_eq!(answer.status, 200, "{}", answer.code());
    let got = server.send(Request::new("GET", "/bucket/signed")).await;
    assert!(got.body == [&first[..], &second[..]].concat());
    assert_eq!(server.send(Request::new("DELETE", "/bucket/signed")).await.status, 204);

    for at in [100, 64 << 10, 120_000] {
        let answer = send_signed(&server, &[&first, &second], |framed| framed[at] ^= 1).await;
        assert_eq!((answer.status, answer.code().as_str()), (403, "SignatureDoesNotMatch"), "byte {at}");
        is_absent(&server, "/bucket/signed").await;
    }
}

#[tokio::test]
async fn a_signed_chunk_has_a_limit() {
    let server = Server::start(Limits::default()).await;
    let answer = send_signed(&server, &[&data((8 << 20) + 1)], |_| {}).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "InvalidRequest"));
    assert!(String::from_utf8_lossy(&answer.body).contains("8 MiB"));
    is_absent(&server, "/bucket/signed").await;
}

#[tokio::test]
async fn a_body_other_than_the_signed_one_is_refused() {
    let server = Server::start(Limits::default()).await;
    let put = Request::put("/bucket/k", data(5000));
    let (head, _) = put.signed_head(server.address);
    let mut connection = Connection::open(server.address).await;
    connection.write(&head).await;
    connection.write(&vec![1; 5000]).await;
    let answer = connection.answer(false).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "XAmzContentSHA256Mismatch"));
    is_absent(&server, "/bucket/k").await;
}

#[tokio::test]
async fn digests_in_headers_are_held_against_the_body() {
    let server = Server::start(Limits::default()).await;
    let wrong_md5 = base64_simd::STANDARD.encode_to_string(Md5::checksum(b"other"));
    for (name, value, code) in [
        ("content-md5", wrong_md5, "BadDigest"),
        ("content-md5", "AAAA".to_owned(), "InvalidDigest"),
        ("x-amz-checksum-crc32", crc32(b"other"), "BadDigest"),
        ("x-amz-checksum-crc32", "AA==".to_owned(), "InvalidRequest"),
    ] {
        let mut put = Request::put("/bucket/k", data(5000));
        put.payload = Payload::Named("UNSIGNED-PAYLOAD");
        let answer = server.send(put.header(name, &value)).await;
        assert_eq!(answer.code(), code, "{name}: {value}");
        is_absent(&server, "/bucket/k").await;
    }
}

#[tokio::test]
async fn xml_that_is_not_what_was_stated_does_nothing() {
    let server = Server::start(Limits::default()).await;
    assert_eq!(server.send(Request::put("/bucket/k", b"data".to_vec())).await.status, 200);
    let xml = "<Delete><Object><Key>k</Key></Object></Delete>";
    let delete = |name: &str, value: String| {
        let request = Request {
            query: "delete=".to_owned(),
            payload: Payload::Named("UNSIGNED-PAYLOAD"),
            ..Request::new("POST", "/bucket")
        };
        Request { body: xml.into(), ..request }.header(name, value)
    };
    let md5 = |data: &[u8]| base64_simd::STANDARD.encode_to_string(Md5::checksum(data));
    for (name, wrong) in [("content-md5", md5(b"other")), ("x-amz-checksum-crc32", crc32(b"other"))] {
        let answer = server.send(delete(name, wrong)).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "BadDigest"), "{name}");
        assert_eq!(server.send(Request::new("HEAD", "/bucket/k")).await.status, 200);
    }
    for (name, right) in [("content-md5", md5(xml.as_bytes())), ("x-amz-checksum-crc32", crc32(xml.as_bytes()))] {
        let answer = server.send(delete(name, right)).await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.code());
    }
    is_absent(&server, "/bucket/k").await;
}

#[tokio::test]
async fn a_body_that_stalls_or_breaks_off_leaves_nothing() {
    let limits = Limits { stall_timeout: Duration::from_millis(200), ..Limits::default() };
    let server = Server::start(limits).await;
    let put = || Request { payload: Payload::Named("UNSIGNED-PAYLOAD"), ..Request::put("/bucket/k", data(1 << 20)) };

    let mut stalled = Connection::open(server.address).await;
    stalled.write(&put().head(server.address)).await;
    stalled.write(&put().body[..100_000]).await;
    let answer = stalled.answer(false).await;
    assert_eq!(answer.code(), "RequestTimeout");

    let mut broken = Connection::open(server.address).await;
    broken.write(&put().head(server.address)).await;
    broken.write(&put().body[..100_000]).await;
    drop(broken);
    while server.metrics.requests_in_flight.load(Relaxed) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    is_absent(&server, "/bucket/k").await;
}

#[tokio::test]
async fn a_full_store_says_so_and_lives_on() {
    let server = Server::start_with(Limits::default(), 3 << 20).await;
    assert_eq!(server.send(Request::put("/bucket/small", data(1 << 20))).await.status, 200);
    let answer = server.send(Request::put("/bucket/large", data(16 << 20))).await;
    assert_eq!((answer.status, answer.code().as_str()), (507, "InsufficientStorage"));
    is_absent(&server, "/bucket/large").await;
    assert_eq!(server.send(Request::new("GET", "/bucket/small")).await.body, data(1 << 20));
}

/// An answer that says `bytes 0-0/0` speaks of a byte that is not there.
#[tokio::test]
async fn ranges_of_an_empty_object() {
    let server = Server::start(Limits::default()).await;
    assert_eq!(server.send(Request::put("/bucket/k", "")).await.status, 200);
    for (range, status) in [("bytes=-5", 200), ("bytes=0-", 416), ("bytes=0-0", 416), ("bytes=-0", 416)] {
        for method in ["GET", "HEAD"] {
            let answer = server.send(Request::new(method, "/bucket/k").header("range", range)).await;
            assert_eq!(answer.status, status, "{method} {range}");
            let said = (status == 416).then_some("bytes */0");
            assert_eq!(answer.header("content-range"), said, "{method} {range}");
        }
    }
}

/// GW-XML-1 and what comes of a body that is too large or not the one that was signed.
#[tokio::test]
async fn xml_that_is_not_known_is_refused_and_nothing_happens() {
    let server = Server::start(Limits::default()).await;
    for key in ["a", "b"] {
        assert_eq!(server.send(Request::put(&format!("/bucket/{key}"), "x")).await.status, 200);
    }
    let delete =
        |body: &str| Request { query: "delete=".to_owned(), body: body.into(), ..Request::new("POST", "/bucket") };
    let keyed = |key: &str| delete(&format!("<Delete><Object><Key>{key}</Key></Object></Delete>"));
    for (request, code) in [
        (keyed("a<![CDATA[a]]>"), "MalformedXML"),
        (keyed("a<!-- not -->"), "MalformedXML"),
        (delete("<Delete><Object><Key>a</Key><Forever>1</Forever></Object></Delete>"), "NotImplemented"),
        (
            delete(&format!("<Delete>{}<Object><Key>a</Key></Object></Delete>", " ".repeat(4 << 20))),
            "MaxMessageLengthExceeded",
        ),
        (keyed("a").header("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="), "BadDigest"),
        (keyed("a").header("content-md5", ""), "InvalidDigest"),
    ] {
        let answer = server.send(request).await;
        assert_eq!((answer.code().as_str(), answer.status / 100), (code, if code == "NotImplemented" { 5 } else { 4 }));
        for key in ["a", "b"] {
            assert_eq!(server.send(Request::new("HEAD", &format!("/bucket/{key}"))).await.status, 200, "{code}");
        }
    }
    let other = keyed("a");
    let head = Request { body: keyed("b").body, ..keyed("a") }.head(server.address);
    let mut connection = Connection::open(server.address).await;
    connection.write(&head).await;
    connection.write(&other.body).await;
    let answer = connection.answer(false).await;
    assert_eq!((answer.code().as_str(), answer.status), ("XAmzContentSHA256Mismatch", 400));

    let tags =
        "<CreateBucketConfiguration><Tags><Tag><Key>k</Key><Value>v</Value></Tag></Tags></CreateBucketConfiguration>";
    assert_eq!(server.send(Request::put("/new-bucket", tags)).await.code(), "NotImplemented");
    assert_eq!(server.send(Request::new("HEAD", "/new-bucket")).await.status, 404);
    assert_eq!(server.send(keyed("a")).await.status, 200);
    assert_eq!(server.send(Request::new("HEAD", "/bucket/a")).await.status, 404);
    assert_eq!(server.send(Request::new("HEAD", "/bucket/b")).await.status, 200);
}
