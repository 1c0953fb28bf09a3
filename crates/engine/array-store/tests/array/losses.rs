//! Chains of lives in which more is lost than parity makes up for, or both files of the buffer, and the loss is accepted.
//!
//! An opening that tells of no loss finds what was acknowledged. One that does, and is accepted, may lack objects, or have
//! older versions; what it found, what is acknowledged from then on, and deletions stay. (AS-LOSS-1)

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use crate::buffer::files;
use crate::common::{ArrayShape, Content, Driver, Model, ModelObject, content, formatted, named, options, shape};
use futures_util::future::{Either, join_all, select};
use shingle_array_store::{
    ArrayDrive, ArrayStore, Error, ErrorKind, IndexPlace, Options, RebuildOptions, RecoveryReport,
};
use shingle_base::{Blocks, ZoneId};
use shingle_runtime::Runtime;
use shingle_sim::{Medium, Random, Sim, SimDevice, SimFile, Survival, seeds};
use shingle_zoned::ZoneState;

/// Lives of a chain.
const LIVES: u64 = 6;

/// Losses between two lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disaster {
    /// One drive more than parity makes up for.
    Drives,
    /// Some zones of as many drives: they are offline, or none of their blocks can be read.
    Zones,
    /// Both files of the buffer.
    Buffer,
}

/// Knowledge of an array's losses.
#[derive(Clone, Debug, Default)]
struct Losses {
    /// Those that no opening was held against yet.
    fresh: Vec<Disaster>,
    /// Those of the chain.
    all: Vec<Disaster>,
    /// Objects as they were when the array was closed in order, and how often each had been put: none is in the buffer alone.
    closed: BTreeMap<String, (Option<Content>, usize)>,
    /// Objects that are listed and cannot be read. They are deleted, as a person does who wants to see no errors.
    unreadable: BTreeSet<String>,
    /// Objects that were lost, replaced by older ones, or became unreadable.
    lost: u64,
    /// Openings that told of a loss.
    told: u64,
    /// Times that a loss was settled.
    settled: u64,
}

impl Losses {
    /// True if an object is as it was when the array was closed in order.
    fn is_on_drives(&self, name: &str, object: &ModelObject, puts: usize) -> bool {
        object.trying.is_none() && self.closed.get(name) == Some(&(object.acked, puts))
    }

    /// Holds an opened array against what is known, and takes what was found for what is there from now on.
    async fn judge(&mut self, model: &mut Model, store: &ArrayStore, report: &RecoveryReport, context: &str) {
        let knows = store.lost_before().unwrap().is_some();
        assert!(knows || report.damage.is_empty(), "{context}: the loss is not remembered: {:?}", report.damage);
        let of_buffer = self.fresh.iter().all(|disaster| *disaster == Disaster::Buffer);
        for (name, object) in &mut model.objects {
            let ever = model.ever.get(name).map(Vec::as_slice).unwrap_or_default();
            let kept = of_buffer && self.is_on_drives(name, object, ever.len());
            let found = match store.get(name.clone()).await {
                Ok(bytes) => {
                    let written = ever.iter().find(|one| content(**one) == bytes);
                    Some(*written.unwrap_or_else(|| panic!("{context}: {name} has bytes that nobody put there")))
                }
                Err(error) if error.kind == ErrorKind::NotFound => None,
                Err(error) => {
                    let hit = self.all.iter().any(|disaster| *disaster != Disaster::Buffer);
                    let may_be = hit && matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Device);
                    let news = self.unreadable.insert(name.clone());
                    assert!(may_be && !(news && self.fresh.is_empty()), "{context}: {name}, {object:?}: {error}");
                    self.lost += u64::from(news);
                    continue;
                }
            };
            self.unreadable.remove(name);
            let expected = found == object.acked || object.trying == Some(found);
            let may_differ = knows && !self.fresh.is_empty() && !kept;
            assert!(expected || may_differ, "{context}: {name} is {found:?}, and {object:?} is known");
            self.lost += u64::from(!expected);
            *object = ModelObject { acked: found, trying: None };
        }
        let listed = store.list(b"", None, usize::MAX).unwrap().into_iter();
        let listed: BTreeSet<_> = listed.map(|object| String::from_utf8_lossy(&object.name).into_owned()).collect();
        let there = model.objects.iter().filter(|(_, object)| object.acked.is_some()).map(|(name, _)| name.clone());
        let expected: BTreeSet<String> = there.chain(self.unreadable.iter().cloned()).collect();
        let off = listed.symmetric_difference(&expected).find(|name| !self.unreadable.contains(*name));
        assert_eq!(off, None, "{context}: {listed:?} are listed, and {expected:?} are there");
        self.told += u64::from(!report.damage.is_empty());
        self.fresh.clear();
    }
}

/// A life, and what is there.
struct Scene {
    context: String,
    there: Vec<ArrayDrive>,
    options: Options,
    buffer: Option<[Rc<SimFile>; 2]>,
    model: Rc<RefCell<Model>>,
    losses: Rc<RefCell<Losses>>,
    rebuild: bool,
    settle: bool,
    orderly: bool,
}

/// True if a drive that is there was given up, and is none of the array's any more.
fn is_stranger(drive: &ArrayDrive, error: &Error) -> bool {
    error.kind == ErrorKind::Invalid && error.message.starts_with(&format!("{} is no drive of this array", drive.name))
}

impl Scene {
    /// Opens the array; where that is refused, accepts what the refusal is for.
    async fn open(&self, rt: &Runtime) -> (ArrayStore, RecoveryReport) {
        let (mut there, mut options) = (self.there.clone(), self.options.clone());
        loop {
            let buffer = self.buffer.as_ref().map(files);
            let opened = ArrayStore::open_with_buffer(rt, &there, &IndexPlace::Memory, options.clone(), buffer).await;
            let accepting = options.accept_loss || options.abandon_buffer;
            match opened {
                Ok((store, report)) => {
                    assert!(accepting || report.damage.is_empty(), "{}: {:?}", self.context, report.damage);
                    return (store, report);
                }
                Err(error) if there.iter().any(|drive| is_stranger(drive, &error)) => {
                    there.retain(|drive| !is_stranger(drive, &error));
                }
                Err(error) => {
                    assert!(!self.losses.borrow().all.is_empty(), "{}: nothing was lost: {error}", self.context);
                    let of_buffer = error.message.contains("--abandon-buffer") && !options.abandon_buffer;
                    assert!(of_buffer || !options.accept_loss, "{}: accepted, and refused: {error}", self.context);
                    (options.abandon_buffer, options.accept_loss) =
                        (options.abandon_buffer | of_buffer, options.accept_loss | !of_buffer);
                }
            }
        }
    }

    async fn live(self, rt: Runtime, mut random: Random) {
        let context = &self.context;
        let (store, report) = self.open(&rt).await;
        let (mut model, mut losses) = (self.model.borrow().clone(), self.losses.borrow().clone());
        losses.judge(&mut model, &store, &report, context).await;
        // Only now: a life may end in the middle.
        self.model.replace(model);
        self.losses.replace(losses);
        if self.rebuild
            && let Err(error) = store.rebuild(RebuildOptions::default(), |_| {}).await
        {
            let of_loss = matches!(error.kind, ErrorKind::Device | ErrorKind::Corrupt);
            let of_loss = of_loss && !self.losses.borrow().all.is_empty();
            let known = matches!(error.kind, ErrorKind::NoSpace | ErrorKind::Invalid) || of_loss;
            assert!(known, "{context}: rebuild: {error}");
        }
        let unreadable = self.losses.borrow().unreadable.clone();
        for name in unreadable {
            self.model.borrow_mut().objects.entry(name.clone()).or_default().trying = Some(None);
            match store.delete(name.clone()).await {
                Ok(_) => {}
                // With fewer drives there is less room.
                Err(error) if error.kind == ErrorKind::NoSpace => return,
                Err(error) => panic!("{context}: delete of {name}: {error}"),
            }
            self.model.borrow_mut().objects.insert(name.clone(), ModelObject::default());
            self.losses.borrow_mut().unreadable.remove(&name);
        }
        if self.settle {
            store.settle_loss().await.unwrap_or_else(|error| panic!("{context}: settle: {error}"));
            assert_eq!(store.lost_before().unwrap(), None, "{context}");
            self.losses.borrow_mut().settled += 1;
        }
        let drivers = (0..2).map(|caller| Driver {
            rt: rt.clone(),
            store: store.clone(),
            model: self.model.clone(),
            random: Random::new(random.number()),
            caller,
            names: 5,
            size_max: 20_000,
            // Old sets cannot be reset where zones are offline.
            faulty: self.losses.borrow().all.contains(&Disaster::Zones),
        });
        let drivers: Vec<_> = drivers.map(|driver| rt.spawn(driver.run(20))).collect();
        join_all(drivers).await.into_iter().for_each(|driver| driver.unwrap());
        if self.orderly {
            store.close().await.unwrap_or_else(|error| panic!("{context}: close: {error}"));
            let model = self.model.borrow();
            let puts = |name: &String| model.ever.get(name).map_or(0, Vec::len);
            let closed = model.objects.iter().map(|(name, object)| (name.clone(), (object.acked, puts(name))));
            self.losses.borrow_mut().closed = closed.collect();
        }
    }
}

/// An array that goes on after a disaster: so many drives are left then that there are whole sets.
fn roomy(random: &mut Random) -> ArrayShape {
    let mut shape = shape(random);
    let least = shape.code.width() + shape.code.parity() + 1;
    let more = shape.drives[0].clone();
    shape.drives.resize(shape.drives.len().max(least), more);
    shape
}

/// Some zones of a drive are lost with all that they hold.
fn lose_zones(medium: &Medium, random: &mut Random) {
    let image = medium.image();
    let geometry = shingle_zoned::ZonedDevice::geometry(&image);
    let first = geometry.conventional_zones + 2;
    for _ in 0..1 + random.below(4) {
        let zone = ZoneId(first + random.below(u64::from(geometry.zone_count - first)) as u32);
        match random.chance(0.5) {
            true => medium.set_state(zone, ZoneState::Offline),
            false => {
                let written = image.zone(zone).written;
                (0..written.0)
                    .for_each(|block| medium.fail_reads(geometry.start_of(zone) + Blocks(block), Blocks(1), None));
            }
        }
    }
}

/// Objects that were lost, openings that told of it, and times that a loss was settled.
fn chain(seed: u64) -> [u64; 3] {
    let mut random = Random::new(seed);
    let shape = roomy(&mut random);
    let (count, parity) = (shape.drives.len(), shape.code.parity());
    let mut media: Vec<Medium> = formatted(&shape).iter().map(Medium::from).collect();
    let mut buffer = random.chance(0.5).then(<[Vec<u8>; 2]>::default);
    let first = random.below(count as u64) as usize;
    let victims: Vec<usize> = (0..=parity).map(|number| (first + number) % count).collect();
    let (mut model, mut losses) = (Model::default(), Losses::default());
    // Drives that are lost may be back in lives in which nothing else was lost.
    let (mut away, mut back, comes_back) = (false, false, random.chance(0.3));
    for number in 0..LIVES {
        if number > 0 && losses.all.len() < 2 && random.chance(0.5) {
            let disaster = match random.below(3) {
                0 if !losses.all.contains(&Disaster::Drives) => Disaster::Drives,
                1 if buffer.is_some() => Disaster::Buffer,
                _ => Disaster::Zones,
            };
            match disaster {
                Disaster::Drives => away = true,
                Disaster::Zones => victims.iter().for_each(|victim| lose_zones(&media[*victim], &mut random)),
                Disaster::Buffer => buffer = Some(Default::default()),
            }
            losses.fresh.push(disaster);
            losses.all.push(disaster);
        }
        let orderly = random.chance(0.3);
        let survival = [None, Some(Survival::Prefix), Some(Survival::AnySubset)][random.below(3) as usize];
        let last = Duration::from_micros(random.below(400_000));
        let options = Options { buffer_bytes: 256 << 10, ..options(&mut random) };
        let (rebuild, settle) = (random.chance(0.3), random.chance(0.5));
        if back && !losses.fresh.is_empty() {
            // They are lost once more, with what was written to them meanwhile.
            losses.fresh.push(Disaster::Drives);
        }
        back = away && comes_back && losses.fresh.is_empty();
        let there = |at: &usize| !away || back || !victims.contains(at);
        let there: Vec<usize> = (0..count).filter(there).collect();
        let context = format!(
            "seed {seed}, life {number}, {}, {:?} of {:?}, drives {there:?} of {count}, ends {} {survival:?} after {last:?}",
            shape.code,
            losses.fresh,
            losses.all,
            if orderly { "in order, then" } else { "by" },
        );
        let mut drawn = Random::new(random.number());
        let (ran, lost) = (model, losses);
        let moved = buffer;
        (media, model, losses, buffer) = Sim::new(seed * 100 + number).run(move |rt| async move {
            let devices: Vec<SimDevice> = media.into_iter().map(|medium| SimDevice::resume(&rt, medium)).collect();
            let all = named(&devices);
            let files = moved.map(|files| files.map(|bytes| SimFile::new(&rt, bytes)));
            let (model, losses) = (Rc::new(RefCell::new(ran)), Rc::new(RefCell::new(lost)));
            let scene = Scene {
                context,
                there: there.iter().map(|at| all[*at].clone()).collect(),
                options,
                buffer: files.clone(),
                model: model.clone(),
                losses: losses.clone(),
                rebuild,
                settle,
                orderly,
            };
            let life = rt.spawn(scene.live(rt.clone(), Random::new(drawn.number())));
            match orderly {
                true => life.await.unwrap(),
                false => {
                    if let Either::Left((life, _)) = select(Box::pin(life), Box::pin(rt.sleep(last))).await {
                        life.unwrap();
                    }
                }
            }
            let mut leave = |device: &SimDevice| match survival {
                None => device.kill(),
                Some(survival) => Medium::from(&device.crash_image_with(drawn.number(), survival)),
            };
            let left = devices.iter().map(&mut leave).collect();
            let files = files.map(|files| files.map(|file| file.image(drawn.number())));
            let (model, losses) = (model.borrow().clone(), losses.borrow().clone());
            (left, model, losses, files)
        });
    }
    [losses.lost, losses.told, losses.settled]
}

/// Seeds that found something once. 9870, 13937: the drives that an accepted loss went on without came back, and the clock had
/// gone back. Zones of a set that was open are offline, all of them, or more than parity makes up for; more
/// drives than that are away while a snapshot covers the beginning of such a set. 652: the copies of a set whose reset was cut lay in
/// a buffer that was lost. 1609145: drives that came back are lost again with the buffer.
const FOUND: [u64; 12] = [9870, 13937, 516, 820, 265, 148, 176, 208, 570, 542, 652, 1_609_145];

/// AS-LOSS-1, AS-LOSS-2, AS-EVICT-1, AS-EXAM-4.
#[test]
fn an_accepted_loss_costs_what_was_there_before_it_and_nothing_later() {
    let mut met = [0; 3];
    for seed in seeds(80).chain(FOUND) {
        chain(seed).into_iter().zip(&mut met).for_each(|(more, met)| *met += more);
    }
    // Of one seed alone it is not expected.
    if std::env::var("SHINGLE_SEED").is_err() {
        assert!(met.iter().all(|met| *met > 0), "lost, told, settled: {met:?}");
    }
}
