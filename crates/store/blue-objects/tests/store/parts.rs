//! Objects of many parts: a range of one is read without going through all of its parts each time.

use std::rc::Rc;

use shingle_base::Blocks;
use shingle_blue_objects::BlueEngine;
use shingle_blue_store::Store;
use shingle_sim::Sim;
use shingle_sim::clients::{bytes_of, commit};
use shingle_store_api::{CompletedPart, ObjectStore};
use shingle_zoned::Geometry;

use crate::counting::{Counted, Scans};
use crate::scene::{blue_options, formatted, options};

#[test]
fn a_range_of_an_object_of_many_parts_takes_few_scans() {
    const PARTS: u32 = 1500;
    Sim::new(1).run(|rt| async move {
        let device = formatted(&rt, &Geometry::hm_smr(Blocks(2048), 60, 0, 16)).await;
        let scans = Rc::new(Scans::default());
        let below = shingle_blue_store::Options { log: Rc::new(Counted(scans.clone())), ..blue_options() };
        let (store, _) = Store::open(&rt, Rc::new(device), below).await.unwrap();
        let engine = BlueEngine::open(rt.clone(), store, options()).await.unwrap();
        let client = engine.client();
        client.create_bucket("b").await.unwrap();
        let make = async |seed: u64| {
            let id = client.begin_upload("b", "k", Default::default()).await.unwrap().id;
            for number in 1..=PARTS {
                let mut part = client.begin_part("b", "k", id, number).await.unwrap();
                part.write(bytes_of(seed + u64::from(number), 3)).await.unwrap();
                part.commit(commit("e")).await.unwrap();
            }
            let parts = (1..=PARTS).map(|number| CompletedPart { number, etag: "e".to_owned() });
            client.complete_upload("b", "k", id, parts.collect(), commit("whole")).await.unwrap();
        };
        // Scans of a get of the bytes of one part.
        let get = async |seed: u64, number: u32| {
            let before = scans.count.get();
            let reader = client.open("b", "k").await.unwrap();
            assert_eq!(reader.info().part_sizes, vec![3; PARTS as usize]);
            let read = reader.read(u64::from(number - 1) * 3, 3).await.unwrap();
            assert_eq!(read, bytes_of(seed + u64::from(number), 3));
            scans.count.get() - before
        };
        make(0).await;
        assert!(get(0, 1).await <= 2, "the first one");
        for number in [7, 1400, PARTS] {
            assert_eq!(get(0, number).await, 0);
        }
        // Another object of the name has parts of its own.
        make(9000).await;
        while client.figures().await.unwrap().purging > 0 {
            rt.sleep(std::time::Duration::from_millis(10)).await;
        }
        assert!(get(9000, 8).await <= 2 && get(9000, 9).await == 0);
        client.close().await;
    });
}
