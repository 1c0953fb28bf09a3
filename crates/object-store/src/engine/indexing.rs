//! The one task that changes the index, in groups: what arrives while a group is applied joins the next.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use tokio::sync::{mpsc, oneshot};

use crate::engine::Core;
use crate::errors::unavailable;
use crate::index::IndexResult;
use crate::indexer::{Command, Effect, Group, Indexer, Outcome};
use crate::records::Position;

/// Submissions in one group at most.
const GROUP_MAX: usize = 256;

type Reply = oneshot::Sender<StoreResult<Vec<Effect>>>;

/// Those who wait for a group, with the number of their commands, and the places whose entries it brings into the index.
#[derive(Default)]
struct Audience {
    replies: Vec<(Reply, usize)>,
    arriving: BTreeMap<u64, BTreeSet<Position>>,
}

/// Commands that go into one group, after all that were submitted before.
pub(crate) struct Submission {
    commands: Vec<Command>,
    /// Reserved places whose entries these commands bring into the index.
    settles: Vec<(u64, Position)>,
    reply: Reply,
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
            let result: IndexResult<Outcome>;
            if self.index.blocks() {
                let work = move || {
                    let result = indexer.apply(group);
                    (indexer, result)
                };
                match self.runtime.blocking(work).await {
                    Ok(done) => (indexer, result) = done,
                    Err(lost) => {
                        self.fail("the task that writes the index was lost");
                        return audience.refuse(&crate::errors::lost(lost));
                    }
                }
            } else {
                self.elsewhere().await;
                result = indexer.apply(group);
                self.elsewhere().await;
            }
            match result {
                Ok(outcome) => self.take_outcome(outcome, audience),
                Err(error) => {
                    self.fail(&error.to_string());
                    audience.refuse(&unavailable(error.to_string()));
                }
            }
        }
    }

    /// One group of all that waits, with the watermarks that hold once it is applied (INX-2), and who wants to know.
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
        let files = self.files.borrow();
        let indexed =
            |(file, arriving): (&u64, &BTreeSet<Position>)| Some((*file, files.get(*file)?.indexed(arriving)));
        group.indexed = audience.arriving.iter().filter_map(indexed).collect();
        (group, audience)
    }

    fn take_outcome(&self, outcome: Outcome, audience: Audience) {
        self.stats.borrow_mut().index_batches += 1;
        self.totals.set(outcome.totals);
        let mut files = self.files.borrow_mut();
        for (number, record) in outcome.files {
            if let (Some(file), Some(record)) = (files.get_mut(number), record) {
                file.record = record;
            }
        }
        // With the records, so that whoever finds nothing pending finds all counted (FIL-1).
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
    fn refuse(self, error: &StoreError) {
        for (reply, _) in self.replies {
            let _ = reply.send(Err(StoreError::new(StoreErrorKind::Unavailable, error.message.clone())));
        }
    }
}
