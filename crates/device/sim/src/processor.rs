//! A processor in virtual time: cores, and the cost of each kind of work.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use shingle_runtime::{Instant, Work};

/// Kinds of work.
const KINDS: usize = Work::ALL.len();

/// The cost of each kind of work to a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Picoseconds, by the number of the kind.
    each: [u64; KINDS],
}

impl Costs {
    /// Nothing takes time.
    pub const FREE: Self = Self { each: [0; KINDS] };

    /// The same with another cost of that kind of work, in picoseconds.
    #[must_use]
    pub const fn with(mut self, work: Work, picoseconds: u64) -> Self {
        self.each[work as usize] = picoseconds;
        self
    }

    /// The same with that kind of work costing so many times as much: where one thing stands for many.
    #[must_use]
    pub const fn times(self, work: Work, times: u32) -> Self {
        let each = self.each[work as usize] * times as u64;
        self.with(work, each)
    }

    /// The time that `work` takes a core for so many things.
    pub fn of(&self, work: Work, things: u64) -> Duration {
        let picoseconds = u128::from(self.each[work as usize]) * u128::from(things);
        Duration::from_nanos(u64::try_from(picoseconds / 1000).unwrap_or(u64::MAX))
    }
}

/// A processor, which threads of one simulation share.
pub struct Processor {
    costs: Costs,
    /// When each core has done what it was given.
    cores: RefCell<Vec<Instant>>,
    /// Things that were worked on, by kind.
    things: RefCell<[u64; KINDS]>,
    busy: Cell<Duration>,
}

impl Processor {
    /// A processor of so many cores, and at least one.
    pub fn new(cores: u32, costs: Costs) -> Rc<Self> {
        let cores = RefCell::new(vec![Instant::default(); cores.max(1) as usize]);
        Rc::new(Self { costs, cores, things: RefCell::default(), busy: Cell::default() })
    }

    /// Things of that kind that were worked on so far.
    pub fn things(&self, work: Work) -> u64 {
        self.things.borrow()[work as usize]
    }

    /// Time that all its cores were busy.
    pub fn busy(&self) -> Duration {
        self.busy.get()
    }

    /// Gives a core work that cannot begin before `from`; returns when it is done. (SIM-8)
    pub(crate) fn work(&self, from: Instant, work: Work, things: u64) -> Instant {
        self.things.borrow_mut()[work as usize] += things;
        let cost = self.costs.of(work, things);
        if cost.is_zero() {
            return from;
        }
        let mut cores = self.cores.borrow_mut();
        // The one that is idle for the shortest time so far, so that a thread goes on where it worked and others keep theirs; if
        // none is idle, the first one that will be.
        let idle = |core: &Instant| if *core <= from { (false, from.since(*core)) } else { (true, core.since(from)) };
        let Some(core) = cores.iter_mut().min_by_key(|core| idle(core)) else { return from };
        *core = from.max(*core) + cost;
        self.busy.set(self.busy.get() + cost);
        *core
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Sim;
    use crate::thread::Runtimes;

    const MILLISECOND: u64 = 1_000_000_000;
    const COSTS: Costs = Costs::FREE.with(Work::Record, MILLISECOND);

    fn milliseconds(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    /// SIM-8.
    #[test]
    fn threads_share_cores() {
        let took = |threads: u32, cores: u32| {
            let (sim, processor) = (Sim::new(1), Processor::new(cores, COSTS));
            let all: Vec<_> = (0..threads).map(|_| sim.thread(&processor)).collect();
            let took = sim.run(|hardware| async move {
                let work = |thread: &shingle_runtime::Runtime| {
                    let own = thread.clone();
                    thread.spawn(async move {
                        for _ in 0..3 {
                            // In one poll, so that the second begins before others have their turn.
                            own.worked(Work::Record, 3);
                            own.worked(Work::Record, 1);
                            own.yield_now().await;
                        }
                    })
                };
                for task in all.iter().map(work).collect::<Vec<_>>() {
                    task.await.unwrap();
                }
                hardware.now().since(Instant::default())
            });
            assert_eq!(processor.things(Work::Record), u64::from(threads) * 12);
            (took, processor.busy())
        };
        assert_eq!(took(1, 1), (milliseconds(12), milliseconds(12)));
        assert_eq!(took(1, 8), (milliseconds(12), milliseconds(12)), "a thread has one core at a time");
        assert_eq!(took(8, 2), (milliseconds(48), milliseconds(96)));
        assert_eq!(took(8, 8), (milliseconds(12), milliseconds(96)));
    }

    /// SIM-8, and hardware goes on meanwhile.
    #[test]
    fn tasks_of_a_thread_wait_for_its_work_and_hardware_does_not() {
        Sim::new(1).run_on(Some(&Processor::new(4, COSTS)), |Runtimes { program, hardware }| async move {
            let other = program.spawn({
                let (program, hardware) = (program.clone(), hardware.clone());
                async move {
                    program.sleep(milliseconds(1)).await;
                    hardware.now().since(Instant::default())
                }
            });
            let device = hardware.spawn({
                let hardware = hardware.clone();
                async move {
                    hardware.sleep(milliseconds(1)).await;
                    hardware.now().since(Instant::default())
                }
            });
            // Both have begun to sleep.
            program.sleep(Duration::from_micros(1)).await;
            let began = program.now();
            program.worked(Work::Record, 10);
            assert_eq!(program.now().since(began), milliseconds(10), "the thread's own clock has its work");
            program.worked(Work::Byte, 1 << 40);
            assert_eq!(program.now().since(began), milliseconds(10), "bytes are free here");
            assert_eq!(device.await.unwrap(), milliseconds(1));
            assert_eq!(hardware.now().since(began), milliseconds(10));
            assert_eq!(other.await.unwrap(), milliseconds(10) + Duration::from_micros(1));
        });
    }
}
