//! The thread that writes batches, in the order of their calls. (RKK-ORDER-1)

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use shingle_blue_store::kv::{Batch, Change, KvError, KvErrorKind, KvResult};
use tokio::sync::oneshot;

use crate::library::OpenKeys;

/// Most bytes of batches that are written as one.
const JOINED_MAX: usize = 4 << 20;

/// Changes of several batches, and those who wait for them.
type Joined = (Vec<u8>, Vec<oneshot::Sender<KvResult<()>>>);

struct Job {
    changes: Vec<u8>,
    answer: oneshot::Sender<KvResult<()>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    ended: bool,
    /// A batch was not written: none may be after it.
    failed: Option<KvError>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// The thread, and batches that wait for it.
pub(crate) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

fn closed() -> KvError {
    KvError::new(KvErrorKind::Unavailable, "the store of metadata was closed")
}

/// Changes as the library takes them.
pub(crate) fn encode(batch: &Batch) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(batch.bytes() as usize + batch.changes.len());
    for change in &batch.changes {
        let (kind, key, value): (u8, &[u8], &[u8]) = match change {
            Change::Put(key, value) => (0, key, value),
            Change::Delete(key) => (1, key, &[]),
            // RocksDB refuses ranges that end before they begin.
            Change::DeleteRange(from, to) if from >= to => continue,
            Change::DeleteRange(from, to) => (2, from, to),
            Change::Merge(key, operand) => (3, key, operand),
        };
        bytes.push(kind);
        bytes.extend((key.len() as u32).to_le_bytes());
        bytes.extend((value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }
    bytes
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batches, as one. `None` after the last.
    fn next(&self) -> Option<Joined> {
        let waits = |queue: &mut Queue| queue.jobs.is_empty() && !queue.ended;
        let mut queue = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        let Job { mut changes, answer } = queue.jobs.pop_front()?;
        let mut answers = vec![answer];
        while let Some(next) = queue.jobs.pop_front_if(|next| changes.len() + next.changes.len() <= JOINED_MAX) {
            changes.extend_from_slice(&next.changes);
            answers.push(next.answer);
        }
        Some((changes, answers))
    }
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start(keys: Arc<OpenKeys>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new().name("shingle-keys".to_owned()).spawn(move || {
            while let Some((changes, answers)) = of_thread.next() {
                let failed = of_thread.lock().failed.clone();
                let written = failed.map_or_else(|| keys.write(&changes), Err);
                if let Err(error) = &written {
                    of_thread.lock().failed.get_or_insert_with(|| error.clone());
                }
                for answer in answers {
                    // The caller may have gone.
                    let _ = answer.send(written.clone());
                }
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Gives a batch its place. The future completes when it is durable.
    pub(crate) fn write(&self, batch: &Batch) -> impl Future<Output = KvResult<()>> + use<> {
        let (answer, answered) = oneshot::channel();
        let job = Job { changes: encode(batch), answer };
        let mut queue = self.shared.lock();
        if !queue.ended {
            queue.jobs.push_back(job);
            self.shared.changed.notify_one();
        }
        async move { answered.await.unwrap_or_else(|_| Err(closed())) }
    }

    /// The first failure. (BLU-KV-1: later batches have no place.)
    pub(crate) fn failure(&self) -> Option<KvError> {
        self.shared.lock().failed.clone()
    }

    /// Takes no more batches. The handle's `join` waits for those that were taken.
    pub(crate) fn end(&mut self) -> Option<JoinHandle<()>> {
        self.shared.lock().ended = true;
        self.shared.changed.notify_one();
        self.thread.take()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.end());
    }
}
