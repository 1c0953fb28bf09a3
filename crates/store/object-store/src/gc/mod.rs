//! Object GC: files that hold much garbage are rewritten and deleted.
//!
//! # Invariants
//! - OS-GC-1: a file is deleted only once the index, durably, needs nothing in it and no reader has it pinned.
//!   `a_file_is_deleted_only_once_the_index_durably_needs_nothing_in_it`.
//! - OS-GC-2: its chunks go in order, oldest first: a grave is never gone before what it buries.
//! - OS-GC-3: the foreground never waits for GC unless the drives are full, nor then for a drive that hangs. It waits as long as garbage is won
//!   that is more than the copies for it. `a_drive_that_hangs_in_gc_keeps_no_write_waiting`.
//! - OS-GC-4: a file has one collector at a time ([`Claim`]), from the moment it is picked. Were there two, one could drop the
//!   file, and so have a grave forgotten, while the other still appends a copy of what the grave buries.
//!   `two_collectors_never_take_one_file_and_nothing_deleted_comes_back`.
//! - OS-GC-5: a collector writes its copies to files of its own. It copies an object before a grave of it only: what it copies is
//!   judged, appended and indexed before it goes on to another file, and the file of a grave that came since is another one.
//!   So no file that GC writes has a grave in front of what it buries, and OS-GC-2 holds for it. In a file that two
//!   wrote one could append an object that it judged before the grave came, behind the other's copy of that grave.
//!   `collectors_do_not_share_a_file`.
//! - OS-GC-6: a file of which a part could not be read is tried again later. `a_read_that_failed_once_leaves_its_file_to_gc`.

mod given_up;
mod state;
mod walk;

use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use shingle_chunk_store::ErrorKind;
use shingle_runtime::Instant;
use shingle_store_api::StoreResult;

use crate::drives::{Class, DriveState};
use crate::engine::Core;
use crate::errors::from_chunk;
use crate::files::LogFile;
use crate::format::ChunkName;
use crate::indexer::{Command, Effect};

pub use given_up::Emptied;
pub(crate) use state::GcState;

/// A pass that has not gone on for so long is not waited for: its drive hangs.
const STUCK: Duration = Duration::from_secs(30);
/// Time until a file is tried again that could not be read wholly; while writers wait for space, and else.
const TRY_AGAIN: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(600)];
/// Time between two looks at the same graves.
const LOOK_AGAIN: Duration = Duration::from_secs(600);
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

    /// Waits until GC has won space, if it can. `false` if it cannot win `length` bytes.
    pub(crate) async fn wait_for_gc(&self, length: u64) -> bool {
        let may_win = {
            let files = self.files.borrow();
            let free: u64 = self.drives.borrow().iter().map(|drive| drive.free_for(Class::User)).sum();
            files.victims().any() && (free + files.sums().garbage_bytes >= length || files.victims().any_graves())
        };
        if !self.options.gc.enabled || !may_win {
            return false;
        }
        let (gained, began) = (self.gc.gained.get(), self.runtime.now());
        // For the two passes; while one hangs, others are not to go round and round.
        let mut wakes = 2;
        let before: BTreeMap<usize, u64> = self.gc.rounds.borrow().clone();
        self.gc.waiting.set(self.gc.waiting.get() + 1);
        let came = loop {
            let changed = self.changed.notified();
            if wakes > 0 {
                wakes -= 1;
                self.wake_gc();
            }
            if self.gc.gained.get() > gained {
                break true;
            }
            // The round under way may have begun before the wish: the one after it counts.
            if self.closing.get() || self.working().is_err() || self.rounds_since(&before, 2, began) {
                break false;
            }
            let _ = select(pin!(changed), pin!(self.runtime.sleep(STUCK))).await;
        };
        self.gc.waiting.set(self.gc.waiting.get() - 1);
        came
    }

    /// The pass over a file's drive goes on.
    fn gc_goes_on(&self, claim: &Claim<'_>) {
        if let Some(drive) = self.files.borrow().get(claim.file).and_then(|file| file.drive) {
            self.gc.went_on.borrow_mut().insert(drive, self.runtime.now());
        }
    }

    /// True if every drive that answers has had `count` more passes since there were `before`, when the wait began (OS-PAT-2).
    fn rounds_since(&self, before: &BTreeMap<usize, u64>, count: u64, began: Instant) -> bool {
        let (now, went_on) = (self.runtime.now(), self.gc.went_on.borrow());
        let is_stuck = |drive| now.since(went_on.get(&drive).copied().unwrap_or(began).max(began)) >= STUCK;
        let rounds = self.gc.rounds.borrow();
        let of = |rounds: &BTreeMap<usize, u64>, drive| rounds.get(&drive).copied().unwrap_or(0);
        let drives = self.drives.borrow();
        let passed = |(number, drive): (usize, &DriveState)| {
            drive.is_silent() || is_stuck(number) || of(&rounds, number) >= of(before, number) + count
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
            // A drive that is gone stays so until the store is opened again: each try would make the index durable in vain.
            let gone = effort == Effort::Background && self.drives.borrow()[drive].client.is_closed();
            if self.closing.get() || gone {
                return Ok(());
            }
            let fraction = self.worthwhile(drive, effort);
            // No await in between (OS-GC-4).
            let Some((file, step)) = self.pick(drive, fraction, effort) else { return Ok(()) };
            let claim = Claim::new(self, file, collector);
            match step {
                GcStep::Finish => self.finish_drop(&claim).await?,
                GcStep::Graves => self.judge_graves(&claim, effort).await?,
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
        let hurry = effort == Effort::Full || self.gc.waiting.get() > 0;
        self.retry_unread(hurry);
        let mut files = self.files.borrow_mut();
        if hurry || self.may_look_again(drive) {
            files.look_again(drive, self.gc.dropped.get());
        }
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
    async fn judge_graves(self: &Rc<Self>, claim: &Claim<'_>, effort: Effort) -> StoreResult<()> {
        let result = self.walk(claim, effort, false).await;
        // Others have their turn, also if a file has been dropped meanwhile: that calls for another look, later.
        self.with_file(claim.file, |file| file.graves_seen = true);
        result.map(drop)
    }

    /// True from time to time: each drop of a file calls for another look at all graves, and that takes reading their files.
    fn may_look_again(&self, drive: usize) -> bool {
        let (now, mut looked) = (self.runtime.now(), self.gc.looked_again.borrow_mut());
        let due = looked.get(&drive).is_none_or(|last| now.since(*last) >= LOOK_AGAIN);
        if due {
            looked.insert(drive, now);
        }
        due
    }

    /// Gives files another try that could not be read wholly, once it is time. (OS-GC-6)
    fn retry_unread(&self, hurry: bool) {
        let (now, after) = (self.runtime.now(), TRY_AGAIN[usize::from(!hurry)]);
        let mut unread = self.gc.unread.borrow_mut();
        let due: Vec<u64> =
            unread.extract_if(.., |_, tried| now.since(*tried) >= after).map(|(file, _)| file).collect();
        drop(unread);
        due.into_iter().for_each(|file| self.with_file(file, |file| file.damaged = false));
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
            self.gc.unread.borrow_mut().insert(number, self.runtime.now());
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

    pub(crate) fn chunk_of(&self, number: u64, ordinal: u32) -> Option<(shingle_chunk_store::ChunkClient, ChunkName)> {
        let files = self.files.borrow();
        let file = files.get(number)?;
        let name = ChunkName { file: number, ordinal, stream: file.stream, set: self.set };
        Some((self.drives.borrow()[file.drive?].client.clone(), name))
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
            self.gc_goes_on(claim);
        }
        self.submit(vec![Command::Dropped { file: number }]).await?;
        self.files.borrow_mut().remove(number);
        self.gc.dropped.set(self.gc.dropped.get() + 1);
        self.gc.freed.set(self.gc.freed.get() + size.max(1));
        self.gc.gained.set(self.gc.gained.get() + size.max(1) as i64);
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
