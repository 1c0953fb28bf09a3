//! Arrays with the drives of several sets.

use std::collections::BTreeSet;

use super::*;
use crate::append::open_set::RESERVED;

/// An array of 2+1 on that many drives.
async fn fresh_on(rt: &Runtime, drives: usize) -> (Vec<SimDevice>, ArrayStore) {
    let media: Vec<_> = (0..drives).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60), 40, 0, 20))).collect();
    let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(rt, medium)).collect();
    let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
    format(rt, &named(&devices), &options).await.unwrap();
    (devices.clone(), open_on(rt, &devices).await)
}

async fn open_on(rt: &Runtime, devices: &[SimDevice]) -> ArrayStore {
    let options = Options { background: false, open_sets: Some(6), ..Options::default() };
    ArrayStore::open(rt, &named(devices), &IndexPlace::Memory, options).await.unwrap().0
}

/// The drives that each lane's open sets have.
fn drives_of_lanes(store: &ArrayStore) -> Vec<BTreeSet<DriveId>> {
    let engine = &store.0;
    let drives = |group: usize| {
        let sets: Vec<_> = engine.allocator.sets_of(group).filter_map(|id| engine.sets.get(id)).collect();
        sets.iter().flat_map(|set| set.members()).map(|member| member.drive).collect()
    };
    (0..engine.allocator.groups()).map(drives).collect()
}

/// Writes objects with eight writers; how long that takes.
async fn write(rt: &Runtime, store: &ArrayStore, objects: usize) -> Duration {
    let began = rt.now();
    let writers = (0..8).map(|writer| async move {
        for number in 0..objects {
            let name = format!("o{writer}-{number}");
            store.put(name, bytes(writer, 90_000), Bytes::new()).await.unwrap();
        }
    });
    join_all(writers).await;
    rt.now().since(began)
}

/// Sets on drives of their own are written side by side: twice the drives take in twice as much.
#[test]
fn an_array_with_the_drives_of_two_sets_writes_to_two_at_once() {
    let took = |drives| {
        Sim::new(3).run(move |rt| async move {
            let (_devices, store) = fresh_on(&rt, drives).await;
            let took = write(&rt, &store, 6).await;
            let lanes = drives_of_lanes(&store);
            assert_eq!(lanes.len(), drives / 3);
            for (at, lane) in lanes.iter().enumerate() {
                assert!(lanes[..at].iter().all(|other| other.is_disjoint(lane)), "lanes share drives: {lanes:?}");
            }
            took.as_secs_f64()
        })
    };
    let (one, two, four) = (took(3), took(6), took(12));
    assert!(one / two > 1.8 && one / four > 3.4, "3 drives: {one}, 6: {two}, 12: {four}");
}

/// A set that was open when the array was closed goes on in the lane whose drives it has.
#[test]
fn lanes_have_drives_of_their_own_when_the_array_is_opened_again() {
    let images = Sim::new(4).run(|rt| async move {
        let (devices, store) = fresh_on(&rt, 6).await;
        write(&rt, &store, 3).await;
        store.close().await.unwrap();
        crash(&devices)
    });
    Sim::new(5).run(|rt| async move {
        let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let store = open_on(&rt, &devices).await;
        let lanes = drives_of_lanes(&store);
        assert!(lanes.iter().all(|lane| !lane.is_empty()) && lanes[0].is_disjoint(&lanes[1]), "{lanes:?}");
        write(&rt, &store, 2).await;
    });
}

/// Fills an array up to the sets reserved for cleaning, with a set that was just opened, and deletes all but one of the
/// objects of a closed set. Returns that set, and the object's name.
async fn almost_full(rt: &Runtime, store: &ArrayStore) -> (SetId, String) {
    let mut number = 0;
    while store.0.free_sets() > RESERVED {
        number += 1;
        store.put(format!("o{number}"), bytes(1, 19_000), Bytes::new()).await.unwrap();
        rt.sleep(Duration::from_millis(1)).await;
    }
    let (id, _) = store.0.sets.of(List::Closed).next().unwrap();
    let lies_there = |name: &String| {
        let version = store.head(name.as_bytes()).unwrap().version;
        store.0.index().unwrap().part(name.as_bytes(), version, 0).unwrap().is_some_and(|place| place.set == id)
    };
    let mut there: Vec<String> =
        (1..=number).map(|number| format!("o{number}")).filter(|name| lies_there(name)).collect();
    let last = there.pop().unwrap();
    for name in there {
        store.delete(name).await.unwrap();
    }
    (id, last)
}

/// Two objects that are longer than a set, and began in one lane, end in two.
#[test]
fn long_objects_go_to_a_lane_that_nobody_uses() {
    let took = |in_one_lane: bool| {
        Sim::new(3).run(move |rt| async move {
            let (devices, store) = fresh_on(&rt, 6).await;
            let mut puts: Vec<_> = (0..3).map(|number| store.begin_put(format!("o{number}")).unwrap()).collect();
            for put in &mut puts {
                put.write(bytes(1, 30_000)).await.unwrap();
            }
            // They are in lanes 0, 1 and 0.
            puts.remove(if in_one_lane { 1 } else { 2 }).finish(Bytes::new()).await.unwrap();
            devices.iter().for_each(|device| device.set_latency(Duration::from_micros(500)));
            let began = rt.now();
            join_all(puts.into_iter().map(|mut put| async move {
                for _ in 0..20 {
                    put.write(bytes(2, 60_000)).await.unwrap();
                }
                put.finish(Bytes::new()).await.unwrap();
            }))
            .await;
            rt.now().since(began).as_secs_f64()
        })
    };
    let (apart, together) = (took(false), took(true));
    assert!(together < 1.3 * apart, "in two lanes: {apart} s, in one at first: {together} s");
}

/// Zones of a drive that was added form sets with those of sets that are kept ready, however many lanes those are for.
#[test]
fn an_added_drive_gives_room_where_all_free_sets_are_ready() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store) = fresh_on(&rt, 12).await;
        let all = store.0.sets.len();
        let mut number = 0;
        while store.0.sets.count(SetState::Empty) > 0 {
            number += 1;
            store.put(format!("o{number}"), bytes(1, 100_000), Bytes::new()).await.unwrap();
            rt.sleep(Duration::from_millis(1)).await;
        }
        let fresh = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(60), 40, 0, 20)));
        store.add_drive(&named(&[fresh])[0]).await.unwrap();
        assert!(store.0.sets.len() > all);
        write(&rt, &store, 2).await;
    });
}

/// A writer that waits for a set to be won keeps no set from small things.
#[test]
fn a_deletion_does_not_wait_behind_a_writer_that_waits_for_cleaning() {
    for drives in [3, 6] {
        Sim::new(1).run(move |rt| async move {
            let (devices, store) = fresh_on(&rt, drives).await;
            store.close().await.unwrap();
            let options = Options { background: false, open_sets: Some(drives / 3), ..Options::default() };
            let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
            let (store, _) = opened.unwrap();
            let (set, last) = almost_full(&rt, &store).await;
            let _reader = store.0.sets.pin(set);
            let long = store.put("long", bytes(2, 900_000), Bytes::new());
            let deletion = async {
                rt.sleep(Duration::from_millis(500)).await;
                let began = rt.now();
                store.delete(last).await.unwrap();
                rt.now().since(began)
            };
            // Room for all of the object does not matter here.
            let (_, took) = futures_util::future::join(long, deletion).await;
            assert!(took < Duration::from_secs(1), "{drives} drives: a deletion waits for cleaning: {took:?}");
        });
    }
}

/// Lanes that lost their drives when the array was full have some again when it is not. (AS-LANE-1)
#[test]
fn lanes_have_drives_again_after_the_array_was_full() {
    Sim::new(3).run(|rt| async move {
        let (_devices, store) = fresh_on(&rt, 12).await;
        let fresh = write(&rt, &store, 4).await;
        let mut number = 0;
        while store.put(format!("f{number}"), bytes(1, 200_000), Bytes::new()).await.is_ok() {
            number += 1;
        }
        for name in 0..number {
            store.delete(format!("f{name}")).await.unwrap();
        }
        while store.gc(8).await.unwrap() > 0 {}
        let again = write(&rt, &store, 4).await;
        assert!(again < 2 * fresh, "fresh {fresh:?}, after it was full {again:?}");
    });
}

/// ZK-FLUSH-1, in an array: items that are on their way to a drive together share flushes of its cache.
#[test]
fn items_on_their_way_together_share_flushes() {
    Sim::new(3).run(|rt| async move {
        let geometry = Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(60), 40, 0, 20) };
        let devices: Vec<SimDevice> =
            (0..3).map(|_| SimDevice::new(&rt, &MemoryDevice::new(geometry.clone()))).collect();
        let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
        format(&rt, &named(&devices), &options).await.unwrap();
        let store = open_on(&rt, &devices).await;
        let counts = || devices.iter().map(SimDevice::counts).map(|counts| (counts.writes.0, counts.flushes));
        let before: Vec<_> = counts().collect();
        write(&rt, &store, 6).await;
        for ((writes, flushes), before) in counts().zip(before) {
            let (writes, flushes) = (writes - before.0, flushes - before.1);
            assert!(flushes * 4 < writes * 3, "{flushes} flushes for {writes} writes");
        }
    });
}

/// AS-AVOID-1: a trial reads where all its drives have something, elsewhere each time, and writes nothing to a drive of which it has no time.
#[test]
fn a_trial_reads_what_is_there_before_it_writes() {
    Sim::new(6).run(|rt| async move {
        let (devices, store) = fresh_on(&rt, 6).await;
        let engine = &store.0;
        let tried = DriveId(1);
        let is_superblock = |&(drive, zone, block): &(DriveId, ZoneId, u32)| {
            engine.drives.superblock_zones(drive).unwrap().contains(&zone) && block == 0
        };
        let places = engine.places_beside(tried);
        assert!(places.len() == 3 && places.iter().all(is_superblock), "{places:?}");
        assert!(places.iter().any(|(drive, ..)| *drive == tried));

        write(&rt, &store, 6).await;
        let all: BTreeSet<_> = (0..40).map(|_| engine.places_beside(tried)).collect();
        assert!(all.len() > 10, "{all:?}");
        assert!(all.iter().flatten().all(|place| !is_superblock(place)), "{all:?}");

        let written = || devices[1].counts().writes.0;
        let fails = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::ReadError };
        devices[1].set_faults(Faults::new([fails]));
        let before = written();
        engine.try_drive(tried).await.unwrap();
        assert_eq!(written(), before, "it was written to unseen");
        devices[1].set_faults(Faults::default());
        engine.try_drive(tried).await.unwrap();
        assert!(written() > before);
    });
}
