//! A file in memory whose power can fail, and the fate of two of them that hold the same.
//!
//! **Owns** what a file has, and what a power cut leaves of it. **Knows nothing of** what is written to it.

use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::BLOCK_SIZE;
use shingle_runtime::Runtime;

use crate::seeds::Random;

/// Bytes that a power cut leaves or takes as one.
const SECTOR: usize = 512;

/// A file in memory: a write is durable when it returns.
pub struct SimFile {
    rt: Runtime,
    durable: RefCell<Vec<u8>>,
    /// Writes that have not returned.
    pending: RefCell<BTreeMap<u64, (u64, Bytes)>>,
    writes: Cell<u64>,
    broken: Cell<bool>,
    /// Writes take effect, and fail.
    unanswered: Cell<bool>,
    /// Blocks that cannot be read until they are written again, by number.
    unreadable: RefCell<Vec<u64>>,
}

impl SimFile {
    /// A file that has `bytes`.
    pub fn new(rt: &Runtime, bytes: Vec<u8>) -> Rc<Self> {
        Rc::new(Self {
            rt: rt.clone(),
            durable: RefCell::new(bytes),
            pending: RefCell::default(),
            writes: Cell::default(),
            broken: Cell::default(),
            unanswered: Cell::default(),
            unreadable: RefCell::default(),
        })
    }

    /// From now on every read and write fails.
    pub fn fail(&self) {
        self.broken.set(true);
    }

    /// From now on every write takes its whole effect, and fails.
    pub fn lose_answers(&self) {
        self.unanswered.set(true);
    }

    /// A block cannot be read until it is written again.
    pub fn fail_reads(&self, block: u64) {
        self.unreadable.borrow_mut().push(block);
    }

    /// The bytes that are durable.
    pub fn bytes(&self) -> Ref<'_, Vec<u8>> {
        self.durable.borrow()
    }

    /// Number of writes so far.
    pub fn writes(&self) -> u64 {
        self.writes.get()
    }

    /// The file after a power cut: of writes that have not returned, any sectors.
    pub fn image(&self, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed);
        let mut bytes = self.durable.borrow().clone();
        for (offset, data) in self.pending.borrow().values() {
            let share = [0.0, 0.5, 1.0][random.below(3) as usize];
            for (at, piece) in data.chunks(SECTOR).enumerate() {
                if random.chance(share) {
                    put_at(&mut bytes, *offset as usize + at * SECTOR, piece);
                }
            }
        }
        bytes
    }

    /// The bytes from `offset` on, `length` of them or those up to the end.
    ///
    /// # Errors
    /// If the file failed, or a block of it cannot be read.
    pub async fn read(&self, offset: u64, length: usize) -> io::Result<Bytes> {
        let blocks = blocks(offset, length);
        if self.broken.get() || self.unreadable.borrow().iter().any(|block| blocks.contains(block)) {
            return Err(io::Error::other("broken"));
        }
        let durable = self.durable.borrow();
        let rest = durable.get(offset as usize..).unwrap_or_default();
        Ok(Bytes::copy_from_slice(&rest[..length.min(rest.len())]))
    }

    /// Writes `data` at `offset`.
    ///
    /// # Errors
    /// If the file failed before it returns.
    pub async fn write(&self, offset: u64, data: Bytes) -> io::Result<()> {
        let number = self.writes.replace(self.writes.get() + 1);
        self.pending.borrow_mut().insert(number, (offset, data.clone()));
        self.rt.sleep(Duration::from_micros(self.rt.random() % 150)).await;
        self.pending.borrow_mut().remove(&number);
        if self.broken.get() {
            return Err(io::Error::other("broken"));
        }
        put_at(&mut self.durable.borrow_mut(), offset as usize, &data);
        let written = blocks(offset, data.len());
        self.unreadable.borrow_mut().retain(|block| !written.contains(block));
        if self.unanswered.get() { Err(io::Error::other("the answer is lost")) } else { Ok(()) }
    }
}

fn blocks(offset: u64, length: usize) -> std::ops::Range<u64> {
    let block = BLOCK_SIZE as u64;
    offset / block..(offset + length as u64).div_ceil(block)
}

fn put_at(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.resize(bytes.len().max(at + piece.len()), 0);
    bytes[at..at + piece.len()].copy_from_slice(piece);
}

/// Two files with the same contents from life to life. One of them, always the same, may fail, be unreadable in places, or rot.
#[derive(Clone, Debug)]
pub struct Mirrors {
    /// Contents between lives.
    pub files: [Vec<u8>; 2],
    /// The file that may fail.
    pub victim: usize,
}

impl Mirrors {
    /// Two new files.
    pub fn new(victim: usize) -> Self {
        Self { files: [Vec::new(), Vec::new()], victim }
    }

    /// The files in a life.
    pub fn begin(&self, rt: &Runtime, random: &mut Random) -> [Rc<SimFile>; 2] {
        let files = self.files.clone().map(|bytes| SimFile::new(rt, bytes));
        let victim = files[self.victim].clone();
        match random.below(8) {
            0 => victim.fail(),
            1 => {
                let (rt, after) = (rt.clone(), Duration::from_micros(random.below(100_000)));
                rt.clone().spawn_detached(async move {
                    rt.sleep(after).await;
                    victim.fail();
                });
            }
            2 => (0..3).for_each(|_| victim.fail_reads(random.below(self.blocks()))),
            _ => {}
        }
        files
    }

    fn blocks(&self) -> u64 {
        (self.files[self.victim].len() / BLOCK_SIZE).max(1) as u64
    }

    /// The files after a life. Writes that had not returned are there or not.
    pub fn end(&mut self, files: &[Rc<SimFile>; 2], random: &mut Random) {
        for (bytes, file) in self.files.iter_mut().zip(files) {
            *bytes = file.image(random.number());
        }
        if random.chance(0.2) {
            let at = random.below(self.blocks()) as usize * BLOCK_SIZE;
            let block = self.files[self.victim].iter_mut().skip(at).take(BLOCK_SIZE);
            block.for_each(|byte| *byte ^= 0x5A);
        }
    }
}
