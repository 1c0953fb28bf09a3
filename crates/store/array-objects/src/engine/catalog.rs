//! The array's objects as the bucket engine's catalog: names lie in the array's index, what they stand for in attributes.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use shingle_buckets::{Attributes, Blobs, Buckets, Catalog, Chosen, Client, Entrance, Failed, Limits, Names, Part};
use shingle_store_api::{ListRequest, Listing, ObjectInfo, StoreResult, StoreUsage, UploadId, UploadListing};

use super::objects::Written;
use super::{Core, object_info, size_of};
use crate::client::Link;
use crate::errors::{from_array, malformed};
use crate::format::{BucketRecord, ObjectRecord, UploadRecord};
use crate::names::{self, Blob};
use crate::reader::Reader;
use crate::writer::Gathering;

/// Deletions at a time of what failed puts left.
const TOGETHER: usize = 128;

impl Blobs for Core {
    type Door = Entrance<Self>;
    type Link = Link;
    /// Nothing is begun before there is more than fits in memory.
    type Begun = ();
    type Body = Gathering;
    type Written = Written;
    type Reader = Reader;

    fn buckets_here(client: &Client<Self>) -> Option<&Buckets> {
        Some(&client.link.buckets)
    }

    fn begin_here(client: &Client<Self>) -> Option<()> {
        client.door.is_open().then_some(())
    }

    async fn begin(self: &Rc<Self>) -> StoreResult<()> {
        Ok(())
    }

    fn body(_client: &Client<Self>, part: Option<(UploadId, u32)>, (): ()) -> Gathering {
        Gathering::new(part)
    }

    async fn open(self: &Rc<Self>, client: Client<Self>, bucket: String, key: String) -> StoreResult<Reader> {
        let (number, info) = self.open_object(&bucket, &key)?;
        Ok(Reader::new(client, number, bucket, info))
    }
}

impl Catalog for Core {
    const LIMITS: Limits =
        Limits { bucket_bytes_max: names::BUCKET_MAX, key_bytes_max: names::KEY_MAX, zeros_in_keys: false };
    type Blob = Blob;

    fn names(&self) -> &Names {
        &self.names
    }

    fn now_unix_ns(&self) -> u64 {
        self.rt.unix_time().nanos
    }

    fn part_bytes_min(&self) -> u64 {
        self.options.part_bytes_min
    }

    async fn object(&self, bucket: &str, key: &str, _parts: bool) -> StoreResult<Option<ObjectInfo>> {
        let found = self.find_object(bucket, key)?;
        Ok(found.map(|(object, record)| object_info(key, &object, record)))
    }

    async fn page(&self, bucket: String, request: ListRequest) -> StoreResult<Listing> {
        self.list_page(&bucket, &request).await
    }

    async fn is_empty(&self, bucket: &str) -> StoreResult<bool> {
        for prefix in [names::object(bucket, ""), names::uploads(bucket, "")] {
            if !self.store.list(&prefix, None, 1).map_err(from_array)?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreResult<Option<Attributes>> {
        let name = names::upload(bucket, key, id);
        // A key that could not be stored has no uploads.
        if self.purge.has_ended(&name) || Self::LIMITS.check(bucket, key).is_err() {
            return Ok(None);
        }
        let Some(found) = self.find(&name)? else { return Ok(None) };
        let record = UploadRecord::decode(&found.attributes).map_err(|error| malformed(&name, error))?;
        Ok(Some(record.attributes))
    }

    async fn uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, UploadId)>,
        limit: usize,
    ) -> StoreResult<UploadListing> {
        let after = after.map(|(key, id)| names::upload(bucket, &key, id));
        self.list_uploads(&names::uploads(bucket, prefix), after, limit).await
    }

    async fn parts(&self, id: UploadId, after: u32, limit: usize) -> StoreResult<Vec<Part<Blob>>> {
        match u16::try_from(after) {
            Ok(after) => self.find_parts(id, after, limit).await,
            Err(_) => Ok(Vec::new()),
        }
    }

    async fn usage(self: &Rc<Self>) -> StoreResult<StoreUsage> {
        self.room()
    }

    async fn make_bucket(self: &Rc<Self>, bucket: &str, created_unix_ns: u64) -> Result<(), Failed> {
        let record = BucketRecord { created_unix_ns }.encode();
        let made = self.store.put(names::bucket(bucket), Bytes::new(), record).await;
        made.map(drop).map_err(from_array).map_err(Failed::by_kind)
    }

    async fn drop_bucket(self: &Rc<Self>, bucket: &str) -> Result<(), Failed> {
        self.none_comes_back().map_err(Failed::before)?;
        for prefix in [names::object(bucket, ""), names::uploads(bucket, "")] {
            self.drop_unsure(&prefix).await.map_err(Failed::before)?;
        }
        self.store.delete(names::bucket(bucket)).await.map(drop).map_err(from_array).map_err(Failed::by_kind)
    }

    async fn put(
        self: &Rc<Self>,
        bucket: String,
        key: String,
        attributes: Attributes,
        written: Written,
    ) -> StoreResult<ObjectInfo> {
        self.put_object(&bucket, &key, attributes, written).await
    }

    async fn remove(self: &Rc<Self>, bucket: String, key: String) -> StoreResult<bool> {
        let name = names::object(&bucket, &key);
        if let Some(deleted) = &mut *self.deleted.borrow_mut() {
            deleted.insert(name.clone());
        }
        let Some(object) = self.find(&name)? else {
            // A put that failed may have landed: the array knows of which, and deletes those. (AO-OBJ-5)
            self.store.delete(name).await.map_err(from_array)?;
            return Ok(false);
        };
        // An object whose record is spoilt can be deleted all the same; its blobs are found when the array is opened.
        let record = ObjectRecord::decode(&object.attributes).ok();
        if let Some(record) = &record {
            self.forget_upload(&bucket, &key, record).await?;
        }
        self.store.delete(name.clone()).await.map_err(from_array)?;
        let size = record.as_ref().map_or(object.size, |record| size_of(&object, record));
        self.counts.change(&name, Some(size), None);
        if let Some(manifest) = record.and_then(|record| record.manifest) {
            self.condemn(manifest.blobs());
        }
        Ok(true)
    }

    async fn begin_upload(self: &Rc<Self>, bucket: &str, key: &str, attributes: &Attributes) -> StoreResult<UploadId> {
        let id = UploadId(self.fresh()?);
        let record = UploadRecord { attributes: attributes.clone() }.encode()?;
        self.store.put(names::upload(bucket, key, id), Bytes::new(), record).await.map_err(from_array)?;
        Ok(id)
    }

    fn parts_may_change(&self, id: UploadId) -> StoreResult<()> {
        self.require_whole(id)
    }

    async fn put_part(
        self: &Rc<Self>,
        of: (String, String, UploadId),
        _number: u32,
        attributes: Attributes,
        written: Written,
    ) -> StoreResult<ObjectInfo> {
        self.put_part_of(of, attributes, written).await
    }

    async fn complete(
        self: &Rc<Self>,
        of: (String, String, UploadId),
        attributes: Attributes,
        chosen: Chosen<Blob>,
    ) -> StoreResult<ObjectInfo> {
        self.make_of_parts(of, attributes, chosen).await
    }

    async fn end_upload(self: &Rc<Self>, (bucket, key, id): (String, String, UploadId)) -> Result<(), Failed> {
        let ended = self.store.delete(names::upload(&bucket, &key, id)).await;
        ended.map_err(from_array).map_err(Failed::by_kind)?;
        self.store.end_group(id.0);
        let parts = self.find_parts(id, 0, usize::MAX).await.map_err(Failed::in_doubt)?;
        self.condemn(parts.into_iter().map(|part| part.blob));
        Ok(())
    }
}

impl Core {
    /// Deletes what failed puts may have left under names that begin with `prefix`: what shows in an empty bucket would show in a later one of
    /// that name (AO-OBJ-6), and a part in the place of one that was acknowledged after it (AO-UPL-2).
    pub(super) async fn drop_unsure(&self, prefix: &[u8]) -> StoreResult<()> {
        for batch in self.store.unsure(prefix).chunks(TOGETHER) {
            try_join_all(batch.iter().map(|name| self.store.delete(name.clone()))).await.map_err(from_array)?;
        }
        Ok(())
    }
}
