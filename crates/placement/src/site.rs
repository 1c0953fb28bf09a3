//! The stores behind the one, and which of them has what of a bucket.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::join_all;
use shingle_store_api::{ObjectInfo, ObjectStore, StoreError, StoreErrorKind, StoreResult};
use tokio::sync::Mutex;

use crate::keys::Turns;
use crate::moves::Moves;

/// The class of S3 that is never named.
pub(crate) const STANDARD: &str = "STANDARD";

/// A store, and what it is called.
#[derive(Clone)]
pub struct Site {
    /// The name that buckets ask for it by.
    pub name: String,
    /// The storage class that objects ask for it by; `None` is the standard one.
    pub class: Option<String>,
    /// The store.
    pub store: Arc<dyn ObjectStore>,
}

/// What a bucket is called on a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) site: usize,
    pub(crate) bucket: String,
}

/// The sites and their buckets.
pub(crate) struct Shared {
    pub(crate) sites: Vec<Site>,
    /// Where each bucket is; its home first.
    buckets: RwLock<BTreeMap<String, Vec<Spot>>>,
    /// Held by whoever makes or deletes a bucket or a guest.
    pub(crate) changing: Mutex<()>,
    pub(crate) turns: Turns,
    pub(crate) moves: Moves,
}

/// What a guest of `bucket` is called.
pub(crate) fn guest_of(bucket: &str) -> String {
    format!("/{bucket}")
}

/// What is not there is no error.
pub(crate) fn if_there<T>(result: StoreResult<T>) -> StoreResult<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error)
            if matches!(
                error.kind,
                StoreErrorKind::NoSuchKey | StoreErrorKind::NoSuchBucket | StoreErrorKind::NoSuchUpload
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Shared {
    /// Learns where the buckets are.
    ///
    /// # Errors
    /// `Invalid` if two sites are home to buckets of one name; the sites'.
    pub(crate) async fn open(sites: Vec<Site>) -> StoreResult<Self> {
        let mut buckets: BTreeMap<String, Vec<Spot>> = BTreeMap::new();
        for (site, Site { name, store, .. }) in sites.iter().enumerate() {
            for found in store.list_buckets().await? {
                let guest = found.name.strip_prefix('/');
                let spots = buckets.entry(guest.unwrap_or(&found.name).to_owned()).or_default();
                if guest.is_none()
                    && let Some(other) = spots.first().filter(|spot| !spot.bucket.starts_with('/'))
                {
                    let other = sites.get(other.site).map_or("", |site| &site.name);
                    let message = format!(
                        "there is a bucket `{}` on {other} and another one on {name}: serve one of the two without the \
                         other, and empty and delete the bucket there",
                        found.name
                    );
                    return Err(StoreError::new(StoreErrorKind::Invalid, message));
                }
                // Where its home is not here, the bucket is served from its guests.
                let at = if guest.is_none() { 0 } else { spots.len() };
                spots.insert(at, Spot { site, bucket: found.name });
            }
        }
        Ok(Self {
            sites,
            buckets: RwLock::new(buckets),
            changing: Mutex::default(),
            turns: Turns::default(),
            moves: Moves::default(),
        })
    }

    pub(crate) fn store(&self, spot: &Spot) -> StoreResult<&Arc<dyn ObjectStore>> {
        let site = self.sites.get(spot.site);
        site.map(|site| &site.store).ok_or_else(|| StoreError::no_bucket(&spot.bucket))
    }

    pub(crate) fn class(&self, spot: &Spot) -> Option<String> {
        self.sites.get(spot.site).and_then(|site| site.class.clone())
    }

    /// Where a bucket is, its home first.
    pub(crate) fn spots(&self, bucket: &str) -> StoreResult<Vec<Spot>> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        buckets.get(bucket).cloned().ok_or_else(|| StoreError::no_bucket(bucket))
    }

    pub(crate) fn all(&self) -> Vec<(String, Vec<Spot>)> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        buckets.iter().map(|(name, spots)| (name.clone(), spots.clone())).collect()
    }

    pub(crate) fn add(&self, bucket: &str, spot: Spot) {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        buckets.entry(bucket.to_owned()).or_default().push(spot);
    }

    pub(crate) fn remove(&self, bucket: &str, spot: &Spot) {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(spots) = buckets.get_mut(bucket) {
            spots.retain(|other| other != spot);
            if spots.is_empty() {
                buckets.remove(bucket);
            }
        }
    }

    /// Where objects of `bucket` that are to go to `target` are written; makes a guest there if need be.
    pub(crate) async fn spot_for(&self, bucket: &str, target: Option<usize>) -> StoreResult<Spot> {
        let on = |spots: Vec<Spot>| match target {
            None => spots.into_iter().next(),
            Some(target) => spots.into_iter().find(|spot| spot.site == target),
        };
        if let Some(spot) = on(self.spots(bucket)?) {
            return Ok(spot);
        }
        let _changing = self.changing.lock().await;
        if let Some(spot) = on(self.spots(bucket)?) {
            return Ok(spot);
        }
        let spot = Spot { site: target.unwrap_or(0), bucket: guest_of(bucket) };
        match self.store(&spot)?.create_bucket(&spot.bucket).await {
            Ok(_) => {}
            Err(error) if error.kind == StoreErrorKind::BucketExists => {}
            Err(error) => return Err(error),
        }
        self.add(bucket, spot.clone());
        Ok(spot)
    }

    /// The objects that `key` is on those spots, the one that everyone sees last (PLC-2).
    pub(crate) async fn found(&self, spots: &[Spot], key: &str) -> StoreResult<Vec<(Spot, ObjectInfo)>> {
        let heads = spots.iter().map(|spot| async move { self.store(spot)?.head(&spot.bucket, key).await });
        let mut found = Vec::new();
        for (spot, result) in spots.iter().zip(join_all(heads).await) {
            found.extend(if_there(result)?.map(|info| (spot.clone(), info)));
        }
        found.sort_by_key(|(spot, info)| (info.modified_unix_ns, spot.site));
        Ok(found)
    }
}
