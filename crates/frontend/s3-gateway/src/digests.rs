//! Digests that a request states of an XML body: `Content-MD5`, and for `DeleteObjects` a checksum. (Of objects, `ingest`
//! checks them; the checksum of a completed upload is its object's.)

use hyper::HeaderMap;
use s3s::crypto::{Checksum as _, Md5};
use s3s::{S3Result, s3_error};

use crate::checksums::{Hasher, Stated};
use crate::hex::hex;

/// The ETag of an object that comes whole, for those who put it without a request.
#[derive(Default)]
pub struct EntityTag(Md5);

impl EntityTag {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The ETag of all of them, without quotes.
    pub fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

/// Digests a body must have, and those it has so far.
pub(crate) struct Digests {
    md5: Option<(Md5, Vec<u8>)>,
    checksum: Option<(Hasher, Stated)>,
}

impl Digests {
    /// Digests that these headers state of the body; a checksum only `with_checksum`.
    ///
    /// # Errors
    /// `InvalidDigest`, `InvalidRequest` for malformed digests.
    pub(crate) fn of_request(headers: &HeaderMap, with_checksum: bool) -> S3Result<Self> {
        let md5 = stated_md5(headers)?.map(|digest| (Md5::new(), digest));
        let stated = if with_checksum { Stated::of_request(headers, None)? } else { None };
        let checksum = stated.filter(|stated| stated.value.is_some()).map(|stated| (stated.algorithm.hasher(), stated));
        Ok(Self { md5, checksum })
    }

    pub(crate) fn update(&mut self, data: &[u8]) {
        if let Some((hasher, _)) = &mut self.md5 {
            hasher.update(data);
        }
        if let Some((hasher, _)) = &mut self.checksum {
            hasher.update(data);
        }
    }

    /// Compares the digests of the whole body with the stated ones.
    ///
    /// # Errors
    /// `BadDigest`.
    pub(crate) fn verify(self) -> S3Result<()> {
        if let Some((hasher, stated)) = self.md5 {
            same_md5(&hasher.finalize(), &stated)?;
        }
        match self.checksum {
            Some((hasher, stated)) => stated.verify(&hasher.finish(), None),
            None => Ok(()),
        }
    }
}

/// The MD5 that `Content-MD5` writes, if it is there.
///
/// # Errors
/// `InvalidDigest` for a malformed one.
pub(crate) fn stated_md5(headers: &HeaderMap) -> S3Result<Option<Vec<u8>>> {
    let Some(value) = headers.get("content-md5") else { return Ok(None) };
    let digest = base64_simd::STANDARD.decode_to_vec(value.as_bytes()).ok().filter(|bytes| bytes.len() == 16);
    digest.map(Some).ok_or_else(|| s3_error!(InvalidDigest, "The Content-MD5 you specified is not valid."))
}

/// # Errors
/// `BadDigest` where they differ.
pub(crate) fn same_md5(found: &[u8], stated: &[u8]) -> S3Result<()> {
    if found == stated {
        return Ok(());
    }
    Err(s3_error!(BadDigest, "The Content-MD5 you specified did not match what we received."))
}
