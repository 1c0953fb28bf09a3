//! Buckets.

use std::rc::Rc;

use shingle_store_api::{BucketInfo, StoreError, StoreErrorKind, StoreResult};

use crate::drives::Class;
use crate::engine::{Core, check_names};
use crate::errors::{from_record, invalid};
use crate::files::Log;
use crate::format::{Body, Entry, Sealed};
use crate::index::{Space, scan_prefix};
use crate::indexer::Command;
use crate::keys;
use crate::records::Item;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

impl Core {
    /// Appends an entry without data, and brings it into the index.
    pub(crate) async fn log(self: &Rc<Self>, class: Class, version: u64, body: Body) -> StoreResult<()> {
        self.log_all(class, vec![(version, body)]).await
    }

    /// As [`Core::log`], for entries that belong together.
    pub(crate) async fn log_all(self: &Rc<Self>, class: Class, entries: Vec<(u64, Body)>) -> StoreResult<()> {
        let sealed = entries
            .into_iter()
            .map(|(version, body)| Sealed::new(Entry { version, body }, Vec::new()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| invalid(error.to_string()))?;
        self.write(class, sealed).await
    }

    /// Appends entries and brings them into the index.
    pub(crate) async fn write(self: &Rc<Self>, class: Class, sealed: Vec<Sealed>) -> StoreResult<()> {
        let appended = self.append(Log::Clients, class, &sealed).await?;
        let commands = sealed.into_iter().zip(appended.locations).map(|(sealed, location)| Command::Entry {
            version: sealed.entry.version,
            body: sealed.entry.body,
            location,
        });
        self.submit_entries(commands.collect(), vec![appended.settle]).await?;
        Ok(())
    }

    pub(crate) async fn create_bucket(self: &Rc<Self>, bucket: String) -> StoreResult<BucketInfo> {
        self.working()?;
        check_names(&bucket, "")?;
        // Before the gate, too: whoever waits for it holds up all who come later, and itself waits for every write under way.
        self.require_no_bucket(&bucket)?;
        let _gate = self.gates.exclusive(bucket.clone().into_bytes()).await;
        self.require_no_bucket(&bucket)?;
        let created_unix_ns = self.now_unix_ns();
        let body = Body::BucketCreate { bucket: bucket.clone(), created_unix_ns };
        self.log(Class::System, self.next_number(), body).await?;
        self.buckets.borrow_mut().insert(bucket.clone(), created_unix_ns);
        Ok(BucketInfo { name: bucket, created_unix_s: created_unix_ns / SECOND, location: None })
    }

    /// The version of a bucket's record; 0 if it has none.
    pub(crate) async fn bucket_version(&self, bucket: &str) -> StoreResult<u64> {
        let key = bucket.as_bytes().to_vec();
        let found = self.read(move |index| index.get(Space::Buckets, &key)).await?;
        let item = found.map(|bytes| Item::decode(&bytes).map_err(from_record)).transpose()?;
        Ok(item.map_or(0, |item| item.version))
    }

    fn require_no_bucket(&self, bucket: &str) -> StoreResult<()> {
        if self.buckets.borrow().contains_key(bucket) {
            return Err(StoreError::new(StoreErrorKind::BucketExists, format!("there is a bucket `{bucket}`")));
        }
        Ok(())
    }

    /// That the bucket is there and holds nothing.
    async fn require_empty(&self, bucket: &str) -> StoreResult<()> {
        self.require_bucket(bucket)?;
        let prefix = keys::object(bucket, "");
        let used = self
            .read(move |index| {
                let mut used = false;
                for space in [Space::Objects, Space::UploadNames] {
                    scan_prefix(index, space, &prefix, &mut |_, _| {
                        used = true;
                        false
                    })?;
                }
                Ok(used)
            })
            .await?;
        if used {
            let message = format!("bucket `{bucket}` holds objects or uploads");
            return Err(StoreError::new(StoreErrorKind::BucketNotEmpty, message));
        }
        Ok(())
    }

    pub(crate) async fn delete_bucket(self: &Rc<Self>, bucket: String) -> StoreResult<()> {
        self.working()?;
        // Before the gate, too, as when one is created.
        self.require_empty(&bucket).await?;
        let _gate = self.gates.exclusive(bucket.clone().into_bytes()).await;
        self.require_empty(&bucket).await?;
        let deleted = self.log(Class::System, self.next_number(), Body::BucketDelete { bucket: bucket.clone() }).await;
        // Where that failed it may have landed. Nothing more is written to the bucket then, for the next start may find that
        // it is gone; whoever wants it creates it anew.
        if !deleted.as_ref().is_err_and(|error| error.kind == StoreErrorKind::NoSpace) {
            self.buckets.borrow_mut().remove(&bucket);
        }
        deleted
    }

    pub(crate) fn bucket(&self, bucket: &str) -> StoreResult<BucketInfo> {
        self.working()?;
        let created = self.buckets.borrow().get(bucket).copied().ok_or_else(|| StoreError::no_bucket(bucket))?;
        Ok(BucketInfo { name: bucket.to_owned(), created_unix_s: created / SECOND, location: None })
    }

    pub(crate) fn list_buckets(&self) -> StoreResult<Vec<BucketInfo>> {
        self.working()?;
        let buckets = self.buckets.borrow();
        let info = |(name, created): (&String, &u64)| BucketInfo {
            name: name.clone(),
            created_unix_s: created / SECOND,
            location: None,
        };
        Ok(buckets.iter().map(info).collect())
    }
}
