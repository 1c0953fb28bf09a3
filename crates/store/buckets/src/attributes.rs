//! Attributes: all that is stored with an object, upload or part beside its bytes.

use bytes::BufMut;
use shingle_base::wire::{Input, Malformed, put_pairs, put_text};
use shingle_store_api::{Metadata, ObjectInfo, StoreResult};

use crate::errors::invalid;

/// Metadata and ETag together are at most this long.
const BYTES_MAX: usize = 256 << 10;

/// All that is kept with an object, upload or part beside its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// When it was committed (an upload: begun), in nanoseconds since 1970.
    pub modified_unix_ns: u64,
    /// Its ETag, without quotes; empty for an upload.
    pub etag: String,
    /// The front end's metadata.
    pub metadata: Metadata,
}

impl Attributes {
    /// Fails if the attributes are larger than a store takes.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn check(&self) -> StoreResult<()> {
        let pairs = self.metadata.iter();
        let length: usize = pairs.map(|(name, value)| name.len() + value.len()).sum::<usize>() + self.etag.len();
        if length > BYTES_MAX {
            return Err(invalid(format!("an object's metadata has at most {BYTES_MAX} bytes")));
        }
        Ok(())
    }

    /// The object that has them, as callers see it.
    pub fn info(self, key: &str, version: u64, size: u64, part_sizes: Vec<u64>) -> ObjectInfo {
        let Self { modified_unix_ns, etag, metadata } = self;
        ObjectInfo { key: key.to_owned(), size, etag, modified_unix_ns, version, metadata, part_sizes, class: None }
    }

    /// Appends them as they are stored, little-endian: time, ETag, metadata.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.modified_unix_ns);
        put_text(out, &self.etag);
        put_pairs(out, &self.metadata);
    }

    /// Reads what [`Attributes::put`] wrote.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn read(input: &mut Input<'_>) -> Result<Self, Malformed> {
        let modified_unix_ns = input.u64("time")?;
        Ok(Self { modified_unix_ns, etag: input.text("ETag")?, metadata: input.pairs("metadata")? })
    }
}
