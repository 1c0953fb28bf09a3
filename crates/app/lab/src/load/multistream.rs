//! The streams of an object service on one drive: a sixtieth of the load that SMRstore's Table 3 puts on sixty drives.
//!
//! Two classes of GC streams append to the drive directly. Data and metadata go to cache SSDs first; a chunk comes to
//! the drive whole, once it is sealed (section 2.1: only sealed chunks are moved from cache to drive). The drive is
//! filled to a share of its capacity; from then on, chunks drawn at random are deleted to hold that share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use shingle_base::ChunkId;
use shingle_chunk_store::Stream;
use shingle_runtime::{Instant, Runtime, Task};
use shingle_sim::Random;
use tokio::sync::{Mutex, Notify};

use crate::error::LabError;
use crate::load::lengths::Lengths;
use crate::load::table3::{DRIVES, ROWS, Row};
use crate::load::times::{Summary, Times};
use crate::rig::target::{ChunkTarget, TargetError, TargetState};

/// Bytes of a request to the drive.
const IO_BYTES: u32 = 1 << 20;

/// Longest delay behind its rate that a stream may catch up on.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Streams of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    /// Name in Table 3.
    pub name: &'static str,
    /// The stream its chunks are created with.
    pub stream: Stream,
    /// Files written at once.
    pub files: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
    /// Bytes a second.
    pub rate: f64,
    /// Requests outstanding.
    pub depth: u32,
    /// Bytes of sealed chunks that may wait in the cache SSDs, if the class has those.
    pub cache: Option<u64>,
}

/// Table 3 for one drive, with chunks of these lengths; `scale` is the share of a drive (and so of the cache before it).
pub(crate) fn classes(lengths: Lengths, scale: f64) -> Vec<Class> {
    // Two SSDs of 800 GB; data has seven times the rate of metadata.
    let cache = |row: &Row| {
        let share = if row.stream == Stream::Meta { 0.12 } else { 0.88 };
        (2.0 * 800e9 / DRIVES * share * scale) as u64
    };
    let class = |row: &Row| Class {
        name: row.name,
        stream: row.stream,
        files: row.files(),
        chunk_bytes: lengths.data_bytes(row.chunk_mib),
        rate: row.rate(),
        depth: row.depth(),
        cache: row.cached.then(|| cache(row)),
    };
    ROWS.iter().map(class).collect()
}

/// A run.
#[derive(Clone, Debug)]
pub struct MultiStream {
    /// The streams.
    pub classes: Vec<Class>,
    /// The share of the capacity that data takes when deletion begins.
    pub full: f64,
    /// Time that it goes on from then.
    pub deletion: Duration,
    /// Interval of its samples.
    pub sample: Duration,
}

impl MultiStream {
    /// Bytes a second of all streams.
    pub fn rate(&self) -> f64 {
        self.classes.iter().map(|class| class.rate).sum()
    }
}

/// The state at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Since the beginning.
    pub at: Duration,
    /// Bytes a second since the sample before.
    pub bytes_s: f64,
    /// The store's own figures.
    pub state: TargetState,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiStreamResult {
    /// The course of it.
    pub samples: Vec<Sample>,
    /// When deletion began.
    pub full_at: Duration,
    /// Bytes a second until then.
    pub fill_bytes_s: f64,
    /// Bytes a second in steady state: in the last third of the time, when the space that was free at first is used up.
    pub settled_bytes_s: f64,
    /// Bytes written in that third for each byte that was not moved by GC: 1 without moves.
    pub write_amplification: f64,
    /// Chunks deleted a second.
    pub deletions_s: f64,
    /// Times of requests of the direct streams until deletion begins, and in steady state.
    pub times: [Summary; 2],
}

impl MultiStreamResult {
    /// The share of the throughput that deletion costs.
    pub fn loss(&self) -> f64 {
        1.0 - self.settled_bytes_s / self.fill_bytes_s
    }
}

/// A part of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Fill,
    /// Chunks are deleted, but the space that was free at first is not used up yet.
    Deletion,
    Settled,
}

/// Requests answered in a phase: bytes of all, times of the direct streams'.
#[derive(Default)]
struct Answered {
    bytes: Cell<u64>,
    direct: RefCell<Times>,
}

struct Run {
    rt: Runtime,
    target: Rc<dyn ChunkTarget>,
    load: MultiStream,
    capacity: u64,
    next_id: Cell<u64>,
    /// Sealed chunks and their lengths.
    sealed: RefCell<Vec<(ChunkId, u64)>>,
    /// Bytes that are there.
    stored: Cell<u64>,
    /// When deletion began.
    full_at: Cell<Option<Instant>>,
    deleted: Cell<u64>,
    answered: [Answered; 3],
    /// A chunk was sealed.
    grown: Notify,
    over: Cell<bool>,
    failed: RefCell<Option<LabError>>,
}

impl Run {
    fn fail(&self, error: &TargetError) {
        self.failed.borrow_mut().get_or_insert_with(|| LabError(error.to_string()));
        self.over.set(true);
    }

    fn phase(&self) -> Phase {
        match self.full_at.get() {
            None => Phase::Fill,
            Some(full_at) if self.rt.now().since(full_at) < self.load.deletion * 2 / 3 => Phase::Deletion,
            Some(_) => Phase::Settled,
        }
    }

    fn new_id(&self) -> ChunkId {
        ChunkId::from_u64(self.next_id.replace(self.next_id.get() + 1))
    }

    fn count(&self, bytes: u64, direct_since: Option<Instant>) {
        self.stored.set(self.stored.get() + bytes);
        let answered = &self.answered[self.phase() as usize];
        answered.bytes.set(answered.bytes.get() + bytes);
        if let Some(began) = direct_since {
            answered.direct.borrow_mut().note(began, self.rt.now());
        }
    }

    async fn seal(&self, id: ChunkId, bytes: u64) -> Result<(), TargetError> {
        self.target.seal(id).await?;
        self.sealed.borrow_mut().push((id, bytes));
        self.grown.notify_one();
        Ok(())
    }

    /// Deletes chunks drawn at random while more than the target is stored.
    async fn delete(self: Rc<Self>) {
        let mut random = Random::new(self.rt.random());
        let most = (self.capacity as f64 * self.load.full) as u64;
        while !self.over.get() {
            self.grown.notified().await;
            while self.stored.get() > most && !self.over.get() {
                if self.full_at.get().is_none() {
                    self.full_at.set(Some(self.rt.now()));
                }
                let (id, bytes) = {
                    let mut sealed = self.sealed.borrow_mut();
                    let count = sealed.len() as u64;
                    if count == 0 {
                        break;
                    }
                    sealed.swap_remove(random.below(count) as usize)
                };
                self.stored.set(self.stored.get() - bytes);
                self.deleted.set(self.deleted.get() + 1);
                if let Err(error) = self.target.delete(id).await {
                    self.fail(&error);
                }
            }
        }
    }
}

/// Spreads requests in time.
struct Pace {
    rate: f64,
    next: Cell<Instant>,
}

impl Pace {
    fn new(rt: &Runtime, rate: f64) -> Self {
        Self { rate, next: Cell::new(rt.now()) }
    }

    /// Waits until `bytes` more are due.
    async fn wait(&self, rt: &Runtime, bytes: u64) {
        let now = rt.now();
        // An older delay is not made up for.
        let earliest = Instant { nanos: now.nanos.saturating_sub(CATCH_UP.as_nanos() as u64) };
        let due = self.next.get().max(earliest);
        self.next.set(due + Duration::from_secs_f64(bytes as f64 / self.rate));
        if due > now {
            rt.sleep(due.since(now)).await;
        }
    }
}

/// The present chunk of a file.
struct Tail {
    id: ChunkId,
    /// Offset of the next request.
    offset: u64,
    /// Bytes at which it is sealed.
    limit: u64,
}

/// A file that is written directly.
struct File {
    tail: Mutex<Option<Tail>>,
    /// Bytes of its first chunk: files do not all come to the ends of their chunks at once.
    first: Cell<Option<u64>>,
}

/// The streams of a class without cache: files in turn, some requests outstanding.
struct Direct {
    run: Rc<Run>,
    class: Class,
    files: Vec<File>,
    cursor: Cell<usize>,
    pace: Pace,
}

impl Direct {
    fn start(run: &Rc<Run>, class: Class) -> Vec<Task<()>> {
        let first = || (1 + run.rt.random() % (class.chunk_bytes / u64::from(IO_BYTES))) * u64::from(IO_BYTES);
        let file = |_| File { tail: Mutex::new(None), first: Cell::new(Some(first())) };
        let files = (0..class.files.max(1)).map(file).collect();
        let pace = Pace::new(&run.rt, class.rate);
        let this = Rc::new(Self { run: run.clone(), class, files, cursor: Cell::new(0), pace });
        (0..class.depth).map(|_| run.rt.spawn(this.clone().work())).collect()
    }

    async fn work(self: Rc<Self>) {
        while !self.run.over.get() {
            self.pace.wait(&self.run.rt, u64::from(IO_BYTES)).await;
            let at = self.cursor.replace(self.cursor.get() + 1) % self.files.len();
            if let Err(error) = self.append(&self.files[at]).await {
                self.run.fail(&error);
            }
        }
    }

    async fn append(&self, file: &File) -> Result<(), TargetError> {
        let run = &self.run;
        let mut tail = file.tail.lock().await;
        let Tail { id, offset, limit } = match tail.take() {
            Some(tail) => tail,
            None => {
                let id = run.new_id();
                run.target.create(id, self.class.stream).await?;
                Tail { id, offset: 0, limit: file.first.take().unwrap_or(self.class.chunk_bytes) }
            }
        };
        let length = u64::from(IO_BYTES).min(limit - offset);
        let end = offset + length;
        let full = end == limit;
        *tail = (!full).then_some(Tail { id, offset: end, limit });
        let began = run.rt.now();
        let appended = run.target.append(id, offset, length as u32);
        drop(tail);
        appended.await?;
        run.count(length, Some(began));
        if full {
            run.seal(id, end).await?;
        }
        Ok(())
    }
}

/// The streams of a class behind a cache: sealed chunks, moved to the drive one after the other.
struct Cached {
    run: Rc<Run>,
    class: Class,
    waiting: RefCell<VecDeque<u64>>,
    changed: Notify,
}

impl Cached {
    fn start(run: &Rc<Run>, class: Class) -> Vec<Task<()>> {
        let this = Rc::new(Self { run: run.clone(), class, waiting: RefCell::default(), changed: Notify::new() });
        vec![run.rt.spawn(this.clone().fill()), run.rt.spawn(this.clone().drain())]
    }

    /// Files fill up evenly, so that one chunk after the other is sealed.
    async fn fill(self: Rc<Self>) {
        let pace = Pace::new(&self.run.rt, self.class.rate);
        let room = (self.class.cache.unwrap_or(0) / self.class.chunk_bytes).max(1) as usize;
        while !self.run.over.get() {
            pace.wait(&self.run.rt, self.class.chunk_bytes).await;
            if self.waiting.borrow().len() < room {
                self.waiting.borrow_mut().push_back(self.class.chunk_bytes);
                self.changed.notify_one();
            }
        }
        self.changed.notify_one();
    }

    async fn drain(self: Rc<Self>) {
        while !self.run.over.get() {
            let next = self.waiting.borrow().front().copied();
            let Some(bytes) = next else {
                self.changed.notified().await;
                continue;
            };
            if let Err(error) = self.copy(bytes).await {
                self.run.fail(&error);
            }
            self.waiting.borrow_mut().pop_front();
        }
    }

    /// Moves a chunk to the drive, with some requests outstanding.
    async fn copy(&self, bytes: u64) -> Result<(), TargetError> {
        let run = &self.run;
        let id = run.new_id();
        run.target.create(id, self.class.stream).await?;
        let mut requests = VecDeque::new();
        let mut offset = 0;
        loop {
            while offset < bytes && requests.len() < self.class.depth.max(4) as usize {
                let length = u64::from(IO_BYTES).min(bytes - offset);
                requests.push_back((length, run.target.append(id, offset, length as u32)));
                offset += length;
            }
            let Some((length, request)) = requests.pop_front() else { break };
            request.await?;
            run.count(length, None);
        }
        run.seal(id, bytes).await
    }
}

/// Runs the load. `progress` gets the share of it that is done.
///
/// # Errors
/// The first call that failed.
pub async fn run(
    rt: &Runtime,
    target: Rc<dyn ChunkTarget>,
    load: MultiStream,
    mut progress: impl FnMut(f64),
) -> Result<MultiStreamResult, LabError> {
    let began = rt.now();
    let capacity = target.state().capacity_bytes;
    let run = Rc::new(Run {
        rt: rt.clone(),
        target,
        capacity,
        next_id: Cell::new(1),
        sealed: RefCell::default(),
        stored: Cell::new(0),
        full_at: Cell::new(None),
        deleted: Cell::new(0),
        answered: Default::default(),
        grown: Notify::new(),
        over: Cell::new(false),
        failed: RefCell::default(),
        load,
    });
    let mut tasks = vec![rt.spawn(run.clone().delete())];
    for &class in &run.load.classes {
        tasks.extend(if class.cache.is_some() { Cached::start(&run, class) } else { Direct::start(&run, class) });
    }
    let fill_expected = capacity as f64 * run.load.full / run.load.rate();
    let all_expected = fill_expected + run.load.deletion.as_secs_f64();
    let mut samples = Vec::new();
    let (mut bytes, mut at) = (0, began);
    let mut settled: Option<(Instant, TargetState)> = None;
    while !run.over.get() {
        rt.sleep(run.load.sample).await;
        let now = rt.now();
        let state = run.target.state();
        let answered = run.answered.iter().map(|phase| phase.bytes.get()).sum();
        let bytes_s = (answered - bytes) as f64 / now.since(at).as_secs_f64();
        (bytes, at) = (answered, now);
        if run.phase() == Phase::Settled {
            settled.get_or_insert_with(|| (now, state.clone()));
        }
        match run.full_at.get() {
            Some(full_at) if now.since(full_at) >= run.load.deletion => run.over.set(true),
            None if now.since(began).as_secs_f64() > 10.0 * fill_expected => {
                return Err(LabError(
                    "the drive could not be filled in ten times the time that should take".to_owned(),
                ));
            }
            _ => {}
        }
        progress((now.since(began).as_secs_f64() / all_expected).min(1.0));
        samples.push(Sample { at: now.since(began), bytes_s, state });
    }
    run.grown.notify_one();
    if let Some(error) = run.failed.borrow_mut().take() {
        return Err(error);
    }
    for task in tasks {
        // It ends before its simulation does.
        let _ = task.await;
    }
    let (Some((since, before)), Some(last), Some(full_at)) = (settled, samples.last(), run.full_at.get()) else {
        return Err(LabError("the run was too short for deletion to settle".to_owned()));
    };
    let ended = began + last.at;
    let settled_bytes: f64 = samples
        .windows(2)
        .filter(|pair| began + pair[0].at >= since)
        .map(|pair| pair[1].bytes_s * (pair[1].at - pair[0].at).as_secs_f64())
        .sum();
    let written = (last.state.written_bytes - before.written_bytes) as f64;
    let moved = (last.state.moved_bytes - before.moved_bytes) as f64;
    let times = |phase: Phase| run.answered[phase as usize].direct.borrow().summary();
    let filled = run.answered[Phase::Fill as usize].bytes.get() as f64;
    Ok(MultiStreamResult {
        full_at: full_at.since(began),
        fill_bytes_s: filled / full_at.since(began).as_secs_f64(),
        settled_bytes_s: settled_bytes / ended.since(since).as_secs_f64().max(f64::MIN_POSITIVE),
        write_amplification: written / (written - moved).max(1.0),
        deletions_s: run.deleted.get() as f64 / ended.since(full_at).as_secs_f64().max(f64::MIN_POSITIVE),
        times: [times(Phase::Fill), times(Phase::Settled)],
        samples,
    })
}
