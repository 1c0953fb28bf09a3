//! A thread of a program: one core at most works for it, and its tasks wait meanwhile.
//!
//! Work takes time from the point at which it is told of. The rest of that poll runs at once: so the thread's own clock,
//! which is ahead of the simulation's then, has the work, and what the poll asks of hardware must wait for that clock.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use shingle_runtime::{Contract, Instant, LocalBoxFuture, Runtime, UnixTime, Work};

use crate::executor::{Sim, World};
use crate::lane::Lane;
use crate::processor::Processor;

/// A program's thread, and the hardware beside it.
#[derive(Clone)]
pub struct Runtimes {
    /// The thread of the program.
    pub program: Runtime,
    /// For drives and links, which take no time of a processor.
    pub hardware: Runtime,
}

impl From<&Runtime> for Runtimes {
    /// A program whose work takes no time.
    fn from(runtime: &Runtime) -> Self {
        Self { program: runtime.clone(), hardware: runtime.clone() }
    }
}

impl Runtimes {
    /// Completes when the program's thread has done what it told of: what it does next, it does then.
    pub async fn caught_up(&self) {
        if self.program.now() > self.hardware.now() {
            self.program.sleep(Duration::ZERO).await;
        }
    }
}

/// The contracts of a thread.
struct Thread {
    world: Rc<World>,
    processor: Rc<Processor>,
    lane: Rc<Lane>,
}

impl Sim {
    /// A thread of a program on `processor`: the work that it tells of takes time.
    pub fn thread(&self, processor: &Rc<Processor>) -> Runtime {
        Runtime::new(Rc::new(Thread { world: self.world.clone(), processor: processor.clone(), lane: Rc::default() }))
    }

    /// As [`run`](Self::run), on a thread of a program on `processor`, beside hardware that goes on while it works; without one,
    /// work takes no time.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_on<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        processor: Option<&Rc<Processor>>,
        main: impl FnOnce(Runtimes) -> F,
    ) -> T {
        let Some(processor) = processor else { return self.run(|rt| main(Runtimes::from(&rt))) };
        let program = self.thread(processor);
        self.run(|hardware| {
            let done = program.spawn(main(Runtimes { program: program.clone(), hardware }));
            async move {
                let Ok(value) = done.await else { panic!("a simulation drops no task before its end") };
                value
            }
        })
    }
}

impl Contract for Thread {
    fn now(&self) -> Instant {
        self.world.now().max(self.lane.free_at())
    }

    fn unix_time(&self) -> UnixTime {
        let ahead = self.now().since(self.world.now());
        UnixTime { nanos: self.world.unix_time().nanos + ahead.as_nanos() as u64 }
    }

    fn sleep(&self, duration: Duration) -> LocalBoxFuture<'static, ()> {
        self.world.sleep_until(self.now() + duration)
    }

    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        self.world.spawn_in(Some(self.lane.clone()), task);
    }

    fn random(&self) -> u64 {
        self.world.random()
    }

    fn run_blocking(&self, work: Box<dyn FnOnce() + Send>) {
        self.world.run_blocking(work);
    }

    fn worked(&self, work: Work, things: u64) {
        self.lane.works_until(self.processor.work(self.now(), work, things));
    }
}
