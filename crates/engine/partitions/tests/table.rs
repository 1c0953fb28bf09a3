//! PT-TABLE-1 to PT-TABLE-3: a table of partitions through power cuts, and on drives that fail to read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, ZoneId};
use shingle_partitions::{Partition, PartitionTable, Wanted, free_zones, look};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, Survival, seeds};
use shingle_store_api::StoreErrorKind;
use shingle_zoned::{Geometry, MemoryDevice, Share, ZoneState, ZonedDevice};

fn geometry(random: &mut Random) -> Geometry {
    let zones = random.between(14, 40) as u32;
    let blocks = Blocks(random.between(16, 40));
    match random.below(3) {
        0 => Geometry::hm_smr(blocks, zones, random.below(3) as u32, 30),
        1 => Geometry::zns(blocks, Blocks(blocks.0 - random.below(4)), zones, 14, 14),
        _ => Geometry { volatile_cache: true, ..Geometry::hm_smr(blocks, zones, 0, 30) },
    }
}

fn shared(device: &SimDevice) -> Rc<dyn ZonedDevice> {
    Rc::new(device.clone())
}

async fn made(rt: &Runtime, geometry: &Geometry) -> SimDevice {
    let device = SimDevice::new(rt, &MemoryDevice::new(geometry.clone()));
    device.set_latency(std::time::Duration::ZERO);
    PartitionTable::format(rt, &shared(&device), false).await.expect("the drive takes partitions");
    device
}

/// States that the table may be in: the last one that was acknowledged, and the next, while a change is under way.
#[derive(Clone, Default)]
struct Known {
    sure: Vec<Partition>,
    maybe: Option<Vec<Partition>>,
    /// Partitions that something was written to, by first zone: their zones need not be empty.
    written: BTreeMap<u32, String>,
}

impl Known {
    fn agrees(&self, found: &[Partition]) -> bool {
        found == self.sure || self.maybe.as_deref().is_some_and(|maybe| is_like(found, maybe))
    }
}

/// The same but for times, which the table chooses.
fn is_like(found: &[Partition], wanted: &[Partition]) -> bool {
    let plain = |one: &Partition| (one.name.clone(), one.zones.clone());
    found.iter().map(plain).eq(wanted.iter().map(plain))
}

/// Adds, removes and fills partitions, in order.
async fn work(rt: &Runtime, device: &SimDevice, known: &Rc<RefCell<Known>>, random: &mut Random, steps: u32) {
    let mut table = PartitionTable::open(rt, &shared(device)).await.expect("the table opens");
    for _ in 0..steps {
        let there = table.partitions();
        let room: Vec<_> = table.free();
        let adds = there.is_empty() || there.len() < 4 && !room.is_empty() && random.chance(0.6);
        if adds {
            let run = &room[0];
            let zones = random.between(1, run.len().min(6) as u64) as u32;
            let name = format!("p-{}", random.below(u64::MAX));
            let share = Share { open_zones_max: Some(2), active_zones_max: None };
            let share = if device.geometry().active_zones_max.is_some() {
                Share { active_zones_max: Some(2), ..share }
            } else {
                share
            };
            let mut next = there.clone();
            next.push(Partition {
                name: name.clone(),
                zones: run.start..run.start + zones,
                share,
                made: rt.unix_time(),
            });
            next.sort_by_key(|one| one.zones.start);
            known.borrow_mut().maybe = Some(next);
            table.add(rt, &[Wanted { name, zones: Some(zones), share }]).await.expect("there is room");
        } else {
            let gone = there[random.below(there.len() as u64) as usize].clone();
            let next = there.into_iter().filter(|one| one.name != gone.name).collect();
            known.borrow_mut().maybe = Some(next);
            table.remove(&gone.name).await.expect("it is removed");
        }
        let now = table.partitions();
        let written = known.borrow().written.clone();
        *known.borrow_mut() = Known { sure: now.clone(), maybe: None, written };
        let Some(one) = now.get(random.below(now.len().max(1) as u64) as usize) else { continue };
        let view = table.view(&one.name).await.expect("it is there");
        for zone in 0..one.zones.len().min(2) as u32 {
            known.borrow_mut().written.insert(one.zones.start, one.name.clone());
            let block: Bytes = AlignedBuf::zeroed(Blocks(1)).freeze();
            let full = view.report(ZoneId(zone), 1).await.unwrap()[0].state == ZoneState::Full;
            if !full {
                view.append(ZoneId(zone), vec![block]).await.expect("a zone of a partition is written");
            }
        }
    }
}

/// PT-TABLE-3: partitions to which nothing was written hold nothing, nor do zones that no partition has.
async fn are_clean(device: &SimDevice, found: &[Partition], known: &Known, context: &str) {
    for one in found.iter().filter(|one| known.written.get(&one.zones.start) != Some(&one.name)) {
        let infos = device.report(ZoneId(one.zones.start), one.zones.len() as u32).await.unwrap();
        assert!(infos.iter().all(|info| info.state == ZoneState::Empty), "{context}: {one:?} holds something");
    }
    for run in free_zones(device.geometry(), found) {
        let infos = device.report(ZoneId(run.start), run.len() as u32).await.unwrap();
        assert!(
            infos.iter().all(|info| info.state == ZoneState::Empty),
            "{context}: {run:?} is nobody's, and holds something"
        );
    }
}

fn cut(seed: u64) -> usize {
    let moments = Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let geometry = geometry(&mut random);
        let device = made(&rt, &geometry).await;
        let known = Rc::new(RefCell::new(Known::default()));
        let moments = Rc::new(RefCell::new(Vec::new()));
        let (kept, seen, drawn) = (moments.clone(), known.clone(), RefCell::new(Random::new(seed ^ 1)));
        device.on_command(move |command, device| {
            let mut random = drawn.borrow_mut();
            let survival = if random.chance(0.5) { Survival::AnySubset } else { Survival::Prefix };
            let survival = survival.on(device.geometry());
            let image = device.crash_image_with(random.number(), survival);
            kept.borrow_mut().push((command.number, image, seen.borrow().clone()));
        });
        work(&rt, &device, &known, &mut random, 30).await;
        device.on_command(|_, _| {});
        moments.take()
    });
    let cuts = moments.len();
    for (command, image, known) in moments {
        let context = format!("seed {seed}, cut at command {command}");
        Sim::new(seed ^ command).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            device.set_latency(std::time::Duration::ZERO);
            let found = look(&rt, &shared(&device)).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(known.agrees(&found), "{context}: {found:?} of {:?}, {:?}", known.sure, known.maybe);
            are_clean(&device, &found, &known, &context).await;
            // It goes on from there.
            let known = Rc::new(RefCell::new(Known { sure: found, maybe: None, written: known.written }));
            work(&rt, &device, &known, &mut Random::new(!command), 3).await;
            let again = SimDevice::new(&rt, &device.crash_image(seed));
            let found = look(&rt, &shared(&again)).await.unwrap_or_else(|error| panic!("{context}, again: {error}"));
            assert_eq!(found, known.borrow().sure, "{context}, again");
        });
    }
    cuts
}

/// PT-TABLE-1, PT-TABLE-3.
#[test]
fn cut_at_every_command() {
    let cuts: usize = seeds(12).map(cut).sum();
    assert!(cuts > 1000 || std::env::var_os("SHINGLE_SEED").is_some(), "only {cuts} cuts");
}

/// PT-TABLE-2: the loss of one block costs nothing, that of more is an error and never an older table.
#[test]
fn a_table_that_cannot_be_read_is_never_an_older_one() {
    let mut refused = 0;
    for seed in seeds(30) {
        refused += Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let geometry = geometry(&mut random);
            let device = made(&rt, &geometry).await;
            let known = Rc::new(RefCell::new(Known::default()));
            work(&rt, &device, &known, &mut random, 12).await;
            let (medium, mut refused) = (device.kill(), 0);
            let first = geometry.conventional_zones;
            for zone in first..first + 6 {
                let start = geometry.start_of(ZoneId(zone));
                let written = medium.image().zone(ZoneId(zone)).written.0;
                for (from, blocks) in (0..written).map(|block| (block, 1)).chain([(0, written)]) {
                    if blocks == 0 {
                        continue;
                    }
                    medium.fail_reads(start + Blocks(from), Blocks(blocks), None);
                    let device = SimDevice::new(&rt, &medium.image());
                    match look(&rt, &shared(&device)).await {
                        Ok(found) => assert_eq!(found, known.borrow().sure, "seed {seed}, zone {zone}, block {from}"),
                        Err(error) => {
                            assert!(blocks > 1, "seed {seed}: one block of zone {zone}, {from}: {error}");
                            assert!(matches!(error.kind, StoreErrorKind::Corrupt | StoreErrorKind::Device), "{error}");
                            refused += 1;
                        }
                    }
                    medium.heal();
                }
            }
            refused
        });
    }
    assert!(refused > 0, "no loss of a zone was noticed");
}

#[test]
fn a_drive_that_holds_something_is_left_alone() {
    Sim::new(1).run(|rt| async move {
        let geometry = Geometry::hm_smr(Blocks(64), 20, 0, 8);
        let device = made(&rt, &geometry).await;
        let mut table = PartitionTable::open(&rt, &shared(&device)).await.unwrap();
        table.add(&rt, &[Wanted { name: "a".into(), ..Wanted::default() }]).await.unwrap();
        drop(table);
        let error = PartitionTable::format(&rt, &shared(&device), false).await.unwrap_err();
        assert!(error.message.contains("--force"), "{error}");
        assert_eq!(look(&rt, &shared(&device)).await.unwrap().len(), 1);
        PartitionTable::format(&rt, &shared(&device), true).await.unwrap();
        assert_eq!(look(&rt, &shared(&device)).await.unwrap(), []);
        let table = PartitionTable::open(&rt, &shared(&device)).await.unwrap();
        let error = table.view("a").await.map(drop).unwrap_err();
        assert!(error.message.contains("no partition `a`"), "{error}");
        for (zones, open) in [(6, 8), (20, 2)] {
            let small = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(64), zones, 0, open)));
            assert_eq!(
                PartitionTable::format(&rt, &shared(&small), false).await.unwrap_err().kind,
                StoreErrorKind::Invalid
            );
        }
    });
}

/// A drive of another shape, or with no table, has no partitions that one could use by chance.
#[test]
fn a_table_is_of_its_own_drive() {
    Sim::new(1).run(|rt| async move {
        let blank = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(64), 20, 0, 8)));
        let error = PartitionTable::open(&rt, &shared(&blank)).await.map(drop).unwrap_err();
        assert!(error.kind == StoreErrorKind::Invalid && error.message.contains("drive partition"), "{error}");
    });
}

/// A format writes the log before the superblock: a log that cannot be read for a moment is not taken for what an earlier store left.
#[test]
fn a_format_does_not_reset_the_log_that_it_has_written() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(32), 20, 0, 8)));
        device.set_latency(std::time::Duration::ZERO);
        device.on_command(|_, device| {
            let image = device.image();
            for zone in (1..20).map(|zone| image.zone(ZoneId(zone))).filter(|zone| zone.written > Blocks(0)) {
                device.medium().fail_reads(zone.start, zone.written, None);
            }
        });
        PartitionTable::format(&rt, &shared(&device), false).await.unwrap();
        device.on_command(|_, _| {});
        device.medium().heal();
        let mut table = PartitionTable::open(&rt, &shared(&device)).await.unwrap();
        table.add(&rt, &[Wanted { name: "one".into(), ..Wanted::default() }]).await.unwrap();
        let again = PartitionTable::open(&rt, &shared(&device)).await.unwrap();
        assert_eq!(again.partitions().len(), 1);
    });
}
