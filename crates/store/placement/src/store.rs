//! Several sites as one store.

use std::sync::Arc;

use futures_util::future::{join_all, try_join_all};
use shingle_store_api::{
    BucketInfo, Commit, CompletedPart, Condition, ListRequest, Listing, Metadata, ObjectInfo, ObjectReader,
    ObjectStore, ObjectWriter, PartInfo, SiteName, StoreError, StoreErrorKind, StoreFuture, StoreResult, StoreUsage,
    UploadId, UploadInfo, UploadListing,
};

use crate::merge;
use crate::site::{Noted, Notes, STANDARD, Shared, Site, Spot, bucket_exists, if_there, key_of};
use crate::whole::{if_soon, to_the_end};
use crate::writer::{Reader, Writer};

/// Lookups of an object that moves from site to site meanwhile.
const LOOKS: usize = 16;

/// Several stores as one. Cheap to clone.
#[derive(Clone)]
pub struct Placement {
    pub(crate) shared: Arc<Shared>,
    /// Site for new buckets and objects; `None`: an object goes to its bucket's home, a new bucket to the first site.
    target: Option<usize>,
}

impl Placement {
    /// One store out of `sites`. The first is the home of new buckets unless a request names another.
    ///
    /// # Errors
    /// `Invalid` if two sites have buckets of one name; the sites' errors.
    pub async fn open(sites: Vec<Site>) -> StoreResult<Self> {
        let stores: Vec<_> = sites.iter().map(|site| site.store.clone()).collect();
        let all = Self::begin(sites, Vec::new(), None);
        for (site, store) in stores.iter().enumerate() {
            all.learn(site, &**store).await?;
        }
        Ok(all)
    }

    /// As [`Placement::open`], of sites that need not answer yet: the `noted` buckets of each count as its buckets, and
    /// nothing is served before each site was either noted or [learned](Self::learn). (PL-PLC-6)
    pub fn begin(sites: Vec<Site>, noted: Vec<Option<Vec<Noted>>>, notes: Option<Arc<dyn Notes>>) -> Self {
        Self { shared: Arc::new(Shared::new(sites, noted, notes)), target: None }
    }

    /// Learns which buckets a site has from its `store`, which may not yet serve callers; returns them.
    ///
    /// # Errors
    /// `Invalid` if another site is home to a bucket of the same name: then this site must not be served; the store's
    /// errors.
    pub async fn learn(&self, site: usize, store: &dyn ObjectStore) -> StoreResult<Vec<Noted>> {
        self.shared.learn(site, store).await
    }

    fn info(&self, spot: &Spot, mut info: ObjectInfo) -> ObjectInfo {
        info.class = self.shared.class(spot);
        info
    }

    fn bucket_info(&self, bucket: &str, spot: &Spot, info: BucketInfo) -> BucketInfo {
        let site = self.shared.sites.get(spot.site).filter(|_| spot.site > 0);
        BucketInfo { name: bucket.to_owned(), location: site.map(|site| site.name.clone()), ..info }
    }

    async fn make_bucket(&self, bucket: String) -> StoreResult<BucketInfo> {
        // Before its turn: one that is there may be waiting for a silent site.
        let in_doubt = |spots: Vec<Spot>| spots.first().is_some_and(|home| self.shared.is_in_doubt(home));
        if !self.shared.spots(&bucket).is_ok_and(in_doubt) {
            self.is_new(&bucket)?;
        }
        let _changing = self.shared.changing.turn(&bucket).await;
        match self.shared.spots(&bucket) {
            Ok(spots) if self.is_half_deleted(&spots).await? => self.remove_spots(&bucket, &spots).await?,
            _ => self.is_new(&bucket)?,
        }
        if bucket.starts_with('/') {
            return Err(StoreError::new(StoreErrorKind::Invalid, "a bucket's name does not begin with a slash"));
        }
        let spot = Spot { site: self.target.unwrap_or(0), bucket: bucket.clone() };
        let info = self.shared.make(&bucket, &spot).await?;
        Ok(self.bucket_info(&bucket, &spot, info))
    }

    /// Refuses a bucket that is there.
    fn is_new(&self, bucket: &str) -> StoreResult<()> {
        match self.shared.spots(bucket) {
            Ok(_) => Err(bucket_exists(bucket)),
            Err(error) if error.kind == StoreErrorKind::NoSuchBucket => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn remove_bucket(&self, bucket: String) -> StoreResult<()> {
        let _changing = self.shared.changing.turn(&bucket).await;
        let spots = self.shared.spots(&bucket)?;
        self.remove_spots(&bucket, &spots).await
    }

    async fn remove_spots(&self, bucket: &str, spots: &[Spot]) -> StoreResult<()> {
        // Guests go first: the rest of a bucket is never without a home.
        for spot in spots.iter().rev() {
            match self.shared.store(spot)?.delete_bucket(&spot.bucket).await {
                Ok(()) => self.shared.remove(bucket, spot),
                // It went when it was deleted before, although that failed.
                Err(error) if error.kind == StoreErrorKind::NoSuchBucket => self.shared.remove(bucket, spot),
                Err(error) if error.kind == StoreErrorKind::BucketNotEmpty => {
                    let message = format!("bucket `{bucket}` holds objects or uploads");
                    return Err(StoreError::new(StoreErrorKind::BucketNotEmpty, message));
                }
                Err(error) => {
                    self.shared.doubt(spot);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// True of a bucket whose deletion or creation failed, and whose home is not there: it is made anew once all that may be left of it is gone.
    /// (PL-PLC-8, PL-PLC-9)
    async fn is_half_deleted(&self, spots: &[Spot]) -> StoreResult<bool> {
        let Some(home) = spots.first().filter(|home| self.shared.is_in_doubt(home)) else { return Ok(false) };
        Ok(if_there(self.shared.store(home)?.bucket(&home.bucket).await)?.is_none())
    }

    /// Spots of a bucket that is there.
    async fn spots_there(&self, bucket: &str) -> StoreResult<Vec<Spot>> {
        let spots = self.shared.spots(bucket)?;
        self.shared.has_home(&spots).await?;
        Ok(spots)
    }

    /// The object that everyone sees, and its spot.
    async fn seen(&self, bucket: &str, key: &str) -> StoreResult<(Spot, ObjectInfo)> {
        let spots = self.spots_there(bucket).await?;
        let mut found = self.shared.found(&spots, key).await?.pop();
        // It may have moved behind the search, or to a site that the bucket was not on then.
        if found.is_none() && self.shared.spots(bucket)?.len() > 1 {
            let _turn = self.shared.turns.turn(&key_of(bucket, key)).await;
            found = self.shared.found(&self.shared.spots(bucket)?, key).await?.pop();
        }
        let (spot, info) = found.ok_or_else(|| StoreError::no_key(bucket, key))?;
        let info = self.info(&spot, info);
        Ok((spot, info))
    }

    async fn open_seen(&self, bucket: String, key: String) -> StoreResult<Box<dyn ObjectReader>> {
        for _ in 0..LOOKS {
            let spots = self.spots_there(&bucket).await?;
            let spot = match spots.as_slice() {
                [only] => only.clone(),
                _ => self.seen(&bucket, &key).await?.0,
            };
            let opened = if_there(self.shared.store(&spot)?.open(&spot.bucket, &key).await)?;
            if let Some(inner) = opened {
                let info = self.info(&spot, inner.info().clone());
                return Ok(Box::new(Reader { info, inner }));
            }
            if spots.len() == 1 && self.shared.spots(&bucket)?.len() == 1 {
                return Err(StoreError::no_key(&bucket, &key));
            }
            // It moved to another site since.
        }
        Err(StoreError::new(StoreErrorKind::Busy, format!("`{key}` is replaced too often to be read")))
    }

    /// Spot for this store's new objects of a bucket.
    async fn spot(&self, bucket: &str) -> StoreResult<Spot> {
        let (shared, bucket, target) = (self.shared.clone(), bucket.to_owned(), self.target);
        to_the_end(async move { shared.spot_for(&bucket, target).await }).await
    }

    async fn begin_at_spot(&self, bucket: String, key: String) -> StoreResult<Box<dyn ObjectWriter>> {
        let spot = self.spot(&bucket).await?;
        let inner = self.shared.store(&spot)?.begin_put(&spot.bucket, &key).await?;
        Ok(Box::new(Writer { shared: self.shared.clone(), spot, bucket, key, inner }))
    }

    async fn remove(&self, bucket: String, key: String, condition: Condition) -> StoreResult<bool> {
        let _turn = self.shared.turns.turn(&key_of(&bucket, &key)).await;
        let spots = self.shared.spots(&bucket)?;
        if let [only] = spots.as_slice() {
            return self.shared.store(only)?.delete_if(&only.bucket, &key, condition).await;
        }
        let found = self.shared.found(&spots, &key).await?;
        condition.check(found.last().map(|(_, info)| info.etag.as_str()))?;
        // Also where nothing was found: a put that failed there may have landed, unseen until that site's next start. (PL-PLC-7)
        let without = spots.iter().filter(|spot| found.iter().all(|(with, _)| with != *spot));
        // The object that everyone sees goes last: no older one comes back.
        let mut any = false;
        for spot in without.chain(found.iter().map(|(spot, _)| spot)) {
            any |= if_there(self.shared.store(spot)?.delete(&spot.bucket, &key).await)?.unwrap_or(false);
        }
        Ok(any)
    }

    /// A listing that no key moved through. (PL-PLC-4)
    async fn list_all(&self, bucket: String, request: ListRequest) -> StoreResult<Listing> {
        let moves = self.shared.moves.of(&bucket);
        let before = moves.begun();
        let listing = self.list_once(&bucket, &request).await?;
        if moves.begun() == before {
            return Ok(listing);
        }
        let _paused = moves.pause().await;
        self.list_once(&bucket, &request).await
    }

    async fn list_once(&self, bucket: &str, request: &ListRequest) -> StoreResult<Listing> {
        let spots = self.spots_there(bucket).await?;
        let pages = spots.iter().map(|spot| {
            let request = request.clone();
            async move {
                let page = if_there(self.shared.store(spot)?.list(&spot.bucket, request).await)?;
                let mut page = page.unwrap_or_default();
                page.objects.iter_mut().for_each(|object| object.class = self.shared.class(spot));
                Ok::<_, StoreError>(page)
            }
        });
        let mut pages = try_join_all(pages).await?;
        if pages.len() == 1 {
            return pages.pop().ok_or_else(|| StoreError::no_bucket(bucket));
        }
        Ok(merge::listings(pages, request.limit))
    }

    /// An upload, and its spot.
    async fn find_upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreResult<(Spot, UploadInfo)> {
        for spot in self.shared.spots(bucket)? {
            if let Some(mut info) = if_there(self.shared.store(&spot)?.upload(&spot.bucket, key, id).await)? {
                info.class = self.shared.class(&spot);
                return Ok((spot, info));
            }
        }
        Err(StoreError::no_upload(id))
    }

    async fn list_all_uploads(
        &self,
        bucket: String,
        prefix: String,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> StoreResult<UploadListing> {
        let spots = self.spots_there(&bucket).await?;
        let (prefix, after) = (&prefix, &after);
        let pages = spots.iter().map(|spot| async move {
            let page = self.shared.store(spot)?.list_uploads(&spot.bucket, prefix, after.clone(), limit).await;
            let mut page = if_there(page)?.unwrap_or_default();
            page.uploads.iter_mut().for_each(|upload| upload.class = self.shared.class(spot));
            Ok::<_, StoreError>(page)
        });
        Ok(merge::uploads(try_join_all(pages).await?, limit))
    }
}

fn names(bucket: &str, key: &str) -> (String, String) {
    (bucket.to_owned(), key.to_owned())
}

impl ObjectStore for Placement {
    fn create_bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let (all, bucket) = (self.clone(), bucket.to_owned());
        Box::pin(to_the_end(async move { all.make_bucket(bucket).await }))
    }

    fn delete_bucket(&self, bucket: &str) -> StoreFuture<'_, ()> {
        let (all, bucket) = (self.clone(), bucket.to_owned());
        Box::pin(to_the_end(async move { all.remove_bucket(bucket).await }))
    }

    fn bucket(&self, bucket: &str) -> StoreFuture<'_, BucketInfo> {
        let bucket = bucket.to_owned();
        Box::pin(async move {
            let spot = self.shared.spots(&bucket)?.into_iter().next().ok_or_else(|| StoreError::no_bucket(&bucket))?;
            let info = self.shared.store(&spot)?.bucket(&spot.bucket).await?;
            Ok(self.bucket_info(&bucket, &spot, info))
        })
    }

    fn list_buckets(&self) -> StoreFuture<'_, Vec<BucketInfo>> {
        Box::pin(async move {
            let all = self.shared.all()?;
            let homes = all.iter().filter_map(|(bucket, spots)| Some((bucket, spots.first()?)));
            let asked = homes.map(|(bucket, spot)| async move {
                // Those deleted meanwhile are left out; of a site that cannot be asked they are told as they are known.
                let info = match if_there(if_soon(self.shared.store(spot)?.bucket(&spot.bucket)).await) {
                    Err(error) if error.kind == StoreErrorKind::Unavailable => {
                        let created_unix_s = self.shared.created_unix_s(bucket);
                        Some(BucketInfo { name: bucket.clone(), created_unix_s, location: None })
                    }
                    answered => answered?,
                };
                Ok::<_, StoreError>(info.map(|info| self.bucket_info(bucket, spot, info)))
            });
            let found = join_all(asked).await.into_iter().collect::<StoreResult<Vec<_>>>()?;
            Ok(found.into_iter().flatten().collect())
        })
    }

    fn begin_put(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let (bucket, key) = names(bucket, key);
        Box::pin(self.begin_at_spot(bucket, key))
    }

    fn head(&self, bucket: &str, key: &str) -> StoreFuture<'_, ObjectInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move { Ok(self.seen(&bucket, &key).await?.1) })
    }

    fn open(&self, bucket: &str, key: &str) -> StoreFuture<'_, Box<dyn ObjectReader>> {
        let (bucket, key) = names(bucket, key);
        Box::pin(self.open_seen(bucket, key))
    }

    fn delete_if(&self, bucket: &str, key: &str, condition: Condition) -> StoreFuture<'_, bool> {
        let (bucket, key) = names(bucket, key);
        let all = self.clone();
        Box::pin(to_the_end(async move { all.remove(bucket, key, condition).await }))
    }

    fn list(&self, bucket: &str, request: ListRequest) -> StoreFuture<'_, Listing> {
        Box::pin(self.list_all(bucket.to_owned(), request))
    }

    fn begin_upload(&self, bucket: &str, key: &str, metadata: Metadata) -> StoreFuture<'_, UploadInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let spot = self.spot(&bucket).await?;
            let mut info = self.shared.store(&spot)?.begin_upload(&spot.bucket, &key, metadata).await?;
            info.class = self.shared.class(&spot);
            Ok(info)
        })
    }

    fn begin_part(&self, bucket: &str, key: &str, id: UploadId, number: u32) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let (spot, _) = self.find_upload(&bucket, &key, id).await?;
            self.shared.store(&spot)?.begin_part(&spot.bucket, &key, id, number).await
        })
    }

    fn upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, UploadInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move { Ok(self.find_upload(&bucket, &key, id).await?.1) })
    }

    fn list_parts(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        after: u32,
        limit: usize,
    ) -> StoreFuture<'_, (Vec<PartInfo>, bool)> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let (spot, _) = self.find_upload(&bucket, &key, id).await?;
            self.shared.store(&spot)?.list_parts(&spot.bucket, &key, id, after, limit).await
        })
    }

    fn list_uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> StoreFuture<'_, UploadListing> {
        let (bucket, prefix) = names(bucket, prefix);
        Box::pin(self.list_all_uploads(bucket, prefix, after, limit))
    }

    fn complete_upload(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        parts: Vec<CompletedPart>,
        commit: Commit,
    ) -> StoreFuture<'_, ObjectInfo> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let (spot, _) = self.find_upload(&bucket, &key, id).await?;
            let store = self.shared.store(&spot)?.clone();
            let (of, object) = (spot.bucket.clone(), key.clone());
            let complete = move |commit| -> StoreFuture<'static, ObjectInfo> {
                Box::pin(async move { store.complete_upload(&of, &object, id, parts, commit).await })
            };
            let shared = self.shared.clone();
            to_the_end(async move { shared.commit(&spot, &bucket, &key, commit, complete).await }).await
        })
    }

    fn abort_upload(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, ()> {
        let (bucket, key) = names(bucket, key);
        Box::pin(async move {
            let (spot, _) = self.find_upload(&bucket, &key, id).await?;
            self.shared.store(&spot)?.abort_upload(&spot.bucket, &key, id).await
        })
    }

    /// `STANDARD` is the class of the site that has no other, or else of the first.
    fn at(&self, name: SiteName<'_>) -> Option<Arc<dyn ObjectStore>> {
        let sites = &self.shared.sites;
        let at = match name {
            SiteName::Location(location) => sites.iter().position(|site| site.name == location)?,
            SiteName::Class(STANDARD) => sites.iter().position(|site| site.class.is_none()).unwrap_or(0),
            SiteName::Class(class) => sites.iter().position(|site| site.class.as_deref() == Some(class))?,
        };
        Some(Arc::new(Self { shared: self.shared.clone(), target: Some(at) }))
    }

    fn usage(&self) -> StoreFuture<'_, StoreUsage> {
        Box::pin(async move {
            let mut sum = StoreUsage::default();
            for usage in try_join_all(self.shared.sites.iter().map(|site| site.store.usage())).await? {
                sum.capacity_bytes += usage.capacity_bytes;
                sum.available_bytes += usage.available_bytes;
                sum.live_bytes += usage.live_bytes;
                sum.objects += usage.objects;
            }
            Ok(sum)
        })
    }
}
