//! CS-MARK-1 to CS-MARK-4: progress marks spare recovery the scan, and change nothing else.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{Driver, Model, content, formatted, geometry, open, options};
use bytes::Bytes;
use shingle_base::{Blocks, ChunkId};
use shingle_chunk_store::{ChunkStore, Counters, FormatOptions, Options, RecoveryReport, Stream, ZoneStatus};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_zoned::{Geometry, MemoryDevice};

fn drive() -> Geometry {
    Geometry::hm_smr(Blocks(256), 80, 0, 16)
}

/// Fills about thirty zones, and lets the power fail without a checkpoint. Also says how many zones were opened.
fn filled(mark_every: Option<u64>) -> (MemoryDevice, Counters, u64) {
    let medium = MemoryDevice::new(drive());
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        // So many metazones that the journal asks for no checkpoint.
        let layout = FormatOptions { metazones: Some(12), ..FormatOptions::default() };
        ChunkStore::format(&rt, Rc::new(device.clone()), &layout).await.unwrap();
        let every = Duration::from_secs(1 << 20);
        let (store, _) =
            open(&rt, &device, Options { mark_every, checkpoint_every: every, ..Options::default() }).await;
        for number in 0..120 {
            let id = ChunkId::from_u64(number);
            store.create(id, Stream::ALL[number as usize % 3]).await.unwrap();
            for at in (0..240_000).step_by(24_000) {
                store.append(id, at, vec![Bytes::from(content(number, at, 24_000))]).await.unwrap();
            }
            store.seal(id).await.unwrap();
        }
        rt.sleep(Duration::from_millis(100)).await;
        let zones = store.zones();
        let used = zones.iter().filter(|zone| zone.status != ZoneStatus::Free).count();
        (device.crash_image(1), store.counters(), used as u64)
    })
}

fn recovered(medium: &MemoryDevice, options: Options) -> RecoveryReport {
    let medium = medium.snapshot();
    Sim::new(2).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, report) = open(&rt, &device, options).await;
        assert_eq!(report.damage, []);
        for number in 0..120 {
            let bytes = store.read(ChunkId::from_u64(number), 0, 240_000).await.unwrap();
            assert!(bytes == content(number, 0, 240_000), "chunk {number}");
        }
        report
    })
}

#[test]
fn with_marks_recovery_scans_only_tails() {
    const EVERY: u64 = 1 << 20;
    let (without, counters, _) = filled(None);
    assert_eq!(counters.marks, 0);
    let scanned = recovered(&without, Options::default()).scan;
    assert_eq!(scanned.found, 1200, "nothing but the scan tells of records");
    let (with, counters, _) = filled(Some(EVERY));
    assert!(counters.marks > 20, "{counters:?}");
    let report = recovered(&with, Options::default());
    // Records written since the last marks, and a little more while they were.
    assert!(report.scan.read_bytes <= 2 * EVERY, "{report}");
    assert!(report.scan.found <= 2 * EVERY / 24_000, "{report}");
    assert!(report.scan.zones < scanned.zones / 2, "zones that are closed and marked are not looked at: {report}");
    assert_eq!(report.marks.0, counters.marks);
    let all = recovered(&with, Options { scan_whole_zones: true, ..Options::default() });
    assert_eq!(all.scan.found, 1200, "and without heed for the marks all is scanned");
}

#[test]
fn marks_take_little_of_the_journal() {
    let (_, without, zones_without) = filled(None);
    let (_, with, zones_with) = filled(Some(1 << 20));
    let marks = (with.journal_entries - zones_with) - (without.journal_entries - zones_without);
    assert_eq!(marks, with.marks);
    // 28 MB were written: one batch a MiB, and in each a mark for every zone in use, or closed since.
    assert!(with.marks <= 28 * 9 + 60, "{with:?}");
}

/// CS-REC-7: of a drive that was full, and of one whose zones were finished before they were, an opening behind a
/// checkpoint reads the few zones that are still written; of a drive that was another store's, too.
#[test]
fn an_opening_reads_no_zone_that_is_garbage_or_was_finished_early() {
    let smr = Geometry::hm_smr(Blocks(256), 100, 0, 16);
    let cached = Geometry { volatile_cache: true, ..smr.clone() };
    for geometry in [smr, cached, Geometry::zns(Blocks(256), Blocks(256), 100, 16, 16)] {
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &MemoryDevice::new(geometry));
            // So many metazones that the journal asks for no checkpoint.
            let layout = |force| FormatOptions { metazones: Some(30), force, ..FormatOptions::default() };
            ChunkStore::format(&rt, Rc::new(device.clone()), &layout(false)).await.unwrap();
            let options = || Options { background: false, mark_every: None, ..Options::default() };
            let few = |report: &RecoveryReport, when: &str| {
                assert_eq!(report.damage, [], "{when}");
                // One for each zone that pools and GC go on with.
                assert!(report.scan.zones <= 20, "{when}: {report}");
            };
            let (store, _) = open(&rt, &device, options()).await;
            for number in 0..200 {
                let id = ChunkId::from_u64(number);
                store.create(id, Stream::Data).await.unwrap();
                store.append(id, 0, vec![Bytes::from(content(number, 0, 240_000))]).await.unwrap();
                store.seal(id).await.unwrap();
            }
            // All that was open is given up by the opening that follows, and closed.
            let device = SimDevice::new(&rt, &device.crash_image(1));
            let (store, report) = open(&rt, &device, options()).await;
            assert!(report.scan.zones > 50, "{report}");
            store.checkpoint().await.unwrap();
            let device = SimDevice::new(&rt, &device.crash_image(1));
            let (store, report) = open(&rt, &device, options()).await;
            few(&report, "full");
            for number in 0..200 {
                let id = ChunkId::from_u64(number);
                assert!(store.read(id, 0, 240_000).await.unwrap() == content(number, 0, 240_000));
                store.delete(id).await.unwrap();
            }
            store.checkpoint().await.unwrap();
            let garbage = store.zones().iter().filter(|zone| zone.status == ZoneStatus::Garbage).count();
            assert!(garbage > 40, "{garbage}");
            let device = SimDevice::new(&rt, &device.crash_image(1));
            let (store, report) = open(&rt, &device, options()).await;
            few(&report, "garbage");
            drop(store);
            // A new store does not know what is there, and looks once.
            ChunkStore::format(&rt, Rc::new(device.clone()), &layout(true)).await.unwrap();
            let (store, report) = open(&rt, &device, options()).await;
            assert!(report.scan.zones > 40, "{report}");
            store.close().await.unwrap();
            let (_, report) = open(&rt, &SimDevice::new(&rt, &device.crash_image(1)), options()).await;
            few(&report, "another store's");
        });
    }
}

/// State of a store that callers can see.
async fn seen(store: &ChunkStore) -> Vec<(ChunkId, Stream, u64, bool, Bytes)> {
    let mut all = Vec::new();
    for stat in store.list(None, usize::MAX) {
        let bytes = store.read(stat.id, 0, stat.size).await.unwrap();
        all.push((stat.id, stat.stream, stat.size, stat.sealed, bytes));
    }
    all
}

/// A random history with marks: what the power cut at its end leaves.
fn history(seed: u64) -> MemoryDevice {
    let mut random = Random::new(seed);
    let medium = formatted(geometry(&mut random));
    let mut options = options(&mut random);
    options.mark_every = Some([1, 20_000, 100_000][random.below(3) as usize]);
    options.checkpoint_every = Duration::from_millis([20, 200][random.below(2) as usize]);
    Sim::new(seed).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, options).await;
        let model = Rc::new(RefCell::new(Model::default()));
        let random = Rc::new(RefCell::new(random));
        let drivers = (0..3).map(|_| {
            let (rt, store, model, random) = (rt.clone(), store.clone(), model.clone(), random.clone());
            rt.clone().spawn(async move { Driver { rt, store, model, random, ids: 16, faults: false }.run(150).await })
        });
        for driver in drivers.collect::<Vec<_>>() {
            driver.await.unwrap();
        }
        device.crash_image(seed)
    })
}

async fn seen_with(rt: &Runtime, medium: &MemoryDevice, options: Options) -> Vec<(ChunkId, Stream, u64, bool, Bytes)> {
    let (store, report) = open(rt, &SimDevice::new(rt, medium), Options { background: false, ..options }).await;
    assert_eq!(report.damage, []);
    seen(&store).await
}

#[test]
fn recovery_with_and_without_marks_yields_the_same() {
    for seed in seeds(100) {
        let medium = history(seed);
        Sim::new(seed).run(move |rt| async move {
            let with = seen_with(&rt, &medium, Options::default()).await;
            let without = Options { scan_whole_zones: true, recovery_depth: 1, ..Options::default() };
            assert!(with == seen_with(&rt, &medium, without).await, "seed {seed}: marks changed what is found");
        });
    }
}
