//! Full drives: filled and emptied for several times their size. BLU-ROOM-1, BLU-CLEAN-1, BLU-READ-2.

use std::rc::Rc;

use futures_util::future::join;
use shingle_base::{Blocks, ZoneId};
use shingle_blue_store::{BlueErrorKind, Hints, Lifetime, ObjectId, Options, Placement, Store, Transaction, Victims};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, Trigger, contents, seeds};
use shingle_zoned::Geometry;

use crate::common::{collection, device, format, geometry, options};

fn churn(seed: u64, placement: Placement, victims: Victims) {
    Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let geometry = geometry(&mut random);
        let device = format(&rt, &geometry).await;
        let options = || Options { placement, victims, ..options() };
        let (store, _) = Store::open(&rt, Rc::new(device.clone()), options()).await.unwrap();
        let info = collection(0, 0);
        store.create_collection(info).await.unwrap();
        let capacity = store.stats().capacity_bytes;
        let zone = geometry.zone_capacity.bytes();
        let (mut live, mut written, mut refused) = (Vec::<(u64, u64)>::new(), 0, 0);
        let mut number = 0;
        let name = |number: u64| ObjectId::new(1, format!("o{number}"));
        while written < capacity * 6 {
            number += 1;
            let length = 8_192 + random.below(zone);
            let mut transaction = Transaction::new();
            transaction.write(&name(number), 0, contents(number, 0, length));
            match store.submit(info.id, transaction).await {
                Ok(()) => {
                    written += length;
                    live.push((number, length));
                }
                Err(error) => {
                    assert_eq!(error.kind, BlueErrorKind::NoSpace, "seed {seed}: {error}");
                    let held: u64 = live.iter().map(|(_, length)| length.next_multiple_of(4096)).sum();
                    // Two zones for copies, and the ends of a few open ones.
                    let room = capacity.saturating_sub(7 * zone);
                    assert!(
                        held + length + 40_000 > room,
                        "seed {seed}: full with {held} of {room} bytes, {:?}",
                        store.stats()
                    );
                    refused += 1;
                    for _ in 0..1 + random.below(4) {
                        if live.is_empty() {
                            break;
                        }
                        let (gone, _) = live.swap_remove(random.below(live.len() as u64) as usize);
                        let mut transaction = Transaction::new();
                        transaction.remove(&name(gone));
                        store.submit(info.id, transaction).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    }
                }
            }
        }
        assert!(refused > 5, "seed {seed}: it was never full");
        for (number, length) in &live {
            let read = store.read(&name(*number), 0, u64::MAX).await.unwrap();
            assert!(read == contents(*number, 0, *length), "seed {seed}: o{number}");
        }
        let stats = store.stats();
        assert!(stats.counters.freed > 3 * u64::from(stats.zones), "seed {seed}: {stats:?}");
        assert_eq!(store.check(true).await.unwrap(), [], "seed {seed}");
        store.close().await.unwrap();
        let (store, _) = Store::open(&rt, Rc::new(device.clone()), options()).await.unwrap();
        assert_eq!(store.check(true).await.unwrap(), [], "seed {seed}");
    });
}

#[test]
fn a_full_drive_goes_on_once_objects_are_removed() {
    for seed in seeds(6) {
        churn(seed, Placement::ByLifetime, Victims::CostBenefit);
        churn(seed, Placement::LowestZoneFirst, Victims::Greedy);
    }
}

/// BLU-ROOM-1: the rest of a lane's zone was promised to a transaction that is written to another lane first. One that waits for room meanwhile
/// has the keeper look for zones with garbage, and that one is left alone.
#[test]
fn the_rest_of_a_zone_that_was_promised_is_kept() {
    Sim::new(1).run(|rt| async move {
        let device = format(&rt, &Geometry::hm_smr(Blocks(64), 42, 0, 12)).await;
        let (store, _) = Store::open(&rt, Rc::new(device.clone()), options()).await.unwrap();
        let infos = [collection(0, 1), collection(1, 1)];
        for info in infos {
            store.create_collection(info).await.unwrap();
        }
        let name = |hash: u32, name: &str| ObjectId { hash, ..ObjectId::new(1, name) };
        let write = |transaction: &mut Transaction, id: &ObjectId, blocks: u64| {
            transaction.write(id, 0, contents(blocks, 0, blocks * 4096));
        };
        let short = |id: &ObjectId| {
            let mut transaction = Transaction::new();
            transaction.set_hints(id, Hints { lifetime: Lifetime::Short, ..Hints::default() });
            transaction
        };
        // Half of a zone of short-lived bytes, half of which are stale; and others, up to the last eight blocks of theirs.
        for (id, gone) in [(name(0, "stale"), true), (name(0, "short"), false)] {
            let mut transaction = short(&id);
            write(&mut transaction, &id, 16);
            store.submit(infos[0].id, transaction).await.unwrap();
            if gone {
                let mut transaction = Transaction::new();
                transaction.remove(&id);
                store.submit(infos[0].id, transaction).await.unwrap();
            }
        }
        let mut number = 0;
        while store.stats().room_bytes > (32 + 8) * 4096 {
            number += 1;
            let mut transaction = Transaction::new();
            write(&mut transaction, &name(0, &format!("{number}")), 8);
            store.submit(infos[0].id, transaction).await.unwrap();
        }
        let free = store.stats().zones_free;
        device.set_latency(std::time::Duration::from_millis(20));
        let mut promised = short(&name(0, "a"));
        write(&mut promised, &name(0, "a"), 2);
        write(&mut promised, &name(0, "b"), 24);
        let mut waiting = Transaction::new();
        write(&mut waiting, &name(1, "c"), 64);
        let promised = async {
            let done = store.submit(infos[0].id, promised).await;
            (done, store.stats().zones_free)
        };
        let waiting = async {
            rt.sleep(std::time::Duration::from_millis(1)).await;
            store.submit(infos[1].id, waiting).await
        };
        let ((done, left), _) = join(promised, waiting).await;
        done.unwrap();
        assert_eq!(left, free, "it took a zone that is left to copies: {:?}", store.stats());
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// One small object a zone lives on, all others are removed: the space comes back by copying.
#[test]
fn scattered_objects_do_not_hold_zones() {
    for seed in seeds(3) {
        Sim::new(seed).run(move |rt| async move {
            let device = format(&rt, &Geometry::zns(Blocks(64), Blocks(64), 41, 9, 9)).await;
            let (store, _) = Store::open(&rt, Rc::new(device), options()).await.unwrap();
            let info = collection(0, 0);
            store.create_collection(info).await.unwrap();
            let capacity = store.stats().capacity_bytes;
            let (mut kept, mut number) = (Vec::new(), 0u64);
            let name = |number: u64| ObjectId::new(1, format!("o{number}"));
            while number * 12_288 < capacity * 4 {
                let mut transaction = Transaction::new();
                transaction.write(&name(number), 0, contents(number, 0, 12_000));
                let done = store.submit(info.id, transaction).await;
                done.unwrap_or_else(|error| panic!("seed {seed}, object {number}: {error}, {:?}", store.stats()));
                if number.is_multiple_of(16) && kept.len() < 60 {
                    kept.push(number);
                } else {
                    let mut transaction = Transaction::new();
                    transaction.remove(&name(number));
                    store.submit(info.id, transaction).await.unwrap();
                }
                number += 1;
            }
            for number in kept {
                assert_eq!(store.read(&name(number), 0, 20_000).await.unwrap(), contents(number, 0, 12_000));
            }
            assert_eq!(store.check(true).await.unwrap(), [], "seed {seed}");
        });
    }
}

/// BLU-READ-2: reads that are under way while zones are emptied and written again return the bytes of their objects.
#[test]
fn reads_go_on_while_zones_are_emptied() {
    for seed in seeds(3) {
        Sim::new(seed).run(move |rt| async move {
            let geometry = Geometry::hm_smr(Blocks(40), 36, 0, 12);
            let device = format(&rt, &geometry).await;
            device.set_latency(std::time::Duration::from_micros(300));
            let cacheless = Options { cache_bytes: 0, ..options() };
            let (store, _) = Store::open(&rt, Rc::new(device.clone()), cacheless).await.unwrap();
            let info = collection(0, 0);
            store.create_collection(info).await.unwrap();
            let old = ObjectId::new(1, "old");
            let length = 250_000;
            let mut transaction = Transaction::new();
            for from in (0..length).step_by(10_000) {
                transaction.append(&old, contents(5, from, 10_000));
            }
            store.submit(info.id, transaction).await.unwrap();
            let ended = Rc::new(std::cell::Cell::new(false));
            let (reader, stop, sleeper, of) = (store.clone(), ended.clone(), rt.clone(), old.clone());
            let reading = rt.spawn(async move {
                let (mut random, mut count) = (Random::new(seed ^ 9), 0);
                while !stop.get() {
                    let at = random.below(length / 4);
                    let read =
                        reader.read(&of, at, length).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                    assert!(read == contents(5, at, length - at), "seed {seed}");
                    count += 1;
                    sleeper.sleep(std::time::Duration::from_micros(50)).await;
                }
                count
            });
            let mut random = Random::new(seed);
            for number in 0..300u64 {
                let name = if number % 5 == 0 { 100 + random.below(10) } else { random.below(4) };
                let id = ObjectId::new(1, format!("o{name}"));
                let mut transaction = Transaction::new();
                transaction.touch(&id).remove(&id).write(&id, 0, contents(number, 0, 9_000 + random.below(40_000)));
                store
                    .submit(info.id, transaction)
                    .await
                    .unwrap_or_else(|error| panic!("seed {seed}: {error} {number} {:?}", store.stats()));
            }
            ended.set(true);
            assert!(reading.await.expect("it ended") > 50);
            assert!(store.stats().counters.cleaned > 3, "seed {seed}: {:?}", store.stats());
        });
    }
}

/// BLU-READ-2: a read is so slow that the bytes have gone twice to other zones meanwhile, and those zones to others. All objects have one
/// length, so that others come to lie exactly there.
#[test]
fn a_slow_read_leaves_its_bytes_at_no_other_place() {
    let mut copied = 0;
    for seed in seeds(8) {
        copied += Sim::new(seed).run(move |rt| async move {
            const LENGTH: u64 = 8_192;
            let mut random = Random::new(seed);
            let device = format(&rt, &Geometry::hm_smr(Blocks(40), 36, 0, 12)).await;
            let few = Options { cache_bytes: 200_000, ..options() };
            let (store, _) = Store::open(&rt, Rc::new(device.clone()), few.clone()).await.unwrap();
            let info = collection(0, 0);
            store.create_collection(info).await.unwrap();
            let name = |name: u64| ObjectId::new(1, format!("o{name}"));
            // Names below 16 are written once.
            let mut written = std::collections::BTreeMap::new();
            let write = async |name_of: u64, number: u64| {
                let (mut transaction, id) = (Transaction::new(), name(name_of));
                transaction.touch(&id).remove(&id).write(&id, 0, contents(number, 0, LENGTH));
                store.submit(info.id, transaction).await
            };
            for number in 0..32 {
                write(if number % 2 == 0 { number / 2 } else { 16 }, number).await.unwrap();
                written.insert(if number % 2 == 0 { number / 2 } else { 16 }, number);
            }
            // Nothing is in memory.
            let mut full = 16;
            while written.len() < 120 {
                full += 1;
                write(full, full + 100).await.unwrap();
                written.insert(full, full + 100);
            }
            let spared = (0..store.data_zones().start).map(ZoneId);
            let rule = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::Hang };
            device.set_faults(Faults::new([rule]).sparing(spared));
            let reads: Vec<_> = (0..16)
                .map(|name_of| {
                    let (store, id) = (store.clone(), name(name_of));
                    rt.spawn(async move { store.read(&id, 0, u64::MAX).await })
                })
                .collect();
            rt.sleep(std::time::Duration::from_millis(1)).await;
            device.set_faults(Faults::default());
            for number in 1_000..3_000 {
                let name_of = 17 + random.below(full - 17);
                if write(name_of, number).await.is_ok() {
                    written.insert(name_of, number);
                }
            }
            device.release_hung();
            for (name_of, read) in (0..).zip(reads) {
                let read = read.await.unwrap().unwrap();
                assert!(read == contents(written[&name_of], 0, LENGTH), "seed {seed}: o{name_of}");
            }
            for (name_of, number) in &written {
                let read = store.read(&name(*name_of), 0, u64::MAX).await.unwrap();
                assert!(read == contents(*number, 0, LENGTH), "seed {seed}: o{name_of} shows other bytes");
            }
            store.stats().counters.blocks_copied
        });
    }
    assert!(copied > 500, "{copied} blocks were copied");
}

/// A load of overwrites at random on a drive of many zones: how much is written for each block of the objects'.
#[test]
fn cleaning_costs_little_with_spare_zones() {
    Sim::new(1).run(|rt| async move {
        let geometry = Geometry::hm_smr(Blocks(256), 160, 0, 16);
        let device = device(&rt, &geometry);
        Store::format(&rt, Rc::new(device.clone()), Default::default()).await.unwrap();
        let (store, _) = Store::open(&rt, Rc::new(device), Options::default()).await.unwrap();
        let info = collection(0, 0);
        store.create_collection(info).await.unwrap();
        let capacity = store.stats().capacity_bytes;
        let objects = capacity * 3 / 4 / (1 << 20);
        let mut random = Random::new(7);
        let mut written = 0;
        while written < capacity * 4 {
            let id = ObjectId::new(1, format!("o{}", random.below(objects)));
            let mut transaction = Transaction::new();
            transaction.touch(&id).remove(&id).write(&id, 0, contents(written, 0, 1 << 20));
            store.submit(info.id, transaction).await.unwrap();
            written += 1 << 20;
        }
        let amplification = store.stats().write_amplification();
        assert!(amplification < 1.6, "{amplification}: {:?}", store.stats());
        assert_eq!(store.check(false).await.unwrap(), []);
    });
}

/// BLU-CLEAN-2: an object and all its clones are moved by one copy of their bytes.
#[test]
fn shared_bytes_are_moved_once() {
    Sim::new(1).run(|rt| async move {
        let device = format(&rt, &Geometry::hm_smr(Blocks(64), 34, 0, 12)).await;
        let (store, _) = Store::open(&rt, Rc::new(device), options()).await.unwrap();
        let info = collection(0, 0);
        store.create_collection(info).await.unwrap();
        let (old, filler) = (ObjectId::new(1, "old"), ObjectId::new(1, "filler"));
        let mut transaction = Transaction::new();
        transaction.write(&filler, 0, contents(9, 0, 100_000)).write(&old, 0, contents(1, 0, 30_000));
        store.submit(info.id, transaction).await.unwrap();
        for generation in 0..20 {
            let mut transaction = Transaction::new();
            transaction.clone_object(&old, &old.at_generation(generation));
            store.submit(info.id, transaction).await.unwrap();
        }
        // The rest of its zone is stale, and its room is needed.
        let mut transaction = Transaction::new();
        transaction.remove(&filler);
        store.submit(info.id, transaction).await.unwrap();
        let mut full = false;
        for number in 0..200u64 {
            let mut transaction = Transaction::new();
            transaction.write(&ObjectId::new(1, format!("o{number}")), 0, contents(number, 0, 60_000));
            let done = store.submit(info.id, transaction).await;
            full |= done.is_err_and(|error| error.kind == BlueErrorKind::NoSpace);
        }
        let counters = store.stats().counters;
        assert!(full && counters.cleaned > 0, "{counters:?}");
        // No zone has more blocks than it has room for, so none was copied twice.
        assert!(counters.blocks_copied < counters.cleaned * 64, "{counters:?}");
        for generation in 0..20 {
            let read = store.read(&old.at_generation(generation), 0, 40_000).await.unwrap();
            assert_eq!(read, contents(1, 0, 30_000));
        }
        assert_eq!(store.check(true).await.unwrap(), []);
    });
}

/// A drive on which little of each zone is stale, so that room comes slowly; a write waits for it, and a removal comes behind.
/// Returns the order in which they ended, and whether the write succeeded.
fn behind_one_that_waits(passes: bool, together: bool, length: u64) -> (Vec<&'static str>, bool, u64) {
    Sim::new(3).run(move |rt| async move {
        let device = format(&rt, &Geometry::hm_smr(Blocks(64), 42, 0, 12)).await;
        let (store, _) = Store::open(&rt, Rc::new(device.clone()), options()).await.unwrap();
        let info = collection(0, 0);
        store.create_collection(info).await.unwrap();
        let name = |number: u64| ObjectId::new(1, format!("o{number}"));
        let mut count = 0;
        loop {
            let mut transaction = Transaction::new();
            transaction.write(&name(count), 0, contents(count, 0, 20_000));
            if store.submit(info.id, transaction).await.is_err() {
                break;
            }
            count += 1;
        }
        let mut transaction = Transaction::new();
        for number in (0..count).step_by(7) {
            transaction.remove(&name(number));
        }
        device.set_latency(std::time::Duration::from_millis(20));
        store.submit(info.id, transaction).await.unwrap();
        let ended = Rc::new(std::cell::RefCell::new(Vec::new()));
        let (mut write, mut remove) = (Transaction::new(), Transaction::new());
        write.write(&name(count), 0, contents(count, 0, length));
        // Without room, and of an object that the write has to do with.
        if together {
            write.touch(&name(1));
        }
        remove.remove(&name(1));
        if passes {
            remove.may_pass();
        }
        let (write, remove) = (store.submit(info.id, write), store.submit(info.id, remove));
        let (of_write, of_remove) = (ended.clone(), ended.clone());
        let write = async move {
            let done = write.await;
            of_write.borrow_mut().push("write");
            done
        };
        let remove = async move {
            let done = remove.await;
            of_remove.borrow_mut().push("remove");
            done
        };
        let (wrote, removed) = futures_util::future::join(write, remove).await;
        removed.unwrap();
        assert!(store.read(&name(1), 0, 10).await.is_err_and(|error| error.kind == BlueErrorKind::NotFound));
        if wrote.is_ok() {
            assert_eq!(store.read(&name(count), 0, u64::MAX).await.unwrap(), contents(count, 0, length));
        }
        assert_eq!(store.check(true).await.unwrap(), []);
        let order = ended.borrow().clone();
        (order, wrote.is_ok(), store.stats().counters.passed)
    })
}

/// BLU-PASS-1.
#[test]
fn a_removal_passes_a_write_that_waits_for_room_if_it_may() {
    let in_order = |wrote| (vec!["write", "remove"], wrote, 0);
    assert_eq!(behind_one_that_waits(false, false, 330_000), in_order(true));
    assert_eq!(behind_one_that_waits(true, false, 330_000), (vec!["remove", "write"], true, 1));
    assert_eq!(behind_one_that_waits(true, true, 330_000), in_order(true), "they have an object in common");
    // More than cleaning can win: the write fails, and holds up the removal no longer.
    assert_eq!(behind_one_that_waits(false, false, 3_000_000), in_order(false));
    assert_eq!(behind_one_that_waits(true, true, 3_000_000), in_order(false));
}
