//! The rules of recovery, one by one. (SMORE, section IV-A.) Sets are looked at in any order: each history is recovered
//! with many seeds, which decide it.

use std::path::PathBuf;

use crate::common::{ArrayShape, content, formatted, named, open, powered};
use bytes::Bytes;
use shingle_array_store::{ArrayStore, ErrorKind, IndexPlace, Options, RecoveryReport};
use shingle_base::{Blocks, ZoneId};
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{Sim, SimDevice};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

const ORDERS: u64 = 30;
/// Objects of one segment.
const SIZE: usize = 19_000;

fn plain() -> Options {
    Options { background: false, coalesce: false, ..Options::default() }
}

/// Runs a history on fresh drives, three of them, 2+1; what a power cut at its end leaves.
fn history<F>(test: impl FnOnce(Runtime, Vec<SimDevice>, ArrayStore) -> F + 'static) -> Vec<MemoryDevice>
where
    F: Future<Output = ()> + 'static,
{
    let drives = vec![Geometry::hm_smr(Blocks(60), 16, 0, 12); 3];
    let media = formatted(&ArrayShape { code: Code::new(2, 1).unwrap(), segment_length: 20_000, drives });
    Sim::new(3).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &devices, plain()).await;
        test(rt, devices.clone(), store).await;
        devices.iter().map(|device| device.crash_image(1)).collect()
    })
}

/// Recovers what a power cut left, in several orders.
fn recovered<F>(images: &[MemoryDevice], check: impl Fn(ArrayStore, RecoveryReport) -> F + Clone + 'static)
where
    F: Future<Output = ()> + 'static,
{
    recovered_with(images, plain(), check);
}

fn recovered_with<F>(
    images: &[MemoryDevice],
    options: Options,
    check: impl Fn(ArrayStore, RecoveryReport) -> F + Clone + 'static,
) where
    F: Future<Output = ()> + 'static,
{
    for seed in 1..=ORDERS {
        let (images, check) = (images.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>(), check.clone());
        let options = options.clone();
        Sim::new(seed).run(move |rt| async move {
            let devices = powered(&rt, &images);
            let (store, report) = open(&rt, &devices, options).await;
            check(store, report).await;
        });
    }
}

async fn put(store: &ArrayStore, name: &str, key: u64) {
    store.put(name.to_owned(), content((key, SIZE)), Bytes::new()).await.unwrap();
}

async fn is(store: &ArrayStore, name: &str, key: u64) {
    assert!(store.get(name.to_owned()).await.unwrap() == content((key, SIZE)), "{name} has other bytes");
}

fn is_gone(store: &ArrayStore, name: &str) {
    assert_eq!(store.head(name.as_bytes()).unwrap_err().kind, ErrorKind::NotFound, "{name}");
}

/// Writes until another set is written to. Returns the number of objects that took.
async fn next_set(rt: &Runtime, store: &ArrayStore, fillers: &mut u64) {
    let closed = |store: &ArrayStore| store.stats().unwrap().sets[3];
    let before = closed(store);
    while closed(store) == before {
        *fillers += 1;
        put(store, &format!("filler {fillers}"), 1000 + *fillers).await;
        rt.sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// Rule 1: what a tombstone deletes is skipped, also where the tombstone was seen first.
#[test]
fn a_segment_is_skipped_whose_deletion_was_seen() {
    let images = history(|rt, _, store| async move {
        let mut fillers = 0;
        put(&store, "o", 1).await;
        next_set(&rt, &store, &mut fillers).await;
        assert!(store.delete("o").await.unwrap());
        next_set(&rt, &store, &mut fillers).await;
        // A version that is newer than the tombstone is none of its business.
        put(&store, "p", 2).await;
        assert!(store.delete("p").await.unwrap());
        next_set(&rt, &store, &mut fillers).await;
        put(&store, "p", 3).await;
    });
    recovered(&images, |store, _| async move {
        is_gone(&store, "o");
        is(&store, "p", 3).await;
    });
}

/// Rule 2: a newer complete version replaces an older one; one that is not complete does not.
#[test]
fn the_newest_complete_version_counts_and_takes_the_space() {
    let images = history(|rt, _, store| async move {
        let mut fillers = 0;
        put(&store, "o", 1).await;
        next_set(&rt, &store, &mut fillers).await;
        put(&store, "o", 2).await;
        next_set(&rt, &store, &mut fillers).await;
        let mut third = store.begin_put("o").unwrap();
        third.write(content((3, 70_000))).await.unwrap();
        rt.sleep(std::time::Duration::from_millis(5)).await;
        std::mem::forget(third);
    });
    recovered(&images, |store, report| async move {
        is(&store, "o", 2).await;
        assert_eq!(report.incomplete, 1);
        let stats = store.stats().unwrap();
        assert_eq!(stats.live, stats.objects * SIZE as u64, "what was replaced or is half there takes no space");
    });
}

/// Of each drive's zones, that of the set that was written to last, by its number of written blocks.
fn last_written(images: &[MemoryDevice], full: u64) -> Vec<(ZoneId, u64)> {
    let zone_of = |image: &MemoryDevice| {
        let zones = (2..image.geometry().zone_count).map(|zone| (ZoneId(zone), image.zone(ZoneId(zone)).written.0));
        let mut open = zones.filter(|(_, written)| *written > 0 && *written < full);
        let found = open.next().unwrap();
        assert!(open.next().is_none(), "one set is open");
        found
    };
    images.iter().map(zone_of).collect()
}

/// The last valid marker: its fragments must end before every write pointer. (AS-EXAM-1)
#[test]
fn a_segment_that_a_write_pointer_cuts_short_never_was() {
    let images = history(|_, _, store| async move {
        put(&store, "before", 1).await;
        put(&store, "last", 2).await;
    });
    let ends = last_written(&images, 60);
    for (image, cut) in [(0, 1), (1, 3), (2, 4), (1, 5)] {
        let torn: Vec<MemoryDevice> = images.iter().map(MemoryDevice::snapshot).collect();
        let (zone, end) = ends[image];
        torn[image].truncate_zone(zone, Blocks(end - cut));
        recovered(&torn, |store, report| async move {
            assert_eq!(report.damage, Vec::<String>::new());
            is(&store, "before", 1).await;
            is_gone(&store, "last");
            put(&store, "after", 3).await;
            is(&store, "after", 3).await;
        });
    }
}

/// A write pointer may stand behind bytes that never reached the medium. (AS-EXAM-2)
#[test]
fn a_segment_of_which_too_little_verifies_never_was() {
    let images = history(|_, _, store| async move {
        put(&store, "before", 1).await;
        put(&store, "last", 2).await;
    });
    let ends = last_written(&images, 60);
    for image in 0..2 {
        let (zone, end) = ends[image];
        let at = images[image].geometry().start_of(zone) + Blocks(end - 2);
        images[image].corrupt(at, |bytes| bytes[50] ^= 1);
    }
    recovered(&images, |store, _| async move {
        is(&store, "before", 1).await;
        is_gone(&store, "last");
        put(&store, "after", 3).await;
        is(&store, "after", 3).await;
    });
}

/// The complete bit completes nothing while a part is missing. (AS-REC-3)
#[test]
fn a_version_with_a_gap_is_not_complete() {
    let images = history(|rt, _, store| async move {
        let mut fillers = 0;
        next_set(&rt, &store, &mut fillers).await;
        store.put("wide", content((9, 290_000)), Bytes::new()).await.unwrap();
        rt.sleep(std::time::Duration::from_millis(5)).await;
        assert!(store.get("wide").await.unwrap() == content((9, 290_000)));
    });
    // The set in which the object ends stays; of the one before a member lost its end.
    let full = (2..16).map(ZoneId).filter(|&zone| images[0].zone(zone).written.0 == 60).max().unwrap();
    let torn: Vec<MemoryDevice> = images.iter().map(MemoryDevice::snapshot).collect();
    torn[0].truncate_zone(full, Blocks(20));
    recovered(&torn, |store, report| async move {
        is_gone(&store, "wide");
        assert_eq!(report.incomplete, 1);
    });
    recovered(&images, |store, _| async move {
        assert!(store.get("wide").await.unwrap() == content((9, 290_000)));
    });
}

fn objects(count: u64) -> impl Iterator<Item = (String, u64)> {
    (0..count).map(|number| (format!("object {number}"), number))
}

/// Deletions may speak of what cannot be read: nothing is written before that is accepted, and reading goes on.
fn refused_for_writing(images: &[MemoryDevice]) {
    let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &images);
        let (drives, place) = (crate::common::named(&devices), IndexPlace::Memory);
        let before = shingle_array_store::inspect(&drives).await.unwrap();
        let Err(error) = ArrayStore::open(&rt, &drives, &place, plain()).await else { panic!("opened for writing") };
        assert!(error.kind == ErrorKind::Corrupt && error.message.contains("--accept-loss"), "{error}");
        assert_eq!(shingle_array_store::inspect(&drives).await.unwrap(), before);
        let only = Options { read_only: true, ..plain() };
        let (store, report) = ArrayStore::open(&rt, &drives, &place, only).await.unwrap();
        assert!(report.snapshot_lost && !report.damage.is_empty());
        is(&store, "object 3", 3).await;
    });
}

/// Nothing but markers and digests: everything is found. With the snapshot damaged, too.
#[test]
fn without_a_snapshot_everything_is_found() {
    for snapshot in [false, true] {
        let images = history(move |_, _, store| async move {
            for (name, key) in objects(40) {
                put(&store, &name, key).await;
                if snapshot && key == 25 {
                    store.snapshot().await.unwrap();
                }
            }
        });
        if snapshot {
            // Every member of its set: those that hold a few blocks, and a digest behind them.
            for image in &images {
                for zone in (2..16).map(ZoneId) {
                    let info = image.zone(zone);
                    let first = image.read_now(info.start + Blocks(1), Blocks(1)).unwrap_or_default();
                    if first.windows(6).any(|window| window == b"\0index") {
                        (1..info.written.0).for_each(|block| {
                            image.corrupt(info.start + Blocks(block), |bytes| bytes[20] ^= 1);
                        });
                    }
                }
            }
        }
        if snapshot {
            refused_for_writing(&images);
        }
        recovered_with(&images, Options { accept_loss: snapshot, ..plain() }, move |store, report| async move {
            assert_eq!(report.snapshot_lost, snapshot);
            for (name, key) in objects(40) {
                is(&store, &name, key).await;
            }
        });
    }
}

/// A snapshot is gone on from: what it covers is not read again, what came later is found. (AS-SNAP-1)
#[test]
fn what_came_after_the_snapshot_is_added_to_it() {
    let images = history(|_, _, store| async move {
        for (name, key) in objects(30) {
            put(&store, &name, key).await;
        }
        store.snapshot().await.unwrap();
        assert!(store.delete("object 3").await.unwrap());
        put(&store, "object 4", 104).await;
        put(&store, "later", 200).await;
    });
    recovered(&images, |store, report| async move {
        assert!(report.snapshot_pieces > 0 && !report.snapshot_lost);
        assert!(report.sets_examined < 6, "{report:?}");
        is_gone(&store, "object 3");
        is(&store, "object 4", 104).await;
        is(&store, "later", 200).await;
        is(&store, "object 29", 29).await;
        assert_eq!(store.stats().unwrap().objects, 30);
    });
}

/// A file of its own for each test, gone with it.
struct IndexFile(PathBuf);

impl IndexFile {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("shingle-rules-{}-{name}", std::process::id())))
    }
}

impl Drop for IndexFile {
    fn drop(&mut self) {
        for path in [
            self.0.clone(),
            self.0.with_extension("clean"),
            self.0.with_extension("old"),
            self.0.with_extension("kept"),
        ] {
            drop(std::fs::remove_file(path));
        }
    }
}

/// The flash is only believed if it is whole and of the last clean close; else the drives say everything.
#[test]
fn with_the_flash_gone_or_old_the_drives_say_everything() {
    for loss in ["none", "gone", "old", "spoilt"] {
        let file = IndexFile::new(loss);
        let path = file.0.clone();
        let drives = vec![Geometry::hm_smr(Blocks(60), 16, 0, 12); 3];
        let media = formatted(&ArrayShape { code: Code::new(2, 1).unwrap(), segment_length: 20_000, drives });
        Sim::new(1).run(move |rt| async move {
            let mut images = media;
            for round in 0..3u64 {
                let devices = powered(&rt, &images);
                let place = IndexPlace::File(path.clone());
                let (store, report) = ArrayStore::open(&rt, &named(&devices), &place, plain()).await.unwrap();
                assert_eq!(report.clean, round == 1 || round == 2 && loss == "none", "{loss}, round {round}");
                for earlier in 0..round {
                    for (name, key) in objects(10) {
                        is(&store, &format!("{name} of {earlier}"), key + 100 * earlier).await;
                    }
                }
                for (name, key) in objects(10) {
                    put(&store, &format!("{name} of {round}"), key + 100 * round).await;
                }
                store.close().await.unwrap();
                images = devices.iter().map(SimDevice::image).collect();
                let (mark, old) = (PathBuf::from(format!("{}.clean", path.display())), path.with_extension("old"));
                match (loss, round) {
                    ("gone", 1) => std::fs::remove_file(&path).unwrap(),
                    // The first round's file and mark come back.
                    ("old", 0) => drop((
                        std::fs::copy(&path, &old).unwrap(),
                        std::fs::copy(&mark, mark.with_extension("kept")).unwrap(),
                    )),
                    ("old", 1) => drop((
                        std::fs::rename(&old, &path).unwrap(),
                        std::fs::rename(mark.with_extension("kept"), &mark).unwrap(),
                    )),
                    ("spoilt", 1) => {
                        let mut bytes = std::fs::read(&path).unwrap();
                        let middle = bytes.len() / 2;
                        bytes[middle] ^= 1;
                        std::fs::write(&path, bytes).unwrap();
                    }
                    _ => {}
                }
            }
        });
    }
}
