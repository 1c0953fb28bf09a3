//! TL-CTL-1 to TL-CTL-3: controllers that hang, die, err or lie cost no data, and no more than time.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use shingle_base::ZoneId;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_store_testing::blocks::BlockDriver;
use shingle_translation::{Control, Event, Route, ZoneName, ZoneUse};
use shingle_zoned::ZonedDevice;

use crate::common::{format, geometry, mix, open, survival};

type Controller = fn(Runtime, Control, Random) -> LocalBoxFuture<'static, ()>;

fn some_ranges(control: &Control, random: &mut Random) -> Vec<Range<u64>> {
    let sectors = control.shape().sectors;
    let mut ranges: Vec<_> = (0..random.below(20))
        .map(|_| {
            let from = random.below(sectors);
            from..from + random.below(200)
        })
        .collect();
    ranges.sort_by_key(|range| range.start);
    ranges
}

fn some_zone(control: &Control, random: &mut Random) -> ZoneName {
    let zones = control.zones();
    zones[random.below(zones.len() as u64) as usize].name
}

/// Never does anything.
fn hangs(_: Runtime, _: Control, _: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(std::future::pending())
}

/// Is gone at once.
fn dies(_: Runtime, _: Control, _: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(std::future::ready(()))
}

/// Copies whatever it finds, wherever it lies, for ever.
fn copies_at_random(rt: Runtime, control: Control, mut random: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            let ranges = some_ranges(&control, &mut random);
            // A refusal does not stop it.
            let _ = control.copy(&ranges, None).await;
            rt.sleep(Duration::from_micros(random.below(500))).await;
        }
    })
}

/// Empties zones that are full of living sectors, again and again.
fn copies_the_fullest(rt: Runtime, control: Control, _: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            let fullest = control.zones().into_iter().max_by_key(|zone| zone.live);
            if let Some(zone) = fullest
                && let Ok(windows) = control.living_in(zone.name).await
            {
                for window in windows {
                    let ranges: Vec<_> = window.iter().map(|extent| extent.lba..extent.end()).collect();
                    let _ = control.copy(&ranges, Some(zone.name)).await;
                }
            }
            rt.sleep(Duration::from_micros(300)).await;
        }
    })
}

/// Takes zone after zone, and uses none.
fn takes_all(rt: Runtime, control: Control, _: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            let _ = control.take().await;
            rt.sleep(Duration::from_micros(200)).await;
        }
    })
}

/// Sets the low-water mark as high as it can, again and again.
fn stalls(rt: Runtime, control: Control, _: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            control.low_water(u64::MAX);
            rt.sleep(Duration::from_micros(100)).await;
        }
    })
}

/// Says that copies begin, of any number of sectors, and that they are over, and copies hardly any.
fn paces_at_random(rt: Runtime, control: Control, mut random: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            let sectors = random.number() >> random.below(65).min(63);
            control.pace(if random.chance(0.3) { 0 } else { sectors });
            if random.chance(0.1) {
                let ranges = some_ranges(&control, &mut random);
                let _ = control.copy(&ranges, None).await;
            }
            rt.sleep(Duration::from_micros(100)).await;
        }
    })
}

/// Names zones of generations that are over, and zones that are none.
fn lies_about_zones(rt: Runtime, control: Control, mut random: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        let mut old = Vec::new();
        loop {
            old.push(some_zone(&control, &mut random));
            let mut name = old[random.below(old.len() as u64) as usize];
            match random.below(4) {
                0 => name.zone = ZoneId(random.number() as u32),
                1 => name.generation = random.number(),
                _ => {}
            }
            let _ = control.feed(name);
            let ranges = some_ranges(&control, &mut random);
            let _ = control.copy_to_taken(&ranges, Some(name)).await;
            let _ = control.living_in(name).await;
            rt.sleep(Duration::from_micros(300)).await;
        }
    })
}

/// Asks for ranges that are out of order, empty, or beyond the volume.
fn lies_about_sectors(rt: Runtime, control: Control, mut random: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            let number = |random: &mut Random| random.number() >> random.below(64);
            let ranges: Vec<_> = (0..3).map(|_| number(&mut random)..number(&mut random)).collect();
            let _ = control.copy(&ranges, None).await;
            let all = 0..u64::MAX;
            let _ = control.copy(std::slice::from_ref(&all), None).await;
            let (_, _) = control.extents(number(&mut random), usize::MAX);
            rt.sleep(Duration::from_micros(400)).await;
        }
    })
}

/// Changes the route all the time.
fn routes_at_random(rt: Runtime, control: Control, mut random: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            control.route(match random.below(3) {
                0 => Route::Single,
                1 => Route::Heat { young: random.number() as u32 >> random.below(32) },
                _ => Route::Sequential {
                    sectors: random.below(64) as u32,
                    align: [0, 1, 100, 250][random.below(4) as usize],
                },
            });
            rt.sleep(Duration::from_micros(random.below(2000))).await;
        }
    })
}

/// Saves and has checkpoints written without end.
fn writes_checkpoints(rt: Runtime, control: Control, mut random: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            let length = random.below(80 << 10) as usize;
            let _ = control.save(Bytes::from(random.bytes(length)));
            let _ = control.checkpoint().await;
            rt.sleep(Duration::from_micros(100)).await;
        }
    })
}

/// All of the others in turn, broken off anywhere.
fn breaks_off(rt: Runtime, control: Control, mut random: Random) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        loop {
            let other = CONTROLLERS[random.below(CONTROLLERS.len() as u64 - 1) as usize];
            let work = other(rt.clone(), control.clone(), Random::new(random.number()));
            let pause = rt.sleep(Duration::from_micros(random.below(3000)));
            futures_util::future::select(work, Box::pin(pause)).await;
            if control.wait(Duration::ZERO).await == Event::Closing {
                return;
            }
        }
    })
}

const CONTROLLERS: [Controller; 12] = [
    hangs,
    dies,
    copies_at_random,
    copies_the_fullest,
    takes_all,
    stalls,
    paces_at_random,
    lies_about_zones,
    lies_about_sectors,
    routes_at_random,
    writes_checkpoints,
    breaks_off,
];

/// A history under a controller, and what is found after the power fails at some of its commands.
fn history(seed: u64, controller: Controller) {
    Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let geometry = geometry(&mut random);
        let sector_bytes = if random.chance(0.5) { 512 } else { 4096 };
        let (device, shadow, _) = format(&rt, &geometry, sector_bytes).await;
        let (volume, _) = open(&rt, &device).await.unwrap();
        let control = volume.control();
        rt.spawn_detached(controller(rt.clone(), control.clone(), Random::new(random.number())));
        let moments = Rc::new(RefCell::new(Vec::new()));
        let (kept, seen, drawn) = (moments.clone(), shadow.clone(), RefCell::new(Random::new(seed ^ 1)));
        device.on_command(move |command, device| {
            let mut random = drawn.borrow_mut();
            if random.chance(0.01) && kept.borrow().len() < 12 {
                let image = device.crash_image_with(random.number(), survival(&mut random, device.geometry()));
                kept.borrow_mut().push((command.number, image, seen.fork()));
            }
        });
        let (store, mix) = (Rc::new(volume.clone()), mix(&mut random));
        let mut driver = BlockDriver { rt: rt.clone(), store, shadow: shadow.clone(), random, mix };
        driver.run_well(250).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        device.on_command(|_, _| {});
        for (command, image, shadow) in moments.take() {
            let context = format!("seed {seed}, cut at command {command}");
            let device = SimDevice::new(&rt, &image);
            device.set_latency(Duration::ZERO);
            shadow.cut();
            let (volume, report) = open(&rt, &device).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(report.damaged.is_empty() && report.sectors_lost == 0, "{context}: {report:?}");
            shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("{context}: {broken}"));
            assert!(control.zones().iter().any(|zone| zone.used != ZoneUse::Dead));
        }
    });
}

/// TL-CTL-1, TL-CTL-2; and TL-ROOM-1: no write fails for want of room.
#[test]
fn bad_controllers_lose_nothing() {
    for seed in seeds(4) {
        for (at, controller) in CONTROLLERS.into_iter().enumerate() {
            history(seed * 100 + at as u64, controller);
        }
    }
}
