//! Meaning of entries: the one place where the index is changed.
//!
//! **Owns** every write to the index. **Knows nothing of** time, tasks or chunks: it is plain code over [`Index`], run by
//! one caller at a time.
//!
//! # Invariants
//! - OS-INX-1: applying an entry twice, or entries in another order than they were written, gives the same index: the
//!   newest version of a key wins. Recovery relies on it.
//! - OS-INX-2: a file's watermark is written in one batch with what is before it, so an index is never behind it.
//! - OS-INX-3: a file's live bytes are the lengths of the entries that records point to.
//! - OS-INX-5: of a bucket counts only what is newer than its creation, or than its deletion if it is gone: what a write that
//!   failed left in an earlier bucket of that name never shows in a later one.
//!   `what_a_failed_put_left_is_not_in_a_later_bucket_of_that_name`. An opening that is killed before it has dropped what is older leaves word
//!   of it: `what_is_older_than_its_bucket_goes_also_if_the_opening_that_found_it_was_killed`.
//! - OS-INX-6: a number that the index has seen is below [`Totals::sequence`], in one batch with what has it: an opening that finds
//!   nothing to read knows of it from there alone.
//! - OS-INX-7: a blob that neither an object nor a part needs is loose, and has a row of its own, in one batch with its state: an opening
//!   visits these and uploads that have parts, however many objects there are. `an_opening_reads_of_the_index_what_is_open`.
//! - OS-INX-4: a grave stays while a file may hold an older entry of its key ([`Ghosts`](crate::records::Ghosts)).

mod about;
mod blobs;
mod finish;
mod items;
mod transaction;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::format::Body;
use crate::index::{Index, IndexResult, Space, scan_prefix};
use crate::keys;
use crate::records::{FileRecord, Location, Position};
use crate::wire::Malformed;
use transaction::Transaction;

pub(crate) use about::{Owner, Totals, spoilt};
pub(crate) use finish::Extent;

/// One change, or one question that must see all changes before it.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// An entry is durable at a place.
    Entry { version: u64, body: Body, location: Location },
    /// GC has copied an entry: it counts at the new place if it still counted at the old.
    Move { version: u64, body: Body, from: Location, to: Location },
    /// Tells if an entry is still needed. If its file is being collected, a grave that is not needed is forgotten.
    Judge { version: u64, body: Body, location: Location, collecting: bool },
    /// A writer has given up a blob.
    Abandon { blob: u64 },
    /// Forget at most so many segments of a dead blob.
    Purge { blob: u64, limit: usize },
    /// A file was begun, or found; its chunks before `first` are gone.
    AddFile { file: u64, store: u64, first: u32 },
    /// A file is about to be deleted: refused while anything in it is live.
    Dropping { file: u64 },
    /// A file is gone.
    Dropped { file: u64 },
    /// There may be entries that the index does not know: forget no grave, and no segment of a part, until the next start.
    KeepGraves,
}

/// Effect of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It was done.
    Done,
    /// The answer of [`Command::Judge`]: whether the entry is needed.
    Needed(bool),
    /// The answer of [`Command::Purge`]: whether there are more segments.
    More(bool),
    /// [`Command::Dropping`] found the file still needed, with so many live bytes.
    Refused(u64),
}

impl Command {
    /// True if it states the drives' contents, and so is true whenever it is applied; the others ask for something.
    pub(crate) fn is_fact(&self) -> bool {
        !matches!(self, Self::Judge { .. } | Self::Purge { .. } | Self::Dropping { .. })
    }
}

/// Commands that are applied in one batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub(crate) commands: Vec<Command>,
    /// Files' new watermarks, true once the commands are applied.
    pub(crate) indexed: Vec<(u64, Position)>,
    /// A number above all versions handed out so far.
    pub(crate) sequence: u64,
}

/// Result of a group.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// One for each command.
    pub(crate) effects: Vec<Effect>,
    /// Files whose records changed; none for those that are gone.
    pub(crate) files: Vec<(u64, Option<FileRecord>)>,
    /// Blobs that nobody needs any more.
    pub(crate) dead: Vec<u64>,
    pub(crate) totals: Totals,
}

/// Applies entries to the index.
pub(crate) struct Indexer {
    index: Arc<dyn Index>,
    files: BTreeMap<u64, FileRecord>,
    totals: Totals,
    keep_graves: bool,
    /// Buckets that were created or deleted by what this recovery applied, or one that was cut short: until it is finished the index may
    /// hold what is older (OS-INX-5). The index has a row of each. None once it is finished.
    made: Option<BTreeSet<String>>,
}

impl Indexer {
    /// Takes over what `index` holds.
    pub(crate) fn load(index: Arc<dyn Index>) -> IndexResult<Self> {
        let mut files = BTreeMap::new();
        let mut bad = None;
        index.scan(Space::Files, b"", &mut |key, value| {
            match (keys::split_number(key), FileRecord::decode(&value)) {
                (Some(file), Ok(record)) => drop(files.insert(file, record)),
                (None, _) => bad = Some(Malformed("file number")),
                (_, Err(error)) => bad = Some(error),
            }
            if bad.is_none() { crate::index::Step::Next } else { crate::index::Step::Stop }
        })?;
        if let Some(error) = bad {
            return Err(spoilt(error));
        }
        let totals = index.get(Space::About, keys::ABOUT_TOTALS)?;
        let totals = totals.map(|bytes| Totals::decode(&bytes)).transpose().map_err(spoilt)?.unwrap_or_default();
        let mut made = BTreeSet::new();
        scan_prefix(index.as_ref(), Space::About, keys::ABOUT_MADE, &mut |key, _| {
            let name = key.strip_prefix(keys::ABOUT_MADE).and_then(|name| std::str::from_utf8(name).ok());
            made.extend(name.map(str::to_owned));
            true
        })?;
        Ok(Self { index, files, totals, keep_graves: false, made: Some(made) })
    }

    /// The same of an index whose recovery is finished.
    pub(crate) fn recovered(self) -> Self {
        Self { made: None, ..self }
    }

    /// The files the index knows.
    pub(crate) fn files(&self) -> &BTreeMap<u64, FileRecord> {
        &self.files
    }

    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// There may be entries that the index does not know ([`Command::KeepGraves`]).
    pub(crate) fn keeps_graves(&self) -> bool {
        self.keep_graves
    }

    fn begin(&mut self) -> Transaction<'_> {
        Transaction::begin(self.index.as_ref(), &mut self.files, &mut self.totals, &mut self.keep_graves)
    }

    /// Applies a group in one batch.
    ///
    /// # Errors
    /// If the index fails. The state in memory is then ahead of it: revive it, and load it again.
    pub(crate) fn apply(&mut self, group: Group) -> IndexResult<Outcome> {
        let recovering = self.made.is_some();
        let mut transaction = self.begin();
        let mut effects = Vec::with_capacity(group.commands.len());
        let of_bucket = |command: &Command| match command {
            Command::Entry { body: Body::BucketCreate { bucket, .. } | Body::BucketDelete { bucket }, .. } => {
                Some(bucket.clone())
            }
            _ => None,
        };
        let made: Vec<String> = group.commands.iter().filter(|_| recovering).filter_map(of_bucket).collect();
        made.iter().for_each(|bucket| transaction.put(Space::About, keys::made(bucket), Some(Vec::new())));
        for command in group.commands {
            effects.push(transaction.run(command)?);
        }
        for (file, position) in group.indexed {
            transaction.set_indexed(file, position);
        }
        transaction.totals.sequence = transaction.totals.sequence.max(group.sequence);
        let (batch, files, dead) = transaction.finish();
        if !batch.changes.is_empty() {
            self.index.apply(batch)?;
        }
        if let Some(all) = &mut self.made {
            all.extend(made);
        }
        Ok(Outcome { effects, files, dead, totals: self.totals })
    }

    /// Writes down whose index this is, and makes it durable.
    pub(crate) fn set_owner(&mut self, owner: &Owner) -> IndexResult<()> {
        let changes = vec![(Space::About, keys::ABOUT_OWNER.to_vec(), Some(owner.encode()))];
        self.index.apply(crate::index::Batch { changes })?;
        self.index.persist()
    }
}

impl Transaction<'_> {
    /// `number` is never handed out again. (OS-INX-6)
    fn knows(&mut self, number: u64) {
        self.totals.sequence = self.totals.sequence.max(number.saturating_add(1));
    }

    fn run(&mut self, command: Command) -> IndexResult<Effect> {
        match command {
            Command::Entry { version, body, location } => {
                self.entry(version, body, location)?;
                self.knows(version);
            }
            Command::Move { version, body, from, to } => {
                self.moved(version, &body, from, to)?;
                self.knows(version);
            }
            Command::Judge { version, body, location, collecting } => {
                return Ok(Effect::Needed(self.judge(version, &body, location, collecting)?));
            }
            Command::Abandon { blob } => self.abandon(blob)?,
            Command::Purge { blob, limit } => return Ok(Effect::More(self.purge(blob, limit)?)),
            Command::AddFile { file, store, first } => self.add_file(file, store, first),
            Command::Dropping { file } => {
                if let Some(live) = self.begin_drop(file) {
                    return Ok(Effect::Refused(live));
                }
            }
            Command::Dropped { file } => self.remove_file(file),
            Command::KeepGraves => *self.keep_graves = true,
        }
        Ok(Effect::Done)
    }
}

#[cfg(test)]
#[path = "indexer_tests.rs"]
mod tests;
