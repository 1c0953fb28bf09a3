//! AO-OBJ-1 to AO-OBJ-4: wherever the power fails, what was acknowledged is found, nothing else is half there, and what nobody
//! needs goes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use shingle_array_objects::ArrayEngine;
use shingle_sim::clients::{BUCKET, Client, Sizes, bytes_of, commit, put};
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_store_api::ObjectStore;
use shingle_zoned::MemoryDevice;

use crate::calls::{multipart, named};
use crate::scene::{assert_no_leftovers, formatted, objects, open, open_array, open_for_clients, options, powered};

const SIZES: Sizes = Sizes { small: 2 << 10, large: 30 << 10 };

/// State after a power cut: the drives, and the clients' knowledge.
struct Left {
    media: Vec<MemoryDevice>,
    clients: Vec<Client>,
}

type Cut = (u64, Left);

/// Clients work; returns what a cut would leave at every `every`th command, and what an orderly end leaves.
fn life(seed: u64, before: Left, steps: usize, every: u64) -> (Vec<Cut>, Left) {
    Sim::new(seed).run(move |rt| async move {
        let devices = powered(&rt, &before.media);
        let clients = Rc::new(RefCell::new(before.clients));
        let cuts = Rc::new(RefCell::new(Vec::new()));
        let commands = Rc::new(Cell::new(0u64));
        let (engine, store) = open_for_clients(&rt, &devices, &mut Random::new(seed)).await;
        for device in &devices {
            let (devices, clients) = (devices.clone(), clients.clone());
            let (cuts, commands) = (cuts.clone(), commands.clone());
            device.on_command(move |_, _| {
                let number = commands.get();
                commands.set(number + 1);
                if number % every != seed % every {
                    return;
                }
                let image = |(at, device): (usize, &SimDevice)| device.crash_image(seed ^ number << 8 ^ at as u64);
                let media = devices.iter().enumerate().map(image).collect();
                let clients = clients.borrow().iter().map(Client::fork).collect();
                cuts.borrow_mut().push((number, Left { media, clients }));
            });
        }
        let mut tasks: Vec<_> = Vec::new();
        for number in 0..clients.borrow().len() {
            let (store, clients) = (store.clone(), clients.clone());
            tasks.push(rt.spawn(async move {
                for _ in 0..steps {
                    let mut client = clients.borrow()[number].clone();
                    client.work(&store, 1).await.unwrap();
                    clients.borrow_mut()[number] = client;
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        engine.close().await.unwrap();
        devices.iter().for_each(|device| device.on_command(|_, _| {}));
        (cuts.take(), Left { media: devices.iter().map(SimDevice::image).collect(), clients: clients.take() })
    })
}

/// Opens what is left: everything acknowledged must be there; works on with it, and opens it once more.
fn recover(seed: u64, what: &str, left: Left) -> Left {
    let what = what.to_owned();
    let verify = |left: Left, steps: usize, what: String| {
        Sim::new(seed).run(move |rt| async move {
            let Left { media, mut clients } = left;
            let devices = powered(&rt, &media);
            let (engine, store) = open_for_clients(&rt, &devices, &mut Random::new(seed)).await;
            for client in &mut clients {
                client.verify(&store).await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
            }
            assert_no_leftovers(&rt, &store, &what).await;
            for client in &mut clients {
                client.work(&store, steps).await.unwrap_or_else(|failure| panic!("{what}, working on: {failure}"));
                client.verify(&store).await.unwrap_or_else(|failure| panic!("{what}, after more work: {failure}"));
            }
            assert_no_leftovers(&rt, &store, &format!("{what}, after more work")).await;
            let figures = store.figures().await.unwrap();
            assert_eq!(figures.objects, objects(&store).await.len() as u64, "{what}: objects are counted wrongly");
            engine.close().await.unwrap();
            Left { media: devices.iter().map(SimDevice::image).collect(), clients }
        })
    };
    let left = verify(left, 6, what.clone());
    verify(left, 0, format!("{what}, opened again"))
}

/// AO-OBJ-1, AO-OBJ-2, AO-OBJ-4; API-1, API-2.
#[test]
fn wherever_the_power_fails_what_was_acknowledged_is_found_and_leftovers_go() {
    let mut pairs = 0;
    for seed in seeds(4) {
        let media = formatted(seed);
        let begun = Sim::new(seed).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let (engine, store) = open(&rt, &devices, &mut Random::new(seed)).await;
            store.create_bucket(BUCKET).await.unwrap();
            engine.close().await.unwrap();
            devices.iter().map(SimDevice::image).collect()
        });
        let clients = (0..3).map(|number| Client::new(&format!("c{number}"), seed * 10 + number, 5, SIZES)).collect();
        let mut left = Left { media: begun, clients };
        for life_number in 0..2 {
            let (cuts, end) = life(seed * 10 + life_number, left, 40, 7);
            assert!(cuts.len() > 10, "too few commands to cut at: {}", cuts.len());
            for (number, cut) in cuts {
                recover(seed, &format!("seed {seed}, life {life_number}, command {number}"), cut);
                pairs += 1;
            }
            left = recover(seed, &format!("seed {seed}, life {life_number}, closed"), end);
        }
    }
    println!("{pairs} pairs of seed and cut");
}

/// AO-UPL-1: an upload was completed, and its record could not be deleted then. The object that it became is replaced or deleted,
/// and the power fails: the upload does not come back.
#[test]
fn an_upload_that_has_ended_does_not_come_back_once_its_object_has_gone() {
    for seed in seeds(4) {
        for replaced in [true, false] {
            let media = formatted(seed);
            let cut: Vec<MemoryDevice> = Sim::new(seed).run(move |rt| async move {
                let devices = powered(&rt, &media);
                let array = open_array(&rt, &devices, &mut Random::new(seed)).await;
                let engine = ArrayEngine::open(rt.clone(), array.clone(), options()).await.unwrap();
                let store = engine.client();
                store.create_bucket("b").await.unwrap();
                let id = multipart(&store, "k", &[bytes_of(1, 5000), bytes_of(2, 5000)]).await;
                let record = array.list(b"u", None, 2).unwrap().remove(0);
                store.complete_upload("b", "k", id, named(2), commit("e")).await.unwrap();
                // As a deletion of it that failed leaves it.
                array.put(record.name, Bytes::new(), record.attributes).await.unwrap();
                if replaced {
                    put(&store, "b", "k", &bytes_of(3, 100), commit("n")).await.unwrap();
                } else {
                    assert!(store.delete("b", "k").await.unwrap());
                }
                devices.iter().map(|device| device.crash_image(seed)).collect()
            });
            Sim::new(seed).run(move |rt| async move {
                let devices = powered(&rt, &cut);
                let (engine, store) = open(&rt, &devices, &mut Random::new(seed)).await;
                let left = store.list_uploads("b", "", None, 9).await.unwrap().uploads;
                assert!(left.is_empty(), "seed {seed}, replaced {replaced}: {left:?}");
                assert_no_leftovers(&rt, &store, "after a power cut").await;
                assert_eq!(store.delete("b", "k").await.unwrap(), replaced);
                store.delete_bucket("b").await.unwrap();
                engine.close().await.unwrap();
            });
        }
    }
}
