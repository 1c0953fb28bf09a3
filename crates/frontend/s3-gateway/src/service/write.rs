//! PUT of an object.

use s3s::dto::*;
use s3s::{S3Request, S3Result};
use shingle_store_api::Commit;

use super::{Service, write_condition};
use crate::checksums::{self, fill_checksums};
use crate::errors;
use crate::headers::given;
use crate::ingest::{Statement, ingest};

impl Service {
    pub(super) async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<PutObjectOutput> {
        let mut input = request.input;
        let condition = write_condition(input.if_match.as_ref(), input.if_none_match.as_ref())?;
        let statement = Statement::of_request(
            input.content_length,
            input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str),
            &request.headers,
            request.trailing_headers,
            self.limits.put_bytes_max,
        )?;
        let mut metadata = given!(input).into_metadata()?;
        let store = self.of_class(input.storage_class.as_ref())?;
        let mut writer = store.begin_put(&input.bucket, &input.key).await.map_err(errors::of_store)?;
        let ingested = ingest(input.body, statement, &mut *writer, &self.limits.memory, &self.md5).await?;
        ingested.store_checksum(&mut metadata);

        let mut output = PutObjectOutput::default();
        fill_checksums!(output, &metadata);
        output.checksum_type = metadata.get(checksums::TYPE_NAME).cloned().map(ChecksumType::from);
        let commit = Commit { etag: ingested.etag, metadata, condition };
        let info = match writer.commit(commit).await {
            Ok(info) => info,
            Err(error) => return Err(self.unmet(error, input.if_match.is_some(), &input.bucket, &input.key).await),
        };
        output.e_tag = Some(ETag::Strong(info.etag));
        Ok(output)
    }
}
