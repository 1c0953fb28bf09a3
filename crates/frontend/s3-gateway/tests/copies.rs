//! Copies: conditions on their source and on their target, ranges of a source, and whose buckets they are.

mod client;

use client::{Answer, Request, Server};
use s3s::crypto::{Checksum as _, Md5};
use shingle_s3_gateway::Limits;

const FROM: &[u8] = b"0123456789";
const LONG_AGO: &str = "Sun, 09 Sep 2001 01:46:40 GMT";

fn etag(data: &[u8]) -> String {
    format!("\"{}\"", client::hex(&Md5::checksum(data)))
}

fn with(request: Request, headers: &[(&str, &str)]) -> Request {
    headers.iter().fold(request, |request, (name, value)| request.header(name, value))
}

async fn body(server: &Server, path: &str) -> Vec<u8> {
    server.send(Request::new("GET", path)).await.body
}

/// A server with the object that is copied, and the time of its last change.
async fn with_source() -> (Server, String) {
    let server = Server::start(Limits::default()).await;
    assert_eq!(server.send(Request::put("/bucket/from", FROM)).await.status, 200);
    let head = server.send(Request::new("HEAD", "/bucket/from")).await;
    let modified = head.header("last-modified").unwrap().to_owned();
    (server, modified)
}

/// Starts an upload to `/bucket/parts`: its id.
async fn upload(server: &Server) -> String {
    let begin = Request { query: "uploads=".to_owned(), ..Request::new("POST", "/bucket/parts") };
    let text = String::from_utf8(server.send(begin).await.body).unwrap();
    text.split_once("<UploadId>").and_then(|(_, rest)| rest.split_once("</UploadId>")).unwrap().0.to_owned()
}

/// Status and code of an answer, which has no code if it is none of an error.
fn outcome(answer: &Answer) -> (u16, String) {
    (answer.status, if answer.status < 300 { String::new() } else { answer.code() })
}

async fn copy(server: &Server, headers: &[(&str, &str)]) -> Answer {
    server.send(with(Request::put("/bucket/to", "").header("x-amz-copy-source", "bucket/from"), headers)).await
}

async fn copy_part(server: &Server, id: &str, headers: &[(&str, &str)]) -> Answer {
    let request = Request { query: format!("partNumber=1&uploadId={id}"), ..Request::put("/bucket/parts", "") };
    server.send(with(request.header("x-amz-copy-source", "bucket/from"), headers)).await
}

#[tokio::test]
async fn all_conditions_on_the_source_hold_for_objects_and_for_parts() {
    let (server, modified) = with_source().await;
    let (same, other, id) = (etag(FROM), etag(b"other"), upload(&server).await);
    let bare = same.trim_matches('"');
    let [if_match, if_none_match, if_modified, if_unmodified] = [
        "x-amz-copy-source-if-match",
        "x-amz-copy-source-if-none-match",
        "x-amz-copy-source-if-modified-since",
        "x-amz-copy-source-if-unmodified-since",
    ];
    let cases: &[(&[(&str, &str)], u16)] = &[
        (&[(if_match, &same)], 200),
        (&[(if_match, bare)], 200),
        (&[(if_match, "*")], 200),
        (&[(if_match, &other)], 412),
        (&[(if_none_match, &same)], 412),
        (&[(if_none_match, bare)], 412),
        (&[(if_none_match, &other)], 200),
        (&[(if_modified, LONG_AGO)], 200),
        (&[(if_modified, &modified)], 412),
        (&[(if_unmodified, LONG_AGO)], 412),
        (&[(if_unmodified, &modified)], 200),
        // The two that S3 documents.
        (&[(if_match, &same), (if_unmodified, LONG_AGO)], 200),
        (&[(if_none_match, &same), (if_modified, LONG_AGO)], 412),
        (&[(if_none_match, &other), (if_modified, &modified)], 200),
        (&[(if_match, &other), (if_unmodified, &modified)], 412),
        (&[(if_match, &same), (if_none_match, &same)], 412),
        (&[(if_match, &same), (if_modified, &modified)], 412),
    ];
    for (headers, status) in cases {
        server.send(Request::put("/bucket/to", "before")).await;
        let answers = [copy(&server, headers).await, copy_part(&server, &id, headers).await];
        for answer in answers {
            assert_eq!(answer.status, *status, "{headers:?}: {}", answer.code());
            assert_eq!(answer.code() == "PreconditionFailed", *status == 412, "{headers:?}");
        }
        let expected: &[u8] = if *status == 200 { FROM } else { b"before" };
        assert_eq!(body(&server, "/bucket/to").await, expected, "{headers:?}");
    }
}

#[tokio::test]
async fn conditions_on_the_target_of_a_copy_are_those_of_a_put() {
    let (server, _) = with_source().await;
    let before = etag(b"before");
    for (there, header, value, expected) in [
        (false, "if-none-match", "*", (200, "")),
        (true, "if-none-match", "*", (412, "PreconditionFailed")),
        (true, "if-match", before.as_str(), (200, "")),
        (true, "if-match", before.trim_matches('"'), (200, "")),
        (true, "if-match", "\"0123\"", (412, "PreconditionFailed")),
        (false, "if-match", before.as_str(), (404, "NoSuchKey")),
        (true, "if-none-match", "\"0123\"", (501, "NotImplemented")),
    ] {
        for request in [
            Request::put("/bucket/to", FROM),
            Request::put("/bucket/to", "").header("x-amz-copy-source", "bucket/from"),
        ] {
            server.send(Request::new("DELETE", "/bucket/to")).await;
            if there {
                server.send(Request::put("/bucket/to", "before")).await;
            }
            let answer = server.send(request.header(header, value)).await;
            assert_eq!(outcome(&answer), (expected.0, expected.1.to_owned()), "{there} {header}: {value}");
            let after: &[u8] = if answer.status == 200 { FROM } else { b"before" };
            if there || answer.status == 200 {
                assert_eq!(body(&server, "/bucket/to").await, after, "{there} {header}: {value}");
            } else {
                assert_eq!(server.send(Request::new("HEAD", "/bucket/to")).await.status, 404);
            }
        }
    }
    // Both ends at once: neither makes up for the other.
    server.send(Request::put("/bucket/to", "before")).await;
    let both = [("x-amz-copy-source-if-match", etag(FROM)), ("if-match", etag(b"after"))];
    let both = both.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(copy(&server, &both).await.code(), "PreconditionFailed");
    let both = [("x-amz-copy-source-if-match", "\"0123\""), ("if-match", before.as_str())];
    assert_eq!(copy(&server, &both).await.code(), "PreconditionFailed");
    assert_eq!(body(&server, "/bucket/to").await, b"before");
}

#[tokio::test]
async fn a_part_may_be_a_range_of_its_source() {
    let (server, _) = with_source().await;
    let id = upload(&server).await;
    for range in ["bytes=0-10", "bytes=10-10", "bytes=5-", "bytes=-5", "bytes=5-2", "0-4", "bytes=0-1,3-4", "lines=0-1"]
    {
        let answer = copy_part(&server, &id, &[("x-amz-copy-source-range", range)]).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "InvalidArgument"), "{range}");
    }
    // A range of the copy itself is no such thing.
    let headers = [("x-amz-copy-source-range", "bytes=2-5"), ("range", "bytes=0-0")];
    let answer = copy_part(&server, &id, &headers).await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(answer.status == 200 && text.contains(etag(b"2345").trim_matches('"')), "{text}");
    let part = etag(b"2345");
    let complete = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{part}</ETag></Part></CompleteMultipartUpload>"
    );
    let query = format!("uploadId={id}");
    let complete = Request { query, body: complete.into_bytes(), ..Request::new("POST", "/bucket/parts") };
    assert_eq!(server.send(complete).await.status, 200);
    assert_eq!(body(&server, "/bucket/parts").await, b"2345");
}

#[tokio::test]
async fn a_copy_is_for_the_owners_that_it_expects() {
    let (server, _) = with_source().await;
    let id = upload(&server).await;
    for header in ["x-amz-expected-bucket-owner", "x-amz-source-expected-bucket-owner"] {
        for (owner, expected) in [("shingle", (200, "")), ("111122223333", (403, "AccessDenied"))] {
            server.send(Request::put("/bucket/to", "before")).await;
            for answer in [copy(&server, &[(header, owner)]).await, copy_part(&server, &id, &[(header, owner)]).await] {
                assert_eq!(outcome(&answer), (expected.0, expected.1.to_owned()), "{header}: {owner}");
            }
            assert_eq!(body(&server, "/bucket/to").await == FROM, expected.0 == 200);
        }
    }
}
