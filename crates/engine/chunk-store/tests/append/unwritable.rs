//! A drive that takes no writes any more, as a file does whose file system is full: what it holds is read all the same.

use crate::common::{formatted, options};
use bytes::Bytes;
use shingle_base::{Blocks, ChunkId};
use shingle_chunk_store::{ErrorKind, Stream};
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
            let (store, _) = crate::common::open(&rt, &device, options).await;
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
