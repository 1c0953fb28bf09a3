//! Answers of S3 that an adapter is free to give otherwise.

mod client;

use client::{Answer, Payload, Request, Server};
use s3s::crypto::{Checksum as _, Md5};
use shingle_s3_gateway::Limits;

async fn get(server: &Server, path: &str, query: &str, headers: &[(&str, &str)]) -> Answer {
    let request = Request { query: query.to_owned(), ..Request::new("GET", path) };
    server.send(headers.iter().fold(request, |request, (name, value)| request.header(name, value))).await
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

async fn with_object() -> Server {
    let server = Server::start(Limits::default()).await;
    assert_eq!(server.send(Request::put("/bucket/digits", "0123456789")).await.status, 200);
    server
}

/// GW-RANGE-1.
#[tokio::test]
async fn a_range_that_is_none_is_passed_over_and_still_signed() {
    let server = with_object().await;
    let unusable = ["bytes=0-0,5-6", "bytes=5-2", "bytes=0-99999999999999999999", "lines=0-1", "bytes=", "bytes=a-b"];
    for range in unusable {
        let whole = get(&server, "/bucket/digits", "", &[("range", range)]).await;
        assert_eq!((whole.status, &*whole.body), (200, &b"0123456789"[..]), "{range}");
        assert_eq!(whole.header("content-range"), None);
        let head = Request::new("HEAD", "/bucket/digits").header("range", range);
        let head = server.send(head).await;
        assert_eq!((head.status, head.header("content-length")), (200, Some("10")), "{range}");

        let forged = Request { secret: "another", ..Request::new("GET", "/bucket/digits").header("range", range) };
        assert_eq!(server.send(forged).await.code(), "SignatureDoesNotMatch");
        let refused = get(&server, "/bucket/digits", "madeUp=1", &[("range", range)]).await;
        assert_eq!(refused.code(), "NotImplemented", "the list of what is served holds here too");
        assert_eq!(get(&server, "/bucket/other", "", &[("range", range)]).await.code(), "NoSuchKey");
    }
    let unsigned = format!("GET /bucket/digits HTTP/1.1\r\nhost: {}\r\nrange: bytes=5-2\r\n\r\n", server.address);
    let mut connection = client::Connection::open(server.address).await;
    connection.write(unsigned.as_bytes()).await;
    let answer = connection.answer(false).await;
    assert_eq!((answer.status, answer.code().as_str()), (403, "AccessDenied"));
    assert_eq!(get(&server, "/bucket/digits", "", &[("range", "bytes=2-3")]).await.body, b"23");
    assert_eq!(get(&server, "/bucket/digits", "", &[("range", "bytes=10-")]).await.status, 416);
}

#[tokio::test]
async fn a_range_holds_for_the_object_that_if_range_names() {
    let server = with_object().await;
    let etag = format!("\"{}\"", client::hex(&Md5::checksum(b"0123456789")));
    let part = get(&server, "/bucket/digits", "", &[("if-range", &etag), ("range", "bytes=2-3")]).await;
    assert_eq!((part.status, &*part.body), (206, &b"23"[..]));
    let modified = part.header("last-modified").unwrap().to_owned();
    let part = get(&server, "/bucket/digits", "", &[("if-range", &modified), ("range", "bytes=2-3")]).await;
    assert_eq!(part.status, 206);
    for other in ["\"0123\"", "Sun, 09 Sep 2001 01:46:40 GMT"] {
        let whole = get(&server, "/bucket/digits", "", &[("if-range", other), ("range", "bytes=2-3")]).await;
        assert_eq!((whole.status, whole.body.len()), (200, 10), "{other}");
    }
}

#[tokio::test]
async fn an_error_says_what_is_wrong_and_which_request_it_was() {
    let server = with_object().await;
    let long = format!("/bucket/{}", "k".repeat(1025));
    for (method, path, code) in [
        ("GET", "/Bucket_", "InvalidBucketName"),
        ("GET", &long, "KeyTooLongError"),
        ("GET", "/bucket/other", "NoSuchKey"),
        ("PATCH", "/bucket/digits", "MethodNotAllowed"),
    ] {
        let method = if method == "PATCH" { "POST" } else { "GET" };
        let answer = server.send(Request::new(method, path)).await;
        let id = answer.header("x-amz-request-id").unwrap().to_owned();
        assert!(text(&answer).contains(&format!("<RequestId>{id}</RequestId>")), "{}", text(&answer));
        let message = text(&answer);
        let message = message.split_once("<Message>").and_then(|(_, rest)| rest.split_once("</Message>")).unwrap().0;
        assert!(message.len() > 4, "{code}: {message}");
        if method == "GET" {
            assert_eq!(answer.code(), code);
        }
    }
}

#[tokio::test]
async fn a_plus_in_the_source_of_a_copy_is_a_space() {
    let server = with_object().await;
    for (path, body) in [("/bucket/a%20b", "space"), ("/bucket/a%2Bb", "plus")] {
        assert_eq!(server.send(Request::put(path, body)).await.status, 200);
    }
    for (source, body) in [("bucket/a+b", "space"), ("/bucket/a%20b", "space"), ("bucket/a%2Bb", "plus")] {
        let copy = Request::put("/bucket/copy", "").header("x-amz-copy-source", source);
        assert_eq!(server.send(copy).await.status, 200, "{source}");
        assert_eq!(text(&get(&server, "/bucket/copy", "", &[]).await), body, "{source}");
    }
}

#[tokio::test]
async fn answers_are_written_as_s3_writes_them() {
    let server = with_object().await;
    let attributes = get(&server, "/bucket/digits", "attributes=", &[("x-amz-object-attributes", "ETag")]).await;
    let etag = client::hex(&Md5::checksum(b"0123456789"));
    assert!(text(&attributes).contains(&format!("<ETag>{etag}</ETag>")), "{}", text(&attributes));
    let listed = get(&server, "/bucket", "prefix=%0A", &[]).await;
    assert!(text(&listed).contains("<Prefix>&#xA;</Prefix>"), "{}", text(&listed));
    let listed = get(&server, "/bucket", "delimiter=&prefix=dig", &[]).await;
    assert!(!text(&listed).contains("<Delimiter>"), "{}", text(&listed));
    assert_eq!(get(&server, "/bucket/digits", "partNumber=2", &[]).await.code(), "InvalidPart");
}

#[tokio::test]
async fn an_upload_that_never_was_is_not_found_whatever_its_parts() {
    let server = with_object().await;
    for etag in ["0123", "\"d41d8cd98f00b204e9800998ecf8427e\""] {
        let body = format!(
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
        );
        let query = "uploadId=0000000000000000000000000000000f".to_owned();
        let complete = Request { query, body: body.into_bytes(), ..Request::new("POST", "/bucket/digits") };
        let answer = server.send(complete).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "NoSuchUpload"), "{etag}");
    }
}

#[tokio::test]
async fn buckets_are_made_again_in_the_first_region_and_named_by_its_rules() {
    let server = with_object().await;
    assert_eq!(server.send(Request::put("/bucket", "")).await.status, 200);
    assert_eq!(get(&server, "/bucket/digits", "", &[]).await.status, 200);
    for name in ["foo.-bar", "foo-.bar"] {
        assert_eq!(server.send(Request::put(&format!("/{name}"), "")).await.code(), "InvalidBucketName");
    }
}

#[tokio::test]
async fn a_write_that_must_find_an_object_says_that_there_is_none() {
    let server = with_object().await;
    let put = |etag: &str| Request::put("/bucket/missing", "x").header("if-match", etag);
    let answer = server.send(put("\"0123\"")).await;
    assert_eq!((answer.status, answer.code().as_str()), (404, "NoSuchKey"));
    let there = Request::put("/bucket/digits", "x").header("if-match", "\"0123\"");
    assert_eq!(server.send(there).await.code(), "PreconditionFailed");
}

#[tokio::test]
async fn an_empty_digest_is_no_digest() {
    let server = with_object().await;
    let put = Request { payload: Payload::Named("UNSIGNED-PAYLOAD"), ..Request::put("/bucket/k", "x") };
    assert_eq!(server.send(put.header("content-md5", "")).await.code(), "InvalidDigest");
}

#[tokio::test]
async fn a_delete_is_conditional_if_asked() {
    let server = with_object().await;
    let etag = format!("\"{}\"", client::hex(&Md5::checksum(b"0123456789")));
    let delete = |key: &str, etag: &str| Request::new("DELETE", &format!("/bucket/{key}")).header("if-match", etag);
    let (unmet, missing) = ((412, "PreconditionFailed"), (404, "NoSuchKey"));
    for (key, condition, expected) in
        [("digits", "\"0123\"", unmet), ("missing", "*", missing), ("missing", "\"0123\"", missing)]
    {
        let answer = server.send(delete(key, condition)).await;
        assert_eq!((answer.status, answer.code().as_str()), expected, "{key} {condition}");
    }
    let many = |etag: &str| Request {
        query: "delete=".to_owned(),
        body: format!("<Delete><Object><Key>digits</Key><ETag>{etag}</ETag></Object></Delete>").into_bytes(),
        ..Request::new("POST", "/bucket")
    };
    let answer = server.send(many("\"0123\"")).await;
    assert!(text(&answer).contains("<Code>PreconditionFailed</Code>"), "{}", text(&answer));
    assert_eq!(server.send(Request::new("HEAD", "/bucket/digits")).await.status, 200);
    assert_eq!(server.send(delete("digits", &etag)).await.status, 204);
    assert_eq!(server.send(Request::put("/bucket/digits", "0123456789")).await.status, 200);
    assert!(text(&server.send(many(&etag)).await).contains("<Deleted><Key>digits</Key>"));
    assert_eq!(server.send(Request::new("HEAD", "/bucket/digits")).await.status, 404);
    assert_eq!(server.send(Request::new("DELETE", "/bucket/digits")).await.status, 204);
}

#[tokio::test]
async fn everything_is_private_and_stays_so() {
    let server = with_object().await;
    let acl = |method, path: &str, canned: &str, body: String| {
        let request = Request { query: "acl=".to_owned(), body: body.into_bytes(), ..Request::new(method, path) };
        if canned.is_empty() { request } else { request.header("x-amz-acl", canned) }
    };
    for path in ["/bucket", "/bucket/digits"] {
        let answer = server.send(acl("GET", path, "", String::new())).await;
        let list = text(&answer);
        assert!(list.contains("<Permission>FULL_CONTROL</Permission>") && list.contains("<ID>shingle</ID>"), "{list}");
        assert_eq!(server.send(acl("PUT", path, "private", String::new())).await.status, 200);
        assert_eq!(server.send(acl("PUT", path, "public-read", String::new())).await.code(), "NotImplemented");
        assert_eq!(server.send(acl("PUT", path, "", String::new())).await.code(), "MissingSecurityHeader");
        let own = list[list.find("<AccessControlPolicy").unwrap()..].to_owned();
        assert_eq!(server.send(acl("PUT", path, "", own.clone())).await.status, 200, "{own}");
        for other in [own.replace("FULL_CONTROL", "READ"), own.replacen("<ID>shingle</ID>", "<ID>other</ID>", 2)] {
            assert_eq!(server.send(acl("PUT", path, "", other)).await.code(), "NotImplemented");
        }
    }
    for path in ["/missing", "/bucket/missing"] {
        assert_eq!(server.send(acl("GET", path, "", String::new())).await.status, 404);
        assert_eq!(server.send(acl("PUT", path, "private", String::new())).await.status, 404);
    }
}

#[tokio::test]
async fn settings_that_a_bucket_never_had_are_answered_so() {
    let server = with_object().await;
    for (query, status, word) in [
        ("publicAccessBlock", 404, "NoSuchPublicAccessBlockConfiguration"),
        ("ownershipControls", 404, "OwnershipControlsNotFoundError"),
        ("policyStatus", 404, "NoSuchBucketPolicy"),
        ("website", 404, "NoSuchWebsiteConfiguration"),
        ("replication", 404, "ReplicationConfigurationNotFoundError"),
        ("encryption", 404, "ServerSideEncryptionConfigurationNotFoundError"),
        ("lifecycle", 404, "NoSuchLifecycleConfiguration"),
        ("tagging", 404, "NoSuchTagSet"),
        ("cors", 404, "NoSuchCORSConfiguration"),
        ("logging", 200, "BucketLoggingStatus"),
        ("notification", 200, "NotificationConfiguration"),
        ("requestPayment", 200, "<Payer>BucketOwner</Payer>"),
        ("accelerate", 200, "AccelerateConfiguration"),
        ("versioning", 200, "VersioningConfiguration"),
        ("location", 200, "LocationConstraint"),
    ] {
        let answer = get(&server, "/bucket", &format!("{query}="), &[]).await;
        assert_eq!(answer.status, status, "{query}: {}", text(&answer));
        assert!(text(&answer).contains(word), "{query}: {}", text(&answer));
        assert_eq!(get(&server, "/missing", &format!("{query}="), &[]).await.code(), "NoSuchBucket", "{query}");
    }
}

#[tokio::test]
async fn each_object_has_one_version() {
    let server = with_object().await;
    for key in ["a", "b/1", "b/2"] {
        assert_eq!(server.send(Request::put(&format!("/bucket/{key}"), key)).await.status, 200);
    }
    let mut found = String::new();
    let mut marker = String::new();
    loop {
        let page = text(&get(&server, "/bucket", &format!("delimiter=%2F{marker}&max-keys=1&versions="), &[]).await);
        let between = |open: &str, close: &str| Some(page.split_once(open)?.1.split_once(close)?.0.to_owned());
        found +=
            &between("<Version>", "</Version>").or_else(|| between("<CommonPrefixes>", "</CommonPrefixes>")).unwrap();
        let Some(next) = between("<NextKeyMarker>", "</NextKeyMarker>") else { break };
        marker = format!("&key-marker={}", next.replace('/', "%2F"));
    }
    let keys = ["<Key>a</Key>", "<Prefix>b/</Prefix>", "<Key>digits</Key>"].map(|key| found.find(key));
    assert!(keys.iter().all(Option::is_some) && keys.is_sorted(), "{found}");
    assert_eq!(found.matches("<VersionId>null</VersionId>").count(), 2);
    assert_eq!(get(&server, "/bucket", "version-id-marker=null&versions=", &[]).await.code(), "InvalidArgument");
}

/// The client gives `Date` its value.
#[tokio::test]
async fn a_request_may_be_signed_with_date_alone() {
    let server = with_object().await;
    assert_eq!(get(&server, "/bucket/digits", "", &[("date", "")]).await.body, b"0123456789");
    let forged = Request { secret: "another", ..Request::new("GET", "/bucket/digits").header("date", "") };
    assert_eq!(server.send(forged).await.code(), "SignatureDoesNotMatch");
}
