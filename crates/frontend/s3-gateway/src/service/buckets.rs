//! Buckets.

use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};

use super::{Service, owner};
use crate::errors;
use crate::headers::timestamp_s;
use crate::options::PAGE_MAX;
use shingle_store_api::{SiteName, StoreErrorKind};

/// The region that `GetBucketLocation` does not name, and in which one's own bucket may be made again, for reasons of S3's history.
const REGION_UNNAMED: &str = "us-east-1";

impl Service {
    pub(super) async fn create_bucket(&self, request: S3Request<CreateBucketInput>) -> S3Result<CreateBucketOutput> {
        let input = request.input;
        if input.object_lock_enabled_for_bucket == Some(true) {
            return Err(s3_error!(NotImplemented, "object lock is not served"));
        }
        // One that was made before this rule can still be used.
        if input.bucket.contains(".-") || input.bucket.contains("-.") {
            return Err(s3_error!(InvalidBucketName, "The specified bucket is not valid: it has a '-' beside a '.'."));
        }
        let asked = input.create_bucket_configuration.and_then(|configuration| configuration.location_constraint);
        let store = match asked.as_ref().map(BucketLocationConstraint::as_str) {
            None | Some("") => self.store.clone(),
            Some(region) if region == self.region => self.store.clone(),
            Some(place) => self.store.at(SiteName::Location(place)).ok_or_else(|| {
                let ours = &self.region;
                s3_error!(
                    IllegalLocationConstraintException,
                    "the location constraint {place} is neither this server's region, {ours}, nor one of its arrays"
                )
            })?,
        };
        match store.create_bucket(&input.bucket).await {
            // As S3 does in this region.
            Err(error) if error.kind == StoreErrorKind::BucketExists && self.region == REGION_UNNAMED => {}
            made => drop(made.map_err(errors::of_store)?),
        }
        Ok(CreateBucketOutput { location: Some(format!("/{}", input.bucket)) })
    }

    pub(super) async fn delete_bucket(&self, request: S3Request<DeleteBucketInput>) -> S3Result<DeleteBucketOutput> {
        self.store.delete_bucket(&request.input.bucket).await.map_err(errors::of_store)?;
        Ok(DeleteBucketOutput::default())
    }

    pub(super) async fn head_bucket(&self, request: S3Request<HeadBucketInput>) -> S3Result<HeadBucketOutput> {
        self.store.bucket(&request.input.bucket).await.map_err(errors::of_store)?;
        Ok(HeadBucketOutput { bucket_region: Some(self.region.clone()), ..HeadBucketOutput::default() })
    }

    pub(super) async fn get_bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> S3Result<GetBucketLocationOutput> {
        let bucket = self.store.bucket(&request.input.bucket).await.map_err(errors::of_store)?;
        let region = (self.region != REGION_UNNAMED).then(|| self.region.clone());
        let named = bucket.location.or(region);
        Ok(GetBucketLocationOutput { location_constraint: named.map(BucketLocationConstraint::from) })
    }

    pub(super) async fn list_buckets(&self, request: S3Request<ListBucketsInput>) -> S3Result<ListBucketsOutput> {
        let input = request.input;
        let prefix = input.prefix.clone().unwrap_or_default();
        let limit = match input.max_buckets {
            None => usize::MAX,
            Some(given) => usize::try_from(given)
                .ok()
                .filter(|limit| (1..=10 * PAGE_MAX).contains(limit))
                .ok_or_else(|| s3_error!(InvalidArgument, "max-buckets must be 1 to 10000"))?,
        };
        let after = input.continuation_token.unwrap_or_default();
        let mut found = self.store.list_buckets().await.map_err(errors::of_store)?;
        found.retain(|bucket| bucket.name.starts_with(&prefix) && bucket.name > after);
        let more = found.len() > limit;
        found.truncate(limit);
        let next = more.then(|| found.last().map(|bucket| bucket.name.clone())).flatten();
        let buckets = found.into_iter().map(|bucket| Bucket {
            bucket_region: Some(self.region.clone()),
            creation_date: Some(timestamp_s(bucket.created_unix_s)),
            name: Some(bucket.name),
        });
        Ok(ListBucketsOutput {
            buckets: Some(buckets.collect()),
            continuation_token: next,
            owner: Some(owner()),
            prefix: input.prefix,
        })
    }
}
