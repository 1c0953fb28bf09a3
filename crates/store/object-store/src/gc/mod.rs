//! Object GC: files that hold much garbage are rewritten and deleted.
//!
//! # Invariants
//! - OS-GC-1: a file is deleted only once the index, durably, needs nothing in it and no reader has it pinned.
//!   `a_file_is_deleted_only_once_the_index_durably_needs_nothing_in_it`.
//! - OS-GC-2: its chunks go in order, oldest first: a grave is never gone before what it buries.
//! - OS-GC-3: the foreground never waits for GC unless the drives are full.
//! - OS-GC-4: a file has one collector at a time ([`Claim`]), from the moment it is picked. Were there two, one could drop the
//!   file, and so have a grave forgotten, while the other still appends a copy of what the grave buries.
//!   `two_collectors_never_take_one_file_and_nothing_deleted_comes_back`.
//! - OS-GC-5: a collector writes its copies to files of its own. It copies an object before a grave of it only: what it copies is
//!   judged, appended and indexed before it goes on to another file, and the file of a grave that came since is another one.
//!   So no file that GC writes has a grave in front of what it buries, and OS-GC-2 holds for it. In a file that two
//!   wrote one could append an object that it judged before the grave came, behind the other's copy of that grave.
//!   `collectors_do_not_share_a_file`.

mod given_up;
mod state;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::select;
use shingle_chunk_store::ErrorKind;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

use crate::drives::{Class, DriveState};
use crate::engine::Core;
use crate::errors::from_chunk;
use crate::files::{Log, LogFile};
use crate::format::{ChunkName, Entry, Sealed};
use crate::indexer::{Command, Effect};
use crate::records::Location;
use crate::scan::{Next, Scanned, Scanner};

pub use given_up::Emptied;
pub(crate) use state::GcState;

/// Entries judged at a time.
const JUDGE_MAX: usize = 128;
/// Bytes copied in one append, unless an entry alone is longer.
const COPY_BYTES: u64 = 1 << 20;
/// The garbage fraction worth a rewrite when space is short.
const FRACTION_LEAST: f64 = 0.05;

/// Effort of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As much as the drive's fullness calls for.
    Background,
    /// Everything with garbage in it, at once.
    Full,
}

impl Core {
    /// Collects garbage on `drive`, in the background, until the engine closes.
    pub(crate) async fn run_gc(self: Rc<Self>, drive: usize) {
        // It tries each second: the same reason is told once.
        let mut told = None;
        loop {
            let wanted = self.gc.wanted.notified();
            if self.closing.get() || self.working().is_err() {
                return;
            }
            let failed = self.gc_round(drive, drive as u64, Effort::Background).await.err();
            if let Some(error) = failed.as_ref().filter(|error| told != Some(error.kind)) {
                tracing::warn!(%error, "object GC could not go on; it will try again");
            }
            told = failed.map(|error| error.kind);
            *self.gc.rounds.borrow_mut().entry(drive).or_default() += 1;
            self.changed.notify_waiters();
            let pause = self.runtime.sleep(self.options.gc.interval);
            let _ = select(Box::pin(pause), Box::pin(wanted)).await;
        }
    }

    /// Wakes GC, and every task that waits to look at something again.
    pub(crate) fn wake_gc(&self) {
        self.gc.wanted.notify_waiters();
    }

    /// Waits until GC has freed something, if it can. `false` if it cannot.
    pub(crate) async fn wait_for_gc(&self) -> bool {
        if !self.options.gc.enabled || !self.files.borrow().victims().any() {
            return false;
        }
        let freed = self.gc.freed.get();
        let before: BTreeMap<usize, u64> = self.gc.rounds.borrow().clone();
        self.gc.waiting.set(self.gc.waiting.get() + 1);
        let came = loop {
            let changed = self.changed.notified();
            self.wake_gc();
            if self.gc.freed.get() > freed {
                break true;
            }
            // The round under way may have begun before the wish: the one after it counts.
            if self.closing.get() || self.working().is_err() || self.rounds_since(&before, 2) {
                break false;
            }
            changed.await;
        };
        self.gc.waiting.set(self.gc.waiting.get() - 1);
        came
    }

    /// True if every drive that answers has had `count` more passes since there were `before` (OS-PAT-2).
    fn rounds_since(&self, before: &BTreeMap<usize, u64>, count: u64) -> bool {
        let rounds = self.gc.rounds.borrow();
        let of = |rounds: &BTreeMap<usize, u64>, drive| rounds.get(&drive).copied().unwrap_or(0);
        let drives = self.drives.borrow();
        let passed = |(number, drive): (usize, &DriveState)| {
            drive.is_silent() || of(&rounds, number) >= of(before, number) + count
        };
        drives.iter().enumerate().all(passed)
    }

    /// Collects on all drives until nothing more can be gained. Returns the bytes of files deleted.
    pub(crate) async fn collect_all(self: &Rc<Self>) -> StoreResult<u64> {
        let collector = self.new_collector();
        let freed = self.collect_all_as(collector).await;
        self.close_files_of(collector).await;
        freed
    }

    /// A collector beside those of the drives.
    fn new_collector(&self) -> u64 {
        let drives = self.drives.borrow().len() as u64;
        drives + self.gc.collectors.replace(self.gc.collectors.get() + 1)
    }

    /// Closes what a collector has written to: nobody else goes on with it (OS-GC-5).
    async fn close_files_of(self: &Rc<Self>, collector: u64) {
        let left = self.files.borrow().of_collector(collector);
        for number in left {
            let open = self.files.borrow().get(number).and_then(|file| file.tail).map(|tail| tail.ordinal);
            if let Some(ordinal) = open {
                self.close_chunk(number, ordinal, false).await;
            }
        }
    }

    async fn collect_all_as(self: &Rc<Self>, collector: u64) -> StoreResult<u64> {
        let before = self.gc.freed.get();
        loop {
            let at = self.gc.freed.get();
            while self.purge_all().await {}
            let drives = self.drives.borrow().len();
            for drive in 0..drives {
                self.gc_round(drive, collector, Effort::Full).await?;
            }
            // Deleting files makes graves in others needless.
            if self.gc.freed.get() == at {
                return Ok(at - before);
            }
        }
    }

    /// One pass over a drive's files: the one with most garbage first, until none is worth it.
    async fn gc_round(self: &Rc<Self>, drive: usize, collector: u64, effort: Effort) -> StoreResult<()> {
        match effort {
            Effort::Full => self.refresh_drives().await,
            Effort::Background => self.refresh_ahead(),
        }
        loop {
            self.working()?;
            if self.closing.get() {
                return Ok(());
            }
            let fraction = self.worthwhile(drive, effort);
            // No await in between (OS-GC-4).
            let Some((file, step)) = self.pick(drive, fraction, effort) else { return Ok(()) };
            let claim = Claim::new(self, file, collector);
            match step {
                GcStep::Finish => self.finish_drop(&claim).await?,
                GcStep::Graves => self.judge_graves(&claim).await?,
                GcStep::Collect => self.collect(&claim, effort).await?,
            }
        }
    }

    /// The garbage fraction from which a file is worth rewriting.
    fn worthwhile(&self, drive: usize, effort: Effort) -> f64 {
        let gc = &self.options.gc;
        if effort == Effort::Full || self.gc.waiting.get() > 0 {
            return f64::MIN_POSITIVE;
        }
        let free = self.drives.borrow()[drive].free_fraction();
        if free >= gc.free_fraction_low {
            return gc.garbage_fraction;
        }
        (gc.garbage_fraction * free / gc.free_fraction_low).max(FRACTION_LEAST)
    }

    /// The file to work on next, and what to do with it: the one with most garbage, and graves only where no file is worth a rewrite.
    fn pick(&self, drive: usize, worthwhile: f64, effort: Effort) -> Option<(u64, GcStep)> {
        let mut files = self.files.borrow_mut();
        files.look_again(drive, self.gc.dropped.get());
        let hurry = effort == Effort::Full || self.gc.waiting.get() > 0;
        let with = |number: u64, is: &dyn Fn(&LogFile) -> bool| files.get(number).is_some_and(is);
        let idle = |file: &LogFile| file.pending.is_empty() && !file.collecting;
        let victims = files.victims();
        let over = |file: &LogFile| !file.is_pinned() && !file.collecting;
        if let Some(number) = victims.ending(drive).find(|number| with(*number, &over)) {
            return Some((number, GcStep::Finish));
        }
        let rewritten = |file: &LogFile| idle(file) && self.may_close(file, hurry);
        if let Some(number) = victims.with_garbage(drive, worthwhile).find(|number| with(*number, &rewritten)) {
            return Some((number, GcStep::Collect));
        }
        let number = victims.with_graves(drive, worthwhile).find(|number| with(*number, &idle))?;
        Some((number, GcStep::Graves))
    }

    /// True if a file is finished, or may be finished early to get at its garbage.
    fn may_close(&self, file: &LogFile, hurry: bool) -> bool {
        match (&file.tail, file.appendable()) {
            (None, _) => true,
            // Small files are left open: closing them again and again would litter the drive.
            (Some(_), Some(tail)) => {
                file.outstanding == 0 && file.garbage() > 0 && (hurry || file.size() > (tail.room + file.size()) / 4)
            }
            (Some(_), None) => false,
        }
    }

    /// Forgets graves in a file that bury nothing any more, without rewriting it.
    async fn judge_graves(self: &Rc<Self>, claim: &Claim<'_>) -> StoreResult<()> {
        let dropped = self.gc.dropped.get();
        let result = self.walk(claim, Effort::Full, false).await;
        // Another look is due if a file has been dropped meanwhile.
        if self.gc.dropped.get() == dropped {
            self.files.borrow_mut().see_graves(claim.file, dropped);
        }
        result.map(drop)
    }

    /// Rewrites what a file holds that is needed, and deletes the file.
    async fn collect(self: &Rc<Self>, claim: &Claim<'_>, effort: Effort) -> StoreResult<()> {
        let number = claim.file;
        let open = self.files.borrow().get(number).and_then(|file| file.tail).map(|tail| tail.ordinal);
        if let Some(ordinal) = open {
            self.close_chunk(number, ordinal, false).await;
        }
        let idle = |file: &LogFile| file.pending.is_empty() && file.tail.is_none();
        if !self.files.borrow().get(number).is_some_and(idle) {
            return Ok(());
        }
        let whole = self.walk(claim, effort, true).await?;
        self.stats.borrow_mut().gc_files += 1;
        let effects = self.submit(vec![Command::Dropping { file: number }]).await?;
        if let Some(Effect::Refused(live)) = effects.first() {
            let why = if whole { "the index needs more of it than it holds" } else { "not all of it could be read" };
            tracing::warn!(file = number, live, why, "a file stays: something in it is needed");
            self.with_file(number, |file| file.damaged = true);
            self.stats.borrow_mut().gc_damaged_files += 1;
            return Ok(());
        }
        let pinned = self.files.borrow().get(number).is_some_and(LogFile::is_pinned);
        // A pinned file is left to a later pass.
        if pinned { Ok(()) } else { self.finish_drop(claim).await }
    }

    fn with_file(&self, number: u64, change: impl FnOnce(&mut LogFile)) {
        if let Some(mut file) = self.files.borrow_mut().get_mut(number) {
            change(&mut file);
        }
    }

    /// Goes through a file's entries, and copies the needed ones if `copy`. Returns true if all could be read.
    async fn walk(self: &Rc<Self>, claim: &Claim<'_>, effort: Effort, copy: bool) -> StoreResult<bool> {
        let number = claim.file;
        let chunks: Vec<u32> = match self.files.borrow().get(number) {
            Some(file) => file.closed.keys().copied().chain(file.tail.map(|tail| tail.ordinal)).collect(),
            None => return Ok(true),
        };
        // Nothing in it is needed: it can go unread.
        let needless = |file: &LogFile| file.record.live_bytes == 0;
        if self.files.borrow().get(number).is_some_and(needless) {
            return Ok(true);
        }
        let mut whole = true;
        for ordinal in chunks {
            whole &= self.walk_chunk(claim, ordinal, effort, copy).await?;
        }
        Ok(whole)
    }

    async fn walk_chunk(
        self: &Rc<Self>,
        claim: &Claim<'_>,
        ordinal: u32,
        effort: Effort,
        copy: bool,
    ) -> StoreResult<bool> {
        let Some((client, name)) = self.chunk_of(claim.file, ordinal) else { return Ok(false) };
        let size = match client.stat(name.id()).await {
            Ok(stat) => stat.size,
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(from_chunk(error)),
        };
        let mut scanner = Scanner::new(client, name, 0, size);
        let (mut whole, mut ended) = (true, false);
        let mut copies = Copies::of(claim.collector);
        while !ended {
            let began = (self.runtime.now(), scanner.read, copies.total);
            let mut found: Vec<(Scanned, Option<Bytes>)> = Vec::new();
            while found.len() < JUDGE_MAX {
                match scanner.next().await.map_err(from_chunk)? {
                    Next::Entry(scanned) => {
                        let data = scanner.buffered(&scanned.location);
                        found.push((scanned, data));
                    }
                    Next::Damage { from, to, why, .. } => {
                        tracing::warn!(chunk = %name.id(), from, to, why, "GC cannot read a part of a chunk");
                        whole = false;
                    }
                    Next::End => {
                        ended = true;
                        break;
                    }
                }
            }
            let judge = |(scanned, _): &(Scanned, Option<Bytes>)| Command::Judge {
                version: scanned.version,
                body: scanned.body.clone(),
                location: scanned.location,
                collecting: true,
            };
            let effects = self.submit(found.iter().map(judge).collect()).await?;
            for ((scanned, data), effect) in found.into_iter().zip(effects) {
                if !copy || effect != Effect::Needed(true) {
                    continue;
                }
                let data = match data {
                    Some(data) => data,
                    None => match scanner.data(&scanned.location).await {
                        Ok(data) => data,
                        Err(error) => {
                            tracing::warn!(%error, chunk = %name.id(), "GC cannot read an entry that is needed");
                            whole = false;
                            continue;
                        }
                    },
                };
                self.copy(&mut copies, scanned, data).await?;
            }
            if effort == Effort::Background {
                let bytes = (scanner.read - began.1) + (copies.total - began.2);
                self.throttle(began.0, bytes).await;
            }
        }
        self.flush(&mut copies).await?;
        Ok(whole)
    }

    pub(crate) fn chunk_of(&self, number: u64, ordinal: u32) -> Option<(shingle_chunk_store::ChunkClient, ChunkName)> {
        let files = self.files.borrow();
        let file = files.get(number)?;
        let name = ChunkName { file: number, ordinal, stream: file.stream, set: self.set };
        Some((self.drives.borrow()[file.drive?].client.clone(), name))
    }

    /// Adds an entry to the next append of copies.
    async fn copy(self: &Rc<Self>, copies: &mut Copies, scanned: Scanned, data: Bytes) -> StoreResult<()> {
        let entry = Entry { version: scanned.version, body: scanned.body };
        let data = if data.is_empty() { Vec::new() } else { vec![data] };
        let sealed = Sealed::new(entry, data)
            .map_err(|error| StoreError::caused(StoreErrorKind::Corrupt, error.to_string(), error))?;
        let length = sealed.length();
        let most =
            self.drives.borrow().iter().filter_map(|drive| drive.room).min().unwrap_or(COPY_BYTES).min(COPY_BYTES);
        if !copies.entries.is_empty() && copies.bytes + length > most {
            self.flush(copies).await?;
        }
        copies.bytes += length;
        copies.entries.push(sealed);
        copies.from.push(scanned.location);
        Ok(())
    }

    /// Appends the copies, and has the index point to them.
    async fn flush(self: &Rc<Self>, copies: &mut Copies) -> StoreResult<()> {
        let rest = Copies { total: copies.total + copies.bytes, ..Copies::of(copies.collector) };
        let Copies { collector, entries, from, bytes, .. } = std::mem::replace(copies, rest);
        if entries.is_empty() {
            return Ok(());
        }
        let appended = self.append(Log::Collector(collector), Class::System, &entries).await?;
        let moves = entries.into_iter().zip(from).zip(appended.locations).map(|((sealed, from), to)| Command::Move {
            version: sealed.entry.version,
            body: sealed.entry.body,
            from,
            to,
        });
        self.submit_entries(moves.collect(), vec![appended.settle]).await?;
        self.stats.borrow_mut().gc_copied_bytes += bytes;
        Ok(())
    }

    /// Sleeps so that `bytes` since `began` keep to the rate, unless space is short.
    async fn throttle(&self, began: shingle_runtime::Instant, bytes: u64) {
        let gc = &self.options.gc;
        let scarce = self.drives.borrow().iter().any(|drive| drive.free_fraction() < gc.free_fraction_low);
        if scarce || self.gc.waiting.get() > 0 || gc.rate_bytes_per_s == 0 {
            return;
        }
        let due = Duration::from_secs_f64(bytes as f64 / gc.rate_bytes_per_s as f64);
        let spent = self.runtime.now().since(began);
        if due > spent {
            self.runtime.sleep(due - spent).await;
        }
    }

    /// Deletes the chunks of a file that the index does not need, once it is durable that it does not (OS-GC-1), oldest first
    /// (OS-GC-2).
    async fn finish_drop(&self, claim: &Claim<'_>) -> StoreResult<()> {
        let number = claim.file;
        let (chunks, size): (Vec<u32>, u64) = match self.files.borrow().get(number) {
            Some(file) => (file.closed.keys().copied().collect(), file.size()),
            None => return Ok(()),
        };
        // Here, and not where the deletion is begun: that may have failed after it.
        self.persist().await?;
        for ordinal in chunks {
            let Some((client, name)) = self.chunk_of(number, ordinal) else { return Ok(()) };
            match client.delete(name.id()).await {
                Ok(()) => {}
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(from_chunk(error)),
            }
        }
        self.submit(vec![Command::Dropped { file: number }]).await?;
        self.files.borrow_mut().remove(number);
        self.gc.dropped.set(self.gc.dropped.get() + 1);
        self.gc.freed.set(self.gc.freed.get() + size.max(1));
        self.stats.borrow_mut().gc_freed_bytes += size;
        self.changed.notify_waiters();
        Ok(())
    }
}

/// A collector's hold on a file (OS-GC-4).
struct Claim<'a> {
    core: &'a Core,
    file: u64,
    collector: u64,
}

impl<'a> Claim<'a> {
    /// Claims a file that nobody collects.
    fn new(core: &'a Core, file: u64, collector: u64) -> Self {
        core.with_file(file, |found| {
            debug_assert!(!found.collecting, "OS-GC-4: file {file} has a collector");
            found.collecting = true;
        });
        Self { core, file, collector }
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.core.with_file(self.file, |found| found.collecting = false);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GcStep {
    /// Its deletion was begun and not finished.
    Finish,
    /// Much of it is graves: see which are still needed.
    Graves,
    /// Rewrite it.
    Collect,
}

/// Entries for the next append.
struct Copies {
    collector: u64,
    entries: Vec<Sealed>,
    from: Vec<Location>,
    bytes: u64,
    /// Bytes of all appends so far.
    total: u64,
}

impl Copies {
    fn of(collector: u64) -> Self {
        Self { collector, entries: Vec::new(), from: Vec::new(), bytes: 0, total: 0 }
    }
}
