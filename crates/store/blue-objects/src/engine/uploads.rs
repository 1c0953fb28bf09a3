//! Uploads in parts. The list of an upload's parts becomes that of the object: a completion copies neither bytes nor parts.

use std::rc::Rc;

use shingle_blue_store::BlueErrorKind;
use shingle_buckets::{Attributes, Chosen, Part};
use shingle_store_api::{ObjectInfo, StoreError, StoreResult, UploadId, UploadInfo, UploadListing};

use super::counting::PAGE;
use super::streams::Written;
use super::{Core, counted_name};
use crate::errors::{corrupt, malformed};
use crate::format::{Held, Record, UploadRecord, parse_part_key, part_key, split_upload_key, upload_key};
use crate::ids;

/// Parts looked at between two looks at whether others have something to do: an object of 10,000 parts takes ten of them.
const PARTS_PAGE: usize = 1024;

/// Bucket, key and upload.
pub(super) type Of = (String, String, UploadId);

/// Bytes of a part, and its number.
pub(super) type PartBytes = Option<Held>;

impl Core {
    /// Makes bytes a part in place of the one of that number.
    pub(super) async fn put_part_of(
        self: &Rc<Self>,
        (_, _, id): Of,
        number: u32,
        attributes: Attributes,
        written: Written,
    ) -> StoreResult<ObjectInfo> {
        let index = ids::parts(id.0);
        let name = part_key(number);
        let before = match self.store.omap_get(&index, &name).await {
            Err(error) if error.kind == BlueErrorKind::NotFound => return Err(StoreError::no_upload(id)),
            before => before.map_err(|error| self.failed(error))?,
        };
        let before = before.map(|value| Record::decode_part(&value)).transpose();
        let before = before.map_err(|error| malformed(&name, error))?;
        let found = self.found(before.and_then(|before| before.held)).await;
        let mut change = self.change();
        let Written { open, pieces, _memory } = written;
        let (held, size) = self.add_written(&mut change.transaction, open.as_ref(), pieces).await?;
        let record = Record { attributes, version: self.fresh()?, size, held };
        change.transaction.omap_set(&index, name, record.encode_part());
        change.release(found);
        change.submit().await?;
        if let Some(open) = &open {
            self.writers.remove(open.number);
        }
        Ok(record.attributes.info("", record.version, size, Vec::new()))
    }

    /// Parts of an upload, or of the object that was made of it, with numbers above `after`, at most `limit`.
    pub(super) async fn find_parts(&self, id: u64, after: u32, limit: usize) -> StoreResult<Vec<Part<PartBytes>>> {
        let index = ids::parts(id);
        let mut found: Vec<Part<PartBytes>> = Vec::new();
        let mut from = after.checked_add(1);
        while let Some(next) = from.filter(|_| found.len() < limit) {
            let wanted = PARTS_PAGE.min(limit - found.len());
            let page =
                self.store.omap_list(&index, &part_key(next), wanted).await.map_err(|error| self.failed(error))?;
            let count = page.len();
            for (name, value) in page {
                let number = parse_part_key(&name).ok_or_else(|| corrupt("the list of parts has a key of none"))?;
                let record = Record::decode_part(&value).map_err(|error| malformed(&name, error))?;
                from = number.checked_add(1);
                found.push(Part { number, size: record.size, attributes: record.attributes, blob: record.held });
            }
            if count < wanted {
                break;
            }
            self.rt.yield_now().await;
        }
        Ok(found)
    }

    /// Uploads of keys that begin with `prefix`, behind `after`.
    pub(super) async fn list_uploads(
        &self,
        bucket: &str,
        prefix: &str,
        after: Option<(String, UploadId)>,
        limit: usize,
    ) -> StoreResult<UploadListing> {
        let index = ids::uploads(self.bucket_number(bucket)?);
        let mut listing = UploadListing::default();
        let behind = |key: &str, id| [&upload_key(key, id)[..], b"\0"].concat();
        let mut from = after.map_or(Vec::new(), |(key, id)| behind(&key, id)).max(prefix.as_bytes().to_vec());
        loop {
            let page = self.index_page(bucket, &index, &from, PAGE).await?;
            let more = page.len() == PAGE;
            for (name, value) in page {
                let (key, id) =
                    split_upload_key(&name).ok_or_else(|| corrupt("the list of uploads has a key of none"))?;
                if !key.starts_with(prefix) {
                    return Ok(listing);
                }
                if listing.uploads.len() == limit {
                    listing.truncated = true;
                    return Ok(listing);
                }
                let record = UploadRecord::decode(&value).map_err(|error| malformed(&name, error))?;
                let Attributes { modified_unix_ns, metadata, .. } = record.attributes;
                let (key, initiated_unix_ns) = (key.to_owned(), modified_unix_ns);
                listing.uploads.push(UploadInfo { id, key, initiated_unix_ns, metadata, class: None });
                from = [&name[..], b"\0"].concat();
            }
            if !more {
                return Ok(listing);
            }
            self.rt.yield_now().await;
        }
    }

    /// Begins an upload: its list of parts is there from now on.
    pub(super) async fn begin_upload_of(
        self: &Rc<Self>,
        bucket: &str,
        key: &str,
        attributes: &Attributes,
    ) -> StoreResult<UploadId> {
        let index = ids::uploads(self.bucket_number(bucket)?);
        let id = UploadId(self.fresh()?);
        let record = UploadRecord { attributes: attributes.clone() };
        let mut change = self.change();
        change.transaction.create(&ids::parts(id.0));
        change.transaction.omap_set(&index, upload_key(key, id), record.encode());
        change.submit().await?;
        Ok(id)
    }

    /// Makes parts of an upload the object and ends the upload.
    pub(super) async fn make_of_parts(
        self: &Rc<Self>,
        (bucket, key, id): Of,
        attributes: Attributes,
        chosen: Chosen<PartBytes>,
    ) -> StoreResult<ObjectInfo> {
        let before = self.find(&bucket, &key).await?;
        let mut found = vec![self.found(before.as_ref().and_then(|before| before.held)).await];
        for other in &chosen.others {
            found.push(self.found(other.blob).await);
        }
        let number = self.bucket_number(&bucket)?;
        let (version, size) = (self.fresh()?, chosen.size);
        let record = Record { attributes, version, size, held: Some(Held::Upload(id.0)) };
        let mut change = self.change();
        change.transaction.omap_set(&ids::names(number), key.as_bytes(), record.encode_object());
        change.transaction.omap_remove(&ids::uploads(number), upload_key(&key, id));
        for other in &chosen.others {
            change.transaction.omap_remove(&ids::parts(id.0), part_key(other.number));
        }
        found.into_iter().for_each(|found| change.release(found));
        let counted = self.tally.begin(counted_name(&bucket, &key), before.map(|before| before.size));
        change.submit().await?;
        counted.end(Some(size));
        Ok(record.attributes.info(&key, version, size, chosen.sizes()))
    }

    /// Ends an upload; its parts go.
    pub(super) async fn end_upload_of(self: &Rc<Self>, (bucket, key, id): Of) -> StoreResult<()> {
        let index = ids::uploads(self.bucket_number(&bucket)?);
        let found = self.found(Some(Held::Upload(id.0))).await;
        let mut change = self.change();
        change.transaction.omap_remove(&index, upload_key(&key, id)).with_reserve().may_pass();
        change.release(found);
        change.submit().await
    }
}
