//! CopyObject and UploadPartCopy: bytes go from the store to the store through the gateway, read and digested once.

use std::ops::Range;

use hyper::HeaderMap;
use hyper::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopyPartResult, CopySource, ETag, ETagCondition,
    MetadataDirective, Range as ByteRange, UploadPartCopyInput, UploadPartCopyOutput,
};
use s3s::{S3Request, S3Result, s3_error};
use shingle_runtime::memory::SHARES;
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
use crate::pieces::Pieces;

/// Pieces at a time, the one being written included: what the writer holds takes the last of a user's shares.
const PIECES: usize = SHARES - 1;

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
        let size = range.end - range.start;
        let mut pieces = Pieces::new(reader, range, self.limits.memory.clone(), PIECES);
        writer.expect(size);
        let mut sink = Sink::new(writer, size, algorithm, &self.limits.memory, &self.md5);
        while let Some(piece) = pieces.next().await {
            let piece = piece.map_err(errors::of_store)?;
            sink.push_whole(piece.bytes.clone()).await?;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use bytes::Bytes;
    use futures_util::FutureExt;
    use shingle_runtime::memory::Memory;
    use shingle_store_api::{ObjectInfo, StoreFuture};
    use shingle_store_testing::MemoryStore;

    use super::*;
    use crate::options::Limits;

    /// Reads zeros, and counts them.
    struct Zeros(ObjectInfo, Arc<AtomicU64>);

    impl ObjectReader for Zeros {
        fn info(&self) -> &ObjectInfo {
            &self.0
        }

        fn read(&self, _: u64, length: u64) -> StoreFuture<'_, Bytes> {
            self.1.fetch_add(length, Relaxed);
            async move { Ok(vec![0; length as usize].into()) }.boxed()
        }
    }

    /// Takes so many bytes, and then no more.
    struct Takes(u64);

    impl ObjectWriter for Takes {
        fn write(&mut self, data: Bytes) -> StoreFuture<'_, ()> {
            match self.0.checked_sub(data.len() as u64) {
                None => std::future::pending().boxed(),
                Some(left) => {
                    self.0 = left;
                    async { Ok(()) }.boxed()
                }
            }
        }

        fn commit(self: Box<Self>, _: Commit) -> StoreFuture<'static, ObjectInfo> {
            std::future::pending().boxed()
        }
    }

    /// GW-BODY-1: a drive that takes no more writes fills the memory of copies, and nothing beside it.
    #[tokio::test(start_paused = true)]
    async fn copies_hold_no_more_than_the_memory_for_bodies() {
        let memory = Memory::new(12 << 20, 16);
        let limits = Limits { memory: memory.clone(), ..Limits::default() };
        let service = Service::new(Arc::new(MemoryStore::new(1 << 20)), String::new(), limits);
        let (read, took, size) = (Arc::new(AtomicU64::new(0)), 3u64 << 20, 20 << 20);
        let mut writers: Vec<_> = (0..16).map(|_| Takes(took)).collect();
        let mut copies: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let reader = Box::new(Zeros(ObjectInfo { size, ..info() }, read.clone()));
                service.copy(reader, 0..size, writer, None).boxed()
            })
            .collect();
        for copy in &mut copies {
            while tokio::time::timeout(std::time::Duration::from_millis(1), &mut *copy).await.is_ok() {}
        }
        let held = read.load(Relaxed) - 16 * took.min(read.load(Relaxed) / 16);
        assert!(held > 0 && memory.used() >= held, "{held} bytes wait, and {} are reserved", memory.used());
        assert!(memory.used() <= memory.limit(), "{} bytes", memory.used());
        drop(copies);
        assert_eq!(memory.used(), 0);
    }

    fn info() -> ObjectInfo {
        ObjectInfo {
            key: String::new(),
            size: 0,
            etag: String::new(),
            modified_unix_ns: 0,
            version: 0,
            metadata: Default::default(),
            part_sizes: Vec::new(),
            class: None,
        }
    }
}
