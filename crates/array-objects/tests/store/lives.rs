//! Chains of lives of objects on an array of which one drive, the same one, may do anything: what was acknowledged is there, and
//! nothing else is.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_array_objects::ArrayEngine;
use shingle_array_store::{ArrayStore, IndexPlace, inspect};
use shingle_runtime::Runtime;
use shingle_sim::clients::{BUCKET, Client, Sizes};
use shingle_sim::lives::{Life, wear};
use shingle_sim::{Medium, Random, Sim, SimDevice, Survival, seeds};
use shingle_store_api::ObjectStore;
use shingle_zoned::ZonedDevice;

use crate::scene::{array_options, formatted, named, open, options, powered};

const SIZES: Sizes = Sizes { small: 2 << 10, large: 20 << 10 };

/// Opens everything without the drive that is away, verifies it, and works until the life ends.
async fn live(
    rt: Runtime,
    devices: Vec<SimDevice>,
    away: Option<usize>,
    clients: Rc<RefCell<Vec<Client>>>,
    mut random: Random,
    what: String,
) {
    let there = named(&devices).into_iter().enumerate().filter(|(at, _)| Some(*at) != away);
    let there: Vec<_> = there.map(|(_, drive)| drive).collect();
    let seen = inspect(&there).await.unwrap();
    let out = seen.drives.iter().filter(|drive| drive.given.is_some() && !drive.in_use && !drive.removed);
    let readmit = out.map(|drive| drive.id).collect();
    let array_options = shingle_array_store::Options { readmit, ..array_options(&mut random) };
    let opened = ArrayStore::open(&rt, &there, &IndexPlace::Memory, array_options).await;
    let (array, report) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(report.damage, Vec::<String>::new(), "{what}");
    let engine =
        ArrayEngine::open(rt.clone(), array, options()).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    let store = engine.client();
    let mut verified: Vec<Client> = clients.borrow().iter().map(Client::fork).collect();
    for client in &mut verified {
        client.verify(&store).await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
    }
    *clients.borrow_mut() = verified;
    let mut tasks: Vec<_> = Vec::new();
    for number in 0..clients.borrow().len() {
        let (store, clients, what) = (store.clone(), clients.clone(), what.clone());
        tasks.push(rt.spawn(async move {
            for _ in 0..15 {
                let mut client = clients.borrow()[number].clone();
                client.work(&store, 1).await.unwrap_or_else(|failure| panic!("{what}: {failure}"));
                clients.borrow_mut()[number] = client;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    engine.close().await.unwrap_or_else(|error| panic!("{what}: {error}"));
}

fn chain(seed: u64) {
    let mut random = Random::new(seed);
    let fresh = formatted(seed);
    let media: Vec<Medium> = Sim::new(seed).run(move |rt| async move {
        let devices = powered(&rt, &fresh);
        let (engine, store) = open(&rt, &devices, &mut Random::new(seed)).await;
        store.create_bucket(BUCKET).await.unwrap();
        engine.close().await.unwrap();
        devices.iter().map(SimDevice::kill).collect()
    });
    let mut media = media;
    let geometry = media[0].image().geometry().clone();
    let zones = 0..geometry.zone_count;
    let victim = random.below(media.len() as u64) as usize;
    let clients = (0..3).map(|number| Client::new(&format!("c{number}"), seed * 10 + number, 5, SIZES)).collect();
    let clients: Rc<RefCell<Vec<Client>>> = Rc::new(RefCell::new(clients));
    for number in 0..4 {
        let drawn = Life::draw(&mut random, &zones, geometry.zone_count, 1);
        let (killed, away) = (random.chance(0.4), random.chance(0.2).then_some(victim));
        let last = Duration::from_micros(random.below(600_000));
        let survival = [Survival::Prefix, Survival::AnySubset][random.below(2) as usize];
        let what = format!(
            "seed {seed}, life {number}, killed {killed} or {survival:?} after {last:?}, drive {victim}, away {away:?}"
        );
        let (known, seed_of_cut, of_life) = (clients.clone(), random.number() >> 8, Random::new(random.number()));
        media = Sim::new(seed * 100 + number).run(move |rt| async move {
            let begin = |(at, medium): (usize, Medium)| {
                if at != victim {
                    return SimDevice::resume(&rt, medium);
                }
                let device = drawn.begin(&rt, medium);
                device.power_off_at(u64::MAX);
                device
            };
            let devices: Vec<SimDevice> = media.into_iter().enumerate().map(begin).collect();
            let life = rt.spawn(live(rt.clone(), devices.clone(), away, known.clone(), of_life, what));
            if let Either::Left((life, _)) = select(Box::pin(life), Box::pin(rt.sleep(last))).await {
                life.unwrap();
            }
            let frozen = known.borrow().iter().map(Client::fork).collect();
            known.replace(frozen);
            let leave = |(at, device): (usize, &SimDevice)| match killed {
                true => device.kill(),
                false => Medium::from(&device.crash_image_with(seed_of_cut + at as u64, survival)),
            };
            devices.iter().enumerate().map(leave).collect()
        });
        wear(&mut random, &media[victim], &geometry, &zones);
    }
}

#[test]
fn what_was_acknowledged_is_there_through_chains_of_lives() {
    for seed in seeds(100) {
        chain(seed);
    }
}
