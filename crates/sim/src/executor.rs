//! An executor in virtual time: when nothing can run, time jumps to the next timer.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use shingle_runtime::{Contract, Instant, LocalBoxFuture, Runtime, UnixTime};

use crate::seeds::Random;

/// Polls after which a run is taken to be caught in a loop.
const POLLS_MAX: u64 = 20_000_000_000;

/// Polls at one point in time after which a run is taken to be caught in a loop.
const POLLS_AT_ONCE_MAX: u64 = 1_000_000;

/// A simulation. Each has its own time, tasks and random numbers; one may run inside another.
pub struct Sim {
    world: Rc<World>,
}

struct World {
    seed: u64,
    now: Cell<Instant>,
    random: RefCell<Random>,
    /// Decides the order of ready tasks; apart from `random`, so that one more number drawn does not change it.
    order: RefCell<Random>,
    tasks: RefCell<Tasks>,
    timers: RefCell<BinaryHeap<Reverse<Timer>>>,
    timer_number: Cell<u64>,
    ready: Arc<Ready>,
}

#[derive(Default)]
struct Tasks {
    slots: Vec<Option<Task>>,
    free: Vec<usize>,
}

struct Task {
    future: Option<LocalBoxFuture<'static, ()>>,
    waker: Arc<TaskWaker>,
}

/// Tasks that can run. Wakers must be usable from any thread, hence the lock; there is only one.
#[derive(Default)]
struct Ready {
    tasks: Mutex<Vec<Arc<TaskWaker>>>,
}

struct TaskWaker {
    slot: usize,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            let ready = self.ready.clone();
            ready.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        }
    }
}

struct Timer {
    at: Instant,
    number: u64,
    waker: Waker,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

impl Sim {
    /// A simulation that `seed` decides (RT-2).
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let order = Random::new(random.number());
        let world = World {
            seed,
            now: Cell::default(),
            random: RefCell::new(random),
            order: RefCell::new(order),
            tasks: RefCell::default(),
            timers: RefCell::default(),
            timer_number: Cell::default(),
            ready: Arc::default(),
        };
        Self { world: Rc::new(world) }
    }

    /// The runtime that engines in this simulation use.
    pub fn runtime(&self) -> Runtime {
        Runtime::new(self.world.clone())
    }

    /// Runs `main` to its end, with the tasks it spawns; tasks left over are dropped.
    ///
    /// # Panics
    /// If nothing can run and no timer is set while `main` still waits, or if it never ends; the seed is printed.
    pub fn run<T: 'static, F: Future<Output = T> + 'static>(&self, main: impl FnOnce(Runtime) -> F) -> T {
        let result = Rc::new(RefCell::new(None));
        let (out, main) = (result.clone(), main(self.runtime()));
        self.world.spawn(Box::pin(async move {
            let value = main.await;
            *out.borrow_mut() = Some(value);
        }));
        let (mut polls, mut polls_now, mut time) = (0, 0, self.world.now.get());
        loop {
            if let Some(value) = result.borrow_mut().take() {
                self.world.shut_down();
                return value;
            }
            if !self.world.step() {
                let seed = self.world.seed;
                let waiting = self.world.tasks.borrow().slots.iter().flatten().count();
                panic!("deadlock: {waiting} tasks wait and nothing will wake them (seed {seed})");
            }
            polls += 1;
            polls_now = if self.world.now.get() == time { polls_now + 1 } else { 0 };
            time = self.world.now.get();
            assert!(
                polls < POLLS_MAX && polls_now < POLLS_AT_ONCE_MAX,
                "the run never ends (seed {}, virtual time {} ns)",
                self.world.seed,
                time.nanos
            );
        }
    }
}

impl World {
    /// Polls one ready task, or lets time jump. False if there is neither.
    fn step(&self) -> bool {
        let next = {
            let mut ready = self.ready.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            match ready.len() {
                0 => None,
                1 => ready.pop(),
                count => {
                    let pick = self.order.borrow_mut().below(count as u64) as usize;
                    Some(ready.swap_remove(pick))
                }
            }
        };
        match next {
            Some(waker) => {
                self.poll(&waker);
                true
            }
            None => self.jump(),
        }
    }

    fn poll(&self, waker: &Arc<TaskWaker>) {
        waker.queued.store(false, Ordering::Relaxed);
        let taken = {
            let mut tasks = self.tasks.borrow_mut();
            let slot = tasks.slots.get_mut(waker.slot).and_then(Option::as_mut);
            slot.filter(|task| Arc::ptr_eq(&task.waker, waker)).and_then(|task| task.future.take())
        };
        let Some(mut future) = taken else { return };
        let done = future.as_mut().poll(&mut Context::from_waker(&Waker::from(waker.clone()))).is_ready();
        if done {
            let mut tasks = self.tasks.borrow_mut();
            tasks.slots[waker.slot] = None;
            tasks.free.push(waker.slot);
            drop(tasks);
            drop(future);
        } else if let Some(task) = &mut self.tasks.borrow_mut().slots[waker.slot] {
            task.future = Some(future);
        }
    }

    /// Lets time jump to the next timer.
    fn jump(&self) -> bool {
        let Some(Reverse(timer)) = self.timers.borrow_mut().pop() else { return false };
        self.now.set(self.now.get().max(timer.at));
        timer.waker.wake();
        true
    }

    /// Drops all tasks; their destructors may spawn or wake others.
    fn shut_down(&self) {
        loop {
            let tasks = std::mem::take(&mut self.tasks.borrow_mut().slots);
            if tasks.is_empty() {
                break;
            }
            drop(tasks);
        }
        self.tasks.borrow_mut().free.clear();
        self.timers.borrow_mut().clear();
        self.ready.tasks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Contract for World {
    fn now(&self) -> Instant {
        self.now.get()
    }

    fn unix_time(&self) -> UnixTime {
        // 2026-01-01, so that dates in simulations look like dates.
        UnixTime { nanos: 1_767_225_600_000_000_000 + self.now.get().nanos }
    }

    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        let at = self.now.get() + duration;
        let number = self.timer_number.get();
        self.timer_number.set(number + 1);
        // The future must not keep the world alive: the world keeps the future.
        let (sender, receiver) = bell();
        self.timers.borrow_mut().push(Reverse(Timer { at, number, waker: sender }));
        receiver
    }

    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        let mut tasks = self.tasks.borrow_mut();
        let slot = tasks.free.pop().unwrap_or(tasks.slots.len());
        let waker = Arc::new(TaskWaker { slot, queued: AtomicBool::new(false), ready: self.ready.clone() });
        let task = Task { future: Some(task), waker: waker.clone() };
        if slot == tasks.slots.len() {
            tasks.slots.push(Some(task));
        } else {
            tasks.slots[slot] = Some(task);
        }
        drop(tasks);
        waker.wake();
    }

    fn random(&self) -> u64 {
        self.random.borrow_mut().number()
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
}

/// A waker that completes a future.
fn bell() -> (Waker, LocalBoxFuture<'static, ()>) {
    #[derive(Default)]
    struct Bell {
        rung: AtomicBool,
        waiting: Mutex<Option<Waker>>,
    }
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.rung.store(true, Ordering::Relaxed);
            if let Some(waker) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() {
                waker.wake();
            }
        }
    }
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let future = poll_fn(move |context| {
        if bell.rung.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        *bell.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
        Poll::Pending
    });
    (waker, Box::pin(future))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(seed: u64) -> Vec<(u64, u64)> {
        Sim::new(seed).run(|rt| async move {
            let log = Rc::new(RefCell::new(Vec::new()));
            let tasks: Vec<_> = (0..10u64)
                .map(|task| {
                    let (log, inner) = (log.clone(), rt.clone());
                    rt.spawn(async move {
                        for _ in 0..10 {
                            inner.sleep(Duration::from_nanos(inner.random() % 50)).await;
                            log.borrow_mut().push((inner.now().nanos, task));
                            inner.yield_now().await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            log.take()
        })
    }

    #[test]
    fn the_seed_decides_everything() {
        assert_eq!(trace(1), trace(1));
        assert_ne!(trace(1), trace(2));
        assert!(trace(3).is_sorted_by_key(|entry| entry.0), "time never goes back");
    }

    #[test]
    fn time_jumps_to_the_next_timer() {
        let elapsed = Sim::new(1).run(|rt| async move {
            let start = rt.now();
            rt.sleep(Duration::from_secs(3600)).await;
            rt.now().since(start)
        });
        assert_eq!(elapsed, Duration::from_secs(3600));
    }

    #[test]
    fn a_simulation_runs_inside_another() {
        let sum = Sim::new(1).run(|rt| async move {
            rt.sleep(Duration::from_secs(1)).await;
            let inner = Sim::new(2).run(|inner| async move {
                inner.sleep(Duration::from_secs(5)).await;
                inner.now().nanos
            });
            inner + rt.now().nanos
        });
        assert_eq!(sum, 6_000_000_000);
    }

    #[test]
    #[should_panic(expected = "deadlock: 1 tasks wait and nothing will wake them (seed 7)")]
    fn a_deadlock_names_its_seed() {
        Sim::new(7).run(|_| std::future::pending::<()>());
    }

    #[test]
    fn blocking_work_runs_at_once() {
        assert_eq!(Sim::new(1).run(|rt| async move { rt.blocking(|| 5).await }), Ok(5));
    }
}
