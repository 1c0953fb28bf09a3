//! The checksums S3 knows: computing them, and the headers and fields that carry them.
//!
//! An object has at most one, kept in its metadata under its header's name (`x-amz-checksum-crc32`, ...), base64 as on
//! the wire, beside `x-amz-checksum-type`.

use hyper::{HeaderMap, StatusCode};
use s3s::crypto::{self, Checksum as _};
use s3s::{S3Result, TrailingHeaders, s3_error};
use shingle_store_api::Metadata;

use crate::errors::with_status;

/// Metadata name: the checksum is of the whole object, or of its parts' checksums.
pub(crate) const TYPE_NAME: &str = "x-amz-checksum-type";
/// Metadata name in an upload: the checksum algorithm of its parts.
pub(crate) const ALGORITHM_NAME: &str = "x-amz-checksum-algorithm";

/// A checksum algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 5] = [Self::Crc32, Self::Crc32c, Self::Crc64Nvme, Self::Sha1, Self::Sha256];

    /// As S3 names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Crc32 => "CRC32",
            Self::Crc32c => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
        }
    }

    /// The header that carries it.
    pub(crate) fn header(self) -> &'static str {
        match self {
            Self::Crc32 => "x-amz-checksum-crc32",
            Self::Crc32c => "x-amz-checksum-crc32c",
            Self::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Self::Sha1 => "x-amz-checksum-sha1",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    /// True for the name of its header, however a client writes it.
    pub(crate) fn is_header(self, name: &str) -> bool {
        name.trim().eq_ignore_ascii_case(self.header())
    }

    pub(crate) fn from_name(name: &str) -> S3Result<Self> {
        let found = Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| s3_error!(InvalidRequest, "there is no checksum algorithm {name}"))
    }

    pub(crate) fn digest_bytes(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    pub(crate) fn hasher(self) -> Hasher {
        match self {
            Self::Crc32 => Hasher::Crc32(crypto::Crc32::new()),
            Self::Crc32c => Hasher::Crc32c(crypto::Crc32c::new()),
            Self::Crc64Nvme => Hasher::Crc64Nvme(crypto::Crc64Nvme::new()),
            Self::Sha1 => Hasher::Sha1(crypto::Sha1::new()),
            Self::Sha256 => Hasher::Sha256(crypto::Sha256::new()),
        }
    }

    /// The algorithm's digest of `data`.
    pub(crate) fn digest(self, data: &[u8]) -> Vec<u8> {
        let mut hasher = self.hasher();
        hasher.update(data);
        hasher.finish()
    }
}

/// A checksum being computed.
pub(crate) enum Hasher {
    Crc32(crypto::Crc32),
    Crc32c(crypto::Crc32c),
    Crc64Nvme(crypto::Crc64Nvme),
    Sha1(crypto::Sha1),
    Sha256(crypto::Sha256),
}

impl Hasher {
    pub(crate) fn update(&mut self, data: &[u8]) {
        match self {
            Self::Crc32(hasher) => hasher.update(data),
            Self::Crc32c(hasher) => hasher.update(data),
            Self::Crc64Nvme(hasher) => hasher.update(data),
            Self::Sha1(hasher) => hasher.update(data),
            Self::Sha256(hasher) => hasher.update(data),
        }
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Self::Crc32(hasher) => hasher.finalize().to_vec(),
            Self::Crc32c(hasher) => hasher.finalize().to_vec(),
            Self::Crc64Nvme(hasher) => hasher.finalize().to_vec(),
            Self::Sha1(hasher) => hasher.finalize().to_vec(),
            Self::Sha256(hasher) => hasher.finalize().to_vec(),
        }
    }
}

/// The checksum a client states for a body: its algorithm, and its value where it comes before the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stated {
    pub(crate) algorithm: Algorithm,
    pub(crate) value: Option<Vec<u8>>,
    /// The value comes behind the body, and must.
    pub(crate) in_trailer: bool,
}

impl Stated {
    /// Checksum stated in the headers of a request with a body; `sdk_algorithm` is the value of
    /// `x-amz-sdk-checksum-algorithm`.
    ///
    /// # Errors
    /// `InvalidRequest` where several are given or one is no checksum.
    pub(crate) fn of_request(headers: &HeaderMap, sdk_algorithm: Option<&str>) -> S3Result<Option<Self>> {
        let mut found = None;
        for algorithm in Algorithm::ALL {
            let value = headers.get(algorithm.header());
            let in_trailer = value.is_none() && names_trailer(headers, algorithm);
            if value.is_none() && !in_trailer {
                continue;
            }
            if found.is_some() {
                return Err(s3_error!(InvalidRequest, "Expecting a single x-amz-checksum- header."));
            }
            let value = match value {
                Some(value) => Some(parse(algorithm, value.to_str().unwrap_or_default())?),
                None => None,
            };
            found = Some(Self { algorithm, value, in_trailer });
        }
        if let (None, Some(name)) = (&found, sdk_algorithm) {
            let algorithm = Algorithm::from_name(name)?;
            found = Some(Self { algorithm, value: None, in_trailer: false });
        }
        Ok(found)
    }

    /// Checks the digest of the received body against the stated one, before the body or behind it.
    ///
    /// # Errors
    /// `BadDigest` where they differ, `MalformedTrailerError` where a promised trailer did not come.
    pub(crate) fn verify(&self, digest: &[u8], trailers: Option<&TrailingHeaders>) -> S3Result<()> {
        let name = self.algorithm.header();
        let trailing = trailers.and_then(|trailers| {
            trailers.read(|headers| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned))
        });
        let trailing = match trailing.flatten() {
            Some(value) => Some(parse(self.algorithm, &value)?),
            None if self.in_trailer => {
                let message = format!("the trailer {name} was announced and did not come");
                return Err(with_status("MalformedTrailerError", StatusCode::BAD_REQUEST, message));
            }
            None => None,
        };
        if let Some(stated) = self.value.as_ref().or(trailing.as_ref())
            && stated != digest
        {
            let (name, found) = (self.algorithm.name(), encode(digest));
            return Err(s3_error!(
                BadDigest,
                "the {name} you specified did not match what we received, which has {found}"
            ));
        }
        Ok(())
    }
}

fn names_trailer(headers: &HeaderMap, algorithm: Algorithm) -> bool {
    let lines = headers.get_all("x-amz-trailer").into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|item| algorithm.is_header(item))
}

/// The digest that a header's value writes.
pub(crate) fn parse(algorithm: Algorithm, value: &str) -> S3Result<Vec<u8>> {
    let digest =
        base64_simd::STANDARD.decode_to_vec(value).ok().filter(|bytes| bytes.len() == algorithm.digest_bytes());
    digest.ok_or_else(|| s3_error!(InvalidRequest, "Value for {} header is invalid.", algorithm.header()))
}

/// A digest as headers write it.
pub(crate) fn encode(digest: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(digest)
}

/// The checksum a stored object or part has, and its value as it was stored.
pub(crate) fn stored(metadata: &Metadata) -> Option<(Algorithm, &String)> {
    Algorithm::ALL.into_iter().find_map(|algorithm| Some((algorithm, metadata.get(algorithm.header())?)))
}

/// Puts a checksum of a whole object into its metadata.
pub(crate) fn store(metadata: &mut Metadata, algorithm: Algorithm, digest: &[u8]) {
    metadata.insert(algorithm.header().to_owned(), encode(digest));
    metadata.insert(TYPE_NAME.to_owned(), "FULL_OBJECT".to_owned());
}

/// Fills the five checksum fields of an answer from stored metadata.
macro_rules! fill_checksums {
    ($target:expr, $metadata:expr) => {{
        use $crate::checksums::Algorithm;
        let metadata: &shingle_store_api::Metadata = $metadata;
        let value = |algorithm: Algorithm| metadata.get(algorithm.header()).cloned();
        $target.checksum_crc32 = value(Algorithm::Crc32);
        $target.checksum_crc32c = value(Algorithm::Crc32c);
        $target.checksum_crc64nvme = value(Algorithm::Crc64Nvme);
        $target.checksum_sha1 = value(Algorithm::Sha1);
        $target.checksum_sha256 = value(Algorithm::Sha256);
    }};
}
pub(crate) use fill_checksums;

/// The checksums that a request's five fields give.
macro_rules! given_checksums {
    ($source:expr) => {{
        use $crate::checksums::Algorithm;
        [
            (Algorithm::Crc32, $source.checksum_crc32.as_deref()),
            (Algorithm::Crc32c, $source.checksum_crc32c.as_deref()),
            (Algorithm::Crc64Nvme, $source.checksum_crc64nvme.as_deref()),
            (Algorithm::Sha1, $source.checksum_sha1.as_deref()),
            (Algorithm::Sha256, $source.checksum_sha256.as_deref()),
        ]
        .into_iter()
        .filter_map(|(algorithm, value)| Some((algorithm, value?)))
    }};
}
pub(crate) use given_checksums;

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of each algorithm's definition, for "123456789".
    #[test]
    fn digests_are_the_published_ones() {
        let digest = |algorithm: Algorithm| algorithm.digest(b"123456789");
        assert_eq!(digest(Algorithm::Crc32), 0xCBF4_3926_u32.to_be_bytes());
        assert_eq!(digest(Algorithm::Crc32c), 0xE306_9283_u32.to_be_bytes());
        assert_eq!(digest(Algorithm::Crc64Nvme), 0xAE8B_1486_0A79_9888_u64.to_be_bytes());
        assert_eq!(encode(&digest(Algorithm::Sha1)), "98O8HYCOBHMq32eZZczDTKeuNEE=");
        assert_eq!(encode(&digest(Algorithm::Sha256)), "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=");
        for algorithm in Algorithm::ALL {
            assert_eq!(digest(algorithm).len(), algorithm.digest_bytes());
        }
    }

    fn request(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_stated_value_must_be_the_digest() {
        let headers = request(&[("x-amz-checksum-crc32", "y/Q5Jg==")]);
        let stated = Stated::of_request(&headers, None).unwrap().unwrap();
        assert_eq!(stated.verify(&0xCBF4_3926_u32.to_be_bytes(), None).err().map(|e| e.to_string()), None);
        let error = stated.verify(&[0; 4], None).unwrap_err();
        assert_eq!(error.code().as_str(), "BadDigest");
    }

    #[test]
    fn two_checksums_or_a_broken_one_are_refused() {
        let two = request(&[("x-amz-checksum-crc32", "y/Q5Jg=="), ("x-amz-checksum-crc32c", "4waSgw==")]);
        assert!(Stated::of_request(&two, None).is_err());
        for value in ["", "y/Q5J", "y/Q5JgAA", "not base64!"] {
            let headers = [("x-amz-checksum-crc32", value)].map(|(n, v)| (n.parse().unwrap(), v.parse().unwrap()));
            assert!(Stated::of_request(&HeaderMap::from_iter(headers), None).is_err(), "{value}");
        }
    }

    #[test]
    fn an_announced_trailer_must_come() {
        let headers = request(&[("x-amz-trailer", "X-Amz-Checksum-Crc64nvme")]);
        let stated = Stated::of_request(&headers, Some("CRC64NVME")).unwrap().unwrap();
        assert_eq!(stated.algorithm, Algorithm::Crc64Nvme);
        let error = stated.verify(&[0; 8], None).unwrap_err();
        assert_eq!(error.code().as_str(), "MalformedTrailerError");
    }

    #[test]
    fn an_algorithm_alone_is_computed() {
        let stated = Stated::of_request(&HeaderMap::new(), Some("SHA256")).unwrap().unwrap();
        assert_eq!(stated, Stated { algorithm: Algorithm::Sha256, value: None, in_trailer: false });
        assert!(Stated::of_request(&HeaderMap::new(), Some("MD4")).is_err());
        assert_eq!(Stated::of_request(&HeaderMap::new(), None).unwrap(), None);
    }
}
