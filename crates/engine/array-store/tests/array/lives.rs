//! Chains of lives under all faults at once, on as many drives as the code has parity: what was acknowledged is there,
//! what was deleted is not, and the array opens. Bytes come from the number of their write.
//!
//! The drives on which anything may happen stay the same through a chain, so no stripe ever lacks more than parity
//! makes up for. In some chains small objects go to a buffer, and anything may happen to one of its two files, too.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::buffer::files;
use crate::common::{Driver, Model, formatted, named, options, shape};
use futures_util::future::join_all;
use shingle_array_store::{
    ArrayDrive, ArrayStore, ErrorKind, IndexPlace, Options, RebuildOptions, ScrubOptions, inspect,
};
use shingle_runtime::Runtime;
use shingle_sim::lives::{Life, wear};
use shingle_sim::{Faults, Medium, Mirrors, Random, Sim, SimDevice, SimFile, Survival, seeds};

/// End of a life, for all drives in the same moment.
#[derive(Clone, Copy, Debug)]
enum End {
    Closed,
    Killed,
    PowerCut(Survival),
}

/// Knowledge of a life about the array it works on.
#[derive(Clone)]
struct Scene {
    context: String,
    /// Drives that are there.
    there: Vec<ArrayDrive>,
    /// Names of those on which anything may happen.
    victims: Vec<String>,
    options: Options,
    take_back: bool,
    rebuild: bool,
    scrub: bool,
    buffer: Option<[Rc<SimFile>; 2]>,
}

/// Takes out a drive that the array says is none of its own: its fragments have been rebuilt on others.
fn without_stranger(scene: &Scene, error: &shingle_array_store::Error) -> Vec<ArrayDrive> {
    let (context, message) = (&scene.context, &error.message);
    assert_eq!(error.kind, ErrorKind::Invalid, "{context}: {error}");
    let is_named = |drive: &ArrayDrive| message.split_whitespace().next() == Some(&drive.name);
    let stranger = scene.there.iter().find(|drive| is_named(drive) && scene.victims.contains(&drive.name));
    let stranger = stranger.unwrap_or_else(|| panic!("{context}: {error}")).name.clone();
    scene.there.iter().filter(|drive| drive.name != stranger).cloned().collect()
}

/// True if a drive that is to be taken back did not answer, however often it was asked, or has nothing left that shows
/// whose it is.
fn is_silent(scene: &Scene, error: &shingle_array_store::Error) -> bool {
    let is_named = |victim: &String| error.message.contains(&format!("({victim}): it is missing, or does not answer"));
    error.kind == ErrorKind::Device && scene.victims.iter().any(is_named)
}

async fn open(rt: &Runtime, mut scene: Scene) -> ArrayStore {
    loop {
        match try_open(rt, &scene).await {
            Ok(store) => return store,
            // The caller that asked for it asks again.
            Err(error) if is_silent(&scene, &error) => {}
            Err(error) => scene.there = without_stranger(&scene, &error),
        }
    }
}

async fn try_open(rt: &Runtime, scene: &Scene) -> shingle_array_store::Result<ArrayStore> {
    let seen = inspect(&scene.there).await?;
    let out = seen.drives.iter().filter(|drive| drive.given.is_some() && !drive.in_use && !drive.removed);
    let readmit = out.filter(|_| scene.take_back).map(|drive| drive.id).collect();
    let options = Options { readmit, ..scene.options.clone() };
    let buffer = scene.buffer.as_ref().map(files);
    let (store, report) = ArrayStore::open_with_buffer(rt, &scene.there, &IndexPlace::Memory, options, buffer).await?;
    assert_eq!(report.damage, Vec::<String>::new(), "{}", scene.context);
    Ok(store)
}

/// Opens the array, holds it against the model, and works with it until the life ends.
async fn live(rt: Runtime, scene: Scene, model: Rc<RefCell<Model>>, mut random: Random, orderly: bool) {
    let context = &scene.context;
    let store = open(&rt, scene.clone()).await;
    let mut settled = model.borrow().clone();
    settled.settle(&store, context).await;
    *model.borrow_mut() = settled;
    if scene.rebuild
        && let Err(error) = store.rebuild(RebuildOptions::default(), |_| {}).await
    {
        // A zone that is written anew may be one that fails.
        let of_victim = scene.victims.iter().any(|victim| error.message.contains(&format!("({victim})")));
        let known = matches!(error.kind, ErrorKind::NoSpace | ErrorKind::Invalid)
            || error.kind == ErrorKind::Device && of_victim;
        assert!(known, "{context}: rebuild: {error}");
    }
    let drivers = (0..2).map(|caller| Driver {
        rt: rt.clone(),
        store: store.clone(),
        model: model.clone(),
        random: Random::new(random.number()),
        caller,
        names: 5,
        size_max: 40_000,
        faulty: true,
    });
    let drivers: Vec<_> = drivers.map(|driver| rt.spawn(driver.run(20))).collect();
    for driver in join_all(drivers).await {
        driver.unwrap();
    }
    if scene.scrub {
        let scrubbed = store.scrub(ScrubOptions::default(), |_| {}).await;
        let scrubbed = scrubbed.unwrap_or_else(|error| panic!("{context}: scrub: {error}"));
        assert!(scrubbed.lost.is_empty(), "{context}: scrub lost {:?}", scrubbed.lost);
    }
    if orderly {
        store.close().await.unwrap_or_else(|error| panic!("{context}: close: {error}"));
    }
}

fn chain(seed: u64) {
    let mut random = Random::new(seed);
    let shape = shape(&mut random);
    let parity = shape.code.parity();
    let mut media: Vec<Medium> = formatted(&shape).iter().map(Medium::from).collect();
    let first = random.below(media.len() as u64) as usize;
    let count = media.len();
    let victims: Vec<usize> = (0..parity).map(|number| (first + number) % count).collect();
    let mut model = Model::default();
    // Drawn apart: without a buffer a seed does what it always did.
    let mut apart = Random::new(seed ^ 0xB0FF);
    let fresh = Mirrors::new(apart.below(2) as usize);
    let mut buffer = apart.chance(0.4).then_some(fresh);
    for number in 0..5 {
        let end = match random.below(4) {
            0 => End::Closed,
            1 => End::Killed,
            2 => End::PowerCut(Survival::Prefix),
            _ => End::PowerCut(Survival::AnySubset),
        };
        let lives: Vec<Option<Life>> = (0..count)
            .map(|at| {
                let zones = shape.drives[at].zone_count;
                victims.contains(&at).then(|| Life::draw(&mut random, &(0..zones), zones, 1))
            })
            .collect();
        // With no more data than parity, drives that were given up cannot be told from the others, should those be away.
        let away: Vec<usize> = victims.iter().copied().filter(|_| count > 2 * parity && random.chance(0.2)).collect();
        let mut drawn = Random::new(random.number());
        let (options, take_back) = (options(&mut random), random.chance(0.6));
        let options = Options { buffer_bytes: 256 << 10, ..options };
        let (rebuild, scrub) = (random.chance(0.4), random.chance(0.3));
        let context = format!("seed {seed}, life {number}, {end:?}, {}, drives {victims:?}, away {away:?}", shape.code);
        let at_risk = victims.clone();
        let (ran, last) = (model.clone(), Duration::from_micros(random.below(400_000)));
        let (mut moved, mut of_buffer) = (buffer, Random::new(apart.number()));
        (media, model, buffer) = Sim::new(seed * 100 + number).run(move |rt| async move {
            let start = |(medium, life): (Medium, &Option<Life>)| match life {
                Some(life) => {
                    let device = life.begin(&rt, medium);
                    device.power_off_at(u64::MAX);
                    device
                }
                None => SimDevice::resume(&rt, medium),
            };
            let devices: Vec<SimDevice> = media.into_iter().zip(&lives).map(start).collect();
            let there = named(&devices).into_iter().enumerate().filter(|(at, _)| !away.contains(at));
            let there = there.map(|(_, drive)| drive).collect();
            let victims = at_risk.iter().map(|victim| format!("d{victim}")).collect();
            let files = moved.as_ref().map(|buffer| buffer.begin(&rt, &mut of_buffer));
            let scene = Scene { context, there, victims, options, take_back, rebuild, scrub, buffer: files.clone() };
            let model = Rc::new(RefCell::new(ran));
            let orderly = matches!(end, End::Closed);
            let life = rt.spawn(live(rt.clone(), scene, model.clone(), Random::new(drawn.number()), orderly));
            if orderly {
                life.await.unwrap();
            } else {
                // At any step: in the middle of opening, too.
                let ended = futures_util::future::select(Box::pin(life), Box::pin(rt.sleep(last))).await;
                if let futures_util::future::Either::Left((life, _)) = ended {
                    life.unwrap();
                }
            }
            let mut leave = |device: &SimDevice| match end {
                End::Closed | End::Killed => device.kill(),
                End::PowerCut(survival) => Medium::from(&device.crash_image_with(drawn.number(), survival)),
            };
            let left: Vec<Medium> = devices.iter().map(&mut leave).collect();
            if let (Some(buffer), Some(files)) = (&mut moved, &files) {
                buffer.end(files, &mut of_buffer);
            }
            devices.iter().for_each(|device| device.set_faults(Faults::default()));
            let model = model.borrow().clone();
            (left, model, moved)
        });
        for &victim in &victims {
            let geometry = &shape.drives[victim];
            wear(&mut random, &media[victim], geometry, &(0..geometry.zone_count));
        }
    }
}

/// Seeds that found something once: a drive that was to be taken back failed one report of its zones; and an item that was given up
/// lies below the block up to which a snapshot covers a set. In 318 a drive lost a flush of the opening, which failed then.
/// In 164 a host that writes over zones in place showed a superblock of a zone's former life behind the newest one (AS-SB-6).
const FOUND: [u64; 4] = [164, 256, 318, 340];

/// AS-CLEAN-2, AS-WRITE-2.
#[test]
fn what_was_acknowledged_is_there_through_chains_of_lives() {
    for seed in seeds(80).chain(FOUND) {
        chain(seed);
    }
}
