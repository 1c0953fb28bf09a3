//! The chunk store against a trivial model over long random histories: the drive fills, GC moves chunks, checkpoints are
//! made, the store is closed and opened again, in order or after a power cut.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::{Driver, Model, formatted, geometry, open, options};
use shingle_chunk_store::Counters;
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_zoned::MemoryDevice;

/// Events that histories must have met between them, or the test shows little.
#[derive(Debug, Default)]
struct Met {
    appends: u64,
    gc_zones: u64,
    resets: u64,
    checkpoints: u64,
    marks: u64,
    landed_bytes: u64,
    moved_bytes: u64,
}

impl Met {
    fn add(&mut self, counters: Counters) {
        self.appends += counters.appends;
        self.gc_zones += counters.gc_zones;
        self.resets += counters.resets;
        self.checkpoints += counters.checkpoints;
        self.marks += counters.marks;
        self.landed_bytes += counters.landed_bytes;
        self.moved_bytes += counters.moved_bytes;
    }
}

/// Remains of one life of the store.
struct Left {
    medium: MemoryDevice,
    model: Model,
    random: Random,
    counters: Counters,
}

fn history(seed: u64, met: &mut Met) {
    let mut random = Random::new(seed);
    let medium = formatted(geometry(&mut random));
    let ids = 8 + random.below(40);
    let mut left = Left { medium, model: Model::default(), random, counters: Counters::default() };
    for life in 0..8 {
        left = one_life(seed, life, ids, left);
        met.add(left.counters);
    }
}

fn one_life(seed: u64, life: u64, ids: u64, before: Left) -> Left {
    let Left { medium, mut model, mut random, .. } = before;
    let options = options(&mut random);
    let (callers, steps) = (1 + random.below(5), 30 + random.below(60));
    let orderly = random.chance(0.5);
    let context = format!("seed {seed}, life {life}");
    Sim::new(seed * 100 + life).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, report) = open(&rt, &device, options).await;
        assert_eq!(report.damage, [], "{context}");
        model.settle(&store, &context).await;
        let (model, random) = (Rc::new(RefCell::new(model)), Rc::new(RefCell::new(random)));
        let tasks: Vec<_> = (0..callers)
            .map(|_| {
                let (model, random) = (model.clone(), random.clone());
                let driver = Driver { rt: rt.clone(), store: store.clone(), model, random, ids, faults: false };
                rt.spawn(async move { driver.run(steps).await })
            })
            .collect();
        if orderly {
            for task in tasks {
                task.await.unwrap();
            }
            store.close().await.unwrap();
        } else {
            // The power fails in the middle of things.
            rt.sleep(Duration::from_millis(steps)).await;
        }
        let medium = if orderly { device.image() } else { device.crash_image(seed) };
        let (model, random) = (model.borrow().clone(), random.borrow().clone());
        Left { medium, model, random, counters: store.counters() }
    })
}

#[test]
fn long_histories_agree_with_the_model() {
    let mut met = Met::default();
    // 149 once lost a chunk: its zone was garbage in the checkpoint, but reset and in use again behind it.
    // In 31 a power cut in GC once left no free zone, and GC did not go on in the zone it had been moving to.
    // In 76 an append that was to land was once put in front of a move.
    for seed in seeds(60).chain([31, 76, 149]) {
        history(seed, &mut met);
    }
    println!("{met:?}");
    let landed = met.landed_bytes > 5_000_000 && met.moved_bytes > 1_000_000;
    let met_all = landed && met.appends > 1000 && met.gc_zones > 20 && met.resets > 20;
    let met_all = met_all && met.checkpoints > 100 && met.marks > 1000;
    assert!(met_all || std::env::var_os("SHINGLE_SEED").is_some(), "histories met too little: {met:?}");
}
