//! Makes the calls of a recording again, on any files, in virtual time.
//!
//! **Owns** when a call is made (LAB-ORD-1). **Knows nothing of** what takes it.
//!
//! Commits to a log come one by one; a recording has those that follow each other as one call. They are made again in pieces, as evenly
//! over the time as they came. They only copied bytes to memory, which takes the processor's time on any files: of the time that they took, the
//! share is taken that the thread ran between them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::try_join_all;
use shingle_runtime::{Instant, Runtime};
use tokio::sync::Notify;

use super::order::{Before, Wait, order};
use super::record::{Call, Kind, Recording, Use};
use super::target::Files;
use crate::error::LabError;
use crate::load::throughput::Throughput;

/// Bytes of a piece of a log.
const PIECE: u64 = 64 << 10;

/// The machine that plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// One with a processor for each thread.
    Roomy,
    /// The recorded one: threads wait for a processor as long as they did.
    Recorded,
}

/// The course of a run.
#[derive(Clone, Debug)]
pub struct Course {
    /// Seconds to the end of the last append to a log: the benchmark's.
    pub seconds: f64,
    /// Seconds to the end of the last call.
    pub all_seconds: f64,
    /// Bytes that were appended to logs, over time.
    pub logged: Throughput,
    /// Seconds in which the thread that logs waited for others, without the time of its calls.
    pub stalled_seconds: f64,
}

struct Player<F> {
    rt: Runtime,
    files: F,
    recording: Rc<Recording>,
    order: Vec<Before>,
    machine: Machine,
    began: Instant,
    /// Ends of calls, in nanoseconds from the beginning on.
    ends: RefCell<Vec<Option<u64>>>,
    /// Those that wait for a call.
    waiting: RefCell<BTreeMap<u32, Rc<Notify>>>,
    logged: RefCell<Throughput>,
    seconds: Cell<f64>,
    stalled: Cell<Duration>,
}

/// Plays a recording.
///
/// # Errors
/// That of the first call that failed.
pub async fn play<F: Files>(
    rt: &Runtime,
    recording: &Rc<Recording>,
    machine: Machine,
    files: F,
) -> Result<(Course, F), LabError> {
    let player = Player {
        rt: rt.clone(),
        files,
        recording: recording.clone(),
        order: order(recording),
        machine,
        began: rt.now(),
        ends: RefCell::new(vec![None; recording.calls.len()]),
        waiting: RefCell::default(),
        logged: RefCell::new(Throughput::new(Duration::from_secs(1))),
        seconds: Cell::new(0.0),
        stalled: Cell::default(),
    };
    let mut threads: Vec<Vec<u32>> = vec![Vec::new(); recording.threads as usize];
    for (at, call) in (0u32..).zip(&recording.calls) {
        threads[call.thread as usize].push(at);
    }
    try_join_all(threads.iter().map(|calls| player.thread(calls))).await?;
    let all_seconds = player.now() as f64 / 1e9;
    let (seconds, stalled_seconds) = (player.seconds.get(), player.stalled.get().as_secs_f64());
    Ok((Course { seconds, all_seconds, logged: player.logged.into_inner(), stalled_seconds }, player.files))
}

const fn nanos(micros: u64) -> u64 {
    micros * 1000
}

impl<F: Files> Player<F> {
    fn now(&self) -> u64 {
        self.rt.now().since(self.began).as_nanos() as u64
    }

    /// Waits for the end of a call, and returns when it was.
    async fn ended(&self, at: u32) -> u64 {
        loop {
            if let Some(Some(end)) = self.ends.borrow().get(at as usize) {
                return *end;
            }
            let notify = self.waiting.borrow_mut().entry(at).or_default().clone();
            notify.notified().await;
        }
    }

    async fn sleep_until(&self, time: u64) {
        let now = self.now();
        if time > now {
            self.rt.sleep(Duration::from_nanos(time - now)).await;
        }
    }

    async fn thread(&self, calls: &[u32]) -> Result<(), LabError> {
        for &at in calls {
            let (Some(call), Some(before)) = (self.recording.calls.get(at as usize), self.order.get(at as usize))
            else {
                continue;
            };
            let last = self.now();
            let queued = if self.machine == Machine::Recorded { before.queued } else { 0 };
            let work = nanos(before.worked + queued);
            let ran = match self.machine {
                Machine::Recorded => 1.0,
                Machine::Roomy => before.worked as f64 / before.idle.max(1) as f64,
            };
            let logs = matches!(call.kind, Kind::Append(_)) && self.recording.is(call) == Use::Log;
            // The work of a log's pieces lies between them.
            let mut start = if logs { last } else { last + work };
            match before.wait {
                Wait::Nothing => {}
                Wait::Time(time) => start += nanos(time),
                Wait::Call(turn, since) => start = start.max(self.ended(turn).await + nanos(since)),
            }
            for &earlier in &before.after {
                self.ended(earlier).await;
            }
            self.sleep_until(start).await;
            if logs || (call.kind == Kind::Create && self.recording.is(call) == Use::Log) {
                let stalled = self.now().saturating_sub(last + work);
                self.stalled.set(self.stalled.get() + Duration::from_nanos(stalled));
            }
            if logs {
                self.log(call, work + (nanos(call.took) as f64 * ran) as u64).await?
            } else {
                self.files.perform(&self.recording, call).await?
            }
            self.end(at);
        }
        Ok(())
    }

    /// Makes an append to a log, in pieces.
    async fn log(&self, call: &Call, busy: u64) -> Result<(), LabError> {
        let Kind::Append(bytes) = call.kind else { return Ok(()) };
        let pieces = bytes.div_ceil(PIECE).max(1);
        for piece in 0..pieces {
            let length = PIECE.min(bytes - piece * PIECE);
            self.rt.sleep(Duration::from_nanos(busy / pieces)).await;
            let part = Call { kind: Kind::Append(length), ..call.clone() };
            self.files.perform(&self.recording, &part).await?;
            self.logged.borrow_mut().note(self.rt.now().since(self.began), length);
        }
        self.seconds.set(self.seconds.get().max(self.now() as f64 / 1e9));
        Ok(())
    }

    fn end(&self, at: u32) {
        let now = self.now();
        if let Some(end) = self.ends.borrow_mut().get_mut(at as usize) {
            *end = Some(now);
        }
        if let Some(waiting) = self.waiting.borrow_mut().remove(&at) {
            waiting.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use shingle_runtime::LocalBoxFuture;
    use shingle_sim::Sim;

    use super::*;
    use crate::calls::own;

    /// Files whose calls take as long as they did, times a factor.
    struct AsRecorded(Runtime, u64);

    impl Files for AsRecorded {
        fn perform<'a>(&'a self, recording: &'a Recording, call: &'a Call) -> LocalBoxFuture<'a, Result<(), LabError>> {
            Box::pin(async move {
                if recording.is(call) != Use::Log {
                    self.0.sleep(Duration::from_micros(call.took * self.1)).await;
                }
                Ok(())
            })
        }
    }

    fn played(recording: &Rc<Recording>, factor: u64, machine: Machine) -> Course {
        let recording = recording.clone();
        Sim::new(1).run(move |rt| async move {
            play(&rt, &recording, machine, AsRecorded(rt.clone(), factor)).await.map(|(course, _)| course).unwrap()
        })
    }

    #[test]
    fn on_files_as_fast_as_the_recorded_ones_a_recording_takes_as_long_as_it_did() {
        let recording = Rc::new(own::recording().unwrap());
        let course = played(&recording, 1, Machine::Recorded);
        let took = recording.seconds();
        assert!((course.seconds / took - 1.0).abs() < 0.03, "{} s instead of {took} s", course.seconds);
        let points = course.logged.points();
        let logged: f64 = points.iter().map(|point| point.1 * 2e6 * points[0].0).sum();
        assert!((logged / recording.appended(Use::Log) as f64 - 1.0).abs() < 1e-6, "{logged} bytes");
        // Without waiting for processors it is faster, and on slow files slower: writers wait for flushes.
        let roomy = played(&recording, 1, Machine::Roomy);
        let slow = played(&recording, 10, Machine::Roomy);
        assert!(roomy.seconds <= course.seconds, "{} s", roomy.seconds);
        assert!(slow.seconds > roomy.seconds && slow.stalled_seconds > roomy.stalled_seconds, "{} s", slow.seconds);
    }
}
