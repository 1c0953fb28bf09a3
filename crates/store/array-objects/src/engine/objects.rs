//! Putting objects.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use shingle_array_store::Object;
use shingle_buckets::Attributes;
use shingle_runtime::memory::Reservation;
use shingle_store_api::{ObjectInfo, StoreErrorKind, StoreResult};

use super::{Core, object_info, size_of};
use crate::errors::from_array;
use crate::format::{BlobRecord, Manifest, ObjectRecord};
use crate::names;
use crate::notices::Open;

/// Bytes that a writer has written when it commits.
pub(crate) enum Written {
    /// All of it, in memory that was taken for it.
    Whole(Vec<Bytes>, Option<Reservation>),
    /// A blob.
    Blob(Open),
}

impl Core {
    /// Makes what a writer has written the object.
    pub(super) async fn put_object(
        self: &Rc<Self>,
        bucket: &str,
        key: &str,
        attributes: Attributes,
        written: Written,
    ) -> StoreResult<ObjectInfo> {
        let (data, manifest, _kept) = match written {
            Written::Whole(pieces, memory) => (joined(pieces), None, (memory, None)),
            Written::Blob(open) => {
                // With all that its record has, so that it can be made anew where that is lost (AO-ORPHAN-1).
                let of = BlobRecord { bucket: bucket.to_owned(), key: key.to_owned(), attributes: attributes.clone() };
                let (blob, size, _) = self.finish_blob(open.number, of.encode()?).await?;
                let blobs = vec![(blob.number, blob.tag, size)];
                (Bytes::new(), Some(Manifest { multipart: false, owner: blob.owner, blobs }), (None, Some(open)))
            }
        };
        self.replace(bucket, key, data, ObjectRecord { attributes, manifest }).await
    }

    /// Makes `record` the object, in its key's turn, and lets go of what it replaces.
    pub(super) async fn replace(
        self: &Rc<Self>,
        bucket: &str,
        key: &str,
        data: Bytes,
        record: ObjectRecord,
    ) -> StoreResult<ObjectInfo> {
        let before = self.find_object(bucket, key)?;
        if let Some((_, before)) = &before {
            self.forget_upload(bucket, key, before).await?;
        }
        let name = Bytes::from(names::object(bucket, key));
        let stored = match record.encode() {
            Ok(attributes) => self.store.put(name.clone(), data, attributes).await.map_err(from_array),
            Err(error) => Err(error),
        };
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => {
                // Elsewhere than here it may be there all the same, or be found by the next recovery: its blob is left to
                // the next opening, which sees whether anything names it.
                let nothing = matches!(error.kind, StoreErrorKind::NoSpace | StoreErrorKind::Invalid);
                match record.manifest {
                    Some(manifest) if nothing && !manifest.multipart => self.condemn(manifest.blobs()),
                    Some(manifest) if !nothing && manifest.multipart => self.half_ends(manifest.owner),
                    _ => {}
                }
                return Err(error);
            }
        };
        let object = Object { name, version: stored.version, size: stored.size, attributes: Bytes::new() };
        let was = before.as_ref().map(|(object, record)| size_of(object, record));
        self.counts.change(&object.name, was, Some(size_of(&object, &record)));
        if let Some((_, ObjectRecord { manifest: Some(manifest), .. })) = before {
            self.condemn(manifest.blobs());
        }
        Ok(object_info(key, &object, record))
    }
}

/// Pieces as one, uncopied where it is one.
fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    if pieces.len() <= 1 {
        return pieces.pop().unwrap_or_default();
    }
    let mut whole = BytesMut::with_capacity(pieces.iter().map(Bytes::len).sum());
    pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
    whole.freeze()
}
