//! The stores behind the one, and their buckets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::join_all;
use shingle_store_api::{BucketInfo, ObjectInfo, ObjectStore, StoreError, StoreErrorKind, StoreResult};
use tokio::sync::Mutex;

use crate::by_name::ByName;
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
    /// Spots being made, and whether they are noted: they may be there already, or will be.
    making: BTreeMap<Spot, bool>,
    /// Spots whose deletion or creation failed: their sites may have them or not. (PL-PLC-8, PL-PLC-9)
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
            self.add(name, Spot { site, bucket: bucket.clone() });
        }
        self.spots.retain(|_, spots| !spots.is_empty());
        self.unknown.remove(&site);
        self.in_doubt.retain(|spot| spot.site != site);
    }

    /// The bucket called `name` has this spot, once.
    fn add(&mut self, name: &str, spot: Spot) {
        self.in_doubt.remove(&spot);
        let spots = self.spots.entry(name.to_owned()).or_default();
        if !spots.contains(&spot) {
            spots.push(spot);
        }
        // A bucket whose home is not here is served from its guests.
        spots.sort_by_key(|spot| (!is_home(&spot.bucket), spot.site));
    }

    /// Another site than `site` that is home to a bucket of that name, or may be at any moment.
    fn other_home(&self, bucket: &str, site: usize) -> Option<usize> {
        let known = self.spots.get(bucket).into_iter().flatten();
        let mut homes = known.chain(self.making.keys()).filter(|spot| spot.bucket == bucket);
        homes.find(|spot| spot.site != site).map(|spot| spot.site)
    }
}

/// The error of making a bucket that is there.
pub(crate) fn bucket_exists(bucket: &str) -> StoreError {
    StoreError::new(StoreErrorKind::BucketExists, format!("there is a bucket `{bucket}`"))
}

fn is_home(bucket: &str) -> bool {
    !bucket.starts_with('/')
}

/// The sites and their buckets.
pub(crate) struct Shared {
    pub(crate) sites: Vec<Site>,
    buckets: RwLock<Buckets>,
    notes: Option<Arc<dyn Notes>>,
    /// Had while a bucket or a guest of it is made or deleted. One who has it takes no other.
    pub(crate) changing: ByName<Mutex<()>>,
    /// Had while a key is changed, [by its name](key_of). One who has it may take its bucket's.
    pub(crate) turns: ByName<Mutex<()>>,
    /// By bucket.
    pub(crate) moves: ByName<Moves>,
}

/// A spot that is being made.
struct Making<'a> {
    buckets: &'a RwLock<Buckets>,
    spot: &'a Spot,
}

impl Making<'_> {
    /// It is noted from now on.
    fn noted(&self) {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        buckets.making.insert(self.spot.clone(), true);
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.buckets.write().unwrap_or_else(PoisonError::into_inner).making.remove(self.spot);
    }
}

/// Name of a key's turn. A bucket's name has no zero byte.
pub(crate) fn key_of(bucket: &str, key: &str) -> String {
    [bucket, "\0", key].concat()
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
            changing: ByName::default(),
            turns: ByName::default(),
            moves: ByName::default(),
        }
    }

    /// Learns from `store` which buckets a site has, and forgets all that was known of it. Those that are noted and being made
    /// there are returned with them: they may be there in a moment.
    ///
    /// # Errors
    /// `Invalid` if another site is home to a bucket of the same name; the store's errors.
    pub(crate) async fn learn(&self, site: usize, store: &dyn ObjectStore) -> StoreResult<Vec<Noted>> {
        // Callers change nothing there meanwhile: the site does not serve yet.
        let mut found: Vec<_> =
            store.list_buckets().await?.into_iter().map(|info| (info.name, info.created_unix_s)).collect();
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        let name = |site: usize| self.sites.get(site).map_or("", |site| &site.name);
        for (bucket, _) in found.iter().filter(|(bucket, _)| is_home(bucket)) {
            if let Some(other) = buckets.other_home(bucket, site) {
                let (one, two) = (name(other.min(site)), name(other.max(site)));
                let message = format!(
                    "there is a bucket `{bucket}` on {one} and another one on {two}: serve one of the two without the \
                     other, and empty and delete the bucket there"
                );
                return Err(StoreError::new(StoreErrorKind::Invalid, message));
            }
        }
        buckets.set(site, &found);
        let making =
            buckets.making.iter().filter(|(spot, noted)| spot.site == site && **noted).map(|(spot, _)| &spot.bucket);
        let making: Vec<_> = making.filter(|bucket| found.iter().all(|(name, _)| name != *bucket)).cloned().collect();
        found.extend(making.into_iter().map(|bucket| (bucket, 0)));
        Ok(found.into_iter().map(|(bucket, created_unix_s)| Noted { bucket, created_unix_s }).collect())
    }

    /// Makes `spot` one of the bucket called `name`, and returns its attributes there. It is noted before it is made. (PL-PLC-6)
    pub(crate) async fn make(&self, name: &str, spot: &Spot) -> StoreResult<BucketInfo> {
        let making = self.begin_making(spot)?;
        let store = self.store(spot)?;
        // A site that does not answer gets no bucket, and must not be noted for one.
        let info = match store.bucket(&spot.bucket).await {
            Err(error) if error.kind == StoreErrorKind::NoSuchBucket => {
                if let (Some(notes), Some(site)) = (&self.notes, self.sites.get(spot.site)) {
                    notes.add(&site.name, &spot.bucket)?;
                    making.noted();
                }
                let made = match store.create_bucket(&spot.bucket).await {
                    // A call whose answer was lost has made it.
                    Err(error) if error.kind == StoreErrorKind::BucketExists => store.bucket(&spot.bucket).await,
                    made => made,
                };
                if made.is_err() {
                    self.may_be_there(name, spot);
                }
                made?
            }
            there => there?,
        };
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        buckets.add(name, spot.clone());
        if is_home(&spot.bucket) {
            buckets.created.insert(name.to_owned(), info.created_unix_s);
        }
        Ok(info)
    }

    /// The creation of a spot failed, and may have happened: it is one of the bucket called `name` until it is deleted. (PL-PLC-9)
    fn may_be_there(&self, name: &str, spot: &Spot) {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        buckets.add(name, spot.clone());
        buckets.in_doubt.insert(spot.clone());
    }

    /// From now on, until it is dropped, nobody else makes this spot, and no other site comes with a home of that name.
    fn begin_making<'a>(&'a self, spot: &'a Spot) -> StoreResult<Making<'a>> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if is_home(&spot.bucket) && buckets.spots.contains_key(&spot.bucket) {
            return Err(bucket_exists(&spot.bucket));
        }
        buckets.making.insert(spot.clone(), false);
        Ok(Making { buckets: &self.buckets, spot })
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
                buckets.created.remove(bucket);
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

    /// Fails if the home of a bucket with those spots is in doubt, and is not there. (PL-PLC-9)
    pub(crate) async fn has_home(&self, spots: &[Spot]) -> StoreResult<()> {
        match spots {
            [home, rest @ ..] if self.is_in_doubt(home) && (is_home(&home.bucket) || rest.is_empty()) => {
                self.store(home)?.bucket(&home.bucket).await.map(drop)
            }
            _ => Ok(()),
        }
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
        let _changing = self.changing.turn(bucket).await;
        let spots = self.spots(bucket)?;
        self.has_home(&spots).await?;
        let spot = match on(spots) {
            Some(spot) if !self.is_to_be_made(&spot) => return Ok(spot),
            Some(spot) => spot,
            None => Spot { site: target.unwrap_or(0), bucket: guest_of(bucket) },
        };
        self.make(bucket, &spot).await?;
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
