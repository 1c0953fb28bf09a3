//! Write amplification under the load of a log-structured merge tree, on a zoned SSD: targets say 1.05 at most, where RocksDB on the
//! dissertation's own layer had 1.2. (Section 5.6.)
//!
//! The tree is modelled with its keys: flushes of random keys, merges by level as RocksDB makes them, tables and logs written through
//! files. Nothing is said of RocksDB's processor time, nor of its caches.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, Blocks};
use shingle_record::keep_unless_hollow;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_zone_files::{CreateOptions, File, FileKind, FormatOptions, Options, WriteLifetime, ZoneFiles};
use shingle_zoned::{Geometry, MemoryDevice};

use crate::common::{format, open};

/// Bytes of a key with its value.
const PAIR: u64 = 64 << 10;
/// Pairs of a table, and of what a flush writes.
const TABLE: usize = 256;
/// Tables of level 0 that are merged into level 1, and tables of level 1; each level below has ten times as many.
const LEVEL_0: usize = 4;
const FAN_OUT: usize = 10;
/// Bytes of a log between two syncs.
const GROUP: u64 = 256 << 10;

struct Table {
    name: String,
    keys: Vec<u32>,
}

struct Tree {
    files: ZoneFiles,
    levels: Vec<VecDeque<Table>>,
    random: Random,
    key_count: u64,
    hints: bool,
    next: u64,
    bytes: u64,
    /// Largest share of the room that files had.
    fullest: f64,
}

fn zeros(bytes: u64) -> Bytes {
    static ZEROS: [u8; 1 << 20] = [0; 1 << 20];
    Bytes::from_static(&ZEROS[..bytes as usize])
}

impl Tree {
    async fn append(&mut self, file: &File, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let piece = left.min(1 << 20);
            file.append(vec![zeros(piece)]).await.expect("there is room");
            left -= piece;
        }
        self.bytes += bytes;
    }

    /// Writes tables of a level, as RocksDB hints at their lifetimes.
    async fn write(&mut self, level: usize, keys: Vec<u32>) -> Vec<Table> {
        let lifetime = match level {
            _ if !self.hints => WriteLifetime::None,
            0 | 1 => WriteLifetime::Medium,
            2 => WriteLifetime::Long,
            _ => WriteLifetime::Extreme,
        };
        let mut tables = Vec::new();
        for part in keys.chunks(TABLE) {
            self.next += 1;
            let (name, size) = (format!("{:06}.sst", self.next), part.len() as u64 * PAIR);
            let options = CreateOptions { kind: FileKind::Sst, lifetime, expected_bytes: size, exclusive: true };
            let file = self.files.create(&name, options).await.expect("a new name");
            self.append(&file, size).await;
            file.sync().await.expect("there is room");
            let stats = self.files.stats();
            self.fullest = self.fullest.max(stats.live_bytes as f64 / stats.capacity_bytes as f64);
            tables.push(Table { name, keys: part.to_vec() });
        }
        tables
    }

    /// Puts pairs into a log, and flushes them to level 0.
    async fn fill(&mut self) {
        self.next += 1;
        let name = format!("{:06}.log", self.next);
        let options = CreateOptions { kind: FileKind::Wal, lifetime: WriteLifetime::Short, ..CreateOptions::default() };
        let log = self.files.create(&name, options).await.expect("a new name");
        for _ in 0..TABLE as u64 * PAIR / GROUP {
            self.append(&log, GROUP).await;
            log.sync().await.expect("there is room");
        }
        drop(log);
        let keys: BTreeSet<u32> = (0..TABLE).map(|_| self.random.below(self.key_count) as u32).collect();
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
}

/// Blocks that the drive wrote for each block of files, once its zones were written several times over; and the largest share of its room
/// that the files took.
fn amplification(zones: u32, hints: bool) -> (f64, f64) {
    Sim::new(5).run(move |rt| async move {
        // Zones of the dissertation's SSD, a 16th as large; tables are 16 MiB, a quarter of RocksDB's.
        let geometry = Geometry::zns(Blocks(32_768), Blocks(17_232), zones, 14, 14);
        let memory = MemoryDevice::metadata_only(geometry, keep_unless_hollow);
        let device = SimDevice::without_power_cuts(&rt, memory);
        device.set_latency(Duration::from_micros(10));
        let shared = Rc::new(device.clone());
        ZoneFiles::format(&rt, shared.clone(), FormatOptions::default()).await.unwrap();
        let (files, _) = ZoneFiles::open(&rt, shared, Options::default()).await.unwrap();
        let key_count = 4 << 30;
        let mut tree = Tree {
            files,
            levels: vec![VecDeque::new()],
            random: Random::new(5),
            key_count: key_count / PAIR,
            hints,
            next: 0,
            bytes: 0,
            fullest: 0.0,
        };
        let mut before = (0, 0);
        // Twice as many pairs as there are keys fill the tree; then the same number is measured.
        for round in 0..4 * key_count / (TABLE as u64 * PAIR) {
            if round == 2 * key_count / (TABLE as u64 * PAIR) {
                before = (tree.bytes, device.counts().writes.1);
            }
            tree.fill().await;
            tree.settle().await;
        }
        let written = (device.counts().writes.1 - before.1) * BLOCK_SIZE as u64;
        all_live_blocks_are_of_files(&rt, &tree.files, "after the load").await;
        tree.files.close().await.unwrap();
        (written as f64 / (tree.bytes - before.0) as f64, tree.fullest)
    })
}

/// ZF-CLEAN-2, once all that is under way has ended.
async fn all_live_blocks_are_of_files(rt: &Runtime, files: &ZoneFiles, context: &str) {
    rt.sleep(Duration::from_secs(1)).await;
    for zone in files.dump() {
        let of_files: u64 = zone.files.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(zone.live_bytes, of_files, "{context}: {zone:?}");
    }
}

/// ZF-CLEAN-2: files are removed while the cleaner copies them.
#[test]
fn no_block_is_live_that_no_file_has() {
    let mut cleaned = 0;
    for seed in seeds(20) {
        cleaned += Sim::new(seed).run(move |rt| async move {
            let device = format(&rt, &Geometry::hm_smr(Blocks(64), 40, 0, 8)).await;
            device.set_latency(Duration::from_micros(200));
            let (files, _) = open(&rt, &device).await.unwrap();
            let mut random = Random::new(seed);
            let mut names: Vec<String> = Vec::new();
            for number in 0..600 {
                while files.stats().live_bytes * 100 > files.stats().capacity_bytes * 72 {
                    let name = names.swap_remove(random.below(names.len() as u64) as usize);
                    files.remove(&name).await.unwrap();
                }
                let name = format!("{number:06}.sst");
                let file = files.create(&name, CreateOptions { kind: FileKind::Sst, ..CreateOptions::default() }).await;
                let (file, length) = (file.unwrap(), random.between(1, 120_000));
                file.append(vec![zeros(length)]).await.unwrap();
                file.sync().await.unwrap_or_else(|error| panic!("seed {seed}: {error}: {:?}", files.stats()));
                names.push(name);
            }
            all_live_blocks_are_of_files(&rt, &files, &format!("seed {seed}")).await;
            files.stats().counters.cleaned
        });
    }
    assert!(cleaned > 100, "only {cleaned} zones were cleaned");
}

#[test]
fn a_merge_tree_costs_hardly_more_writes_than_its_own() {
    for (zones, hints) in [(96, true), (96, false)] {
        let (amplification, fill) = amplification(zones, hints);
        println!("hints {hints}: write amplification {amplification:.3} with {:.0} % of the room in use", fill * 100.0);
        assert!(amplification < 1.05, "hints {hints}: {amplification:.3} at {fill:.2}");
    }
}

/// Blocks that the drive wrote for each block of files, where a fifth of the bytes written stay twenty times as long as the others.
fn amplification_of_two_kinds(hints: bool, seed: u64) -> f64 {
    Sim::new(seed).run(move |rt| async move {
        let geometry = Geometry::zns(Blocks(4096), Blocks(4096), 96, 14, 14);
        let memory = MemoryDevice::metadata_only(geometry, keep_unless_hollow);
        let device = SimDevice::without_power_cuts(&rt, memory);
        device.set_latency(Duration::from_micros(10));
        let shared = Rc::new(device.clone());
        ZoneFiles::format(&rt, shared.clone(), FormatOptions::default()).await.unwrap();
        let (files, _) = ZoneFiles::open(&rt, shared, Options::default()).await.unwrap();
        let (mut random, mut names): (Random, [Vec<String>; 2]) = (Random::new(seed), Default::default());
        let (mut before, mut bytes) = ((0, 0), 0);
        for number in 0..9000 {
            if number == 4500 {
                before = (bytes, device.counts().writes.1);
            }
            let long = random.chance(0.2);
            while files.stats().live_bytes * 100 > files.stats().capacity_bytes * 85 {
                // Short ones are a sixth of all that is there, and go twenty times as often.
                let of = usize::from(names[0].is_empty() || (!names[1].is_empty() && random.chance(0.2)));
                let index = random.below(names[of].len() as u64) as usize;
                let name = names[of].swap_remove(index);
                files.remove(&name).await.unwrap();
            }
            let lifetime = match (hints, long) {
                (false, _) => WriteLifetime::None,
                (true, true) => WriteLifetime::Extreme,
                (true, false) => WriteLifetime::Short,
            };
            let (name, size) = (format!("{number:06}.sst"), random.between(100_000, 2_000_000));
            let options = CreateOptions { kind: FileKind::Sst, lifetime, ..CreateOptions::default() };
            let file = files.create(&name, options).await.unwrap();
            let mut left = size;
            while left > 0 {
                let piece = left.min(1 << 20);
                file.append(vec![zeros(piece)]).await.unwrap();
                left -= piece;
            }
            file.sync().await.unwrap();
            bytes += size;
            names[usize::from(long)].push(name);
        }
        let written = (device.counts().writes.1 - before.1) * BLOCK_SIZE as u64;
        files.close().await.unwrap();
        written as f64 / (bytes - before.0) as f64
    })
}

/// Lifetimes that somebody would learn could save no more than those that are known.
#[test]
fn known_lifetimes_save_little_since_copies_have_zones_of_their_own() {
    let (known, unknown) = (amplification_of_two_kinds(true, 1), amplification_of_two_kinds(false, 1));
    println!("write amplification {known:.3} with lifetimes known, {unknown:.3} without");
    assert!(known < 4.0 && unknown < 1.1 * known, "{known:.3} and {unknown:.3}");
}
