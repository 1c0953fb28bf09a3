//! The store's parsers of bytes from its drive, for fuzzing: each says whether the bytes make sense, and never panics.

use shingle_blue_store::ObjectId;

use crate::format::{BucketRecord, Held, Record, StoreRecord, UploadRecord, parse_part_key, split_upload_key};
use crate::ids::use_of;

/// A value of an omap, or the attribute that says how the store was made.
pub fn value(bytes: &[u8]) -> bool {
    let object = Record::decode_object(bytes).is_ok_and(|record| record.encode_object() == bytes);
    let part = Record::decode_part(bytes).is_ok_and(|record| record.encode_part() == bytes);
    let upload = UploadRecord::decode(bytes).is_ok_and(|record| record.encode() == bytes);
    let bucket = BucketRecord::decode(bytes).is_ok_and(|record| record.encode() == bytes);
    let store = StoreRecord::decode(bytes).is_ok_and(|record| record.encode() == bytes);
    object | part | upload | bucket | store
}

/// A key of an omap, or the name of an object of the store.
pub fn key(bytes: &[u8]) -> bool {
    let held = Held::parse(bytes).is_some_and(|held| held.key() == bytes);
    let used = use_of(&ObjectId::new(1, bytes)).is_some();
    held | used | parse_part_key(bytes).is_some() | split_upload_key(bytes).is_some()
}
