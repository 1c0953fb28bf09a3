//! Cost of the choice of victims, on loads of which the best choice is known.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::{Blocks, ChunkId};
use shingle_chunk_store::{
    ChunkStore, CostBenefit, ExpectedDeath, FormatOptions, Greedy, Options, PoolSizes, Stream, VictimPolicy,
};
use shingle_sim::{Random, Sim, SimDevice};
use shingle_zoned::{Geometry, MemoryDevice};

/// Pattern of chunks' deaths.
#[derive(Clone, Copy, Debug)]
enum Deaths {
    /// Any chunk, drawn at random.
    Memoryless,
    /// Of ten chunks nine die after some hundred others were written, one lives on for long.
    YoungOrOld,
}

/// The write amplification of small chunks of one stream on a drive that is 85 % full.
fn amplification(victims: Rc<dyn VictimPolicy>, deaths: Deaths) -> f64 {
    const ZONES: u32 = 120;
    const CHUNKS: usize = 8 * ZONES as usize * 75 / 100;
    Sim::new(7).run(move |rt| async move {
        let geometry = Geometry::hm_smr(Blocks(64), ZONES + 8, 0, 16);
        let medium = MemoryDevice::metadata_only(geometry, shingle_record::keep_metadata);
        let device = Rc::new(SimDevice::new(&rt, &medium));
        ChunkStore::format(&rt, device.clone(), &FormatOptions::default()).await.unwrap();
        let options = Options {
            victims,
            pools: PoolSizes { gc: 1, data: 1, meta: 1 },
            gc_idle_after: None,
            landing: None,
            hollow: true,
            ..Options::default()
        };
        let (store, _) = ChunkStore::open(&rt, device, options).await.unwrap();
        let mut random = Random::new(3);
        let data = Bytes::from(vec![0; 24_000]);
        let (mut young, mut old) = (std::collections::VecDeque::new(), Vec::new());
        let mut before = store.counters();
        for number in 0..12_000u64 {
            let id = ChunkId::from_u64(number);
            store.create(id, Stream::Meta).await.unwrap();
            store.append(id, 0, vec![data.clone()]).await.unwrap();
            store.seal(id).await.unwrap();
            match deaths {
                Deaths::YoungOrOld if random.chance(0.9) => young.push_back(id),
                _ => old.push(id),
            }
            // The young are many, but few at any time.
            while young.len() > CHUNKS / 4 {
                store.delete(young.pop_front().unwrap()).await.unwrap();
            }
            while young.len() + old.len() > CHUNKS {
                let at = random.below(old.len() as u64) as usize;
                store.delete(old.swap_remove(at)).await.unwrap();
            }
            rt.sleep(Duration::from_millis(1)).await;
            if number == 6000 {
                before = store.counters();
            }
        }
        let now = store.counters();
        let written = (now.written_bytes - before.written_bytes) as f64;
        let moved = (now.gc_written_bytes - before.gc_written_bytes) as f64;
        assert!(now.gc_zones > 100, "GC had nothing to do");
        (written + moved) / written
    })
}

#[test]
fn expected_death_moves_least_where_lives_differ_and_hardly_more_where_they_do_not() {
    let of = |deaths| {
        let greedy = amplification(Rc::new(Greedy), deaths);
        let cost_benefit = amplification(Rc::new(CostBenefit), deaths);
        let expected = amplification(Rc::new(ExpectedDeath), deaths);
        println!("{deaths:?}: greedy {greedy:.3}, cost-benefit {cost_benefit:.3}, expected death {expected:.3}");
        (greedy, cost_benefit, expected)
    };
    let (greedy, _, expected) = of(Deaths::YoungOrOld);
    assert!(expected < greedy, "{expected} and {greedy}");
    let (greedy, _, expected) = of(Deaths::Memoryless);
    assert!(expected < 1.05 * greedy, "{expected} and {greedy}");
}
