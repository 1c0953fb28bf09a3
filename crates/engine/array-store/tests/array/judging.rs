//! EXAM: what an opening makes of bytes that are not there, or cannot be read.

use std::time::Duration;

use crate::common::{ArrayShape, content, formatted, named, powered};
use bytes::Bytes;
use shingle_array_store::{
    ArrayStore, DriveId, ErrorKind, IndexPlace, Options, RecoveryReport, Result, SetState, inspect,
};
use shingle_base::{BLOCK_SIZE, Blocks, ZoneId};
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger};
use shingle_zoned::{Geometry, MemoryDevice, ZoneOp, ZoneState, ZonedDevice};

/// Objects of one segment.
const SIZE: usize = 19_000;
const ZONES: u32 = 14;

fn plain() -> Options {
    Options { background: false, coalesce: false, ..Options::default() }
}

async fn open(rt: &Runtime, devices: &[SimDevice]) -> Result<(ArrayStore, RecoveryReport)> {
    ArrayStore::open(rt, &named(devices), &IndexPlace::Memory, plain()).await
}

async fn put(store: &ArrayStore, name: &str, key: u64) {
    store.put(name.to_owned(), content((key, SIZE)), Bytes::new()).await.unwrap();
}

async fn is(store: &ArrayStore, name: &str, key: u64) {
    assert!(store.get(name.to_owned()).await.unwrap() == content((key, SIZE)), "{name} has other bytes");
}

/// Runs a history on three fresh drives, 2+1; what a power cut at its end leaves.
fn history<F>(test: impl FnOnce(Runtime, ArrayStore) -> F + 'static) -> Vec<MemoryDevice>
where
    F: Future<Output = ()> + 'static,
{
    history_of(Code::new(2, 1).unwrap(), test)
}

/// The same on as many drives as a set has zones.
fn history_of<F>(code: Code, test: impl FnOnce(Runtime, ArrayStore) -> F + 'static) -> Vec<MemoryDevice>
where
    F: Future<Output = ()> + 'static,
{
    let drives = vec![Geometry::hm_smr(Blocks(60), ZONES, 0, 12); code.width()];
    let media = formatted(&ArrayShape { code, segment_length: 20_000, drives });
    Sim::new(3).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &devices).await.unwrap();
        test(rt, store).await;
        devices.iter().map(|device| device.crash_image(1)).collect()
    })
}

/// Two versions of an object, both acknowledged.
fn two_versions() -> Vec<MemoryDevice> {
    history(|_, store| async move {
        put(&store, "o", 1).await;
        put(&store, "o", 2).await;
    })
}

/// The zones of a drive with sets in them, and how far they were written.
fn written(image: &MemoryDevice) -> impl Iterator<Item = (ZoneId, u64)> {
    let zones = (2..ZONES).map(|zone| (ZoneId(zone), image.zone(ZoneId(zone)).written.0));
    zones.filter(|(_, written)| *written > 0)
}

/// The zone of each drive that is not full, of which there is one, and where it ends.
fn last_written(images: &[MemoryDevice]) -> Vec<(ZoneId, u64)> {
    images.iter().map(|image| written(image).find(|(_, end)| *end < 60).unwrap()).collect()
}

/// Loses blocks as a host does that lost power before they reached its disk.
fn lose(image: &MemoryDevice, zone: ZoneId, blocks: std::ops::Range<u64>) {
    let start = image.zone(zone).start;
    blocks.for_each(|block| image.corrupt(start + Blocks(block), |bytes| bytes.copy_from_slice(&[0; BLOCK_SIZE])));
}

/// AS-EXAM-4, AS-PROBE-1: more drives than parity makes up for cannot be read while the end of a set is verified.
/// Nothing is decided or written; once they can be read all is there.
#[test]
fn what_cannot_be_read_is_not_torn() {
    let images = two_versions();
    for (bad, away) in [(vec![0, 1], None), (vec![1, 2], None), (vec![0, 1, 2], None), (vec![0], Some(2))] {
        let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(4).run(move |rt| async move {
            let mut devices = powered(&rt, &images);
            let all = devices.clone();
            devices.truncate(away.unwrap_or(3));
            let before = inspect(&named(&all)).await.unwrap();
            for &number in &bad {
                let fails = (2..ZONES).map(|zone| FaultRule {
                    trigger: Trigger::Zone(CommandKind::Read, ZoneId(zone)),
                    fault: Fault::ReadError,
                });
                all[number].set_faults(Faults::new(fails));
            }
            let Err(error) = open(&rt, &devices).await else { panic!("opened with {bad:?} unreadable") };
            assert!(error.kind == ErrorKind::Device && error.message.contains("Nothing was changed"), "{error}");
            all.iter().for_each(|device| device.set_faults(Faults::default()));
            assert_eq!(inspect(&named(&all)).await.unwrap(), before);
            let (store, report) = open(&rt, &all).await.unwrap();
            assert_eq!(report.damage, Vec::<String>::new());
            is(&store, "o", 2).await;
        });
    }
}

/// Opens with the zone that was written last offline on these drives: refused, then accepted.
async fn accepted_without(rt: &Runtime, images: &[MemoryDevice], offline: &[usize]) -> ArrayStore {
    let last = last_written(images);
    offline.iter().for_each(|drive| images[*drive].set_state(last[*drive].0, ZoneState::Offline));
    let devices = powered(rt, images);
    let before = inspect(&named(&devices)).await.unwrap();
    let Err(error) = open(rt, &devices).await else { panic!("opened without the zones of {offline:?}") };
    assert!(error.kind == ErrorKind::Device && error.message.contains("--accept-loss"), "{error}");
    assert_eq!(inspect(&named(&devices)).await.unwrap(), before);
    let accepting = Options { accept_loss: true, ..plain() };
    let opened = ArrayStore::open(rt, &named(&devices), &IndexPlace::Memory, accepting).await;
    let (store, report) = opened.unwrap();
    assert!(!report.damage.is_empty() && store.lost_before().unwrap().is_some(), "{report:?}");
    store
}

/// AS-EXAM-4: zones that are offline are not torn, and not empty.
#[test]
fn zones_that_are_gone_are_not_taken_for_torn_or_empty() {
    for offline in [vec![0, 1], vec![1, 2], vec![0, 1, 2]] {
        let images = two_versions();
        Sim::new(4).run(move |rt| async move {
            accepted_without(&rt, &images, &offline).await;
        });
    }
}

/// AS-EXAM-4: the end of an open set cannot be judged. Objects in it that a snapshot covers are
/// listed still.
#[test]
fn what_a_snapshot_covers_of_an_open_set_is_not_forgotten_with_its_end() {
    for offline in [vec![0, 1], vec![0, 1, 2]] {
        let images = history(|_, store| async move {
            put(&store, "covered", 1).await;
            store.snapshot().await.unwrap();
            put(&store, "o", 2).await;
        });
        // The snapshot lies in another zone.
        let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(4).run(move |rt| async move {
            let store = accepted_without(&rt, &images, &offline).await;
            let error = store.get("covered").await.unwrap_err();
            assert!(matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Device), "{offline:?}: {error}");
            assert!(store.delete("covered").await.unwrap());
            put(&store, "later", 3).await;
            is(&store, "later", 3).await;
        });
    }
}

/// AS-EXAM-4: a drive that is lost while an opening verifies is no proof either.
#[test]
fn drives_that_blink_while_an_opening_verifies_tear_nothing() {
    let images = two_versions();
    for after in 0..60 {
        let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(after).run(move |rt| async move {
            let devices = powered(&rt, &images);
            devices[..2].iter().for_each(|device| device.power_off_at(after));
            let opened = open(&rt, &devices).await;
            let kinds = [ErrorKind::Device, ErrorKind::Corrupt];
            assert!(opened.as_ref().err().is_none_or(|error| kinds.contains(&error.kind)), "after {after} commands");
            if let Ok((store, _)) = opened {
                drop(store);
            }
            let images: Vec<_> = devices.iter().map(|device| device.crash_image(1)).collect();
            let (store, report) = open(&rt, &powered(&rt, &images)).await.unwrap();
            assert_eq!(report.damage, Vec::<String>::new(), "after {after} commands");
            is(&store, "o", 2).await;
        });
    }
}

/// AS-PROBE-1: with as many drives away as may be, reads that fail twice.
#[test]
fn a_read_that_fails_twice_tears_nothing() {
    let images = two_versions();
    Sim::new(4).run(move |rt| async move {
        let devices = powered(&rt, &images[..2]);
        for (device, (zone, end)) in devices.iter().zip(last_written(&images)) {
            device.medium().fail_reads(images[0].zone(zone).start + Blocks(end - 1), Blocks(1), Some(2));
        }
        let (store, report) = open(&rt, &devices).await.unwrap();
        assert_eq!(report.damage, Vec::<String>::new());
        is(&store, "o", 2).await;
    });
}

/// AS-EXAM-2: of two writes that were on their way, the first is lost on more drives than parity makes up for, and the
/// second is whole: neither was acknowledged, and what the first would have replaced stays.
#[test]
fn a_torn_item_before_a_whole_one_replaces_nothing() {
    for closed in [false, true] {
        let before = history(|_, store| async move { put(&store, "o", 1).await });
        let images = history(move |rt, store| async move {
            put(&store, "o", 1).await;
            put(&store, "o", 2).await;
            put(&store, "p", 3).await;
            let mut number = 0;
            while closed && store.stats().unwrap().sets[3] == 0 {
                number += 1;
                put(&store, &format!("a{number}"), number).await;
                rt.sleep(std::time::Duration::from_millis(1)).await;
            }
        });
        for (number, (zone, end)) in last_written(&before).into_iter().enumerate().take(2) {
            lose(&images[number], zone, end..2 * end - 1);
        }
        Sim::new(4).run(move |rt| async move {
            let devices = powered(&rt, &images);
            let (store, report) = open(&rt, &devices).await.unwrap();
            assert_eq!(report.damage, Vec::<String>::new());
            is(&store, "o", 1).await;
            let images: Vec<_> = devices.iter().map(|device| device.crash_image(1)).collect();
            let (store, _) = open(&rt, &powered(&rt, &images)).await.unwrap();
            is(&store, "o", 1).await;
        });
    }
}

/// AS-EXAM-5: all heads of a set that had just been opened are lost, and the write pointers are there.
#[test]
fn a_set_without_heads_holds_nothing() {
    let images = history(|_, store| async move { put(&store, "o", 1).await });
    for (image, (zone, end)) in images.iter().zip(last_written(&images)) {
        lose(image, zone, 0..end);
    }
    Sim::new(4).run(move |rt| async move {
        let (store, report) = open(&rt, &powered(&rt, &images)).await.unwrap();
        assert_eq!((report.damage, report.objects), (vec![], 0));
        put(&store, "o", 2).await;
        is(&store, "o", 2).await;
    });
}

/// Fills a set, deletes all that is in it, and puts an object `o` in another one.
fn a_dead_set(code: Code) -> Vec<MemoryDevice> {
    let images = history_of(code, |rt, store| async move {
        let mut number = 0;
        while store.stats().unwrap().sets[3] == 0 {
            number += 1;
            put(&store, &format!("a{number}"), number).await;
            rt.sleep(std::time::Duration::from_millis(1)).await;
        }
    });
    Sim::new(5).run(move |rt| async move {
        let devices = powered(&rt, &images);
        // From here on a superblock says that it is closed, and no snapshot has what it holds.
        let (store, _) = open(&rt, &devices).await.unwrap();
        for object in store.list(b"", None, usize::MAX).unwrap() {
            assert!(store.delete(object.name).await.unwrap());
        }
        put(&store, "o", 1).await;
        let images: Vec<_> = devices.iter().map(|device| device.crash_image(1)).collect();
        let seen = inspect(&named(&devices)).await.unwrap();
        for (image, number) in images.iter().zip(0..) {
            let member = (DriveId(number), longest(image).0);
            let set = seen.sets.iter().find(|set| set.members.contains(&member)).unwrap();
            assert_eq!((set.state, set.covered), (SetState::Closed, 0), "the case is not met");
        }
        images
    })
}

/// The zone that was written the furthest, and where it ends.
fn longest(image: &MemoryDevice) -> (ZoneId, u64) {
    written(image).max_by_key(|(_, end)| *end).unwrap()
}

/// AS-EXAM-6: a closed set was being reset when a host lost power: its zones are holes already, and are not empty yet
/// by their states.
#[test]
fn a_set_whose_zones_are_holes_was_being_reset() {
    let images = a_dead_set(Code::new(2, 1).unwrap());
    for holes in 2..=3 {
        let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
        for image in images.iter().take(holes) {
            let (zone, end) = longest(image);
            lose(image, zone, 0..end);
        }
        Sim::new(4).run(move |rt| async move {
            let (store, report) = open(&rt, &powered(&rt, &images)).await.unwrap();
            assert_eq!((report.damage, report.objects), (vec![], 1));
            is(&store, "o", 1).await;
        });
    }
}

/// AS-EXAM-6: the same with one zone that is empty by its state, too: with 1+1 only one is left to be a hole.
#[test]
fn a_set_of_which_one_zone_is_empty_and_the_other_a_hole_was_being_reset() {
    let images = a_dead_set(Code::new(1, 1).unwrap());
    for (emptied, head_only) in [(0, true), (1, true), (0, false), (1, false)] {
        let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
        let (zone, end) = longest(&images[1 - emptied]);
        lose(&images[1 - emptied], zone, 0..if head_only { 1 } else { end });
        let (zone, _) = longest(&images[emptied]);
        Sim::new(4).run(move |rt| async move {
            let devices = powered(&rt, &images);
            devices[emptied].manage(zone, ZoneOp::Reset).await.unwrap();
            let (store, report) = open(&rt, &devices).await.unwrap();
            assert_eq!((report.damage, report.objects), (vec![], 1), "{emptied} is empty");
            is(&store, "o", 1).await;
        });
    }
}

/// AS-EXAM-6: the same of 1+1 where one drive was given up: one hole is all that can be left of a set. A head that is a
/// hole before other bytes proves nothing, and is damage.
#[test]
fn a_set_whose_only_zone_that_is_left_is_a_hole_was_being_reset() {
    let images = a_dead_set(Code::new(1, 1).unwrap());
    for head_only in [false, true] {
        let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(4).run(move |rt| async move {
            let left = {
                let devices = powered(&rt, &images);
                let (store, _) = open(&rt, &devices[1..]).await.unwrap();
                put(&store, "o", 2).await;
                assert!(!inspect(&named(&devices)).await.unwrap().drives[0].in_use, "it was not given up");
                devices.iter().map(|device| device.crash_image(1)).collect::<Vec<_>>()
            };
            let (zone, end) = longest(&left[1]);
            lose(&left[1], zone, 0..if head_only { 1 } else { end });
            let opened = open(&rt, &powered(&rt, &left)).await;
            if head_only {
                let error = opened.err().expect("what is behind the head may be acknowledged");
                assert!(error.kind == ErrorKind::Corrupt && error.message.contains("head"), "{error}");
                return;
            }
            let (store, report) = opened.unwrap();
            assert_eq!((report.damage, report.objects), (vec![], 1));
            is(&store, "o", 2).await;
        });
    }
}

/// Drives on which `o` is acknowledged, and was replaced by a process that was killed with all of that in the drives'
/// caches: nothing of it was flushed.
async fn killed_before_a_flush(rt: &Runtime) -> Vec<SimDevice> {
    let geometry = Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(60), ZONES, 0, 12) };
    let media =
        formatted(&ArrayShape { code: Code::new(2, 1).unwrap(), segment_length: 20_000, drives: vec![geometry; 3] });
    let devices = powered(rt, &media);
    let (store, _) = open(rt, &devices).await.unwrap();
    put(&store, "o", 1).await;
    let written = |devices: &[SimDevice]| -> u64 {
        devices.iter().map(|device| written(&device.image()).map(|(_, end)| end).sum::<u64>()).sum()
    };
    let before = written(&devices);
    let all = devices.clone();
    // All writes are done, and the first flush has not begun.
    let left = std::rc::Rc::new(std::cell::RefCell::new(None));
    for device in &devices {
        let (all, left) = (all.clone(), left.clone());
        device.on_command(move |command, _| {
            if command.kind == CommandKind::Flush && left.borrow().is_none() {
                left.replace(Some(all.iter().map(SimDevice::kill).collect::<Vec<_>>()));
            }
        });
    }
    put(&store, "o", 2).await;
    let killed = left.take().expect("it is flushed");
    let devices: Vec<_> = killed.into_iter().map(|medium| SimDevice::resume(rt, medium)).collect();
    assert_eq!(written(&devices), before * 2 - 3, "the case is not met");
    devices
}

/// AS-REC-6, AS-EVICT-1: more drives than parity makes up for lose what they had in their caches when an opening flushes
/// what it found. It decides nothing, and what was acknowledged stays.
#[test]
fn an_opening_that_cannot_make_durable_what_it_found_decides_nothing() {
    for seed in 0..20 {
        Sim::new(seed).run(move |rt| async move {
            let devices = killed_before_a_flush(&rt).await;
            let before = inspect(&named(&devices)).await.unwrap();
            for device in &devices[1..] {
                let lost = FaultRule { trigger: Trigger::Nth(CommandKind::Flush, 0), fault: Fault::FlushLost };
                device.set_faults(Faults::new([lost]));
            }
            let opened = open(&rt, &devices).await.map(drop);
            assert_eq!(opened.map_err(|error| error.kind), Err(ErrorKind::Device), "seed {seed}");
            let devices: Vec<_> = devices.iter().map(|device| SimDevice::resume(&rt, device.kill())).collect();
            assert_eq!(inspect(&named(&devices)).await.unwrap(), before, "seed {seed}");
            let (store, report) = open(&rt, &devices).await.unwrap();
            assert_eq!(report.damage, Vec::<String>::new(), "seed {seed}");
            let found = store.get("o").await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!([1, 2].iter().any(|key| found == content((*key, SIZE))), "seed {seed}: other bytes");
        });
    }
}

/// AS-REC-6: a process was killed, with all that it wrote in the drives' caches. Objects that the next one shows
/// survive a power cut, also if they were never acknowledged.
#[test]
fn what_an_opening_showed_survives_a_power_cut() {
    Sim::new(3).run(move |rt| async move {
        let devices = killed_before_a_flush(&rt).await;
        let (store, _) = open(&rt, &devices).await.unwrap();
        is(&store, "o", 2).await;
        for seed in 0..20 {
            let images: Vec<_> = devices.iter().map(|device| device.crash_image(seed)).collect();
            let (store, report) = open(&rt, &powered(&rt, &images)).await.unwrap();
            assert_eq!(report.damage, Vec::<String>::new(), "seed {seed}");
            is(&store, "o", 2).await;
        }
    });
}

/// AS-EXAM-7: an opening asks all members of an open set at once: the width of sets costs it nothing.
#[test]
fn an_open_set_takes_as_long_as_its_slowest_member() {
    const LONGEST: Duration = Duration::from_millis(10);
    let images = history_of(Code::new(10, 2).unwrap(), |_, store| async move { put(&store, "o", 1).await });
    for seed in 0..10 {
        let images: Vec<_> = images.iter().map(MemoryDevice::snapshot).collect();
        Sim::new(seed).run(move |rt| async move {
            let devices = powered(&rt, &images);
            devices.iter().for_each(|device| device.set_latency(LONGEST));
            let (store, report) = open(&rt, &devices).await.unwrap();
            assert_eq!((report.sets_examined, report.digests), (1, 0), "seed {seed}: a set was open");
            // Heads and ends; the item; that none follows; its markers and fragments.
            assert!(report.took[1] <= LONGEST * 5, "seed {seed}: {:?}", report.took[1]);
            is(&store, "o", 1).await;
        });
    }
}
