//! Objects that are written, read and deleted whole: SMORE's workload generator. (SMORE, section V-B.)
//!
//! Objects have a size and no content. A target utilisation is kept by deleting older objects, drawn at random, whenever
//! a new one needs their room.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_array_store::{ArrayStore, ErrorKind, PutHints};
use shingle_runtime::{Instant, Runtime};
use shingle_sim::Random;

use crate::error::LabError;
use crate::load::times::{Summary, Times};
use crate::rig::array::lab_error;

/// Sizes of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All have as many bytes.
    Equal(u64),
    /// A log-normal distribution with its peak at 128 MB, cut off below 1 MB and above 10 GB, after the cold store of
    /// the European weather centre. (Section V-B.)
    Mix,
}

/// The peak of the mix.
const MIX_PEAK: f64 = (128 << 20) as f64;

/// Its spread, in factors of two: 86 % of all objects have 16 to 512 MB, as the paper says of most.
const MIX_SPREAD: f64 = 1.6;

const MIX_LEAST: f64 = (1 << 20) as f64;
const MIX_MOST: f64 = 10.0 * (1u64 << 30) as f64;

impl Sizes {
    /// Name in figures.
    pub fn name(self) -> String {
        match self {
            Self::Equal(size) if size >= 1 << 30 => format!("{} GB", size >> 30),
            Self::Equal(size) => format!("{} MB", size >> 20),
            Self::Mix => "mixed sizes".to_owned(),
        }
    }

    /// A size.
    pub fn draw(self, random: &mut Random) -> u64 {
        match self {
            Self::Equal(size) => size,
            Self::Mix => loop {
                let size = MIX_PEAK * power_of_two(MIX_SPREAD * normal(random));
                if (MIX_LEAST..=MIX_MOST).contains(&size) {
                    return size as u64;
                }
            },
        }
    }
}

/// A standard normal number, as the sum of twelve even ones: by addition alone, which every machine does alike.
fn normal(random: &mut Random) -> f64 {
    let even = |random: &mut Random| (random.number() >> 11) as f64 / (1u64 << 53) as f64;
    (0..12).map(|_| even(random)).sum::<f64>() - 6.0
}

/// 2 to the power of `x`; for the same reason not the machine's own.
fn power_of_two(x: f64) -> f64 {
    let whole = x.floor();
    let part = (x - whole) * std::f64::consts::LN_2;
    // The series of the exponential; part is below 0.7.
    let (mut sum, mut term) = (1.0, 1.0);
    for n in 1..18 {
        term *= part / f64::from(n);
        sum += term;
    }
    sum * 2f64.powi(whole as i32)
}

/// Pieces that a caller hands over at a time: as long as a segment, so that nothing has to be put together.
const PIECE: u64 = 20 << 20;

/// Result of reading for a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadResult {
    /// Bytes a second.
    pub bytes_s: f64,
    /// Objects that were read to their end.
    pub objects: u64,
    /// Times of these, each from its beginning to its end.
    pub times: Summary,
}

/// Reads in the time that counts.
#[derive(Default)]
struct Read {
    bytes: Cell<u64>,
    times: RefCell<Times>,
}

/// A load on an array.
pub struct Objects {
    rt: Runtime,
    store: ArrayStore,
    sizes: Sizes,
    zeros: Bytes,
    random: RefCell<Random>,
    live: RefCell<Live>,
    /// Their bytes, and those of objects being written.
    live_bytes: Cell<u64>,
    next: Cell<u64>,
    put_bytes: Cell<u64>,
    /// Writers announce the length of an object.
    tells_length: Cell<bool>,
    /// `None`: all objects are as likely to be deleted next.
    skew: Cell<Option<Skew>>,
    /// Bytes written between two snapshots of the index.
    snapshot_every: u64,
    snapshot_at: Cell<u64>,
    /// Calls of writers.
    waits: RefCell<Times>,
    failed: RefCell<Option<LabError>>,
}

/// Deletions that some of the objects get more of than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// Share of the living objects that die young.
    pub objects_percent: u64,
    /// Share of the deletions that meet one of these.
    pub deletions_percent: u64,
}

/// Numbers and sizes of live objects.
#[derive(Default)]
struct Live {
    /// Those that die young; none without a skew.
    hot: Vec<(u64, u64)>,
    old: Vec<(u64, u64)>,
}

impl Live {
    fn len(&self) -> usize {
        self.hot.len() + self.old.len()
    }

    fn get(&self, at: usize) -> Option<(u64, u64)> {
        self.hot.iter().chain(&self.old).nth(at).copied()
    }

    /// Adds an object: a hot one as long as these have less than their share.
    fn push(&mut self, object: (u64, u64), skew: Option<Skew>) {
        let few = |skew: Skew| (self.hot.len() as u64) * 100 < skew.objects_percent * self.len() as u64;
        if skew.is_some_and(few) { self.hot.push(object) } else { self.old.push(object) }
    }

    /// Takes the object that is deleted next.
    fn take(&mut self, random: &mut Random, skew: Option<Skew>) -> Option<(u64, u64)> {
        let hot = skew.is_some_and(|skew| random.below(100) < skew.deletions_percent);
        let from = if (hot || self.old.is_empty()) && !self.hot.is_empty() { &mut self.hot } else { &mut self.old };
        if from.is_empty() {
            return None;
        }
        let at = random.below(from.len() as u64) as usize;
        Some(from.swap_remove(at))
    }
}

/// When writers stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Live bytes to reach; nothing is deleted.
    Live(u64),
    /// `bytes` written in all; never more than `live` bytes live.
    Written { bytes: u64, live: u64 },
}

impl Objects {
    /// A load that has not begun. `snapshot_every`: bytes between snapshots.
    pub fn new(rt: &Runtime, store: &ArrayStore, sizes: Sizes, seed: u64, snapshot_every: u64) -> Rc<Self> {
        Rc::new(Self {
            rt: rt.clone(),
            store: store.clone(),
            sizes,
            zeros: vec![0; PIECE as usize].into(),
            random: RefCell::new(Random::new(seed)),
            live: RefCell::default(),
            live_bytes: Cell::default(),
            next: Cell::default(),
            put_bytes: Cell::default(),
            tells_length: Cell::new(true),
            skew: Cell::default(),
            snapshot_every,
            snapshot_at: Cell::new(snapshot_every),
            waits: RefCell::default(),
            failed: RefCell::default(),
        })
    }

    /// Writers do not announce the length of an object from now on.
    pub fn keep_lengths_back(&self) {
        self.tells_length.set(false);
    }

    /// Some objects die younger than others from now on; who writes them does not say which.
    pub fn skew_deletions(&self, skew: Skew) {
        self.skew.set(Some(skew));
        let mut live = self.live.borrow_mut();
        for object in std::mem::take(&mut live.old) {
            let hot = self.random.borrow_mut().below(100) < skew.objects_percent;
            if hot { live.hot.push(object) } else { live.old.push(object) }
        }
    }

    /// Bytes of objects that were written so far.
    pub fn put_bytes(&self) -> u64 {
        self.put_bytes.get()
    }

    /// Objects that are there.
    pub fn count(&self) -> usize {
        self.live.borrow().len()
    }

    /// Writes until `live` bytes live.
    ///
    /// # Errors
    /// The error of a failed call.
    pub async fn fill(self: &Rc<Self>, writers: u32, live: u64) -> Result<(), LabError> {
        self.write(writers, Until::Live(live)).await
    }

    /// Writes `bytes` more, and deletes at random so that no more than `live` bytes live.
    ///
    /// # Errors
    /// The error of a failed call.
    pub async fn churn(self: &Rc<Self>, writers: u32, live: u64, bytes: u64) -> Result<(), LabError> {
        self.write(writers, Until::Written { bytes: self.put_bytes.get() + bytes, live }).await
    }

    async fn write(self: &Rc<Self>, writers: u32, until: Until) -> Result<(), LabError> {
        let writer = |_| {
            let load = self.clone();
            self.rt.spawn(async move { load.writer(until).await })
        };
        let writers: Vec<_> = (0..writers).map(writer).collect();
        for ended in join_all(writers).await {
            if ended.is_err() {
                return Err(LabError("a writer was lost".to_owned()));
            }
        }
        self.failed.borrow_mut().take().map_or(Ok(()), Err)
    }

    async fn writer(self: Rc<Self>, until: Until) {
        while self.failed.borrow().is_none() {
            let size = self.sizes.draw(&mut self.random.borrow_mut());
            let live = match until {
                Until::Live(most) if self.live_bytes.get() + size > most => return,
                Until::Live(most) => most,
                Until::Written { bytes, .. } if self.put_bytes.get() >= bytes => return,
                Until::Written { live, .. } => live,
            };
            self.live_bytes.set(self.live_bytes.get() + size);
            if let Err(error) = self.replace(size, live).await {
                self.failed.borrow_mut().get_or_insert(error);
            }
        }
    }

    /// Writes an object of `size` bytes once there is room for it.
    async fn replace(&self, size: u64, live: u64) -> Result<(), LabError> {
        while self.live_bytes.get() > live && self.delete_one().await? {}
        if self.put_bytes.get() >= self.snapshot_at.get() {
            self.snapshot_at.set(self.put_bytes.get() + self.snapshot_every);
            self.store.snapshot().await.map_err(lab_error)?;
        }
        let number = self.next.get();
        self.next.set(number + 1);
        self.put(number, size, self.rt.now()).await?;
        self.live.borrow_mut().push((number, size), self.skew.get());
        Ok(())
    }

    async fn delete_one(&self) -> Result<bool, LabError> {
        let (number, size) = {
            let taken = self.live.borrow_mut().take(&mut self.random.borrow_mut(), self.skew.get());
            let Some(taken) = taken else { return Ok(false) };
            taken
        };
        self.live_bytes.set(self.live_bytes.get() - size);
        self.store.delete(name(number)).await.map_err(lab_error)
    }

    /// Writes an object that a client has asked for since `began`.
    async fn put(&self, number: u64, size: u64, mut began: Instant) -> Result<(), LabError> {
        let hints = PutHints { length: Some(size).filter(|_| self.tells_length.get()), group: None };
        let mut put = self.store.begin_put_with(name(number), hints).map_err(lab_error)?;
        let mut rest = size;
        while rest > 0 {
            let piece = rest.min(PIECE);
            put.write(self.zeros.slice(..piece as usize)).await.map_err(lab_error)?;
            self.put_bytes.set(self.put_bytes.get() + piece);
            rest -= piece;
            self.waited(&mut began);
        }
        let stored = put.finish(Bytes::new()).await.map_err(|error| match error.kind {
            ErrorKind::NoSpace => LabError(format!("the array is full: {error}")),
            _ => lab_error(error),
        })?;
        debug_assert_eq!(stored.size, size, "an object has the bytes that were written");
        self.waited(&mut began);
        Ok(())
    }

    /// Number of the next object.
    pub fn next_number(&self) -> u64 {
        self.next.get()
    }

    /// Objects have numbers from `next` on, so that none replaces another load's.
    pub fn begin_at(&self, next: u64) {
        self.next.set(next);
    }

    /// Writes a small object `pace` after the one before, for a while, and notes its waits: each since its client asked, whether
    /// the store's thread had time for it or not.
    ///
    /// # Errors
    /// The error of a failed call.
    pub async fn pace(&self, pace: Duration, time: Duration) -> Result<(), LabError> {
        const SMALL: u64 = 64 << 10;
        let mut due = self.rt.now();
        let end = due + time;
        while due < end {
            let number = self.next.get();
            self.next.set(number + 1);
            self.put(number, SMALL, due).await?;
            self.live.borrow_mut().push((number, SMALL), None);
            self.live_bytes.set(self.live_bytes.get() + SMALL);
            due = self.rt.now() + pace;
            self.rt.sleep(pace).await;
        }
        Ok(())
    }

    fn waited(&self, began: &mut Instant) {
        let now = self.rt.now();
        self.waits.borrow_mut().note(*began, now);
        *began = now;
    }

    /// Waits of writers for their calls, since the last time this was called.
    pub fn take_waits(&self) -> Summary {
        self.waits.take().summary()
    }

    /// Reads whole objects, drawn at random, with `readers` at a time that each ask for up to `ahead` segments at once.
    ///
    /// # Errors
    /// The error of a failed call.
    pub async fn read(
        self: &Rc<Self>,
        readers: u32,
        ahead: usize,
        warm_up: Duration,
        time: Duration,
    ) -> Result<ReadResult, LabError> {
        let from = self.rt.now() + warm_up;
        let to = from + time;
        let done = Rc::new(Read::default());
        let reader = |_| {
            let (load, done) = (self.clone(), done.clone());
            self.rt.spawn(async move {
                while load.rt.now() < to && load.failed.borrow().is_none() {
                    if let Err(error) = load.read_one(ahead, from, to, &done).await {
                        load.failed.borrow_mut().get_or_insert(error);
                    }
                }
            })
        };
        let readers: Vec<_> = (0..readers).map(reader).collect();
        drop(join_all(readers).await);
        let times = done.times.borrow().summary();
        let bytes_s = done.bytes.get() as f64 / time.as_secs_f64();
        let found = ReadResult { bytes_s, objects: times.requests, times };
        self.failed.borrow_mut().take().map_or(Ok(found), Err)
    }

    async fn read_one(&self, ahead: usize, from: Instant, to: Instant, done: &Read) -> Result<(), LabError> {
        let (number, size) = {
            let live = self.live.borrow();
            let at = self.random.borrow_mut().below(live.len().max(1) as u64) as usize;
            live.get(at).ok_or_else(|| LabError("there is nothing to read".to_owned()))?
        };
        let began = self.rt.now();
        let reader = self.store.open_object(name(number)).map_err(lab_error)?;
        let counted = |now: Instant| (from..to).contains(&now);
        let mut at = 0;
        while at < size {
            let mut reads = Vec::with_capacity(ahead);
            while at < size && reads.len() < ahead {
                let end = reader.segment_end(at).unwrap_or(size);
                let (reader, offset) = (&reader, at);
                reads.push(async move {
                    let mut offset = offset;
                    while offset < end {
                        let length = reader.read(offset, end - offset).await.map_err(lab_error)?.len() as u64;
                        offset += length;
                        if counted(self.rt.now()) {
                            done.bytes.set(done.bytes.get() + length);
                        }
                    }
                    Ok::<(), LabError>(())
                });
                at = end;
            }
            for read in join_all(reads).await {
                read?;
            }
        }
        if counted(self.rt.now()) {
            done.times.borrow_mut().note(began, self.rt.now());
        }
        Ok(())
    }
}

/// The name of an object: as the paper's ids, 256 bits in no order.
pub(crate) fn name(number: u64) -> String {
    let scattered = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    format!("{scattered:016x}{number:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_the_papers() {
        let mut random = Random::new(1);
        let mut sizes: Vec<u64> = (0..20_000).map(|_| Sizes::Mix.draw(&mut random)).collect();
        sizes.sort_unstable();
        let share = |from: u64, to: u64| {
            sizes.iter().filter(|size| (from << 20..to << 20).contains(size)).count() as f64 / sizes.len() as f64
        };
        assert!(sizes[0] >= 1 << 20 && sizes[sizes.len() - 1] <= 10 << 30);
        let most = share(16, 512);
        assert!((0.75..0.9).contains(&most), "most have 16 to 512 MB: {most}");
        // Of all factors of two the one around 128 MB has the most.
        let around = |at: u64| share(at * 7 / 10, at * 14 / 10);
        assert!(around(128) > around(32) && around(128) > around(512));
        assert!(share(1024, 10_240) > 0.01, "there are large ones");
    }

    #[test]
    fn a_skew_deletes_some_objects_four_times_as_often_and_keeps_their_share() {
        let mut random = Random::new(1);
        let skew = Some(Skew { objects_percent: 20, deletions_percent: 80 });
        let mut live = Live::default();
        (0..1000).for_each(|number| live.push((number, 1), skew));
        let mut hot_deleted = 0;
        for number in 1000..11_000 {
            let hot = live.hot.len();
            live.take(&mut random, skew).unwrap();
            hot_deleted += hot - live.hot.len();
            live.push((number, 1), skew);
        }
        assert!((190..=201).contains(&live.hot.len()), "{}", live.hot.len());
        assert!((7_800..8_200).contains(&hot_deleted), "{hot_deleted} of 10000");
        let mut even = Live::default();
        (0..10).for_each(|number| even.push((number, 1), None));
        assert!(even.hot.is_empty() && even.take(&mut random, None).is_some());
    }

    #[test]
    fn a_power_of_two_is_one() {
        for x in [-7.0, -0.5, 0.0, 0.3, 1.0, 6.99] {
            assert!((power_of_two(x) / 2f64.powf(x) - 1.0).abs() < 1e-12, "{x}");
        }
    }
}
