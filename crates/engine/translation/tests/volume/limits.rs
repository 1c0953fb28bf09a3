//! TL-LIMIT-1: frontiers that begin in one step, with as few active zones as a volume takes.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use shingle_base::{Blocks, ZoneId};
use shingle_sim::{CommandKind, Random, Sim, SimDevice, seeds};
use shingle_store_api::BlockStore;
use shingle_translation::Route;
use shingle_zoned::{Geometry, ZoneState};

use crate::common::{format, open, put};

const ZONES: u32 = 60;

/// Panics when a zone is begun that is one more than the drive allows.
fn watch(device: &SimDevice, limit: u32, what: String) {
    device.on_command(move |command, device| {
        let image = device.image();
        let begins = command.zone.is_some_and(|zone| image.zone(zone).state == ZoneState::Empty);
        if command.kind == CommandKind::Write && begins {
            let zones = (0..ZONES).map(|zone| image.zone(ZoneId(zone)));
            let active = zones.filter(|zone| zone.state.is_active()).count();
            assert!(active < limit as usize, "{what}: one zone more than {limit} is active");
        }
    });
}

#[test]
fn runs_that_begin_at_once_keep_to_the_limits() {
    for seed in seeds(24) {
        Sim::new(seed).run(move |rt| async move {
            let limit = 4 + seed as u32 % 6;
            let (device, _, _) = format(&rt, &Geometry::zns(Blocks(64), Blocks(60), ZONES, limit, limit), 4096).await;
            device.set_latency(Duration::from_micros(200 * (seed / 6 % 3)));
            let (volume, _) = open(&rt, &device).await.unwrap();
            let control = volume.control();
            control.route(Route::Sequential { sectors: 4, align: 0 });
            watch(&device, limit, format!("seed {seed}"));
            for round in 0..30 {
                let writes = (0..4).map(|run| put(&volume, run * 400 + round * 4, 4, 1));
                let minute = pin!(rt.sleep(Duration::from_secs(60)));
                let Either::Left((written, _)) = select(pin!(join_all(writes)), minute).await else {
                    panic!("seed {seed}, limit {limit}: round {round} stands still");
                };
                written.into_iter().for_each(|written| written.unwrap());
            }
            assert_eq!(volume.stats().zones_broken, 0, "seed {seed}");
            volume.close().await.unwrap();
        });
    }
}

/// Routes change, and a controller copies and takes zones, while runs begin and end.
#[test]
fn controllers_keep_to_the_limits() {
    for seed in seeds(24) {
        Sim::new(seed).run(move |rt| async move {
            let limit = 4 + seed as u32 % 6;
            let (device, _, _) = format(&rt, &Geometry::zns(Blocks(64), Blocks(60), ZONES, limit, limit), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            device.set_latency(Duration::from_micros(100 * (1 + seed / 6 % 3)));
            watch(&device, limit, format!("seed {seed}"));
            let sectors = volume.size_bytes() / 4096;
            let controllers = (0..2).map(|number| {
                let (rt, control, mut random) = (rt.clone(), volume.control(), Random::new(seed ^ (number << 8)));
                let sleeper = rt.clone();
                rt.spawn(async move {
                    for _ in 0..60 {
                        let from = random.below(sectors - 40);
                        let range = from..from + random.below(40);
                        match random.below(5) {
                            0 => control.route(Route::Single),
                            1 => control.route(Route::Heat { young: 3 }),
                            2 => control
                                .route(Route::Sequential { sectors: 4, align: [0, 32][random.below(2) as usize] }),
                            // Refusals are no matter here.
                            3 => drop(control.copy(std::slice::from_ref(&range), None).await),
                            _ => {
                                drop(control.take().await);
                                drop(control.copy_to_taken(std::slice::from_ref(&range), None).await);
                            }
                        }
                        sleeper.sleep(Duration::from_micros(random.below(2_000))).await;
                    }
                })
            });
            let controllers: Vec<_> = controllers.collect();
            let mut random = Random::new(seed);
            let mut next = [0; 6].map(|_: u64| random.below(sectors - 400));
            for round in 0..150 {
                let writes = next.iter().enumerate().map(|(run, &lba)| put(&volume, lba, 1 + run as u64 * 2, 1));
                let minute = pin!(rt.sleep(Duration::from_secs(60)));
                let Either::Left((written, _)) = select(pin!(join_all(writes)), minute).await else {
                    panic!("seed {seed}, limit {limit}: round {round} stands still");
                };
                written.into_iter().for_each(|written| written.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
                for (run, lba) in next.iter_mut().enumerate() {
                    *lba += 1 + run as u64 * 2;
                    if *lba > sectors - 20 || random.chance(0.05) {
                        *lba = random.below(sectors - 400);
                    }
                }
            }
            for controller in controllers {
                controller.await.unwrap();
            }
            assert_eq!(volume.stats().zones_broken, 0, "seed {seed}");
            volume.close().await.unwrap();
        });
    }
}
