//! Closing a store: its drive is free for the next.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{content, formatted, open};
use futures_util::future::{join, select};
use shingle_base::{Blocks, ChunkId, ZoneId};
use shingle_chunk_store::{ChunkStore, Landing, Options, Stream};
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_zoned::{Geometry, ZoneInfo, ZonedDevice};

const SIZE: u64 = 60_000;

fn busy(seed: u64) -> Options {
    let landing =
        Landing { append_max: 5000, budget: 20_000, zones: 2, idle: Duration::from_millis(1), everywhere: true };
    Options {
        gc_start: 0.0,
        gc_idle_after: None,
        landing: seed.is_multiple_of(2).then_some(landing),
        mark_every: Some(1),
        checkpoint_every: Duration::from_millis(20),
        ..Options::default()
    }
}

/// State of the drive: where each zone ends, and the commands so far that may change it.
async fn look(device: &SimDevice) -> (Vec<ZoneInfo>, u64) {
    let zones = device.report(ZoneId(0), u32::MAX).await.unwrap();
    (zones, device.counts().writes.0)
}

/// CS-CLOSE-1: callers go away, GC moves, zones are reset and marks written while the store is closed, by two callers, the first of which
/// may go away.
#[test]
fn a_store_that_was_closed_is_done_with_its_drive() {
    let mut worked = 0;
    for seed in seeds(40) {
        let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
        worked += Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, busy(seed)).await;
            device.set_latency(Duration::from_micros(200));
            let mut kept = Vec::new();
            for number in 0..60 {
                let id = ChunkId::from_u64(number);
                store.create(id, Stream::Data).await.unwrap();
                store.append(id, 0, vec![Bytes::from(content(number, 0, SIZE))]).await.unwrap();
                if number % 3 == 0 { kept.push(number) } else { store.delete(id).await.unwrap() }
            }
            let collector = store.clone();
            rt.spawn_detached(async move { drop(collector.gc(100, |_| {}).await) });
            for _ in 0..1000 {
                if store.gc_status().victim.is_none() {
                    rt.sleep(Duration::from_micros(50)).await;
                }
            }
            rt.sleep(Duration::from_micros(random.below(3000))).await;
            let worked = u64::from(store.gc_status().victim.is_some());
            let given_up: Vec<_> = (100..110)
                .map(|number| {
                    let store = store.clone();
                    rt.spawn(async move { drop(store.create(ChunkId::from_u64(number), Stream::Meta).await) })
                })
                .collect();
            drop(given_up);
            if random.chance(0.5) {
                let pause = Box::pin(rt.sleep(Duration::from_micros(random.below(3000))));
                drop(select(Box::pin(store.close()), pause).await);
            }
            let closed = |store: &ChunkStore| {
                let (store, device) = (store.clone(), device.clone());
                async move {
                    store.close().await.unwrap();
                    let found = look(&device).await;
                    (found, device.crash_image(seed))
                }
            };
            let ((first, _), (second, image)) = join(closed(&store), closed(&store)).await;
            rt.sleep(Duration::from_secs(60)).await;
            let after = look(&device).await;
            assert!(first == after && second == after, "seed {seed}: CS-CLOSE-1");
            let (store, report) = open(&rt, &SimDevice::new(&rt, &image), busy(seed)).await;
            assert_eq!(report.damage, [], "seed {seed}");
            for number in kept {
                let read = store.read(ChunkId::from_u64(number), 0, SIZE).await;
                let bytes = read.unwrap_or_else(|error| panic!("seed {seed}: chunk {number}: {error}"));
                assert!(bytes == content(number, 0, SIZE), "seed {seed}: chunk {number}");
            }
            worked
        });
    }
    assert!(worked > 5, "GC was at work {worked} times");
}
