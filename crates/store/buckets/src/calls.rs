//! The calls of an object store, on the owner's side: the rules that hold in every store.
//!
//! # Invariants
//! - BK-COND-1: a condition holds of the version that a change replaces: nobody changes the key between the look and the change.
//! - BK-PART-1: of the parts that were sent for one number the last that is acknowledged is the part: one is committed at a time.
//! - BK-BEGIN-1: a put begins on its caller's thread only under names that the store takes, in a bucket that is there at some moment of the
//!   call; the commit looks for the bucket again, behind its gate. `a_put_begins_without_the_owner_only_where_it_may`.
//! - BK-GONE-1: a bucket whose deletion may have happened takes no more writes. It can be deleted again, and is gone for good if that succeeds.
//!   A deletion that failed before anything was written changes nothing. A bucket whose creation may have happened can be deleted, too.
//! - BK-END-1: an upload whose abort may have happened takes no more parts: they would go with it. It can be aborted again, or completed.

use std::rc::Rc;

use shingle_store_api::{
    BucketInfo, Commit, CompletedPart, Condition, ListRequest, Listing, Metadata, ObjectInfo, PartInfo, StoreError,
    StoreErrorKind, StoreResult, UploadId, UploadInfo, UploadListing,
};

use crate::attributes::Attributes;
use crate::catalog::{Catalog, Client};
use crate::names::bucket_info;
use crate::parts::{check_number, choose};

/// An object or part that is being written.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Its bucket.
    pub(crate) bucket: String,
    /// Its key.
    pub(crate) key: String,
    /// The part's upload and number.
    pub(crate) part: Option<(UploadId, u32)>,
}

impl Target {
    /// An error of writing it.
    pub(crate) fn about(&self, error: StoreError) -> StoreError {
        error.about(&self.bucket, &self.key)
    }
}

/// A key and the upload of it.
pub(crate) type Of = (String, String, UploadId);

pub(crate) async fn create_bucket<C: Catalog>(core: Rc<C>, bucket: String) -> StoreResult<BucketInfo> {
    core.working()?;
    C::LIMITS.check_bucket(&bucket)?;
    // Before the gate, too: a call that waits for it holds up all later ones, and itself waits for every write under way.
    core.names().require_none(&bucket)?;
    let _gate = core.names().bucket(&bucket).await;
    core.names().require_none(&bucket)?;
    let created_unix_ns = core.now_unix_ns();
    if let Err(failed) = core.make_bucket(&bucket, created_unix_ns).await {
        // The next start may find it, and a client that does not want it deletes it. (BK-GONE-1)
        if failed.may_have_happened {
            core.names().doubt(&bucket);
        }
        return Err(failed.error);
    }
    core.names().add(&bucket, created_unix_ns);
    Ok(bucket_info(&bucket, created_unix_ns))
}

async fn require_empty<C: Catalog>(core: &Rc<C>, bucket: &str) -> StoreResult<()> {
    core.names().require_or_in_doubt(bucket)?;
    if core.is_empty(bucket).await? {
        return Ok(());
    }
    let message = format!("bucket `{bucket}` holds objects or uploads");
    Err(StoreError::new(StoreErrorKind::BucketNotEmpty, message))
}

pub(crate) async fn delete_bucket<C: Catalog>(core: Rc<C>, bucket: String) -> StoreResult<()> {
    core.working()?;
    // Before the gate, too, as when one is created.
    require_empty(&core, &bucket).await?;
    let _gate = core.names().bucket(&bucket).await;
    require_empty(&core, &bucket).await?;
    match core.drop_bucket(&bucket).await {
        Ok(()) => core.names().remove(&bucket),
        Err(failed) => {
            // The next start may find that it is gone. Nothing more is written to it; it can be created anew. (BK-GONE-1)
            if failed.may_have_happened {
                core.names().doubt(&bucket);
            }
            return Err(failed.error);
        }
    }
    Ok(())
}

pub(crate) async fn bucket<C: Catalog>(core: Rc<C>, bucket: String) -> StoreResult<BucketInfo> {
    core.working()?;
    Ok(bucket_info(&bucket, core.names().require(&bucket)?))
}

pub(crate) async fn list_buckets<C: Catalog>(core: Rc<C>) -> StoreResult<Vec<BucketInfo>> {
    core.working()?;
    Ok(core.names().all())
}

pub(crate) async fn begin_put<C: Catalog>(core: Rc<C>, bucket: String, key: String) -> StoreResult<C::Begun> {
    core.working()?;
    C::LIMITS.check(&bucket, &key)?;
    core.names().require(&bucket)?;
    core.begin().await
}

/// The same on the caller's thread, where nothing is in the way; else the owner has the error. (BK-BEGIN-1)
pub(crate) fn begin_put_here<C: Catalog>(client: &Client<C>, bucket: &str, key: &str) -> Option<C::Begun> {
    let sure = C::buckets_here(client)?.has(bucket) && C::LIMITS.check(bucket, key).is_ok();
    sure.then(|| C::begin_here(client))?
}

/// Makes what a writer has written what it was begun as.
pub(crate) async fn commit<C: Catalog>(
    core: Rc<C>,
    target: Target,
    written: C::Written,
    commit: Commit,
) -> StoreResult<ObjectInfo> {
    let Target { bucket, key, part } = target;
    match part {
        None => commit_put(&core, bucket, key, written, commit).await,
        Some((id, number)) => commit_part(&core, (bucket, key, id), number, written, commit).await,
    }
}

async fn commit_put<C: Catalog>(
    core: &Rc<C>,
    bucket: String,
    key: String,
    written: C::Written,
    commit: Commit,
) -> StoreResult<ObjectInfo> {
    core.working()?;
    let mut attributes = Attributes { modified_unix_ns: 0, etag: commit.etag, metadata: commit.metadata };
    attributes.check()?;
    let _gate = core.names().inside(&bucket).await?;
    let _turn = core.names().key(&bucket, &key).await;
    check_condition(core, &bucket, &key, &commit.condition).await?;
    // In its turn: versions and times of a key rise together.
    attributes.modified_unix_ns = core.now_unix_ns();
    core.put(bucket, key, attributes, written).await
}

/// Fails unless `condition` holds of the present version. It does until the key's turn is over. (BK-COND-1)
async fn check_condition<C: Catalog>(core: &Rc<C>, bucket: &str, key: &str, condition: &Condition) -> StoreResult<()> {
    if *condition == Condition::default() {
        return Ok(());
    }
    let present = core.object(bucket, key, false).await?;
    condition.check(present.as_ref().map(|present| present.etag.as_str()))
}

pub(crate) async fn head<C: Catalog>(core: Rc<C>, bucket: String, key: String) -> StoreResult<ObjectInfo> {
    core.working()?;
    core.names().require(&bucket)?;
    core.object(&bucket, &key, true).await?.ok_or_else(|| StoreError::no_key(&bucket, &key))
}

pub(crate) async fn delete<C: Catalog>(
    core: Rc<C>,
    bucket: String,
    key: String,
    condition: Condition,
) -> StoreResult<bool> {
    core.working()?;
    let _gate = core.names().inside(&bucket).await?;
    let _turn = core.names().key(&bucket, &key).await;
    check_condition(&core, &bucket, &key, &condition).await?;
    core.remove(bucket, key).await
}

/// A page of a bucket's keys, as [`ObjectStore::list`](shingle_store_api::ObjectStore::list) gives it.
///
/// # Errors
/// `NoSuchBucket`; the catalog's.
pub async fn list<C: Catalog>(core: Rc<C>, bucket: String, request: ListRequest) -> StoreResult<Listing> {
    core.working()?;
    core.names().require(&bucket)?;
    core.page(bucket, request).await
}

fn upload_info(key: String, id: UploadId, attributes: Attributes) -> UploadInfo {
    let Attributes { modified_unix_ns, metadata, .. } = attributes;
    UploadInfo { id, key, initiated_unix_ns: modified_unix_ns, metadata, class: None }
}

pub(crate) async fn begin_upload<C: Catalog>(
    core: Rc<C>,
    bucket: String,
    key: String,
    metadata: Metadata,
) -> StoreResult<UploadInfo> {
    core.working()?;
    C::LIMITS.check(&bucket, &key)?;
    let attributes = Attributes { modified_unix_ns: core.now_unix_ns(), etag: String::new(), metadata };
    attributes.check()?;
    let _gate = core.names().inside(&bucket).await?;
    let id = core.begin_upload(&bucket, &key, &attributes).await?;
    Ok(upload_info(key, id, attributes))
}

/// The upload, if it is of this key.
async fn require_upload<C: Catalog>(core: &Rc<C>, (bucket, key, id): &Of) -> StoreResult<Attributes> {
    core.names().require(bucket)?;
    core.upload(bucket, key, *id).await?.ok_or_else(|| StoreError::no_upload(*id))
}

pub(crate) async fn upload<C: Catalog>(core: Rc<C>, of: Of) -> StoreResult<UploadInfo> {
    core.working()?;
    let attributes = require_upload(&core, &of).await?;
    Ok(upload_info(of.1, of.2, attributes))
}

pub(crate) async fn begin_part<C: Catalog>(core: Rc<C>, of: Of, number: u32) -> StoreResult<C::Begun> {
    core.working()?;
    check_number(number)?;
    require_upload(&core, &of).await?;
    core.begin().await
}

async fn commit_part<C: Catalog>(
    core: &Rc<C>,
    of: Of,
    number: u32,
    written: C::Written,
    commit: Commit,
) -> StoreResult<ObjectInfo> {
    core.working()?;
    let mut attributes = Attributes { modified_unix_ns: 0, etag: commit.etag, metadata: commit.metadata };
    attributes.check()?;
    // (BK-PART-1)
    let _turn = core.names().part(of.2, number).await;
    require_upload(core, &of).await?;
    core.names().require_unended(of.2)?;
    core.parts_may_change(of.2)?;
    attributes.modified_unix_ns = core.now_unix_ns();
    core.put_part(of, number, attributes, written).await
}

pub(crate) async fn list_parts<C: Catalog>(
    core: Rc<C>,
    of: Of,
    after: u32,
    limit: usize,
) -> StoreResult<(Vec<PartInfo>, bool)> {
    core.working()?;
    require_upload(&core, &of).await?;
    let found = core.parts(of.2, after, limit.saturating_add(1)).await?;
    let more = found.len() > limit;
    Ok((found.into_iter().take(limit).map(|part| part.info()).collect(), more))
}

pub(crate) async fn list_uploads<C: Catalog>(
    core: Rc<C>,
    (bucket, prefix): (String, String),
    after: Option<(String, Option<UploadId>)>,
    limit: usize,
) -> StoreResult<UploadListing> {
    core.working()?;
    core.names().require(&bucket)?;
    // After the key alone means after all its uploads.
    let after = after.map(|(key, id)| (key, id.unwrap_or(UploadId(u64::MAX))));
    core.uploads(&bucket, &prefix, after, limit).await
}

/// Makes the named parts the object.
pub(crate) async fn complete_upload<C: Catalog>(
    core: Rc<C>,
    of: Of,
    wanted: Vec<CompletedPart>,
    commit: Commit,
) -> StoreResult<ObjectInfo> {
    core.working()?;
    CompletedPart::check(&wanted)?;
    let (bucket, key, id) = (&of.0, &of.1, of.2);
    let _gate = core.names().inside(bucket).await?;
    let _turn = core.names().key(bucket, key).await;
    let _end = core.names().upload(id).await;
    let mut metadata = require_upload(&core, &of).await?.metadata;
    let chosen = choose(core.parts(id, 0, usize::MAX).await?, &wanted, core.part_bytes_min())?;
    check_condition(&core, bucket, key, &commit.condition).await?;
    metadata.extend(commit.metadata);
    let attributes = Attributes { modified_unix_ns: core.now_unix_ns(), etag: commit.etag, metadata };
    attributes.check()?;
    let info = core.complete(of, attributes, chosen).await?;
    core.names().ended(id);
    Ok(info)
}

pub(crate) async fn abort_upload<C: Catalog>(core: Rc<C>, of: Of) -> StoreResult<()> {
    core.working()?;
    let _end = core.names().upload(of.2).await;
    require_upload(&core, &of).await?;
    core.parts_may_change(of.2)?;
    let id = of.2;
    match core.end_upload(of).await {
        Ok(()) => core.names().ended(id),
        Err(failed) => {
            // The next start may find that it has ended. (BK-END-1)
            if failed.may_have_happened {
                core.names().may_have_ended(id);
            }
            return Err(failed.error);
        }
    }
    Ok(())
}
