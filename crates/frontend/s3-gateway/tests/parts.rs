//! Uploads in parts: what is stated of the parts and of the whole is checked, whatever the upload began with.

mod client;

use client::{Answer, Request, Server};
use s3s::crypto::{Checksum as _, Crc32, Crc64Nvme, Sha256};
use shingle_s3_gateway::Limits;

const DATA: [&[u8]; 2] = [b"the first part, ", b"and the second"];

fn base64(digest: impl AsRef<[u8]>) -> String {
    base64_simd::STANDARD.encode_to_string(digest)
}

fn crc32(data: &[u8]) -> String {
    base64(Crc32::checksum(data))
}

/// An upload of two parts to `/bucket/k` that began without an algorithm.
struct Upload {
    server: Server,
    id: String,
    etags: Vec<String>,
}

impl Upload {
    /// Each part is sent with the header that `stated` gives for its bytes, if any.
    async fn begin(stated: impl Fn(&[u8]) -> Option<(&'static str, String)>) -> Self {
        let server = Server::start(Limits { part_bytes_min: 1, ..Limits::default() }).await;
        let begin = Request { query: "uploads=".to_owned(), ..Request::new("POST", "/bucket/k") };
        let text = String::from_utf8(server.send(begin).await.body).unwrap();
        let id =
            text.split_once("<UploadId>").and_then(|(_, rest)| rest.split_once("</UploadId>")).unwrap().0.to_owned();
        let mut etags = Vec::new();
        for (index, data) in DATA.into_iter().enumerate() {
            let query = format!("partNumber={}&uploadId={id}", index + 1);
            let mut put = Request { query, ..Request::put("/bucket/k", data) };
            if let Some((name, value)) = stated(data) {
                put = put.header(name, value);
            }
            let answer = server.send(put).await;
            assert_eq!(answer.status, 200, "{}", answer.code());
            etags.push(answer.header("etag").unwrap().trim_matches('"').to_owned());
        }
        Self { server, id, etags }
    }

    /// Completes it with these headers, and this beside the ETag of each part.
    async fn complete(&self, headers: &[(&str, String)], beside: impl Fn(usize) -> String) -> Answer {
        let part = |(index, etag): (usize, &String)| {
            format!("<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag>{}</Part>", index + 1, beside(index))
        };
        let parts: String = self.etags.iter().enumerate().map(part).collect();
        let xml = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        let request =
            Request { method: "POST", query: format!("uploadId={}", self.id), ..Request::put("/bucket/k", xml) };
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        self.server.send(request).await
    }

    async fn is_there(&self) -> bool {
        self.server.send(Request::new("HEAD", "/bucket/k")).await.status == 200
    }
}

fn nothing(_: usize) -> String {
    String::new()
}

/// GW-S3-2.
#[tokio::test]
async fn a_checksum_of_the_whole_is_checked_though_the_upload_began_without_one() {
    let upload = Upload::begin(|data| Some(("x-amz-checksum-crc32", crc32(data)))).await;
    let (name, kind) = ("x-amz-checksum-crc32", ("x-amz-checksum-type", "FULL_OBJECT".to_owned()));
    for stated in [crc32(b"other"), format!("{}-2", crc32(b"other"))] {
        let answer = upload.complete(&[(name, stated.clone()), kind.clone()], nothing).await;
        assert_eq!(answer.code(), "BadDigest", "{stated}");
        assert_eq!(upload.complete(&[(name, stated.clone())], nothing).await.code(), "BadDigest", "{stated}");
    }
    // The parts have none of these, so nobody could tell.
    for (name, stated) in [
        ("x-amz-checksum-sha256", base64(Sha256::checksum(&DATA.concat()))),
        ("x-amz-checksum-crc64nvme", base64(Crc64Nvme::checksum(&DATA.concat()))),
    ] {
        assert_eq!(upload.complete(&[(name, stated)], nothing).await.code(), "InvalidRequest", "{name}");
    }
    assert_eq!(upload.complete(std::slice::from_ref(&kind), nothing).await.code(), "InvalidRequest");
    assert!(!upload.is_there().await);
    let whole = crc32(&DATA.concat());
    let answer = upload.complete(&[(name, whole.clone()), kind], nothing).await;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(answer.status, 200, "{text}");
    assert!(text.contains(&format!("<ChecksumCRC32>{whole}</ChecksumCRC32>")), "{text}");
    let head = Request::new("HEAD", "/bucket/k").header("x-amz-checksum-mode", "ENABLED");
    assert_eq!(upload.server.send(head).await.header(name), Some(whole.as_str()));
}

/// GW-S3-2.
#[tokio::test]
async fn a_checksum_of_a_part_is_checked_though_the_part_came_without_one() {
    let beside = |index: usize| format!("<ChecksumCRC32>{}</ChecksumCRC32>", crc32(DATA[index]));
    let without = Upload::begin(|_| None).await;
    assert_eq!(without.complete(&[], beside).await.code(), "InvalidPart");
    assert!(!without.is_there().await);
    assert_eq!(without.complete(&[], nothing).await.status, 200);

    let with = Upload::begin(|data| Some(("x-amz-checksum-crc32", crc32(data)))).await;
    let other = |index: usize| format!("<ChecksumSHA256>{}</ChecksumSHA256>", base64(Sha256::checksum(DATA[index])));
    assert_eq!(with.complete(&[], other).await.code(), "InvalidPart");
    let wrong = |_| format!("<ChecksumCRC32>{}</ChecksumCRC32>", crc32(b"other"));
    assert_eq!(with.complete(&[], wrong).await.code(), "InvalidPart");
    assert_eq!(with.complete(&[], beside).await.status, 200);
}
