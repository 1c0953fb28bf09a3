//! The cleaner beside transactions and bad reads of the metadata: BLU-CLEAN-3, BLU-CLEAN-4; and zones that are read-only: BLU-VICTIM-2.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_blue_store::kv::{KvErrorKind, LogKvOptions};
use shingle_blue_store::{BlueErrorKind, ObjectId, Options, Store, Transaction};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, contents};
use shingle_zoned::{Geometry, ZoneState};

use crate::common::{collection, format, fresh, open, options};
use crate::watched::{Watch, Watched};

/// Four blocks, so that no object is in two zones.
const LENGTH: u64 = 16_000;

/// Objects are in the collection of those with an even hash.
fn object(number: u64) -> ObjectId {
    ObjectId { hash: 0, ..ObjectId::new(1, format!("{number:05}")) }
}

fn other(number: u64) -> ObjectId {
    ObjectId { hash: 1, ..object(number) }
}

/// A full drive of small zones, with two collections, and a store that is watched.
async fn full(rt: &Runtime, length: u64) -> (SimDevice, Store, Rc<Watch>, u64) {
    let device = format(rt, &Geometry::hm_smr(Blocks(64), 42, 0, 12)).await;
    let watch = Rc::new(Watch::default());
    let log = Rc::new(Watched(LogKvOptions { log_bytes: 60_000 }, watch.clone()));
    let (store, _) = Store::open(rt, Rc::new(device.clone()), Options { log, ..options() }).await.unwrap();
    store.create_collection(collection(0, 1)).await.unwrap();
    store.create_collection(collection(1, 1)).await.unwrap();
    let mut count = 0;
    loop {
        let mut transaction = Transaction::new();
        transaction.write(&object(count), 0, contents(count, 0, length));
        match store.submit(collection(0, 1).id, transaction).await {
            Ok(()) => count += 1,
            Err(error) => {
                assert_eq!(error.kind, BlueErrorKind::NoSpace);
                return (device, store, watch, count);
            }
        }
    }
}

/// The first zones that are full of live blocks.
fn full_zones(store: &Store) -> Vec<u32> {
    let full = store.dump().into_iter().filter(|zone| zone.state == "closed" && zone.live == 64);
    full.map(|zone| zone.zone).collect()
}

/// Objects of a zone that are in no other one, in the order of the metadata.
async fn together(store: &Store, zone: u32, count: u64) -> Vec<u64> {
    let holders = store.dump_metadata(b"G", usize::MAX).await.unwrap();
    let holders: Vec<String> = holders.into_iter().map(|(_, line)| line).collect();
    let of = |number: u64| holders.iter().filter(move |line| line.contains(&format!("::{number:05}, shard")));
    let here = |number: &u64| of(*number).all(|line| line.starts_with(&format!("data zone {zone}:")));
    (0..count).filter(here).collect()
}

fn remove(number: u64) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.remove(&object(number));
    transaction
}

async fn remove_one_of_each(store: &Store, zones: &[u32], count: u64) {
    let mut there = Vec::new();
    for zone in zones {
        there.push(together(store, *zone, count).await[0]);
    }
    for number in there {
        store.submit(collection(0, 1).id, remove(number)).await.unwrap();
    }
}

fn no_data_can_be_read(device: &SimDevice, store: &Store) {
    let spared = (0..store.data_zones().start).map(ZoneId);
    let rule = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::ReadError };
    device.set_faults(Faults::new([rule]).sparing(spared));
}

async fn write_other(store: &Store, number: u64) -> Result<(), BlueErrorKind> {
    let mut transaction = Transaction::new();
    transaction.write(&other(number), 0, contents(number, 0, LENGTH));
    store.submit(collection(1, 1).id, transaction).await.map_err(|error| error.kind)
}

/// BLU-CLEAN-3: an object of the one zone that can be emptied is cloned while the zone is cleaned, or right before, when the metadata do not
/// show its new holder yet.
#[test]
fn a_zone_whose_holders_change_while_it_is_cleaned_is_emptied() {
    for (late, clone_after, alone) in [(0, 50, false), (100, 0, false), (100, 30, false), (100, 0, true)] {
        Sim::new(1).run(move |rt| async move {
            let (device, store, watch, count) = full(&rt, LENGTH).await;
            let there = together(&store, full_zones(&store)[0], count).await;
            let (first, last) = (there[0], there[there.len() - 1]);
            device.set_latency(Duration::from_millis(20));
            store.submit(collection(0, 1).id, remove(first)).await.unwrap();
            watch.late.set(Duration::from_millis(late));
            let clone = async {
                rt.sleep(Duration::from_millis(clone_after)).await;
                let mut transaction = Transaction::new();
                transaction.clone_object(&object(last), &object(last).at_generation(1));
                if alone {
                    for number in first + 1..last {
                        transaction.remove(&object(number));
                    }
                }
                store.submit(collection(0, 1).id, transaction).await.unwrap();
            };
            let write = async {
                rt.sleep(Duration::from_millis(1)).await;
                write_other(&store, 1).await
            };
            let ((), wrote) = futures_util::future::join(clone, write).await;
            assert_eq!(wrote, Ok(()), "late {late}, clone after {clone_after}, alone {alone}: {:?}", store.stats());
            for id in [object(last), object(last).at_generation(1)] {
                assert!(store.read(&id, 0, u64::MAX).await.unwrap() == contents(last, 0, LENGTH));
            }
            assert_eq!(store.check(true).await.unwrap(), []);
        });
    }
}

/// BLU-CLEAN-4: the cleaner cannot read the holders of a zone, once. It leaves the zone alone for some seconds, and the store goes on.
#[test]
fn a_bad_read_of_a_zones_holders_stops_nothing() {
    for kind in [KvErrorKind::Device, KvErrorKind::Corrupt] {
        Sim::new(1).run(move |rt| async move {
            let (_device, store, watch, count) = full(&rt, LENGTH).await;
            let there = together(&store, full_zones(&store)[0], count).await;
            *watch.failing.borrow_mut() = Some((b"G", 0, kind));
            store.submit(collection(0, 1).id, remove(there[0])).await.unwrap();
            assert_eq!(write_other(&store, 1).await, Err(BlueErrorKind::NoSpace));
            assert_eq!(*watch.failing.borrow(), None, "it was cleaned");
            store.submit(collection(0, 1).id, remove(there[1])).await.unwrap();
            // No zone but this one can be emptied.
            assert_eq!(write_other(&store, 1).await, Err(BlueErrorKind::NoSpace));
            rt.sleep(Duration::from_secs(20)).await;
            assert_eq!(write_other(&store, 1).await, Ok(()), "{:?}", store.stats());
            assert_eq!(store.check(true).await.unwrap(), []);
        });
    }
}

/// BLU-CLEAN-4: no data can be read for ten seconds, in which a write asks for room and is refused. Another one, a minute later, finds it, though
/// nothing was removed.
#[test]
fn data_that_cannot_be_read_for_seconds_cost_room_for_seconds() {
    Sim::new(1).run(|rt| async move {
        let (device, store, _, count) = full(&rt, LENGTH).await;
        remove_one_of_each(&store, &full_zones(&store)[..3], count).await;
        no_data_can_be_read(&device, &store);
        while let Ok(()) = write_other(&store, 1).await {}
        assert!(!device.faults().injected().is_empty(), "the cleaner read nothing");
        rt.sleep(Duration::from_secs(10)).await;
        device.set_faults(Faults::default());
        rt.sleep(Duration::from_secs(60)).await;
        assert_eq!(write_other(&store, 2).await, Ok(()), "{:?}", store.stats());
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// BLU-CLEAN-4: reads that fail take the drive long, and never end to fail. A write that waits hears that there is no room once each zone was tried.
#[test]
fn nobody_waits_without_end_for_data_that_cannot_be_read() {
    Sim::new(1).run(|rt| async move {
        let (device, store, _, count) = full(&rt, LENGTH).await;
        remove_one_of_each(&store, &full_zones(&store)[..10], count).await;
        no_data_can_be_read(&device, &store);
        device.set_latency(Duration::from_secs(1));
        for number in 0..40 {
            let (write, patience) = (pin!(write_other(&store, number)), pin!(rt.sleep(Duration::from_secs(3600))));
            match select(write, patience).await {
                Either::Left((Ok(()), _)) => {}
                Either::Left((Err(error), _)) => return assert_eq!(error, BlueErrorKind::NoSpace),
                Either::Right(_) => panic!("it waits: {:?}", store.stats()),
            }
        }
        panic!("there was room: {:?}", store.stats());
    });
}

/// BLU-CLEAN-4: zones fail under data that have room, and nobody else waits for any. A zone is emptied for them that could not be read a minute
/// ago.
#[test]
fn data_whose_zones_failed_get_the_room_of_a_zone_that_can_be_read_again() {
    Sim::new(1).run(|rt| async move {
        let (device, store, _, count) = full(&rt, LENGTH).await;
        let zones = full_zones(&store);
        let mut of_one_zone = Transaction::new();
        for number in together(&store, zones[0], count).await {
            of_one_zone.remove(&object(number));
        }
        remove_one_of_each(&store, &zones[1..4], count).await;
        no_data_can_be_read(&device, &store);
        assert_eq!(write_other(&store, 1).await, Err(BlueErrorKind::NoSpace));
        device.set_faults(Faults::default());
        store.submit(collection(0, 1).id, of_one_zone).await.unwrap();
        rt.sleep(Duration::from_secs(60)).await;
        // That of new data, the one that is free for them, and all but one of those that are kept for copies.
        let (data, mut failed) = (store.data_zones(), 0);
        device.on_command(move |command, device| {
            let of_data = command.zone.filter(|zone| data.contains(&zone.0));
            if let (CommandKind::Write, Some(zone), 0..4) = (command.kind, of_data, failed) {
                device.medium().set_state(zone, ZoneState::ReadOnly);
                failed += 1;
            }
        });
        assert_eq!(write_other(&store, 1).await, Ok(()), "{:?}", store.stats());
        assert_eq!((store.stats().zones_broken, store.check(true).await.unwrap()), (4, vec![]));
    });
}

/// BLU-VICTIM-2: zones that can be written no more are the best victims by their counts, and none of them gives room back. A write that waits
/// gets that of another zone; and once there is room, what they hold is moved.
#[test]
fn zones_that_are_read_only_take_no_room_from_a_write_that_waits() {
    Sim::new(1).run(|rt| async move {
        const SHORT: u64 = 12_000;
        let (device, store, _, count) = full(&rt, SHORT).await;
        let mut gone = std::collections::BTreeSet::new();
        let zones = full_zones(&store);
        assert!(zones.len() > 12, "{zones:?}");
        let broken = &zones[2..6];
        for zone in &zones {
            // Less than the cleaner asks for while nobody waits.
            let there = together(&store, *zone, count).await;
            let some =
                there.into_iter().filter(|number| !gone.contains(number)).take(1 + usize::from(broken.contains(zone)));
            for number in some.collect::<Vec<_>>() {
                store.submit(collection(0, 1).id, remove(number)).await.unwrap();
                gone.insert(number);
            }
        }
        let first = store.data_zones().start;
        let medium = device.kill();
        for zone in broken {
            medium.set_state(ZoneId(first + zone), ZoneState::ReadOnly);
        }
        let (store, _) = open(&rt, &SimDevice::resume(&rt, medium)).await.unwrap();
        let of = |store: &Store| -> Vec<(&str, u64)> {
            let all = store.dump();
            broken.iter().map(|zone| (all[*zone as usize].state, all[*zone as usize].live)).collect()
        };
        assert_eq!(of(&store), vec![("closed", 58); broken.len()]);
        assert_eq!(store.stats().counters.cleaned, 0);
        assert_eq!(write_other(&store, 1).await, Ok(()), "{:?}", store.stats());
        assert_eq!(of(&store), vec![("closed", 58); broken.len()]);
        for number in (0..count).filter(|number| number % 3 > 0 && !gone.contains(number)) {
            store.submit(collection(0, 1).id, remove(number)).await.unwrap();
        }
        rt.sleep(Duration::from_secs(60)).await;
        store.submit(collection(0, 1).id, Transaction::new()).await.unwrap();
        rt.sleep(Duration::from_secs(60)).await;
        assert_eq!(of(&store), vec![("dead", 0); broken.len()], "{:?}", store.stats());
        for number in (0..count).filter(|number| number % 3 == 0 && !gone.contains(number)) {
            assert!(store.read(&object(number), 0, u64::MAX).await.unwrap() == contents(number, 0, SHORT));
        }
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// A zone that turns read-only while little of the drive is in use is emptied at once.
#[test]
fn what_a_read_only_zone_holds_is_moved_where_there_is_room() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = fresh(&rt).await;
        let write = async |number: u64| {
            let mut transaction = Transaction::new();
            transaction.write(&object(number), 0, contents(number, 0, 30_000));
            store.submit(at, transaction).await.unwrap();
        };
        write(0).await;
        let spared = (0..store.data_zones().start).map(ZoneId);
        let rule = FaultRule { trigger: Trigger::Nth(CommandKind::Write, 0), fault: Fault::ZoneReadOnly };
        device.set_faults(Faults::new([rule]).sparing(spared));
        write(1).await;
        rt.sleep(Duration::from_secs(1)).await;
        let stats = store.stats();
        assert_eq!((stats.zones_broken, stats.counters.blocks_copied), (1, 8), "{stats:?}");
        let broken = store.dump().into_iter().find(|zone| zone.broken).unwrap();
        assert_eq!((broken.state, broken.live), ("dead", 0));
        for number in 0..2 {
            assert!(store.read(&object(number), 0, u64::MAX).await.unwrap() == contents(number, 0, 30_000));
        }
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// BLU-VICTIM-3: a zone that cannot be emptied costs the room of its copies once, and the room that is left to copies wins more.
#[test]
fn a_full_drive_goes_on_behind_a_zone_that_cannot_be_emptied() {
    Sim::new(1).run(|rt| async move {
        let (device, store, _, count) = full(&rt, LENGTH).await;
        let zones = full_zones(&store);
        let zones = &zones[..14];
        let mut there = Vec::new();
        for zone in zones {
            there.push(together(&store, *zone, count).await);
        }
        for of in &there {
            store.submit(collection(0, 1).id, remove(of[0])).await.unwrap();
        }
        let mut number = 0;
        while store.stats().counters.cleaned == 0 || store.stats().room_bytes > 20_000 {
            number += 1;
            write_other(&store, number).await.unwrap();
            rt.sleep(Duration::from_secs(1)).await;
        }
        let dump = store.dump();
        let (zone, of) = zones
            .iter()
            .zip(&there)
            .find(|(zone, _)| (dump[**zone as usize].state, dump[**zone as usize].live) == ("closed", 60))
            .unwrap();
        let spoilt = Lba((u64::from(store.data_zones().start) + u64::from(*zone)) * 64 + 63);
        device.medium().fail_reads(spoilt, Blocks(1), None);
        // Its copies are garbage, and there may be no more room.
        let _ = write_other(&store, number + 1).await;
        assert!(store.read(&object(*of.last().unwrap()), 0, u64::MAX).await.is_err(), "it was spoilt");
        for of in &there {
            for number in &of[1..of.len() - 1] {
                store.submit(collection(0, 1).id, remove(*number)).await.unwrap();
            }
        }
        assert_eq!(write_other(&store, number + 2).await, Ok(()), "{:?}", store.stats());
        device.medium().heal();
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}
