//! The store's omaps as the bucket engine's catalog.

use std::rc::Rc;

use shingle_buckets::{Attributes, Blobs, Buckets, Catalog, Chosen, Client, Entrance, Failed, Limits, Names, Part};
use shingle_store_api::{
    ListRequest, Listing, ObjectInfo, StoreError, StoreErrorKind, StoreResult, StoreUsage, UploadId, UploadListing,
};

use super::Core;
use super::streams::Written;
use super::uploads::{Of, PartBytes};
use crate::client::Link;
use crate::errors::malformed;
use crate::format::{BucketRecord, Held, UploadRecord, upload_key};
use crate::ids;
use crate::reader::Reader;
use crate::writer::Gathering;

/// A transaction that failed.
fn failed(error: StoreError) -> Failed {
    match error.kind {
        StoreErrorKind::Unavailable => Failed::in_doubt(error),
        // Any other failure comes before a transaction has its batch.
        _ => Failed::before(error),
    }
}

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

    fn body(_client: &Client<Self>, _part: Option<(UploadId, u32)>, (): ()) -> Gathering {
        Gathering::default()
    }

    async fn open(self: &Rc<Self>, client: Client<Self>, bucket: String, key: String) -> StoreResult<Reader> {
        let (info, layout, open) = self.open_object(&bucket, &key, client.link.notices.clone()).await?;
        Ok(Reader::new(client, bucket, info, layout, open))
    }
}

impl Catalog for Core {
    const LIMITS: Limits = Limits { bucket_bytes_max: 255, key_bytes_max: 1024, zeros_in_keys: false };
    type Blob = PartBytes;

    fn names(&self) -> &Names {
        &self.names
    }

    fn now_unix_ns(&self) -> u64 {
        self.rt.unix_time().nanos
    }

    fn part_bytes_min(&self) -> u64 {
        self.options.part_bytes_min
    }

    async fn object(&self, bucket: &str, key: &str, parts: bool) -> StoreResult<Option<ObjectInfo>> {
        let mut missed = None;
        loop {
            let Some(record) = self.find(bucket, key).await? else { return Ok(None) };
            let Some(held) = record.held.filter(|held| parts && matches!(held, Held::Upload(_))) else {
                return Ok(Some(record.attributes.info(key, record.version, record.size, Vec::new())));
            };
            // The object may be replaced while its parts are read.
            let Some(_pin) = self.pinned(held).await else { continue };
            match self.layout_of(&record).await? {
                Some(layout) => {
                    return Ok(Some(record.attributes.info(key, record.version, record.size, layout.sizes())));
                }
                None if missed == Some(held) => return Err(crate::errors::corrupt("its parts are not there")),
                None => missed = Some(held),
            }
        }
    }

    async fn page(&self, bucket: String, request: ListRequest) -> StoreResult<Listing> {
        self.list_page(&bucket, &request).await
    }

    async fn is_empty(&self, bucket: &str) -> StoreResult<bool> {
        let number = self.bucket_number(bucket)?;
        for index in [ids::names(number), ids::uploads(number)] {
            if !self.index_page(bucket, &index, b"", 1).await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreResult<Option<Attributes>> {
        // A key that could not be stored has no uploads.
        if Self::LIMITS.check(bucket, key).is_err() {
            return Ok(None);
        }
        let (index, name) = (ids::uploads(self.bucket_number(bucket)?), upload_key(key, id));
        let Some(value) = self.index_value(bucket, &index, &name).await? else { return Ok(None) };
        let record = UploadRecord::decode(&value).map_err(|error| malformed(&name, error))?;
        Ok(Some(record.attributes))
    }

    async fn uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, UploadId)>,
        limit: usize,
    ) -> StoreResult<UploadListing> {
        self.list_uploads(bucket, prefix, after, limit).await
    }

    async fn parts(&self, id: UploadId, after: u32, limit: usize) -> StoreResult<Vec<Part<PartBytes>>> {
        self.find_parts(id.0, after, limit).await
    }

    async fn usage(self: &Rc<Self>) -> StoreResult<StoreUsage> {
        Ok(self.room())
    }

    async fn make_bucket(self: &Rc<Self>, bucket: &str, created_unix_ns: u64) -> Result<(), Failed> {
        let number = self.fresh().map_err(Failed::before)?;
        let mut change = self.change();
        change.transaction.create(&ids::names(number)).create(&ids::uploads(number));
        let record = BucketRecord { number, created_unix_ns };
        change.transaction.omap_set(&ids::root(), bucket.as_bytes(), record.encode());
        change.submit().await.map_err(failed)?;
        self.numbers.borrow_mut().insert(bucket.to_owned(), number);
        Ok(())
    }

    async fn drop_bucket(self: &Rc<Self>, bucket: &str) -> Result<(), Failed> {
        let number = self.bucket_number(bucket).map_err(Failed::before)?;
        let mut change = self.change();
        change.transaction.omap_remove(&ids::root(), bucket.as_bytes());
        change.transaction.remove(&ids::names(number)).remove(&ids::uploads(number)).with_reserve();
        change.submit().await.map_err(failed)?;
        self.numbers.borrow_mut().remove(bucket);
        Ok(())
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
        self.remove_object(&bucket, &key).await
    }

    async fn begin_upload(self: &Rc<Self>, bucket: &str, key: &str, attributes: &Attributes) -> StoreResult<UploadId> {
        self.begin_upload_of(bucket, key, attributes).await
    }

    async fn put_part(
        self: &Rc<Self>,
        of: Of,
        number: u32,
        attributes: Attributes,
        written: Written,
    ) -> StoreResult<ObjectInfo> {
        self.put_part_of(of, number, attributes, written).await
    }

    async fn complete(
        self: &Rc<Self>,
        of: Of,
        attributes: Attributes,
        chosen: Chosen<PartBytes>,
    ) -> StoreResult<ObjectInfo> {
        self.make_of_parts(of, attributes, chosen).await
    }

    async fn end_upload(self: &Rc<Self>, of: Of) -> Result<(), Failed> {
        self.end_upload_of(of).await.map_err(failed)
    }
}
