//! An array that is nearly full: what fits is stored, and nobody waits longer than one has to.

use futures_util::future::join;
use shingle_sim::{Random, seeds};

use super::*;
use crate::append::open_set::{OpenSet, Stream};
use crate::format::ItemBody;
use crate::types::Part;

const SEGMENT: u32 = 160_000;

/// An array of 2+1 with several open sets for clients, filled until not even the least of a segment is left anywhere.
async fn full(rt: &Runtime, seed: u64, drives: usize) -> (Vec<SimDevice>, ArrayStore) {
    let media: Vec<_> = (0..drives).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(120), 14, 0, 12))).collect();
    let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(rt, medium)).collect();
    let options = FormatOptions { segment_length: SEGMENT, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
    format(rt, &named(&devices), &options).await.unwrap();
    let options = Options { background: false, open_sets: Some(3), ..Options::default() };
    let (store, _) = ArrayStore::open(rt, &named(&devices), &IndexPlace::Memory, options).await.unwrap();
    let mut random = Random::new(seed);
    for number in 0.. {
        let size = random.between(u64::from(SEGMENT) / 2, 2 * u64::from(SEGMENT)) as usize;
        match store.put(format!("f{number}"), bytes(1, size), Bytes::new()).await {
            Ok(_) => rt.sleep(Duration::from_millis(1)).await,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                break;
            }
        }
    }
    (devices, store)
}

/// Number of clients' open sets that would take a small object of that size; and of all of them.
fn takers(engine: &Engine, size: usize) -> (usize, usize) {
    let completion = Some(Completion { size: size as u64, attributes: Bytes::new() });
    let name = Bytes::from_static(b"s1");
    let part = Part { name, version: Version(1), offset: 0, at: 0, length: size as u32, completion };
    let item = Item::Shared { parts: vec![part], data: bytes(1, size), together: false };
    let (mut takers, mut open) = (0, 0);
    for slot in 0..engine.allocator.slots() {
        let stream = Stream::User(slot as u8);
        let Some(set) = engine.allocator.take(stream) else { continue };
        takers += usize::from(engine.fit(&set, &item, item.entry_bytes()).is_some());
        open += 1;
        engine.allocator.put(stream, set);
    }
    (takers, open)
}

/// Deletes what lives in a set.
async fn empty(store: &ArrayStore, id: SetId) {
    for object in store.list(b"", None, 1000).unwrap() {
        let parts = store.0.index().unwrap().parts(&object.name, object.version, 0, 99).unwrap();
        if parts.iter().any(|(_, place)| place.set == id) {
            store.delete(object.name).await.unwrap();
        }
    }
}

/// AS-SHELF-2: of small objects that come together as many are stored as fit one by one, and what room is left for
/// smaller ones is not given up for larger ones.
#[test]
fn what_fits_of_a_batch_is_stored() {
    let (mut stored_at_all, mut refused_at_all) = (0, 0);
    for seed in seeds(20) {
        let (stored, refused) = Sim::new(seed).run(move |rt| async move {
            let (_devices, store) = full(&rt, seed, 3).await;
            let ((_, open), cleaned) = (takers(&store.0, 1), store.stats().unwrap().cleaned);
            // None of them is cut; the first has a segment for itself, the others share one.
            let size = 5_000;
            let puts = (0..9).map(|number| store.put(format!("s{number}"), bytes(2, size), Bytes::new()));
            let results = join_all(puts).await;
            let stored = results.iter().filter(|result| result.is_ok()).count();
            for (number, result) in results.iter().enumerate().filter(|(_, result)| result.is_ok()) {
                assert!(store.get(format!("s{number}")).await.unwrap() == bytes(2, size), "{result:?}");
            }
            let (still, open_still) = takers(&store.0, size);
            assert!(stored == 9 || still == 0, "seed {seed}: {stored} stored, and {still} sets have room for more");
            // Of what was given up half-way something may have been won.
            let won = (store.stats().unwrap().cleaned - cleaned) as usize;
            assert!(open_still + won >= open, "seed {seed}: of {open} open sets {open_still} are left, for {won}");
            (stored, 9 - stored)
        });
        (stored_at_all, refused_at_all) = (stored_at_all + stored, refused_at_all + refused);
    }
    assert!(stored_at_all > 0 && refused_at_all > 0, "the case is not met: {stored_at_all}, {refused_at_all}");
}

/// Writers that find the array full wait for a reader who keeps a set that was collected from being reset. Each of them
/// does at the same time, and nobody again for the same one. (AS-SET-2)
#[test]
fn waits_for_readers_do_not_add_up() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store) = full(&rt, 1, 3).await;
        let (id, set) = store.0.sets.of(List::Closed).next().unwrap();
        let reader = store.0.sets.pin(id);
        empty(&store, id).await;
        assert!(store.0.collect_alone(id, &set).await.unwrap() && set.is_leaving(), "the case is not met");
        // The deletions may have waited for it already.
        set.set_awaited(None);
        let began = rt.now();
        let puts = (0..5).map(|number| {
            let store = store.clone();
            rt.spawn(async move { store.put(format!("b{number}"), bytes(2, 900_000), Bytes::new()).await })
        });
        let refused = join_all(puts.collect::<Vec<_>>()).await;
        assert!(refused.into_iter().all(|put| put.unwrap().is_err_and(|error| error.kind == ErrorKind::NoSpace)));
        assert!(set.is_leaving(), "the case is not met");
        let took = rt.now().since(began);
        assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(20), "{took:?}");
        drop(reader);
        rt.sleep(Duration::from_millis(100)).await;
        assert!(!set.is_leaving());
    });
}

/// AS-ALLOC-1: a large object waits for space, which takes long: a reader keeps the set. Small ones, for which open sets have room, do not wait
/// for it.
#[test]
fn small_objects_do_not_wait_for_a_large_one_that_waits_for_space() {
    Sim::new(1).run(|rt| async move {
        let media: Vec<_> = (0..3).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(120), 14, 0, 12))).collect();
        let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let options = FormatOptions { segment_length: SEGMENT, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
        format(&rt, &named(&devices), &options).await.unwrap();
        let options = Options { background: false, open_sets: Some(2), ..Options::default() };
        let (store, _) = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await.unwrap();
        let mut number = 0;
        while store.0.free_sets() > crate::append::open_set::RESERVED {
            number += 1;
            store.put(format!("f{number}"), bytes(1, 80_000), Bytes::new()).await.unwrap();
            rt.sleep(Duration::from_millis(1)).await;
        }
        let (id, set) = store.0.sets.of(List::Closed).next().unwrap();
        let reader = store.0.sets.pin(id);
        empty(&store, id).await;
        assert!(store.0.collect_alone(id, &set).await.unwrap() && set.is_leaving(), "the case is not met");
        set.set_awaited(None);
        let large = {
            let store = store.clone();
            rt.spawn(async move { store.put("large", bytes(2, 3_000_000), Bytes::new()).await })
        };
        rt.sleep(Duration::from_secs(1)).await;
        assert!(takers(&store.0, 100).0 > 0, "the case is not met");
        let began = rt.now();
        store.put("s1", bytes(3, 100), Bytes::new()).await.unwrap();
        let took = rt.now().since(began);
        assert!(set.is_leaving() && store.head(b"large").is_err(), "the case is not met");
        assert!(took < Duration::from_secs(1), "it waited for {took:?}");
        drop(reader);
        let _ = large.await;
        assert!(store.get("s1").await.unwrap() == bytes(3, 100));
    });
}

/// A rebuild that needs the zones of a set that a slow reader keeps goes on without them, says so, and has them later.
#[test]
fn a_rebuild_does_not_wait_for_a_slow_reader_for_ever() {
    Sim::new(1).run(|rt| async move {
        let (devices, store) = full(&rt, 1, 4).await;
        let (id, set) = store.0.sets.of(List::Closed).next().unwrap();
        let reader = store.0.sets.pin(id);
        empty(&store, id).await;
        assert!(store.0.collect_alone(id, &set).await.unwrap() && set.is_leaving(), "the case is not met");
        let members = set.members();
        let away = (0..4).find(|number| members.iter().all(|member| usize::from(member.drive.0) != *number)).unwrap();
        lose(&devices, &store, away).await;
        let rebuild = Box::pin(store.rebuild(RebuildOptions::default(), |_| {}));
        let ended = select(rebuild, Box::pin(rt.sleep(Duration::from_secs(3600)))).await;
        let Either::Left((done, _)) = ended else { panic!("it waits for ever") };
        let done = done.unwrap();
        assert!(done.done + done.failed == done.members && done.failed > 0, "{done:?}");
        assert!(set.is_leaving(), "the case is not met");
        drop(reader);
        rt.sleep(Duration::from_millis(100)).await;
        let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
        assert!(done.done > 0, "{done:?}");
    });
}

/// AS-WRITE-5: an item that fills a fresh set leaves room for the digest behind it.
#[test]
fn an_item_that_fills_a_set_leaves_room_for_its_digest() {
    for spare in 0..6 {
        let (images, sets) = Sim::new(spare).run(move |rt| async move {
            let media: Vec<_> =
                (0..3).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60 + spare), 14, 0, 12))).collect();
            let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let options = FormatOptions { segment_length: 1 << 20, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
            format(&rt, &named(&devices), &options).await.unwrap();
            let images: Vec<_> = devices.iter().map(SimDevice::image).collect();
            let (devices, store, _) = open(&rt, &images).await;
            store.put("o", bytes(1, 2 << 20), Bytes::new()).await.unwrap();
            rt.sleep(Duration::from_secs(1)).await;
            let closed: Vec<_> = store.0.sets.of(List::Closed).collect();
            for (id, set) in &closed {
                assert!(!set.is_hurt(), "{spare}: {id} has no digest");
            }
            assert!(closed.len() > 2, "{spare}: the case is not met");
            (crash(&devices), closed.len())
        });
        Sim::new(2).run(move |rt| async move {
            let (_, store, report) = open(&rt, &images).await;
            assert!(report.digests >= sets, "{spare}: of {sets} digests {} were read", report.digests);
            assert!(store.get("o").await.unwrap() == bytes(1, 2 << 20));
        });
    }
}

/// Of what shares a segment, as many whole objects go to the end of a set as fit there; what is to stay together is not
/// cut.
#[test]
fn what_shares_a_segment_is_cut_between_two_objects() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store) = fresh(&rt).await;
        store.put("o", bytes(1, 100), Bytes::new()).await.unwrap();
        let engine = &store.0;
        let mut open = engine.allocator.take(Stream::User(0)).unwrap();
        let set = &mut open;
        let part = |number: u32| Part {
            name: format!("s{number}").into(),
            version: Version(1),
            offset: 0,
            at: number * 5_000,
            length: 5_000,
            completion: Some(Completion { size: 5_000, attributes: Bytes::new() }),
        };
        let item = |together| Item::Shared { parts: (0..4).map(part).collect(), data: bytes(1, 20_000), together };
        let fit = |set: &OpenSet, together| {
            let (body, data) = engine.fit(set, &item(together), item(together).entry_bytes())?;
            let ItemBody::Segment(marker) = body else { panic!("a segment") };
            Some((marker.parts.len(), data.len()))
        };
        assert_eq!(fit(set, false), Some((4, 20_000)));
        let mut cut = Vec::new();
        while let Some((parts, length)) = fit(set, false) {
            assert_eq!(length, parts * 5_000);
            if parts < 4 {
                assert_eq!(fit(set, true), None);
                cut.push(parts);
            }
            set.next += 1;
        }
        assert!(cut.contains(&3) && cut.contains(&1) && cut.is_sorted_by(|a, b| a >= b), "{cut:?}");
        set.next = 1;
        engine.allocator.put(Stream::User(0), open);
    });
}

/// AS-RESET-1: a drive resets nothing for some seconds, after an opening without another one, which takes no zone for empty. Writers
/// wait, and neither sets nor the drive are given up.
#[test]
fn a_drive_that_resets_nothing_for_some_seconds_costs_some_seconds() {
    for seed in seeds(5) {
        Sim::new(seed).run(move |rt| async move {
            let (devices, _) = fresh_of(&rt, Code::new(2, 2).unwrap()).await;
            let (devices, store, report) = open(&rt, &crash(&devices)[1..]).await;
            assert_eq!(report.missing_drives.len(), 1);
            let missing = store.0.drives.missing();
            let never = FaultRule { trigger: Trigger::Rate(CommandKind::Reset, 1.0), fault: Fault::CommandError };
            devices[0].set_faults(Faults::new([never]));
            let device = devices[0].clone();
            let healed = async {
                rt.sleep(Duration::from_secs(3)).await;
                let met = !device.faults().injected().is_empty();
                device.set_faults(Faults::default());
                met
            };
            let puts = async {
                for number in 0..90 {
                    let put = store.put(format!("o{number}"), bytes(1, 19_000), Bytes::new()).await;
                    put.unwrap_or_else(|error| panic!("seed {seed}: {number}: {error}"));
                }
                rt.now()
            };
            let began = rt.now();
            let (met, ended) = join(healed, puts).await;
            let took = ended.since(began);
            assert!(met && took > Duration::from_secs(3), "seed {seed}: the case is not met: {took:?}");
            assert!(took < Duration::from_secs(10), "seed {seed}: {took:?}");
            assert_eq!(store.0.drives.missing(), missing, "seed {seed}");
            assert_eq!(store.0.sets.listed(List::Unusable), 0, "seed {seed}");
        });
    }
}

/// AS-RESET-1, AS-EVICT-2: a drive that resets nothing for long is given up, and the array goes on without it.
#[test]
fn a_drive_that_resets_nothing_for_long_is_given_up() {
    Sim::new(1).run(|rt| async move {
        let (devices, _) = fresh_of(&rt, Code::new(2, 2).unwrap()).await;
        let (devices, store, _) = open(&rt, &crash(&devices)[1..]).await;
        let never = FaultRule { trigger: Trigger::Rate(CommandKind::Reset, 1.0), fault: Fault::CommandError };
        devices[0].set_faults(Faults::new([never]));
        let began = rt.now();
        for number in 0..90 {
            store.put(format!("o{number}"), bytes(1, 19_000), Bytes::new()).await.unwrap();
        }
        assert_eq!(store.0.drives.missing(), [DriveId(0), DriveId(1)]);
        let took = rt.now().since(began);
        assert!(took > Duration::from_secs(10) && took < Duration::from_secs(300), "{took:?}");
    });
}

/// AS-CLOSE-3: a set is being reset when the array is closed. That ends when the reset does; and not before a reader lets it
/// begin.
#[test]
fn an_array_is_closed_when_its_resets_are_done() {
    for is_read in [false, true] {
        Sim::new(1).run(move |rt| async move {
            let (devices, store, id) = filled(&rt).await;
            let set = store.0.sets.get(id).unwrap();
            empty(&store, id).await;
            let reader = is_read.then(|| store.0.sets.pin(id));
            let hangs = FaultRule { trigger: Trigger::Rate(CommandKind::Reset, 1.0), fault: Fault::HangBefore };
            devices[0].set_faults(Faults::new([hangs]));
            assert!(store.0.collect_alone(id, &set).await.unwrap());
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!((set.phase() == Phase::Resetting, devices[0].hung()), (!is_read, usize::from(!is_read)));
            let ended = select(Box::pin(store.close()), Box::pin(rt.sleep(Duration::from_secs(10)))).await;
            match ended {
                Either::Left((closed, _)) => assert!(closed.is_ok() && is_read, "a reset is on its way"),
                Either::Right((_, closing)) => {
                    assert!(!is_read, "it waits for a reader");
                    devices[0].release_hung();
                    closing.await.unwrap();
                }
            }
            let resets = |devices: &[SimDevice]| devices.iter().map(|device| device.counts().resets).sum::<u64>();
            let before = resets(&devices);
            drop(reader);
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!(resets(&devices), before, "another process may have the drives");
        });
    }
}
