//! Random histories of a chunk store, and the trivial model that says what must be found afterwards.

#![allow(dead_code, unreachable_pub, reason = "shared by test files, each of which uses a part")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, ChunkId, StoreId};
use shingle_chunk_store::{
    Allocation, ChunkStore, CostBenefit, ErrorKind, FormatOptions, Greedy, Landing, Options, Placement, PoolSizes,
    RecoveryReport, Stream,
};
use shingle_runtime::Runtime;
pub use shingle_sim::contents as content;
use shingle_sim::{Random, Sim, SimDevice, Survival};
use shingle_zoned::{Geometry, MemoryDevice};

/// An append that was submitted.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub from: u64,
    pub to: u64,
    /// Its number decides its bytes, so that those of an earlier append to the same place are seen.
    pub number: u64,
}

/// One life of a chunk.
#[derive(Clone, Debug)]
pub struct ModelChunk {
    /// Tells lives apart.
    pub key: u64,
    pub stream: Stream,
    pub created: bool,
    /// Appends that were submitted and not refused, in order.
    pub writes: Vec<Write>,
    /// Appends submitted.
    pub submitted: u64,
    /// Bytes acknowledged.
    pub acked: u64,
    pub seal_begun: bool,
    pub sealed: bool,
    pub delete_begun: bool,
}

impl ModelChunk {
    /// End of the last append.
    pub fn end(&self) -> u64 {
        self.writes.last().map_or(0, |write| write.to)
    }

    /// Its bytes.
    pub fn bytes(&self, from: u64, length: u64) -> Vec<u8> {
        let to = from + length;
        let mut bytes = Vec::with_capacity(length as usize);
        for write in self.writes.iter().filter(|write| write.from < to && write.to > from) {
            let (begin, end) = (from.max(write.from), to.min(write.to));
            bytes.extend(content(write.number, begin, end - begin));
        }
        bytes
    }
}

/// Contents that a store must have.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub chunks: BTreeMap<ChunkId, ModelChunk>,
}

/// A small drive: the seed decides its shape.
pub fn geometry(random: &mut Random) -> Geometry {
    let zones = 24 + random.below(16) as u32;
    let geometry = match random.below(3) {
        0 => Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(64), zones, random.below(3) as u32, 12) },
        1 => Geometry::zns(Blocks(64), Blocks(40 + random.below(24)), zones, 10, 12),
        _ => Geometry::hm_smr(Blocks(48), zones, 0, 9 + random.below(8) as u32),
    };
    let revolution = random.chance(0.5).then(|| Duration::from_micros(50 + random.below(2000)));
    Geometry { revolution, ..geometry }
}

/// Options of a small store: the seed decides the placement.
pub fn options(random: &mut Random) -> Options {
    let allocation = match random.below(4) {
        0 => Allocation::Random,
        1 => Allocation::OneZone,
        2 => Allocation::RoundRobin,
        _ => Allocation::Company,
    };
    let placement =
        Placement { separate_streams: random.chance(0.7), zone_sized_chunks: random.chance(0.7), allocation };
    let mut options = Options {
        placement,
        pools: PoolSizes { gc: 2, data: 2, meta: 1 },
        small_chunk: Blocks(24),
        record_max: 32 << 10,
        batch_max: 64 << 10,
        writes_max: [1, 4, u32::MAX][random.below(3) as usize],
        gc_start: 0.3,
        checkpoint_every: Duration::from_millis(50),
        ..Options::default()
    };
    options.landing = random.chance(0.7).then(|| Landing {
        append_max: [100, 5000, 20_000][random.below(3) as usize],
        budget: [0, 20_000, 200_000][random.below(3) as usize],
        zones: 1 + random.below(3) as u32,
        idle: Duration::from_millis(1 + random.below(30)),
        everywhere: true,
    });
    match random.below(3) {
        0 => options.victims = Rc::new(CostBenefit),
        1 => options.victims = Rc::new(Greedy),
        _ => {}
    }
    options.gc_idle_after = random.chance(0.5).then_some(Duration::from_millis(1));
    // Apart, so that seeds which once failed still mean the same history.
    let apart = &mut random.clone();
    options.mark_every = [None, Some(1), Some(50_000), Some(300_000)][apart.below(4) as usize];
    options.recovery_depth = [1, 3, 32][apart.below(3) as usize];
    options.scan_whole_zones = apart.chance(0.1);
    options.read_all_heads = apart.chance(0.1);
    options
}

/// A power cut's survivors on a drive like this.
pub fn survival(geometry: &Geometry) -> Survival {
    if geometry.volatile_cache { Survival::AnySubset } else { Survival::Prefix }
}

/// A formatted device.
pub fn formatted(geometry: Geometry) -> MemoryDevice {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(geometry));
        let options = FormatOptions { store: Some(StoreId(42)), ..FormatOptions::default() };
        ChunkStore::format(&rt, Rc::new(device.clone()), &options).await.unwrap();
        device.image()
    })
}

pub async fn open(rt: &Runtime, device: &SimDevice, options: Options) -> (ChunkStore, RecoveryReport) {
    ChunkStore::open(rt, Rc::new(device.clone()), options).await.unwrap()
}

/// Errors that GC may end with on a healthy drive: it is full, or another step of GC is under way.
pub const GC_ERRORS: &[ErrorKind] = &[ErrorKind::NoSpace, ErrorKind::Invalid];

/// One caller among several; each does one thing after the other.
pub struct Driver {
    pub rt: Runtime,
    pub store: ChunkStore,
    pub model: Rc<RefCell<Model>>,
    pub random: Rc<RefCell<Random>>,
    /// Ids are drawn from this many, so that they are used again.
    pub ids: u64,
    /// Faults are about: calls may fail with `Device` or `Corrupt`.
    pub faults: bool,
}

impl Driver {
    fn random(&self, limit: u64) -> u64 {
        self.random.borrow_mut().below(limit)
    }

    /// Does `steps` random things.
    pub async fn run(&self, steps: u64) {
        for _ in 0..steps {
            let id = ChunkId::from_u64(self.random(self.ids));
            match self.random(100) {
                0..15 => self.create(id).await,
                15..68 => self.append(id).await,
                68..80 => self.read(id).await,
                80..86 => self.seal(id).await,
                86..94 => self.delete(id).await,
                94..96 => self.maintained("checkpoint", self.store.checkpoint().await, &[]),
                96..98 => self.maintained("gc", self.store.gc(1, |_| {}).await, GC_ERRORS),
                _ => self.rt.sleep(Duration::from_millis(self.random(5))).await,
            }
        }
    }

    /// A checkpoint, or a step of GC, ended so. It may fail once the store has stopped, while the host is full, or for
    /// a fault.
    fn maintained<T>(&self, what: &str, ended: shingle_chunk_store::Result<T>, also: &[ErrorKind]) {
        let Err(error) = ended else { return };
        let known = match error.kind {
            ErrorKind::Stopped | ErrorKind::HostFull => true,
            ErrorKind::Device => self.faults,
            kind => also.contains(&kind),
        };
        assert!(known, "{what}: {error}");
    }

    async fn create(&self, id: ChunkId) {
        let stream = Stream::ALL[self.random(3) as usize];
        let key = self.random.borrow_mut().number();
        if self.model.borrow().chunks.contains_key(&id) {
            return;
        }
        let chunk = ModelChunk {
            key,
            stream,
            created: false,
            writes: Vec::new(),
            submitted: 0,
            acked: 0,
            seal_begun: false,
            sealed: false,
            delete_begun: false,
        };
        self.model.borrow_mut().chunks.insert(id, chunk);
        match self.store.create(id, stream).await {
            Ok(()) => self.with(id, key, |chunk| chunk.created = true),
            Err(error) => {
                // While the host is full it may be there until there is room.
                let known = matches!(error.kind, ErrorKind::NoSpace | ErrorKind::HostFull | ErrorKind::Stopped);
                assert!(known, "create: {error}");
                if error.kind == ErrorKind::NoSpace {
                    self.model.borrow_mut().chunks.remove(&id);
                }
            }
        }
    }

    fn with(&self, id: ChunkId, key: u64, change: impl FnOnce(&mut ModelChunk)) {
        if let Some(chunk) = self.model.borrow_mut().chunks.get_mut(&id)
            && chunk.key == key
        {
            change(chunk);
        }
    }

    fn usable(&self, id: ChunkId) -> Option<ModelChunk> {
        let chunk = self.model.borrow().chunks.get(&id).cloned()?;
        (chunk.created && !chunk.delete_begun).then_some(chunk)
    }

    /// A few appends, one behind the other without waiting.
    async fn append(&self, id: ChunkId) {
        let Some(chunk) = self.usable(id).filter(|chunk| !chunk.seal_begun) else { return };
        let Ok(stat) = self.store.stat(id) else { return };
        let (mut offset, mut room) = (chunk.end(), stat.room);
        let mut appends = Vec::new();
        for append in 0..=self.random(3) {
            let size = match self.random(4) {
                0 => 1 + self.random(100),
                1 => 4096,
                2 => 1 + self.random(9000),
                _ => 1 + self.random(40_000),
            };
            if size > room {
                break;
            }
            // Each append is counted with a block and a header of its own.
            room = room.saturating_sub(size + 2 * 4096);
            let number = chunk.key.wrapping_add((chunk.submitted + append) << 20);
            let data = Bytes::from(content(number, offset, size));
            let cut = self.random(size + 1) as usize;
            let pieces = vec![data.slice(..cut), data.slice(cut..)];
            self.with(id, chunk.key, |chunk| {
                chunk.writes.push(Write { from: offset, to: offset + size, number });
                chunk.submitted += 1;
            });
            // It takes its place when it is first polled: `join_all` does so in order.
            appends.push(async move { (offset, size, self.store.append(id, offset, pieces).await) });
            offset += size;
        }
        for (offset, size, answer) in futures_util::future::join_all(appends).await {
            self.settle(id, chunk.key, offset, size, answer);
        }
    }

    /// Takes an append's answer in.
    fn settle(&self, id: ChunkId, key: u64, offset: u64, size: u64, answer: shingle_chunk_store::Result<u64>) {
        let error = match answer {
            Ok(end) => {
                assert_eq!(end, offset + size, "an append ended elsewhere");
                return self.with(id, key, |chunk| chunk.acked = chunk.acked.max(end));
            }
            Err(error) => error,
        };
        match error.kind {
            ErrorKind::NoSpace
            | ErrorKind::HostFull
            | ErrorKind::ChunkFull
            | ErrorKind::Sealed
            | ErrorKind::NotFound
            | ErrorKind::WrongOffset { .. } => {
                self.with(id, key, |chunk| chunk.writes.retain(|write| write.to != offset + size));
            }
            ErrorKind::Stopped => {}
            // The chunk is sealed where it was.
            ErrorKind::Device if self.faults => self.with(id, key, |chunk| chunk.seal_begun = true),
            _ => panic!("append: {error}"),
        }
    }

    async fn read(&self, id: ChunkId) {
        let Some(chunk) = self.usable(id).filter(|chunk| chunk.acked > 0) else { return };
        let from = self.random(chunk.acked);
        let length = 1 + self.random(chunk.acked - from);
        match self.store.read(id, from, length).await {
            Ok(bytes) => assert!(bytes == chunk.bytes(from, length), "wrong bytes in {id} at {from}+{length}"),
            Err(error) => match error.kind {
                ErrorKind::NotFound => assert!(self.usable(id).is_none_or(|now| now.key != chunk.key), "{id} is gone"),
                ErrorKind::Stopped => {}
                ErrorKind::Device | ErrorKind::Corrupt if self.faults => {}
                _ => panic!("read: {error}"),
            },
        }
    }

    async fn seal(&self, id: ChunkId) {
        let Some(chunk) = self.usable(id) else { return };
        self.with(id, chunk.key, |chunk| chunk.seal_begun = true);
        match self.store.seal(id).await {
            Ok(size) => self.with(id, chunk.key, |chunk| {
                assert!(size >= chunk.acked, "sealed at {size}, but {} bytes were acknowledged", chunk.acked);
                chunk.sealed = true;
            }),
            Err(error) => {
                let known = matches!(error.kind, ErrorKind::NotFound | ErrorKind::HostFull | ErrorKind::Stopped);
                assert!(known, "seal: {error}");
            }
        }
    }

    async fn delete(&self, id: ChunkId) {
        let Some(chunk) = self.usable(id) else { return };
        self.with(id, chunk.key, |chunk| chunk.delete_begun = true);
        match self.store.delete(id).await {
            Ok(()) => {
                let mut model = self.model.borrow_mut();
                if model.chunks.get(&id).is_some_and(|now| now.key == chunk.key) {
                    model.chunks.remove(&id);
                }
            }
            Err(error) if error.kind == ErrorKind::HostFull => {
                self.with(id, chunk.key, |chunk| chunk.delete_begun = false);
            }
            Err(error) => assert!(matches!(error.kind, ErrorKind::Stopped), "delete: {error}"),
        }
    }
}

impl Model {
    /// Holds a store that was opened after a power cut against what it must have, and becomes what it has.
    pub async fn settle(&mut self, store: &ChunkStore, context: &str) {
        let listed = store.list(None, usize::MAX);
        for stat in &listed {
            assert!(self.chunks.contains_key(&stat.id), "{context}: {} was never created, or deleted", stat.id);
        }
        let mut gone = Vec::new();
        for (&id, chunk) in &mut self.chunks {
            let Some(stat) = listed.iter().find(|stat| stat.id == id) else {
                assert!(!chunk.created || chunk.delete_begun, "{context}: chunk {id} is lost");
                gone.push(id);
                continue;
            };
            assert!(
                stat.size >= chunk.acked,
                "{context}: {id} has {} bytes, {} were acknowledged",
                stat.size,
                chunk.acked
            );
            let whole = stat.size == chunk.acked || chunk.writes.iter().any(|write| write.to == stat.size);
            assert!(whole, "{context}: {id} ends at {}, inside an append ({:?})", stat.size, chunk.writes);
            assert!(!chunk.sealed || stat.sealed, "{context}: {id} was sealed");
            assert!(!stat.sealed || chunk.seal_begun, "{context}: {id} was never sealed");
            let bytes = store.read(id, 0, stat.size).await.unwrap_or_else(|error| panic!("{context}: {id}: {error}"));
            assert!(bytes == chunk.bytes(0, stat.size), "{context}: {id} holds wrong bytes");
            (chunk.created, chunk.delete_begun, chunk.acked) = (true, false, stat.size);
            (chunk.sealed, chunk.seal_begun) = (stat.sealed, stat.sealed);
            chunk.writes.retain(|write| write.to <= stat.size);
        }
        for id in gone {
            self.chunks.remove(&id);
        }
    }
}
