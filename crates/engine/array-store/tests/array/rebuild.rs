//! Drives come and go: after a rebuild as many drives may be lost again; whatever happens meanwhile, nothing is lost.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{ArrayShape, Driver, Model, content, formatted, named, open, options, powered, shape};
use bytes::Bytes;
use shingle_array_store::{
    ArrayDrive, ArrayStore, CheckOptions, DriveId, ErrorKind, IndexPlace, Options, RebuildOptions, ScrubOptions,
    ScrubReport, check,
};
use shingle_base::{Blocks, ZoneId};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

/// State after the power cut.
struct Cut {
    command: u64,
    images: Vec<MemoryDevice>,
    /// Drives that had failed.
    dead: Vec<bool>,
    model: Model,
}

/// Devices that come to the array while it runs.
type All = Rc<RefCell<Vec<SimDevice>>>;

fn drive(number: usize, device: &SimDevice) -> ArrayDrive {
    ArrayDrive { name: format!("d{number}"), dev: Rc::new(device.clone()) }
}

/// A drive that belongs to nobody, of another size perhaps.
fn blank(shape: &ArrayShape, random: &mut Random) -> MemoryDevice {
    let geometry = shape.drives[0].clone();
    let zone_count = geometry.zone_count + random.below(6) as u32;
    MemoryDevice::new(Geometry { zone_count, ..geometry })
}

async fn work(rt: &Runtime, store: &ArrayStore, model: &Rc<RefCell<Model>>, random: &mut Random, steps: u64) {
    let driver = Driver {
        rt: rt.clone(),
        store: store.clone(),
        model: model.clone(),
        random: Random::new(random.number()),
        caller: 0,
        names: 6,
        size_max: 100_000,
        faulty: true,
    };
    driver.run(steps).await;
}

/// Cuts the power of all drives at random commands of what follows.
fn cut_at_random(all: &All, dead: &[bool], model: &Rc<RefCell<Model>>, seed: u64, share: f64) -> Rc<RefCell<Vec<Cut>>> {
    let cuts = Rc::new(RefCell::new(Vec::new()));
    let number = Rc::new(RefCell::new((0u64, Random::new(seed ^ 77))));
    for device in all.borrow().iter() {
        let (all, dead, model, cuts, number) =
            (all.clone(), dead.to_vec(), model.clone(), cuts.clone(), number.clone());
        device.on_command(move |_, _| {
            let (command, random) = &mut *number.borrow_mut();
            *command += 1;
            if !random.chance(share) {
                return;
            }
            let image =
                |(at, device): (usize, &SimDevice)| device.crash_image(seed * 1_000_003 + *command * 31 + at as u64);
            let images = all.borrow().iter().enumerate().map(image).collect();
            let model = model.borrow().clone();
            cuts.borrow_mut().push(Cut { command: *command, images, dead: dead.clone(), model });
        });
    }
    cuts
}

/// A history in which as many drives die as may, others join, and a rebuild runs beside clients and power cuts.
fn history(seed: u64) -> Vec<Cut> {
    let mut random = Random::new(seed);
    let shape = shape(&mut random);
    let media = formatted(&shape);
    let options = Options { background: random.chance(0.5), ..options(&mut random) };
    Sim::new(seed).run(move |rt| async move {
        let context = format!("seed {seed}");
        let all: All = Rc::new(RefCell::new(powered(&rt, &media)));
        let model = Rc::new(RefCell::new(Model::default()));
        let devices = all.borrow().clone();
        let (store, _) = open(&rt, &devices, options).await;
        work(&rt, &store, &model, &mut random, 15).await;
        let mut dead = vec![false; devices.len()];
        for _ in 0..1 + random.below(shape.code.parity() as u64) {
            let at = random.below(devices.len() as u64) as usize;
            dead[at] = true;
            devices[at].power_off_at(devices[at].counts().commands + random.below(3));
        }
        work(&rt, &store, &model, &mut random, 6).await;
        for (device, _) in devices.iter().zip(&dead).filter(|(_, dead)| **dead) {
            // By now it is dead, whether anybody noticed or not.
            device.power_off_at(0);
        }
        let fresh: Vec<SimDevice> = (0..dead.iter().filter(|dead| **dead).count())
            .map(|_| SimDevice::new(&rt, &blank(&shape, &mut random)))
            .collect();
        let cuts = cut_at_random(&all, &dead, &model, seed, 0.02);
        for device in fresh {
            let number = all.borrow().len();
            all.borrow_mut().push(device.clone());
            dead.push(false);
            store.add_drive(&drive(number, &device)).await.unwrap_or_else(|error| panic!("{context}: {error}"));
        }
        let beside = {
            let (rt, store, model) = (rt.clone(), store.clone(), model.clone());
            let mut random = Random::new(random.number());
            rt.clone().spawn(async move { work(&rt, &store, &model, &mut random, 6).await })
        };
        let mut told = 0;
        let done = store.rebuild(RebuildOptions::default(), |progress| told = progress.done + progress.failed).await;
        beside.await.unwrap();
        // Objects being written meanwhile may have lost a member again: nothing is in the way now.
        let last = store.rebuild(RebuildOptions::default(), |_| {}).await;
        for device in all.borrow().iter() {
            device.on_command(|_, _| {});
        }
        let (done, last) = (done.unwrap_or_else(|error| panic!("{context}: {error}")), last.unwrap());
        assert_eq!(last.failed, 0, "{context}");
        assert!(told <= done.members);
        let mut found = model.borrow().clone();
        found.settle(&store, &context).await;
        // As many may be lost again.
        let images: Vec<MemoryDevice> = all.borrow().iter().map(|device| device.crash_image(seed)).collect();
        lose_again(&rt, seed, images, &dead, shape.code.parity(), found).await;
        cuts.take()
    })
}

/// Opens without the dead drives and without `parity` others.
async fn lose_again(
    rt: &Runtime,
    seed: u64,
    images: Vec<MemoryDevice>,
    dead: &[bool],
    parity: usize,
    mut model: Model,
) {
    let mut random = Random::new(seed + 5);
    let mut there: Vec<MemoryDevice> =
        images.into_iter().zip(dead).filter(|(_, dead)| !**dead).map(|(image, _)| image).collect();
    for _ in 0..parity {
        there.remove(random.below(there.len() as u64) as usize);
    }
    let devices = powered(rt, &there);
    let opened = ArrayStore::open(rt, &named(&devices), &IndexPlace::Memory, Options::default()).await;
    let (store, report) = opened.unwrap_or_else(|error| panic!("seed {seed}, drives lost again: {error}"));
    assert_eq!(report.damage, Vec::<String>::new(), "seed {seed}");
    model.settle(&store, &format!("seed {seed}, drives lost again")).await;
}

/// Opens what a cut left, with the dead drives back or without them, goes on with the rebuild, and loses drives again.
fn recover(seed: u64, parity: usize, cut: Cut) {
    let Cut { command, images, dead, mut model } = cut;
    let context = format!("seed {seed}, cut at command {command}");
    let mut random = Random::new(seed ^ command << 20);
    let back = random.chance(0.5);
    Sim::new(seed ^ command).run(move |rt| async move {
        let devices = powered(&rt, &images);
        let is_dead = |at: usize| dead.get(at).is_some_and(|dead| *dead);
        let there = devices.iter().enumerate().filter(|(at, _)| back || !is_dead(*at));
        // A drive that was about to join may hold no array yet.
        let mut drives = Vec::new();
        for (number, device) in there {
            let one = drive(number, device);
            if shingle_array_store::array_of(&one).await.is_ok_and(|array| array.is_some()) {
                drives.push(one);
            }
        }
        let options = Options { background: random.chance(0.3), ..options(&mut random) };
        let opened = ArrayStore::open(&rt, &drives, &IndexPlace::Memory, options).await;
        let (store, report) = opened.unwrap_or_else(|error| panic!("{context}, back {back}: {error}"));
        assert_eq!(report.damage, Vec::<String>::new(), "{context}: damage");
        model.settle(&store, &context).await;
        let model = Rc::new(RefCell::new(model));
        work(&rt, &store, &model, &mut random, 3).await;
        match store.rebuild(RebuildOptions::default(), |_| {}).await {
            Ok(done) if done.failed == 0 && report.missing_drives.len() < parity + 1 => {}
            Ok(_) => {}
            // Before the new drives joined there is no room for it.
            Err(error) => assert_eq!(error.kind, ErrorKind::NoSpace, "{context}: {error}"),
        }
        let mut model = model.borrow().clone();
        model.settle(&store, &format!("{context}, rebuilt")).await;
    });
}

/// Seeds that found something once: a power cut while a drive joined left an array that missed that one as well; two
/// workers of a rebuild that saved the table at once; and a set that a power cut left half reset, with too little for a
/// rebuild.
const FOUND: [u64; 3] = [334, 629, 133];

#[test]
fn as_many_drives_may_be_lost_again_after_a_rebuild_that_power_cuts_met() {
    let mut pairs = 0;
    for seed in seeds(60).chain(FOUND) {
        let parity = shape(&mut Random::new(seed)).code.parity();
        for cut in history(seed) {
            pairs += 1;
            recover(seed, parity, cut);
        }
    }
    println!("{pairs} (seed, cut) pairs");
    assert!(pairs >= 200 || std::env::var_os("SHINGLE_SEED").is_some(), "only {pairs} pairs were tested");
}

/// Seeds that found something once: a superblock on its way to the drive that is taken out; two workers of a rebuild that
/// win the same zones, and a set on the drive that is still being reset at its end.
const TAKEN_OUT: [u64; 2] = [231, 2477];

#[test]
fn a_drive_is_taken_out_while_clients_go_on() {
    for seed in seeds(15).chain(TAKEN_OUT) {
        let mut random = Random::new(seed);
        let mut shape = shape(&mut random);
        // One more than the code needs stays.
        shape.drives.push(shape.drives[0].clone());
        let media = formatted(&shape);
        Sim::new(seed).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let (store, _) = open(&rt, &devices, options(&mut random)).await;
            let model = Rc::new(RefCell::new(Model::default()));
            work(&rt, &store, &model, &mut random, 20).await;
            let leaving = random.below(devices.len() as u64) as usize;
            let beside = {
                let (rt, store, model) = (rt.clone(), store.clone(), model.clone());
                let mut random = Random::new(random.number());
                rt.clone().spawn(async move { work(&rt, &store, &model, &mut random, 8).await })
            };
            let mut result = store.remove_drive(DriveId(leaving as u8), RebuildOptions::default(), |_| {}).await;
            beside.await.unwrap();
            if result.is_err() {
                // A set that was written to again in between stays with it; now nobody is in the way.
                result = store.remove_drive(DriveId(leaving as u8), RebuildOptions::default(), |_| {}).await;
            }
            result.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert!(
                shingle_array_store::array_of(&drive(leaving, &devices[leaving])).await.unwrap().is_none(),
                "seed {seed}: the drive still says that it is a part of the array"
            );
            store.close().await.unwrap();
            let rest: Vec<SimDevice> =
                devices.iter().enumerate().filter(|(at, _)| *at != leaving).map(|(_, device)| device.clone()).collect();
            let (store, report) = open(&rt, &rest, Options::default()).await;
            assert_eq!(report.missing_drives, Vec::<String>::new(), "seed {seed}");
            let mut found = model.borrow().clone();
            found.settle(&store, &format!("seed {seed}")).await;
        });
    }
}

#[test]
fn drives_that_are_added_give_room() {
    let mut random = Random::new(4);
    let shape = ArrayShape { drives: vec![Geometry::hm_smr(Blocks(50), 14, 0, 12); 3], ..shape(&mut random) };
    let code = shingle_erasure::Code::new(2, 1).unwrap();
    let media = formatted(&ArrayShape { code, ..shape });
    Sim::new(4).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &devices, Options::default()).await;
        let before = store.stats().unwrap().capacity;
        store.put("o", content((1, 300_000)), Bytes::new()).await.unwrap();
        for number in 3..6 {
            let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(50), 14, 0, 12)));
            store.add_drive(&drive(number, &device)).await.unwrap();
        }
        let after = store.stats().unwrap().capacity;
        assert!(after >= before * 2 - before / 4, "three more drives: {before} bytes, then {after}");
        assert!(store.get("o").await.unwrap() == content((1, 300_000)));
    });
}

/// AS-REPLACE-3: while a drive cannot be read, no zone takes a member's place with zeros for what that drive has.
#[test]
fn a_rebuild_waits_for_what_cannot_be_read_for_a_moment() {
    let geometry = Geometry::hm_smr(Blocks(50), 14, 0, 12);
    let media = formatted(&ArrayShape {
        code: shingle_erasure::Code::new(2, 1).unwrap(),
        segment_length: 20_000,
        drives: vec![geometry.clone(); 3],
    });
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &devices, Options { background: false, ..Options::default() }).await;
        store.put("o", content((1, 100_000)), Bytes::new()).await.unwrap();
        devices[1].power_off_at(0);
        store.put("p", content((2, 100_000)), Bytes::new()).await.unwrap();
        store.add_drive(&drive(3, &SimDevice::new(&rt, &MemoryDevice::new(geometry)))).await.unwrap();
        let fails = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::ReadError };
        devices[2].set_faults(Faults::new([fails]));
        let done = store.rebuild(RebuildOptions::default(), |_| {}).await;
        assert!(done.is_err() || done.is_ok_and(|done| done.failed > 0), "it was rebuilt of one drive of three");
        devices[2].set_faults(Faults::default());
        let done = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
        assert!(done.failed == 0 && done.done > 0, "{done:?}");
        let found = store.scrub(ScrubOptions { read_only: true, ..ScrubOptions::default() }, |_| {}).await.unwrap();
        assert_eq!((found.damaged, found.lost), (vec![], vec![]));
        // Another one may be lost.
        devices[0].power_off_at(0);
        assert!(store.get("o").await.unwrap() == content((1, 100_000)));
        assert!(store.get("p").await.unwrap() == content((2, 100_000)));
    });
}

#[test]
fn without_a_drive_to_take_it_a_rebuild_says_what_to_do() {
    let media = formatted(&ArrayShape {
        code: shingle_erasure::Code::new(2, 1).unwrap(),
        segment_length: 20_000,
        drives: vec![Geometry::hm_smr(Blocks(50), 14, 0, 12); 3],
    });
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &devices, Options { background: false, ..Options::default() }).await;
        store.put("o", content((1, 100_000)), Bytes::new()).await.unwrap();
        devices[1].power_off_at(0);
        store.put("p", content((2, 100_000)), Bytes::new()).await.unwrap();
        let error = store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        assert!(error.message.contains("add a drive"), "{error}");
        let error = store.remove_drive(DriveId(0), RebuildOptions::default(), |_| {}).await.unwrap_err();
        assert!(error.message.contains("add a drive first"), "{error}");
        assert!(store.get("p").await.unwrap() == content((2, 100_000)));
    });
}

/// Spoils some written blocks of a drive's sets.
fn spoil(image: &MemoryDevice, random: &mut Random, share: f64) -> usize {
    let geometry = image.geometry().clone();
    let mut spoilt = 0;
    for zone in geometry.conventional_zones + 2..geometry.zone_count {
        let info = image.zone(ZoneId(zone));
        for block in 0..info.written.0 {
            if random.chance(share) {
                image.corrupt(info.start + Blocks(block), |bytes| bytes[random.below(4096) as usize] ^= 4);
                spoilt += 1;
            }
        }
    }
    spoilt
}

/// AS-REPLACE-2.
#[test]
fn a_scrub_finds_rot_and_writes_it_anew() {
    // 420: a full zone of a snapshot that was replaced had a digest, and the others had none. 3939: the head of an open set's
    // zone is rotten, and no item.
    for seed in seeds(25).chain([420, 3939]) {
        let mut random = Random::new(seed);
        let mut shape = shape(&mut random);
        shape.drives.push(shape.drives[0].clone());
        let media = formatted(&shape);
        Sim::new(seed).run(move |rt| async move {
            let context = format!("seed {seed}");
            let devices = powered(&rt, &media);
            let model = Rc::new(RefCell::new(Model::default()));
            let plain = Options { background: false, ..options(&mut random) };
            let (store, _) = open(&rt, &devices, plain.clone()).await;
            work(&rt, &store, &model, &mut random, 15).await;
            let clean = store.scrub(ScrubOptions::default(), |_| {}).await.unwrap();
            assert_eq!((&clean.damaged, &clean.lost), (&vec![], &vec![]), "{context}");
            assert!(clean.bytes > 0 || model.borrow().objects.values().all(|object| object.acked.is_none()));
            store.close().await.unwrap();
            let images: Vec<MemoryDevice> = devices.iter().map(SimDevice::image).collect();
            let spoilt: usize =
                images.iter().take(shape.code.parity()).map(|image| spoil(image, &mut random, 0.02)).sum();
            let devices = powered(&rt, &images);
            let checked = check(&rt, &named(&devices), CheckOptions::default(), |_| {}).await.unwrap();
            let (store, _) = open(&rt, &devices, plain).await;
            let found = store.scrub(ScrubOptions { read_only: true, ..ScrubOptions::default() }, |_| {}).await.unwrap();
            assert_eq!((found.repaired, &found.lost), (0, &vec![]), "{context}");
            assert_eq!((&checked.repairable, &checked.lost), (&found.damaged, &vec![]), "{context}");
            let mended = if seed % 2 == 0 {
                store.scrub(ScrubOptions::default(), |_| {}).await.unwrap()
            } else {
                step_by_step(&store).await
            };
            assert_eq!((&mended.damaged, &mended.lost), (&found.damaged, &vec![]), "{context}: {spoilt} blocks");
            let again = store.scrub(ScrubOptions::default(), |_| {}).await.unwrap();
            assert_eq!((&again.damaged, &again.lost), (&vec![], &vec![]), "{context}");
            let mut found = model.borrow().clone();
            found.settle(&store, &context).await;
            store.close().await.unwrap();
            // As many other drives may go now.
            let images: Vec<MemoryDevice> = devices.iter().map(SimDevice::image).collect();
            let rest: Vec<MemoryDevice> = images[shape.code.parity()..].iter().map(MemoryDevice::snapshot).collect();
            let devices = powered(&rt, &rest);
            let (store, report) = open(&rt, &devices, Options { background: false, ..Options::default() }).await;
            assert_eq!(report.damage, Vec::<String>::new(), "{context}");
            found.settle(&store, &format!("{context}, without the drives that were spoilt")).await;
        });
    }
}

/// AS-SET-5: seeds whose power cut meets a set of dead items that is being reset: some members have nothing, the others all.
const HALF_RESET: [u64; 2] = [317, 1901];

#[test]
fn an_array_that_is_opened_for_reading_stays_as_it_is() {
    for seed in seeds(15).chain(HALF_RESET) {
        let mut random = Random::new(seed);
        let media = formatted(&shape(&mut random));
        Sim::new(seed).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let model = Rc::new(RefCell::new(Model::default()));
            let (store, _) = open(&rt, &devices, options(&mut random)).await;
            work(&rt, &store, &model, &mut random, 12).await;
            let images: Vec<MemoryDevice> =
                devices.iter().enumerate().map(|(at, device)| device.crash_image(seed + at as u64)).collect();
            let devices = powered(&rt, &images);
            let before: Vec<_> = devices.iter().map(written).collect();
            let reading = Options { read_only: true, ..Options::default() };
            let (store, _) = open(&rt, &devices, reading).await;
            let mut found = model.borrow().clone();
            found.settle(&store, &format!("seed {seed}")).await;
            let refused = store.put("new", content((1, 10)), Bytes::new()).await.unwrap_err();
            assert!(refused.message.contains("reading only"), "{refused}");
            assert!(store.delete("c0/0").await.is_err() && store.snapshot().await.is_err());
            store.close().await.unwrap();
            let report = check(&rt, &named(&devices), CheckOptions::default(), |_| {}).await.unwrap();
            assert!(report.clean(), "seed {seed}: {report:?}");
            let after: Vec<_> = devices.iter().map(written).collect();
            assert!(before == after, "seed {seed}: something was written");
        });
    }
}

/// A scrub in steps: every set once, in order.
async fn step_by_step(store: &ArrayStore) -> ScrubReport {
    let mut after = None;
    let mut whole = ScrubReport::default();
    while let Some((set, report)) = store.scrub_next(after).await.unwrap() {
        assert!(after.is_none_or(|after| set > after) && report.done == 1 && report.sets >= 1);
        whole.damaged.extend(report.damaged);
        whole.lost.extend(report.lost);
        whole.repaired += report.repaired;
        after = Some(set);
    }
    whole
}

/// Written blocks of each zone of a device.
fn written(device: &SimDevice) -> Vec<Blocks> {
    let image = device.image();
    (0..image.geometry().zone_count).map(|zone| image.zone(ZoneId(zone)).written).collect()
}
