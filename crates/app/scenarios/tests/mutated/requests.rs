//! Input from clients and administrators: S3 requests with their bodies, and configurations.

use std::cell::RefCell;
use std::sync::Arc;

use shingle_s3_gateway::Credentials;
use shingle_s3_gateway::parse::Requests;
use shingle_store_api::ObjectStore;
use shingle_store_testing::MemoryStore;

/// A gateway is used for so many requests, so that what they store does not pile up.
const REQUESTS_EACH: u64 = 1000;

pub(crate) struct Gateway {
    tokio: tokio::runtime::Runtime,
    requests: Requests,
    left: u64,
}

impl Gateway {
    fn new() -> Self {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let credentials = Credentials { access_key: "AKEXAMPLE".to_owned(), secret_key: "secret".to_owned() };
        let stores = [0; 2].map(|_| Arc::new(MemoryStore::new(1 << 20)) as Arc<dyn ObjectStore>);
        let requests = Requests::new(stores, credentials);
        for request in SPECIMENS {
            tokio.block_on(requests.answer(request.as_bytes(), false));
        }
        Self { tokio, requests, left: REQUESTS_EACH }
    }

    fn answer(bytes: &[u8], signed: bool) -> bool {
        thread_local!(static GATEWAY: RefCell<Option<Gateway>> = const { RefCell::new(None) });
        GATEWAY.with_borrow_mut(|gateway| {
            let gateway = match gateway {
                Some(used) if used.left > 0 => used,
                spent => spent.insert(Self::new()),
            };
            gateway.left -= 1;
            let status = gateway.tokio.block_on(gateway.requests.answer(bytes, signed));
            assert_ne!(status, Some(500), "an internal error");
            status.is_some_and(|status| status < 300 || signed && status == 403)
        })
    }
}

pub(crate) fn unsigned(bytes: &[u8]) -> bool {
    Gateway::answer(bytes, false)
}

pub(crate) fn signed(bytes: &[u8]) -> bool {
    Gateway::answer(bytes, true)
}

pub(crate) fn configuration(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_ok_and(|text| shingle_server::Config::parse(text).is_ok())
}

pub(crate) const SPECIMENS: [&str; 18] = [
    "PUT /bucket\nhost: h\n\n",
    "PUT /other\nhost: h\n\n<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>",
    "PUT /bucket/a/key%20of?x-id=PutObject\nhost: h\ncontent-type: text/plain\nx-amz-meta-a: b\ncontent-length: 5\n\nhello",
    "PUT /bucket/k\nhost: h\nx-amz-checksum-crc32: NhCmhg==\ncontent-md5: XUFAKrxLKna5cZ2REBfFkg==\n\nhello",
    "PUT /bucket/copy\nhost: h\nx-amz-copy-source: /bucket/a/key%20of\nx-amz-metadata-directive: REPLACE\n\n",
    "GET /bucket/k?response-content-type=text/html&partNumber=1\nhost: h\nrange: bytes=1-3\nif-match: \"x\"\n\n",
    "GET /bucket/k\nhost: h\nrange: bytes=-2\nif-modified-since: Sat, 20 Jan 2024 00:00:00 GMT\n\n",
    "GET /bucket?list-type=2&prefix=a%2F&delimiter=%2F&max-keys=5&continuation-token=YQ==&encoding-type=url\nhost: h\n\n",
    "GET /bucket?uploads&key-marker=a&upload-id-marker=3&max-uploads=9\nhost: h\n\n",
    "GET /bucket/k?attributes\nhost: h\nx-amz-object-attributes: ETag,Checksum,ObjectParts\n\n",
    "POST /bucket/k?uploads\nhost: h\nx-amz-checksum-algorithm: CRC32\n\n",
    "PUT /bucket/k?partNumber=1&uploadId=1\nhost: h\n\npart",
    "POST /bucket/k?uploadId=0000000000000001\nhost: h\n\n<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"5d41402abc4b2a76b9719d911017c592\"</ETag></Part><Part><PartNumber>2</PartNumber><ETag>x</ETag><ChecksumCRC32>NhCmhg==</ChecksumCRC32></Part></CompleteMultipartUpload>",
    "POST /bucket?delete\nhost: h\n\n<?xml version=\"1.0\" encoding=\"UTF-8\"?><Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Object><Key>k&#x41;&amp;</Key></Object><Object><Key>l</Key><ETag>x</ETag></Object><Quiet>true</Quiet></Delete>",
    "PUT /bucket/framed\nhost: h\nx-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\nx-amz-decoded-content-length: 5\ncontent-encoding: aws-chunked\nx-amz-trailer: x-amz-checksum-crc32\n\n5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n",
    "PUT /bucket/framed\nhost: h\nx-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\nx-amz-decoded-content-length: 5\nx-amz-date: 20260101T000000Z\nauthorization: AWS4-HMAC-SHA256 Credential=AKEXAMPLE/20260101/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date;x-amz-decoded-content-length, Signature=0000000000000000000000000000000000000000000000000000000000000000\n\n5;chunk-signature=ab\r\nhello\r\n0;chunk-signature=cd\r\n\r\n",
    "GET /bucket/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKEXAMPLE%2F20260101%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=20260101T000000Z&X-Amz-Expires=604800&X-Amz-SignedHeaders=host&X-Amz-Signature=0000000000000000000000000000000000000000000000000000000000000000\nhost: h\n\n",
    "DELETE /bucket/k?versionId=null\nhost: h\n\n",
];

pub(crate) const FRAMED: [&str; 2] = [
    "5\r\nhello\r\nC\r\n, wide world\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
    "5;chunk-signature=ab\r\nhello\r\n0;chunk-signature=cd\r\n\r\n",
];

pub(crate) const CONFIGURATIONS: [&str; 2] = [
    "listen = \"127.0.0.1:9000\"\ndata = \"/srv/shingle\"\nregion = \"us-east-1\"\nlog = \"info\"\n[[drive]]\npath = \"/srv/d0\"\n\
     [limits]\nconnections = 100\nhead_timeout_s = 60\n",
    "[[array]]\nname = \"films\"\ndrives = [\"/dev/sda\", \"/dev/sdb\", \"/dev/sdc\"]\nbuffer = [\"/srv/a\", \"/srv/b\"]\n",
];
