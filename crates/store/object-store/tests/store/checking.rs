//! A check beside clients and GC: what they change meanwhile is no damage, and what is damaged is found all the same.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use shingle_object_store::{CheckReport, Depth};
use shingle_runtime::Runtime;
use shingle_sim::clients::{BUCKET, Client, Sizes};
use shingle_sim::{Sim, seeds};
use shingle_store_api::ObjectStore;

use crate::world::{World, bytes_of, commit, put};

const SIZES: Sizes = Sizes { small: 3 << 10, large: 20 << 10 };

/// Checks again and again while clients work, until they have done so many steps; all reports.
async fn checks_beside_clients(runtime: &Runtime, world: &World, seed: u64, steps: usize) -> Vec<CheckReport> {
    let (_engine, store, _) = world.open(runtime).await;
    store.create_bucket(BUCKET).await.unwrap();
    let left = Rc::new(Cell::new(3));
    for number in 0..3 {
        let (store, left) = (store.clone(), left.clone());
        let mut client = Client::new(&format!("c{number}"), seed * 10 + number, 8, SIZES);
        runtime.spawn_detached(async move {
            client.work(&store, steps).await.unwrap();
            left.set(left.get() - 1);
        });
    }
    let mut reports = Vec::new();
    while left.get() > 0 {
        let depth = if reports.len() % 2 == 0 { Depth::Full } else { Depth::Quick };
        reports.push(store.check_gently(depth, |_| ()).await.unwrap());
    }
    reports
}

/// OS-CHECK-1.
#[test]
fn what_clients_and_gc_change_during_a_check_is_no_damage() {
    let mut read = 0;
    for seed in seeds(40) {
        println!("seed {seed}");
        let mut world = World::new(seed, 1 + (seed % 2) as usize, 8 << 20, 40 << 10);
        world.options.gc.enabled = true;
        read += Sim::new(seed).run(move |runtime| async move {
            let reports = checks_beside_clients(&runtime, &world, seed, 150).await;
            for report in &reports {
                assert_eq!(report.damage, Vec::new(), "seed {seed}");
                assert!(report.damaged_objects.is_empty() && report.damaged_uploads.is_empty(), "seed {seed}");
            }
            reports.iter().map(|report| report.entries).sum::<u64>()
        });
    }
    assert!(read > 1000, "checks have read only {read} entries");
}

/// OS-CHECK-2: a check whose caller went away holds no file, and ends.
#[test]
fn a_check_that_nobody_waits_for_ends() {
    Sim::new(1).run(move |runtime| async move {
        let world = World::new(1, 1, 8 << 20, 40 << 10);
        let (engine, store, _) = world.open(&runtime).await;
        store.create_bucket(BUCKET).await.unwrap();
        for number in 0..200 {
            put(&store, BUCKET, &format!("k{number}"), &bytes_of(number, 2000), commit("e")).await.unwrap();
        }
        let told = Rc::new(Cell::new(false));
        {
            let (begun, mut heard) = tokio::sync::mpsc::unbounded_channel();
            let check = store.check_gently(Depth::Full, move |_| {
                let _ = begun.send(());
            });
            match select(pin!(check), pin!(heard.recv())).await {
                Either::Left(_) => panic!("it has ended"),
                Either::Right(_) => told.set(true),
            }
        }
        assert!(told.get());
        for number in 0..200 {
            store.delete(BUCKET, &format!("k{number}")).await.unwrap();
        }
        let freed = store.collect_garbage().await.unwrap();
        assert!(freed > 300_000, "{freed} bytes came free");
        engine.close().await;
    });
}
