//! Listings of keys, and of uploads.

use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};
use shingle_store_api::{ListRequest, Listing, ObjectInfo, UploadId, UploadInfo, common_prefix};

use super::{ONLY_VERSION, Service, class_name, only_version, owner};
use crate::headers::timestamp;
use crate::options::PAGE_MAX;
use crate::{checksums, errors, percent};

/// Form of the keys in an answer: plain, or percent-encoded.
#[derive(Clone, Copy)]
struct Writing {
    escaped: bool,
}

impl Writing {
    fn of(encoding: Option<&EncodingType>) -> S3Result<Self> {
        match encoding.map(EncodingType::as_str) {
            None => Ok(Self { escaped: false }),
            Some("url") => Ok(Self { escaped: true }),
            Some(other) => Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request: {other}")),
        }
    }

    fn text(self, text: &str) -> String {
        if self.escaped { percent::encode(text) } else { text.to_owned() }
    }

    fn given(self, text: Option<&String>) -> Option<String> {
        text.map(|text| self.text(text))
    }

    /// A delimiter that is empty is none.
    fn delimiter(self, text: Option<&String>) -> Option<String> {
        self.given(text.filter(|text| !text.is_empty()))
    }

    fn object(self, info: &ObjectInfo, with_owner: bool) -> Object {
        let checksum = checksums::stored(&info.metadata);
        Object {
            checksum_algorithm: checksum.map(|(algorithm, _)| vec![algorithm.name().to_owned().into()]),
            checksum_type: checksum.and_then(|_| info.metadata.get(checksums::TYPE_NAME).cloned().map(Into::into)),
            e_tag: Some(ETag::Strong(info.etag.clone())),
            key: Some(self.text(&info.key)),
            last_modified: Some(timestamp(info.modified_unix_ns)),
            owner: with_owner.then(owner),
            restore_status: None,
            size: i64::try_from(info.size).ok(),
            storage_class: Some(class_name(info.class.as_ref()).as_str().to_owned().into()),
        }
    }

    fn prefixes(self, prefixes: &[String]) -> Vec<CommonPrefix> {
        prefixes.iter().map(|prefix| CommonPrefix { prefix: Some(self.text(prefix)) }).collect()
    }
}

/// Items of a page, from the number that the request asks for.
fn page(asked: Option<i32>, name: &str) -> S3Result<usize> {
    let Some(asked) = asked else { return Ok(PAGE_MAX) };
    let asked = usize::try_from(asked).map_err(|_| s3_error!(InvalidArgument, "{name} cannot be negative"))?;
    Ok(asked.min(PAGE_MAX))
}

/// A continuation token: the place to go on from, in a form that no client takes for a key.
fn token(after: &str) -> String {
    base64_simd::URL_SAFE_NO_PAD.encode_to_string(after)
}

fn place(token: &str) -> S3Result<String> {
    let bytes = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(token).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))
}

impl Service {
    async fn list(&self, bucket: &str, request: ListRequest) -> S3Result<Listing> {
        if request.limit == 0 {
            // S3 answers that nothing is cut off, since it was asked for nothing.
            self.store.bucket(bucket).await.map_err(errors::of_store)?;
            return Ok(Listing::default());
        }
        self.store.list(bucket, request).await.map_err(errors::of_store)
    }

    pub(super) async fn list_objects(&self, request: S3Request<ListObjectsInput>) -> S3Result<ListObjectsOutput> {
        let input = request.input;
        let writing = Writing::of(input.encoding_type.as_ref())?;
        let limit = page(input.max_keys, "max-keys")?;
        let asked = ListRequest {
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
            after: input.marker.clone().filter(|marker| !marker.is_empty()),
            limit,
        };
        let found = self.list(&input.bucket, asked).await?;
        Ok(ListObjectsOutput {
            common_prefixes: Some(writing.prefixes(&found.common_prefixes)),
            contents: Some(found.objects.iter().map(|info| writing.object(info, true)).collect()),
            delimiter: writing.delimiter(input.delimiter.as_ref()),
            is_truncated: Some(found.next.is_some()),
            marker: Some(writing.text(input.marker.as_deref().unwrap_or_default())),
            max_keys: i32::try_from(limit).ok(),
            name: Some(input.bucket),
            next_marker: writing.given(found.next.as_ref()),
            prefix: Some(writing.text(input.prefix.as_deref().unwrap_or_default())),
            encoding_type: input.encoding_type,
            request_charged: None,
        })
    }

    pub(super) async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<ListObjectsV2Output> {
        let input = request.input;
        let writing = Writing::of(input.encoding_type.as_ref())?;
        let limit = page(input.max_keys, "max-keys")?;
        let after = match &input.continuation_token {
            Some(token) => Some(place(token)?),
            None => input.start_after.clone().filter(|after| !after.is_empty()),
        };
        let asked = ListRequest {
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
            after,
            limit,
        };
        let found = self.list(&input.bucket, asked).await?;
        let with_owner = input.fetch_owner == Some(true);
        Ok(ListObjectsV2Output {
            key_count: i32::try_from(found.objects.len() + found.common_prefixes.len()).ok(),
            common_prefixes: Some(writing.prefixes(&found.common_prefixes)),
            contents: Some(found.objects.iter().map(|info| writing.object(info, with_owner)).collect()),
            continuation_token: input.continuation_token,
            delimiter: writing.delimiter(input.delimiter.as_ref()),
            is_truncated: Some(found.next.is_some()),
            max_keys: i32::try_from(limit).ok(),
            name: Some(input.bucket),
            next_continuation_token: found.next.as_deref().map(token),
            prefix: Some(writing.text(input.prefix.as_deref().unwrap_or_default())),
            start_after: writing.given(input.start_after.as_ref()),
            encoding_type: input.encoding_type,
            request_charged: None,
        })
    }

    /// Every object has one version, `null`, and none was ever deleted before.
    pub(super) async fn list_object_versions(
        &self,
        request: S3Request<ListObjectVersionsInput>,
    ) -> S3Result<ListObjectVersionsOutput> {
        let input = request.input;
        let writing = Writing::of(input.encoding_type.as_ref())?;
        let limit = page(input.max_keys, "max-keys")?;
        let after = input.key_marker.clone().filter(|marker| !marker.is_empty());
        let version = input.version_id_marker.as_deref().filter(|version| !version.is_empty());
        if version.is_some() && after.is_none() {
            return Err(s3_error!(InvalidArgument, "A version-id marker cannot be specified without a key marker."));
        }
        only_version(version)?;
        let asked = ListRequest {
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
            after,
            limit,
        };
        let found = self.list(&input.bucket, asked).await?;
        let versions = found.objects.iter().map(|info| {
            let object = writing.object(info, true);
            ObjectVersion {
                checksum_algorithm: object.checksum_algorithm,
                checksum_type: object.checksum_type,
                e_tag: object.e_tag,
                is_latest: Some(true),
                key: object.key,
                last_modified: object.last_modified,
                owner: object.owner,
                restore_status: None,
                size: object.size,
                storage_class: object.storage_class.map(|class| class.as_str().to_owned().into()),
                version_id: Some(ONLY_VERSION.to_owned()),
            }
        });
        Ok(ListObjectVersionsOutput {
            versions: Some(versions.collect()),
            common_prefixes: Some(writing.prefixes(&found.common_prefixes)),
            delimiter: writing.delimiter(input.delimiter.as_ref()),
            is_truncated: Some(found.next.is_some()),
            key_marker: Some(writing.text(input.key_marker.as_deref().unwrap_or_default())),
            max_keys: i32::try_from(limit).ok(),
            name: Some(input.bucket),
            next_version_id_marker: found.next.as_ref().map(|_| ONLY_VERSION.to_owned()),
            next_key_marker: writing.given(found.next.as_ref()),
            prefix: Some(writing.text(input.prefix.as_deref().unwrap_or_default())),
            version_id_marker: input.version_id_marker,
            encoding_type: input.encoding_type,
            delete_markers: None,
            request_charged: None,
        })
    }

    async fn upload_page(
        &self,
        bucket: &str,
        prefix: &str,
        delimiter: Option<&str>,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> S3Result<UploadPage> {
        let common_of =
            |key: &str| delimiter.and_then(|delimiter| common_prefix(key, prefix, delimiter).map(str::to_owned));
        // The marker of a page that ends with a common prefix is that prefix.
        let mut passed = None;
        let mut after = after.map(|(key, id)| match common_of(&key) {
            Some(common) if common == key && id.is_none() => (behind(passed.insert(common)), None),
            _ => (key, id),
        });
        let mut page = UploadPage::default();
        if limit == 0 {
            self.store.bucket(bucket).await.map_err(errors::of_store)?;
            return Ok(page);
        }
        let mut last = None;
        loop {
            let found = self.store.list_uploads(bucket, prefix, after.clone(), PAGE_MAX).await;
            let found = found.map_err(errors::of_store)?;
            let mut end = None;
            for upload in found.uploads {
                let place = (upload.key.clone(), Some(upload.id));
                end = Some(place.clone());
                let common = common_of(&upload.key);
                if common.is_none() || common != passed {
                    if page.uploads.len() + page.prefixes.len() == limit {
                        return Ok(UploadPage { next: last, ..page });
                    }
                    match &common {
                        Some(common) => page.prefixes.push(common.clone()),
                        None => page.uploads.push(upload),
                    }
                }
                last = Some(common.clone().map_or(place, |common| (common, None)));
                passed = common;
            }
            if !found.truncated || end.is_none() {
                return Ok(page);
            }
            // Below a common prefix nothing more is looked at; some of its keys may lie behind that all the same.
            after = end.max(passed.as_ref().map(|common| (behind(common), None)));
        }
    }

    pub(super) async fn list_multipart_uploads(
        &self,
        request: S3Request<ListMultipartUploadsInput>,
    ) -> S3Result<ListMultipartUploadsOutput> {
        let input = request.input;
        let writing = Writing::of(input.encoding_type.as_ref())?;
        let limit = page(input.max_uploads, "max-uploads")?;
        let prefix = input.prefix.clone().unwrap_or_default();
        let delimiter = input.delimiter.as_deref().filter(|delimiter| !delimiter.is_empty());
        // An upload's marker means nothing without its key's.
        let after = match input.key_marker.clone().filter(|marker| !marker.is_empty()) {
            Some(key) => {
                let id = input.upload_id_marker.as_deref().filter(|id| !id.is_empty());
                let id = id.map(|id| {
                    id.parse::<UploadId>().map_err(|_| s3_error!(InvalidArgument, "Invalid uploadId marker"))
                });
                Some((key, id.transpose()?))
            }
            None => None,
        };
        let found = self.upload_page(&input.bucket, &prefix, delimiter, after, limit).await?;
        let uploads = found.uploads.iter().map(|upload| MultipartUpload {
            checksum_algorithm: upload.metadata.get(checksums::ALGORITHM_NAME).cloned().map(Into::into),
            checksum_type: upload.metadata.get(checksums::TYPE_NAME).cloned().map(Into::into),
            initiated: Some(timestamp(upload.initiated_unix_ns)),
            initiator: Some(Initiator { display_name: owner().display_name, id: owner().id }),
            key: Some(writing.text(&upload.key)),
            owner: Some(owner()),
            storage_class: Some(class_name(upload.class.as_ref())),
            upload_id: Some(upload.id.to_string()),
        });
        let uploads: Vec<_> = uploads.collect();
        let (next_key, next_id) = match &found.next {
            Some((key, id)) => (Some(writing.text(key)), id.map(|id| id.to_string())),
            None => (None, None),
        };
        Ok(ListMultipartUploadsOutput {
            common_prefixes: Some(writing.prefixes(&found.prefixes)),
            delimiter: writing.delimiter(input.delimiter.as_ref()),
            is_truncated: Some(found.next.is_some()),
            key_marker: Some(writing.text(input.key_marker.as_deref().unwrap_or_default())),
            max_uploads: i32::try_from(limit).ok(),
            next_key_marker: next_key,
            next_upload_id_marker: next_id,
            prefix: Some(writing.text(&prefix)),
            upload_id_marker: input.upload_id_marker,
            uploads: Some(uploads),
            bucket: Some(input.bucket),
            encoding_type: input.encoding_type,
            request_charged: None,
        })
    }
}

/// One page of uploads and of prefixes they share.
#[derive(Default)]
struct UploadPage {
    uploads: Vec<UploadInfo>,
    prefixes: Vec<String>,
    /// The last upload on the page, or its last prefix, without an upload, if there is more.
    next: Option<(String, Option<UploadId>)>,
}

/// A key behind all below a common prefix, or all but a few that are looked at in vain.
fn behind(common: &str) -> String {
    format!("{common}{}", char::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_leads_back_to_its_place() {
        for text in ["", "a/b", "ü\u{10ffff}\n"] {
            assert_eq!(place(&token(text)).unwrap(), text);
        }
        assert!(place("???").is_err());
        assert!(place(&base64_simd::URL_SAFE_NO_PAD.encode_to_string([0xff, 0xfe])).is_err());
    }
}
