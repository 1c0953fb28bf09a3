//! The contracts on real threads and real time.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "the real versions of the contracts")]
use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use futures_util::future::LocalBoxFuture;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use tokio::task::LocalSet;

use crate::local::{Contract, Runtime};
use crate::time::{Instant, UnixTime};

struct Real {
    zero: std::time::Instant,
    rng: RefCell<Xoshiro256PlusPlus>,
}

impl Contract for Real {
    fn now(&self) -> Instant {
        Instant { nanos: self.zero.elapsed().as_nanos() as u64 }
    }

    fn unix_time(&self) -> UnixTime {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        UnixTime { nanos: since.as_nanos() as u64 }
    }

    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        tokio::task::spawn_local(task);
    }

    fn random(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        tokio::task::spawn_blocking(work);
    }
}

/// Runs `main` to its end on this thread, with the tasks it spawns; tasks left over are dropped.
///
/// # Errors
/// The operating system grants no executor (no file descriptors or memory left).
///
/// # Panics
/// If called from inside another executor.
pub fn run<T, F: Future<Output = T>>(main: impl FnOnce(Runtime) -> F) -> std::io::Result<T> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let seed = random_seed();
    let real = Real { zero: std::time::Instant::now(), rng: RefCell::new(Xoshiro256PlusPlus::seed_from_u64(seed)) };
    let runtime = Runtime::new(Rc::new(real));
    let local = LocalSet::new();
    Ok(local.block_on(&executor, main(runtime)))
}

/// As [`run`], on a new thread called `name`; the handle's `join` gives the result.
///
/// # Errors
/// The operating system grants no thread.
pub fn spawn_thread<T, F>(
    name: &str,
    main: impl FnOnce(Runtime) -> F + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<std::io::Result<T>>>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    std::thread::Builder::new().name(name.to_owned()).spawn(move || run(main))
}

/// A seed no other run has: the standard library draws its hash keys from the operating system.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn tasks_timers_and_blocking_work_run() {
        let total = run(|runtime| async move {
            let slow = runtime.spawn({
                let runtime = runtime.clone();
                async move {
                    runtime.sleep(Duration::from_millis(2)).await;
                    1
                }
            });
            let before = runtime.now();
            let blocking = runtime.blocking(|| 2).await.unwrap();
            let sum = slow.await.unwrap() + blocking;
            assert!(runtime.now() >= before + Duration::from_millis(1));
            runtime.yield_now().await;
            sum
        });
        assert_eq!(total.unwrap(), 3);
    }

    /// RT-1.
    #[test]
    fn tasks_stay_on_one_thread_and_are_alone_between_awaits() {
        run(|runtime| async move {
            let (thread, inside) = (std::thread::current().id(), Rc::new(Cell::new(false)));
            let alone = move || {
                assert_eq!(std::thread::current().id(), thread);
                assert!(!inside.replace(true), "a task runs between two awaits of another");
                inside.clone()
            };
            let tasks: Vec<_> = (0..6)
                .map(|number| {
                    let (runtime, alone) = (runtime.clone(), alone.clone());
                    runtime.clone().spawn(async move {
                        for step in 0..30 {
                            let inside = alone();
                            let child = runtime.spawn({
                                let alone = alone.clone();
                                async move { alone().set(false) }
                            });
                            inside.set(false);
                            match (number + step) % 3 {
                                0 => runtime.yield_now().await,
                                1 => runtime.sleep(Duration::from_micros(10)).await,
                                _ => runtime.blocking(|| ()).await.unwrap(),
                            }
                            child.await.unwrap();
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        })
        .unwrap();
    }

    #[test]
    fn a_panic_in_blocking_work_is_an_error() {
        let lost = run(|runtime| async move { runtime.blocking(|| -> u32 { panic!("asked for") }).await });
        assert_eq!(lost.unwrap(), Err(crate::TaskLost));
    }
}
