//! S3's operations on a store. Each group has its file; this one only hands over.
//!
//! Operations that are not here answer `NotImplemented`, by `s3s`.

mod acl;
mod buckets;
mod copy;
mod delete;
mod listing;
mod read;
mod unset;
mod uploads;
mod write;

use std::sync::Arc;

use s3s::dto::*;
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use shingle_store_api::{Condition, ObjectStore, SiteName, StoreError, StoreErrorKind};

use crate::errors;
use crate::md5::Company;
use crate::options::Limits;

/// The owner in listings: the one owner of the keys.
pub(crate) const OWNER: &str = "shingle";

/// The operations.
pub(crate) struct Service {
    store: Arc<dyn ObjectStore>,
    region: String,
    limits: Limits,
    md5: Arc<Company>,
}

impl Service {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, region: String, limits: Limits) -> Self {
        Self { store, region, limits, md5: Arc::default() }
    }
}

impl Service {
    /// The store as it writes objects of that class.
    ///
    /// # Errors
    /// `InvalidStorageClass` if the store has no such class.
    fn of_class(&self, class: Option<&StorageClass>) -> S3Result<Arc<dyn ObjectStore>> {
        let Some(class) = class.map(StorageClass::as_str).filter(|class| !class.is_empty()) else {
            return Ok(self.store.clone());
        };
        match self.store.at(SiteName::Class(class)) {
            Some(store) => Ok(store),
            None if class == StorageClass::STANDARD => Ok(self.store.clone()),
            None => Err(s3_error!(InvalidStorageClass, "there is no storage class {class} on this server")),
        }
    }
}

impl Service {
    /// The error of a write whose condition did not hold: S3 says of an object that should have an ETag, and is not there,
    /// that it is not.
    async fn unmet(&self, error: StoreError, must_exist: bool, bucket: &str, key: &str) -> S3Error {
        if must_exist && error.kind == StoreErrorKind::PreconditionFailed {
            let found = self.store.head(bucket, key).await;
            if let Err(missing) = found.map_err(errors::of_store)
                && missing.code() == &S3ErrorCode::NoSuchKey
            {
                return missing;
            }
        }
        errors::of_store(error)
    }
}

/// A class as answers name it.
fn class_name(class: Option<&String>) -> StorageClass {
    class.cloned().map_or_else(|| StorageClass::from_static(StorageClass::STANDARD), StorageClass::from)
}

fn owner() -> Owner {
    Owner { display_name: Some(OWNER.to_owned()), id: Some(OWNER.to_owned()) }
}

/// Condition of a write, from its headers.
///
/// # Errors
/// `NotImplemented` for `If-None-Match` with an ETag, which S3 does not have either.
fn write_condition(if_match: Option<&IfMatch>, if_none_match: Option<&IfNoneMatch>) -> S3Result<Condition> {
    if if_none_match.is_some_and(|condition| !condition.is_any()) {
        return Err(s3_error!(NotImplemented, "If-None-Match of a write can only be *"));
    }
    let etag = if_match.map(|condition| condition.as_etag().map_or("*", ETag::value).to_owned());
    Ok(Condition { absent: if_none_match.is_some(), etag })
}

/// Nothing is versioned: this is the version of every object.
const ONLY_VERSION: &str = "null";

fn only_version(version: Option<&str>) -> S3Result<()> {
    match version {
        None | Some(ONLY_VERSION | "") => Ok(()),
        Some(version) => Err(s3_error!(NoSuchVersion, "objects have no versions, so none is {version}")),
    }
}

type Answer<T> = S3Result<S3Response<T>>;

macro_rules! operations {
    ($($name:ident: $input:ty => $output:ty;)*) => {
        #[async_trait::async_trait]
        impl S3 for Service {
            $(async fn $name(&self, request: S3Request<$input>) -> Answer<$output> {
                self.$name(request).await.map(S3Response::new)
            })*
        }
    };
}

operations! {
    create_bucket: CreateBucketInput => CreateBucketOutput;
    delete_bucket: DeleteBucketInput => DeleteBucketOutput;
    head_bucket: HeadBucketInput => HeadBucketOutput;
    list_buckets: ListBucketsInput => ListBucketsOutput;
    get_bucket_location: GetBucketLocationInput => GetBucketLocationOutput;

    put_object: PutObjectInput => PutObjectOutput;
    copy_object: CopyObjectInput => CopyObjectOutput;
    get_object: GetObjectInput => GetObjectOutput;
    head_object: HeadObjectInput => HeadObjectOutput;
    get_object_attributes: GetObjectAttributesInput => GetObjectAttributesOutput;
    delete_object: DeleteObjectInput => DeleteObjectOutput;
    delete_objects: DeleteObjectsInput => DeleteObjectsOutput;
    list_objects: ListObjectsInput => ListObjectsOutput;
    list_objects_v2: ListObjectsV2Input => ListObjectsV2Output;
    list_object_versions: ListObjectVersionsInput => ListObjectVersionsOutput;

    create_multipart_upload: CreateMultipartUploadInput => CreateMultipartUploadOutput;
    upload_part: UploadPartInput => UploadPartOutput;
    upload_part_copy: UploadPartCopyInput => UploadPartCopyOutput;
    list_parts: ListPartsInput => ListPartsOutput;
    list_multipart_uploads: ListMultipartUploadsInput => ListMultipartUploadsOutput;
    complete_multipart_upload: CompleteMultipartUploadInput => CompleteMultipartUploadOutput;
    abort_multipart_upload: AbortMultipartUploadInput => AbortMultipartUploadOutput;

    get_bucket_versioning: GetBucketVersioningInput => GetBucketVersioningOutput;
    get_bucket_tagging: GetBucketTaggingInput => GetBucketTaggingOutput;
    get_bucket_policy: GetBucketPolicyInput => GetBucketPolicyOutput;
    get_bucket_cors: GetBucketCorsInput => GetBucketCorsOutput;
    get_bucket_lifecycle_configuration: GetBucketLifecycleConfigurationInput => GetBucketLifecycleConfigurationOutput;
    get_bucket_encryption: GetBucketEncryptionInput => GetBucketEncryptionOutput;
    get_object_lock_configuration: GetObjectLockConfigurationInput => GetObjectLockConfigurationOutput;
    get_object_tagging: GetObjectTaggingInput => GetObjectTaggingOutput;
    get_public_access_block: GetPublicAccessBlockInput => GetPublicAccessBlockOutput;
    get_bucket_ownership_controls: GetBucketOwnershipControlsInput => GetBucketOwnershipControlsOutput;
    get_bucket_policy_status: GetBucketPolicyStatusInput => GetBucketPolicyStatusOutput;
    get_bucket_website: GetBucketWebsiteInput => GetBucketWebsiteOutput;
    get_bucket_replication: GetBucketReplicationInput => GetBucketReplicationOutput;
    get_bucket_logging: GetBucketLoggingInput => GetBucketLoggingOutput;
    get_bucket_notification_configuration: GetBucketNotificationConfigurationInput => GetBucketNotificationConfigurationOutput;
    get_bucket_request_payment: GetBucketRequestPaymentInput => GetBucketRequestPaymentOutput;
    get_bucket_accelerate_configuration: GetBucketAccelerateConfigurationInput => GetBucketAccelerateConfigurationOutput;

    get_bucket_acl: GetBucketAclInput => GetBucketAclOutput;
    get_object_acl: GetObjectAclInput => GetObjectAclOutput;
    put_bucket_acl: PutBucketAclInput => PutBucketAclOutput;
    put_object_acl: PutObjectAclInput => PutObjectAclOutput;
}
