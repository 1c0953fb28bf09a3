//! Long random histories against what clients know, with GC, backups and reopenings in between.

use std::cell::RefCell;
use std::rc::Rc;

use shingle_object_store::{Depth, Index, IndexOrigin};
use shingle_sim::{Random, Sim, seeds};
use shingle_store_api::ObjectStore;

use crate::chunks::Faults;
use crate::world::World;
use shingle_sim::clients::{BUCKET, Client, Sizes};

const SIZES: Sizes = Sizes { small: 3 << 10, large: 20 << 10 };

/// End of a life of the store in a history, and the fate of the index.
#[derive(Clone, Copy, Debug)]
enum Reopen {
    Closed,
    Killed,
    IndexStale,
    IndexLost,
}

fn clients(seed: u64, count: u64, keys: u64) -> Rc<RefCell<Vec<Client>>> {
    let clients = (0..count).map(|number| Client::new(&format!("c{number}"), seed * 10 + number, keys, SIZES));
    Rc::new(RefCell::new(clients.collect()))
}

/// Runs the clients side by side for a while.
async fn work(
    runtime: &shingle_runtime::Runtime,
    store: &shingle_object_store::ObjectStoreClient,
    clients: &Rc<RefCell<Vec<Client>>>,
    steps: usize,
) {
    let working = clients.take().into_iter().map(|mut client| {
        let store = store.clone();
        runtime.spawn(async move {
            client.work(&store, steps).await.unwrap();
            client
        })
    });
    let working: Vec<_> = working.collect();
    for client in working {
        let client = client.await.unwrap();
        clients.borrow_mut().push(client);
    }
}

async fn verify(store: &shingle_object_store::ObjectStoreClient, clients: &Rc<RefCell<Vec<Client>>>, depth: Depth) {
    let mut all = clients.take();
    for client in &mut all {
        client.verify(store).await.unwrap();
    }
    clients.replace(all);
    let report = store.check(depth).await.unwrap();
    assert_eq!(report.damage, Vec::new());
}

fn history(seed: u64, faults: Faults) {
    let mut random = Random::new(seed);
    let world = World::new(seed, 1 + random.below(2) as usize, 8 << 20, 40 << 10);
    let clients = clients(seed, 3, 12);
    let mut origin = IndexOrigin::New;
    for life in 0..6u64 {
        let reopen = match random.below(4) {
            0 => Reopen::Closed,
            1 => Reopen::Killed,
            2 => Reopen::IndexStale,
            _ => Reopen::IndexLost,
        };
        let (moved, known, steps) = (world.clone(), clients.clone(), random.between(10, 60) as usize);
        let (collect, back_up) = (random.chance(0.7), random.chance(0.4));
        world.drives.iter().for_each(|drive| drive.set_faults(faults));
        Sim::new(seed * 100 + life).run(|runtime| async move {
            let (engine, store, report) = moved.open(&runtime).await;
            assert_eq!(report.damage, Vec::new());
            if origin == IndexOrigin::Kept {
                assert_eq!(report.index_refused, None);
            }
            if life == 0 {
                store.create_bucket(BUCKET).await.unwrap();
            }
            verify(&store, &known, Depth::Full).await;
            work(&runtime, &store, &known, steps).await;
            if back_up {
                // It is not tried again where the drive fails; the next one is.
                let backed_up = store.back_up_index().await;
                assert!(backed_up.is_ok() || faults != Faults::default(), "{backed_up:?}");
            }
            let more = runtime.spawn({
                let (runtime, store, known) = (runtime.clone(), store.clone(), known.clone());
                async move { work(&runtime, &store, &known, steps).await }
            });
            if collect {
                store.collect_garbage().await.unwrap();
            }
            more.await.unwrap();
            if matches!(reopen, Reopen::Closed) {
                verify(&store, &known, Depth::Quick).await;
                engine.close().await;
            }
        });
        origin = match reopen {
            Reopen::IndexStale => {
                world.index.crash(random.below(world.index.unpersisted() as u64 + 1) as usize);
                IndexOrigin::Kept
            }
            Reopen::IndexLost => {
                world.index.clear().unwrap();
                IndexOrigin::Scan
            }
            _ => IndexOrigin::Kept,
        };
    }
    let (moved, known) = (world.clone(), clients.clone());
    Sim::new(seed).run(|runtime| async move {
        let (_engine, store, _) = moved.open(&runtime).await;
        verify(&store, &known, Depth::Full).await;
        assert!(
            known.borrow().iter().any(|client| client.objects() > 0),
            "a history that leaves nothing shows nothing"
        );
    });
}

#[test]
fn random_histories_agree_with_the_model_across_restarts_and_lost_indexes() {
    for seed in seeds(40) {
        println!("seed {seed}");
        history(seed, Faults::default());
    }
}

#[test]
fn random_histories_agree_with_the_model_while_appends_fail() {
    for seed in seeds(40) {
        println!("seed {seed}");
        history(seed + 1000, Faults { device: 0.02, landed: 0.02, full: 0.05, create: 0.05, ..Faults::default() });
    }
}
