//! An executor in virtual time: when nothing can run, time jumps to the next timer.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use shingle_runtime::{Contract, Instant, LocalBoxFuture, Runtime, UnixTime};

use crate::lane::{Lane, TaskId};
use crate::seeds::Random;
use crate::timers::Timers;

/// Polls after which a run is taken to be caught in a loop.
const POLLS_MAX: u64 = 20_000_000_000;

/// Polls at one point in time after which a run is taken to be caught in a loop.
const POLLS_AT_ONCE_MAX: u64 = 1_000_000;

/// A simulation. Each has its own time, tasks and random numbers; one may run inside another.
pub struct Sim {
    pub(crate) world: Rc<World>,
}

pub(crate) struct World {
    seed: u64,
    now: Cell<Instant>,
    random: RefCell<Random>,
    /// Decides the order of ready tasks; apart from `random`, so that one more number drawn does not change it.
    order: RefCell<Random>,
    tasks: RefCell<Tasks>,
    timers: Rc<Timers>,
    ready: Arc<Ready>,
}

#[derive(Default)]
struct Tasks {
    slots: Vec<Option<Task>>,
    free: Vec<usize>,
    /// Tasks ever spawned.
    spawned: u64,
}

struct Task {
    /// The future to poll, and the waker to poll it with; away while it is polled.
    work: Option<(LocalBoxFuture<'static, ()>, Waker)>,
    state: Arc<TaskWaker>,
    /// Of a program's thread; none if it takes no time of a processor.
    lane: Option<Rc<Lane>>,
}

/// Tasks that can run. Wakers must be usable from any thread, hence the lock; there is only one thread.
#[derive(Default)]
struct Ready {
    tasks: Mutex<Vec<TaskId>>,
}

struct TaskWaker {
    id: TaskId,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(self.id);
        }
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
            timers: Rc::default(),
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
            Some(id) => {
                self.poll(id);
                true
            }
            None => self.jump(),
        }
    }

    fn poll(&self, id: TaskId) {
        let taken = {
            let mut tasks = self.tasks.borrow_mut();
            let task = tasks.slots.get_mut(id.slot).and_then(Option::as_mut).filter(|task| task.state.id == id);
            // A task that has ended may have been woken before.
            let Some(task) = task else { return };
            if let Some(lane) = task.lane.as_ref().filter(|lane| lane.free_at() > self.now.get()) {
                let lane = lane.clone();
                drop(tasks);
                return self.put_off(id, lane);
            }
            task.state.queued.store(false, Ordering::Relaxed);
            task.work.take()
        };
        let Some((mut future, waker)) = taken else { return };
        let done = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        let mut tasks = self.tasks.borrow_mut();
        if done {
            tasks.slots[id.slot] = None;
            tasks.free.push(id.slot);
            drop(tasks);
            drop(future);
        } else if let Some(task) = &mut tasks.slots[id.slot] {
            task.work = Some((future, waker));
        }
    }

    /// Puts a task off until its thread, which is busy, is not.
    fn put_off(&self, id: TaskId, lane: Rc<Lane>) {
        if lane.put_off(id) {
            let (free, ready) = (self.timers.set(lane.free_at()), self.ready.clone());
            self.spawn(Box::pin(async move {
                free.await;
                ready.tasks.lock().unwrap_or_else(PoisonError::into_inner).extend(lane.take_waiting());
            }));
        }
    }

    /// A timer.
    pub(crate) fn sleep_until(&self, at: Instant) -> LocalBoxFuture<'static, ()> {
        // The future keeps the timers alive and not the world: the world keeps the future.
        Box::pin(self.timers.set(at))
    }

    /// Runs `task` in a thread's lane, or beside all threads.
    pub(crate) fn spawn_in(&self, lane: Option<Rc<Lane>>, task: LocalBoxFuture<'static, ()>) {
        let mut tasks = self.tasks.borrow_mut();
        let slot = tasks.free.pop().unwrap_or(tasks.slots.len());
        let id = TaskId { slot, number: tasks.spawned };
        tasks.spawned += 1;
        let state = Arc::new(TaskWaker { id, queued: AtomicBool::new(false), ready: self.ready.clone() });
        let task = Task { work: Some((task, Waker::from(state.clone()))), state: state.clone(), lane };
        if slot == tasks.slots.len() {
            tasks.slots.push(Some(task));
        } else {
            tasks.slots[slot] = Some(task);
        }
        drop(tasks);
        state.wake();
    }

    /// Lets time jump to the next timer.
    fn jump(&self) -> bool {
        let Some((at, waker)) = self.timers.ring() else { return false };
        self.now.set(self.now.get().max(at));
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Drops all tasks; their destructors may spawn or wake others.
    fn shut_down(&self) {
        loop {
            let tasks = {
                let mut tasks = self.tasks.borrow_mut();
                // No slot is left, so none is free for what destructors spawn.
                tasks.free.clear();
                std::mem::take(&mut tasks.slots)
            };
            if tasks.is_empty() {
                break;
            }
            drop(tasks);
        }
        self.timers.clear();
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
        self.sleep_until(self.now.get() + duration)
    }

    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        self.spawn_in(None, task);
    }

    fn random(&self) -> u64 {
        self.random.borrow_mut().number()
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        work();
    }
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
    fn a_task_that_is_dropped_at_the_end_may_spawn_another() {
        struct Spawns(Runtime);
        impl Drop for Spawns {
            fn drop(&mut self) {
                self.0.spawn_detached(async {});
            }
        }
        Sim::new(1).run(|rt| async move {
            // Its slot is free at the end.
            let other = rt.spawn(async {});
            let last = Spawns(rt.clone());
            drop(rt.spawn(async move {
                let _last = last;
                std::future::pending::<()>().await;
            }));
            other.await.unwrap();
        });
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
