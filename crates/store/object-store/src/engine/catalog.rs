//! The index and the log as the bucket engine's catalog.

use std::rc::Rc;

use shingle_buckets::{Attributes, Blobs, Buckets, Catalog, Chosen, Client, Failed, Limits, Names, Part};
use shingle_store_api::{ListRequest, Listing, ObjectInfo, StoreResult, StoreUsage, UploadId, UploadListing};

use crate::client::Link;
use crate::client::direct::Begun;
use crate::client::reader::Reader;
use crate::client::writer::Gathering;
use crate::drives::Class;
use crate::engine::Core;
use crate::engine::listing::list;
use crate::engine::objects::{Written, sizes_of};
use crate::engine::reading::Missed;
use crate::engine::uploads::{find_upload, list_uploads, parts};
use crate::errors::from_record;
use crate::format::{BlobRef, Body};
use crate::index::{Space, scan_prefix};
use crate::keys;
use crate::records::Item;

impl Blobs for Core {
    type Door = shingle_buckets::Entrance<Self>;
    type Link = Link;
    type Begun = Begun;
    type Body = Gathering;
    type Written = Written;
    type Reader = Reader;

    fn buckets_here(client: &Client<Self>) -> Option<&Buckets> {
        Some(&client.link.direct.buckets)
    }

    fn begin_here(client: &Client<Self>) -> Option<Begun> {
        client.door.is_open().then(|| client.link.direct.begin())?
    }

    fn head_here(client: &Client<Self>, bucket: &str, key: &str) -> Option<ObjectInfo> {
        client.door.is_open().then(|| client.link.direct.head(bucket, key))?
    }

    fn open_here(client: &Client<Self>, bucket: &str, key: &str) -> Option<Reader> {
        let opened = client.door.is_open().then(|| client.link.direct.open(bucket, key, &client.link.releases))??;
        Some(Reader::new(client.clone(), bucket.to_owned(), opened))
    }

    async fn begin(self: &Rc<Self>) -> StoreResult<Begun> {
        Ok(self.begin_blob().await)
    }

    fn body(client: &Client<Self>, _part: Option<(UploadId, u32)>, begun: Begun) -> Gathering {
        Gathering::new(client, begun)
    }

    async fn open(self: &Rc<Self>, client: Client<Self>, bucket: String, key: String) -> StoreResult<Reader> {
        let opened = self.open_object(&bucket, &key, &client.link.releases).await?;
        Ok(Reader::new(client, bucket, opened))
    }
}

impl Catalog for Core {
    const LIMITS: Limits = Limits { bucket_bytes_max: 255, key_bytes_max: 1024, zeros_in_keys: true };
    type Blob = BlobRef;

    fn names(&self) -> &Names {
        &self.names
    }

    fn now_unix_ns(&self) -> u64 {
        self.runtime.unix_time().nanos
    }

    fn part_bytes_min(&self) -> u64 {
        self.options.part_bytes_min
    }

    fn working(&self) -> StoreResult<()> {
        Core::working(self)
    }

    async fn object(&self, bucket: &str, key: &str, parts: bool) -> StoreResult<Option<ObjectInfo>> {
        let mut missed = Missed::default();
        loop {
            let Some((item, record)) = self.find(bucket, key).await? else { return Ok(None) };
            let mut part_sizes = Vec::new();
            if parts && record.large {
                // Gone between the two reads: look for the version that replaced it.
                let Some(manifest) = self.manifest(item.version).await? else {
                    missed.note(item.version, item.location)?;
                    continue;
                };
                part_sizes = sizes_of(&manifest);
            }
            return Ok(Some(record.attributes.info(key, item.version, record.size, part_sizes)));
        }
    }

    async fn page(&self, bucket: String, request: ListRequest) -> StoreResult<Listing> {
        self.read(move |index| list(index, &bucket, &request)).await
    }

    async fn is_empty(&self, bucket: &str) -> StoreResult<bool> {
        let prefix = keys::object(bucket, "");
        self.read(move |index| {
            let mut used = false;
            for space in [Space::Objects, Space::UploadNames] {
                scan_prefix(index, space, &prefix, &mut |_, _| {
                    used = true;
                    false
                })?;
            }
            Ok(!used)
        })
        .await
    }

    async fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreResult<Option<Attributes>> {
        let found = self.read(move |index| find_upload(index, id.0)).await?;
        let of_key = found.filter(|record| record.bucket == bucket && record.key == key);
        Ok(of_key.map(|record| record.attributes))
    }

    async fn uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, UploadId)>,
        limit: usize,
    ) -> StoreResult<UploadListing> {
        let prefix = keys::upload_name_prefix(bucket, prefix);
        let after = after.map(|(key, id)| keys::upload_name(bucket, &key, id.0));
        self.read(move |index| list_uploads(index, &prefix, after.as_deref(), limit)).await
    }

    async fn parts(&self, id: UploadId, after: u32, limit: usize) -> StoreResult<Vec<Part<BlobRef>>> {
        self.read(move |index| parts(index, id.0, after, limit)).await
    }

    async fn usage(self: &Rc<Self>) -> StoreResult<StoreUsage> {
        Core::working(self)?;
        self.refresh_drives().await;
        Ok(self.room())
    }

    async fn make_bucket(self: &Rc<Self>, bucket: &str, created_unix_ns: u64) -> Result<(), Failed> {
        let body = Body::BucketCreate { bucket: bucket.to_owned(), created_unix_ns };
        self.log(Class::System, self.next_number(), body).await
    }

    async fn drop_bucket(self: &Rc<Self>, bucket: &str) -> Result<(), Failed> {
        let body = Body::BucketDelete { bucket: bucket.to_owned() };
        self.log(Class::System, self.next_number(), body).await
    }

    async fn put(
        self: &Rc<Self>,
        bucket: String,
        key: String,
        attributes: Attributes,
        written: Written,
    ) -> StoreResult<ObjectInfo> {
        self.put_object(bucket, key, attributes, written).await
    }

    async fn remove(self: &Rc<Self>, bucket: String, key: String) -> StoreResult<bool> {
        let id = keys::object(&bucket, &key);
        let present = self.read(move |index| index.get(Space::Objects, &id)).await?.is_some();
        // A put that failed may have landed: it, too, must be older than a grave (OS-APP-3).
        if !present && !self.unsure.get() {
            // Entries that the index has not taken yet are in the log.
            return self.writable().map(|()| false);
        }
        self.log(Class::System, self.next_number(), Body::Delete { bucket, key }).await?;
        self.stats.borrow_mut().deletes += u64::from(present);
        Ok(present)
    }

    async fn begin_upload(self: &Rc<Self>, bucket: &str, key: &str, attributes: &Attributes) -> StoreResult<UploadId> {
        let id = self.next_number();
        let (bucket, key, attributes) = (bucket.to_owned(), key.to_owned(), attributes.clone());
        self.log(Class::User, id, Body::UploadBegin { bucket, key, attributes }).await?;
        Ok(UploadId(id))
    }

    fn parts_may_change(&self, id: UploadId) -> StoreResult<()> {
        self.require_whole(id)
    }

    async fn put_part(
        self: &Rc<Self>,
        (.., id): (String, String, UploadId),
        number: u32,
        attributes: Attributes,
        written: Written,
    ) -> StoreResult<ObjectInfo> {
        self.put_part_of(id, number, attributes, written).await
    }

    async fn complete(
        self: &Rc<Self>,
        of: (String, String, UploadId),
        attributes: Attributes,
        chosen: Chosen<BlobRef>,
    ) -> StoreResult<ObjectInfo> {
        self.make_of_parts(of, attributes, chosen).await
    }

    async fn end_upload(self: &Rc<Self>, (.., id): (String, String, UploadId)) -> Result<(), Failed> {
        self.log(Class::System, self.next_number(), Body::UploadEnd { upload: id.0 }).await
    }
}

impl Core {
    /// The version of a bucket's record; 0 if it has none.
    pub(crate) async fn bucket_version(&self, bucket: &str) -> StoreResult<u64> {
        let key = bucket.as_bytes().to_vec();
        let found = self.read(move |index| index.get(Space::Buckets, &key)).await?;
        let item = found.map(|bytes| Item::decode(&bytes).map_err(from_record)).transpose()?;
        Ok(item.map_or(0, |item| item.version))
    }
}
