//! TL-MAPPED-1: answers of a volume about its sectors.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use shingle_base::Blocks;
use shingle_sim::{Sim, SimDevice};
use shingle_store_api::{BlockStore, Durability, MAPPED_SECTORS_MIN};
use shingle_translation::{FormatOptions, Options, Volume};
use shingle_zoned::{Geometry, MemoryDevice};

const SECTOR: u64 = 4096;

/// All sectors of a store that it says are mapped, asked for as far as each answer goes; and the longest answer.
async fn told(store: &dyn BlockStore) -> (u64, u64) {
    let (mut at, mut mapped, mut longest) = (0, 0, 0);
    while at < store.size_bytes() {
        let runs = store.mapped(at, store.size_bytes() - at, usize::MAX).await.unwrap();
        let length: u64 = runs.iter().map(|run| run.length).sum();
        mapped += runs.iter().filter(|run| run.mapped).map(|run| run.length / SECTOR).sum::<u64>();
        assert!(length > 0, "nothing is told at {at}");
        assert!(length / SECTOR >= MAPPED_SECTORS_MIN || at + length == store.size_bytes(), "{length} bytes at {at}");
        longest = longest.max(length / SECTOR);
        at += length;
    }
    (mapped, longest)
}

/// TL-MAPPED-1: extents side by side are one run, so the number of runs bounds nothing.
#[test]
fn a_dense_map_is_told_of_in_parts() {
    Sim::new(1).run(move |rt| async move {
        let geometry = Geometry::hm_smr(Blocks(4096), 40, 0, 8);
        let medium = MemoryDevice::metadata_only(geometry, shingle_record::keep_metadata);
        let device = SimDevice::without_power_cuts(&rt, medium);
        device.set_latency(std::time::Duration::ZERO);
        Volume::format(&rt, Rc::new(device.clone()), FormatOptions::default()).await.unwrap();
        let (volume, _) = Volume::open(&rt, Rc::new(device.clone()), Options::default()).await.unwrap();
        let (empty, longest) = told(&volume).await;
        assert_eq!((empty, longest), (0, volume.size_bytes() / SECTOR), "a hole is told of at once");
        // One sector at a time, in no order: each is an extent.
        let lbas: Vec<u64> = (0..60_000).map(|number| number * 37_633 % 60_000).collect();
        let one = Bytes::from(vec![1; SECTOR as usize]);
        for some in lbas.chunks(64) {
            let put = |lba: &u64| volume.write(lba * SECTOR, vec![one.clone()], Durability::Cached);
            try_join_all(some.iter().map(put)).await.unwrap();
        }
        assert!(volume.stats().extents > 50_000, "{} extents", volume.stats().extents);
        volume.take_snapshot("then").await.unwrap();
        let then = volume.at_snapshot("then").unwrap();
        for store in [&volume as &dyn BlockStore, &then] {
            let (mapped, longest) = told(store).await;
            assert_eq!(mapped, 60_000);
            // The sectors behind the dense part are told of together with its end.
            let behind = volume.size_bytes() / SECTOR - 60_000;
            assert!(longest < 30_000 + behind, "{longest} sectors were looked up at once");
            let first = store.mapped(0, 60_000 * SECTOR, usize::MAX).await.unwrap();
            assert!(first[0].length < 30_000 * SECTOR, "{first:?}");
        }
    });
}
