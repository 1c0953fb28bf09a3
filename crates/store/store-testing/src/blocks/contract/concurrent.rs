//! Calls under way together, and calls that nobody waits for.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{join_all, poll_immediate};
use shingle_runtime::Runtime;
use shingle_sim::{Random, seeds};
use shingle_store_api::{BlockStore, Durability};

use super::shadow_of;
use crate::blocks::{BlockDriver, Failed, Mix};

const CACHED: Durability = Durability::Cached;
const DURABLE: Durability = Durability::Durable;

/// Looks for a change whose caller has gone, a millisecond apart.
const LOOKS_MAX: u32 = 10_000;

/// Neighbours share what is smaller on the medium than they are together.
pub async fn writes_to_places_apart_do_not_meet(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    for length in [1, 3, 24] {
        let writes = (0..100).map(|number| {
            let durability = if number % 3 == 0 { DURABLE } else { CACHED };
            shadow.write(store, number * length..(number + 1) * length, durability)
        });
        join_all(writes).await.into_iter().collect::<Result<(), Failed>>().unwrap();
        shadow.read(store, 0..101 * length).await.unwrap();
    }
    shadow.verify(store).await.unwrap();
}

/// And always the same one from then on, though reads come while they are under way.
pub async fn of_writes_that_overlap_in_time_each_sector_has_one(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    let mut random = Random::new(4);
    for _ in 0..40 {
        let draws: Vec<_> = (0..20).map(|_| (random.below(60), random.between(1, 60), random.below(3))).collect();
        let calls = draws.into_iter().map(|(first, length, kind)| {
            let shadow = &shadow;
            async move {
                match kind {
                    0 => shadow.read(store, first..first + length).await,
                    1 => shadow.write(store, first..first + length, CACHED).await,
                    _ => shadow.write(store, first..first + length, DURABLE).await,
                }
            }
        });
        join_all(calls).await.into_iter().collect::<Result<(), Failed>>().unwrap();
        for _ in 0..3 {
            shadow.read(store, 0..130).await.unwrap();
        }
    }
}

/// Though parts of a sector's neighbours change at the same time.
pub async fn zeros_and_trims_that_overlap_writes_leave_whole_sectors(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    for round in 0..30 {
        shadow.write(store, 0..100, CACHED).await.unwrap();
        let (write, zeros, trim) = futures_util::future::join3(
            shadow.write(store, 10..60, DURABLE),
            shadow.write_zeros(store, 30 + round..80, CACHED),
            shadow.trim(store, 5..40 + round),
        )
        .await;
        write.and(zeros).and(trim).unwrap();
        shadow.read(store, 0..110).await.unwrap();
        shadow.read(store, 0..110).await.unwrap();
    }
    shadow.verify(store).await.unwrap();
}

/// A call that has started is neither stopped nor undone; nothing else is asked of the store until it is seen.
pub async fn a_change_whose_future_is_dropped_happens(rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    let sector = shadow.sector_bytes();
    for (length, durability) in [(1, CACHED), (1, DURABLE), (40, CACHED), ((4 << 20) / sector, DURABLE)] {
        shadow.write(store, 0..length + 2, CACHED).await.unwrap();
        for zeros in [false, true] {
            let range = 1..length + 1;
            let (call, expected) = if zeros {
                (shadow.begin_zeros(range.clone(), durability), vec![0; (length * sector) as usize].into())
            } else {
                let call = shadow.begin_write(range.clone(), durability);
                let data = call.data();
                (call, data)
            };
            if zeros {
                drop(poll_immediate(store.write_zeros(sector, length * sector, durability)).await);
            } else {
                drop(poll_immediate(store.write(sector, vec![expected.clone()], durability)).await);
            }
            let mut looks = 0;
            while store.read(sector, length * sector).await.unwrap() != expected {
                looks += 1;
                assert!(looks < LOOKS_MAX, "a call for {length} sectors whose future was dropped did not happen");
                rt.sleep(Duration::from_millis(1)).await;
            }
            // It was seen everywhere, so it is over for all that come.
            call.completed();
            shadow.read(store, 0..length + 4).await.unwrap();
        }
    }
    shadow.verify(store).await.unwrap();
}

/// Other calls go on, and so do those that come.
pub async fn reads_and_flushes_may_be_dropped(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    for round in 0..50 {
        let write = shadow.write(store, round..round + 20, CACHED);
        let dropped = async {
            let _ = poll_immediate(pin!(shadow.read(store, round..round + 30))).await;
            let _ = poll_immediate(pin!(shadow.mapped(store, 0..100, 3))).await;
            let _ = poll_immediate(pin!(shadow.flush(store))).await;
        };
        futures_util::future::join(write, dropped).await.0.unwrap();
        shadow.read(store, 0..100).await.unwrap();
    }
    shadow.flush(store).await.unwrap();
    shadow.verify(store).await.unwrap();
}

/// API-BLK-2 of all calls at once, without a power cut.
pub async fn random_histories_agree_with_the_shadow(rt: Runtime, store: Rc<dyn BlockStore>) {
    let shadow = shadow_of(&*store);
    for seed in seeds(6) {
        let mut random = Random::new(seed);
        let mix = if seed == 1 { Mix::default() } else { Mix::draw(&mut random) };
        let (rt, store, shadow) = (rt.clone(), store.clone(), shadow.clone());
        let mut driver = BlockDriver { rt, store, shadow, random, mix };
        driver.run_well(300).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
    shadow.verify(&*store).await.unwrap();
}
