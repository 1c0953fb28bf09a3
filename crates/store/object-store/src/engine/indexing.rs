//! The one task that changes the index, in groups: what arrives while a group is applied joins the next.
//!
//! # Invariants
//! - OS-IDXG-1: while the index takes no changes, for want of room or because its disk fails, nothing is written to the
//!   log either, and reads go on. Entries in the log by then are brought into the index once it takes changes again,
//!   before anything new. `while_the_index_is_full_reads_go_on_and_writing_resumes_by_itself`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_runtime::TaskLost;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use tokio::sync::{mpsc, oneshot};

use crate::engine::Core;
use crate::engine::submission::{Reply, Submission};
use crate::errors::unavailable;
use crate::index::{Index, IndexError, IndexErrorKind};
use crate::indexer::{Command, Effect, Group, Indexer, Outcome};
use crate::records::Position;

/// Submissions in one group at most.
const GROUP_MAX: usize = 256;
/// Pause before an index that takes no changes is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Callers that wait for a group, with the number of their commands, and the places whose entries it brings into the
/// index.
#[derive(Default)]
struct Audience {
    replies: Vec<(Reply, usize)>,
    arriving: BTreeMap<u64, BTreeSet<Position>>,
}

impl Core {
    /// Has `commands` applied, and returns what each came to.
    pub(crate) async fn submit(&self, commands: Vec<Command>) -> StoreResult<Vec<Effect>> {
        self.submit_entries(commands, Vec::new()).await
    }

    /// As [`Core::submit`], for commands that bring entries at reserved places into the index.
    pub(crate) async fn submit_entries(
        &self,
        commands: Vec<Command>,
        settles: Vec<(u64, Position)>,
    ) -> StoreResult<Vec<Effect>> {
        let stopped = || unavailable("the object store has stopped");
        let (reply, answer) = oneshot::channel();
        self.indexing.send(Submission { commands, settles, reply }).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Submits `commands` and waits for nobody: what is submitted later sees them.
    pub(crate) fn submit_ahead(&self, commands: Vec<Command>) {
        let (reply, _) = oneshot::channel();
        // The indexer is gone only once the engine has stopped.
        let _ = self.indexing.send(Submission { commands, settles: Vec::new(), reply });
    }

    /// Makes the index durable.
    pub(crate) async fn persist(&self) -> StoreResult<()> {
        self.read(|index| index.persist()).await
    }

    /// Applies submissions until the engine is gone.
    pub(crate) async fn run_indexer(
        self: Rc<Self>,
        mut indexer: Indexer,
        mut submissions: mpsc::UnboundedReceiver<Submission>,
    ) {
        while let Some(first) = submissions.recv().await {
            let mut waiting = vec![first];
            while waiting.len() < GROUP_MAX
                && let Ok(more) = submissions.try_recv()
            {
                waiting.push(more);
            }
            let (group, audience) = self.form_group(waiting);
            if let Err(error) = self.working() {
                audience.refuse(&error);
                continue;
            }
            // A copy, for should the index fail.
            let kept = group.clone();
            let work = move || {
                let result = indexer.apply(group);
                (indexer, result)
            };
            let result = match self.on_thread(work).await {
                Ok((back, result)) => {
                    indexer = back;
                    result
                }
                Err(lost) => {
                    self.fail("the task that writes the index was lost");
                    return audience.refuse(&crate::errors::lost(lost));
                }
            };
            match result {
                Ok(outcome) => self.take_outcome(outcome, audience),
                Err(error) => {
                    match self.pause(kept, audience, &error, indexer.keeps_graves(), &mut submissions).await {
                        Some(revived) => indexer = revived,
                        None => return,
                    }
                }
            }
        }
    }

    /// Runs work on the index on a thread, if it may block.
    async fn on_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, TaskLost> {
        if self.index.blocks() {
            return self.runtime.blocking(work).await;
        }
        self.elsewhere().await;
        let result = work();
        self.elsewhere().await;
        Ok(result)
    }

    /// The index could not be changed: refuses what is asked of it, until it takes changes again and holds what the log
    /// does (OS-IDXG-1): then it lacks nothing, unless it lacked something before (`keeps_graves`). `None` if nobody submits any more.
    async fn pause(
        &self,
        mut group: Group,
        mut audience: Audience,
        error: &IndexError,
        keeps_graves: bool,
        submissions: &mut mpsc::UnboundedReceiver<Submission>,
    ) -> Option<Indexer> {
        tracing::error!(%error, "the index cannot be changed: writes are refused, and reads go on");
        let refusal = match error.kind() {
            IndexErrorKind::Full => StoreError::new(
                StoreErrorKind::NoSpace,
                format!(
                    "the file system of the index is full: make room there, and writing goes on by itself ({error})"
                ),
            ),
            _ => unavailable(format!("the index cannot be written now; reads go on, and it is tried again ({error})")),
        };
        audience.answer(&unavailable(refusal.message.clone()));
        *self.paused.borrow_mut() = Some(refusal);
        self.changed.notify_waiters();
        group.commands.retain(Command::is_fact);
        if keeps_graves {
            group.commands.insert(0, Command::KeepGraves);
        }
        loop {
            let mut pause = Box::pin(self.runtime.sleep(PAUSE));
            while let Either::Right((came, _)) = select(&mut pause, Box::pin(submissions.recv())).await {
                let Submission { commands, settles, reply } = came?;
                // Entries that are in the log already will be there once the index takes changes.
                let answer = match commands.iter().any(Command::is_fact) {
                    true => {
                        Err(unavailable("what was written is in the log, and appears once the index takes changes"))
                    }
                    false => self.writable().map(|()| Vec::new()),
                };
                let _ = reply.send(answer);
                group.commands.extend(commands.into_iter().filter(Command::is_fact));
                for (file, position) in settles {
                    audience.arriving.entry(file).or_default().insert(position);
                }
            }
            (group.indexed, group.sequence) = (self.watermarks(&audience.arriving), self.sequence());
            let (index, again) = (self.index.clone(), group.clone());
            let work = move || {
                index.revive()?;
                let mut indexer = Indexer::load(index)?.recovered();
                let outcome = indexer.apply(again)?;
                Ok::<_, IndexError>((indexer, outcome))
            };
            match self.on_thread(work).await {
                Ok(Ok((indexer, outcome))) => {
                    tracing::info!("the index takes changes again");
                    *self.paused.borrow_mut() = None;
                    self.purge_wanted.notify_one();
                    self.take_outcome(outcome, audience);
                    return Some(indexer);
                }
                Ok(Err(error)) => tracing::debug!(%error, "the index still takes no changes"),
                Err(_) => {
                    self.fail("the task that writes the index was lost");
                    return None;
                }
            }
        }
    }

    /// One group of all that waits, with the watermarks that hold once it is applied (OS-INX-2), and who wants to know.
    fn form_group(&self, waiting: Vec<Submission>) -> (Group, Audience) {
        let mut group = Group { sequence: self.sequence(), ..Group::default() };
        let mut audience = Audience::default();
        for submission in waiting {
            audience.replies.push((submission.reply, submission.commands.len()));
            group.commands.extend(submission.commands);
            for (file, position) in submission.settles {
                audience.arriving.entry(file).or_default().insert(position);
            }
        }
        group.indexed = self.watermarks(&audience.arriving);
        (group, audience)
    }

    /// Files' watermarks once what arrives is in the index.
    fn watermarks(&self, arriving: &BTreeMap<u64, BTreeSet<Position>>) -> Vec<(u64, Position)> {
        let files = self.files.borrow();
        let indexed =
            |(file, arriving): (&u64, &BTreeSet<Position>)| Some((*file, files.get(*file)?.indexed(arriving)));
        arriving.iter().filter_map(indexed).collect()
    }

    fn take_outcome(&self, outcome: Outcome, audience: Audience) {
        self.stats.borrow_mut().index_batches += 1;
        self.totals.set(outcome.totals);
        let mut files = self.files.borrow_mut();
        for (number, record) in outcome.files {
            if let (Some(mut file), Some(record)) = (files.get_mut(number), record) {
                file.record = record;
                file.changes += 1;
                // No unreadable entry of it is needed any more.
                file.damaged &= record.live_bytes > 0;
            }
        }
        // With the records, so that whoever finds nothing pending finds all counted (OS-FIL-1).
        for (file, arrived) in audience.arriving {
            arrived.into_iter().for_each(|position| files.settle(file, position));
        }
        drop(files);
        if !outcome.dead.is_empty() {
            self.dead_blobs.borrow_mut().extend(outcome.dead);
            self.purge_wanted.notify_one();
        }
        let mut effects = outcome.effects.into_iter();
        for (reply, count) in audience.replies {
            // Nobody waits for what was submitted ahead.
            let _ = reply.send(Ok(effects.by_ref().take(count).collect()));
        }
    }
}

impl Audience {
    fn refuse(mut self, error: &StoreError) {
        self.answer(error);
    }

    /// Tells all who wait of an error.
    fn answer(&mut self, error: &StoreError) {
        for (reply, _) in self.replies.drain(..) {
            let _ = reply.send(Err(StoreError::new(StoreErrorKind::Unavailable, error.message.clone())));
        }
    }
}
