//! Bytes that are spoilt on their way from the drive: BLU-READ-1, BLU-CLEAN-1.

use std::rc::Rc;
use std::time::Duration;

use shingle_base::ZoneId;
use shingle_blue_store::{BlueErrorKind, ObjectId, Options, Store, Transaction};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, contents, seeds};

use crate::common::{collection, format, fresh, geometry, open, options};

fn object(number: u64) -> ObjectId {
    ObjectId::new(1, format!("{number}"))
}

/// Reads of data are spoilt; those of the metadata are not.
fn spoil(device: &SimDevice, store: &Store, trigger: Trigger, fault: Fault) {
    let spared = (0..store.data_zones().start).map(ZoneId);
    device.set_faults(Faults::new([FaultRule { trigger, fault }]).sparing(spared));
}

/// BLU-READ-1.
#[test]
fn a_read_that_was_spoilt_on_the_way_is_made_again() {
    for fault in [Fault::BitFlip, Fault::Misdirected] {
        Sim::new(1).run(move |rt| async move {
            let device = format(&rt, &shingle_zoned::Geometry::hm_smr(shingle_base::Blocks(128), 60, 0, 16)).await;
            let cacheless = Options { cache_bytes: 0, ..options() };
            let (store, _) = Store::open(&rt, Rc::new(device.clone()), cacheless).await.unwrap();
            let info = collection(0, 0);
            store.create_collection(info).await.unwrap();
            for number in 0..2 {
                let mut transaction = Transaction::new();
                transaction.write(&object(number), 0, contents(number, 0, 100_000));
                store.submit(info.id, transaction).await.unwrap();
            }
            spoil(&device, &store, Trigger::Nth(CommandKind::Read, 0), fault);
            assert_eq!(store.read(&object(1), 0, 100_000).await.unwrap(), contents(1, 0, 100_000));
            assert_eq!(device.faults().injected().len(), 1);
            spoil(&device, &store, Trigger::Rate(CommandKind::Read, 1.0), Fault::BitFlip);
            assert_eq!(store.read(&object(1), 0, 100_000).await.unwrap_err().kind, BlueErrorKind::Corrupt);
        });
    }
}

/// BLU-CLEAN-1: whatever the cleaner reads, the drive's good bytes stay.
#[test]
fn a_cleaner_that_reads_spoilt_bytes_spoils_none() {
    let (mut cleaned, mut hit) = (0, 0);
    for seed in seeds(12) {
        let (some, faults) = Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let device = format(&rt, &geometry(&mut random)).await;
            let (store, _) = open(&rt, &device).await.unwrap();
            let info = collection(0, 0);
            store.create_collection(info).await.unwrap();
            let rate = Trigger::Rate(CommandKind::Read, if random.chance(0.5) { 0.1 } else { 0.4 });
            let kinds = [Fault::BitFlip, Fault::Misdirected, Fault::ReadError];
            spoil(&device, &store, rate, kinds[random.below(3) as usize]);
            let objects = store.stats().capacity_bytes / 2 / 30_000;
            let mut sizes = vec![None; objects as usize];
            for number in 0..objects * 12 {
                let name = random.below(objects);
                let mut transaction = Transaction::new();
                let length = 9_000 + random.below(40_000);
                transaction.touch(&object(name)).remove(&object(name));
                transaction.write(&object(name), 0, contents(number, 0, length));
                match store.submit(info.id, transaction).await {
                    Ok(()) => sizes[name as usize] = Some((number, length)),
                    // Zones whose bytes could not be read are not emptied for some time.
                    Err(error) => assert_eq!(error.kind, BlueErrorKind::NoSpace, "seed {seed}: {error}"),
                }
            }
            let faults = device.faults().injected().len();
            device.set_faults(Faults::default());
            for (name, written) in sizes.into_iter().enumerate() {
                let Some((number, length)) = written else { continue };
                let read = store.read(&object(name as u64), 0, u64::MAX).await;
                let read = read.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                assert!(read == contents(number, 0, length), "seed {seed}: {name}");
            }
            assert_eq!(store.check(true).await.unwrap(), [], "seed {seed}");
            (store.stats().counters.blocks_copied, faults)
        });
        cleaned += some;
        hit += faults;
    }
    assert!(cleaned > 500 && hit > 100 || std::env::var_os("SHINGLE_SEED").is_some(), "{cleaned} copied, {hit} hit");
}

/// BLU-CLEAN-1: a zone whose bytes could not be read is left alone for an hour, and then tried again.
#[test]
fn a_zone_that_could_not_be_read_is_tried_again_later() {
    for fault in [Fault::BitFlip, Fault::ReadError] {
        Sim::new(1).run(move |rt| async move {
            let (device, store, at) = fresh(&rt).await;
            spoil(&device, &store, Trigger::Rate(CommandKind::Read, 1.0), fault);
            for number in 0..160 {
                let mut transaction = Transaction::new();
                transaction.write(&object(number), 0, contents(number, 0, 100_000));
                store.submit(at, transaction).await.unwrap();
            }
            for number in (0..160).filter(|number| number % 5 > 0) {
                let mut transaction = Transaction::new();
                transaction.remove(&object(number));
                store.submit(at, transaction).await.unwrap();
            }
            let touch = async |rounds: u64| {
                for round in 0..rounds {
                    rt.sleep(Duration::from_secs(30)).await;
                    let mut transaction = Transaction::new();
                    transaction.omap_set(&object(0), b"round", round.to_le_bytes().to_vec());
                    store.submit(at, transaction).await.unwrap();
                }
            };
            touch(5).await;
            let (tried, free) = (device.faults().injected().len(), store.stats().zones_free);
            assert!(tried > 20, "{tried} reads");
            touch(60).await;
            assert_eq!((device.faults().injected().len(), store.stats().zones_free), (tried, free), "it is left alone");
            device.set_faults(Faults::default());
            touch(70).await;
            assert!(store.stats().zones_free > free, "{:?}", store.stats());
            assert_eq!(store.check(true).await.unwrap(), []);
        });
    }
}
