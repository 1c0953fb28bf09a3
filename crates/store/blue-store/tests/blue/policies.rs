//! The choice of the zone that is cleaned: the paper's greedy one beside cost and benefit, under the same load. (Dissertation, section
//! 5.7.1, ZonedCleaner.)

use std::rc::Rc;

use shingle_base::Blocks;
use shingle_blue_store::{Hints, Lifetime, ObjectId, Options, Placement, Store, Transaction, Victims};
use shingle_sim::{Random, Sim, contents, seeds};
use shingle_zoned::Geometry;

use crate::common::{collection, format, options};

/// Bytes of an object: eight blocks, written at once.
const LENGTH: u64 = 32 << 10;

/// A load of overwrites.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// Percent of the room that objects take.
    fill: u64,
    /// Percent of the objects that get nine of ten overwrites; zero if all are as likely.
    hot: u64,
    /// The store knows which.
    hints: bool,
    seed: u64,
}

/// Blocks that were copied for each that was written, once each zone was written twice.
fn copied(load: Load, victims: Victims) -> f64 {
    let Load { fill, hot, hints, seed } = load;
    Sim::new(seed).run(move |rt| async move {
        let device = format(&rt, &Geometry::hm_smr(Blocks(64), 143, 0, 16)).await;
        let options = Options { placement: Placement::ByLifetime, victims, ..options() };
        let (store, _) = Store::open(&rt, Rc::new(device), options).await.unwrap();
        let info = collection(0, 0);
        store.create_collection(info).await.unwrap();
        let capacity = store.stats().capacity_bytes;
        let objects = capacity * fill / 100 / LENGTH;
        let few = objects * hot / 100;
        let mut random = Random::new(seed);
        let mut counted = (0, 0);
        for number in 0..objects + 6 * capacity / LENGTH {
            let name = match number {
                number if number < objects => number,
                _ if few > 0 && random.chance(0.9) => random.below(few),
                _ if few > 0 => few + random.below(objects - few),
                _ => random.below(objects),
            };
            if number == objects + 2 * capacity / LENGTH {
                counted = counts(&store);
            }
            let id = ObjectId::new(1, format!("o{name}"));
            let lifetime = if name < few { Lifetime::Short } else { Lifetime::Long };
            let mut transaction = Transaction::new();
            if hints {
                transaction.set_hints(&id, Hints { lifetime, ..Hints::default() });
            }
            transaction.write(&id, 0, contents(number, 0, LENGTH));
            let done = store.submit(info.id, transaction).await;
            done.unwrap_or_else(|error| panic!("{load:?}, {victims:?}: {error}, {:?}", store.stats()));
        }
        let (written, copied) = counts(&store);
        assert_eq!(store.check(false).await.unwrap(), [], "{load:?}, {victims:?}");
        (copied - counted.1) as f64 / ((written - counted.0) - (copied - counted.1)) as f64
    })
}

/// Blocks that were written, and those of them that were copied.
fn counts(store: &Store) -> (u64, u64) {
    let counters = store.stats().counters;
    (counters.blocks_written, counters.blocks_copied)
}

/// Cost and benefit copy less than greedy if some objects are overwritten more often than others; and hardly more if all are as likely, of
/// which no policy knows anything.
#[test]
fn cost_and_benefit_copy_less_than_greedy_under_skew() {
    for (fill, hot, least) in [(80, 10, 1.3), (85, 20, 1.1), (80, 0, 0.93)] {
        let (mut greedy, mut ours) = (0.0, 0.0);
        for seed in seeds(3) {
            let load = Load { fill, hot, hints: false, seed };
            let (one, other) = (copied(load, Victims::Greedy), copied(load, Victims::CostBenefit));
            println!("{load:?}: greedy copies {one:.3}, cost and benefit {other:.3}");
            assert!(hot == 0 || other < one, "{load:?}: greedy {one:.3}, cost and benefit {other:.3}");
            (greedy, ours) = (greedy + one, ours + other);
        }
        assert!(greedy > least * ours, "{fill} %, {hot} % hot: greedy {greedy:.3}, cost and benefit {ours:.3}");
    }
}

/// Lifetimes that are known save few copies, as cost and benefit tell zones apart by their age.
#[test]
fn known_lifetimes_save_few_copies() {
    let (mut known, mut unknown) = (0.0, 0.0);
    for seed in seeds(3) {
        let of = |hints| copied(Load { fill: 80, hot: 10, hints, seed }, Victims::CostBenefit);
        let (with, without) = (of(true), of(false));
        println!("seed {seed}: {with:.3} with lifetimes, {without:.3} without");
        (known, unknown) = (known + with, unknown + without);
    }
    assert!(unknown < 1.15 * known, "{known:.3} with lifetimes, {unknown:.3} without");
}
