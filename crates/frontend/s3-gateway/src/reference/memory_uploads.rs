//! Uploads of the store in memory.

use shingle_store_api::{
    Commit, CompletedPart, Metadata, ObjectInfo, ObjectWriter, PartInfo, StoreErrorKind, StoreFuture, StoreResult,
    UploadId, UploadInfo, UploadListing,
};

use bytes::{Bytes, BytesMut};

use super::memory::{Finish, MemoryStore, State, Upload, now_ns};
use super::{error, ready};

impl State {
    fn upload(&mut self, bucket: &str, key: &str, id: UploadId) -> StoreResult<&mut Upload> {
        let found = self.bucket(bucket)?.uploads.get_mut(&(key.to_owned(), id));
        found.ok_or_else(|| error(StoreErrorKind::NoSuchUpload, key))
    }

    fn put_part(
        &mut self,
        place: (&str, &str, UploadId),
        number: u32,
        data: Bytes,
        commit: Commit,
    ) -> StoreResult<ObjectInfo> {
        let (bucket, key, id) = place;
        let part = PartInfo {
            number,
            size: data.len() as u64,
            etag: commit.etag,
            modified_unix_ns: now_ns(),
            metadata: commit.metadata,
        };
        self.upload(bucket, key, id)?.parts.insert(number, (part.clone(), data));
        Ok(ObjectInfo {
            key: String::new(),
            size: part.size,
            etag: part.etag,
            modified_unix_ns: part.modified_unix_ns,
            version: 0,
            metadata: part.metadata,
            part_sizes: Vec::new(),
            class: None,
        })
    }

    fn complete(
        &mut self,
        place: (&str, &str, UploadId),
        parts: &[CompletedPart],
        mut commit: Commit,
    ) -> StoreResult<ObjectInfo> {
        let (bucket, key, id) = place;
        let upload = self.upload(bucket, key, id)?;
        let (mut data, mut sizes) = (BytesMut::new(), Vec::new());
        let mut last = 0;
        for named in parts {
            if named.number <= last {
                return Err(error(StoreErrorKind::InvalidPartOrder, key));
            }
            last = named.number;
            let part = upload.parts.get(&named.number).filter(|(part, _)| part.etag == named.etag);
            let (part, bytes) = part.ok_or_else(|| error(StoreErrorKind::InvalidPart, key))?;
            data.extend_from_slice(bytes);
            sizes.push(part.size);
        }
        let mut metadata = upload.info.metadata.clone();
        metadata.append(&mut commit.metadata);
        let info = self.put(bucket, key, data.freeze(), Commit { metadata, ..commit }, sizes)?;
        self.bucket(bucket)?.uploads.remove(&(key.to_owned(), id));
        Ok(info)
    }
}

impl MemoryStore {
    pub(super) fn begin_upload_now(&self, bucket: &str, key: &str, metadata: Metadata) -> StoreFuture<'_, UploadInfo> {
        let mut state = self.state();
        state.versions += 1;
        let id = UploadId(state.versions);
        let info = UploadInfo { id, key: key.to_owned(), initiated_unix_ns: now_ns(), metadata, class: None };
        ready(state.bucket(bucket).map(|found| {
            let upload = Upload { info: info.clone(), parts: Default::default() };
            found.uploads.insert((key.to_owned(), id), upload);
            info
        }))
    }

    pub(super) fn begin_part_now(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        number: u32,
    ) -> StoreFuture<'_, Box<dyn ObjectWriter>> {
        if let Err(missing) = self.state().upload(bucket, key, id) {
            return ready(Err(missing));
        }
        let (bucket, key) = (bucket.to_owned(), key.to_owned());
        let done: Finish =
            Box::new(move |state, data, commit| state.put_part((&bucket, &key, id), number, data, commit));
        ready(Ok(self.writer(done)))
    }

    pub(super) fn upload_now(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, UploadInfo> {
        ready(self.state().upload(bucket, key, id).map(|upload| upload.info.clone()))
    }

    pub(super) fn list_parts_now(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        after: u32,
        limit: usize,
    ) -> StoreFuture<'_, (Vec<PartInfo>, bool)> {
        ready(self.state().upload(bucket, key, id).map(|upload| {
            let later: Vec<_> =
                upload.parts.range(after.saturating_add(1)..).map(|(_, (part, _))| part.clone()).collect();
            let more = later.len() > limit;
            (later.into_iter().take(limit).collect(), more)
        }))
    }

    pub(super) fn list_uploads_now(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, Option<UploadId>)>,
        limit: usize,
    ) -> StoreFuture<'_, UploadListing> {
        ready(self.state().bucket(bucket).map(|found| {
            let is_later = |key: &String, id: UploadId| match &after {
                None => true,
                Some((last, None)) => key > last,
                Some((last, Some(last_id))) => (key, id) > (last, *last_id),
            };
            let wanted = found.uploads.iter().filter(|((key, id), _)| key.starts_with(prefix) && is_later(key, *id));
            let mut uploads: Vec<_> = wanted.map(|(_, upload)| upload.info.clone()).collect();
            let truncated = uploads.len() > limit;
            uploads.truncate(limit);
            UploadListing { uploads, truncated }
        }))
    }

    pub(super) fn complete_upload_now(
        &self,
        bucket: &str,
        key: &str,
        id: UploadId,
        parts: &[CompletedPart],
        commit: Commit,
    ) -> StoreFuture<'_, ObjectInfo> {
        ready(self.state().complete((bucket, key, id), parts, commit))
    }

    pub(super) fn abort_upload_now(&self, bucket: &str, key: &str, id: UploadId) -> StoreFuture<'_, ()> {
        let mut state = self.state();
        let removed = state.bucket(bucket).map(|found| found.uploads.remove(&(key.to_owned(), id)));
        ready(removed.and_then(|upload| upload.map(drop).ok_or_else(|| error(StoreErrorKind::NoSuchUpload, key))))
    }
}
