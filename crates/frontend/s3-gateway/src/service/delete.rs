//! Deleting objects, one or a thousand.

use futures_util::{StreamExt, stream};
use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};
use shingle_store_api::Condition;

use super::{Service, only_version, write_condition};
use crate::errors;
use crate::options::PAGE_MAX;

/// Deletes of one request under way at a time.
const DELETES_AT_ONCE: usize = 16;

impl Service {
    pub(super) async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<DeleteObjectOutput> {
        let input = request.input;
        only_version(input.version_id.as_deref())?;
        if input.if_match_last_modified_time.is_some() || input.if_match_size.is_some() {
            return Err(s3_error!(NotImplemented, "deletes are conditional on the ETag alone"));
        }
        let condition = write_condition(input.if_match.as_ref(), None)?;
        self.delete_if(&input.bucket, &input.key, condition).await?;
        Ok(DeleteObjectOutput::default())
    }

    pub(super) async fn delete_objects(&self, request: S3Request<DeleteObjectsInput>) -> S3Result<DeleteObjectsOutput> {
        let DeleteObjectsInput { bucket, delete, .. } = request.input;
        if delete.objects.is_empty() || delete.objects.len() > PAGE_MAX {
            return Err(s3_error!(MalformedXML, "a request deletes 1 to {PAGE_MAX} objects"));
        }
        self.store.bucket(&bucket).await.map_err(errors::of_store)?;
        let bucket = &bucket;
        let results: Vec<_> = stream::iter(delete.objects)
            .map(|object| async move {
                let result = self.delete_one(bucket, &object).await;
                (object.key, result)
            })
            .buffered(DELETES_AT_ONCE)
            .collect()
            .await;
        let (mut deleted, mut failed) = (Vec::new(), Vec::new());
        for (key, result) in results {
            match result {
                Ok(()) => deleted.push(DeletedObject { key: Some(key), ..DeletedObject::default() }),
                Err(error) => failed.push(Error {
                    code: Some(error.code().as_str().to_owned()),
                    key: Some(key),
                    message: error.message().map(str::to_owned),
                    version_id: None,
                }),
            }
        }
        if delete.quiet == Some(true) {
            deleted.clear();
        }
        Ok(DeleteObjectsOutput { deleted: Some(deleted), errors: Some(failed), request_charged: None })
    }

    async fn delete_one(&self, bucket: &str, object: &ObjectIdentifier) -> S3Result<()> {
        only_version(object.version_id.as_deref())?;
        if object.last_modified_time.is_some() || object.size.is_some() {
            return Err(s3_error!(NotImplemented, "deletes are conditional on the ETag alone"));
        }
        let condition = Condition { etag: object.e_tag.as_ref().map(|etag| etag.value().to_owned()), absent: false };
        self.delete_if(bucket, &object.key, condition).await
    }

    /// In S3 a missing object is no error, unless a condition asks for one.
    async fn delete_if(&self, bucket: &str, key: &str, condition: Condition) -> S3Result<()> {
        let must_exist = condition.etag.is_some();
        match self.store.delete_if(bucket, key, condition).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.unmet(error, must_exist, bucket, key).await),
        }
    }
}
