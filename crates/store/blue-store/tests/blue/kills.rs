//! Kills while a full store is cleaned: BLU-OPEN-4.

use std::time::Duration;

use shingle_base::{Blocks, ZoneId};
use shingle_blue_store::{BlueErrorKind, ObjectId, Store, Transaction};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, contents};
use shingle_zoned::Geometry;

use crate::common::{collection, format, open};

/// Blocks of a zone: as many as eight rounds of copies.
const ZONE: Blocks = Blocks(16_384);

/// Blocks of an object: they fill zones to the end.
const BLOCKS: u64 = 128;

fn object(number: u64) -> ObjectId {
    ObjectId::new(1, format!("{number}"))
}

async fn write(store: &Store, number: u64) -> Result<(), BlueErrorKind> {
    let mut transaction = Transaction::new();
    transaction.write(&object(number), 0, contents(number, 0, BLOCKS * 4096));
    store.submit(collection(0, 0).id, transaction).await.map_err(|error| error.kind)
}

/// A full drive, some of whose objects were removed at one time, and the numbers of the others.
async fn full(rt: &Runtime, geometry: &Geometry) -> (SimDevice, Vec<u64>) {
    let device = format(rt, geometry).await;
    let (store, _) = open(rt, &device).await.unwrap();
    store.create_collection(collection(0, 0)).await.unwrap();
    let (mut numbers, mut removals, mut random) = (Vec::new(), Transaction::new(), Random::new(1));
    while write(&store, numbers.len() as u64).await.is_ok() {
        numbers.push(numbers.len() as u64);
    }
    numbers.retain(|number| {
        let stays = random.chance(0.95);
        if !stays {
            removals.remove(&object(*number));
        }
        stays
    });
    device.set_latency(Duration::from_millis(1));
    store.submit(collection(0, 0).id, removals).await.unwrap();
    (SimDevice::resume(rt, device.kill()), numbers)
}

/// Opens the store, and kills it once so many blocks were copied for writes that wait. Copies are written more slowly than they are read, so that those of a round
/// are named before the next.
async fn cleaned_and_killed(rt: &Runtime, device: SimDevice, copied: u64) -> SimDevice {
    let (store, _) = open(rt, &device).await.unwrap();
    let slow = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::Slow };
    device.set_faults(Faults::new([slow]).sparing((0..store.data_zones().start).map(ZoneId)));
    device.set_latency(Duration::from_micros(100));
    let waits = store.clone();
    rt.spawn_detached(async move {
        let mut number = copied << 20;
        while write(&waits, number).await.is_ok() {
            number += 1;
        }
    });
    for _ in 0..100_000 {
        if store.stats().counters.blocks_copied >= copied {
            return SimDevice::resume(rt, device.kill());
        }
        rt.sleep(Duration::from_millis(1)).await;
    }
    panic!("it is not cleaned: {:?}", store.stats());
}

/// BLU-OPEN-4: each kill leaves a part of the zone that is emptied in a zone of copies. Those are no zones less for other copies.
#[test]
fn kills_while_a_full_store_is_cleaned_leave_room_for_copies() {
    for geometry in [Geometry::hm_smr(ZONE, 29, 0, 12), Geometry::zns(ZONE, ZONE, 29, 9, 9)] {
        Sim::new(1).run(move |rt| async move {
            let (mut device, mut numbers) = full(&rt, &geometry).await;
            // Behind four rounds, two rounds and one.
            for copied in [8_193, 4_097, 2_049] {
                device = cleaned_and_killed(&rt, device, copied).await;
            }
            let (store, _) = open(&rt, &device).await.unwrap();
            let (wrote, stats) = (write(&store, 1 << 20).await, store.stats());
            let fits = stats.stale_bytes >= ZONE.bytes();
            assert!(wrote.is_ok() || !fits, "{geometry:?}: {wrote:?}, {stats:?}");
            numbers.extend(wrote.is_ok().then_some(1 << 20));
            for number in numbers {
                let read = store.read(&object(number), 0, u64::MAX).await.unwrap();
                assert!(read == contents(number, 0, BLOCKS * 4096), "{geometry:?}: {number}");
            }
            assert_eq!(store.check(true).await.unwrap(), [], "{geometry:?}");
        });
    }
}
