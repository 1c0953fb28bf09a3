//! The operations that are served, and all that a request of each may say.
//!
//! S3 grows: a new operation may differ from a served one by a query parameter or a header alone, and would be taken
//! for that one. So anything that is not listed is refused, before anything is changed.
//!
//! # Invariants
//! - GW-OPS-1: a request reaches an operation only if every query parameter and every `x-amz-` header that it has is listed here
//!   for that operation. All else answers `NotImplemented`. (GW-XML-1 says the same of bodies.)

use hyper::http::HeaderMap;
use s3s::access::{S3Access, S3AccessContext};
use s3s::{S3Result, s3_error};

use crate::checksums::Algorithm;
use crate::digests::Digests;
use crate::guard::query_of;
use crate::request_body::{Fate, Told};
use crate::service::OWNER;
use crate::xml_body::XmlBody;

/// An operation with its query parameters and headers, beside those that every request may have.
struct Operation {
    name: &'static str,
    query: &'static [&'static str],
    headers: &'static [&'static [&'static str]],
}

const fn operation(
    name: &'static str,
    query: &'static [&'static str],
    headers: &'static [&'static [&'static str]],
) -> Operation {
    Operation { name, query, headers }
}

/// Query parameters that sign a request, or that some clients add to each one they presign.
const QUERY_OF_ALL: &[&str] = &[
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-expires",
    "x-amz-signedheaders",
    "x-amz-signature",
    "x-amz-content-sha256",
    "x-amz-user-agent",
    "x-id",
];

const HEADERS_OF_ALL: &[&str] = &[
    "x-amz-date",
    "x-amz-content-sha256",
    "x-amz-user-agent",
    "x-amz-expected-bucket-owner",
    // The sender agrees to pay; there is nothing to pay.
    "x-amz-request-payer",
];

/// Headers of a body, and of its checksum.
const BODY: &[&str] = &[
    "x-amz-decoded-content-length",
    "x-amz-trailer",
    "x-amz-sdk-checksum-algorithm",
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-crc64nvme",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
];
const CHECKSUM_KIND: &[&str] = &["x-amz-checksum-algorithm", "x-amz-checksum-type"];
/// Headers that say how an object is kept. (`x-amz-meta-` stands for all that begin so.)
const OBJECT: &[&str] = &["x-amz-meta-", "x-amz-storage-class", "x-amz-acl", "x-amz-tagging"];
const SOURCE: &[&str] = &[
    "x-amz-copy-source",
    "x-amz-copy-source-if-match",
    "x-amz-copy-source-if-none-match",
    "x-amz-copy-source-if-modified-since",
    "x-amz-copy-source-if-unmodified-since",
    "x-amz-source-expected-bucket-owner",
];
/// Parameters of a read that set headers of its answer.
const ANSWER: &[&str] = &[
    "versionId",
    "partNumber",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    // A presigned URL of the JavaScript SDK has these here.
    "x-amz-checksum-mode",
];

const OPERATIONS: &[Operation] = &[
    operation("ListBuckets", &["bucket-region", "continuation-token", "max-buckets", "prefix"], &[]),
    operation(
        "CreateBucket",
        &[],
        &[&["x-amz-acl", "x-amz-object-ownership", "x-amz-bucket-object-lock-enabled", "x-amz-sdk-checksum-algorithm"]],
    ),
    operation("HeadBucket", &[], &[]),
    operation("DeleteBucket", &[], &[]),
    operation("GetBucketLocation", &["location"], &[]),
    operation("PutObject", &["x-amz-sdk-checksum-algorithm"], &[BODY, OBJECT, &["x-amz-checksum-algorithm"]]),
    operation(
        "CopyObject",
        &[],
        &[OBJECT, SOURCE, &["x-amz-metadata-directive", "x-amz-tagging-directive", "x-amz-checksum-algorithm"]],
    ),
    operation("GetObject", ANSWER, &[&["x-amz-checksum-mode"]]),
    operation("HeadObject", ANSWER, &[&["x-amz-checksum-mode"]]),
    operation(
        "GetObjectAttributes",
        &["attributes", "versionId"],
        &[&["x-amz-object-attributes", "x-amz-max-parts", "x-amz-part-number-marker"]],
    ),
    operation("DeleteObject", &["versionId"], &[]),
    operation("DeleteObjects", &["delete"], &[BODY]),
    operation("ListObjects", &["delimiter", "encoding-type", "marker", "max-keys", "prefix"], &[]),
    operation(
        "ListObjectsV2",
        // `metadata` is one that minio-go sends to every server, and that S3 passes over.
        &[
            "list-type",
            "continuation-token",
            "delimiter",
            "encoding-type",
            "fetch-owner",
            "max-keys",
            "metadata",
            "prefix",
            "start-after",
        ],
        &[],
    ),
    operation("CreateMultipartUpload", &["uploads"], &[OBJECT, CHECKSUM_KIND, &["x-amz-sdk-checksum-algorithm"]]),
    operation(
        "UploadPart",
        &["partNumber", "uploadId", "x-amz-sdk-checksum-algorithm"],
        &[BODY, &["x-amz-checksum-algorithm"]],
    ),
    operation("UploadPartCopy", &["partNumber", "uploadId"], &[SOURCE, &["x-amz-copy-source-range"]]),
    operation("ListParts", &["uploadId", "max-parts", "part-number-marker", "encoding-type"], &[]),
    operation(
        "ListMultipartUploads",
        &["uploads", "delimiter", "encoding-type", "key-marker", "max-uploads", "prefix", "upload-id-marker"],
        &[],
    ),
    operation("CompleteMultipartUpload", &["uploadId"], &[BODY, CHECKSUM_KIND, &["x-amz-mp-object-size"]]),
    operation("AbortMultipartUpload", &["uploadId"], &[]),
    operation(
        "ListObjectVersions",
        &["versions", "delimiter", "encoding-type", "key-marker", "max-keys", "prefix", "version-id-marker"],
        &[],
    ),
    operation("GetBucketAcl", &["acl"], &[]),
    operation("GetObjectAcl", &["acl", "versionId"], &[]),
    operation("PutBucketAcl", &["acl"], &[BODY, &["x-amz-acl"]]),
    operation("PutObjectAcl", &["acl", "versionId"], &[BODY, &["x-amz-acl"]]),
    operation("GetPublicAccessBlock", &["publicAccessBlock"], &[]),
    operation("GetBucketOwnershipControls", &["ownershipControls"], &[]),
    operation("GetBucketPolicyStatus", &["policyStatus"], &[]),
    operation("GetBucketWebsite", &["website"], &[]),
    operation("GetBucketReplication", &["replication"], &[]),
    operation("GetBucketLogging", &["logging"], &[]),
    operation("GetBucketNotificationConfiguration", &["notification"], &[]),
    operation("GetBucketRequestPayment", &["requestPayment"], &[]),
    operation("GetBucketAccelerateConfiguration", &["accelerate"], &[]),
    operation("GetBucketVersioning", &["versioning"], &[]),
    operation("GetBucketTagging", &["tagging"], &[]),
    operation("GetBucketPolicy", &["policy"], &[]),
    operation("GetBucketCors", &["cors"], &[]),
    operation("GetBucketLifecycleConfiguration", &["lifecycle"], &[]),
    operation("GetBucketEncryption", &["encryption"], &[]),
    operation("GetObjectLockConfiguration", &["object-lock"], &[]),
    operation("GetObjectTagging", &["tagging", "versionId"], &[]),
];

/// The elements that the XML of an operation may have.
const ELEMENTS: &[(&str, &[&str])] = &[
    ("CreateBucket", &["CreateBucketConfiguration", "LocationConstraint"]),
    ("PutBucketAcl", ACCESS_CONTROL_LIST),
    ("PutObjectAcl", ACCESS_CONTROL_LIST),
    ("DeleteObjects", &["Delete", "Object", "Key", "VersionId", "ETag", "LastModifiedTime", "Size", "Quiet"]),
    (
        "CompleteMultipartUpload",
        &[
            "CompleteMultipartUpload",
            // The name by which old clients know it.
            "CompletedMultipartUpload",
            "Part",
            "PartNumber",
            "ETag",
            "ChecksumCRC32",
            "ChecksumCRC32C",
            "ChecksumCRC64NVME",
            "ChecksumSHA1",
            "ChecksumSHA256",
        ],
    ),
];

const ACCESS_CONTROL_LIST: &[&str] =
    &["AccessControlPolicy", "AccessControlList", "Owner", "ID", "DisplayName", "Grant", "Grantee", "Permission"];

/// Refuses requests beyond the lists. Asked once sender and operation are known, before anything else.
pub(crate) struct Listed {
    /// Requests come with their signature. Without, it was checked before they came here (GW-RANGE-1).
    pub(crate) signed: bool,
}

#[async_trait::async_trait]
impl S3Access for Listed {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let path = context.s3_path();
        let told = Told {
            operation: context.s3_op().name().to_owned(),
            bucket: path.get_bucket_name().map(str::to_owned),
            key: path.get_object_key().map(str::to_owned),
        };
        if let Some(fate) = context.extensions_mut().get::<Fate>() {
            fate.tell(told);
        }
        if self.signed && context.credentials().is_none() {
            return Err(s3_error!(AccessDenied, "Requests must be signed."));
        }
        let name = context.s3_op().name();
        check(name, context.uri().query(), context.headers())?;
        if let Some((_, elements)) = ELEMENTS.iter().find(|(operation, _)| *operation == name) {
            // The checksum of a completed upload is its object's, not its body's.
            let digests = Digests::of_request(context.headers(), name != "CompleteMultipartUpload")?;
            let xml = XmlBody::new(elements, context.headers(), digests)?;
            if let Some(fate) = context.extensions_mut().get::<Fate>() {
                fate.expect_xml(xml);
            }
        }
        Ok(())
    }
}

/// # Errors
/// `NotImplemented` for an operation that is not served, or that has something which is not listed; `AccessDenied` where
/// another owner of the bucket is expected.
fn check(name: &str, query: Option<&str>, headers: &HeaderMap) -> S3Result<()> {
    let Some(operation) = OPERATIONS.iter().find(|operation| operation.name == name) else {
        return Err(s3_error!(NotImplemented, "{name} is not served"));
    };
    for (parameter, value) in query_of(query) {
        let of_all = QUERY_OF_ALL.iter().any(|listed| parameter.eq_ignore_ascii_case(listed));
        let other = parameter.eq_ignore_ascii_case("x-id") && value != name;
        if other || !of_all && !operation.query.contains(&parameter.as_str()) {
            return Err(s3_error!(NotImplemented, "{name} is not served with the query parameter {parameter:?}"));
        }
    }
    for (header, value) in headers.iter().filter(|(header, _)| header.as_str().starts_with("x-amz-")) {
        let header = header.as_str();
        let is = |listed: &&str| *listed == header || listed.ends_with('-') && header.starts_with(*listed);
        if !HEADERS_OF_ALL.iter().chain(operation.headers.iter().copied().flatten()).any(is) {
            return Err(s3_error!(NotImplemented, "{name} is not served with the header {header}"));
        }
        of_value(header, value.to_str().unwrap_or_default())?;
    }
    Ok(())
}

/// Refuses the values of listed headers that ask for something which is not done here.
fn of_value(header: &str, value: &str) -> S3Result<()> {
    let served = match header {
        "x-amz-acl" => matches!(value, "private" | "bucket-owner-full-control" | ""),
        "x-amz-object-ownership" => value == "BucketOwnerEnforced",
        "x-amz-bucket-object-lock-enabled" => value.eq_ignore_ascii_case("false"),
        "x-amz-tagging" => value.is_empty(),
        // Any other would be passed over, and what it states not be checked. (GW-S3-2)
        "x-amz-trailer" => value.split(',').all(|name| Algorithm::ALL.iter().any(|known| known.is_header(name))),
        "x-amz-expected-bucket-owner" | "x-amz-source-expected-bucket-owner" if value != OWNER => {
            return Err(s3_error!(AccessDenied, "The bucket's owner is {OWNER}, not the one that {header} expects."));
        }
        _ => true,
    };
    if served { Ok(()) } else { Err(s3_error!(NotImplemented, "{header}: {value} is not served")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(name: &str, query: &str, headers: &[(&'static str, &'static str)]) -> Option<String> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        check(name, Some(query), &HeaderMap::from_iter(headers)).err().map(|error| error.code().as_str().to_owned())
    }

    /// GW-OPS-1, GW-S3-4.
    #[test]
    fn parameters_that_are_not_listed_are_refused() {
        let refused = Some("NotImplemented".to_owned());
        let not_put = ["encryption", "annotation", "renameObject", "append", "restore", "versionId=x", "partNumber=1"];
        for query in not_put.into_iter().chain(["anything=1", "x-id=UpdateObjectEncryption", "%65ncryption"]) {
            assert_eq!(code("PutObject", query, &[]), refused, "{query}");
        }
        for (name, query) in [
            ("DeleteObject", "annotation"),
            ("DeleteObject", "acl"),
            ("DeleteBucket", "metadataConfiguration"),
            ("ListObjects", "list-type=3"),
            ("GetBucketAnalyticsConfiguration", "analytics"),
        ] {
            assert_eq!(code(name, query, &[]), refused, "{name} {query}");
        }
        let presigned = "X-Amz-Algorithm=a&X-Amz-Credential=c&X-Amz-Date=d&X-Amz-Expires=9&X-Amz-SignedHeaders=host\
                         &X-Amz-Signature=0&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD&x-id=GetObject&x-amz-checksum-mode=ENABLED";
        assert_eq!(code("GetObject", presigned, &[]), None);
        assert_eq!(code("ListObjectsV2", "list-type=2&prefix=a%2F&start-after=&metadata=true", &[]), None);
    }

    /// GW-OPS-1, GW-S3-4.
    #[test]
    fn headers_that_are_not_listed_are_refused() {
        let refused = Some("NotImplemented".to_owned());
        for header in [
            ("x-amz-server-side-encryption", "AES256"),
            ("x-amz-acl", "public-read"),
            ("x-amz-tagging", "a=b"),
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-grant-read", "id=1"),
            ("x-amz-checksum-md5", "AAAAAAAAAAAAAAAAAAAAAA=="),
            ("x-amz-checksum-xxhash64", "AAAAAAAAAAA="),
            ("x-amz-bypass-governance-retention", "true"),
            ("x-amz-write-offset-bytes", "1"),
            // Nothing would be checked against a trailer of these.
            ("x-amz-trailer", "x-amz-checksum-xxhash64"),
            ("x-amz-trailer", "x-amz-checksum-crc32, x-amz-checksum-sha512"),
            ("x-amz-trailer", "x-amz-meta-a"),
            ("x-amz-if-match-size", "1"),
        ] {
            assert_eq!(code("PutObject", "", &[header]), refused, "{header:?}");
        }
        for header in [("x-amz-mfa", "1 2"), ("x-amz-storage-class", "COLD"), ("x-amz-meta-a", "1")] {
            assert_eq!(code("DeleteObject", "", &[header]), refused, "{header:?}");
        }
        for algorithm in Algorithm::ALL {
            assert_eq!(code("PutObject", "", &[("x-amz-trailer", algorithm.header())]), None, "{algorithm:?}");
        }
        assert_eq!(code("PutObject", "", &[("x-amz-trailer", " X-Amz-Checksum-Crc32c ")]), None);
        let kept = [("x-amz-acl", "private"), ("x-amz-storage-class", "GLACIER"), ("x-amz-meta-a", "1")];
        assert_eq!(code("PutObject", "", &kept), None);
        assert_eq!(code("CreateBucket", "", &[("x-amz-bucket-object-lock-enabled", "true")]), refused);
        assert_eq!(code("CreateBucket", "", &[("x-amz-object-ownership", "ObjectWriter")]), refused);
        assert_eq!(code("CreateBucket", "", &[("x-amz-object-ownership", "BucketOwnerEnforced")]), None);
    }

    #[test]
    fn a_bucket_that_should_be_somebody_elses_is_not_touched() {
        let denied = Some("AccessDenied".to_owned());
        assert_eq!(code("GetObject", "", &[("x-amz-expected-bucket-owner", "111122223333")]), denied);
        assert_eq!(code("CopyObject", "", &[("x-amz-source-expected-bucket-owner", "111122223333")]), denied);
        assert_eq!(code("GetObject", "", &[("x-amz-expected-bucket-owner", OWNER)]), None);
    }

    #[test]
    fn the_page_names_the_operations_that_are_served() {
        let page = include_str!("../../../../docs/s3.md");
        let section = page.split("\n## ").find_map(|section| section.strip_prefix("Operations\n")).unwrap();
        let rows =
            section.lines().filter_map(|line| line.strip_prefix("| ")).filter(|line| !line.starts_with("served"));
        let mut named: Vec<&str> = rows.flat_map(|row| row.split(" | ").next().unwrap().split(", ")).collect();
        let mut served: Vec<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
        named.sort_unstable();
        served.sort_unstable();
        assert_eq!(named, served);
    }
}
