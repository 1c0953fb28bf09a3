//! The file system under an emulated drive is full for a while: writes are refused, reads go on, and nothing has to be
//! opened anew once there is room.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use common::{Driver, Model, formatted, geometry, options, survival};
use futures_util::future::{Either, select};
use shingle_base::{Blocks, ChunkId};
use shingle_chunk_store::{ChunkStore, ErrorKind, Options, Stream, ZoneStatus};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{Geometry, ZoneState};

fn full(trigger: Trigger) -> FaultRule {
    FaultRule { trigger, fault: Fault::HostFull }
}

/// Result of `work` within `limit`.
async fn within<T>(rt: &Runtime, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    match select(Box::pin(work), Box::pin(rt.sleep(limit))).await {
        Either::Left((done, _)) => Some(done),
        Either::Right(_) => None,
    }
}

/// Callers at work while write `first` and those after it find the host full: the first of them perhaps in its middle.
/// Then there is room. Returns whether that write came.
fn full_from(seed: u64, first: u64, inside: bool) -> bool {
    let mut random = Random::new(seed);
    let geometry = geometry(&mut random);
    let survival = survival(&geometry);
    let medium = formatted(geometry);
    let options = options(&mut random);
    let context = format!("seed {seed}, write {first}, inside {inside}");
    Sim::new(seed).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = common::open(&rt, &device, options.clone()).await;
        let begin = if inside { Fault::HostFullInside } else { Fault::HostFull };
        let begin = FaultRule { trigger: Trigger::Nth(CommandKind::Write, first), fault: begin };
        let length = 1 + random.below(6);
        device.set_faults(Faults::new(
            std::iter::once(begin).chain((1..length).map(|at| full(Trigger::Nth(CommandKind::Write, first + at)))),
        ));
        let model = Rc::new(RefCell::new(Model::default()));
        let random = Rc::new(RefCell::new(random));
        let driver = |faults| Driver {
            rt: rt.clone(),
            store: store.clone(),
            model: model.clone(),
            random: random.clone(),
            ids: 12,
            faults,
        };
        let working: Vec<_> = (0..3)
            .map(|_| {
                let driver = driver(inside);
                rt.spawn(async move { driver.run(30).await })
            })
            .collect();
        rt.sleep(Duration::from_millis(5)).await;
        let mut cuts = Vec::new();
        if !device.faults().injected().is_empty() {
            cuts.push((device.crash_image_with(seed, survival), model.borrow().clone()));
        }
        for work in working {
            within(&rt, Duration::from_secs(60), work)
                .await
                .unwrap_or_else(|| panic!("{context}: a caller hangs"))
                .unwrap();
        }
        let hit = !device.faults().injected().is_empty();
        device.set_faults(Faults::default());
        // A caller that tries again is served, without a restart of the store.
        rt.sleep(Duration::from_secs(2)).await;
        let (id, data) = (ChunkId::from_u64(1000), Bytes::from(vec![3; 9000]));
        let made = store.create(id, Stream::Data).await;
        if made.as_ref().is_err_and(|error| error.kind != ErrorKind::NoSpace) {
            panic!("{context}: {}", made.unwrap_err());
        }
        if made.is_ok() {
            let appended = store.append(id, 0, vec![data.clone()]).await;
            match appended {
                Ok(_) => assert_eq!(store.read(id, 0, 9000).await.unwrap(), data, "{context}"),
                Err(error) => assert_eq!(error.kind, ErrorKind::NoSpace, "{context}: {error}"),
            }
            store.delete(id).await.unwrap();
        }
        driver(false).run(10).await;
        assert_eq!(store.counters().write_errors, 0, "{context}: want of room is no fault of the drive");
        cuts.push((device.crash_image_with(seed + 1, survival), model.borrow().clone()));
        for (image, mut model) in cuts {
            let reopened = SimDevice::new(&rt, &image);
            let (again, report) = common::open(&rt, &reopened, options.clone()).await;
            assert_eq!(report.damage, Vec::new(), "{context}");
            model.settle(&again, &context).await;
            again.close().await.unwrap();
        }
        hit
    })
}

/// CS-HOST-1.
#[test]
fn whichever_write_finds_the_host_full_nothing_is_lost() {
    for seed in seeds(4) {
        for inside in [false, true] {
            let writes = (0..).take_while(|&first| full_from(seed, first, inside)).count();
            assert!(writes > 10, "seed {seed}: only {writes} writes");
        }
    }
}

fn id(number: u8) -> ChunkId {
    ChunkId([number; 24])
}

fn data(number: u8) -> Bytes {
    Bytes::from(vec![number; 20_000])
}

async fn soon<T>(rt: &Runtime, work: impl Future<Output = shingle_chunk_store::Result<T>>, context: &str) {
    let answer = within(rt, Duration::from_secs(2), work).await.unwrap_or_else(|| panic!("{context}: waits"));
    let Err(error) = answer else { panic!("{context}: there was no room") };
    assert_eq!(error.kind, ErrorKind::HostFull, "{context}: {error}");
}

/// CS-HOST-2, for a minute without any room.
#[test]
fn a_full_host_refuses_writes_and_goes_on_by_itself() {
    for seed in seeds(20) {
        let mut random = Random::new(seed);
        let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
        let options = options(&mut random);
        Sim::new(seed).run(move |rt| async move {
            let context = format!("seed {seed}");
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = common::open(&rt, &device, options.clone()).await;
            let mut acknowledged: Vec<u8> = (1..=1 + (seed % 4) as u8).collect();
            for &number in &acknowledged {
                store.create(id(number), Stream::Data).await.unwrap();
                store.append(id(number), 0, vec![data(number)]).await.unwrap();
            }
            device.set_faults(Faults::new([full(Trigger::Rate(CommandKind::Write, 1.0))]));
            for round in 0..3 {
                let context = format!("{context}, round {round}");
                soon(&rt, store.append(id(1), 20_000, vec![data(1)]), &context).await;
                soon(&rt, store.create(id(100 + round), Stream::Data), &context).await;
                soon(&rt, store.seal(id(1)), &context).await;
                soon(&rt, store.delete(id(1)), &context).await;
                rt.sleep(Duration::from_secs(20)).await;
                read_all(&store, &acknowledged, &context).await;
            }
            device.set_faults(Faults::default());
            rt.sleep(Duration::from_secs(1)).await;
            // The refused append is not there, and the chunk goes on where it was.
            store.append(id(1), 20_000, vec![data(1)]).await.unwrap();
            assert!(store.list(None, 1000).iter().all(|stat| stat.id.0[0] < 100), "{context}");
            for number in 50..55 {
                store.create(id(number), Stream::Data).await.unwrap();
                store.append(id(number), 0, vec![data(number)]).await.unwrap();
                acknowledged.push(number);
            }
            read_all(&store, &acknowledged, &format!("{context}, room again")).await;
            let again = SimDevice::new(&rt, &device.crash_image(seed));
            let (reopened, report) = common::open(&rt, &again, options).await;
            assert_eq!(report.damage, Vec::new(), "seed {seed}");
            read_all(&reopened, &acknowledged, &format!("{context}, reopened")).await;
        });
    }
}

/// CS-HOST-1: zones that could not be opened for want of room alone stay free, whether the journal had room or not.
#[test]
fn zones_stay_free_while_only_the_log_has_room() {
    for seed in seeds(20) {
        let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
        let mut random = Random::new(seed);
        let options = options(&mut random);
        Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = common::open(&rt, &device, options.clone()).await;
            let free = || {
                let zones = store.zones().into_iter().filter(|zone| zone.status == ZoneStatus::Free);
                zones.map(|zone| zone.zone).collect::<Vec<_>>()
            };
            rt.sleep(Duration::from_secs(1)).await;
            let before = free();
            device.set_faults(Faults::new(before.iter().map(|zone| full(Trigger::Zone(CommandKind::Write, *zone)))));
            let mut number = 0;
            let refused = loop {
                number += 1;
                store.create(id(number), Stream::Data).await.unwrap();
                if let Err(error) = store.append(id(number), 0, vec![data(number)]).await {
                    break error;
                }
            };
            assert_eq!(refused.kind, ErrorKind::HostFull, "seed {seed}");
            rt.sleep(Duration::from_secs(20)).await;
            let injected = device.faults().injected().len();
            device.set_faults(Faults::default());
            assert!(injected > 0 && free() == before, "seed {seed}: {injected} openings, {:?} of {before:?}", free());
            rt.sleep(Duration::from_secs(1)).await;
            store.append(id(number), 0, vec![data(number)]).await.unwrap();
        });
    }
}

/// A store that closes does not wait for room, and lets go of its drive.
#[test]
fn a_store_on_a_full_host_can_be_closed_and_opened_for_reading() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    let mut random = Random::new(1);
    let options = options(&mut random);
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = common::open(&rt, &device, options.clone()).await;
        store.create(id(1), Stream::Data).await.unwrap();
        store.append(id(1), 0, vec![data(1)]).await.unwrap();
        device.set_faults(Faults::new([full(Trigger::Rate(CommandKind::Write, 1.0))]));
        store.create(id(2), Stream::Data).await.unwrap_err();
        let closed = within(&rt, Duration::from_secs(5), store.close()).await.expect("closing waits for room");
        assert_eq!(closed.unwrap_err().kind, ErrorKind::HostFull);
        rt.sleep(Duration::from_secs(2)).await;
        let writes = device.counts().writes;
        rt.sleep(Duration::from_secs(10)).await;
        assert_eq!(device.counts().writes, writes, "a store that was closed writes");
        let (again, _) = within(&rt, Duration::from_secs(5), common::open(&rt, &device, options)).await.unwrap();
        read_all(&again, &[1], "opened on a full host").await;
        soon(&rt, again.create(id(3), Stream::Data), "opened on a full host").await;
        device.set_faults(Faults::default());
        rt.sleep(Duration::from_secs(2)).await;
        again.append(id(1), 20_000, vec![data(1)]).await.unwrap();
    });
}

/// CS-HOST-2: no zone is free, and what is garbage cannot be reset, as the log waits for room. GC says so, and does not wait for it.
#[test]
fn gc_does_not_wait_for_garbage_that_a_full_host_keeps() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let options = || Options { background: false, landing: None, ..Options::default() };
        let (store, _) = common::open(&rt, &device, options()).await;
        let mut chunks = 0;
        loop {
            store.create(id(chunks + 1), Stream::Data).await.unwrap();
            if store.append(id(chunks + 1), 0, vec![Bytes::from(vec![chunks + 1; 80_000])]).await.is_err() {
                break;
            }
            chunks += 1;
        }
        let of = |store: &ChunkStore, status| -> Vec<_> {
            store.zones().iter().filter(|zone| zone.status == status).map(|zone| zone.zone).collect()
        };
        let free = of(&store, ZoneStatus::Free);
        // All of some zones, and half of others. The power fails before one is reset.
        let dead = (1..=12).chain((13..=chunks).step_by(2));
        let deleted = futures_util::future::join_all(dead.map(|chunk| store.delete(id(chunk)))).await;
        deleted.into_iter().for_each(|deleted| deleted.unwrap());
        let medium = device.crash_image(1);
        free.into_iter().for_each(|zone| medium.set_state(zone, ZoneState::ReadOnly));
        let device = SimDevice::new(&rt, &medium);
        device.set_faults(Faults::new([full(Trigger::Rate(CommandKind::Write, 1.0))]));
        let (store, _) = common::open(&rt, &device, options()).await;
        rt.sleep(Duration::from_secs(1)).await;
        let (free, garbage) = (of(&store, ZoneStatus::Free), of(&store, ZoneStatus::Garbage));
        assert!(free.is_empty() && !garbage.is_empty(), "the case is not met: {free:?} free, {garbage:?} garbage");
        let collected = within(&rt, Duration::from_secs(5), store.gc(1, |_| {})).await.expect("GC waits for room");
        assert_eq!(collected.unwrap_err().kind, ErrorKind::HostFull);
        device.set_faults(Faults::default());
        rt.sleep(Duration::from_secs(2)).await;
        assert!(store.gc(1, |_| {}).await.unwrap().zones > 0, "it goes on once there is room");
    });
}

async fn read_all(store: &ChunkStore, numbers: &[u8], context: &str) {
    for &number in numbers {
        let read = store.read(id(number), 0, 20_000).await;
        let bytes = read.unwrap_or_else(|error| panic!("{context}: chunk {number}: {error}"));
        assert!(bytes == data(number), "{context}: chunk {number} holds something else");
    }
}
