//! ETag and checksum of an object made of parts.
//!
//! The ETag is the MD5 of the parts' MD5s with `-COUNT` behind it. A composite checksum is made likewise of the parts'
//! checksums; one of the full object is computed from the parts' CRCs and lengths without reading a byte.

use crc_fast::CrcAlgorithm;
use s3s::crypto::{Checksum as _, Md5};
use s3s::{S3Result, s3_error};
use shingle_store_api::{CompletedPart, Metadata, PartInfo};

use crate::checksums::{self, Algorithm};
use crate::hex::hex;

/// The name in an object's metadata of the checksums of its parts, one behind the other.
const PARTS_NAME: &str = "x-amz-checksum-parts";
/// The most that they may take: an array's record of an object of 10,000 parts has no more room. 7,680 CRC-32, or 960 SHA-256.
const PART_DIGESTS_BYTES_MAX: usize = 30 << 10;

/// Leaves of an object's checksums that of its part at `index` alone, if it has one.
pub(crate) fn of_part(metadata: &Metadata, index: usize) -> Metadata {
    let digest = || {
        let (algorithm, _) = checksums::stored(metadata)?;
        let all = base64_simd::STANDARD.decode_to_vec(metadata.get(PARTS_NAME)?).ok()?;
        let digest = all.chunks_exact(algorithm.digest_bytes()).nth(index)?;
        Some((algorithm.header().to_owned(), checksums::encode(digest)))
    };
    digest().into_iter().collect()
}

/// The ETag of an object of these parts.
///
/// # Errors
/// `InvalidPart` where an ETag is none that a part can have.
pub(crate) fn etag(parts: &[CompletedPart]) -> S3Result<String> {
    let mut md5 = Md5::new();
    for part in parts {
        let digest = unhex(&part.etag)
            .ok_or_else(|| s3_error!(InvalidPart, "part {} has no ETag like \"{}\"", part.number, part.etag))?;
        md5.update(&digest);
    }
    Ok(format!("{}-{}", hex(&md5.finalize()), parts.len()))
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    let mut digest = [0; 16];
    let pairs = text.as_bytes().chunks_exact(2);
    if text.len() != 32 {
        return None;
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    for (byte, pair) in digest.iter_mut().zip(pairs) {
        let value = digit(pair.first()?)? << 4 | digit(pair.last()?)?;
        *byte = u8::try_from(value).ok()?;
    }
    Some(digest)
}

/// Algorithm and type of an upload's checksum, from its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheme {
    pub(crate) algorithm: Algorithm,
    pub(crate) full_object: bool,
}

impl Scheme {
    /// Scheme that a `CreateMultipartUpload` request asks for.
    ///
    /// # Errors
    /// `InvalidRequest` for a type its algorithm does not have.
    pub(crate) fn asked(algorithm: Option<&str>, kind: Option<&str>) -> S3Result<Option<Self>> {
        let Some(name) = algorithm else {
            return match kind {
                Some(kind) => {
                    Err(s3_error!(InvalidRequest, "checksum type {kind} was given without a checksum algorithm"))
                }
                None => Ok(None),
            };
        };
        let algorithm = Algorithm::from_name(name)?;
        let full_object = match (kind, algorithm) {
            (None, algorithm) => algorithm == Algorithm::Crc64Nvme,
            (Some("FULL_OBJECT"), Algorithm::Crc32 | Algorithm::Crc32c | Algorithm::Crc64Nvme) => true,
            (Some("COMPOSITE"), Algorithm::Crc32 | Algorithm::Crc32c | Algorithm::Sha1 | Algorithm::Sha256) => false,
            (Some(kind), algorithm) => {
                let name = algorithm.name();
                return Err(s3_error!(InvalidRequest, "The {kind} checksum type cannot be used with {name}."));
            }
        };
        Ok(Some(Self { algorithm, full_object }))
    }

    /// Scheme of the checksum that a completion states, for an upload that was begun without one. A CRC is that of the full object
    /// unless it is written as one of parts.
    ///
    /// # Errors
    /// As [`Scheme::asked`].
    pub(crate) fn stated(kind: Option<&str>, stated: Option<(Algorithm, &str)>) -> S3Result<Option<Self>> {
        let kind = kind.or_else(|| {
            let (algorithm, value) = stated?;
            let of_parts = value.contains('-') || matches!(algorithm, Algorithm::Sha1 | Algorithm::Sha256);
            Some(if of_parts { "COMPOSITE" } else { "FULL_OBJECT" })
        });
        Self::asked(stated.map(|(algorithm, _)| algorithm.name()), kind)
    }

    /// Scheme that an upload in progress was begun with.
    pub(crate) fn of_upload(metadata: &Metadata) -> Option<Self> {
        let algorithm = Algorithm::from_name(metadata.get(checksums::ALGORITHM_NAME)?).ok()?;
        Some(Self { algorithm, full_object: metadata.get(checksums::TYPE_NAME)? == "FULL_OBJECT" })
    }

    /// Writes it down with the upload.
    pub(crate) fn store(self, metadata: &mut Metadata) {
        metadata.insert(checksums::ALGORITHM_NAME.to_owned(), self.algorithm.name().to_owned());
        metadata.insert(checksums::TYPE_NAME.to_owned(), self.kind().to_owned());
    }

    /// As S3 names it.
    pub(crate) fn kind(self) -> &'static str {
        if self.full_object { "FULL_OBJECT" } else { "COMPOSITE" }
    }

    /// Puts the checksum of an object of these parts into its metadata, and theirs, if these are not too many.
    ///
    /// # Errors
    /// `InvalidRequest` where a part has no such checksum.
    pub(crate) fn store_combined(self, parts: &[&PartInfo], metadata: &mut Metadata) -> S3Result<String> {
        let digests = self.digests(parts)?;
        let combined = self.combine(&digests)?;
        metadata.insert(self.algorithm.header().to_owned(), combined.clone());
        let all: Vec<u8> = digests.into_iter().flat_map(|(digest, _)| digest).collect();
        if all.len() <= PART_DIGESTS_BYTES_MAX {
            metadata.insert(PARTS_NAME.to_owned(), checksums::encode(&all));
        }
        Ok(combined)
    }

    /// The checksums of parts, with their sizes.
    fn digests(self, parts: &[&PartInfo]) -> S3Result<Vec<(Vec<u8>, u64)>> {
        let of = |part: &&PartInfo| {
            let value = part.metadata.get(self.algorithm.header()).ok_or_else(|| {
                let (number, name) = (part.number, self.algorithm.name());
                s3_error!(InvalidRequest, "part {number} has no {name} checksum, which the object's would be made of")
            })?;
            Ok((checksums::parse(self.algorithm, value)?, part.size))
        };
        parts.iter().map(of).collect()
    }

    /// The checksum of an object whose parts have these, as headers write it.
    fn combine(self, digests: &[(Vec<u8>, u64)]) -> S3Result<String> {
        if !self.full_object {
            let all: Vec<u8> = digests.iter().flat_map(|(digest, _)| digest.iter().copied()).collect();
            return Ok(format!("{}-{}", checksums::encode(&self.algorithm.digest(&all)), digests.len()));
        }
        let crc = match self.algorithm {
            Algorithm::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
            Algorithm::Crc32c => CrcAlgorithm::Crc32Iscsi,
            Algorithm::Crc64Nvme => CrcAlgorithm::Crc64Nvme,
            Algorithm::Sha1 | Algorithm::Sha256 => {
                return Err(s3_error!(InvalidRequest, "{} has no full-object checksum", self.algorithm.name()));
            }
        };
        let number = |digest: &[u8]| digest.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        let mut all: Option<u64> = None;
        for (digest, size) in digests {
            let next = number(digest);
            all = Some(match all {
                Some(before) => crc_fast::checksum_combine(crc, before, next, *size),
                None => next,
            });
        }
        let bytes = all.unwrap_or_default().to_be_bytes();
        let low = bytes.len() - self.algorithm.digest_bytes();
        Ok(checksums::encode(bytes.get(low..).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(algorithm: Algorithm, pieces: &[&[u8]]) -> Vec<PartInfo> {
        let part = |(index, piece): (usize, &&[u8])| PartInfo {
            number: index as u32 + 1,
            size: piece.len() as u64,
            etag: hex(&Md5::checksum(piece)),
            modified_unix_ns: 0,
            metadata: [(algorithm.header().to_owned(), checksums::encode(&algorithm.digest(piece)))].into(),
        };
        pieces.iter().enumerate().map(part).collect()
    }

    #[test]
    fn a_full_object_checksum_is_that_of_the_bytes() {
        let pieces: [&[u8]; 4] = [b"It was ", b"a bright cold day", b"", b" in April"];
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme] {
            let parts = parts(algorithm, &pieces);
            let scheme = Scheme { algorithm, full_object: true };
            let mut metadata = Metadata::new();
            let combined = scheme.store_combined(&parts.iter().collect::<Vec<_>>(), &mut metadata).unwrap();
            assert_eq!(combined, checksums::encode(&algorithm.digest(&pieces.concat())), "{algorithm:?}");
            for (index, part) in parts.iter().enumerate() {
                assert_eq!(of_part(&metadata, index), part.metadata, "{algorithm:?}");
            }
            assert_eq!((of_part(&metadata, 4), of_part(&Metadata::new(), 0)), Default::default());
        }
    }

    #[test]
    fn a_composite_checksum_is_of_the_checksums() {
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Sha1, Algorithm::Sha256] {
            let parts = parts(algorithm, &[b"one", b"two"]);
            let scheme = Scheme { algorithm, full_object: false };
            let combined = scheme.store_combined(&parts.iter().collect::<Vec<_>>(), &mut Metadata::new()).unwrap();
            let both = [algorithm.digest(b"one"), algorithm.digest(b"two")].concat();
            assert_eq!(combined, format!("{}-2", checksums::encode(&algorithm.digest(&both))));
        }
        let without = PartInfo { metadata: Metadata::new(), ..parts(Algorithm::Sha1, &[b"one"]).remove(0) };
        let scheme = Scheme { algorithm: Algorithm::Sha1, full_object: false };
        assert!(scheme.store_combined(&[&without], &mut Metadata::new()).is_err());
    }

    #[test]
    fn the_etag_is_the_md5_of_the_md5s() {
        let part = |number, bytes: &[u8]| CompletedPart { number, etag: hex(&Md5::checksum(bytes)) };
        let tag = etag(&[part(1, b"one"), part(3, b"two")]).unwrap();
        let both = [Md5::checksum(b"one"), Md5::checksum(b"two")].concat();
        assert_eq!(tag, format!("{}-2", hex(&Md5::checksum(&both))));
        for bad in ["", "zz", "d41d8cd98f00b204e9800998ecf8427", "+41d8cd98f00b204e9800998ecf8427e"] {
            assert!(etag(&[CompletedPart { number: 1, etag: bad.to_owned() }]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_scheme_is_what_s3_allows() {
        let asked = |algorithm, kind| Scheme::asked(algorithm, kind).ok().flatten().map(|scheme| scheme.kind());
        assert_eq!(asked(Some("CRC32"), None), Some("COMPOSITE"));
        assert_eq!(asked(Some("CRC32"), Some("FULL_OBJECT")), Some("FULL_OBJECT"));
        assert_eq!(asked(Some("CRC64NVME"), None), Some("FULL_OBJECT"));
        assert!(Scheme::asked(Some("CRC64NVME"), Some("COMPOSITE")).is_err());
        assert!(Scheme::asked(Some("SHA256"), Some("FULL_OBJECT")).is_err());
        assert!(Scheme::asked(None, Some("COMPOSITE")).is_err());
        assert_eq!(Scheme::asked(None, None).unwrap(), None);
        let mut metadata = Metadata::new();
        let scheme = Scheme { algorithm: Algorithm::Crc32c, full_object: true };
        scheme.store(&mut metadata);
        assert_eq!(Scheme::of_upload(&metadata), Some(scheme));
    }
}
