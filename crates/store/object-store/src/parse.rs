//! The parser of the index's rows, for fuzzing: a backup has them, too. It says whether the bytes make sense, and never panics.

use bytes::Bytes;

use crate::records::{BlobState, BucketRecord, FileRecord, Item, Location, ObjectRecord, PartRecord, UploadRecord};

/// The value of any row.
pub fn row(bytes: &[u8]) -> bool {
    let item = Item::decode(&Bytes::copy_from_slice(bytes)).is_ok_and(|item| {
        let value = &item.payload;
        let object = ObjectRecord::decode(value).is_ok() | UploadRecord::decode(value).is_ok();
        object | BucketRecord::decode(value).is_ok() | value.is_empty()
    });
    let of_blob = BlobState::decode(bytes).is_ok() | Location::decode(bytes).is_ok();
    item | of_blob | PartRecord::decode(bytes).is_ok() | FileRecord::decode(bytes).is_ok()
}
