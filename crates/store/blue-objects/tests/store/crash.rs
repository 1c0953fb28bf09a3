//! BO-OBJ-1, BO-OBJ-2, BO-OBJ-4, BO-NUM-1, BO-CHG-1: wherever the power fails, what was acknowledged is found, nothing else is half there, and what
//! nobody names goes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use shingle_sim::clients::{BUCKET, Client, Sizes};
use shingle_sim::{Random, Sim, SimDevice, Survival, seeds};
use shingle_store_api::ObjectStore;
use shingle_zoned::{MemoryDevice, ZonedDevice};

use crate::scene::{assert_no_leftovers, formatted, geometry, open, powered};

const SIZES: Sizes = Sizes { small: 5 << 10, large: 45 << 10 };

/// State after a power cut: the drive, and the clients' knowledge.
struct Left {
    medium: MemoryDevice,
    clients: Vec<Client>,
}

/// Clients work; returns what a cut would leave at every `every`th command, and what an orderly end leaves.
fn life(seed: u64, before: Left, steps: usize, every: u64) -> (Vec<(u64, Left)>, Left) {
    Sim::new(seed).run(move |rt| async move {
        let device = powered(&rt, &before.medium);
        let clients = Rc::new(RefCell::new(before.clients));
        let cuts = Rc::new(RefCell::new(Vec::new()));
        let commands = Cell::new(0u64);
        {
            // From the opening on.
            let (clients, cuts) = (clients.clone(), cuts.clone());
            device.on_command(move |_, device| {
                let number = commands.get();
                commands.set(number + 1);
                if number % every != seed % every {
                    return;
                }
                let mut random = Random::new(seed ^ number << 8);
                let drawn = if random.chance(0.5) { Survival::AnySubset } else { Survival::Prefix };
                let survival = drawn.on(device.geometry());
                let medium = device.crash_image_with(random.number(), survival);
                let clients = clients.borrow().iter().map(Client::fork).collect();
                cuts.borrow_mut().push((number, Left { medium, clients }));
            });
        }
        let at = open(&rt, &device).await.unwrap();
        let tasks: Vec<_> = (0..clients.borrow().len())
            .map(|number| {
                let (store, clients) = (at.client.clone(), clients.clone());
                rt.spawn(async move {
                    for _ in 0..steps {
                        let mut client = clients.borrow()[number].clone();
                        client.work(&store, 1).await.unwrap();
                        clients.borrow_mut()[number] = client;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        at.engine.close().await.unwrap();
        device.on_command(|_, _| {});
        (cuts.take(), Left { medium: device.image(), clients: clients.take() })
    })
}

/// Opens what is left: everything acknowledged must be there; works on with it, and opens it once more.
fn recover(seed: u64, what: &str, left: Left) -> Left {
    let verify = |left: Left, steps: usize, what: String| {
        Sim::new(seed).run(move |rt| async move {
            let Left { medium, mut clients } = left;
            let device = powered(&rt, &medium);
            let at = open(&rt, &device).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            for client in &mut clients {
                client.verify(&at.client).await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
            }
            assert_no_leftovers(&rt, &at, &what).await;
            for client in &mut clients {
                client.work(&at.client, steps).await.unwrap_or_else(|failure| panic!("{what}, working on: {failure}"));
                client.verify(&at.client).await.unwrap_or_else(|failure| panic!("{what}, after more work: {failure}"));
            }
            assert_no_leftovers(&rt, &at, &format!("{what}, after more work")).await;
            at.engine.close().await.unwrap();
            Left { medium: device.image(), clients }
        })
    };
    let left = verify(left, 4, what.to_owned());
    verify(left, 0, format!("{what}, opened again"))
}

fn cut(seed: u64, lives: u64, steps: usize, every: u64) -> usize {
    let medium = Sim::new(seed).run(move |rt| async move {
        let device = formatted(&rt, &geometry(seed)).await;
        let at = open(&rt, &device).await.unwrap();
        at.client.create_bucket(BUCKET).await.unwrap();
        at.engine.close().await.unwrap();
        SimDevice::image(&device)
    });
    let clients = (0..3).map(|number| Client::new(&format!("c{number}"), seed * 10 + number, 5, SIZES)).collect();
    let (mut left, mut count) = (Left { medium, clients }, 0);
    for number in 0..lives {
        let (cuts, end) = life(seed * 10 + number, left, steps, every);
        for (command, cut) in cuts {
            recover(seed, &format!("seed {seed}, life {number}, command {command}"), cut);
            count += 1;
        }
        left = recover(seed, &format!("seed {seed}, life {number}, closed"), end);
    }
    count
}

fn is_whole() -> bool {
    std::env::var_os("SHINGLE_SEED").is_none()
}

#[test]
fn cut_at_every_command() {
    let cuts: usize = seeds(4).map(|seed| cut(seed, 1, 25, 1)).sum();
    assert!(cuts > 300 || !is_whole(), "only {cuts} cuts");
}

#[test]
fn cut_at_some_commands_of_longer_lives() {
    let cuts: usize = seeds(12).map(|seed| cut(seed, 2, 80, 23)).sum();
    assert!(cuts > 150 || !is_whole(), "only {cuts} cuts");
}
