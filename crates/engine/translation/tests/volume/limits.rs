//! TL-LIMIT-1, TL-JOURNAL-1: frontiers that begin in one step, with as few active zones as a volume takes; and a journal without room.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{Either, join_all, select};
use shingle_base::{Blocks, ZoneId};
use shingle_sim::{CommandKind, Random, Sim, SimDevice, seeds};
use shingle_store_api::BlockStore;
use shingle_translation::{Route, ZoneUse};
use shingle_zoned::{Geometry, ZoneInfo, ZoneState, ZonedDevice};

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

/// TL-LIMIT-2: a drive that is killed before it was told that nobody writes a zone any more has it active no longer than to the next opening.
#[test]
fn zones_that_nobody_writes_are_given_back_by_the_next_opening() {
    let mut cuts = 0;
    for seed in seeds(6) {
        let images = Sim::new(seed).run(move |rt| async move {
            let limit = 4 + seed as u32 % 6;
            let (device, _, _) = format(&rt, &Geometry::zns(Blocks(64), Blocks(60), ZONES, limit, limit), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            volume.control().route(Route::Sequential { sectors: 4, align: 16 });
            let taken = Rc::new(RefCell::new(Vec::new()));
            let images = taken.clone();
            device.on_command(move |command, device| {
                if command.kind == CommandKind::Manage {
                    images.borrow_mut().push((command.number, device.crash_image(seed)));
                }
            });
            for round in 0..12 {
                join_all((0..3).map(|run| put(&volume, run * 400 + round * 4, 4, 1))).await;
            }
            volume.close().await.unwrap();
            taken.take()
        });
        cuts += images.len();
        for (command, image) in images {
            Sim::new(seed).run(move |rt| async move {
                let device = SimDevice::new(&rt, &image);
                let (volume, _) = open(&rt, &device).await.unwrap();
                let reports = device.report(ZoneId(0), ZONES).await.unwrap();
                for zone in volume.control().zones() {
                    let written = matches!(zone.used, ZoneUse::Writes | ZoneUse::Copies);
                    let active = reports.iter().any(|info| info.zone == zone.name.zone && info.state.is_active());
                    let context = format!("seed {seed}, cut at command {command}");
                    assert!(written || !active, "{context}: {:?} is active", zone.name);
                }
            });
        }
    }
    assert!(cuts > 20 || std::env::var_os("SHINGLE_SEED").is_some(), "only {cuts} cuts");
}

/// TL-JOURNAL-1: a drive on which the journal finds no room tells writers the reason, and writes no checkpoints for ever.
#[test]
fn a_journal_without_room_stops_the_volume() {
    for seed in seeds(24) {
        Sim::new(seed).run(move |rt| async move {
            let (device, _, zones) = format(&rt, &Geometry::hm_smr(Blocks(64), ZONES, 0, 12), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            let mut random = Random::new(seed);
            // Enough for a checkpoint, and some of them for no journal.
            let left = random.between(1, 5) as usize;
            let reports = device.report(ZoneId(0), zones.start).await.unwrap();
            let blank = |zone: &ZoneInfo| zone.written == Blocks::ZERO;
            let broken: Vec<ZoneId> = reports.iter().filter(|zone| blank(zone)).map(|zone| zone.zone).collect();
            for zone in broken.iter().rev().skip(left) {
                device.medium().set_state(*zone, ZoneState::ReadOnly);
            }
            device.power_off_at(200_000);
            let (sectors, mut failed) = (volume.size_bytes() / 4096, None);
            for number in 0..6000 {
                let write = pin!(put(&volume, random.below(sectors - 16), 1 + random.below(16), number as u8));
                match select(write, pin!(rt.sleep(Duration::from_secs(600)))).await {
                    Either::Left((Ok(()), _)) => {}
                    Either::Left((Err(error), _)) => {
                        failed = Some(error);
                        break;
                    }
                    Either::Right(_) => panic!("seed {seed}: write {number} waits without end"),
                }
            }
            let commands = device.counts().commands;
            assert!(commands < 200_000, "seed {seed}: {commands} commands, {failed:?}");
            let Some(error) = failed else { return };
            rt.sleep(Duration::from_secs(3600)).await;
            let more = device.counts().commands - commands;
            assert!(more < 100, "seed {seed}: {more} commands after {error}");
            let refused = put(&volume, 0, 1, 1).await.unwrap_err();
            assert!(refused.message.contains("too few of the zones for metadata"), "seed {seed}: {refused}, {error}");
            assert!(volume.stopped().now_or_never().is_some(), "seed {seed}: it has not stopped");
        });
    }
}
