//! GET and HEAD of an object, and its attributes.

use std::ops;

use hyper::HeaderMap;
use hyper::header::{ETAG, HeaderValue, LAST_MODIFIED};
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, s3_error};
use shingle_store_api::ObjectInfo;

use super::{Service, class_name, only_version};
use crate::checksums::{self, fill_checksums};
use crate::conditions::{Conditions, Verdict};
use crate::headers::{fill_headers, http_date, timestamp};
use crate::multipart_checksums::of_part;
use crate::options::PAGE_MAX;
use crate::ranges::if_range;
use crate::{egress, errors};

/// The part of an object that is asked for.
struct Asked {
    bytes: ops::Range<u64>,
    /// The answer says that it is a part (206).
    partial: bool,
    /// The part that it is, from 0.
    part: Option<usize>,
}

impl Asked {
    fn of(info: &ObjectInfo, range: Option<&Range>, part: Option<PartNumber>) -> S3Result<Self> {
        match (range, part) {
            (Some(_), Some(_)) => {
                Err(s3_error!(InvalidRequest, "Cannot specify both Range header and partNumber query parameter"))
            }
            (None, None) => Ok(Self { bytes: 0..info.size, partial: false, part: None }),
            (Some(range), None) => {
                let bytes = range.check(info.size).map_err(|_| unsatisfiable(info))?;
                // The last bytes of an empty object are all there is of it: no range can be written for them.
                Ok(Self { partial: !bytes.is_empty(), bytes, part: None })
            }
            (None, Some(number)) => {
                let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
                let index = index.ok_or_else(|| s3_error!(InvalidArgument, "part numbers begin at 1"))?;
                let whole = [info.size];
                let sizes = if info.part_sizes.is_empty() { &whole } else { info.part_sizes.as_slice() };
                let size = sizes.get(index).ok_or_else(|| {
                    s3_error!(InvalidPart, "the object has {} parts, so none with number {number}", sizes.len())
                })?;
                let start: u64 = sizes.iter().take(index).sum();
                // An empty range cannot be written as one.
                Ok(Self { bytes: start..start + size, partial: *size > 0, part: Some(index) })
            }
        }
    }

    fn length(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    /// True for the whole object, so that the object's checksum holds for the answer.
    fn is_whole(&self, info: &ObjectInfo) -> bool {
        self.length() == info.size
    }

    fn content_range(&self, info: &ObjectInfo) -> Option<String> {
        self.partial.then(|| format!("bytes {}-{}/{}", self.bytes.start, self.bytes.end.saturating_sub(1), info.size))
    }
}

fn unsatisfiable(info: &ObjectInfo) -> S3Error {
    let mut error = s3_error!(InvalidRange, "The requested range is not satisfiable");
    if let Ok(value) = HeaderValue::from_str(&format!("bytes */{}", info.size)) {
        error.set_headers(HeaderMap::from_iter([(hyper::header::CONTENT_RANGE, value)]));
    }
    error
}

/// Goes on if the conditions hold.
///
/// # Errors
/// `NotModified` with the headers a cache wants, or `PreconditionFailed`.
fn conditional(conditions: &Conditions<'_>, info: &ObjectInfo) -> S3Result<()> {
    let modified = timestamp(info.modified_unix_ns);
    match conditions.verdict(&info.etag, &modified) {
        Verdict::Proceed => Ok(()),
        Verdict::Failed => {
            Err(s3_error!(PreconditionFailed, "At least one of the pre-conditions you specified did not hold"))
        }
        Verdict::NotModified => {
            let mut error = S3Error::new(S3ErrorCode::NotModified);
            let values = [(ETAG, format!("\"{}\"", info.etag)), (LAST_MODIFIED, http_date(&modified))];
            let headers =
                values.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(&value).ok()?)));
            error.set_headers(headers.collect());
            Err(error)
        }
    }
}

/// The conditions of a GET or HEAD.
macro_rules! conditions {
    ($input:expr) => {
        Conditions {
            if_match: $input.if_match.as_ref(),
            if_none_match: $input.if_none_match.as_ref(),
            if_modified_since: $input.if_modified_since.as_ref(),
            if_unmodified_since: $input.if_unmodified_since.as_ref(),
        }
    };
}

/// Fields that the answers to GET and HEAD share.
macro_rules! describe {
    ($output:ty, $input:expr, $info:expr, $asked:expr) => {{
        let (info, asked): (&ObjectInfo, &Asked) = ($info, $asked);
        let mut output = <$output>::default();
        fill_headers!(output, &info.metadata);
        if $input.checksum_mode.as_ref().is_some_and(|mode| mode.as_str() == "ENABLED") {
            if asked.is_whole(info) {
                fill_checksums!(output, &info.metadata);
                output.checksum_type = checksum_type(info);
            } else if let Some(part) = asked.part {
                fill_checksums!(output, &of_part(&info.metadata, part));
                output.checksum_type = checksum_type(info);
            }
        }
        output.accept_ranges = Some("bytes".to_owned());
        output.content_length = i64::try_from(asked.length()).ok();
        output.content_range = asked.content_range(info);
        output.e_tag = Some(ETag::Strong(info.etag.clone()));
        output.last_modified = Some(timestamp(info.modified_unix_ns));
        // As S3 does, which names all classes but the standard one.
        output.storage_class = info.class.clone().map(StorageClass::from);
        if $input.part_number.is_some() && !info.part_sizes.is_empty() {
            output.parts_count = i32::try_from(info.part_sizes.len()).ok();
        }
        output
    }};
}

fn checksum_type(info: &ObjectInfo) -> Option<ChecksumType> {
    checksums::stored(&info.metadata)?;
    info.metadata.get(checksums::TYPE_NAME).cloned().map(ChecksumType::from)
}

impl Service {
    pub(super) async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<GetObjectOutput> {
        let input = request.input;
        only_version(input.version_id.as_deref())?;
        let reader = self.store.open(&input.bucket, &input.key).await.map_err(errors::of_store)?;
        let info = reader.info();
        conditional(&conditions!(input), info)?;
        let range = input.range.as_ref().filter(|_| if_range(&request.headers, info));
        let asked = Asked::of(info, range, input.part_number)?;
        let mut output = describe!(GetObjectOutput, input, info, &asked);
        output.body = Some(egress::body(reader, asked.bytes, self.limits.memory.clone()).await?);
        Ok(output)
    }

    pub(super) async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<HeadObjectOutput> {
        let input = request.input;
        only_version(input.version_id.as_deref())?;
        let info = self.store.head(&input.bucket, &input.key).await.map_err(errors::of_store)?;
        conditional(&conditions!(input), &info)?;
        let range = input.range.as_ref().filter(|_| if_range(&request.headers, &info));
        let asked = Asked::of(&info, range, input.part_number)?;
        Ok(describe!(HeadObjectOutput, input, &info, &asked))
    }

    pub(super) async fn get_object_attributes(
        &self,
        request: S3Request<GetObjectAttributesInput>,
    ) -> S3Result<GetObjectAttributesOutput> {
        let input = request.input;
        only_version(input.version_id.as_deref())?;
        let info = self.store.head(&input.bucket, &input.key).await.map_err(errors::of_store)?;
        let wanted = |name: &str| {
            // SDKs send one header for each, or one with all of them.
            input.object_attributes.iter().any(|given| given.as_str().split(',').any(|item| item.trim() == name))
        };
        let mut output = GetObjectAttributesOutput {
            last_modified: Some(timestamp(info.modified_unix_ns)),
            ..GetObjectAttributesOutput::default()
        };
        if wanted(ObjectAttributes::ETAG) {
            output.e_tag = Some(ETag::Strong(info.etag.clone()));
        }
        if wanted(ObjectAttributes::OBJECT_SIZE) {
            output.object_size = i64::try_from(info.size).ok();
        }
        if wanted(ObjectAttributes::STORAGE_CLASS) {
            output.storage_class = Some(class_name(info.class.as_ref()));
        }
        if wanted(ObjectAttributes::CHECKSUM) && checksums::stored(&info.metadata).is_some() {
            let mut checksum = Checksum::default();
            fill_checksums!(checksum, &info.metadata);
            checksum.checksum_type = checksum_type(&info);
            output.checksum = Some(checksum);
        }
        if wanted(ObjectAttributes::OBJECT_PARTS) && !info.part_sizes.is_empty() {
            output.object_parts = Some(parts(&info, input.max_parts, input.part_number_marker));
        }
        Ok(output)
    }
}

fn parts(info: &ObjectInfo, max: Option<MaxParts>, marker: Option<PartNumberMarker>) -> GetObjectAttributesParts {
    let limit = max.and_then(|max| usize::try_from(max).ok()).unwrap_or(PAGE_MAX).min(PAGE_MAX);
    let after = marker.and_then(|marker| usize::try_from(marker).ok()).unwrap_or(0);
    let numbered = (1i32..).zip(&info.part_sizes).skip(after).take(limit);
    let list: Vec<_> = numbered
        .map(|(number, size)| {
            let mut part =
                ObjectPart { part_number: Some(number), size: i64::try_from(*size).ok(), ..ObjectPart::default() };
            fill_checksums!(part, &of_part(&info.metadata, number as usize - 1));
            part
        })
        .collect();
    GetObjectAttributesParts {
        is_truncated: Some(after.saturating_add(list.len()) < info.part_sizes.len()),
        max_parts: i32::try_from(limit).ok(),
        next_part_number_marker: list.last().and_then(|part| part.part_number),
        part_number_marker: Some(marker.unwrap_or(0)),
        parts: Some(list),
        total_parts_count: i32::try_from(info.part_sizes.len()).ok(),
    }
}
