//! Work on as many threads as there are cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Cores of this machine.
pub(super) fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does `work` on each job, in their order on so many threads; `done` gets each result on this thread, as it comes.
pub(super) fn each<J: Sync, R: Send>(
    threads: usize,
    jobs: &[J],
    work: impl Fn(&J) -> R + Sync,
    mut done: impl FnMut(usize, R),
) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (results, received) = mpsc::channel();
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            let (results, next, work) = (results.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(at) else { return };
                    if results.send((at, work(job))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(results);
        received.iter().for_each(|(at, result)| done(at, result));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_once_whatever_the_number_of_threads() {
        let jobs: Vec<usize> = (0..50).collect();
        for threads in [0, 1, 3, 100] {
            let mut found = vec![None; jobs.len()];
            each(threads, &jobs, |job| job * 2, |at, result| assert_eq!(found[at].replace(result), None));
            assert!(found.iter().enumerate().all(|(at, result)| *result == Some(at * 2)), "{threads} threads");
        }
        each(2, &[], |job: &usize| *job, |_, _| panic!("there is no job"));
    }
}
