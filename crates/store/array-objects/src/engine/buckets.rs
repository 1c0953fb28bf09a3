//! Buckets.

use std::rc::Rc;

use bytes::Bytes;
use shingle_store_api::{BucketInfo, StoreError, StoreErrorKind, StoreResult};

use super::Core;
use crate::errors::from_array;
use crate::format::BucketRecord;
use crate::names;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

fn info(name: &str, created_unix_ns: u64) -> BucketInfo {
    BucketInfo { name: name.to_owned(), created_unix_s: created_unix_ns / SECOND, location: None }
}

impl Core {
    pub(crate) async fn create_bucket(self: &Rc<Self>, bucket: String) -> StoreResult<BucketInfo> {
        names::check(&bucket, "")?;
        let _gate = self.gates.exclusive(bucket.clone().into_bytes()).await;
        if self.buckets.borrow().contains_key(&bucket) {
            return Err(StoreError::new(StoreErrorKind::BucketExists, format!("there is a bucket `{bucket}`")));
        }
        let created_unix_ns = self.now_unix_ns();
        let record = BucketRecord { created_unix_ns }.encode();
        self.store.put(names::bucket(&bucket), Bytes::new(), record).await.map_err(from_array)?;
        self.buckets.borrow_mut().insert(bucket.clone(), created_unix_ns);
        Ok(info(&bucket, created_unix_ns))
    }

    pub(crate) async fn delete_bucket(self: &Rc<Self>, bucket: String) -> StoreResult<()> {
        let _gate = self.gates.exclusive(bucket.clone().into_bytes()).await;
        self.require_bucket(&bucket)?;
        for prefix in [names::object(&bucket, ""), names::uploads(&bucket, "")] {
            if !self.store.list(&prefix, None, 1).map_err(from_array)?.is_empty() {
                let message = format!("bucket `{bucket}` holds objects or uploads");
                return Err(StoreError::new(StoreErrorKind::BucketNotEmpty, message));
            }
        }
        self.store.delete(names::bucket(&bucket)).await.map_err(from_array)?;
        self.buckets.borrow_mut().remove(&bucket);
        Ok(())
    }

    pub(crate) fn bucket(&self, bucket: &str) -> StoreResult<BucketInfo> {
        Ok(info(bucket, self.require_bucket(bucket)?))
    }

    pub(crate) fn list_buckets(&self) -> Vec<BucketInfo> {
        self.buckets.borrow().iter().map(|(name, created)| info(name, *created)).collect()
    }
}
