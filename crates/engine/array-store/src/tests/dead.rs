//! Sets in which no byte lives: of tombstones that are still needed, and of objects without bytes.

use super::*;

/// A name that is long: few of them fill a set's digest.
fn long(number: usize) -> String {
    format!("n{number:0>899}")
}

/// Waits for a call, for no longer than an hour.
async fn ends<T>(rt: &Runtime, about: &str, call: impl Future<Output = T>) -> T {
    match select(Box::pin(call), Box::pin(rt.sleep(Duration::from_secs(3600)))).await {
        Either::Left((ended, _)) => ended,
        Either::Right(_) => panic!("{about}: it never ends"),
    }
}

/// Puts objects until the array refuses one; their number.
async fn fill(rt: &Runtime, store: &ArrayStore, about: &str) -> usize {
    for number in 0.. {
        let put = store.put(format!("f{number}"), bytes(2, 19_000), Bytes::new());
        match ends(rt, about, put).await {
            Ok(_) => rt.sleep(Duration::from_millis(1)).await,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NoSpace, "{about}: {error}");
                return number;
            }
        }
    }
    unreachable!("the array is never full")
}

/// AS-CLEAN-8: deletions fill a set, exactly or all but a few blocks. To move its tombstones wins nothing or nearly so; a full array goes on
/// all the same, once a snapshot makes them superfluous.
#[test]
fn a_set_full_of_tombstones_wedges_no_array() {
    let mut objects = Vec::new();
    for count in [0, 80, 110, 118, 120, 122, 124, 125, 126, 127, 128] {
        objects.push(Sim::new(1).run(move |rt| async move {
            let about = format!("{count} tombstones");
            let (devices, store) = fresh(&rt).await;
            devices.iter().for_each(|device| device.set_latency(Duration::from_millis(1)));
            let puts = (0..count).map(|number| store.put(long(number), bytes(1, 10), Bytes::new()));
            assert!(join_all(puts).await.into_iter().all(|put| put.is_ok()));
            let deletions = join_all((0..count).map(|number| store.delete(long(number)))).await;
            assert!(deletions.into_iter().all(|deleted| deleted.unwrap()));
            let objects = fill(&rt, &store, &about).await;
            // The same for deletions, and for a snapshot.
            for number in 0..objects / 2 {
                assert!(ends(&rt, &about, store.delete(format!("f{number}"))).await.unwrap());
            }
            ends(&rt, &about, store.snapshot()).await.unwrap();
            let again = fill(&rt, &store, &about).await;
            for number in objects / 2..objects.min(again) {
                assert!(store.get(format!("f{number}")).await.unwrap() == bytes(2, 19_000), "{about}");
            }
            let stats = store.stats().unwrap();
            println!("{about}: {objects} objects, then {again}; {} sets cleaned", stats.cleaned);
            objects
        }));
    }
    assert!(objects.iter().all(|some| some * 5 >= objects[0] * 4), "tombstones keep room: {objects:?}");
}

/// AS-CLEAN-9: a set of objects without bytes is no empty one: moving them wins nothing for ever, until some of them are deleted.
#[test]
fn a_set_of_objects_without_bytes_wedges_no_array() {
    Sim::new(1).run(|rt| async move {
        let options = Options { background: false, ..Options::default() };
        let (devices, store) = super::cleaners::fresh_with(&rt, 3, 40, options).await;
        devices.iter().for_each(|device| device.set_latency(Duration::from_millis(1)));
        let count = 200;
        let puts = (0..count).map(|number| store.put(long(number), Bytes::new(), Bytes::new()));
        assert!(join_all(puts).await.into_iter().all(|put| put.is_ok()));
        let objects = fill(&rt, &store, "with them").await;
        for number in 0..count {
            assert_eq!(store.head(long(number).as_bytes()).unwrap().size, 0);
        }
        for number in 0..60 {
            assert!(ends(&rt, "deletion", store.delete(format!("f{number}"))).await.unwrap());
        }
        for some in (0..count).collect::<Vec<_>>().chunks(10) {
            let deletions = some.iter().map(|number| store.delete(long(*number)));
            assert!(ends(&rt, "deletion", join_all(deletions)).await.into_iter().all(|deleted| deleted.unwrap()));
        }
        let mut more = 0;
        while ends(&rt, "again", store.put(format!("g{more}"), bytes(2, 19_000), Bytes::new())).await.is_ok() {
            more += 1;
        }
        println!("{objects} objects, then {more} more");
        assert!(more >= 60, "the room of deleted objects is not won: {objects} objects, then {more} more");
    });
}

/// AS-CLEAN-7, AS-CLEAN-9: rot took the heads and digests of a set that holds objects without bytes. A rebuild does not take it for one in which
/// nothing lives: an opening finds all of them.
#[test]
fn objects_without_bytes_outlive_a_set_that_cannot_be_read() {
    for snapshot_before in [false, true] {
        let images = Sim::new(1).run(move |rt| async move {
            let (mut devices, store) = fresh(&rt).await;
            store.put("empty", Bytes::new(), Bytes::from_static(b"attributes")).await.unwrap();
            let version = store.head(b"empty").unwrap().version;
            let id = store.0.index().unwrap().part(b"empty", version, 0).unwrap().unwrap().set;
            let set = store.0.sets.get(id).unwrap();
            for number in 0.. {
                if set.phase() == Phase::Still {
                    break;
                }
                store.put(format!("a{number}"), bytes(2, 19_000), Bytes::new()).await.unwrap();
                store.delete(format!("a{number}")).await.unwrap();
                rt.sleep(Duration::from_millis(1)).await;
            }
            assert_eq!((set.state(), set.live()), (SetState::Closed, 0), "the case is not met");
            if snapshot_before {
                store.snapshot().await.unwrap();
            }
            for member in set.members() {
                let device = &devices[usize::from(member.drive.0)];
                let zone = device.image().zone(member.zone);
                device.medium().fail_reads(zone.start, zone.written, None);
            }
            let fresh = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12)));
            store.add_drive(&named(std::slice::from_ref(&fresh))[0]).await.unwrap();
            lose(&devices, &store, 0).await;
            // It says that a set cannot be rebuilt, or does what it can.
            let _ = store.rebuild(RebuildOptions::default(), |_| {}).await;
            assert_eq!(set.generation(), 0, "a set in which something lives was emptied");
            assert_eq!(store.head(b"empty").unwrap().attributes, Bytes::from_static(b"attributes"));
            devices.push(fresh);
            crash(&devices[1..])
        });
        Sim::new(2).run(move |rt| async move {
            let (_, store, report) = open(&rt, &images).await;
            assert_eq!(report.damage, Vec::<String>::new());
            let found = store.head(b"empty").map(|object| object.attributes);
            assert_eq!(found.map_err(|error| error.kind), Ok(Bytes::from_static(b"attributes")));
        });
    }
}
