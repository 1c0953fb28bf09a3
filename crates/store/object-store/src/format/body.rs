//! Heads of entries: the bytes that follow the header.

use bytes::BufMut;
use shingle_buckets::Attributes;

use crate::wire::{Input, Malformed, put_text};

/// A blob: bytes that were too many for one entry, in segments of equal size but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobRef {
    /// Its identity, from the same counter as versions.
    pub blob: u64,
    /// Part number; 0 where the object was not uploaded in parts.
    pub number: u32,
    /// Bytes in each segment but the last.
    pub segment_bytes: u32,
    /// Bytes in all.
    pub size: u64,
}

impl BlobRef {
    /// Number of its segments.
    pub fn segments(&self) -> u64 {
        self.size.div_ceil(u64::from(self.segment_bytes.max(1)))
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.blob);
        out.put_u32_le(self.number);
        out.put_u32_le(self.segment_bytes);
        out.put_u64_le(self.size);
    }

    pub(crate) fn read(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let blob = Self {
            blob: input.u64("blob")?,
            number: input.u32("part number")?,
            segment_bytes: input.u32("segment size")?,
            size: input.u64("blob size")?,
        };
        // Segments are numbered in 32 bits; a blob with more, or with segments of nothing, was never written.
        if blob.segment_bytes == 0 || blob.segments() > u64::from(u32::MAX) {
            return Err(Malformed("segment size"));
        }
        Ok(blob)
    }
}

/// Blobs of a large object, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// A client uploaded it in parts: each blob is then a part.
    pub multipart: bool,
    /// Its blobs.
    pub blobs: Vec<BlobRef>,
}

impl Manifest {
    /// The object's size; none if it does not fit 64 bits.
    pub fn size(&self) -> Option<u64> {
        self.blobs.iter().try_fold(0u64, |sum, blob| sum.checked_add(blob.size))
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(u8::from(self.multipart));
        out.put_u32_le(self.blobs.len() as u32);
        self.blobs.iter().for_each(|blob| blob.put(out));
    }

    pub(crate) fn read(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let multipart = match input.u8("multipart flag")? {
            0 => false,
            1 => true,
            _ => return Err(Malformed("multipart flag")),
        };
        let count = input.u32("blob count")?;
        let blobs = (0..count).map(|_| BlobRef::read(input)).collect::<Result<_, _>>()?;
        let manifest = Self { multipart, blobs };
        manifest.size().ok_or(Malformed("manifest size"))?;
        Ok(manifest)
    }
}

/// Body of an entry. The numbers are its kind on the drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// 1: an object whose bytes follow the head.
    Put {
        /// Its bucket.
        bucket: String,
        /// Its key.
        key: String,
        /// Its attributes.
        attributes: Attributes,
    },
    /// 2: a segment of a blob; its bytes follow the head.
    Segment {
        /// The blob.
        blob: u64,
        /// The segment's place in it, from 0.
        index: u32,
    },
    /// 3: an object made of blobs.
    Commit {
        /// Its bucket.
        bucket: String,
        /// Its key.
        key: String,
        /// Its attributes.
        attributes: Attributes,
        /// Its blobs.
        manifest: Manifest,
    },
    /// 4: the object was deleted.
    Delete {
        /// Its bucket.
        bucket: String,
        /// Its key.
        key: String,
    },
    /// 5: the bucket was created.
    BucketCreate {
        /// Its name.
        bucket: String,
        /// When, in nanoseconds since 1970.
        created_unix_ns: u64,
    },
    /// 6: the bucket was deleted.
    BucketDelete {
        /// Its name.
        bucket: String,
    },
    /// 7: an upload in parts was begun; its id is the entry's version.
    UploadBegin {
        /// Its bucket.
        bucket: String,
        /// The key it will become.
        key: String,
        /// Attributes of the object to be.
        attributes: Attributes,
    },
    /// 8: a part of an upload is complete.
    PartCommit {
        /// The upload.
        upload: u64,
        /// Its bytes; the number is the part's.
        part: BlobRef,
        /// Its attributes.
        attributes: Attributes,
    },
    /// 9: the upload was completed or aborted.
    UploadEnd {
        /// The upload.
        upload: u64,
    },
}

impl Body {
    /// Its kind on the drive.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Put { .. } => 1,
            Self::Segment { .. } => 2,
            Self::Commit { .. } => 3,
            Self::Delete { .. } => 4,
            Self::BucketCreate { .. } => 5,
            Self::BucketDelete { .. } => 6,
            Self::UploadBegin { .. } => 7,
            Self::PartCommit { .. } => 8,
            Self::UploadEnd { .. } => 9,
        }
    }

    /// Its name, as dumps show it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Put { .. } => "put",
            Self::Segment { .. } => "segment",
            Self::Commit { .. } => "commit",
            Self::Delete { .. } => "delete",
            Self::BucketCreate { .. } => "bucket-create",
            Self::BucketDelete { .. } => "bucket-delete",
            Self::UploadBegin { .. } => "upload-begin",
            Self::PartCommit { .. } => "part-commit",
            Self::UploadEnd { .. } => "upload-end",
        }
    }

    /// True if data follows the head.
    pub(crate) fn carries_data(kind: u8) -> bool {
        matches!(kind, 1 | 2)
    }

    /// The head's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Put { bucket, key, attributes } | Self::UploadBegin { bucket, key, attributes } => {
                put_text(&mut out, bucket);
                put_text(&mut out, key);
                attributes.put(&mut out);
            }
            Self::Segment { blob, index } => {
                out.put_u64_le(*blob);
                out.put_u32_le(*index);
            }
            Self::Commit { bucket, key, attributes, manifest } => {
                put_text(&mut out, bucket);
                put_text(&mut out, key);
                attributes.put(&mut out);
                manifest.put(&mut out);
            }
            Self::Delete { bucket, key } => {
                put_text(&mut out, bucket);
                put_text(&mut out, key);
            }
            Self::BucketCreate { bucket, created_unix_ns } => {
                put_text(&mut out, bucket);
                out.put_u64_le(*created_unix_ns);
            }
            Self::BucketDelete { bucket } => put_text(&mut out, bucket),
            Self::PartCommit { upload, part, attributes } => {
                out.put_u64_le(*upload);
                part.put(&mut out);
                attributes.put(&mut out);
            }
            Self::UploadEnd { upload } => out.put_u64_le(*upload),
        }
        out
    }

    /// The body of `kind` whose head is `bytes`.
    pub(crate) fn decode(kind: u8, bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input::new(bytes);
        let body = match kind {
            1 => Self::Put {
                bucket: bucket_name(&mut input)?,
                key: input.text("key")?,
                attributes: Attributes::read(&mut input)?,
            },
            2 => Self::Segment { blob: input.u64("blob")?, index: input.u32("segment index")? },
            3 => Self::Commit {
                bucket: bucket_name(&mut input)?,
                key: input.text("key")?,
                attributes: Attributes::read(&mut input)?,
                manifest: Manifest::read(&mut input)?,
            },
            4 => Self::Delete { bucket: bucket_name(&mut input)?, key: input.text("key")? },
            5 => Self::BucketCreate { bucket: bucket_name(&mut input)?, created_unix_ns: input.u64("time")? },
            6 => Self::BucketDelete { bucket: bucket_name(&mut input)? },
            7 => Self::UploadBegin {
                bucket: bucket_name(&mut input)?,
                key: input.text("key")?,
                attributes: Attributes::read(&mut input)?,
            },
            8 => Self::PartCommit {
                upload: input.u64("upload")?,
                part: BlobRef::read(&mut input)?,
                attributes: Attributes::read(&mut input)?,
            },
            9 => Self::UploadEnd { upload: input.u64("upload")? },
            _ => return Err(Malformed("entry kind")),
        };
        input.end("end of head")?;
        Ok(body)
    }
}

/// A bucket's name. Index keys separate it from the object's key by a zero byte, so it has none.
fn bucket_name(input: &mut Input<'_>) -> Result<String, Malformed> {
    let name = input.text("bucket")?;
    if name.contains('\0') { Err(Malformed("bucket")) } else { Ok(name) }
}
