//! Layers beside a map of blocks in memory: what is read is what was written last, while they clean.

use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::{AlignedBuf, Blocks};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_store_api::{BlockStore, Durability, StoreResult};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

const BLOCK: usize = 4096;

/// Makes small drives that keep data.
pub(super) fn zoned(conventional: u32, zones: u32) -> impl Fn(&Runtime) -> Rc<dyn ZonedDevice> + Copy {
    move |rt| {
        let geometry = Geometry::hm_smr(Blocks(64), zones, conventional, 8);
        Rc::new(SimDevice::new(rt, &MemoryDevice::new(geometry)))
    }
}

fn contents(block: u64, write: u64) -> Vec<u8> {
    let word = if write == 0 { 0 } else { block << 32 | write };
    word.to_le_bytes().into_iter().cycle().take(BLOCK).collect()
}

/// Makes a layer on a drive.
type Open = fn(&Runtime, Rc<dyn ZonedDevice>) -> StoreResult<Rc<dyn BlockStore>>;

/// Writes, trims and reads a layer, several calls at once, far more than it holds.
pub(super) fn lives_up_to_its_model(device: impl Fn(&Runtime) -> Rc<dyn ZonedDevice> + Copy + 'static, open: Open) {
    for seed in 1..=3 {
        Sim::new(seed).run(move |rt| async move {
            let store = open(&rt, device(&rt)).unwrap();
            let mut random = Random::new(seed);
            let blocks = store.size_bytes() / BLOCK as u64;
            let mut model = vec![0u64; blocks as usize];
            for step in 1..=700u64 {
                // Calls at once do not overlap: each has its own quarter.
                let calls = (0..4).map(|quarter| {
                    let (from, room) = (blocks / 4 * quarter, blocks / 4);
                    let most = if random.chance(0.1) { room.min(100) } else { 6 };
                    let count = 1 + random.below(most);
                    // Streams, too.
                    let at = if random.chance(0.3) { step * 3 % (room - count) } else { random.below(room - count) };
                    (from + at, count, random.below(10))
                });
                let calls: Vec<_> = calls.collect();
                for &(at, count, kind) in &calls {
                    let value = if kind < 6 { step } else { 0 };
                    if kind < 7 {
                        model[at as usize..(at + count) as usize].fill(value);
                    }
                }
                let done = join_all(calls.into_iter().map(|call| perform(&*store, call, step, &model))).await;
                assert!(done.into_iter().all(|good| good), "seed {seed}, step {step}");
            }
            for block in 0..blocks {
                let read = store.read(block * BLOCK as u64, BLOCK as u64).await.unwrap();
                assert!(read == contents(block, model[block as usize]), "seed {seed}, block {block}");
            }
        });
    }
}

async fn perform(store: &dyn BlockStore, (at, count, kind): (u64, u64, u64), step: u64, model: &[u64]) -> bool {
    let (offset, length) = (at * BLOCK as u64, count * BLOCK as u64);
    match kind {
        0..6 => {
            let mut bytes = AlignedBuf::builder(Blocks(count));
            (at..at + count).for_each(|block| bytes.extend(&contents(block, step)));
            let durability = if kind == 0 { Durability::Durable } else { Durability::Cached };
            store.write(offset, vec![bytes.finish()], durability).await.unwrap();
            true
        }
        6 => {
            store.trim(offset, length).await.unwrap();
            true
        }
        7 => {
            store.flush().await.unwrap();
            true
        }
        _ => {
            let read = store.read(offset, length).await.unwrap();
            let expected = (at..at + count).flat_map(|block| contents(block, model[block as usize]));
            read == expected.collect::<Vec<_>>()
        }
    }
}
