//! The keeper: an engine's task that does one thing after the other, and rests while there is none.
//!
//! **Owns** the task's life: it works, it is told to end, it has ended. **Knows nothing of** the things that it does.
//!
//! # Invariants
//! - ZK-KEEP-1: a wake that comes while the keeper works is not lost: it looks again before it rests.
//! - ZK-KEEP-2: whoever waits for the keeper's end hears of it, whether it was told to end or an error ended it.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;

/// State of a keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    Works,
    Ends,
    /// Or it never began.
    Ended,
}

/// A keeper's life.
#[derive(Debug)]
pub struct Keeper {
    wake: Rc<Notify>,
    state: Cell<Keeping>,
    ended: Notify,
}

impl Keeper {
    /// A keeper that has not begun, which is as if it had ended. `wake` is a table's [`keeper`](crate::ZoneTable::keeper).
    pub fn new(wake: Rc<Notify>) -> Self {
        Self { wake, state: Cell::new(Keeping::Ended), ended: Notify::new() }
    }

    /// There may be something to do.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// The keeper begins: [`keep`](Self::keep) is spawned next.
    pub fn begin(&self) {
        self.state.set(Keeping::Works);
    }

    /// True from the end of its task on, and before its begin: nothing is done any more.
    pub fn has_ended(&self) -> bool {
        self.state.get() == Keeping::Ended
    }

    /// True once it has been told to end, until it has.
    pub fn is_to_end(&self) -> bool {
        self.state.get() == Keeping::Ends
    }

    /// The task: calls `step` as long as that says that it did something, and then rests by `rest`, which is given the next wake. Ends
    /// when it is told to, when `runs` says no, and with the first error, which the engine has dealt with. The engine tells those who wait for
    /// the keeper's work by `told`.
    pub async fn keep<E>(
        &self,
        runs: impl Fn() -> bool,
        step: impl AsyncFn() -> Result<bool, E>,
        rest: impl AsyncFn(tokio::sync::futures::Notified<'_>),
        told: impl FnOnce(),
    ) {
        while self.state.get() == Keeping::Works && runs() {
            // ZK-KEEP-1: `notify_one` leaves a permit for this.
            let woken = self.wake.notified();
            match step().await {
                Ok(true) => {}
                Ok(false) => rest(woken).await,
                Err(_) => break,
            }
        }
        self.state.set(Keeping::Ended);
        told();
        self.ended.notify_waiters();
    }

    /// Ends the keeper, and waits until it has ended. (ZK-KEEP-2)
    pub async fn end(&self) {
        if self.state.get() == Keeping::Works {
            self.state.set(Keeping::Ends);
            self.wake();
        }
        while !self.has_ended() {
            self.ended.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use shingle_sim::Sim;

    use super::*;

    /// ZK-KEEP-1.
    #[test]
    fn a_wake_during_work_is_not_lost() {
        Sim::new(1).run(|rt| async move {
            let keeper = Rc::new(Keeper::new(Rc::default()));
            let (left, steps, told) = (Rc::new(Cell::new(0_u32)), Rc::new(Cell::new(0_u32)), Rc::new(Cell::new(false)));
            keeper.begin();
            rt.spawn_detached({
                let (keeper, left, steps, told, rt) =
                    (keeper.clone(), left.clone(), steps.clone(), told.clone(), rt.clone());
                async move {
                    let step = async || {
                        steps.set(steps.get() + 1);
                        rt.sleep(Duration::from_millis(1)).await;
                        let did = left.get() > 0;
                        left.set(left.get().saturating_sub(1));
                        Ok::<_, ()>(did)
                    };
                    keeper.keep(|| true, step, async |woken| woken.await, || told.set(true)).await;
                }
            });
            for _ in 0..100 {
                // Whenever it comes: while it rests, while it works, and just before it rests.
                rt.sleep(Duration::from_micros(rt.random() % 2_500)).await;
                left.set(left.get() + 1);
                keeper.wake();
            }
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!((left.get(), told.get(), keeper.has_ended()), (0, false, false));
            let idle = steps.get();
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!(steps.get(), idle, "it rests");
            keeper.end().await;
            assert!(told.get() && keeper.has_ended());
        });
    }

    /// ZK-KEEP-2.
    #[test]
    fn an_end_is_heard_of_whatever_brought_it() {
        Sim::new(1).run(|rt| async move {
            let keeper = Rc::new(Keeper::new(Rc::default()));
            keeper.end().await;
            for fails in [true, false] {
                keeper.begin();
                let kept = keeper.clone();
                let task = rt.spawn(async move {
                    let step = async || if fails { Err(()) } else { Ok(false) };
                    kept.keep(|| true, step, async |woken| woken.await, || {}).await;
                });
                if fails {
                    task.await.unwrap();
                }
                keeper.end().await;
                assert!(keeper.has_ended() && !keeper.is_to_end());
            }
        });
    }
}
