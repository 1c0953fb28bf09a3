//! Zones that cannot be reset for a while.

use std::time::Duration;

use crate::common::{content, formatted, open};
use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_base::{Blocks, ChunkId, ZoneId};
use shingle_chunk_store::{ChunkStore, ErrorKind, Options, Stream, ZoneStatus};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::Geometry;

fn quiet() -> Options {
    Options { background: false, landing: None, ..Options::default() }
}

/// Writes a chunk of most of a zone, and deletes it. Fails if there is no space within a minute.
async fn use_a_zone(rt: &Runtime, store: &ChunkStore, number: u64) -> shingle_chunk_store::Result<()> {
    let id = ChunkId::from_u64(number);
    store.create(id, Stream::Data).await.unwrap();
    let append = store.append(id, 0, vec![Bytes::from(content(number, 0, 200_000))]);
    let appended = match select(Box::pin(append), Box::pin(rt.sleep(Duration::from_secs(60)))).await {
        Either::Left((appended, _)) => appended,
        Either::Right(_) => panic!("append {number} waits"),
    };
    store.delete(id).await.unwrap();
    appended.map(drop)
}

fn count(store: &ChunkStore, status: ZoneStatus) -> usize {
    store.zones().iter().filter(|zone| zone.status == status).count()
}

/// CS-ZONE-6: some resets fail, and so do all for a while. The drive says nothing of the zones, so all of them are used
/// again. Meanwhile appends are refused, and wait for none of them.
#[test]
fn a_reset_that_fails_for_a_while_costs_no_zone() {
    for seed in seeds(6) {
        let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
        Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, quiet()).await;
            let fails = |share| {
                let rule = FaultRule { trigger: Trigger::Rate(CommandKind::Reset, share), fault: Fault::CommandError };
                Faults::new([rule]).sparing((0..7).map(ZoneId))
            };
            device.set_faults(fails(0.3));
            for number in 0..100 {
                use_a_zone(&rt, &store, number).await.unwrap_or_else(|error| panic!("seed {seed}, {number}: {error}"));
            }
            device.set_faults(fails(1.0));
            let mut number = 100;
            let refused = loop {
                match use_a_zone(&rt, &store, number).await {
                    Ok(()) => number += 1,
                    Err(error) => break error,
                }
            };
            assert_eq!(refused.kind, ErrorKind::NoSpace, "seed {seed}: {refused}");
            assert!(number < 150, "seed {seed}: no zone was missing");
            device.set_faults(Faults::default());
            rt.sleep(Duration::from_secs(30)).await;
            assert_eq!(count(&store, ZoneStatus::ReadOnly), 0, "seed {seed}: CS-ZONE-6");
            for number in 200..300 {
                use_a_zone(&rt, &store, number).await.unwrap_or_else(|error| panic!("seed {seed}, {number}: {error}"));
            }
            assert_eq!(count(&store, ZoneStatus::Closed), 0, "seed {seed}: a zone is never used again");
        });
    }
}
