//! The stores behind the one, and their buckets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::join_all;
use shingle_store_api::{BucketInfo, ObjectInfo, ObjectStore, StoreError, StoreErrorKind, StoreResult};
use tokio::sync::Mutex;

use crate::keys::KeyLocks;
use crate::moves::Moves;

/// The class of S3 that is never named.
pub(crate) const STANDARD: &str = "STANDARD";

/// A store and its names.
#[derive(Clone)]
pub struct Site {
    /// Name for `LocationConstraint` of a new bucket.
    pub name: String,
    /// Storage class of objects here; `None` = the standard one.
    pub class: Option<String>,
    /// The store.
    pub store: Arc<dyn ObjectStore>,
}

/// A memory of which site has which bucket, for the time in which a site cannot be asked. (PL-PLC-6)
pub trait Notes: Send + Sync {
    /// Notes durably that `site` may have `bucket` from now on.
    ///
    /// # Errors
    /// It cannot be noted: the bucket is not made then.
    fn add(&self, site: &str, bucket: &str) -> StoreResult<()>;

    /// Notes that `site` does not have `bucket` any more. A bucket that stays noted does no harm to others.
    fn remove(&self, site: &str, bucket: &str);
}

/// A bucket that was noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Its name on the site.
    pub bucket: String,
    /// When it was created, in seconds since 1970.
    pub created_unix_s: u64,
}

/// A bucket's name on a site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) site: usize,
    pub(crate) bucket: String,
}

/// Known buckets.
#[derive(Default)]
struct Buckets {
    /// Spots of each bucket; its home first.
    spots: BTreeMap<String, Vec<Spot>>,
    /// Creation times of noted buckets, in seconds since 1970.
    created: BTreeMap<String, u64>,
    /// Sites whose buckets are not known yet: they could have any. (PL-PLC-6)
    unknown: BTreeSet<usize>,
    /// Spots whose deletion failed: their sites may have them or not. (PL-PLC-8)
    in_doubt: BTreeSet<Spot>,
}

impl Buckets {
    /// Replaces all that was known of `site` by `found`.
    fn set(&mut self, site: usize, found: &[(String, u64)]) {
        for spots in self.spots.values_mut() {
            spots.retain(|spot| spot.site != site);
        }
        for (bucket, created_unix_s) in found {
            let name = bucket.strip_prefix('/').unwrap_or(bucket);
            if is_home(bucket) {
                self.created.insert(name.to_owned(), *created_unix_s);
            }
            let spots = self.spots.entry(name.to_owned()).or_default();
            spots.push(Spot { site, bucket: bucket.clone() });
            // A bucket whose home is not here is served from its guests.
            spots.sort_by_key(|spot| (!is_home(&spot.bucket), spot.site));
        }
        self.spots.retain(|_, spots| !spots.is_empty());
        self.unknown.remove(&site);
        self.in_doubt.retain(|spot| spot.site != site);
    }
}

fn is_home(bucket: &str) -> bool {
    !bucket.starts_with('/')
}

/// The sites and their buckets.
pub(crate) struct Shared {
    pub(crate) sites: Vec<Site>,
    buckets: RwLock<Buckets>,
    notes: Option<Arc<dyn Notes>>,
    /// Held while a bucket or a guest is made or deleted.
    pub(crate) changing: Mutex<()>,
    pub(crate) turns: KeyLocks,
    pub(crate) moves: Moves,
}

/// Name of the guest of `bucket`.
pub(crate) fn guest_of(bucket: &str) -> String {
    format!("/{bucket}")
}

/// Turns "not there" into `None`.
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
    /// The sites, of which nothing is known yet but the `noted` buckets.
    pub(crate) fn new(sites: Vec<Site>, noted: Vec<Option<Vec<Noted>>>, notes: Option<Arc<dyn Notes>>) -> Self {
        let mut buckets = Buckets { unknown: (0..sites.len()).collect(), ..Buckets::default() };
        for (site, noted) in noted.into_iter().enumerate() {
            let Some(noted) = noted else { continue };
            let found: Vec<_> = noted.into_iter().map(|noted| (noted.bucket, noted.created_unix_s)).collect();
            buckets.set(site, &found);
        }
        Self {
            sites,
            buckets: RwLock::new(buckets),
            notes,
            changing: Mutex::default(),
            turns: KeyLocks::default(),
            moves: Moves::default(),
        }
    }

    /// Learns from `store` which buckets a site has, and forgets all that was known of it.
    ///
    /// # Errors
    /// `Invalid` if another site is home to a bucket of the same name; the store's errors.
    pub(crate) async fn learn(&self, site: usize, store: &dyn ObjectStore) -> StoreResult<Vec<Noted>> {
        let _changing = self.changing.lock().await;
        let found: Vec<_> =
            store.list_buckets().await?.into_iter().map(|info| (info.name, info.created_unix_s)).collect();
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        let name = |site: usize| self.sites.get(site).map_or("", |site| &site.name);
        for (bucket, _) in found.iter().filter(|(bucket, _)| is_home(bucket)) {
            let home = buckets.spots.get(bucket).and_then(|spots| spots.first()).filter(|spot| is_home(&spot.bucket));
            if let Some(other) = home.filter(|spot| spot.site != site) {
                let (one, two) = (name(other.site.min(site)), name(other.site.max(site)));
                let message = format!(
                    "there is a bucket `{bucket}` on {one} and another one on {two}: serve one of the two without the \
                     other, and empty and delete the bucket there"
                );
                return Err(StoreError::new(StoreErrorKind::Invalid, message));
            }
        }
        buckets.set(site, &found);
        Ok(found.into_iter().map(|(bucket, created_unix_s)| Noted { bucket, created_unix_s }).collect())
    }

    /// Makes `bucket` on a site, and returns its attributes there. It is noted before it is made. (PL-PLC-6)
    pub(crate) async fn make(&self, spot: &Spot) -> StoreResult<BucketInfo> {
        let store = self.store(spot)?;
        // A site that does not answer gets no bucket, and must not be noted for one.
        match store.bucket(&spot.bucket).await {
            Err(error) if error.kind == StoreErrorKind::NoSuchBucket => {}
            there => return there,
        }
        if let (Some(notes), Some(site)) = (&self.notes, self.sites.get(spot.site)) {
            notes.add(&site.name, &spot.bucket)?;
        }
        store.create_bucket(&spot.bucket).await
    }

    /// When a bucket was created, as far as that was noted.
    pub(crate) fn created_unix_s(&self, bucket: &str) -> u64 {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        buckets.created.get(bucket).copied().unwrap_or_default()
    }

    pub(crate) fn store(&self, spot: &Spot) -> StoreResult<&Arc<dyn ObjectStore>> {
        let site = self.sites.get(spot.site);
        site.map(|site| &site.store).ok_or_else(|| StoreError::no_bucket(&spot.bucket))
    }

    pub(crate) fn class(&self, spot: &Spot) -> Option<String> {
        self.sites.get(spot.site).and_then(|site| site.class.clone())
    }

    /// Spots of a bucket, its home first.
    ///
    /// # Errors
    /// `NoSuchBucket`; `Unavailable` while a site whose buckets are unknown could have it.
    pub(crate) fn spots(&self, bucket: &str) -> StoreResult<Vec<Spot>> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        self.all_known(&buckets)?;
        buckets.spots.get(bucket).cloned().ok_or_else(|| StoreError::no_bucket(bucket))
    }

    pub(crate) fn all(&self) -> StoreResult<Vec<(String, Vec<Spot>)>> {
        let buckets = self.buckets.read().unwrap_or_else(PoisonError::into_inner);
        self.all_known(&buckets)?;
        Ok(buckets.spots.iter().map(|(name, spots)| (name.clone(), spots.clone())).collect())
    }

    /// Refuses while a site is unknown. (PL-PLC-6)
    fn all_known(&self, buckets: &Buckets) -> StoreResult<()> {
        let Some(site) = buckets.unknown.first().and_then(|&site| self.sites.get(site)) else { return Ok(()) };
        let message =
            format!("it is not known yet which buckets are on {}: it has not been open here so far", site.name);
        Err(StoreError::new(StoreErrorKind::Unavailable, message))
    }

    pub(crate) fn add(&self, bucket: &str, spot: Spot) {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        buckets.in_doubt.remove(&spot);
        let spots = buckets.spots.entry(bucket.to_owned()).or_default();
        if !spots.contains(&spot) {
            spots.push(spot);
        }
    }

    pub(crate) fn remove(&self, bucket: &str, spot: &Spot) {
        if let (Some(notes), Some(site)) = (&self.notes, self.sites.get(spot.site)) {
            notes.remove(&site.name, &spot.bucket);
        }
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        buckets.in_doubt.remove(spot);
        if let Some(spots) = buckets.spots.get_mut(bucket) {
            spots.retain(|other| other != spot);
            if spots.is_empty() {
                buckets.spots.remove(bucket);
            }
        }
    }

    /// The deletion of a spot failed, and may have happened.
    pub(crate) fn doubt(&self, spot: &Spot) {
        self.buckets.write().unwrap_or_else(PoisonError::into_inner).in_doubt.insert(spot.clone());
    }

    pub(crate) fn is_in_doubt(&self, spot: &Spot) -> bool {
        self.buckets.read().unwrap_or_else(PoisonError::into_inner).in_doubt.contains(spot)
    }

    /// True of a guest that is to be made before it is written to. A home is made by those who make the bucket.
    pub(crate) fn is_to_be_made(&self, spot: &Spot) -> bool {
        !is_home(&spot.bucket) && self.is_in_doubt(spot)
    }

    /// Spot for new objects of `bucket` on site `target`, or on its home; makes a guest there if need be.
    pub(crate) async fn spot_for(&self, bucket: &str, target: Option<usize>) -> StoreResult<Spot> {
        let on = |spots: Vec<Spot>| match target {
            None => spots.into_iter().next(),
            Some(target) => spots.into_iter().find(|spot| spot.site == target),
        };
        if let Some(spot) = on(self.spots(bucket)?).filter(|spot| !self.is_to_be_made(spot)) {
            return Ok(spot);
        }
        let _changing = self.changing.lock().await;
        let spot = match on(self.spots(bucket)?) {
            Some(spot) if !self.is_to_be_made(&spot) => return Ok(spot),
            Some(spot) => spot,
            None => Spot { site: target.unwrap_or(0), bucket: guest_of(bucket) },
        };
        match self.make(&spot).await {
            Ok(_) => {}
            Err(error) if error.kind == StoreErrorKind::BucketExists => {}
            Err(error) => return Err(error),
        }
        self.add(bucket, spot.clone());
        Ok(spot)
    }

    /// The objects of that `key` on those spots; the last one is the one that everyone sees (PL-PLC-2).
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
