//! Names of damaged objects: from places in files to objects and uploads.
//!
//! Records say where an entry lies, and nothing says whose entry lies somewhere. So the records are read once more, and only
//! where there is damage.

use std::collections::{BTreeMap, BTreeSet};

use shingle_store_api::{Named, StoreResult};

use super::Check;
use super::problems::Problem;
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
                && let problems = check.hurt.at(&location)
                && !problems.is_empty()
            {
                check.hurt.blob(blob, problems);
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
                let mut problems = self.hurt.at(&item.location);
                if large {
                    problems.append(&mut self.problems_of_blobs(item.version).await?);
                }
                if !problems.is_empty() {
                    self.damaged_object(key, problems);
                }
            }
        }
    }

    async fn problems_of_blobs(&self, version: u64) -> StoreResult<BTreeSet<Problem>> {
        if !self.hurt.has_blobs() {
            return Ok(BTreeSet::new());
        }
        let version = keys::number(version);
        let bytes = self.core.read(move |index| index.get(Space::Manifests, &version)).await?;
        // One that was lost was named before; one that was there then went with its object.
        let Some(bytes) = bytes else { return Ok(BTreeSet::new()) };
        let manifest = Manifest::read(&mut Input::new(&bytes)).map_err(from_record)?;
        Ok(manifest.blobs.iter().flat_map(|blob| self.hurt.of_blob(blob.blob)).collect())
    }

    async fn name_uploads(&mut self) -> StoreResult<()> {
        let mut uploads: BTreeMap<u64, BTreeSet<Problem>> = BTreeMap::new();
        self.each(Space::Parts, |check, key, value| {
            if let (Some((upload, _)), Ok(part)) = (keys::split_part(key), PartRecord::decode(value))
                && let problems = &check.hurt.at(&part.location) | &check.hurt.of_blob(part.part.blob)
                && !problems.is_empty()
            {
                uploads.entry(upload).or_default().extend(problems);
            }
        })
        .await?;
        for (upload, problems) in uploads {
            let number = keys::number(upload);
            let Some(bytes) = self.core.read(move |index| index.get(Space::Uploads, &number)).await? else { continue };
            let item = Item::decode(&bytes).map_err(from_record)?;
            let UploadRecord { bucket, key, .. } = UploadRecord::decode(&item.payload).map_err(from_record)?;
            let of = Named::object(&bucket, &key);
            let named = Named { words: format!("the upload in progress of {}", of.words), ..of };
            problems.into_iter().for_each(|problem| self.problems.touch(problem, &named));
            self.name(ObjectName { bucket, key }, |report| &mut report.damaged_uploads);
        }
        Ok(())
    }

    /// Notes that the object of an index's key is touched by these problems.
    pub(super) fn damaged_object(&mut self, key: &[u8], problems: impl IntoIterator<Item = Problem>) {
        if let Some((bucket, key)) = keys::split_object(key) {
            let named = Named::object(bucket, key);
            problems.into_iter().for_each(|problem| self.problems.touch(problem, &named));
            let name = ObjectName { bucket: bucket.to_owned(), key: key.to_owned() };
            self.name(name, |report| &mut report.damaged_objects);
        }
    }
}
