//! A group being applied: reads see the index with the group's own changes on top.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::about::Totals;
use crate::index::{Batch, Index, IndexResult, Space, scan_prefix};
use crate::keys;
use crate::records::{FileRecord, Ghosts, Location, Position};

pub(super) struct Transaction<'a> {
    index: &'a dyn Index,
    changes: BTreeMap<(Space, Vec<u8>), Option<Bytes>>,
    files: &'a mut BTreeMap<u64, FileRecord>,
    touched: BTreeSet<u64>,
    dead: Vec<u64>,
    pub(super) totals: &'a mut Totals,
    before: Totals,
    /// There may be entries nobody knows of: every grave may be needed.
    pub(super) keep_graves: &'a mut bool,
}

impl<'a> Transaction<'a> {
    pub(super) fn begin(
        index: &'a dyn Index,
        files: &'a mut BTreeMap<u64, FileRecord>,
        totals: &'a mut Totals,
        keep_graves: &'a mut bool,
    ) -> Self {
        let (changes, touched, dead, before) = (BTreeMap::new(), BTreeSet::new(), Vec::new(), *totals);
        Self { index, changes, files, touched, dead, totals, before, keep_graves }
    }

    /// The batch to write, the files that changed, and the blobs that died.
    #[expect(clippy::type_complexity, reason = "taken apart at once by its only callers")]
    pub(super) fn finish(mut self) -> (Batch, Vec<(u64, Option<FileRecord>)>, Vec<u64>) {
        let files: Vec<_> = self.touched.iter().map(|file| (*file, self.files.get(file).copied())).collect();
        for (file, record) in &files {
            self.put(Space::Files, keys::number(*file), record.map(|record| record.encode()));
        }
        if *self.totals != self.before {
            let totals = self.totals.encode();
            self.put(Space::About, keys::ABOUT_TOTALS.to_vec(), Some(totals));
        }
        let changes =
            self.changes.into_iter().map(|((space, key), value)| (space, key, value.map(|value| value.to_vec())));
        (Batch { changes: changes.collect() }, files, self.dead)
    }

    pub(super) fn get(&self, space: Space, key: &[u8]) -> IndexResult<Option<Bytes>> {
        match self.changes.get(&(space, key.to_vec())) {
            Some(value) => Ok(value.clone()),
            None => self.index.get(space, key),
        }
    }

    pub(super) fn put(&mut self, space: Space, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.changes.insert((space, key), value.map(Bytes::from));
    }

    /// The first `limit` records whose keys begin with `prefix`, in order.
    pub(super) fn prefix(&self, space: Space, prefix: &[u8], limit: usize) -> IndexResult<Vec<(Vec<u8>, Bytes)>> {
        let own = self.changes.range((space, prefix.to_vec())..);
        let own = own.take_while(|((at, key), _)| *at == space && key.starts_with(prefix));
        let mut found: BTreeMap<Vec<u8>, Option<Bytes>> =
            own.map(|((_, key), value)| (key.clone(), value.clone())).collect();
        let mut stored = 0;
        scan_prefix(self.index, space, prefix, &mut |key, value| {
            // A record that this group removes does not count towards the limit.
            match found.entry(key.to_vec()) {
                std::collections::btree_map::Entry::Occupied(_) => {}
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(Some(value));
                    stored += 1;
                }
            }
            stored < limit
        })?;
        Ok(found.into_iter().filter_map(|(key, value)| Some((key, value?))).take(limit).collect())
    }

    /// Notes that an entry at `location` became needed.
    pub(super) fn live(&mut self, location: Location, grave: bool) {
        self.adjust(location, grave, u64::saturating_add);
    }

    /// Notes that it no longer is.
    pub(super) fn dead(&mut self, location: Location, grave: bool) {
        self.adjust(location, grave, u64::saturating_sub);
    }

    fn adjust(&mut self, location: Location, grave: bool, change: impl Fn(u64, u64) -> u64) {
        if let Some(record) = self.files.get_mut(&location.file) {
            record.live_bytes = change(record.live_bytes, location.length());
            if grave {
                record.grave_bytes = change(record.grave_bytes, location.length());
            }
            self.touched.insert(location.file);
        }
    }

    pub(super) fn blob_died(&mut self, blob: u64) {
        self.dead.push(blob);
    }

    /// True if the chunk at `location` is there.
    pub(super) fn exists(&self, location: &Location) -> bool {
        self.files.get(&location.file).is_some_and(|record| record.first <= location.ordinal)
    }

    pub(super) fn haunted(&self, ghosts: &Ghosts, except: u64) -> bool {
        *self.keep_graves || ghosts.haunt(self.files.keys(), except, |file| self.files.contains_key(&file))
    }

    pub(super) fn prune(&self, ghosts: &mut Ghosts) {
        ghosts.prune(|file| self.files.contains_key(&file), self.files.keys().next().copied());
    }

    pub(super) fn add_file(&mut self, file: u64, store: u64, first: u32) {
        let record = self.files.entry(file).or_insert(FileRecord { store, ..FileRecord::default() });
        record.first = record.first.max(first);
        self.touched.insert(file);
    }

    /// Marks a file as being deleted; or its live bytes, if it has any.
    pub(super) fn begin_drop(&mut self, file: u64) -> Option<u64> {
        let record = self.files.get_mut(&file)?;
        if record.live_bytes > 0 {
            return Some(record.live_bytes);
        }
        record.dropping = true;
        self.touched.insert(file);
        None
    }

    pub(super) fn remove_file(&mut self, file: u64) {
        self.files.remove(&file);
        self.touched.insert(file);
    }

    pub(super) fn set_indexed(&mut self, file: u64, position: Position) {
        if let Some(record) = self.files.get_mut(&file)
            && record.indexed < position
        {
            record.indexed = position;
            self.touched.insert(file);
        }
    }
}
