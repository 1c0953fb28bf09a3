//! Uploads in parts.

use std::collections::BTreeMap;

use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};
use shingle_store_api::{
    Commit, CompletedPart as StoredPart, ObjectInfo, PartInfo, StoreErrorKind, UploadId, UploadInfo,
};

use super::{Service, class_name, owner, write_condition};
use crate::checksums::{self, fill_checksums, given_checksums};
use crate::errors;
use crate::headers::{given, timestamp};
use crate::ingest::{Statement, ingest};
use crate::multipart_checksums::{Scheme, etag};
use crate::options::{OBJECT_BYTES_MAX, PAGE_MAX, PARTS_MAX};

/// A part's number as the store takes it.
///
/// # Errors
/// `InvalidArgument` unless it is 1 to 10,000.
pub(super) fn part_number(number: PartNumber) -> S3Result<u32> {
    let number = u32::try_from(number).ok().filter(|number| (1..=PARTS_MAX).contains(number));
    number.ok_or_else(|| {
        s3_error!(InvalidArgument, "Part number must be an integer between 1 and {PARTS_MAX}, inclusive")
    })
}

impl Service {
    pub(super) async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<CreateMultipartUploadOutput> {
        let mut input = request.input;
        let scheme = Scheme::asked(
            input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str),
            input.checksum_type.as_ref().map(ChecksumType::as_str),
        )?;
        let mut metadata = given!(input).into_metadata()?;
        if let Some(scheme) = scheme {
            scheme.store(&mut metadata);
        }
        let store = self.of_class(input.storage_class.as_ref())?;
        let upload = store.begin_upload(&input.bucket, &input.key, metadata).await.map_err(errors::of_store)?;
        Ok(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(upload.id.to_string()),
            checksum_algorithm: scheme.map(|scheme| scheme.algorithm.name().to_owned().into()),
            checksum_type: scheme.map(|scheme| scheme.kind().to_owned().into()),
            ..CreateMultipartUploadOutput::default()
        })
    }

    /// An upload in progress by the id that a client gave.
    ///
    /// # Errors
    /// `NoSuchUpload`, also for a malformed id.
    pub(super) async fn upload(&self, bucket: &str, key: &str, id: &str) -> S3Result<(UploadId, UploadInfo)> {
        let id = upload_id(id)?;
        let upload = self.store.upload(bucket, key, id).await.map_err(errors::of_store)?;
        Ok((id, upload))
    }

    pub(super) async fn upload_part(&self, request: S3Request<UploadPartInput>) -> S3Result<UploadPartOutput> {
        let input = request.input;
        let number = part_number(input.part_number)?;
        let mut statement = Statement::of_request(
            input.content_length,
            input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str),
            &request.headers,
            request.trailing_headers,
            self.limits.put_bytes_max,
        )?;
        let (id, upload) = self.upload(&input.bucket, &input.key, &input.upload_id).await?;
        if let Some(scheme) = Scheme::of_upload(&upload.metadata) {
            statement.want(scheme.algorithm)?;
        }
        let mut writer =
            self.store.begin_part(&input.bucket, &input.key, id, number).await.map_err(errors::of_store)?;
        let ingested = ingest(input.body, statement, &mut *writer, &self.limits.memory, &self.md5).await?;
        let mut commit = Commit { etag: ingested.etag.clone(), ..Commit::default() };
        ingested.store_checksum(&mut commit.metadata);
        let mut output = UploadPartOutput::default();
        fill_checksums!(output, &commit.metadata);
        writer.commit(commit).await.map_err(errors::of_store)?;
        output.e_tag = Some(ETag::Strong(ingested.etag));
        Ok(output)
    }

    pub(super) async fn list_parts(&self, request: S3Request<ListPartsInput>) -> S3Result<ListPartsOutput> {
        let input = request.input;
        let (id, upload) = self.upload(&input.bucket, &input.key, &input.upload_id).await?;
        let limit = match input.max_parts {
            None => PAGE_MAX,
            Some(asked) => {
                let asked = usize::try_from(asked).map_err(|_| s3_error!(InvalidArgument, "max-parts is negative"))?;
                asked.min(PAGE_MAX)
            }
        };
        let after = u32::try_from(input.part_number_marker.unwrap_or(0))
            .map_err(|_| s3_error!(InvalidArgument, "part-number-marker is negative"))?;
        let (parts, more) = match limit {
            0 => (Vec::new(), false),
            _ => self.store.list_parts(&input.bucket, &input.key, id, after, limit).await.map_err(errors::of_store)?,
        };
        let scheme = Scheme::of_upload(&upload.metadata);
        Ok(ListPartsOutput {
            checksum_algorithm: scheme.map(|scheme| scheme.algorithm.name().to_owned().into()),
            checksum_type: scheme.map(|scheme| scheme.kind().to_owned().into()),
            initiator: Some(Initiator { display_name: owner().display_name, id: owner().id }),
            is_truncated: Some(more),
            max_parts: i32::try_from(limit).ok(),
            next_part_number_marker: parts.last().and_then(|part| i32::try_from(part.number).ok()),
            owner: Some(owner()),
            part_number_marker: Some(input.part_number_marker.unwrap_or(0)),
            parts: Some(parts.iter().map(describe).collect()),
            storage_class: Some(class_name(upload.class.as_ref())),
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(input.upload_id),
            ..ListPartsOutput::default()
        })
    }

    pub(super) async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<AbortMultipartUploadOutput> {
        let input = request.input;
        if input.if_match_initiated_time.is_some() {
            return Err(s3_error!(NotImplemented, "conditional aborts are not served"));
        }
        let id = upload_id(&input.upload_id)?;
        self.store.abort_upload(&input.bucket, &input.key, id).await.map_err(errors::of_store)?;
        Ok(AbortMultipartUploadOutput::default())
    }

    pub(super) async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<CompleteMultipartUploadOutput> {
        let input = request.input;
        let condition = write_condition(input.if_match.as_ref(), input.if_none_match.as_ref())?;
        let id = upload_id(&input.upload_id)?;
        let named = named_parts(&input).and_then(|named| Ok((etag(&named)?, named)));

        let upload = match self.store.upload(&input.bucket, &input.key, id).await {
            Ok(upload) => upload,
            Err(error) if error.kind == StoreErrorKind::NoSuchUpload => {
                // The answer to a completion may have been lost: asked again, it is given again.
                let info = self.store.head(&input.bucket, &input.key).await.ok();
                let is_it = |info: &ObjectInfo| {
                    named.as_ref().is_ok_and(|(etag, named)| info.etag == *etag && info.part_sizes.len() == named.len())
                };
                return info.filter(is_it).map(|info| completed(input, &info)).ok_or_else(|| errors::of_store(error));
            }
            Err(error) => return Err(errors::of_store(error)),
        };
        let (etag, named) = named?;
        let parts = self.all_parts(&input.bucket, &input.key, id).await?;
        let find = |number: u32| parts.get(&number);
        let chosen =
            StoredPart::choose(&named, self.limits.part_bytes_min, find, |part| (part.etag.as_str(), part.size))
                .map_err(errors::of_store)?;
        let given = input.multipart_upload.iter().flat_map(|upload| upload.parts.iter().flatten());
        for (part, given) in chosen.iter().zip(given) {
            for (algorithm, value) in given_checksums!(given) {
                if part.metadata.get(algorithm.header()).is_none_or(|stored| stored != value) {
                    let (name, number) = (algorithm.name(), part.number);
                    return Err(s3_error!(
                        InvalidPart,
                        "the {name} given for part {number} is not the one that it was uploaded with"
                    ));
                }
            }
        }
        let size: u64 = chosen.iter().map(|part| part.size).sum();
        if size > OBJECT_BYTES_MAX {
            return Err(s3_error!(
                EntityTooLarge,
                "the object would have {size} bytes; {OBJECT_BYTES_MAX} are the most"
            ));
        }
        if input.mpu_object_size.is_some_and(|stated| u64::try_from(stated).ok() != Some(size)) {
            return Err(s3_error!(
                InvalidRequest,
                "the object has {size} bytes, not those stated in x-amz-mp-object-size"
            ));
        }
        let mut commit = Commit { etag, condition, ..Commit::default() };
        // Statements about the object are checked, whether or not the upload began with an algorithm. (GW-S3-2)
        let scheme = match Scheme::of_upload(&upload.metadata) {
            None => {
                Scheme::stated(input.checksum_type.as_ref().map(ChecksumType::as_str), given_checksums!(input).next())?
            }
            begun => begun,
        };
        if let Some(scheme) = scheme {
            scheme.store(&mut commit.metadata);
            let value = scheme.store_combined(&chosen, &mut commit.metadata)?;
            verify(&input, scheme, &value)?;
        }
        match self.store.complete_upload(&input.bucket, &input.key, id, named, commit).await {
            Ok(info) => Ok(completed(input, &info)),
            Err(error) => Err(self.unmet(error, input.if_match.is_some(), &input.bucket, &input.key).await),
        }
    }

    async fn all_parts(&self, bucket: &str, key: &str, id: UploadId) -> S3Result<BTreeMap<u32, PartInfo>> {
        let mut all = BTreeMap::new();
        let mut after = 0;
        loop {
            let page = self.store.list_parts(bucket, key, id, after, PAGE_MAX).await;
            let (parts, more) = page.map_err(errors::of_store)?;
            let Some(last) = parts.last() else { return Ok(all) };
            after = last.number;
            all.extend(parts.into_iter().map(|part| (part.number, part)));
            if !more {
                return Ok(all);
            }
        }
    }
}

fn upload_id(text: &str) -> S3Result<UploadId> {
    text.parse().map_err(|_| s3_error!(NoSuchUpload, "there is no upload {text}"))
}

fn describe(part: &PartInfo) -> Part {
    let mut described = Part {
        e_tag: Some(ETag::Strong(part.etag.clone())),
        last_modified: Some(timestamp(part.modified_unix_ns)),
        part_number: i32::try_from(part.number).ok(),
        size: i64::try_from(part.size).ok(),
        ..Part::default()
    };
    fill_checksums!(described, &part.metadata);
    described
}

/// The parts a completion names.
fn named_parts(input: &CompleteMultipartUploadInput) -> S3Result<Vec<StoredPart>> {
    let parts = input.multipart_upload.as_ref().and_then(|upload| upload.parts.as_deref()).unwrap_or_default();
    if parts.is_empty() || parts.len() > PARTS_MAX as usize {
        return Err(s3_error!(MalformedXML, "an upload is completed with 1 to {PARTS_MAX} parts"));
    }
    let mut named: Vec<StoredPart> = Vec::with_capacity(parts.len());
    for part in parts {
        let number = part.part_number.ok_or_else(|| s3_error!(MalformedXML, "a part has no PartNumber"))?;
        let etag = part.e_tag.as_ref().ok_or_else(|| s3_error!(MalformedXML, "a part has no ETag"))?;
        let number = part_number(number)?;
        if named.last().is_some_and(|last| last.number >= number) {
            return Err(s3_error!(InvalidPartOrder, "The list of parts was not in ascending order."));
        }
        named.push(StoredPart { number, etag: etag.value().to_owned() });
    }
    Ok(named)
}

/// Checks the completion's statements about the object's checksum.
fn verify(input: &CompleteMultipartUploadInput, scheme: Scheme, value: &str) -> S3Result<()> {
    if let Some(kind) = input.checksum_type.as_ref().filter(|kind| kind.as_str() != scheme.kind()) {
        let (given, ours) = (kind.as_str(), scheme.kind());
        return Err(s3_error!(InvalidRequest, "the upload's checksum is {ours}, not {given}"));
    }
    for (algorithm, stated) in given_checksums!(input) {
        // Clients may leave the count of parts away.
        let same = stated == value || value.split_once('-').is_some_and(|(digest, _)| digest == stated);
        if algorithm != scheme.algorithm || !same {
            let name = algorithm.name();
            return Err(s3_error!(BadDigest, "The {name} you specified did not match the calculated checksum."));
        }
    }
    Ok(())
}

fn completed(input: CompleteMultipartUploadInput, info: &ObjectInfo) -> CompleteMultipartUploadOutput {
    let mut output = CompleteMultipartUploadOutput {
        e_tag: Some(ETag::Strong(info.etag.clone())),
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        bucket: Some(input.bucket),
        key: Some(input.key),
        ..CompleteMultipartUploadOutput::default()
    };
    if checksums::stored(&info.metadata).is_some() {
        fill_checksums!(output, &info.metadata);
        output.checksum_type = info.metadata.get(checksums::TYPE_NAME).cloned().map(Into::into);
    }
    output
}
