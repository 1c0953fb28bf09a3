//! Arrays with the drives of several sets.

use std::collections::BTreeSet;

use super::*;

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
    let drives = |lane: usize| {
        let sets: Vec<_> = engine.lanes.get(lane).shelf.sets().filter_map(|id| engine.sets.get(id)).collect();
        sets.iter().flat_map(|set| set.members.borrow().clone()).map(|member| member.drive).collect()
    };
    (0..engine.lanes.count()).map(drives).collect()
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

/// After a power cut what was open goes on in the lane whose drives it has.
#[test]
fn lanes_have_drives_of_their_own_after_a_power_cut() {
    let images = Sim::new(4).run(|rt| async move {
        let (devices, store) = fresh_on(&rt, 6).await;
        write(&rt, &store, 3).await;
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
