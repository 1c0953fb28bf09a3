//! A store as front ends see it: every call goes to the owner, where [`calls`](crate::calls) does it.

use std::future::ready;
use std::rc::Rc;

use shingle_store_api::{
    BucketInfo, Commit, CompletedPart, Condition, ListRequest, Listing, Metadata, ObjectInfo, ObjectReader,
    ObjectStore, ObjectWriter, PartInfo, StoreFuture, StoreUsage, UploadId, UploadInfo, UploadListing,
};

use crate::calls::{self, Target};
use crate::catalog::{Catalog, Client};
use crate::entrance::Door;
use crate::writer::Writer;

fn names(bucket: &str, key: &str) -> (String, String) {
    (bucket.to_owned(), key.to_owned())
}

fn of(bucket: &str, key: &str, id: UploadId) -> calls::Of {
    (bucket.to_owned(), key.to_owned(), id)
}

impl<C: Catalog> ObjectStore for Client<C> {
    fn create_bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let bucket = bucket.to_owned();
        Box::pin(self.door.write(|core| calls::create_bucket(core, bucket)))
    }

    fn delete_bucket(&self, bucket: &str) -> StoreFuture<'_, ()> {
        let bucket = bucket.to_owned();
        Box::pin(self.door.remove(|core| calls::delete_bucket(core, bucket)))
    }

    fn bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let bucket = bucket.to_owned();
        Box::pin(self.door.read(|core| calls::bucket(core, bucket)))
    }

    fn list_buckets(&self) -> StoreFuture<'_, Vec<BucketInfo>> {
        Box::pin(self.door.read(calls::list_buckets))
    }

    fn begin_put(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let target = Target { bucket: bucket.to_owned(), key: key.to_owned(), part: None };
        if let Some(begun) = calls::begin_put_here(self, bucket, key) {
            return Box::pin(ready(Ok(Writer::boxed(self.clone(), target, begun))));
        }
        let (bucket, key) = names(bucket, key);
        let beginning = self.door.read(|core| calls::begin_put(core, bucket, key));
        Box::pin(async move { Ok(Writer::boxed(self.clone(), target, beginning.await?)) })
    }

    fn head(&self, bucket: &str, key: &str) -> StoreFuture<'_, ObjectInfo> {
        if let Some(info) = C::head_here(self, bucket, key) {
            return Box::pin(ready(Ok(info)));
        }
        let (bucket, key) = names(bucket, key);
        Box::pin(self.door.read(|core| calls::head(core, bucket, key)))
    }

    fn open(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectReader>> {
        if let Some(reader) = C::open_here(self, bucket, key) {
            return Box::pin(ready(Ok(Box::new(reader) as Box<dyn ObjectReader>)));
        }
        let (bucket, key) = names(bucket, key);
        let client = self.clone();
        // The reader is made there, so that what is open is let go even if the caller has gone away.
        let opening = self.door.read(|core: Rc<C>| async move { core.open(client, bucket, key).await });
        Box::pin(async move { Ok(Box::new(opening.await?) as Box<dyn ObjectReader>) })
    }

    fn delete_if(&self, bucket: &str, key: &str, condition: Condition) -> StoreFuture<'_, bool> {
        let names = names(bucket, key);
        let (bucket, key) = names.clone();
        let deleting = self.door.remove(|core| calls::delete(core, bucket, key, condition));
        Box::pin(async move { deleting.await.map_err(|error| error.about(&names.0, &names.1)) })
    }

    /// The objects of a listing carry no part sizes; [`ObjectStore::head`] gives them.
    fn list(&self, bucket: &str, request: ListRequest) -> StoreFuture<'_, Listing> {
        let bucket = bucket.to_owned();
        Box::pin(self.door.read(|core| calls::list(core, bucket, request)))
    }

    fn begin_upload(&self, bucket: &str, key: &str, metadata: Metadata) -> StoreFuture<'_, UploadInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(self.door.write(|core| calls::begin_upload(core, bucket, key, metadata)))
    }

    fn begin_part(&self, bucket: &str, key: &str, id: UploadId, number: u32) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let of = of(bucket, key, id);
        let target = Target { bucket: of.0.clone(), key: of.1.clone(), part: Some((id, number)) };
        let beginning = self.door.read(move |core| calls::begin_part(core, of, number));
        Box::pin(async move { Ok(Writer::boxed(self.clone(), target, beginning.await?)) })
    }

    fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, UploadInfo> {
        let of = of(bucket, key, id);
        Box::pin(self.door.read(|core| calls::upload(core, of)))
    }

    fn list_parts(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        after: u32,
        limit: usize,
    ) -> StoreFuture<'_, (Vec<PartInfo>, bool)> {
        let of = of(bucket, key, id);
        Box::pin(self.door.read(move |core| calls::list_parts(core, of, after, limit)))
    }

    fn list_uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> StoreFuture<'_, UploadListing> {
        let names = names(bucket, prefix);
        Box::pin(self.door.read(move |core| calls::list_uploads(core, names, after, limit)))
    }

    fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        parts: Vec<CompletedPart>,
        commit: Commit,
    ) -> StoreFuture<'_, ObjectInfo> {
        let of = of(bucket, key, id);
        let names = names(bucket, key);
        let completing = self.door.write(|core| calls::complete_upload(core, of, parts, commit));
        Box::pin(async move { completing.await.map_err(|error| error.about(&names.0, &names.1)) })
    }

    fn abort_upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, ()> {
        let of = of(bucket, key, id);
        Box::pin(self.door.remove(|core| calls::abort_upload(core, of)))
    }

    fn usage(&self) -> StoreFuture<'_, StoreUsage> {
        Box::pin(self.door.read(|core: Rc<C>| async move { core.usage().await }))
    }
}
