//! Questions after settings that nothing here has: clients ask them before they begin, and "none" is the true answer.

use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result};

use super::{Service, only_version};
use crate::errors;

const NONE: &str = "the bucket has no such configuration";

impl Service {
    /// Answers that a bucket has no such setting.
    ///
    /// # Errors
    /// Always: `code`, or `NoSuchBucket`.
    async fn unset<T>(&self, bucket: &str, code: S3ErrorCode) -> S3Result<T> {
        self.store.bucket(bucket).await.map_err(errors::of_store)?;
        Err(S3Error::with_message(code, NONE))
    }

    pub(super) async fn get_bucket_versioning(
        &self,
        request: S3Request<GetBucketVersioningInput>,
    ) -> S3Result<GetBucketVersioningOutput> {
        self.store.bucket(&request.input.bucket).await.map_err(errors::of_store)?;
        Ok(GetBucketVersioningOutput::default())
    }

    pub(super) async fn get_bucket_tagging(
        &self,
        request: S3Request<GetBucketTaggingInput>,
    ) -> S3Result<GetBucketTaggingOutput> {
        self.unset(&request.input.bucket, S3ErrorCode::NoSuchTagSet).await
    }

    pub(super) async fn get_bucket_policy(
        &self,
        request: S3Request<GetBucketPolicyInput>,
    ) -> S3Result<GetBucketPolicyOutput> {
        self.unset(&request.input.bucket, S3ErrorCode::NoSuchBucketPolicy).await
    }

    pub(super) async fn get_bucket_cors(
        &self,
        request: S3Request<GetBucketCorsInput>,
    ) -> S3Result<GetBucketCorsOutput> {
        self.unset(&request.input.bucket, S3ErrorCode::NoSuchCORSConfiguration).await
    }

    pub(super) async fn get_bucket_lifecycle_configuration(
        &self,
        request: S3Request<GetBucketLifecycleConfigurationInput>,
    ) -> S3Result<GetBucketLifecycleConfigurationOutput> {
        self.unset(&request.input.bucket, S3ErrorCode::NoSuchLifecycleConfiguration).await
    }

    pub(super) async fn get_bucket_encryption(
        &self,
        request: S3Request<GetBucketEncryptionInput>,
    ) -> S3Result<GetBucketEncryptionOutput> {
        let code = S3ErrorCode::ServerSideEncryptionConfigurationNotFoundError;
        self.unset(&request.input.bucket, code).await.map_err(|mut error| {
            // S3 itself answers 404 here; the generated table of s3s says 400.
            if error.code() == &S3ErrorCode::ServerSideEncryptionConfigurationNotFoundError {
                error.set_status_code(hyper::StatusCode::NOT_FOUND);
            }
            error
        })
    }

    pub(super) async fn get_public_access_block(
        &self,
        request: S3Request<GetPublicAccessBlockInput>,
    ) -> S3Result<GetPublicAccessBlockOutput> {
        // `s3s` has no name for this one.
        let missing = "NoSuchPublicAccessBlockConfiguration";
        self.store.bucket(&request.input.bucket).await.map_err(errors::of_store)?;
        Err(errors::with_status(missing, hyper::StatusCode::NOT_FOUND, NONE))
    }

    pub(super) async fn get_bucket_ownership_controls(
        &self,
        request: S3Request<GetBucketOwnershipControlsInput>,
    ) -> S3Result<GetBucketOwnershipControlsOutput> {
        self.unset(&request.input.bucket, S3ErrorCode::OwnershipControlsNotFoundError).await
    }

    pub(super) async fn get_bucket_policy_status(
        &self,
        request: S3Request<GetBucketPolicyStatusInput>,
    ) -> S3Result<GetBucketPolicyStatusOutput> {
        self.unset(&request.input.bucket, S3ErrorCode::NoSuchBucketPolicy).await
    }

    pub(super) async fn get_bucket_website(
        &self,
        request: S3Request<GetBucketWebsiteInput>,
    ) -> S3Result<GetBucketWebsiteOutput> {
        self.unset(&request.input.bucket, S3ErrorCode::NoSuchWebsiteConfiguration).await
    }

    pub(super) async fn get_bucket_replication(
        &self,
        request: S3Request<GetBucketReplicationInput>,
    ) -> S3Result<GetBucketReplicationOutput> {
        self.unset(&request.input.bucket, S3ErrorCode::ReplicationConfigurationNotFoundError).await
    }

    pub(super) async fn get_bucket_logging(
        &self,
        request: S3Request<GetBucketLoggingInput>,
    ) -> S3Result<GetBucketLoggingOutput> {
        self.store.bucket(&request.input.bucket).await.map_err(errors::of_store)?;
        Ok(GetBucketLoggingOutput::default())
    }

    pub(super) async fn get_bucket_notification_configuration(
        &self,
        request: S3Request<GetBucketNotificationConfigurationInput>,
    ) -> S3Result<GetBucketNotificationConfigurationOutput> {
        self.store.bucket(&request.input.bucket).await.map_err(errors::of_store)?;
        Ok(GetBucketNotificationConfigurationOutput::default())
    }

    pub(super) async fn get_bucket_request_payment(
        &self,
        request: S3Request<GetBucketRequestPaymentInput>,
    ) -> S3Result<GetBucketRequestPaymentOutput> {
        self.store.bucket(&request.input.bucket).await.map_err(errors::of_store)?;
        Ok(GetBucketRequestPaymentOutput { payer: Some(Payer::from_static(Payer::BUCKET_OWNER)) })
    }

    pub(super) async fn get_bucket_accelerate_configuration(
        &self,
        request: S3Request<GetBucketAccelerateConfigurationInput>,
    ) -> S3Result<GetBucketAccelerateConfigurationOutput> {
        self.store.bucket(&request.input.bucket).await.map_err(errors::of_store)?;
        Ok(GetBucketAccelerateConfigurationOutput::default())
    }

    pub(super) async fn get_object_lock_configuration(
        &self,
        request: S3Request<GetObjectLockConfigurationInput>,
    ) -> S3Result<GetObjectLockConfigurationOutput> {
        self.unset(&request.input.bucket, S3ErrorCode::ObjectLockConfigurationNotFoundError).await
    }

    pub(super) async fn get_object_tagging(
        &self,
        request: S3Request<GetObjectTaggingInput>,
    ) -> S3Result<GetObjectTaggingOutput> {
        let input = request.input;
        only_version(input.version_id.as_deref())?;
        self.store.head(&input.bucket, &input.key).await.map_err(errors::of_store)?;
        Ok(GetObjectTaggingOutput { tag_set: Vec::new(), version_id: None })
    }
}
