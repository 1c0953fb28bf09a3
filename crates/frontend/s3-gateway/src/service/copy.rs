//! CopyObject and UploadPartCopy: bytes go from the store to the store through the gateway, read and digested once.

use std::ops::Range;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use hyper::HeaderMap;
use hyper::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopyPartResult, CopySource, ETag, ETagCondition,
    MetadataDirective, Range as ByteRange, UploadPartCopyInput, UploadPartCopyOutput,
};
use s3s::{S3Request, S3Result, s3_error};
use shingle_store_api::{Commit, ObjectReader, ObjectWriter};

use super::uploads::part_number;
use super::{Service, only_version, write_condition};
use crate::checksums::{self, Algorithm, fill_checksums};
use crate::conditions::{Conditions, Verdict};
use crate::errors;
use crate::headers::{given, timestamp};
use crate::hex::hex;
use crate::ingest::{Ingested, Sink};
use crate::multipart_checksums::Scheme;
use crate::options::PIECE_BYTES;

/// Pieces read at a time, the one being written included.
const READS_AT_ONCE: usize = 2;

/// The conditions on the source of a copy.
macro_rules! source_conditions {
    ($input:expr) => {
        Conditions {
            if_match: $input.copy_source_if_match.as_ref(),
            if_none_match: $input.copy_source_if_none_match.as_ref(),
            if_modified_since: $input.copy_source_if_modified_since.as_ref(),
            if_unmodified_since: $input.copy_source_if_unmodified_since.as_ref(),
        }
    };
}
impl Service {
    pub(super) async fn copy_object(&self, request: S3Request<CopyObjectInput>) -> S3Result<CopyObjectOutput> {
        let mut input = request.input;
        // The adapter's type has no place for these two.
        let if_match = condition_header(&request.headers, IF_MATCH)?;
        let if_none_match = condition_header(&request.headers, IF_NONE_MATCH)?;
        let condition = write_condition(if_match.as_ref(), if_none_match.as_ref())?;
        let (bucket, key) = &source(&input.copy_source, &request.headers)?;
        let replace = match input.metadata_directive.as_ref().map(MetadataDirective::as_str) {
            None | Some(MetadataDirective::COPY) => false,
            Some(MetadataDirective::REPLACE) => true,
            Some(other) => return Err(s3_error!(InvalidArgument, "there is no metadata directive {other}")),
        };
        let store = self.of_class(input.storage_class.as_ref())?;
        let same = (bucket, key) == (&input.bucket, &input.key);
        if same && !replace && input.storage_class.is_none() {
            return Err(s3_error!(
                InvalidRequest,
                "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata or storage class."
            ));
        }
        let reader = self.store.open(bucket, key).await.map_err(errors::of_store)?;
        source_conditional(&source_conditions!(input), &*reader)?;
        let info = reader.info();
        self.copyable(info.size)?;

        let algorithm = match input.checksum_algorithm.as_ref() {
            Some(name) => Some(Algorithm::from_name(name.as_str())?),
            None => checksums::stored(&info.metadata).map(|(algorithm, _)| algorithm),
        };
        let mut metadata = if replace { given!(input).into_metadata()? } else { info.metadata.clone() };
        // The copy is one whole: its checksum is made anew.
        metadata.retain(|name, _| !name.starts_with("x-amz-checksum-"));

        let mut writer = store.begin_put(&input.bucket, &input.key).await.map_err(errors::of_store)?;
        let size = info.size;
        let copied = self.copy(reader, 0..size, &mut *writer, algorithm).await?;
        copied.store_checksum(&mut metadata);
        let mut result = CopyObjectResult::default();
        fill_checksums!(result, &metadata);
        result.checksum_type = metadata.get(checksums::TYPE_NAME).cloned().map(Into::into);
        let info = match writer.commit(Commit { etag: copied.etag, metadata, condition }).await {
            Ok(info) => info,
            Err(error) => return Err(self.unmet(error, if_match.is_some(), &input.bucket, &input.key).await),
        };
        result.last_modified = Some(timestamp(info.modified_unix_ns));
        result.e_tag = Some(ETag::Strong(info.etag));
        Ok(CopyObjectOutput { copy_object_result: Some(result), ..CopyObjectOutput::default() })
    }

    pub(super) async fn upload_part_copy(
        &self,
        request: S3Request<UploadPartCopyInput>,
    ) -> S3Result<UploadPartCopyOutput> {
        let input = request.input;
        let number = part_number(input.part_number)?;
        let (id, upload) = self.upload(&input.bucket, &input.key, &input.upload_id).await?;
        let (bucket, key) = source(&input.copy_source, &request.headers)?;
        let reader = self.store.open(&bucket, &key).await.map_err(errors::of_store)?;
        source_conditional(&source_conditions!(input), &*reader)?;
        let range = match input.copy_source_range.as_deref() {
            None => 0..reader.info().size,
            Some(text) => source_range(text, reader.info().size)?,
        };
        self.copyable(range.end - range.start)?;

        let mut writer =
            self.store.begin_part(&input.bucket, &input.key, id, number).await.map_err(errors::of_store)?;
        let algorithm = Scheme::of_upload(&upload.metadata).map(|scheme| scheme.algorithm);
        let copied = self.copy(reader, range, &mut *writer, algorithm).await?;
        let mut commit = Commit { etag: copied.etag.clone(), ..Commit::default() };
        copied.store_checksum(&mut commit.metadata);
        let mut result = CopyPartResult::default();
        fill_checksums!(result, &commit.metadata);
        let info = writer.commit(commit).await.map_err(errors::of_store)?;
        result.last_modified = Some(timestamp(info.modified_unix_ns));
        result.e_tag = Some(ETag::Strong(copied.etag));
        Ok(UploadPartCopyOutput { copy_part_result: Some(result), ..UploadPartCopyOutput::default() })
    }

    async fn copy(
        &self,
        reader: Box<dyn ObjectReader>,
        range: Range<u64>,
        writer: &mut dyn ObjectWriter,
        algorithm: Option<Algorithm>,
    ) -> S3Result<Ingested> {
        let reader: Arc<dyn ObjectReader> = reader.into();
        let offsets = (range.start..range.end).step_by(PIECE_BYTES);
        let reads = offsets.map(|offset| {
            let reader = reader.clone();
            async move { reader.read(offset, (range.end - offset).min(PIECE_BYTES as u64)).await }
        });
        let mut pieces = stream::iter(reads).buffered(READS_AT_ONCE);
        writer.expect(range.end - range.start);
        let mut sink = Sink::new(writer, range.end - range.start, algorithm, &self.limits.memory, &self.md5);
        while let Some(piece) = pieces.next().await {
            sink.push(piece.map_err(errors::of_store)?).await?;
        }
        let (md5, checksum) = sink.finish().await?;
        Ok(Ingested { etag: hex(&md5), checksum })
    }

    fn copyable(&self, size: u64) -> S3Result<()> {
        let max = self.limits.put_bytes_max;
        if size <= max {
            return Ok(());
        }
        Err(s3_error!(
            InvalidRequest,
            "The specified copy source is larger than the maximum allowable size for a copy source: {max}"
        ))
    }
}

fn source_conditional(conditions: &Conditions<'_>, reader: &dyn ObjectReader) -> S3Result<()> {
    let info = reader.info();
    match conditions.verdict(&info.etag, &timestamp(info.modified_unix_ns)) {
        Verdict::Proceed => Ok(()),
        Verdict::NotModified | Verdict::Failed => {
            Err(s3_error!(PreconditionFailed, "At least one of the pre-conditions on the source did not hold"))
        }
    }
}

fn condition_header(headers: &HeaderMap, name: HeaderName) -> S3Result<Option<ETagCondition>> {
    let Some(value) = headers.get(&name) else { return Ok(None) };
    let condition = ETagCondition::parse_http_header(value.as_bytes());
    condition.map(Some).map_err(|_| s3_error!(InvalidArgument, "the header {name} has no ETag"))
}

/// Bucket and key of a copy's source. A `+` that is not escaped is a space, as some clients write it (s5cmd), which the
/// adapter reads as it is.
fn source(parsed: &CopySource, headers: &HeaderMap) -> S3Result<(String, String)> {
    let plus = headers.get("x-amz-copy-source").and_then(|value| value.to_str().ok()).filter(|text| text.contains('+'));
    let spaced = plus.map(|text| CopySource::parse(&text.replace('+', "%20")));
    let spaced = spaced.transpose().map_err(|_| s3_error!(InvalidArgument, "x-amz-copy-source names no object"))?;
    match spaced.as_ref().unwrap_or(parsed) {
        CopySource::Bucket { bucket, key, version_id } => {
            only_version(version_id.as_deref())?;
            Ok((bucket.to_string(), key.to_string()))
        }
        _ => Err(s3_error!(NotImplemented, "copies from access points are not served")),
    }
}

/// A range of the source of a part: both ends given and inside the object.
fn source_range(text: &str, size: u64) -> S3Result<Range<u64>> {
    match ByteRange::parse(text) {
        Ok(ByteRange::Int { first, last: Some(last) }) if last < size => Ok(first..last + 1),
        Ok(ByteRange::Int { last: Some(_), .. }) => {
            Err(s3_error!(InvalidArgument, "Range specified is not valid for source object of size: {size}"))
        }
        _ => Err(s3_error!(InvalidArgument, "The x-amz-copy-source-range value must be of the form bytes=first-last")),
    }
}
