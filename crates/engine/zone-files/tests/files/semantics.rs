//! Names, handles, locks, sizes, times: each as databases expect it.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, join_all, select};
use shingle_base::{Blocks, ZoneId};
use shingle_runtime::{Runtime, UnixTime};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger};
use shingle_zone_files::{CreateOptions, FileKind, FilesErrorKind, FormatOptions, Options, WriteLifetime, ZoneFiles};
use shingle_zoned::Geometry;

use crate::common::{bytes, format, fresh, of, open};

fn run(test: impl AsyncFnOnce(ZoneFiles, SimDevice, Runtime) + 'static) {
    Sim::new(7).run(move |rt| async move {
        let (device, files) = fresh(&rt).await;
        test(files, device, rt).await;
    });
}

#[test]
fn paths_have_directories_and_errors_have_kinds() {
    run(async |files, _, _| {
        let kind = |error: shingle_zone_files::FilesError| error.kind;
        assert_eq!(files.create("db/a", of(FileKind::Other)).await.err().map(kind), Some(FilesErrorKind::NotFound));
        files.make_dir("db").await.unwrap();
        assert_eq!(files.make_dir("/db/").await.map_err(kind), Err(FilesErrorKind::Exists));
        files.create("db/a", of(FileKind::Other)).await.unwrap();
        let exclusive = CreateOptions { exclusive: true, ..CreateOptions::default() };
        assert_eq!(files.create("db/a", exclusive).await.err().map(kind), Some(FilesErrorKind::Exists));
        assert_eq!(files.create("db", exclusive).await.err().map(kind), Some(FilesErrorKind::IsDirectory));
        assert_eq!(files.create("db/a/b", exclusive).await.err().map(kind), Some(FilesErrorKind::NotDirectory));
        assert_eq!(files.open_file("db").err().map(kind), Some(FilesErrorKind::IsDirectory));
        assert_eq!(files.open_file("db/c").err().map(kind), Some(FilesErrorKind::NotFound));
        assert_eq!(files.remove("db").await.map_err(kind), Err(FilesErrorKind::IsDirectory));
        assert_eq!(files.remove_dir("db").await.map_err(kind), Err(FilesErrorKind::NotEmpty));
        assert_eq!(files.remove_dir("db/a").await.map_err(kind), Err(FilesErrorKind::NotDirectory));
        assert_eq!(files.rename("db", "db/x").await.map_err(kind), Err(FilesErrorKind::Invalid));
        assert_eq!(files.rename("nothing", "x").await.map_err(kind), Err(FilesErrorKind::NotFound));
        assert_eq!(files.link("db/a", "db").await.map_err(kind), Err(FilesErrorKind::Exists));
        for name in ["", "/", "a/..", &"x".repeat(256)] {
            assert_eq!(files.make_dir(name).await.map_err(kind), Err(FilesErrorKind::Invalid), "{name}");
        }
        files.rename("db", "other").await.unwrap();
        files.sync_dir("other").unwrap();
        assert_eq!(files.list("other").unwrap().len(), 1);
        assert!(files.stat("other").unwrap().is_none());
        files.remove("other/a").await.unwrap();
        files.remove_dir("other").await.unwrap();
        assert!(files.list("").unwrap().is_empty());
    });
}

#[test]
fn a_file_lives_for_its_handles_after_its_last_name_is_gone() {
    run(async |files, device, rt| {
        let file = files.create("a", of(FileKind::Sst)).await.unwrap();
        file.append(vec![Bytes::from(vec![7; 100_000])]).await.unwrap();
        file.sync().await.unwrap();
        files.link("a", "b").await.unwrap();
        files.remove("a").await.unwrap();
        assert_eq!(file.info().unwrap().links, 1);
        files.remove("b").await.unwrap();
        assert_eq!(file.read(99_999, 10).await.unwrap(), [7][..]);
        assert!(files.stats().live_bytes > 100_000);
        file.append(bytes("more")).await.unwrap();
        file.sync().await.unwrap();
        // An opening after a crash finds nothing of it, and a handle's end frees it at once.
        let (other, _) = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
        assert_eq!((other.stats().files, other.stats().live_bytes), (0, 0));
        drop(file);
        assert_eq!((files.stats().files, files.stats().live_bytes), (0, 0));
        files.close().await.unwrap();
    });
}

#[test]
fn a_rename_takes_the_place_of_another_file() {
    run(async |files, _, _| {
        for (name, text) in [("CURRENT", "old"), ("new", "new one")] {
            let file = files.create(name, of(FileKind::Other)).await.unwrap();
            file.append(bytes(text)).await.unwrap();
            file.sync().await.unwrap();
        }
        let old = files.open_file("CURRENT").unwrap();
        files.rename("new", "CURRENT").await.unwrap();
        assert_eq!(old.read(0, 100).await.unwrap(), "old");
        assert_eq!(files.open_file("CURRENT").unwrap().read(0, 100).await.unwrap(), "new one");
        assert_eq!(files.list("/").unwrap().len(), 1);
        drop(old);
        assert_eq!(files.stats().files, 1);
    });
}

#[test]
fn bytes_are_seen_before_they_are_written_and_sizes_count_them() {
    run(async |files, _, _| {
        for kind in [FileKind::Wal, FileKind::Sst, FileKind::Manifest] {
            let file = files.create("f", of(kind)).await.unwrap();
            file.append(bytes("one, ")).await.unwrap();
            file.append(bytes("two, ")).await.unwrap();
            assert_eq!((file.size(), file.read(2, 6).await.unwrap()), (10, Bytes::from("e, two")));
            file.flush().await.unwrap();
            file.append(bytes("three")).await.unwrap();
            assert_eq!(file.read(0, 100).await.unwrap(), "one, two, three");
            file.sync().await.unwrap();
            assert_eq!(file.read(5, 100).await.unwrap(), "two, three");
            assert_eq!(files.stat("f").unwrap().unwrap().size, 15);
            assert!(file.read(15, 1).await.unwrap().is_empty() && file.read(99, 1).await.unwrap().is_empty());
        }
    });
}

#[test]
fn a_file_is_cut_and_goes_on() {
    run(async |files, device, rt| {
        for (name, kind) in [("log", FileKind::Wal), ("table", FileKind::Sst)] {
            let file = files.create(name, of(kind)).await.unwrap();
            file.append(vec![Bytes::from(vec![1; 20_000])]).await.unwrap();
            file.sync().await.unwrap();
            file.truncate(5_001).await.unwrap();
            assert_eq!(file.truncate(5_002).await.map_err(|error| error.kind), Err(FilesErrorKind::Invalid));
            file.append(vec![Bytes::from(vec![2; 5_000])]).await.unwrap();
            file.sync().await.unwrap();
            file.append(vec![Bytes::from(vec![3; 10])]).await.unwrap();
            file.truncate(10_005).await.unwrap();
            file.sync().await.unwrap();
        }
        let (other, _) = open(&rt, &SimDevice::resume(&rt, device.kill())).await.unwrap();
        for name in ["log", "table"] {
            let read = other.open_file(name).unwrap().read(0, 100_000).await.unwrap();
            assert_eq!(read.len(), 10_005, "{name}");
            let expected = [vec![1; 5_001], vec![2; 5_000], vec![3; 4]].concat();
            assert!(read == expected, "{name}");
        }
    });
}

/// ZF-TREE-3: a database that is opened by two spellings of its path is one.
#[test]
fn paths_of_one_file_have_one_lock() {
    Sim::new(1).run(|rt| async move {
        let (_, files) = fresh(&rt).await;
        let refused = |path: &str| files.lock(path).err().map(|error| error.kind);
        let lock = files.lock("/bench/LOCK").unwrap();
        for path in ["bench/LOCK", "bench//LOCK", "/./bench/./LOCK", "bench/LOCK/"] {
            assert_eq!(refused(path), Some(FilesErrorKind::Locked), "{path}");
        }
        assert_eq!((refused("bench"), refused("LOCK")), (None, None));
        // The tree has no `..`, so nothing can be behind it.
        assert_eq!(refused("x/../bench/LOCK"), Some(FilesErrorKind::Invalid));
        files.make_dir("bench").await.unwrap();
        files.make_dir("x").await.unwrap();
        assert_eq!(files.stat("x/../bench").map_err(|error| error.kind), Err(FilesErrorKind::NotFound));
        drop(lock);
        assert_eq!(refused("./bench/LOCK"), None);
    });
}

#[test]
fn a_lock_has_one_owner() {
    run(async |files, _, _| {
        let lock = files.lock("LOCK").unwrap();
        assert_eq!(files.lock("LOCK").err().map(|error| error.kind), Some(FilesErrorKind::Locked));
        drop(lock);
        files.lock("LOCK").unwrap();
    });
}

#[test]
fn times_kinds_and_lifetimes_are_kept() {
    run(async |files, _, rt| {
        let options =
            CreateOptions { kind: FileKind::Sst, lifetime: WriteLifetime::Extreme, ..CreateOptions::default() };
        let file = files.create("a", options).await.unwrap();
        file.append(bytes("x")).await.unwrap();
        file.sync().await.unwrap();
        let modified = UnixTime { nanos: 12_345 };
        files.set_modified("a", modified).await.unwrap();
        let before = file.info().unwrap();
        drop(file);
        files.close().await.unwrap();
        let _ = rt;
        assert_eq!((before.modified, before.lifetime, before.kind), (modified, WriteLifetime::Extreme, FileKind::Sst));
    });
}

/// ZF-SYNC-2: a sync of a log writes its record, and nothing else; many syncs share one write.
#[test]
fn a_sync_of_a_log_is_one_write() {
    run(async |files, device, _| {
        let file = Rc::new(files.create("000001.log", of(FileKind::Wal)).await.unwrap());
        file.append(bytes("the first opens a zone")).await.unwrap();
        file.sync().await.unwrap();
        for _ in 0..10 {
            let before = device.counts();
            file.append(bytes("record")).await.unwrap();
            file.sync().await.unwrap();
            let after = device.counts();
            assert_eq!((after.writes.0 - before.writes.0, after.writes.1 - before.writes.1), (1, 1));
            assert_eq!(after.commands - before.commands, 1, "no flush, no journal");
        }
        let before = device.counts().writes.0;
        let syncs = (0..100).map(|_| {
            let file = file.clone();
            async move {
                file.append(bytes("record of one of many")).await?;
                file.sync().await
            }
        });
        assert!(join_all(syncs).await.into_iter().all(|synced| synced.is_ok()));
        assert!(device.counts().writes.0 - before <= 10, "{} writes", device.counts().writes.0 - before);
        assert_eq!(file.size(), 22 + 60 + 2100);
    });
}

/// ZF-SYNC-2: after a power cut bytes of a log belong to no file if that is being made, and pass for those that are being cut off.
#[test]
fn a_sync_waits_for_the_entries_that_its_bytes_hang_on() {
    run(async |files, device, rt| {
        let old = Rc::new(files.create("old", of(FileKind::Wal)).await.unwrap());
        old.append(vec![Bytes::from(vec![1; 100])]).await.unwrap();
        old.sync().await.unwrap();
        let hang = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::Hang };
        device.set_faults(Faults::new([hang]).sparing(files.data_zones().map(ZoneId)));
        let (making, cutting) = (files.clone(), old.clone());
        let made = rt.spawn(async move { making.create("new", of(FileKind::Wal)).await });
        let cut = rt.spawn(async move { cutting.truncate(50).await });
        rt.sleep(Duration::from_millis(1)).await;
        let new = Rc::new(files.open_file("new").unwrap());
        for file in [&old, &new] {
            file.append(bytes("behind it")).await.unwrap();
            let waits =
                matches!(select(pin!(file.sync()), pin!(rt.sleep(Duration::from_secs(60)))).await, Either::Right(_));
            assert!(waits, "{} bytes count before their entry does", file.size());
        }
        device.set_faults(Faults::default());
        device.release_hung();
        drop(made.await.unwrap().unwrap());
        cut.await.unwrap().unwrap();
        old.sync().await.unwrap();
        new.sync().await.unwrap();
        let (other, _) = open(&rt, &SimDevice::new(&rt, &device.crash_image(1))).await.unwrap();
        for (name, size) in [("old", 59), ("new", 9)] {
            let read = other.open_file(name).unwrap().read(size - 9, 100).await.unwrap();
            assert_eq!(read, "behind it", "{name}");
        }
    });
}

/// A drive whose zones are looked at when they are left, as it has a cache, with files on it. Six of its zones may be active.
async fn with_cache(rt: &Runtime) -> (SimDevice, ZoneFiles) {
    let device = format(rt, &Geometry::zns(Blocks(64), Blocks(64), 40, 6, 6)).await;
    let (files, _) = open(rt, &device).await.unwrap();
    (device, files)
}

fn hang_reports(device: &SimDevice) {
    let hang = FaultRule { trigger: Trigger::Rate(CommandKind::Report, 1.0), fault: Fault::Hang };
    device.set_faults(Faults::new([hang]));
}

/// One report hangs. The files close while it does, and no command comes once they have.
async fn a_close_waits(rt: &Runtime, device: &SimDevice, files: ZoneFiles) {
    rt.sleep(Duration::from_secs(1)).await;
    assert_eq!(device.hung(), 1);
    let closing = rt.spawn(files.close());
    rt.sleep(Duration::from_secs(1)).await;
    device.set_faults(Faults::default());
    device.release_hung();
    closing.await.unwrap().unwrap();
    let commands = device.counts().commands;
    rt.sleep(Duration::from_secs(60)).await;
    assert_eq!(device.counts().commands, commands, "commands after the close");
}

/// ZF-CLOSE-3: a zone that is full is left while the files close; the drive takes long to tell of it.
#[test]
fn a_close_waits_for_the_ends_of_zones() {
    Sim::new(7).run(|rt| async move {
        let (device, files) = with_cache(&rt).await;
        hang_reports(&device);
        let file = files.create("a", of(FileKind::Wal)).await.unwrap();
        // Eight records fill a zone.
        let record = shingle_record::sliced_capacity(Blocks(8));
        for _ in 0..8 {
            file.append(vec![Bytes::from(vec![1; record as usize])]).await.unwrap();
        }
        file.flush().await.unwrap();
        drop(file);
        a_close_waits(&rt, &device, files).await;
    });
}

/// ZF-CLOSE-3: two tables have left small rests, and no third zone may be open. A rest is given up for a table, which is removed meanwhile.
#[test]
fn a_close_waits_for_spare_zones_that_are_given_up() {
    Sim::new(7).run(|rt| async move {
        let (device, files) = with_cache(&rt).await;
        let capacity = |blocks| shingle_record::sliced_capacity(Blocks(blocks));
        let size = 7 * capacity(8) + capacity(6);
        let table = CreateOptions { kind: FileKind::Sst, expected_bytes: size, ..CreateOptions::default() };
        for name in ["a", "b"] {
            let file = files.create(name, table).await.unwrap();
            file.append(vec![Bytes::from(vec![1; size as usize])]).await.unwrap();
            file.sync().await.unwrap();
        }
        hang_reports(&device);
        let file = files.create("c", table).await.unwrap();
        file.append(vec![Bytes::from(vec![1; size as usize])]).await.unwrap();
        files.remove("c").await.unwrap();
        drop(file);
        a_close_waits(&rt, &device, files).await;
    });
}

#[test]
fn reading_alone_changes_nothing() {
    run(async |files, device, rt| {
        let file = files.create("a", of(FileKind::Wal)).await.unwrap();
        file.append(bytes("x")).await.unwrap();
        file.sync().await.unwrap();
        let writes = device.counts();
        let shared = Rc::new(device.clone());
        let (seen, report) = ZoneFiles::examine(&rt, shared.clone(), Options::default()).await.unwrap();
        assert_eq!(report.records, 1);
        let found = seen.open_file("a").unwrap();
        assert_eq!(found.read(0, 9).await.unwrap(), "x");
        assert_eq!(found.append(bytes("y")).await.map_err(|error| error.kind), Err(FilesErrorKind::ReadOnly));
        assert_eq!(seen.remove("a").await.map_err(|error| error.kind), Err(FilesErrorKind::ReadOnly));
        assert_eq!(seen.check().await.unwrap(), []);
        drop(found);
        let after = device.counts();
        assert_eq!((after.writes, after.resets, after.flushes), (writes.writes, writes.resets, writes.flushes));
        let again = ZoneFiles::format(&rt, shared, FormatOptions::default()).await;
        assert_eq!(again.map_err(|error| error.kind), Err(FilesErrorKind::Invalid), "it holds a store");
    });
}
