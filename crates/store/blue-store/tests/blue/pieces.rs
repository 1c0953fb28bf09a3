//! Tables are written and read in pieces, while batches go on: BLU-LOG-4.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_blue_store::kv::{Batch, KeyValue};
use shingle_sim::{Random, Sim, SimDevice, Survival};
use shingle_zoned::Geometry;

use crate::kv::{Map, all, fresh, open_with};

fn key(number: u64) -> Bytes {
    format!("k{number:05}").into()
}

/// BLU-LOG-4: a table of many keys is written in many steps, and batches between them are not in it twice.
#[test]
fn batches_go_on_while_a_table_is_written() {
    const KEYS: u64 = 20_000;
    Sim::new(1).run(|rt| async move {
        let device = fresh(&rt, &Geometry::hm_smr(Blocks(256), 30, 0, 8)).await;
        let kv = open_with(&rt, &device, 800_000).await.unwrap();
        for from in (0..KEYS).step_by(1000) {
            let mut batch = Batch::default();
            (from..from + 1000).for_each(|number| batch.put(key(number), "some value of a key"));
            kv.write(batch).await.unwrap();
        }
        let ended = Rc::new(Cell::new(false));
        let (kv, other, until) = (Rc::new(kv), rt.clone(), ended.clone());
        let store = kv.clone();
        let writing = rt.spawn(async move {
            let (mut random, mut batches) = (Random::new(2), 0u64);
            while !until.get() {
                let mut batch = Batch::default();
                batch.put(key(random.below(KEYS * 2)), "another value");
                batch.delete(key(random.below(KEYS)));
                batch.merge("+sum", 1u64.to_le_bytes().to_vec());
                store.write(batch).await.unwrap();
                batches += 1;
                other.yield_now().await;
            }
            batches
        });
        let mut compaction = pin!(kv.compact());
        let mut steps = 0;
        let compacted = std::future::poll_fn(|context| {
            steps += 1;
            compaction.as_mut().poll(context)
        });
        compacted.await.unwrap();
        ended.set(true);
        let batches = writing.await.unwrap();
        assert!(steps > 20 && batches > 10, "{steps} steps, {batches} batches");
        let expected: Map = all(&kv).await;
        assert_eq!(expected.get(&b"+sum"[..]).unwrap()[..], batches.to_le_bytes());
        let again = SimDevice::new(&rt, &device.crash_image_with(1, Survival::Prefix));
        let kv = open_with(&rt, &again, 800_000).await.unwrap();
        assert!(all(&kv).await == expected, "other keys");
    });
}

#[test]
fn records_that_are_longer_than_a_piece_come_back() {
    Sim::new(1).run(|rt| async move {
        let device = fresh(&rt, &Geometry::hm_smr(Blocks(512), 60, 0, 8)).await;
        let kv = open_with(&rt, &device, 60 << 20).await.unwrap();
        let mut random = Random::new(1);
        for length in [3 << 20, 10, 524_270, 524_288, 1 << 20, 0, 700_000] {
            let mut batch = Batch::default();
            batch.put(format!("{length}"), random.bytes(length));
            kv.write(batch).await.unwrap();
        }
        let expected = all(&kv).await;
        for compacted in [false, true] {
            if compacted {
                kv.compact().await.unwrap();
            }
            let again = SimDevice::new(&rt, &device.crash_image_with(1, Survival::Prefix));
            let kv = open_with(&rt, &again, 60 << 20).await.unwrap();
            assert!(all(&kv).await == expected, "other keys, compacted: {compacted}");
        }
    });
}

/// The longest steps with a million keys, in real time: of a table that is written, and of an opening.
#[test]
#[ignore = "takes time, and tells figures"]
#[expect(clippy::disallowed_methods, reason = "real time is what it tells")]
fn longest_steps_of_a_million_keys() {
    use std::time::{Duration, Instant};
    async fn longest<T>(call: impl Future<Output = T>) -> (T, Duration, u64) {
        let (mut call, mut longest, mut steps) = (pin!(call), Duration::ZERO, 0);
        let done = std::future::poll_fn(|context| {
            let begun = Instant::now();
            let polled = call.as_mut().poll(context);
            longest = longest.max(begun.elapsed());
            steps += 1;
            polled
        });
        (done.await, longest, steps)
    }
    Sim::new(1).run(|rt| async move {
        let device = fresh(&rt, &Geometry::hm_smr(Blocks(4096), 80, 0, 8)).await;
        let kv = open_with(&rt, &device, 40 << 20).await.unwrap();
        for from in (0..1_000_000).step_by(1000) {
            let mut batch = Batch::default();
            (from..from + 1000u64).for_each(|number| batch.put(format!("key {number:016}"), vec![7; 100]));
            kv.write(batch).await.unwrap();
        }
        let (compacted, most, steps) = longest(kv.compact()).await;
        compacted.unwrap();
        println!("a table of 1,000,000 keys: longest step {most:?} of {steps}");
        drop(kv);
        let again = SimDevice::resume(&rt, device.kill());
        let (opened, most, steps) = longest(open_with(&rt, &again, 40 << 20)).await;
        println!("an opening of {} keys: longest step {most:?} of {steps}", opened.unwrap().keys());
    });
}
