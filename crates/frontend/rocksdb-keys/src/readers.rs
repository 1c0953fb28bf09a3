//! Threads that calls of the database run on. (RKK-READ-1)
//!
//! A call waits for the store's thread, which serves the files, and that waits for its reads of the drive. Some drives read on the runtime's
//! blocking threads: calls that had all of these would wait for ever, so they have none.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// Threads at most. They are started as calls come that find none idle.
const THREADS_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    ended: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job. `None` after the last.
    fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        queue.idle += 1;
        let waits = |queue: &mut Queue| queue.jobs.is_empty() && !queue.ended;
        let mut queue = self.changed.wait_while(queue, waits).unwrap_or_else(PoisonError::into_inner);
        queue.idle -= 1;
        queue.jobs.pop_front()
    }
}

/// The threads, and calls that wait for one.
#[derive(Default)]
pub(crate) struct Readers(Arc<Shared>);

impl Readers {
    /// Makes a call on one of the threads, also if the future is dropped. `None` if it never ended.
    pub(crate) fn run<T: Send + 'static, C: FnOnce() -> T + Send + 'static>(
        &self,
        call: C,
    ) -> impl Future<Output = Option<T>> + use<T, C> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move || {
            // The caller may have gone.
            let _ = answer.send(call());
        });
        let mut queue = self.0.lock();
        queue.jobs.push_back(job);
        if queue.jobs.len() > queue.idle && queue.threads.len() < THREADS_MAX {
            match self.start() {
                Ok(thread) => queue.threads.push(thread),
                // Without any thread, nobody would take it.
                Err(_) if queue.threads.is_empty() => drop(queue.jobs.pop_back()),
                Err(_) => {}
            }
        }
        drop(queue);
        self.0.changed.notify_one();
        async move { answered.await.ok() }
    }

    fn start(&self) -> std::io::Result<JoinHandle<()>> {
        let shared = self.0.clone();
        std::thread::Builder::new().name("shingle-reader".to_owned()).spawn(move || {
            while let Some(job) = shared.next() {
                // One that panics has not answered, which its caller is told.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        })
    }

    /// Takes no more calls. The handles' `join` wait for those that were taken.
    pub(crate) fn end(&self) -> Vec<JoinHandle<()>> {
        let mut queue = self.0.lock();
        queue.ended = true;
        let threads = std::mem::take(&mut queue.threads);
        drop(queue);
        self.0.changed.notify_all();
        threads
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        drop(self.end());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use shingle_runtime::real;

    use super::*;

    /// RKK-READ-1: all threads at once, many more calls, one that panics, and the end.
    #[test]
    fn all_calls_are_made_on_a_few_threads() {
        real::run(|_| async move {
            let (readers, made) = (Readers::default(), Arc::new(AtomicUsize::new(0)));
            let together = Arc::new(Barrier::new(THREADS_MAX));
            let calls: Vec<_> = (0..THREADS_MAX)
                .map(|number| {
                    let together = together.clone();
                    readers.run(move || {
                        together.wait();
                        number
                    })
                })
                .collect();
            for (number, call) in calls.into_iter().enumerate() {
                assert_eq!(call.await, Some(number));
            }
            assert_eq!(readers.run(|| -> u32 { panic!("asked for") }).await, None);
            for _ in 0..1_000 {
                let made = made.clone();
                drop(readers.run(move || made.fetch_add(1, Ordering::Relaxed)));
            }
            let threads = readers.end();
            assert_eq!(threads.len(), THREADS_MAX);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(made.load(Ordering::Relaxed), 1_000);
        })
        .unwrap();
    }
}
