//! Invariants that long histories hardly meet: each is met here on purpose.

use std::cell::RefCell;

use futures_util::future::join;

use super::cleaners::fresh_with;
use super::*;

/// AS-CLEAN-2, AS-SNAP-3: there is no snapshot, and the deletion of an object lies in a set that is emptied. Behind a power cut,
/// with the index made anew, the object that another set still has is deleted.
#[test]
fn a_deletion_moves_along_when_its_set_is_emptied() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store, first) = filled(&rt).await;
        let engine = store.0.clone();
        store.put("o", bytes(7, 300), Bytes::new()).await.unwrap();
        let of_it = |name: &'static str| {
            let version = store.head(name.as_bytes()).unwrap().version;
            engine.index().unwrap().parts(name.as_bytes(), version, 0, 1).unwrap()[0].1.set
        };
        // In the first of those sets, which stays as it is.
        let (kept, left) = ("a2", of_it("o"));
        assert_eq!(of_it(kept), first, "the case is not met");
        let before: Vec<SetId> =
            engine.sets.of(crate::zone_set::List::Closed).map(|(id, _)| id).filter(|id| *id != left).collect();
        store.delete(kept).await.unwrap();
        let mut number = 0;
        while engine.sets.count(SetState::Closed) < before.len() + 3 {
            number += 1;
            store.put(format!("b{number}"), bytes(3, 19_000), Bytes::new()).await.unwrap();
            rt.sleep(Duration::from_millis(1)).await;
        }
        let since: Vec<_> =
            engine.sets.of(crate::zone_set::List::Closed).filter(|(id, _)| !before.contains(id)).collect();
        // So that emptying them wins something.
        for number in 1..number {
            store.delete(format!("b{number}")).await.unwrap();
        }
        for (id, set) in since {
            let generation = set.generation();
            while set.generation() == generation {
                assert!(engine.collect_alone(id, &set).await.unwrap());
                rt.sleep(Duration::from_millis(1)).await;
            }
        }
        crash(&devices)
    });
    Sim::new(2).run(move |rt| async move {
        let (_, store, report) = open(&rt, &images).await;
        assert_eq!((report.damage, report.snapshot_pieces), (Vec::new(), 0));
        assert_eq!(store.head(b"a2").map_err(|error| error.kind), Err(ErrorKind::NotFound));
        assert!(store.get("a3").await.unwrap() == bytes(2, 19_000) && store.get("o").await.unwrap() == bytes(7, 300));
    });
}

/// AS-WRITE-2: an item is durable and not in the index yet. Its set is full, and is not closed until the item is.
#[test]
fn a_set_is_closed_once_all_in_it_is_in_the_index() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store) = fresh(&rt).await;
        let engine = store.0.clone();
        let data = bytes(1, 10_000);
        let completion = Some(Completion { size: 10_000, attributes: Bytes::new() });
        let version = engine.stamps.version();
        let item = Item::Run { name: Bytes::from_static(b"o"), version, offset: 0, data, completion };
        let (placed, _) = engine.append_user(&item).await.unwrap();
        let set = engine.sets.get(placed.set).unwrap();
        for number in 0..12 {
            store.put(format!("a{number}"), bytes(2, 19_000), Bytes::new()).await.unwrap();
        }
        rt.sleep(Duration::from_secs(60)).await;
        let last = store.head(b"a11").unwrap().version;
        let last = engine.index().unwrap().parts(b"a11", last, 0, 1).unwrap()[0].1.set;
        assert_ne!(last, placed.set, "the set is not full");
        assert_eq!(set.state(), SetState::Open);
        drop(placed);
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(set.state(), SetState::Closed);
    });
}

/// AS-SNAP-2: the power fails at any command while the second and third snapshot are taken. One is there, whole.
#[test]
fn there_is_a_whole_snapshot_wherever_the_power_fails_while_the_next_is_taken() {
    let cuts = Sim::new(1).run(|rt| async move {
        let (devices, store, _) = filled(&rt).await;
        store.snapshot().await.unwrap();
        let cuts = Rc::new(RefCell::new(Vec::new()));
        for device in &devices {
            let (devices, cuts) = (devices.clone(), cuts.clone());
            device.on_command(move |_, _| cuts.borrow_mut().push(crash(&devices)));
        }
        for round in 0..2 {
            store.put(format!("s{round}"), bytes(4, 300), Bytes::new()).await.unwrap();
            store.snapshot().await.unwrap();
        }
        devices.iter().for_each(|device| device.on_command(|_, _| {}));
        cuts.take()
    });
    assert!(cuts.len() > 20, "{} cuts", cuts.len());
    for (number, images) in cuts.into_iter().enumerate() {
        Sim::new(2).run(move |rt| async move {
            let (_, store, report) = open(&rt, &images).await;
            assert_eq!(report.damage, Vec::<String>::new(), "cut at {number}");
            assert!(report.snapshot_pieces > 0, "cut at {number}: there is no snapshot");
            assert!(store.get("a3").await.unwrap() == bytes(2, 19_000), "cut at {number}");
        });
    }
}

/// When each command came, of two readers of an array whose reads are slow now and then.
fn commands(seed: u64) -> Vec<(usize, Duration)> {
    Sim::new(seed).run(|rt| async move {
        let (devices, store) = fresh_with(&rt, 4, 26, Options { background: false, ..Options::default() }).await;
        for number in 0..12 {
            store.put(format!("a{number}"), bytes(number, 30_000), Bytes::new()).await.unwrap();
        }
        devices.iter().for_each(|device| device.set_latency(Duration::from_millis(2)));
        let slow =
            |rate| Faults::new([FaultRule { trigger: Trigger::Rate(CommandKind::Read, rate), fault: Fault::Slow }]);
        devices.iter().zip([0.02, 0.02, 0.02, 0.7]).for_each(|(device, rate)| device.set_faults(slow(rate)));
        let log = Rc::new(RefCell::new(Vec::new()));
        let began = rt.now();
        for (number, device) in devices.iter().enumerate() {
            let (log, rt) = (log.clone(), rt.clone());
            device.on_command(move |_, _| log.borrow_mut().push((number, rt.now().since(began))));
        }
        let read = async |from: u8| {
            for round in 0..120u8 {
                let number = (from + round % 12 * 5) % 12;
                assert!(store.get(format!("a{number}")).await.unwrap() == bytes(number, 30_000));
            }
        };
        join(read(0), read(7)).await;
        devices.iter().for_each(|device| device.on_command(|_, _| {}));
        log.take()
    })
}

/// AS-HEDGE-3: which drives are asked, and when, is the same in each run of a seed.
#[test]
fn hedged_reads_of_a_seed_are_the_same_in_each_run() {
    let (one, other) = (commands(1), commands(1));
    assert!(one.len() > 500, "{} commands", one.len());
    assert!(one == other, "two runs of a seed differ");
}
