//! Names of damaged objects: from places in files to objects and uploads.
//!
//! Records say where an entry lies, and nothing says whose entry lies somewhere. So the records are read once more, and only
//! where there is damage.

use std::collections::BTreeSet;

use shingle_store_api::StoreResult;

use super::Check;
use super::report::ObjectName;
use crate::errors::from_record;
use crate::format::Manifest;
use crate::index::Space;
use crate::keys;
use crate::records::{Item, Location, ObjectRecord, PartRecord, UploadRecord};
use crate::wire::Input;

impl Check {
    /// Names the objects and uploads that the damage is of.
    pub(super) async fn name_damaged(&mut self) -> StoreResult<()> {
        if self.hurt.is_empty() {
            return Ok(());
        }
        self.each(Space::Segments, |check, key, value| {
            if let (Some((blob, _)), Ok(location)) = (keys::split_segment(key), Location::decode(value))
                && check.hurt.hits(&location)
            {
                check.hurt.blob(blob);
            }
        })
        .await?;
        self.name_objects().await?;
        self.name_uploads().await
    }

    async fn name_objects(&mut self) -> StoreResult<()> {
        let mut from = Vec::new();
        loop {
            let page = self.core.page(Space::Objects, from).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            from = [last.as_slice(), &[0]].concat();
            for (key, value) in &page {
                // One that cannot be decoded was named before.
                let Ok(item) = Item::decode(value) else { continue };
                let large = ObjectRecord::decode(&item.payload).is_ok_and(|record| record.large);
                if self.hurt.hits(&item.location) || (large && self.has_damaged_blob(item.version).await?) {
                    self.damaged_object(key);
                }
            }
        }
    }

    async fn has_damaged_blob(&self, version: u64) -> StoreResult<bool> {
        if !self.hurt.has_blobs() {
            return Ok(false);
        }
        let version = keys::number(version);
        let bytes = self.core.read(move |index| index.get(Space::Manifests, &version)).await?;
        // One that was lost was named before; one that was there then went with its object.
        let Some(bytes) = bytes else { return Ok(false) };
        let manifest = Manifest::read(&mut Input::new(&bytes)).map_err(from_record)?;
        Ok(manifest.blobs.iter().any(|blob| self.hurt.has_blob(blob.blob)))
    }

    async fn name_uploads(&mut self) -> StoreResult<()> {
        let mut uploads = BTreeSet::new();
        self.each(Space::Parts, |check, key, value| {
            if let (Some((upload, _)), Ok(part)) = (keys::split_part(key), PartRecord::decode(value))
                && (check.hurt.hits(&part.location) || check.hurt.has_blob(part.part.blob))
            {
                uploads.insert(upload);
            }
        })
        .await?;
        for upload in uploads {
            let number = keys::number(upload);
            let Some(bytes) = self.core.read(move |index| index.get(Space::Uploads, &number)).await? else { continue };
            let item = Item::decode(&bytes).map_err(from_record)?;
            let UploadRecord { bucket, key, .. } = UploadRecord::decode(&item.payload).map_err(from_record)?;
            self.name(ObjectName { bucket, key }, |report| &mut report.damaged_uploads);
        }
        Ok(())
    }

    /// Notes that the object of an index's key is damaged.
    pub(super) fn damaged_object(&mut self, key: &[u8]) {
        if let Some((bucket, key)) = keys::split_object(key) {
            let name = ObjectName { bucket: bucket.to_owned(), key: key.to_owned() };
            self.name(name, |report| &mut report.damaged_objects);
        }
    }
}
