//! Comparing index and drives, also while clients and GC change both.
//!
//! # Invariants
//! - OS-CHECK-1: what is changed meanwhile is no damage. A record that points nowhere is damaged only if it still says so when it is
//!   read again: what it points to goes later than the record does. Sums are compared of files that nothing has changed in since
//!   the check began. `what_clients_and_gc_change_during_a_check_is_no_damage`.
//! - OS-CHECK-2: a check may be dropped anywhere: it holds a file at a time, and lets go of it. `a_check_that_nobody_waits_for_ends`.

mod dump;
mod hurt;
mod named;
mod problems;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use shingle_base::{StoreId, printable};
use shingle_runtime::Rests;
use shingle_store_api::StoreResult;

use crate::engine::Core;
use crate::errors::{from_chunk, from_record, unavailable};
use crate::files::pins::Pinnable;
use crate::files::pins::Release;
use crate::format::Manifest;
use crate::index::{Space, Step};
use crate::indexer::{Command, Effect};
use crate::keys;
use crate::records::{Item, Location, ObjectRecord, PartRecord};
use crate::scan::{Next, Scanned, Scanner};
use crate::wire::{Input, Malformed};
use hurt::Hurt;
use problems::Problems;

pub use report::{CheckProgress, CheckReport, DAMAGE_MAX, Depth, ObjectName};

/// Records read from the index at a time.
const PAGE: usize = 1000;
/// Bytes after which it is told how far a check is.
const TOLD_BYTES: u64 = 4 << 20;

/// A check under way.
struct Check {
    core: Rc<Core>,
    report: CheckReport,
    /// Bytes the index's records point to, by file.
    live: BTreeMap<u64, u64>,
    /// Changes of each file when the check began.
    changes: BTreeMap<u64, u64>,
    hurt: Hurt,
    problems: Problems,
    rests: Rests,
}

/// A file that stays as long as this lives.
struct Pinned {
    core: Rc<Core>,
    file: Arc<Pinnable>,
}

impl Pinned {
    /// None where the file has gone, or is going.
    fn new(core: &Rc<Core>, file: u64) -> Option<Self> {
        let file = core.direct.files.find(file)?;
        file.pin().then(|| Self { core: core.clone(), file })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if self.file.unpin() {
            self.core.release(Release::File);
        }
    }
}

impl Core {
    /// Compares index and drives; if `gently`, it rests as long as it reads.
    pub(crate) async fn check(
        self: &Rc<Self>,
        depth: Depth,
        gently: bool,
        progress: &mut dyn FnMut(CheckProgress),
    ) -> StoreResult<CheckReport> {
        self.working()?;
        // Remains of dead blobs would be there for one part of the check and gone for the next.
        self.purge_all().await;
        let changes = self.files.borrow().iter().map(|(number, file)| (number, file.changes)).collect();
        let mut check = Check {
            core: self.clone(),
            report: CheckReport::default(),
            live: BTreeMap::new(),
            changes,
            hurt: Hurt::default(),
            problems: Problems::default(),
            rests: Rests::new(&self.runtime, gently),
        };
        check.records().await?;
        check.manifests().await?;
        check.files(depth, progress).await?;
        check.name_damaged().await?;
        let (damage, damage_more) = check.problems.told();
        Ok(CheckReport { damage, damage_more, ..check.report })
    }

    /// A space's records, a page at a time; none after the last.
    async fn page(&self, space: Space, from: Vec<u8>) -> StoreResult<Vec<(Vec<u8>, Bytes)>> {
        self.read(move |index| {
            let mut page = Vec::new();
            index.scan(space, &from, &mut |key, value| {
                page.push((key.to_vec(), value));
                if page.len() < PAGE { Step::Next } else { Step::Stop }
            })?;
            Ok(page)
        })
        .await
    }
}

impl Check {
    /// Notes a damaged object or upload, if there is room for its name.
    fn name(&mut self, name: ObjectName, list: impl Fn(&mut CheckReport) -> &mut BTreeSet<ObjectName>) {
        let names = list(&mut self.report);
        if names.len() < DAMAGE_MAX || names.contains(&name) {
            names.insert(name);
        } else {
            self.report.unnamed = true;
        }
    }

    /// Fails if the check is to end; rests if a rest is due.
    async fn go_on(&mut self) -> StoreResult<()> {
        self.core.working()?;
        if self.core.closing.get() {
            return Err(unavailable("the object store is being closed"));
        }
        self.rests.rest().await;
        Ok(())
    }

    /// Calls `look` with each record of a space.
    async fn each(&mut self, space: Space, mut look: impl FnMut(&mut Self, &[u8], &Bytes)) -> StoreResult<()> {
        let mut from = Vec::new();
        loop {
            self.go_on().await?;
            let page = self.core.page(space, from).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            from = [last.as_slice(), &[0]].concat();
            page.iter().for_each(|(key, value)| look(self, key, value));
        }
    }

    /// Present value of a key in the index.
    async fn now(&self, space: Space, key: &[u8]) -> StoreResult<Option<Bytes>> {
        let key = key.to_vec();
        self.core.read(move |index| index.get(space, &key)).await
    }

    /// Every record points into a file that is there.
    async fn records(&mut self) -> StoreResult<()> {
        let spaces = [Space::Buckets, Space::Objects, Space::Uploads, Space::Graves, Space::Parts, Space::Segments];
        for space in spaces {
            let mut from = Vec::new();
            loop {
                self.go_on().await?;
                let page = self.core.page(space, from).await?;
                let Some((last, _)) = page.last() else { break };
                from = [last.as_slice(), &[0]].concat();
                for (key, value) in &page {
                    self.report.objects += u64::from(space == Space::Objects);
                    match located(space, value) {
                        Ok(location) => self.location(space, key, location).await?,
                        Err(error) => {
                            let words = format!("index: {}: {error}", readable(space, key));
                            let problem = match space {
                                Space::Objects => self.problems.named(words),
                                _ => self.problems.untold(words),
                            };
                            self.damaged_object(key, [problem]);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    async fn location(&mut self, space: Space, key: &[u8], mut location: Location) -> StoreResult<()> {
        *self.live.entry(location.file).or_default() += location.length();
        let wrong = loop {
            let Some(wrong) = self.wrong(&location) else { return Ok(()) };
            // GC, or whoever deleted it, changed the record before that of which it tells went. (OS-CHECK-1)
            let now = self.now(space, key).await?;
            match now.map(|value| located(space, &value)) {
                None => return Ok(()),
                Some(Ok(now)) if now != location => location = now,
                Some(_) => break wrong,
            }
        };
        let place = format!("{} in {}: {wrong}", readable(space, key), self.file(location.file));
        let problems = &mut self.problems;
        match space {
            Space::Objects => {
                let problem = problems.named(place);
                self.damaged_object(key, [problem]);
            }
            Space::Segments => {
                let problem = problems.at(place);
                keys::split_segment(key).into_iter().for_each(|(blob, _)| self.hurt.blob(blob, [problem]));
            }
            Space::Parts => {
                let problem = problems.at(place);
                self.hurt.place((location.file, location.ordinal), (location.offset, location.end()), problem);
            }
            _ => drop(problems.named(place)),
        }
        Ok(())
    }

    /// A file, and the drive that it is on.
    fn file(&self, number: u64) -> String {
        match self.core.files.borrow().get(number) {
            Some(file) => format!("file {number} of {}", self.core.options.name_of(StoreId(file.record.store))),
            None => format!("file {number}"),
        }
    }

    /// Reason why no entry can lie there, if there is one.
    fn wrong(&self, location: &Location) -> Option<String> {
        let files = self.core.files.borrow();
        match files.get(location.file) {
            None => Some("the file is not there".to_owned()),
            Some(file) if file.drive.is_none() => Some("the drive is missing".to_owned()),
            Some(file) => {
                let open = file.tail.filter(|tail| tail.ordinal == location.ordinal).map(|tail| tail.next);
                match file.closed.get(&location.ordinal).map(|end| end.most()).or(open) {
                    None => Some(format!("its chunk {} is not there", location.ordinal)),
                    Some(size) if size < location.end() => Some("it lies beyond its chunk's end".to_owned()),
                    Some(_) => None,
                }
            }
        }
    }

    /// Every large object has all its segments.
    async fn manifests(&mut self) -> StoreResult<()> {
        let mut from = Vec::new();
        loop {
            self.go_on().await?;
            let page = self.core.page(Space::Objects, from).await?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            from = [last.as_slice(), &[0]].concat();
            for (key, value) in &page {
                let item = Item::decode(value).map_err(from_record)?;
                let record = ObjectRecord::decode(&item.payload).map_err(from_record)?;
                if !record.large {
                    continue;
                }
                let version = keys::number(item.version);
                let bytes = self.core.read(move |index| index.get(Space::Manifests, &version)).await?;
                let missing = match bytes {
                    None => Some("its list of segments is missing".to_owned()),
                    Some(bytes) => {
                        let manifest = Manifest::read(&mut Input::new(&bytes)).map_err(from_record)?;
                        self.segments(&manifest).await?
                    }
                };
                // An object that went took them with it. (OS-CHECK-1)
                if let Some(missing) = missing
                    && self.is_present(key, item.version).await?
                {
                    let problem = self.problems.named(format!("{}: {missing}", readable(Space::Objects, key)));
                    self.damaged_object(key, [problem]);
                }
            }
        }
    }

    /// True if the object has that version now.
    async fn is_present(&self, key: &[u8], version: u64) -> StoreResult<bool> {
        let Some(value) = self.now(Space::Objects, key).await? else { return Ok(false) };
        Ok(Item::decode(&value).map_err(from_record)?.version == version)
    }

    /// Description of an object's missing segments, if there are any.
    async fn segments(&mut self, manifest: &Manifest) -> StoreResult<Option<String>> {
        for blob in manifest.blobs.clone() {
            let missing = self.core.read(move |index| {
                let mut next = 0u64;
                let mut missing = None;
                index.scan(Space::Segments, &keys::number(blob.blob), &mut |key, value| {
                    let Some((of, at)) = keys::split_segment(key).filter(|(of, _)| *of == blob.blob) else {
                        return Step::Stop;
                    };
                    debug_assert_eq!(of, blob.blob);
                    let left = blob.size - next.min(blob.segments()) * u64::from(blob.segment_bytes).min(blob.size);
                    let want = left.min(u64::from(blob.segment_bytes));
                    let have = Location::decode(&value).map_or(0, |location| u64::from(location.data));
                    if u64::from(at) != next || have != want {
                        missing = Some(next);
                        return Step::Stop;
                    }
                    next += 1;
                    Step::Next
                })?;
                Ok(missing.or((next != blob.segments()).then_some(next)))
            });
            if let Some(index) = missing.await? {
                return Ok(Some(format!("segment {index} of blob {} is missing", blob.blob)));
            }
        }
        Ok(None)
    }

    /// True if a file has not changed since the check began, as far as the index tells. (OS-CHECK-1)
    async fn is_unchanged(&self, file: u64) -> bool {
        // Behind it the files' records tell all that the index has. An index that takes no changes now says nothing.
        let settled = self.core.submit(Vec::new()).await.is_ok();
        let files = self.core.files.borrow();
        settled && files.get(file).is_some_and(|found| self.changes.get(&file) == Some(&found.changes))
    }

    /// Every file's live bytes are what records point to; in a full check also what its entries say.
    async fn files(&mut self, depth: Depth, progress: &mut dyn FnMut(CheckProgress)) -> StoreResult<()> {
        let found: Vec<_> = {
            let files = self.core.files.borrow();
            files.iter().map(|(number, file)| (number, file.drive, file.size())).collect()
        };
        let mut now = CheckProgress { done: 0, all: found.iter().map(|(.., size)| size).sum() };
        for (number, drive, size) in found {
            self.go_on().await?;
            progress(now);
            let counted = self.live.get(&number).copied().unwrap_or(0);
            if self.is_unchanged(number).await {
                let live = self.core.files.borrow().get(number).map_or(counted, |file| file.record.live_bytes);
                if counted != live {
                    let words =
                        format!("{}: the index counts {live} live bytes, its records {counted}", self.file(number));
                    self.problems.named(words);
                }
            }
            if depth == Depth::Full && drive.is_some() {
                let mut read = |bytes: u64| progress(CheckProgress { done: now.done + bytes.min(size), all: now.all });
                let found = self.entries(number, &mut read).await?;
                if let Some(found) = found
                    && found != counted
                    && self.is_unchanged(number).await
                {
                    let words = format!("{}: records point to {counted} bytes, entries are {found}", self.file(number));
                    self.problems.untold(words);
                }
            }
            now.done += size;
        }
        Ok(())
    }

    /// Reads all of a file, and tells how many bytes; returns the bytes of entries in it that are needed, or nothing of a file that has
    /// gone.
    async fn entries(&mut self, number: u64, read: &mut dyn FnMut(u64)) -> StoreResult<Option<u64>> {
        let Some(_pinned) = Pinned::new(&self.core, number) else { return Ok(None) };
        let chunks: Vec<u32> = match self.core.files.borrow().get(number) {
            Some(file) => file.closed.keys().copied().chain(file.tail.map(|tail| tail.ordinal)).collect(),
            None => Vec::new(),
        };
        let (mut needed, mut done, mut told) = (0, 0, 0);
        for ordinal in chunks {
            let Some((client, name)) = self.core.chunk_of(number, ordinal) else { continue };
            let size = match client.stat(name.id()).await {
                Ok(stat) => stat.size,
                Err(error) => {
                    let problem = self.problems.at(format!("{}: chunk {ordinal}: {error}", self.file(number)));
                    self.hurt.place((number, ordinal), (0, u64::MAX), problem);
                    continue;
                }
            };
            let mut scanner = Scanner::new(client, name, 0, size);
            loop {
                self.go_on().await?;
                match scanner.next().await.map_err(from_chunk)? {
                    Next::End => break,
                    Next::Damage { from, to, why, .. } => {
                        let place = format!("{}: chunk {ordinal}: bytes {from} to {to}: {why}", self.file(number));
                        let problem = self.problems.at(place);
                        self.hurt.place((number, ordinal), (from, to), problem);
                    }
                    Next::Entry(scanned) => {
                        let end = done + scanned.location.end();
                        if end >= told + TOLD_BYTES {
                            told = end;
                            read(told);
                        }
                        needed += self.entry(&mut scanner, scanned).await?;
                    }
                }
            }
            done += size;
        }
        Ok(Some(needed))
    }

    /// Reads an entry's data; its bytes if it is needed.
    async fn entry(&mut self, scanner: &mut Scanner, scanned: Scanned) -> StoreResult<u64> {
        let Scanned { version, body, location } = scanned;
        self.report.entries += 1;
        self.report.bytes += location.length();
        if let Err(error) = scanner.data(&location).await {
            let Location { file, ordinal, offset, .. } = location;
            let end = location.end();
            let place = format!("{}: chunk {ordinal}: data of bytes {offset} to {end}: {error}", self.file(file));
            let problem = self.problems.at(place);
            self.hurt.place((file, ordinal), (offset, end), problem);
        }
        let judge = Command::Judge { version, body, location, collecting: false };
        let needed = self.core.submit(vec![judge]).await? == [Effect::Needed(true)];
        Ok(if needed { location.length() } else { 0 })
    }
}

/// The place that a record tells of.
fn located(space: Space, value: &Bytes) -> Result<Location, Malformed> {
    match space {
        Space::Segments => Location::decode(value),
        Space::Parts => PartRecord::decode(value).map(|record| record.location),
        _ => Item::decode(value).map(|item| item.location),
    }
}

/// An index's key for people.
fn readable(space: Space, key: &[u8]) -> String {
    let number = |key: &[u8]| keys::split_number(key).unwrap_or(0);
    let pair = |key: &[u8]| keys::split_part(key).unwrap_or((0, 0));
    match space {
        Space::Objects => match keys::split_object(key) {
            Some((bucket, key)) => {
                format!("object {}", ObjectName { bucket: bucket.to_owned(), key: key.to_owned() })
            }
            None => format!("object {}", printable(key)),
        },
        Space::Buckets => format!("bucket {}", printable(key)),
        Space::Uploads => format!("upload {}", number(key)),
        Space::Parts => format!("part {} of upload {}", pair(key).1, pair(key).0),
        Space::Segments => format!("segment {} of blob {}", pair(key).1, pair(key).0),
        _ => format!("{} {}", space.name(), printable(key)),
    }
}
