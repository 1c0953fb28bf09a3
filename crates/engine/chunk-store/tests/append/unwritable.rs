//! A drive that takes no writes any more, as a file does whose file system is full: what it holds is read all the same, and nobody waits for it.

use std::time::Duration;

use crate::common::{content, formatted, open, options};
use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_base::{Blocks, ChunkId, ZoneId};
use shingle_chunk_store::{ErrorKind, Options, Stream};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::Geometry;

#[test]
fn a_store_that_can_write_no_more_still_reads() {
    for seed in seeds(20) {
        let mut random = Random::new(seed);
        let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
        let options = options(&mut random);
        Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, options).await;
            let (id, data) = (ChunkId([1; 24]), Bytes::from(vec![7; 20_000]));
            store.create(id, Stream::Data).await.unwrap();
            store.append(id, 0, vec![data.clone()]).await.unwrap();
            let fails = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::CommandError };
            device.set_faults(Faults::new([fails]));
            store.create(ChunkId([2; 24]), Stream::Data).await.unwrap_err();
            let stopped = store.create(ChunkId([3; 24]), Stream::Data).await.unwrap_err();
            assert_eq!(stopped.kind, ErrorKind::Stopped, "seed {seed}: {stopped}");
            assert_eq!(store.read(id, 0, 20_000).await.unwrap(), data, "seed {seed}");
        });
    }
}

/// CS-ZONE-7: the drive takes writes of its log, and resets, and fails all else for ten minutes. Appends are refused, and so are those
/// that wait when the store is closed; the drive is left alone but for a try once in a while. Afterwards all is as before.
#[test]
fn a_drive_that_fails_all_writes_of_data_holds_up_nobody() {
    for background in [false, true] {
        let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, Options { background, ..Options::default() }).await;
            let id = ChunkId::from_u64(1);
            store.create(id, Stream::Data).await.unwrap();
            let fails = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::WriteError };
            device.set_faults(Faults::new([fails]).sparing((0..7).map(ZoneId)));
            let append = |id| {
                let append = store.append(id, 0, vec![Bytes::from(content(1, 0, 9000))]);
                select(Box::pin(append), Box::pin(rt.sleep(Duration::from_secs(60))))
            };
            for number in 2..12 {
                let id = ChunkId::from_u64(number);
                store.create(id, Stream::Data).await.unwrap();
                let Either::Left((refused, _)) = append(id).await else { panic!("append {number} waits") };
                assert_eq!(refused.unwrap_err().kind, ErrorKind::Device);
            }
            let before = device.counts().writes.0;
            rt.sleep(Duration::from_secs(600)).await;
            let writes = device.counts().writes.0 - before;
            assert!(writes < 3000, "{writes} writes in ten minutes");
            device.set_faults(Faults::default());
            rt.sleep(Duration::from_secs(20)).await;
            let Either::Left((appended, _)) = append(id).await else { panic!("an append waits") };
            assert_eq!(appended.unwrap(), 9000);
            device.set_faults(Faults::new([fails]).sparing((0..7).map(ZoneId)));
            let closed = select(Box::pin(store.close()), Box::pin(rt.sleep(Duration::from_secs(60)))).await;
            assert!(matches!(closed, Either::Left(_)), "a close waits");
        });
    }
}
