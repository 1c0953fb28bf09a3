//! Chains of lives of objects on an array of which one drive, the same one, may do anything: what was acknowledged is there, and
//! nothing else is.

use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_array_objects::ArrayEngine;
use shingle_array_store::{ArrayDrive, ArrayStore, ErrorKind, IndexPlace, RecoveryReport, inspect};
use shingle_runtime::Runtime;
use shingle_sim::clients::{BUCKET, Sizes};
use shingle_sim::lives::{Life, wear};
use shingle_sim::{Crowd, Medium, Random, Sim, SimDevice, Survival, seeds};
use shingle_store_api::ObjectStore;
use shingle_zoned::ZonedDevice;

use crate::scene::{array_options, formatted, named, open, options_for_clients, powered};

const SIZES: Sizes = Sizes { small: 2 << 10, large: 20 << 10 };

/// Opens the array. Once the victim was given up, and what it held is on others, it is none of the array's drives: it is taken out.
async fn open_array(
    rt: &Runtime,
    mut there: Vec<ArrayDrive>,
    victim: usize,
    options: &shingle_array_store::Options,
    what: &str,
) -> ArrayStore {
    let stranger = format!("d{victim}");
    loop {
        match try_open(rt, &there, options).await {
            Ok((array, report)) => {
                assert_eq!(report.damage, Vec::<String>::new(), "{what}");
                return array;
            }
            // It was there when `try_open` asked which drives were given up, and fails since. The caller asks again.
            Err(error) if is_silent(&stranger, &error) => {}
            Err(error) => {
                let says_so = error.message.starts_with(&format!("{stranger} is no drive of this array"));
                let is_there = there.iter().any(|drive| drive.name == stranger);
                assert!(error.kind == ErrorKind::Invalid && says_so && is_there, "{what}: {error}");
                there.retain(|drive| drive.name != stranger);
            }
        }
    }
}

/// True if the drive that is to be taken back did not answer, or has nothing left that shows whose it is.
fn is_silent(victim: &str, error: &shingle_array_store::Error) -> bool {
    error.kind == ErrorKind::Device && error.message.contains(&format!("({victim}): it is missing, or does not answer"))
}

/// Takes drives back that were given up.
async fn try_open(
    rt: &Runtime,
    there: &[ArrayDrive],
    options: &shingle_array_store::Options,
) -> shingle_array_store::Result<(ArrayStore, RecoveryReport)> {
    let seen = inspect(there).await?;
    let out = seen.drives.iter().filter(|drive| drive.given.is_some() && !drive.in_use && !drive.removed);
    let options = shingle_array_store::Options { readmit: out.map(|drive| drive.id).collect(), ..options.clone() };
    ArrayStore::open(rt, there, &IndexPlace::Memory, options).await
}

/// Opens everything but drives that are not there, verifies it, and works until the life ends.
async fn live(rt: Runtime, there: Vec<ArrayDrive>, victim: usize, crowd: Crowd, mut random: Random, what: String) {
    let array = open_array(&rt, there, victim, &array_options(&mut random), &what).await;
    let engine = ArrayEngine::open(rt.clone(), array, options_for_clients())
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let store = engine.client();
    crowd.verify(&store, &what).await;
    crowd.work(&rt, &store, 15, &what).await;
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
    let crowd = Crowd::new(seed, 3, 5, SIZES);
    for number in 0..4 {
        let drawn = Life::draw(&mut random, &zones, geometry.zone_count, 1);
        let (killed, away) = (random.chance(0.4), random.chance(0.2).then_some(victim));
        let last = Duration::from_micros(random.below(600_000));
        let survival = [Survival::Prefix, Survival::AnySubset][random.below(2) as usize];
        let what = format!(
            "seed {seed}, life {number}, killed {killed} or {survival:?} after {last:?}, drive {victim}, away {away:?}"
        );
        let (known, seed_of_cut, of_life) = (crowd.clone(), random.number() >> 8, Random::new(random.number()));
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
            let there = named(&devices).into_iter().enumerate().filter(|(at, _)| Some(*at) != away);
            let there = there.map(|(_, drive)| drive).collect();
            let life = rt.spawn(live(rt.clone(), there, victim, known.clone(), of_life, what));
            if let Either::Left((life, _)) = select(Box::pin(life), Box::pin(rt.sleep(last))).await {
                life.unwrap();
            }
            known.freeze();
            let leave = |(at, device): (usize, &SimDevice)| match killed {
                true => device.kill(),
                false => Medium::from(&device.crash_image_with(seed_of_cut + at as u64, survival)),
            };
            devices.iter().enumerate().map(leave).collect()
        });
        wear(&mut random, &media[victim], &geometry, &zones);
    }
}

/// A seed that found something once: the one zone with superblocks of a drive that was to be taken back went offline.
const FOUND: [u64; 1] = [4001];

#[test]
fn what_was_acknowledged_is_there_through_chains_of_lives() {
    for seed in seeds(100).chain(FOUND) {
        chain(seed);
    }
}
