//! Replay of block I/Os on a block store in virtual time: in an open loop, in a closed loop, or with so many outstanding.
//!
//! Three paces, all of which keep the dependencies of the I/Os:
//! - *open*: an I/O is due when it arrived in the recording, whether or not the store is behind. Its time includes how long it waits.
//! - *closed*: an I/O with dependencies is due when they have completed, and the recorded think time has gone by: from the recorded
//!   end of the last of them to its arrival. One without is due as long after the one before it was taken from the trace as it came
//!   after it in the recording.
//! - *depth*: so many I/Os are outstanding at any time, and recorded times mean nothing.
//!
//! # Invariants
//! - LAB-RPL-1: no I/O is given to the store before those that it depends on have completed.
//! - LAB-RPL-2: memory is bounded by [`OUTSTANDING_MAX`] I/Os, however long the trace is and however slow the store.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks};
use shingle_runtime::{Instant, Runtime};
use shingle_store_api::{BlockStore, Durability, StoreResult};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::latency::Latency;
use super::throughput::Throughput;
use crate::error::LabError;
use crate::trace::io::{Io, IoKind, Ios, WINDOW};

/// I/Os that were taken from the trace and have not completed, at most.
pub const OUTSTANDING_MAX: usize = 1 << 16;

/// Blocks of zeros to write from.
const ZEROS: u64 = 256;

/// A stall: time without any completion while something was outstanding.
const STALL: Duration = Duration::from_secs(1);

/// Pace of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// By recorded arrivals.
    Open,
    /// By dependencies and recorded think times.
    Closed,
    /// So many outstanding.
    Depth(u32),
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Closed => f.write_str("closed"),
            Self::Depth(depth) => write!(f, "depth:{depth}"),
        }
    }
}

impl FromStr for Pace {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let depth = || text.strip_prefix("depth:")?.parse().ok().filter(|depth| (1..=4096).contains(depth));
        match text {
            "open" => Ok(Self::Open),
            "closed" => Ok(Self::Closed),
            _ => depth()
                .map(Self::Depth)
                .ok_or_else(|| format!("`{text}` is no pace: open, closed, or depth:N with 1 to 4096 outstanding")),
        }
    }
}

/// The course of a replay.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// I/Os that completed.
    pub ios: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// From the first I/O to the last completion.
    pub took: Duration,
    /// Times of all I/Os, from when each was due.
    pub all: Latency,
    /// Times of reads.
    pub reads: Latency,
    /// Bytes read and written over time.
    pub throughput: Throughput,
    /// Stalls of a second and more.
    pub stalls: u64,
    /// The longest time without a completion while something was outstanding.
    pub longest_stall: Duration,
    /// I/Os that touch whole sectors of the store, and were not of whole ones.
    pub widened: u64,
    /// I/Os that depend on others.
    pub dependent: u64,
}

impl Replayed {
    /// Bytes read and written a second.
    pub fn bytes_s(&self) -> f64 {
        (self.read_bytes + self.written_bytes) as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// An I/O's completion, as those that depend on it see it.
#[derive(Default)]
struct Ended {
    at: Cell<Option<Instant>>,
    told: Notify,
    /// Its recorded end, for think times.
    recorded: u64,
}

struct Player {
    rt: Runtime,
    store: Rc<dyn BlockStore>,
    zeros: Bytes,
    began: Instant,
    replayed: RefCell<Replayed>,
    outstanding: Cell<u64>,
    /// The last completion, or the end of the time in which nothing was outstanding.
    quiet_from: Cell<Instant>,
    failed: RefCell<Option<LabError>>,
}

/// Time at which an I/O is due, but for its dependencies.
#[derive(Clone, Copy)]
enum Due {
    /// At that moment.
    At(Instant),
    /// So long after its dependencies have completed.
    After(Duration),
    /// As soon as it is at the front.
    Now,
}

/// Replays I/Os on a store. `progress` gets the number of those that were issued.
///
/// # Errors
/// The trace cannot be read on, an I/O does not fit on the store, or a call failed; or nothing in the trace is for that pace.
pub async fn replay(
    rt: &Runtime,
    store: Rc<dyn BlockStore>,
    ios: Ios,
    pace: Pace,
    mut progress: impl FnMut(u64),
) -> Result<Replayed, LabError> {
    let player = Player::new(rt, store);
    let permits = match pace {
        Pace::Depth(depth) => (depth.max(1) as usize).min(OUTSTANDING_MAX),
        Pace::Open | Pace::Closed => OUTSTANDING_MAX,
    };
    let places = Arc::new(Semaphore::new(permits));
    let mut window: VecDeque<Rc<Ended>> = VecDeque::new();
    // Arrival and due time of the I/O before.
    let mut before: (u64, Instant) = (0, player.began);
    for (number, io) in ios.enumerate() {
        let io = io?;
        if number % 1024 == 0 {
            progress(number as u64);
        }
        if let Some(failed) = player.failed.borrow_mut().take() {
            return Err(failed);
        }
        let after: Vec<Rc<Ended>> =
            io.after.iter().filter_map(|&back| window.get(window.len().checked_sub(back as usize)?).cloned()).collect();
        let due = match pace {
            Pace::Depth(_) => Due::Now,
            Pace::Open => Due::At(later(player.began, io.at)),
            Pace::Closed if after.is_empty() => Due::At(later(before.1, io.at.saturating_sub(before.0))),
            Pace::Closed => {
                let end = after.iter().map(|ended| ended.recorded).max().unwrap_or(0);
                Due::After(Duration::from_nanos(io.at.saturating_sub(end)))
            }
        };
        if let Due::At(at) = due {
            rt.sleep(at.since(rt.now())).await;
        }
        before = (io.at, if let Due::At(at) = due { at } else { rt.now() });
        let place = places.clone().acquire_owned().await.map_err(|error| LabError(error.to_string()))?;
        let ended = Rc::new(Ended { recorded: io.at.saturating_add(io.took.unwrap_or(0)), ..Ended::default() });
        if window.len() == WINDOW {
            window.pop_front();
        }
        window.push_back(ended.clone());
        player.replayed.borrow_mut().dependent += u64::from(!after.is_empty());
        rt.spawn_detached(player.clone().perform(number as u64, io, due, after, ended, place));
    }
    // All permits are back when all I/Os have completed.
    let all = places.acquire_many(permits as u32).await.map_err(|error| LabError(error.to_string()))?;
    drop(all);
    if let Some(failed) = player.failed.borrow_mut().take() {
        return Err(failed);
    }
    let replayed = player.replayed.borrow().clone();
    match replayed {
        Replayed { ios: 0, .. } => Err(LabError("the trace has no I/Os".to_owned())),
        Replayed { dependent: 0, .. } if pace == Pace::Closed => Err(LabError(
            "the trace has no dependencies, so that a closed loop would be an open one: `shingle lab trace convert \
             --infer-dependencies` finds them, where the trace says how long I/Os took"
                .to_owned(),
        )),
        replayed => Ok(replayed),
    }
}

fn later(at: Instant, nanos: u64) -> Instant {
    Instant { nanos: at.nanos.saturating_add(nanos) }
}

impl Player {
    fn new(rt: &Runtime, store: Rc<dyn BlockStore>) -> Rc<Self> {
        let replayed = Replayed {
            ios: 0,
            read_bytes: 0,
            written_bytes: 0,
            took: Duration::ZERO,
            all: Latency::default(),
            reads: Latency::default(),
            throughput: Throughput::new(Duration::from_millis(100)),
            stalls: 0,
            longest_stall: Duration::ZERO,
            widened: 0,
            dependent: 0,
        };
        Rc::new(Self {
            rt: rt.clone(),
            store,
            zeros: AlignedBuf::zeroed(Blocks(ZEROS)).freeze(),
            began: rt.now(),
            replayed: RefCell::new(replayed),
            outstanding: Cell::new(0),
            quiet_from: Cell::new(rt.now()),
            failed: RefCell::default(),
        })
    }

    /// Waits for the I/Os that it depends on, gives it to the store, and notes its time.
    async fn perform(
        self: Rc<Self>,
        number: u64,
        io: Io,
        due: Due,
        after: Vec<Rc<Ended>>,
        ended: Rc<Ended>,
        _place: OwnedSemaphorePermit,
    ) {
        let mut ready = Instant::default();
        for before in after {
            while before.at.get().is_none() {
                before.told.notified().await;
            }
            // LAB-RPL-1
            assert!(before.at.get().is_some_and(|at| at <= self.rt.now()));
            ready = ready.max(before.at.get().unwrap_or_default());
        }
        let due = match due {
            Due::At(at) => at.max(ready),
            Due::After(think) => {
                let at = later(ready, think.as_nanos() as u64);
                self.rt.sleep(at.since(self.rt.now())).await;
                at
            }
            Due::Now => self.rt.now(),
        };
        self.begin();
        let done = self.give(&io).await;
        self.end(&io, due);
        if let Err(error) = done {
            let what = format!("I/O {number} ({:?}): {error}", io.kind);
            self.failed.borrow_mut().get_or_insert(LabError(what));
        }
        ended.at.set(Some(self.rt.now()));
        ended.told.notify_waiters();
    }

    fn begin(&self) {
        if self.outstanding.get() == 0 {
            self.quiet_from.set(self.rt.now());
        }
        self.outstanding.set(self.outstanding.get() + 1);
    }

    async fn give(&self, io: &Io) -> StoreResult<()> {
        let sector = self.store.sector_bytes();
        let start = io.offset / sector * sector;
        let end = (io.offset + io.length).next_multiple_of(sector);
        let length = end - start;
        if io.kind != IoKind::Flush && length != io.length {
            self.replayed.borrow_mut().widened += 1;
        }
        match io.kind {
            IoKind::Read => self.store.read(start, length).await.map(drop),
            IoKind::Write => {
                let durability = if io.fua { Durability::Durable } else { Durability::Cached };
                self.store.write(start, self.data(length), durability).await
            }
            IoKind::Flush => self.store.flush().await,
            IoKind::Trim => {
                self.store.trim(start, length).await?;
                if io.fua { self.store.flush().await } else { Ok(()) }
            }
            IoKind::Zero => {
                let durability = if io.fua { Durability::Durable } else { Durability::Cached };
                self.store.write_zeros(start, length, durability).await
            }
        }
    }

    fn data(&self, mut length: u64) -> Vec<Bytes> {
        let mut pieces = Vec::with_capacity(1);
        while length > 0 {
            let part = length.min(self.zeros.len() as u64);
            pieces.push(self.zeros.slice(..part as usize));
            length -= part;
        }
        pieces
    }

    fn end(&self, io: &Io, due: Instant) {
        let now = self.rt.now();
        self.outstanding.set(self.outstanding.get() - 1);
        let quiet = now.since(self.quiet_from.replace(now));
        let replayed = &mut *self.replayed.borrow_mut();
        replayed.stalls += u64::from(quiet >= STALL);
        replayed.longest_stall = replayed.longest_stall.max(quiet);
        replayed.ios += 1;
        replayed.took = now.since(self.began);
        let nanos = now.since(due).as_nanos() as u64;
        replayed.all.note(nanos);
        match io.kind {
            IoKind::Read => {
                replayed.reads.note(nanos);
                replayed.read_bytes += io.length;
            }
            IoKind::Write => replayed.written_bytes += io.length,
            IoKind::Flush | IoKind::Trim | IoKind::Zero => {}
        }
        if matches!(io.kind, IoKind::Read | IoKind::Write) {
            replayed.throughput.note(replayed.took, io.length);
        }
    }
}

#[cfg(test)]
mod tests;
