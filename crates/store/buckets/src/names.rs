//! The buckets that there are, and the order of calls that concern the same name.
//!
//! # Invariants
//! - BK-LOCK-1: locks are taken in the order bucket, key, upload, part, so that no two calls wait for each other.
//! - BK-LOCK-2: a bucket that was found under its gate stays until the gate is let go.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

use shingle_runtime::locks::{Guard, Locks};
use shingle_store_api::{BucketInfo, StoreError, StoreErrorKind, StoreResult, UploadId};

use crate::known::Buckets;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Buckets, and locks of buckets, keys and uploads.
#[derive(Default)]
pub struct Names {
    buckets: Buckets,
    /// Buckets that are not there, whose deletion or creation failed and may have happened. (BK-GONE-1)
    in_doubt: RefCell<BTreeSet<String>>,
    /// Uploads in progress whose abort failed and may have happened. (BK-END-1)
    ending: RefCell<BTreeSet<u64>>,
    /// Held shared by those who write to a bucket, exclusively by those who create or delete it.
    gates: Rc<Locks>,
    /// Held by those who change a key.
    keys: Rc<Locks>,
    /// Held shared by those who commit a part, exclusively by those who end the upload; a part's own key by those who commit that part.
    uploads: Rc<Locks>,
}

pub(crate) fn bucket_info(name: &str, created_unix_ns: u64) -> BucketInfo {
    BucketInfo { name: name.to_owned(), created_unix_s: created_unix_ns / SECOND, location: None }
}

impl Names {
    /// With the buckets that were found at opening, and when each was created.
    pub fn new(buckets: BTreeMap<String, u64>) -> Self {
        Self { buckets: Buckets::new(buckets), ..Self::default() }
    }

    /// The buckets, for callers on other threads.
    pub fn buckets(&self) -> Buckets {
        self.buckets.clone()
    }

    /// When the bucket was created, in nanoseconds since 1970. It stays until its gate is let go. (BK-LOCK-2)
    ///
    /// # Errors
    /// `NoSuchBucket`.
    pub fn require(&self, bucket: &str) -> StoreResult<u64> {
        self.buckets.look().get(bucket).copied().ok_or_else(|| StoreError::no_bucket(bucket))
    }

    /// As [`Names::require`], also of a bucket whose deletion or creation may have happened.
    pub(crate) fn require_or_in_doubt(&self, bucket: &str) -> StoreResult<()> {
        if self.in_doubt.borrow().contains(bucket) { Ok(()) } else { self.require(bucket).map(drop) }
    }

    /// Fails if there is such a bucket.
    ///
    /// # Errors
    /// `BucketExists`.
    pub(crate) fn require_none(&self, bucket: &str) -> StoreResult<()> {
        if self.buckets.has(bucket) {
            return Err(StoreError::new(StoreErrorKind::BucketExists, format!("there is a bucket `{bucket}`")));
        }
        Ok(())
    }

    /// All buckets, by name.
    pub fn all(&self) -> Vec<BucketInfo> {
        self.buckets.look().iter().map(|(name, created)| bucket_info(name, *created)).collect()
    }

    /// Name of the first bucket behind a name, or of the first of all.
    pub fn next(&self, behind: Option<&str>) -> Option<String> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        self.buckets.look().range::<str, _>((from, Bound::Unbounded)).next().map(|(name, _)| name.clone())
    }

    /// All buckets and when they were created, for one who takes them over.
    pub fn into_buckets(self) -> BTreeMap<String, u64> {
        self.buckets.take()
    }

    /// The bucket is there from now on.
    pub fn add(&self, bucket: &str, created_unix_ns: u64) {
        self.in_doubt.borrow_mut().remove(bucket);
        self.buckets.change().insert(bucket.to_owned(), created_unix_ns);
    }

    /// The bucket is gone.
    pub(crate) fn remove(&self, bucket: &str) {
        self.in_doubt.borrow_mut().remove(bucket);
        self.buckets.change().remove(bucket);
    }

    /// The bucket may be gone or there: it is not there until it is made anew. (BK-GONE-1)
    pub(crate) fn doubt(&self, bucket: &str) {
        self.in_doubt.borrow_mut().insert(bucket.to_owned());
        self.buckets.change().remove(bucket);
    }

    /// The abort of an upload may have happened. (BK-END-1)
    pub(crate) fn may_have_ended(&self, id: UploadId) {
        self.ending.borrow_mut().insert(id.0);
    }

    /// The upload has ended.
    pub(crate) fn ended(&self, id: UploadId) {
        self.ending.borrow_mut().remove(&id.0);
    }

    /// Fails if the upload may have ended. (BK-END-1)
    pub(crate) fn require_unended(&self, id: UploadId) -> StoreResult<()> {
        if !self.ending.borrow().contains(&id.0) {
            return Ok(());
        }
        let message =
            "the store failed while this upload was being aborted: abort it again, or complete it without this part";
        Err(StoreError::new(StoreErrorKind::Device, message))
    }

    /// The gate of a bucket that is made or deleted.
    pub async fn bucket(&self, bucket: &str) -> Guard {
        self.gates.exclusive(bucket.as_bytes().to_vec()).await
    }

    /// The gate of a bucket that is written to, if it is there.
    pub(crate) async fn inside(&self, bucket: &str) -> StoreResult<Guard> {
        let gate = self.gates.shared(bucket.as_bytes().to_vec()).await;
        self.require(bucket)?;
        Ok(gate)
    }

    /// The turn of a call that changes a key.
    pub async fn key(&self, bucket: &str, key: &str) -> Guard {
        // A bucket's name has no zero byte.
        self.keys.exclusive([bucket.as_bytes(), b"\0", key.as_bytes()].concat()).await
    }

    /// The turn of a call that ends an upload.
    pub async fn upload(&self, id: UploadId) -> Guard {
        self.uploads.exclusive(id.0.to_be_bytes().to_vec()).await
    }

    /// The turn of a call that commits a part: parts of other numbers are committed at the same time.
    pub(crate) async fn part(&self, id: UploadId, number: u32) -> (Guard, Guard) {
        let upload = self.uploads.shared(id.0.to_be_bytes().to_vec()).await;
        // No key of an upload is as long as a part's.
        let part = [&id.0.to_be_bytes()[..], &number.to_be_bytes()].concat();
        (upload, self.uploads.exclusive(part).await)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use shingle_runtime::real;

    use super::*;

    /// BK-LOCK-1: calls of all kinds for the same names end, however they meet.
    #[test]
    fn calls_that_take_locks_in_order_do_not_wait_for_each_other() {
        let run = real::run(|runtime| async move {
            let names = Rc::new(Names::new(BTreeMap::from([("b".to_owned(), 0)])));
            let id = UploadId(7);
            let tasks: Vec<_> = (0..60u64)
                .map(|number| {
                    let (names, runtime) = (names.clone(), runtime.clone());
                    let work = runtime.clone();
                    work.spawn(async move {
                        for _ in 0..runtime.random() % 5 {
                            runtime.yield_now().await;
                        }
                        if number % 4 == 0 {
                            let _gate = names.bucket("b").await;
                            runtime.yield_now().await;
                        } else if number % 4 == 1 {
                            let _gate = names.inside("b").await.unwrap();
                            let _turn = names.key("b", "k").await;
                            let _end = names.upload(id).await;
                            runtime.yield_now().await;
                        } else if number % 4 == 2 {
                            let _gate = names.inside("b").await.unwrap();
                            let _turn = names.key("b", "k").await;
                            runtime.yield_now().await;
                        } else {
                            let _turns = names.part(id, (number % 8) as u32).await;
                            runtime.yield_now().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
        run.unwrap();
    }

    #[test]
    fn a_bucket_stays_while_somebody_is_inside() {
        let run = real::run(|runtime| async move {
            let names = Rc::new(Names::new(BTreeMap::from([("b".to_owned(), 5_000_000_000)])));
            let deleted = Rc::new(Cell::new(false));
            let gate = names.inside("b").await.unwrap();
            let (other, done) = (names.clone(), deleted.clone());
            let deleting = runtime.spawn(async move {
                let _gate = other.bucket("b").await;
                other.remove("b");
                done.set(true);
            });
            for _ in 0..10 {
                runtime.yield_now().await;
                // (BK-LOCK-2)
                assert!(!deleted.get() && names.require("b").is_ok());
            }
            drop(gate);
            deleting.await.unwrap();
            assert!(names.inside("b").await.is_err() && names.all().is_empty());
        });
        run.unwrap();
    }
}
