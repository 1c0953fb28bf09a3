//! Data that rot or cannot be read: BLU-READ-1, BLU-CHECK-1, BLU-CLEAN-1.

use shingle_base::{Blocks, ZoneId};
use shingle_blue_store::{BlueErrorKind, ObjectId, Transaction};
use shingle_sim::{Random, Sim, SimDevice, contents, seeds};
use shingle_zoned::ZonedDevice;

use crate::common::{fresh, open};
use crate::world::hints;

fn object(number: u64) -> ObjectId {
    ObjectId { hash: 0, ..ObjectId::new(1, format!("{number}")) }
}

/// Blocks of data are changed: reads show no wrong byte, a deep check finds them, and all can be removed.
#[test]
fn no_changed_block_shows_wrong_bytes() {
    let mut found = 0;
    for seed in seeds(40) {
        found += Sim::new(seed).run(move |rt| async move {
            let (device, store, at) = fresh(&rt).await;
            let mut random = Random::new(seed);
            for number in 0..12u64 {
                let mut transaction = Transaction::new();
                transaction.set_hints(&object(number), hints(&mut random));
                for part in 0..3u64 {
                    transaction.append(&object(number), contents(number, part * 20_000, 20_000));
                }
                store.submit(at, transaction).await.unwrap();
            }
            let zones = store.data_zones();
            store.close().await.unwrap();
            let medium = device.kill();
            for _ in 0..1 + random.below(6) {
                let zone = ZoneId(zones.start + random.below(2) as u32);
                let written = medium.image().zone(zone).written;
                if written > Blocks::ZERO {
                    let block = device.geometry().start_of(zone) + Blocks(random.below(written.0));
                    match random.chance(0.7) {
                        true => medium.rot(block, random.number()),
                        false => medium.fail_reads(block, Blocks(1), None),
                    }
                }
            }
            let (store, _) = open(&rt, &SimDevice::resume(&rt, medium)).await.unwrap();
            let mut bad = 0;
            for number in 0..12u64 {
                for from in (0..60_000).step_by(4096) {
                    match store.read(&object(number), from, 4096).await {
                        Ok(read) => assert!(read == contents(number, from, read.len() as u64), "seed {seed}: {number}"),
                        Err(error) => {
                            let kinds = [BlueErrorKind::Corrupt, BlueErrorKind::Device];
                            assert!(kinds.contains(&error.kind), "seed {seed}: {error}");
                            bad += 1;
                        }
                    }
                }
            }
            let damage = store.check(true).await.unwrap();
            assert_eq!(damage.is_empty(), bad == 0, "seed {seed}: {damage:?}");
            assert_eq!(store.check(false).await.unwrap(), [], "seed {seed}: the metadata are whole");
            for number in 0..12 {
                let mut transaction = Transaction::new();
                transaction.remove(&object(number));
                store.submit(at, transaction).await.unwrap();
            }
            assert_eq!(store.stats().live_bytes, 0, "seed {seed}");
            store.close().await.unwrap();
            usize::from(bad > 0)
        });
    }
    assert!(found > 10 || std::env::var_os("SHINGLE_SEED").is_some(), "only {found} images were damaged");
}

/// BLU-OPEN-1: a zone that is shorter than the metadata say is told with the objects in it.
#[test]
fn a_zone_that_lost_its_blocks_is_told() {
    Sim::new(1).run(|rt| async move {
        let (device, store, at) = fresh(&rt).await;
        let mut transaction = Transaction::new();
        transaction.write(&object(1), 0, contents(1, 0, 50_000));
        store.submit(at, transaction).await.unwrap();
        let zone = store.data_zones().start;
        let medium = device.kill();
        let again = SimDevice::resume(&rt, medium);
        again.manage(ZoneId(zone), shingle_zoned::ZoneOp::Reset).await.unwrap();
        let (store, report) = open(&rt, &again).await.unwrap();
        let [short] = &report.short[..] else { panic!("{report:?}") };
        assert_eq!((short.zone, short.named, short.written), (0, 13, 0));
        assert_eq!(short.holders, ["object 1:00000000::1, shard 0"]);
        assert!(store.read(&object(1), 0, 10).await.is_err());
        let mut transaction = Transaction::new();
        transaction.write(&object(2), 0, contents(2, 0, 50_000));
        store.submit(at, transaction).await.unwrap();
        assert_eq!(store.read(&object(2), 0, 60_000).await.unwrap(), contents(2, 0, 50_000));
    });
}
