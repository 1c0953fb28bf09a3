//! A log-structured merge tree on files, with its keys: flushes of random keys, merges by level as RocksDB makes them, tables and logs
//! written through files. Nothing is said of RocksDB's processor time, nor of its caches.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_record::keep_unless_hollow;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_zone_files::{CreateOptions, File, FileKind, FormatOptions, Options, WriteLifetime, ZoneFiles};
use shingle_zoned::{DeviceFuture, Geometry, MemoryDevice, ZoneInfo, ZoneOp, ZonedDevice};

/// Bytes of a key with its value.
const PAIR: u64 = 64 << 10;
/// Pairs of a table, and of what a flush writes.
const TABLE: usize = 256;
/// Bytes of a table, but for the last one of a merge.
pub(crate) const TABLE_BYTES: u64 = TABLE as u64 * PAIR;
/// Tables of level 0 that are merged into level 1, and tables of level 1; each level below has ten times as many.
const LEVEL_0: usize = 4;
const FAN_OUT: usize = 10;
/// Bytes of a log between two syncs.
const GROUP: u64 = 256 << 10;

/// A drive and a tree on it.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) geometry: Geometry,
    /// Bytes of all keys that there may be, with their values.
    pub(crate) key_bytes: u64,
    pub(crate) hints: bool,
    /// Percent of a table's bytes that a merge tells when it makes one: RocksDB tells 110, or 220 where it may let tables grow.
    pub(crate) told: u64,
    /// Tables of a merge that are written at once.
    pub(crate) writers: usize,
    pub(crate) seed: u64,
}

/// Figures of a load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Blocks that the drive wrote for each block of files, once its zones were written several times over, and those with which it padded
    /// zones that were finished.
    pub(crate) amplification: f64,
    pub(crate) padding: f64,
    /// The largest share of its room that the files took.
    pub(crate) fullest: f64,
    /// Tables of at least seven eighths of a zone, when the load ended; and those of them that lie in one zone, or, if they are larger, have one
    /// for themselves.
    pub(crate) large: usize,
    pub(crate) whole: usize,
    /// The largest share of the room for files that was neither free nor needed.
    pub(crate) dead: f64,
}

/// A drive that tells with how many blocks it padded zones.
struct Padded {
    device: SimDevice,
    blocks: Cell<u64>,
}

impl ZonedDevice for Padded {
    fn geometry(&self) -> &Geometry {
        self.device.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.device.report(first, count)
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        self.device.read(at, length)
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        self.device.write(at, data)
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        self.device.append(zone, data)
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            // A disk writes nothing, and only SSDs limit active zones.
            if op == ZoneOp::Finish && self.geometry().active_zones_max.is_some() {
                let written: u64 = self.report(zone, 1).await?.iter().map(|zone| zone.written.0).sum();
                self.blocks.set(self.blocks.get() + self.geometry().zone_capacity.0 - written);
            }
            self.device.manage(zone, op).await
        })
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        self.device.flush()
    }
}

struct Table {
    name: String,
    keys: Vec<u32>,
}

impl Table {
    fn bytes(&self) -> u64 {
        self.keys.len() as u64 * PAIR
    }
}

struct Tree {
    files: ZoneFiles,
    levels: Vec<VecDeque<Table>>,
    random: Random,
    load: Load,
    next: u64,
    bytes: u64,
    found: Found,
}

pub(crate) fn zeros(bytes: u64) -> Bytes {
    static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
    Bytes::from_static(&ZEROS[..bytes as usize])
}

impl Tree {
    async fn append(&self, file: &File, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(1 << 20);
            file.append(vec![zeros(piece)]).await.expect("there is room");
            left -= piece;
        }
    }

    async fn write_table(&self, level: usize, name: &str, size: u64) {
        let lifetime = match level {
            _ if !self.load.hints => WriteLifetime::None,
            0 | 1 => WriteLifetime::Medium,
            2 => WriteLifetime::Long,
            _ => WriteLifetime::Extreme,
        };
        let expected_bytes = if level > 0 { TABLE_BYTES * self.load.told / 100 } else { 0 };
        let options = CreateOptions { kind: FileKind::Sst, lifetime, expected_bytes, exclusive: true };
        let file = self.files.create(name, options).await.expect("a new name");
        self.append(&file, size).await;
        file.sync().await.expect("there is room");
    }

    /// Writes tables of a level. RocksDB hints at their lifetimes, and its compactions, though not its flushes, tell a size.
    async fn write(&mut self, level: usize, keys: Vec<u32>) -> Vec<Table> {
        let mut tables: Vec<Table> = Vec::new();
        for part in keys.chunks(TABLE) {
            self.next += 1;
            tables.push(Table { name: format!("{:06}.sst", self.next), keys: part.to_vec() });
        }
        for some in tables.chunks(self.load.writers) {
            join_all(some.iter().map(|table| self.write_table(level, &table.name, table.bytes()))).await;
            let stats = self.files.stats();
            let share = |bytes: u64| bytes as f64 / stats.capacity_bytes as f64;
            let free = u64::from(stats.zones_free) * (stats.capacity_bytes / u64::from(stats.zones));
            self.found.fullest = self.found.fullest.max(share(stats.live_bytes));
            self.found.dead = self.found.dead.max(share(stats.capacity_bytes - free - stats.live_bytes));
        }
        self.bytes += tables.iter().map(Table::bytes).sum::<u64>();
        tables
    }

    /// Puts pairs into a log, and flushes them to level 0.
    async fn fill(&mut self) {
        self.next += 1;
        let name = format!("{:06}.log", self.next);
        let options = CreateOptions { kind: FileKind::Wal, lifetime: WriteLifetime::Short, ..CreateOptions::default() };
        let log = self.files.create(&name, options).await.expect("a new name");
        for _ in 0..TABLE_BYTES / GROUP {
            self.append(&log, GROUP).await;
            log.sync().await.expect("there is room");
        }
        self.bytes += TABLE_BYTES;
        drop(log);
        let key_count = self.load.key_bytes / PAIR;
        let keys: BTreeSet<u32> = (0..TABLE).map(|_| self.random.below(key_count) as u32).collect();
        let tables = self.write(0, keys.into_iter().collect()).await;
        self.levels[0].extend(tables);
        self.files.remove(&name).await.expect("it is there");
    }

    /// Merges a level's next table, or all of level 0, into the level below.
    async fn merge(&mut self, level: usize) {
        let count = if level == 0 { self.levels[0].len() } else { 1 };
        let upper: Vec<Table> = self.levels[level].drain(..count).collect();
        if self.levels.len() == level + 1 {
            self.levels.push(VecDeque::new());
        }
        let ends = |table: &Table| table.keys.first().copied().zip(table.keys.last().copied());
        let (first, last) = upper.iter().filter_map(ends).fold((u32::MAX, 0), |(a, b), (c, d)| (a.min(c), b.max(d)));
        let below = std::mem::take(&mut self.levels[level + 1]);
        let meets = |table: &Table| ends(table).is_some_and(|(from, to)| from <= last && to >= first);
        let (lower, kept): (Vec<Table>, Vec<Table>) = below.into_iter().partition(meets);
        let keys: BTreeSet<u32> = upper.iter().chain(&lower).flat_map(|table| table.keys.iter().copied()).collect();
        let merged = self.write(level + 1, keys.into_iter().collect()).await;
        // The level's tables take turns: those that were just written come last.
        self.levels[level + 1] = kept.into_iter().chain(merged).collect();
        for table in upper.into_iter().chain(lower) {
            self.files.remove(&table.name).await.expect("it is there");
        }
    }

    async fn settle(&mut self) {
        for level in 0.. {
            let Some(tables) = self.levels.get(level).map(VecDeque::len) else { return };
            let most = if level == 0 { LEVEL_0 - 1 } else { LEVEL_0 * FAN_OUT.pow(level as u32 - 1) };
            for _ in 0..if level == 0 { usize::from(tables > most) } else { tables.saturating_sub(most) } {
                self.merge(level).await;
            }
        }
    }

    /// Counts the tables about as large as a zone, and those that have one for themselves.
    fn count_large(&mut self) {
        let zone = self.load.geometry.zone_capacity.bytes();
        let mut parts = BTreeMap::<String, Vec<u64>>::new();
        for dumped in self.files.dump() {
            for (name, bytes) in dumped.files {
                parts.entry(name).or_default().push(bytes);
            }
        }
        for (_, parts) in parts.iter().filter(|(name, _)| name.ends_with(".sst")) {
            let (all, largest) = (parts.iter().sum::<u64>(), parts.iter().copied().max().unwrap_or(0));
            if all >= zone / 8 * 7 {
                self.found.large += 1;
                self.found.whole += usize::from(largest == all.min(zone));
            }
        }
    }
}

/// Fills a tree with twice as many pairs as there are keys, and measures while as many come again.
pub(crate) fn run(load: Load) -> Found {
    Sim::new(load.seed).run(move |rt| async move {
        let memory = MemoryDevice::metadata_only(load.geometry.clone(), keep_unless_hollow);
        let device = SimDevice::without_power_cuts(&rt, memory);
        device.set_latency(Duration::from_micros(10));
        let padded = Rc::new(Padded { device: device.clone(), blocks: Cell::new(0) });
        ZoneFiles::format(&rt, padded.clone(), FormatOptions::default()).await.unwrap();
        let (files, _) = ZoneFiles::open(&rt, padded.clone(), Options::default()).await.unwrap();
        let (levels, random) = (vec![VecDeque::new()], Random::new(load.seed));
        let mut tree = Tree { files, levels, random, load, next: 0, bytes: 0, found: Found::default() };
        let mut before = (0, 0, 0);
        let rounds = 4 * tree.load.key_bytes / TABLE_BYTES;
        for round in 0..rounds {
            if round == rounds / 2 {
                before = (tree.bytes, device.counts().writes.1, padded.blocks.get());
            }
            tree.fill().await;
            tree.settle().await;
        }
        let bytes = (tree.bytes - before.0) as f64;
        let share = |blocks: u64| (blocks * BLOCK_SIZE as u64) as f64 / bytes;
        tree.found.amplification = share(device.counts().writes.1 - before.1);
        tree.found.padding = share(padded.blocks.get() - before.2);
        tree.count_large();
        all_live_blocks_are_of_files(&rt, &tree.files, "after the load").await;
        tree.files.close().await.unwrap();
        tree.found
    })
}

/// ZF-CLEAN-2, once all that is under way has ended.
pub(crate) async fn all_live_blocks_are_of_files(rt: &Runtime, files: &ZoneFiles, context: &str) {
    rt.sleep(Duration::from_secs(1)).await;
    for zone in files.dump() {
        let of_files: u64 = zone.files.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(zone.live_bytes, of_files, "{context}: {zone:?}");
    }
}
