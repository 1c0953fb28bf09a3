//! Versions that count once recovery has found all parts, and live bytes of each set.
//!
//! **Knows nothing of** drives and zones: it goes through the index, in the order of names.
//!
//! # Invariants
//! - AS-REC-3: a version counts as complete only if all its parts are there; only then do older ones go. (AS-PUT-1)

use bytes::Bytes;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::Change;
use crate::recovery::recover::RecoveryReport;
use crate::types::{PartPlace, SetId, Version};

/// Parts that are looked at before others have their turn.
const STEP: usize = 4096;

impl Engine {
    /// Drops versions that are not complete, and those that a newer complete one replaced; counts what lives. In steps:
    /// neither memory nor a step grows with the number of objects.
    pub(crate) async fn settle_versions(&self, report: &mut RecoveryReport) -> Result<()> {
        let mut names = Names { opened: self.superblock.opened.get(), ..Names::default() };
        let mut live = Lives(vec![0; self.sets.all().last().map_or(0, |(SetId(last), _)| last as usize + 1)]);
        let mut after = None;
        loop {
            let mut changes = Vec::new();
            let visit = |name: &[u8], version, offset, place: &PartPlace| {
                live.add(place);
                names.part(name, version, offset, place, &mut changes);
            };
            after = self.index()?.for_parts_behind(after.as_ref(), STEP, visit).map_err(Error::index)?;
            if after.is_none() {
                names.end_name(&mut changes);
            }
            if !changes.is_empty() {
                let applied = self.index()?.apply(&changes).map_err(Error::index)?;
                applied.freed.iter().for_each(|place| live.remove(place));
            }
            if after.is_none() {
                break;
            }
            self.rt.yield_now().await;
        }
        // Versions that an earlier opening found and counted are found again as long as their segments are there.
        report.incomplete = names.incomplete;
        for (SetId(number), set) in self.sets.all() {
            set.set_live(live.0[number as usize]);
        }
        Ok(())
    }
}

/// Bytes that live in each set.
struct Lives(Vec<u64>);

impl Lives {
    fn add(&mut self, place: &PartPlace) {
        if let Some(live) = self.0.get_mut(place.set.0 as usize) {
            *live += u64::from(place.length);
        }
    }

    fn remove(&mut self, place: &PartPlace) {
        if let Some(live) = self.0.get_mut(place.set.0 as usize) {
            *live = live.saturating_sub(u64::from(place.length));
        }
    }
}

/// Goes through the parts of the index in order and finds versions that must go.
#[derive(Default)]
struct Names {
    name: Vec<u8>,
    version: Version,
    /// Offset at which the next part of the version has to begin; `None` once one is missing, or the version is
    /// complete.
    next: Option<u64>,
    complete: bool,
    /// The name's newest complete version so far, whether there is an older one, and versions that are not complete.
    newest: Option<Version>,
    replaced: bool,
    torn: Vec<Version>,
    /// Number of all those that came after this stamp.
    incomplete: u64,
    opened: u64,
}

impl Names {
    fn part(&mut self, name: &[u8], version: Version, offset: u64, place: &PartPlace, changes: &mut Vec<Change>) {
        if self.name != name {
            self.end_name(changes);
            self.name.clear();
            self.name.extend_from_slice(name);
            self.begin_version(version);
        } else if self.version != version {
            self.end_version();
            self.begin_version(version);
        }
        match self.next {
            Some(next) if next == offset => {
                self.next = if place.last { None } else { Some(offset + u64::from(place.length)) };
                self.complete = place.last;
            }
            _ => {
                self.next = None;
                self.complete = false;
            }
        }
    }

    fn begin_version(&mut self, version: Version) {
        self.version = version;
        self.next = Some(0);
        self.complete = false;
    }

    fn end_version(&mut self) {
        if self.complete {
            self.replaced = self.newest.replace(self.version).is_some();
        } else {
            self.torn.push(self.version);
        }
    }

    fn end_name(&mut self, changes: &mut Vec<Change>) {
        if self.name.is_empty() {
            return;
        }
        self.end_version();
        let name = Bytes::copy_from_slice(&self.name);
        self.incomplete += self.torn.iter().filter(|version| version.0 > self.opened).count() as u64;
        changes.extend(self.torn.drain(..).map(|version| Change::RemoveVersion { name: name.clone(), version }));
        let replaced = std::mem::take(&mut self.replaced);
        if let Some(version) = self.newest.take().filter(|_| replaced) {
            changes.push(Change::RemoveOlder { name, version });
        }
    }
}
