//! The parsers of bytes in an array, for fuzzing: whether the bytes make sense; none panics.

use crate::format::{BlobRecord, BucketRecord, ObjectRecord, UploadRecord};
use crate::names;

/// The attributes of anything that lies in the array.
pub fn attributes(bytes: &[u8]) -> bool {
    let object = ObjectRecord::decode(bytes).is_ok_and(|record| {
        let Some(manifest) = record.manifest else { return true };
        manifest.part_sizes().len() <= manifest.blobs().count()
    });
    BucketRecord::decode(bytes).is_ok()
        | object
        | UploadRecord::decode(bytes).is_ok()
        | BlobRecord::decode(bytes).is_ok()
}

/// The name of anything that lies there.
pub fn name(bytes: &[u8]) -> bool {
    names::is_ours(bytes)
}
