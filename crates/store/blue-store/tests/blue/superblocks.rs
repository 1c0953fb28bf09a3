//! BLU-SB-1: the superblock's two zones, either of which may be lost.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, ZoneId};
use shingle_blue_store::{Access, ENGINE, Hints, ObjectId, Store, Transaction};
use shingle_record::{Superblock, read_superblock_copies, write_superblock};
use shingle_runtime::{Runtime, UnixTime};
use shingle_sim::{Sim, SimDevice};
use shingle_zone_files::{FormatOptions, ZoneFiles};
use shingle_zoned::{Geometry, Share, ZoneRange, ZoneState, ZonedDevice};

use crate::common::{collection, device, format, open, options};

/// Harm to a zone of superblocks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Harm {
    Unreadable,
    Rotten,
    ReadOnly,
    Offline,
}

fn harm(device: &SimDevice, zone: ZoneId, harm: Harm) {
    let (medium, at) = (device.medium(), device.geometry().start_of(zone));
    match harm {
        Harm::Unreadable => medium.fail_reads(at, Blocks(2), None),
        Harm::Rotten => (0..2).for_each(|block| (0..300).for_each(|seed| medium.rot(at + Blocks(block), seed))),
        Harm::ReadOnly => medium.set_state(zone, ZoneState::ReadOnly),
        Harm::Offline => medium.set_state(zone, ZoneState::Offline),
    }
}

fn object() -> ObjectId {
    ObjectId::new(1, "one")
}

async fn write(store: &Store) {
    let info = collection(0, 0);
    store.create_collection(info).await.unwrap();
    let mut transaction = Transaction::new();
    transaction.set_hints(&object(), Hints { access: Access::Random, ..Hints::default() });
    transaction.write(&object(), 0, Bytes::from(vec![7; 100_000]));
    store.submit(info.id, transaction).await.unwrap();
}

async fn holds_all(store: &Store) -> bool {
    store.read(&object(), 0, u64::MAX).await.is_ok_and(|read| read == vec![7; 100_000])
}

/// BLU-SB-1, RC-SB-4.
#[test]
fn either_zone_of_superblocks_is_enough_and_the_other_is_made_anew() {
    for seed in 0..16 {
        println!("seed {seed}");
        let (conventional, at) = (seed as u32 % 3, seed as u32 / 4 % 2);
        let done = [Harm::Unreadable, Harm::Rotten, Harm::ReadOnly, Harm::Offline][seed as usize % 4];
        let geometry = match seed / 8 {
            0 => Geometry::hm_smr(Blocks(64), 50, conventional, 12),
            _ => Geometry::zns(Blocks(64), Blocks(60), 50, 9, 9),
        };
        Sim::new(seed).run(move |rt| async move {
            let device = format(&rt, &geometry).await;
            let (store, _) = open(&rt, &device).await.unwrap();
            write(&store).await;
            store.close().await.unwrap();

            let zones = [0, 1].map(|zone| ZoneId(geometry.conventional_zones + zone));
            let (one, other) = (zones[at as usize], zones[1 - at as usize]);
            harm(&device, one, done);
            let (store, _) = Store::examine(&rt, Rc::new(device.clone()), options()).await.unwrap();
            assert!(holds_all(&store).await);
            store.close().await.unwrap();
            let (store, _) = open(&rt, &device).await.unwrap();
            assert!(holds_all(&store).await);
            store.close().await.unwrap();
            if matches!(done, Harm::Unreadable | Harm::Rotten) {
                // It was made anew, so the other one is not needed.
                harm(&device, other, Harm::Offline);
                let (store, _) = open(&rt, &device).await.unwrap();
                assert!(holds_all(&store).await);
                store.close().await.unwrap();
            }
        });
    }
}

/// A store as versions 1 and 2 were made, with one zone of superblocks.
async fn format_of_version_2(rt: &Runtime, device: &SimDevice) {
    let dev: Rc<dyn ZonedDevice> = Rc::new(device.clone());
    let share = Share { open_zones_max: Some(8), active_zones_max: None };
    let meta = ZoneRange::new(dev.clone(), ZoneId(1), 21, share).await.unwrap();
    let store = Some(shingle_base::StoreId(9));
    let formatted = FormatOptions { force: true, store, ..Default::default() };
    ZoneFiles::format(rt, Rc::new(meta), formatted).await.unwrap();
    let mut payload = Vec::new();
    [64_u64, 64].iter().for_each(|number| payload.extend(number.to_le_bytes()));
    [50_u32, 21, 8, 65_536, 0].iter().for_each(|number| payload.extend(number.to_le_bytes()));
    let superblock = Superblock {
        store: shingle_base::StoreId(9),
        engine: ENGINE,
        version: 2,
        formatted: UnixTime::default(),
        payload: payload.into(),
    };
    write_superblock(&dev, ZoneId(0), &superblock).await.unwrap();
}

#[test]
fn a_store_of_version_2_stays_as_it_is() {
    Sim::new(1).run(|rt| async move {
        let device = device(&rt, &Geometry::hm_smr(Blocks(64), 50, 0, 12));
        format_of_version_2(&rt, &device).await;
        let (store, _) = open(&rt, &device).await.unwrap();
        assert_eq!(store.data_zones().start, 22);
        write(&store).await;
        store.close().await.unwrap();
        let (store, _) = open(&rt, &device).await.unwrap();
        assert!(holds_all(&store).await);
        store.close().await.unwrap();
        let dev: Rc<dyn ZonedDevice> = Rc::new(device);
        assert_eq!(read_superblock_copies(&dev, ZoneId(0)).await.unwrap().0.version, 2);
    });
}
