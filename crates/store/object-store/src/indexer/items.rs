//! Buckets, objects and uploads: the newest entry of each key, and graves of those that are gone.

use bytes::Bytes;

use super::about::spoilt;
use super::transaction::Transaction;
use crate::format::{BlobRef, Body, Manifest};
use crate::index::{IndexResult, Space};
use crate::keys::{self, Identity};
use crate::records::{BlobState, BucketRecord, Ghosts, Item, Location, ObjectRecord, PartRecord, UploadRecord};
use crate::wire::Input;

/// The item an entry is about, if it is about one.
fn identity(version: u64, body: &Body) -> Option<Identity> {
    match body {
        Body::Put { bucket, key, .. } | Body::Commit { bucket, key, .. } | Body::Delete { bucket, key } => {
            Some(Identity::Object(bucket.clone(), key.clone()))
        }
        Body::BucketCreate { bucket, .. } | Body::BucketDelete { bucket } => Some(Identity::Bucket(bucket.clone())),
        Body::UploadBegin { .. } => Some(Identity::Upload(version)),
        Body::UploadEnd { upload } => Some(Identity::Upload(*upload)),
        Body::Segment { .. } | Body::PartCommit { .. } => None,
    }
}

fn is_grave(body: &Body) -> bool {
    matches!(body, Body::Delete { .. } | Body::BucketDelete { .. } | Body::UploadEnd { .. })
}

impl Transaction<'_> {
    /// An entry is durable at `location`.
    pub(super) fn entry(&mut self, version: u64, body: Body, location: Location) -> IndexResult<()> {
        let item = |payload: Bytes| Item { version, location, ghosts: Ghosts::default(), payload };
        if let Body::Put { bucket, .. } | Body::Commit { bucket, .. } | Body::UploadBegin { bucket, .. } = &body
            && self.is_of_an_earlier_bucket(bucket, version, location)?
        {
            let Body::Commit { manifest, .. } = &body else { return Ok(()) };
            return manifest.blobs.iter().try_for_each(|blob| self.mark(blob.blob, BlobState::Dead));
        }
        match body {
            Body::Put { bucket, key, attributes } => {
                let record = ObjectRecord { size: u64::from(location.data), large: false, attributes };
                self.settle(&Identity::Object(bucket, key), item(record.encode()), false, None)
            }
            Body::Commit { bucket, key, attributes, manifest } => {
                let size = manifest.size().unwrap_or(u64::MAX);
                let record = ObjectRecord { size, large: true, attributes };
                self.settle(&Identity::Object(bucket, key), item(record.encode()), false, Some(&manifest))
            }
            Body::Delete { bucket, key } => self.settle(&Identity::Object(bucket, key), item(Bytes::new()), true, None),
            Body::BucketCreate { bucket, created_unix_ns } => {
                let record = BucketRecord { created_unix_ns };
                self.settle(&Identity::Bucket(bucket), item(record.encode()), false, None)
            }
            Body::BucketDelete { bucket } => self.settle(&Identity::Bucket(bucket), item(Bytes::new()), true, None),
            Body::UploadBegin { bucket, key, attributes } => {
                let record = UploadRecord { bucket, key, attributes };
                self.settle(&Identity::Upload(version), item(record.encode()), false, None)
            }
            Body::UploadEnd { upload } => self.settle(&Identity::Upload(upload), item(Bytes::new()), true, None),
            Body::PartCommit { upload, part, attributes } => {
                self.part(upload, PartRecord { version, location, part, attributes })
            }
            Body::Segment { blob, index } => self.segment(blob, index, location),
        }
    }

    /// True if the entry of that version is older than its bucket, or than its bucket's grave (OS-INX-5). The bucket's
    /// record then remembers the entry's file: its grave stays as long as that.
    pub(super) fn is_of_an_earlier_bucket(
        &mut self,
        bucket: &str,
        version: u64,
        location: Location,
    ) -> IndexResult<bool> {
        let identity = Identity::Bucket(bucket.to_owned());
        let Some((mut present, grave)) = self.current(&identity)? else { return Ok(false) };
        if present.version < version || (!grave && present.is_implied()) {
            return Ok(false);
        }
        present.ghosts.add(location.file);
        self.write(&identity, &present, grave);
        Ok(true)
    }

    /// The newest entry of a key, and whether it is a grave.
    fn current(&self, identity: &Identity) -> IndexResult<Option<(Item, bool)>> {
        let live = self.get(identity.space(), &identity.key())?;
        if let Some(bytes) = live {
            return Ok(Some((Item::decode(&bytes).map_err(spoilt)?, false)));
        }
        let grave = self.get(Space::Graves, &identity.grave())?;
        grave.map(|bytes| Ok((Item::decode(&bytes).map_err(spoilt)?, true))).transpose()
    }

    fn write(&mut self, identity: &Identity, item: &Item, grave: bool) {
        if grave {
            self.put(Space::Graves, identity.grave(), Some(item.encode()));
        } else {
            self.put(identity.space(), identity.key(), Some(item.encode()));
        }
    }

    /// Makes `item` the newest of its key if it is (OS-INX-1).
    fn settle(
        &mut self,
        identity: &Identity,
        mut item: Item,
        grave: bool,
        manifest: Option<&Manifest>,
    ) -> IndexResult<()> {
        if let Some((mut present, present_grave)) = self.current(identity)? {
            if present.version > item.version {
                // An older entry: it is a ghost from the start.
                if !grave {
                    present.ghosts.add(item.location.file);
                    self.write(identity, &present, present_grave);
                }
                // An upload that was completed a second time, because the first answer was an error, gives its parts to
                // two entries: those of the newer one live.
                let kept = if present_grave { Manifest::default() } else { self.manifest(present.version)? };
                let dead = |blob: &&BlobRef| kept.blobs.iter().all(|other| other.blob != blob.blob);
                for blob in manifest.iter().flat_map(|manifest| &manifest.blobs).filter(dead) {
                    self.mark(blob.blob, BlobState::Dead)?;
                }
                return Ok(());
            }
            if present.version == item.version {
                return self.duplicate(identity, present, item.location, grave);
            }
            self.retire(identity, &present, present_grave)?;
            item.ghosts.add_all(&present.ghosts);
            if !present_grave {
                item.ghosts.add(present.location.file);
            }
            self.prune(&mut item.ghosts);
        }
        self.live(item.location, grave);
        self.write(identity, &item, grave);
        match identity {
            Identity::Object(..) if !grave => {
                let record = ObjectRecord::decode(&item.payload).map_err(spoilt)?;
                self.totals.objects = self.totals.objects.saturating_add(1);
                self.totals.object_bytes = self.totals.object_bytes.saturating_add(record.size);
                if let Some(manifest) = manifest {
                    let mut bytes = Vec::new();
                    manifest.put(&mut bytes);
                    self.put(Space::Manifests, keys::number(item.version), Some(bytes));
                    for blob in &manifest.blobs {
                        self.mark(blob.blob, BlobState::Object)?;
                    }
                }
            }
            Identity::Upload(upload) if grave => self.drop_parts(*upload)?,
            Identity::Upload(upload) => {
                let record = UploadRecord::decode(&item.payload).map_err(spoilt)?;
                let name = keys::upload_name(&record.bucket, &record.key, *upload);
                self.put(Space::UploadNames, name, Some(Vec::new()));
            }
            Identity::Object(..) | Identity::Bucket(_) => {}
        }
        Ok(())
    }

    /// The same entry was found at another place: an append that was tried twice, or a copy by GC.
    fn duplicate(&mut self, identity: &Identity, mut present: Item, other: Location, grave: bool) -> IndexResult<()> {
        if present.location == other {
            return Ok(());
        }
        if self.exists(&present.location) {
            if !grave {
                present.ghosts.add(other.file);
            }
        } else {
            self.dead(present.location, grave);
            present.location = other;
            self.live(other, grave);
        }
        self.write(identity, &present, grave);
        Ok(())
    }

    /// Takes the newest entry of a key away, to make room for a newer one or for nothing.
    pub(super) fn retire(&mut self, identity: &Identity, present: &Item, grave: bool) -> IndexResult<()> {
        self.dead(present.location, grave);
        if grave {
            self.put(Space::Graves, identity.grave(), None);
            return Ok(());
        }
        self.put(identity.space(), identity.key(), None);
        match identity {
            Identity::Object(..) => {
                let record = ObjectRecord::decode(&present.payload).map_err(spoilt)?;
                self.totals.objects = self.totals.objects.saturating_sub(1);
                self.totals.object_bytes = self.totals.object_bytes.saturating_sub(record.size);
                if record.large {
                    for blob in self.manifest(present.version)?.blobs {
                        self.mark(blob.blob, BlobState::Dead)?;
                    }
                    self.put(Space::Manifests, keys::number(present.version), None);
                }
            }
            Identity::Upload(upload) => {
                let record = UploadRecord::decode(&present.payload).map_err(spoilt)?;
                let name = keys::upload_name(&record.bucket, &record.key, *upload);
                self.put(Space::UploadNames, name, None);
            }
            Identity::Bucket(_) => {}
        }
        Ok(())
    }

    /// The manifest of a version; an empty one if it has none.
    fn manifest(&self, version: u64) -> IndexResult<Manifest> {
        let Some(bytes) = self.get(Space::Manifests, &keys::number(version))? else { return Ok(Manifest::default()) };
        Manifest::read(&mut Input::new(&bytes)).map_err(spoilt)
    }

    /// GC has copied an entry.
    pub(super) fn moved(&mut self, version: u64, body: &Body, from: Location, to: Location) -> IndexResult<()> {
        match body {
            Body::Segment { blob, index } => return self.move_segment(*blob, *index, from, to),
            Body::PartCommit { upload, part, .. } => {
                let key = keys::part(*upload, part.number);
                let Some(bytes) = self.get(Space::Parts, &key)? else { return Ok(()) };
                let mut record = PartRecord::decode(&bytes).map_err(spoilt)?;
                if record.location == from {
                    record.location = to;
                    self.dead(from, false);
                    self.live(to, false);
                    self.put(Space::Parts, key, Some(record.encode()));
                }
                return Ok(());
            }
            _ => {}
        }
        let Some(identity) = identity(version, body) else { return Ok(()) };
        let grave = is_grave(body);
        let Some((mut present, present_grave)) = self.current(&identity)? else { return Ok(()) };
        if present.version == version && present.location == from {
            present.location = to;
            self.dead(from, grave);
            self.live(to, grave);
            if !grave {
                present.ghosts.add(from.file);
            }
        } else if grave {
            // A copy of a grave nobody needs is harmless: it can only confirm what newer entries say.
            return Ok(());
        } else {
            present.ghosts.add(to.file);
        }
        self.prune(&mut present.ghosts);
        self.write(&identity, &present, present_grave);
        Ok(())
    }

    /// True if the entry at `location` is needed.
    pub(super) fn judge(
        &mut self,
        version: u64,
        body: &Body,
        location: Location,
        collecting: bool,
    ) -> IndexResult<bool> {
        match body {
            Body::Segment { blob, index } => {
                let found = self.get(Space::Segments, &keys::segment(*blob, *index))?;
                let found = found.map(|bytes| Location::decode(&bytes)).transpose().map_err(spoilt)?;
                return Ok(found == Some(location));
            }
            Body::PartCommit { upload, part, .. } => {
                let found = self.get(Space::Parts, &keys::part(*upload, part.number))?;
                let found = found.map(|bytes| PartRecord::decode(&bytes)).transpose().map_err(spoilt)?;
                return Ok(found.is_some_and(|record| record.location == location));
            }
            _ => {}
        }
        let Some(identity) = identity(version, body) else { return Ok(false) };
        let Some((present, grave)) = self.current(&identity)? else { return Ok(false) };
        if present.location != location || grave != is_grave(body) {
            return Ok(false);
        }
        if !collecting || !grave || self.haunted(&present.ghosts, location.file) {
            return Ok(true);
        }
        self.retire(&identity, &present, true)?;
        Ok(false)
    }
}
