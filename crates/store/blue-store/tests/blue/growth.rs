//! Cost of a drive's size: BLU-OPEN-3.

use std::rc::Rc;

use shingle_base::Blocks;
use shingle_blue_store::{FormatOptions, ObjectId, Store, Transaction};
use shingle_sim::{Sim, contents};
use shingle_zoned::Geometry;

use crate::common::{collection, device, open};

/// Commands of a format, of the first opening, of a close, and of an opening behind it, on a drive of so many zones of 256 MiB.
fn commands(geometry: Geometry) -> [u64; 4] {
    Sim::new(1).run(|rt| async move {
        let device = device(&rt, &geometry);
        let mut counted = 0;
        let mut since = || {
            let all = device.counts().commands;
            all - std::mem::replace(&mut counted, all)
        };
        Store::format(&rt, Rc::new(device.clone()), FormatOptions::default()).await.unwrap();
        let format = since();
        let (store, _) = open(&rt, &device).await.unwrap();
        let first = since();
        let info = collection(0, 0);
        store.create_collection(info).await.unwrap();
        let mut transaction = Transaction::new();
        transaction.write(&ObjectId::new(1, "one"), 0, contents(1, 0, 100_000));
        store.submit(info.id, transaction).await.unwrap();
        since();
        store.close().await.unwrap();
        let close = since();
        let (store, _) = open(&rt, &device).await.unwrap();
        let second = since();
        store.close().await.unwrap();
        [format, first, close, second]
    })
}

/// BLU-OPEN-3, on the drives of the dissertation and on one of a thousandth of their zones.
#[test]
fn a_large_drive_takes_no_more_commands_than_a_small_one() {
    let zone = Blocks(65_536);
    for (small, large) in [
        (Geometry::hm_smr(zone, 60, 0, 128), Geometry::hm_smr(zone, 52_156, 524, 128)),
        (Geometry::zns(zone, zone, 60, 14, 14), Geometry::zns(zone, zone, 52_156, 14, 14)),
    ] {
        let (small, large) = (commands(small), commands(large));
        for (step, (small, large)) in
            ["format", "opening", "close", "second opening"].iter().zip(small.iter().zip(&large))
        {
            assert!(
                *large <= small + 2 && *large < 60,
                "{step}: {large} commands on a large drive, and {small} on a small one"
            );
        }
    }
}
