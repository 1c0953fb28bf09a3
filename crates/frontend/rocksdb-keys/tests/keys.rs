//! Metadata in RocksDB, on a drive in a file: batches against a map, over several openings, and a store of objects on it.
//!
//! The library is made here, as `make -C bindings/rocksdb` does; without RocksDB's headers or a compiler for C++ the tests say so and pass.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_blue_store::kv::{Batch, Change, KeyValue, KvErrorKind, MergeOperator, OpenKeyValue, Order, merged};
use shingle_blue_store::{
    BlueErrorKind, CollectionId, CollectionInfo, FormatOptions, Hints, Metadata, ObjectId, Options, Store, Transaction,
};
use shingle_rocksdb_keys::RocksKeys;
use shingle_runtime::{Runtime, real};
use shingle_sim::{Random, seeds};
use shingle_zone_files::ZoneFiles;
use shingle_zoned::{
    CreateOptions, DeviceError, DeviceErrorKind, DeviceFuture, FileDevice, FileDeviceErrorKind, Geometry, ZoneInfo,
    ZoneOp, ZonedDevice,
};

/// Sums of bytes, so that the number of operands matters.
fn sum(value: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    let of = |bytes: &[u8]| bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    (of(value.unwrap_or_default()) + of(operand)).to_le_bytes().to_vec()
}

const OPERATORS: &[MergeOperator] = &[MergeOperator { prefix: b"+", merge: sum }];

/// The library, made once. `None`, with a word about it, where RocksDB is not installed.
fn library() -> Option<PathBuf> {
    static MADE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        if !Path::new("/usr/include/rocksdb/db.h").exists() {
            eprintln!("left out: librocksdb-dev is not installed");
            return None;
        }
        let program = std::env::current_exe().unwrap();
        let built = program.parent().and_then(Path::parent).unwrap();
        let archives = [built.to_owned(), built.join("deps")].map(|directory| std::fs::read_dir(directory).unwrap());
        let archives = archives.into_iter().flatten().map(|entry| entry.unwrap().path()).filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.starts_with("libshingle_rocksdb") && !name.starts_with("libshingle_rocksdb_") && name.ends_with(".a")
        });
        let age = |path: &PathBuf| path.metadata().unwrap().modified().unwrap();
        let newest = archives.max_by_key(age).expect("the workspace's tests were built");
        let made = Command::new("make")
            .arg("-C")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bindings/rocksdb"))
            .arg("PROFILE=dev")
            .arg(format!("TARGET={}", built.parent().unwrap().display()))
            .arg(format!("RUST={}", newest.display()))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some(built.join("libshingle_rocksdb.so"))
    });
    made.clone()
}

fn keys(library: &Path) -> RocksKeys {
    RocksKeys { cache_bytes: 1 << 20, file: Some(library.to_owned()) }
}

/// A drive in a file that goes with it.
struct Drive(PathBuf);

impl Drop for Drive {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Drive {
    /// 40 zones of 4 MiB.
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("shingle-keys-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        FileDevice::create(&path, &Geometry::hm_smr(Blocks(1024), 40, 0, 12), CreateOptions::default()).unwrap();
        Self(path)
    }

    /// Opens it; a database that was let go may have it for a moment still.
    async fn open(&self, rt: &Runtime) -> Rc<dyn ZonedDevice> {
        for _ in 0..1000 {
            match FileDevice::open(&self.0, rt) {
                Err(error) if matches!(error.kind, FileDeviceErrorKind::InUse) => {
                    rt.sleep(Duration::from_millis(10)).await
                }
                opened => return Rc::new(opened.unwrap()),
            }
        }
        panic!("the drive is in use for ten seconds");
    }
}

/// RKK-LOAD-1: with RocksDB or without it.
#[test]
fn another_library_is_refused_and_named() {
    let text = std::env::temp_dir().join(format!("shingle-no-library-{}.so", std::process::id()));
    std::fs::write(&text, "no library").unwrap();
    // One that every program has loaded, and that has none of the functions.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let other = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libc.so"));
    for (path, says) in [
        (text.as_path(), "no-library"),
        (Path::new("/none/x.so"), "/none/x.so"),
        (Path::new(other.unwrap()), "another version"),
    ] {
        let error = keys(path).check().unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    std::fs::remove_file(&text).unwrap();
}

type Map = BTreeMap<Bytes, Bytes>;

fn apply(map: &mut Map, batch: &Batch) {
    for change in &batch.changes {
        match change {
            Change::Put(key, value) => drop(map.insert(key.clone(), value.clone())),
            Change::Delete(key) => drop(map.remove(key)),
            Change::DeleteRange(from, to) => map.retain(|key, _| !(from <= key && key < to)),
            Change::Merge(key, operand) => {
                let value = merged(OPERATORS, key, map.get(key).map(AsRef::as_ref), operand);
                map.insert(key.clone(), value.into());
            }
        }
    }
}

fn batch(random: &mut Random) -> Batch {
    let mut batch = Batch::default();
    let key = |random: &mut Random| Bytes::from(format!("k{:03}", random.below(300)));
    for _ in 0..1 + random.below(6) {
        match random.below(10) {
            0..=4 => {
                let length = if random.chance(0.1) { 60_000 } else { 60 };
                let length = random.below(length) as usize;
                batch.put(key(random), random.bytes(length));
            }
            5..=6 => batch.delete(key(random)),
            7 if random.chance(0.3) => batch.delete_range(key(random), key(random)),
            _ => batch.merge(format!("+{}", random.below(3)), random.below(100).to_le_bytes().to_vec()),
        }
    }
    batch
}

/// Holds ranges and single keys against the map.
async fn hold(kv: &Rc<dyn KeyValue>, map: &Map, random: &mut Random) {
    for order in [Order::Forward, Order::Backward] {
        let (from, to) = (Bytes::from(format!("k{:03}", random.below(200))), Bytes::from_static(b"k2"));
        let limit = random.below(200) as usize;
        let found = kv.scan(from.clone()..to.clone(), order, limit).await.unwrap();
        let within = map.iter().filter(|(key, _)| **key >= from && **key < to);
        let within = within.map(|(key, value)| (key.clone(), value.clone()));
        let expected: Vec<(Bytes, Bytes)> = match order {
            Order::Forward => within.take(limit).collect(),
            Order::Backward => within.rev().take(limit).collect(),
        };
        assert_eq!(found, expected);
    }
    for key in ["k007", "k123", "+0", "+1", "none"] {
        assert_eq!(kv.get(key.as_bytes()).await.unwrap(), map.get(key.as_bytes()).cloned());
    }
}

/// BLU-KV-1, RKK-ORDER-1: batches that are under way together, on a database that is opened again and again, closed or not.
#[test]
fn batches_are_there_in_their_order_after_each_opening() {
    let Some(library) = library() else { return };
    for seed in seeds(2) {
        println!("seed {seed}");
        let (library, drive) = (library.clone(), Drive::new());
        let (mut map, mut random) = (Map::new(), Random::new(seed));
        real::run(|rt| async move {
            ZoneFiles::format(&rt, drive.open(&rt).await, Default::default()).await.unwrap();
            for life in 0..4 {
                let (files, _) = ZoneFiles::open(&rt, drive.open(&rt).await, Default::default()).await.unwrap();
                let kv = keys(&library).open(&rt, files.clone(), OPERATORS, false).await.unwrap();
                hold(&kv, &map, &mut random).await;
                for _ in 0..60 {
                    let batches: Vec<Batch> = (0..1 + random.below(6)).map(|_| batch(&mut random)).collect();
                    batches.iter().for_each(|batch| apply(&mut map, batch));
                    let writes: Vec<_> = batches.into_iter().map(|batch| kv.write(batch)).collect();
                    for write in writes {
                        write.await.unwrap();
                    }
                }
                hold(&kv, &map, &mut random).await;
                if life % 2 == 0 {
                    kv.close().await.unwrap();
                    let refused = kv.write(Batch::default()).await.unwrap_err();
                    assert_eq!(refused.kind, KvErrorKind::Unavailable);
                } else {
                    // RKK-END-1: its threads go by themselves, and this one serves them meanwhile.
                    drop(kv);
                }
                files.close().await.unwrap();
            }
        })
        .unwrap();
    }
}

/// A database that lost the file by which it is found is damage, and not a new one.
#[test]
fn a_database_without_its_current_is_refused() {
    let Some(library) = library() else { return };
    let drive = Drive::new();
    real::run(|rt| async move {
        ZoneFiles::format(&rt, drive.open(&rt).await, Default::default()).await.unwrap();
        let (files, _) = ZoneFiles::open(&rt, drive.open(&rt).await, Default::default()).await.unwrap();
        let kv = keys(&library).open(&rt, files.clone(), OPERATORS, false).await.unwrap();
        let mut batch = Batch::default();
        batch.put("key", "value");
        kv.write(batch).await.unwrap();
        kv.close().await.unwrap();
        files.remove("/rocksdb/CURRENT").await.unwrap();
        for read_only in [true, false] {
            let refused = keys(&library).open(&rt, files.clone(), OPERATORS, read_only).await.err().unwrap();
            assert_eq!(refused.kind, KvErrorKind::Corrupt, "{refused}");
        }
        files.close().await.unwrap();
    })
    .unwrap();
}

/// A drive that goes away.
struct Leaving {
    inner: Rc<dyn ZonedDevice>,
    gone: Rc<Cell<bool>>,
}

impl Leaving {
    fn unless_gone<'d, T: 'd>(&self, command: DeviceFuture<'d, T>) -> DeviceFuture<'d, T> {
        match self.gone.get() {
            true => Box::pin(async { Err(DeviceError::new(DeviceErrorKind::Gone, Lba(0), None)) }),
            false => command,
        }
    }
}

impl ZonedDevice for Leaving {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.unless_gone(self.inner.report(first, count))
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        self.unless_gone(self.inner.read(at, length))
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        self.unless_gone(self.inner.write(at, data))
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        self.unless_gone(self.inner.append(zone, data))
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        self.unless_gone(self.inner.manage(zone, op))
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        self.unless_gone(self.inner.flush())
    }
}

/// A drive that is gone is told as such, so that the store above stops and is opened anew: by a write, and by all calls behind it.
#[test]
fn a_drive_that_is_gone_makes_the_keys_unavailable() {
    let Some(library) = library() else { return };
    let drive = Drive::new();
    real::run(|rt| async move {
        ZoneFiles::format(&rt, drive.open(&rt).await, Default::default()).await.unwrap();
        let gone = Rc::new(Cell::new(false));
        let device = Rc::new(Leaving { inner: drive.open(&rt).await, gone: gone.clone() });
        let (files, _) = ZoneFiles::open(&rt, device, Default::default()).await.unwrap();
        let kv = keys(&library).open(&rt, files.clone(), OPERATORS, false).await.unwrap();
        let batch = || {
            let mut batch = Batch::default();
            batch.put("key", vec![1; 20_000]);
            batch
        };
        kv.write(batch()).await.unwrap();
        gone.set(true);
        for _ in 0..2 {
            let failed = kv.write(batch()).await.unwrap_err();
            assert_eq!(failed.kind, KvErrorKind::Unavailable, "{failed}");
        }
        let failed = kv.get(b"key").await.unwrap_err();
        assert_eq!(failed.kind, KvErrorKind::Unavailable, "{failed}");
        let _ = (kv.close().await, files.close().await);
    })
    .unwrap();
}

/// A store that keeps its metadata in RocksDB says so, and is whole after each opening.
#[test]
fn objects_have_their_metadata_in_rocksdb() {
    let Some(library) = library() else { return };
    let drive = Drive::new();
    real::run(|rt| async move {
        let format = FormatOptions { metadata: Metadata::RocksDb, meta_zones: Some(24), ..Default::default() };
        Store::format(&rt, drive.open(&rt).await, format).await.unwrap();
        let options = Options { rocksdb: Some(Rc::new(keys(&library))), ..Default::default() };
        let (empty, _) = Store::examine(&rt, drive.open(&rt).await, options).await.unwrap();
        assert_eq!((empty.collections(), empty.check(true).await.unwrap()), (vec![], vec![]), "it was never opened");
        empty.close().await.unwrap();
        let refused = Store::open(&rt, drive.open(&rt).await, Options::default()).await.err().unwrap();
        assert_eq!(refused.kind, BlueErrorKind::Invalid, "{refused}");
        let info = CollectionInfo { id: CollectionId { pool: 1, seed: 0 }, bits: 0 };
        let object = |number: u32| ObjectId::new(1, format!("object {number}"));
        for life in 0..3_u32 {
            let options = Options { rocksdb: Some(Rc::new(keys(&library))), ..Default::default() };
            let (store, _) = Store::open(&rt, drive.open(&rt).await, options).await.unwrap();
            if life == 0 {
                store.create_collection(info).await.unwrap();
            }
            for number in 0..100 {
                let id = object(number);
                if life > 0 {
                    let size = if number % 3 == 0 { 40_000 } else { 300 };
                    let bytes = store.read(&id, 0, u64::MAX).await.unwrap();
                    assert_eq!(bytes, vec![(number + life - 1) as u8; size], "{id}");
                }
                let mut transaction = Transaction::new();
                let size = if number % 3 == 0 { 40_000 } else { 300 };
                transaction.touch(&id).write(&id, 0, vec![(number + life) as u8; size]);
                transaction.set_hints(&id, Hints::default()).omap_set(&id, vec![life as u8], vec![1]);
                store.submit(info.id, transaction).await.unwrap();
            }
            assert_eq!(store.list(info.id, None, 1000).await.unwrap().len(), 100);
            assert_eq!(store.omap_list(&object(5), &[], 10).await.unwrap().len(), life as usize + 1);
            assert_eq!(store.check(true).await.unwrap(), []);
            store.close().await.unwrap();
        }
    })
    .unwrap();
}

/// RKK-READ-1: a drive in a file reads on the runtime's blocking threads, of which there are 512, and more calls than that have to be answered
/// from it.
#[test]
fn more_calls_than_the_runtime_has_threads_are_answered() {
    const KEYS: u32 = 1_500;
    let Some(library) = library() else { return };
    let drive = Drive::new();
    real::run(|rt| async move {
        ZoneFiles::format(&rt, drive.open(&rt).await, Default::default()).await.unwrap();
        let cold = RocksKeys { cache_bytes: 64 << 10, ..keys(&library) };
        let key = |number: u32| format!("{number:06}").into_bytes();
        for life in 0..2 {
            let (files, _) = ZoneFiles::open(&rt, drive.open(&rt).await, Default::default()).await.unwrap();
            let kv = cold.open(&rt, files.clone(), OPERATORS, false).await.unwrap();
            if life == 0 {
                let mut random = Random::new(1);
                for number in 0..KEYS {
                    let mut batch = Batch::default();
                    batch.put(key(number), random.bytes(4_000));
                    kv.write(batch).await.unwrap();
                }
            } else {
                let all = (0..KEYS).map(|number| {
                    let (kv, key) = (kv.clone(), key(number));
                    async move { kv.get(&key).await.unwrap().map(|value| value.len()) }
                });
                let all = futures_util::future::join_all(all);
                let ends = std::pin::pin!(rt.sleep(Duration::from_secs(60)));
                match futures_util::future::select(all, ends).await {
                    futures_util::future::Either::Left((lengths, _)) => {
                        assert_eq!(lengths, vec![Some(4_000); KEYS as usize]);
                    }
                    futures_util::future::Either::Right(_) => {
                        // A panic would wait for the runtime's threads, which end no more.
                        eprintln!("calls wait for each other for ever");
                        std::process::exit(1);
                    }
                }
            }
            kv.close().await.unwrap();
            files.close().await.unwrap();
        }
    })
    .unwrap();
}
