//! High concurrency: four fio jobs, four requests each, 128 files each. (SMRstore, sections 3.1 and 6.1.)

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use shingle_base::ChunkId;
use shingle_chunk_store::Stream;
use shingle_runtime::{Instant, Runtime};
use shingle_sim::Random;
use tokio::sync::Mutex;

use crate::error::LabError;
use crate::load::times::{Summary, Times};
use crate::rig::target::ChunkTarget;

/// Order in which a job visits its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In turn, as they were made: fio's default (`file_service_type=roundrobin`).
    Turn,
    /// At random (`file_service_type=random`).
    Random,
}

/// Jobs, requests and files of a run.
#[derive(Clone, Copy, Debug)]
pub struct Micro {
    /// fio's `numjobs`.
    pub jobs: u32,
    /// fio's `iodepth`: requests that a job has outstanding.
    pub depth: u32,
    /// fio's `nrfiles`: files, and so open chunks, of a job.
    pub files: u32,
    /// fio's `file_service_type`.
    pub order: Order,
    /// fio's `bs`.
    pub io_bytes: u32,
    /// Bytes of a chunk; the file goes on in another one after that.
    pub chunk_bytes: u64,
    /// Kinds of the files, which take turns.
    pub streams: &'static [Stream],
    /// Not measured.
    pub warm_up: Duration,
    /// Measured.
    pub time: Duration,
}

impl Micro {
    /// The paper's, with one I/O size.
    pub fn paper(io_bytes: u32, warm_up: Duration, time: Duration) -> Self {
        let (order, streams) = (Order::Turn, &[Stream::Gc]);
        Self { jobs: 4, depth: 4, files: 128, order, io_bytes, chunk_bytes: 255 << 20, streams, warm_up, time }
    }

    /// The next file of a job.
    fn next(&self, cursor: &Cell<usize>, random: &mut Random) -> usize {
        match self.order {
            Order::Turn => cursor.replace(cursor.get() + 1) % self.files as usize,
            Order::Random => random.below(self.files.into()) as usize,
        }
    }
}

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct MicroResult {
    /// Bytes a second.
    pub bytes_s: f64,
    /// Times of the requests.
    pub times: Summary,
}

/// A file: its kind, its present chunk, and the length of that.
struct File {
    stream: Stream,
    id: Cell<ChunkId>,
    length: Cell<u64>,
    /// A file's appends follow each other.
    turn: Mutex<()>,
}

struct Run {
    rt: Runtime,
    target: Rc<dyn ChunkTarget>,
    load: Micro,
    next_id: Cell<u64>,
    began: Cell<Instant>,
    bytes: Cell<u64>,
    times: RefCell<Times>,
    failed: RefCell<Option<LabError>>,
}

impl Run {
    fn new(rt: &Runtime, target: Rc<dyn ChunkTarget>, load: Micro) -> Rc<Self> {
        Rc::new(Self {
            rt: rt.clone(),
            target,
            load,
            next_id: Cell::new(1),
            began: Cell::new(rt.now()),
            bytes: Cell::default(),
            times: RefCell::default(),
            failed: RefCell::default(),
        })
    }

    async fn new_file(&self, number: u32) -> Result<File, LabError> {
        let streams = self.load.streams;
        let stream = streams[number as usize % streams.len()];
        let id = self.new_chunk(stream).await?;
        Ok(File { stream, id: Cell::new(id), length: Cell::new(0), turn: Mutex::new(()) })
    }

    async fn new_chunk(&self, stream: Stream) -> Result<ChunkId, LabError> {
        let id = ChunkId::from_u64(self.next_id.replace(self.next_id.get() + 1));
        self.target.create(id, stream).await.map_err(|error| LabError(error.to_string()))?;
        Ok(id)
    }

    fn over(&self) -> bool {
        let over = self.rt.now().since(self.began.get()) >= self.load.warm_up + self.load.time;
        over || self.failed.borrow().is_some()
    }

    /// Counts a request that began at `began`.
    fn count(&self, began: Instant, bytes: u64) {
        let since = self.rt.now().since(self.began.get());
        if since < self.load.warm_up || since > self.load.warm_up + self.load.time {
            return;
        }
        self.bytes.set(self.bytes.get() + bytes);
        self.times.borrow_mut().note(began, self.rt.now());
    }

    fn result(&self) -> Result<MicroResult, LabError> {
        if let Some(error) = self.failed.borrow_mut().take() {
            return Err(error);
        }
        let bytes_s = self.bytes.get() as f64 / self.load.time.as_secs_f64();
        Ok(MicroResult { bytes_s, times: self.times.borrow().summary() })
    }

    /// One request: an append to the file.
    async fn append(&self, file: &File) -> Result<(), LabError> {
        let bytes = u64::from(self.load.io_bytes);
        let failed = |error: crate::rig::target::TargetError| LabError(error.to_string());
        let _turn = file.turn.lock().await;
        if file.length.get() + bytes > self.load.chunk_bytes {
            self.target.seal(file.id.get()).await.map_err(failed)?;
            file.id.set(self.new_chunk(file.stream).await?);
            file.length.set(0);
        }
        let began = self.rt.now();
        self.target.append(file.id.get(), file.length.get(), self.load.io_bytes).await.map_err(failed)?;
        file.length.set(file.length.get() + bytes);
        self.count(began, bytes);
        Ok(())
    }
}

/// Appends to all files.
///
/// # Errors
/// The first failed call.
pub async fn write(rt: &Runtime, target: Rc<dyn ChunkTarget>, load: Micro) -> Result<MicroResult, LabError> {
    let run = Run::new(rt, target, load);
    let mut jobs = Vec::new();
    for _ in 0..load.jobs {
        let mut files = Vec::new();
        for number in 0..load.files {
            files.push(run.new_file(number).await?);
        }
        jobs.push(Rc::new(files));
    }
    run.began.set(rt.now());
    let mut workers = Vec::new();
    for files in jobs {
        let cursor = Rc::new(Cell::new(0));
        for _ in 0..load.depth {
            let (run, files, cursor) = (run.clone(), files.clone(), cursor.clone());
            // Files in turn need no chance: whatever else draws gets the same numbers.
            let mut random = Random::new(if load.order == Order::Random { rt.random() } else { 0 });
            workers.push(rt.spawn(async move {
                while !run.over() {
                    let at = run.load.next(&cursor, &mut random);
                    if let Err(error) = run.append(&files[at]).await {
                        run.failed.borrow_mut().get_or_insert(error);
                    }
                }
            }));
        }
    }
    for worker in workers {
        // It ends before its simulation does.
        let _ = worker.await;
    }
    run.result()
}

/// Fills `chunks` chunks of `length` bytes, several at a time.
///
/// # Errors
/// The first failed call.
pub async fn fill(
    rt: &Runtime,
    target: &Rc<dyn ChunkTarget>,
    chunks: u64,
    length: u64,
    stream: Stream,
) -> Result<Vec<ChunkId>, LabError> {
    const STEP: u64 = 1 << 20;
    let next = Rc::new(Cell::new(0));
    let failed = Rc::new(RefCell::new(None));
    let workers: Vec<_> = (0..16)
        .map(|_| {
            let (target, next, failed) = (target.clone(), next.clone(), failed.clone());
            rt.spawn(async move {
                while next.get() < chunks && failed.borrow().is_none() {
                    let id = ChunkId::from_u64(1 + next.replace(next.get() + 1));
                    let filled = async {
                        target.create(id, stream).await?;
                        let mut done = 0;
                        while done < length {
                            let step = STEP.min(length - done);
                            target.append(id, done, step as u32).await?;
                            done += step;
                        }
                        target.seal(id).await
                    };
                    if let Err(error) = filled.await {
                        failed.borrow_mut().get_or_insert(LabError(error.to_string()));
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        let _ = worker.await;
    }
    match failed.borrow_mut().take() {
        Some(error) => Err(error),
        None => Ok((1..=chunks).map(ChunkId::from_u64).collect()),
    }
}

/// Reads anywhere in the chunks, which are `length` bytes long each. The seed decides all places, and their order: two stores with the same
/// chunks are asked for the same bytes, whatever each drew before.
///
/// # Errors
/// The first failed call.
pub async fn read(
    rt: &Runtime,
    target: Rc<dyn ChunkTarget>,
    load: Micro,
    chunks: Vec<ChunkId>,
    length: u64,
    seed: u64,
) -> Result<MicroResult, LabError> {
    let run = Run::new(rt, target, load);
    let (chunks, random) = (Rc::new(chunks), Rc::new(RefCell::new(Random::new(seed))));
    let workers: Vec<_> = (0..load.jobs * load.depth)
        .map(|_| {
            let (run, chunks, random) = (run.clone(), chunks.clone(), random.clone());
            rt.spawn(async move {
                let bytes = u64::from(run.load.io_bytes);
                while !run.over() {
                    let (id, offset) = {
                        let random = &mut *random.borrow_mut();
                        // fio aligns offsets to the request size.
                        (chunks[random.below(chunks.len() as u64) as usize], random.below(length / bytes) * bytes)
                    };
                    let began = run.rt.now();
                    match run.target.read(id, offset, run.load.io_bytes).await {
                        Ok(()) => run.count(began, bytes),
                        Err(error) => {
                            run.failed.borrow_mut().get_or_insert(LabError(error.to_string()));
                        }
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        let _ = worker.await;
    }
    run.result()
}
