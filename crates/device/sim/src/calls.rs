//! Calls of an object store with bodies in pieces of odd sizes, and bodies that are known by a number.

use bytes::Bytes;
use shingle_store_api::{Commit, Metadata, ObjectInfo, ObjectStore, ObjectWriter, StoreResult, UploadId};

/// A part of which half is written; and the other half.
pub(crate) async fn begin_part(
    store: &dyn ObjectStore,
    bucket: &str,
    key: &str,
    id: UploadId,
    number: u32,
    data: Bytes,
) -> StoreResult<(Box<dyn ObjectWriter>, Vec<Bytes>)> {
    let mut writer = store.begin_part(bucket, key, id, number).await?;
    let mut pieces = pieces(&data);
    let rest = pieces.split_off(pieces.len() / 2);
    for piece in pieces {
        writer.write(piece).await?;
    }
    Ok((writer, rest))
}

pub(crate) async fn end_part(
    mut writer: Box<dyn ObjectWriter>,
    rest: Vec<Bytes>,
    content: u64,
) -> StoreResult<ObjectInfo> {
    for piece in rest {
        writer.write(piece).await?;
    }
    writer.commit(commit(&content.to_string())).await
}

/// Bytes of a value: they differ with its number, and from place to place.
pub fn bytes_of(number: u64, size: usize) -> Bytes {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut data = Vec::with_capacity(size + 8);
    while data.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend_from_slice(&state.to_le_bytes());
    }
    data.truncate(size);
    data.into()
}

/// A commit with that ETag, and metadata to recognise it.
pub fn commit(etag: &str) -> Commit {
    let metadata = Metadata::from([("x-amz-meta-tag".to_owned(), format!("of {etag}"))]);
    Commit { etag: etag.to_owned(), metadata, ..Commit::default() }
}

/// Puts an object, in pieces of odd sizes.
///
/// # Errors
/// The store's.
pub async fn put(
    store: &dyn ObjectStore,
    bucket: &str,
    key: &str,
    data: &Bytes,
    commit: Commit,
) -> StoreResult<ObjectInfo> {
    let mut writer = store.begin_put(bucket, key).await?;
    for piece in pieces(data) {
        writer.write(piece).await?;
    }
    writer.commit(commit).await
}

/// `data` in pieces of odd sizes.
pub fn pieces(data: &Bytes) -> Vec<Bytes> {
    let mut rest = data.clone();
    let mut out = Vec::new();
    while !rest.is_empty() {
        let take = rest.len().min(1 + (rest.len() * 7919) % 3001);
        out.push(rest.split_to(take));
    }
    out
}

/// Reads all of an object.
///
/// # Errors
/// The store's.
pub async fn get(store: &dyn ObjectStore, bucket: &str, key: &str) -> StoreResult<Bytes> {
    let reader = store.open(bucket, key).await?;
    reader.read(0, reader.info().size).await
}
