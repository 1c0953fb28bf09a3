//! Superblocks that say what changed.

use std::cell::RefCell;
use std::collections::BTreeMap;

use shingle_sim::{Random, Survival, seeds};

use super::*;
use crate::format::{BufferName, SetEntry};
use crate::recovery::gather::look_at;

/// Tables at the times when superblocks were written, by a number that the superblock has.
type Said = BTreeMap<u64, Vec<Option<SetEntry>>>;

fn table(engine: &Engine) -> Vec<Option<SetEntry>> {
    engine.sets.entries().into_iter().map(|(_, entry)| entry).collect()
}

/// The field by which superblocks are told apart here.
fn named_by(id: u64) -> BufferName {
    BufferName { id, generation: 0 }
}

async fn open_small(rt: &Runtime, devices: &[SimDevice]) -> ArrayStore {
    let options = Options { background: false, available_sets: 3, whole_table: 0, ..Options::default() };
    ArrayStore::open(rt, &named(devices), &IndexPlace::Memory, options).await.unwrap().0
}

/// Four drives of 2+1, and devices over them.
async fn four(rt: &Runtime, volatile_cache: bool) -> Vec<SimDevice> {
    let geometry = Geometry { volatile_cache, ..Geometry::hm_smr(Blocks(60), 14, 0, 12) };
    let media: Vec<_> = (0..4).map(|_| MemoryDevice::new(geometry.clone())).collect();
    let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(rt, medium)).collect();
    let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
    format(rt, &named(&devices), &options).await.unwrap();
    devices
}

/// Changes some sets.
fn change(engine: &Engine, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let list = if random.chance(0.5) { List::Empty } else { List::Available };
        let Some((id, set)) = engine.sets.of(list).nth(random.below(3) as usize) else { continue };
        match (list, random.below(4)) {
            (List::Empty, 0) => drop(engine.sets.remove(id)),
            (List::Empty, 1) => drop(engine.sets.insert(set.members())),
            (List::Empty, _) => {
                set.offer();
                set.offered(true);
            }
            _ => set.withdraw(),
        }
    }
}

/// Writes superblocks while the table changes, also while a base is on its way, and cuts the power at every command.
/// The images of all drives, the number that was acknowledged by then, and what tables were.
fn cuts(seed: u64, survival: Survival) -> (Vec<(Vec<MemoryDevice>, u64)>, Said) {
    Sim::new(seed).run(move |rt| async move {
        let devices = four(&rt, seed.is_multiple_of(2)).await;
        let store = open_small(&rt, &devices).await;
        let engine = store.0.clone();
        engine.buffering.named.set(named_by(1));
        engine.write_superblock(None).await.unwrap();
        let acknowledged = Rc::new(Cell::new(1));
        let said = Rc::new(RefCell::new(Said::from([(1, table(&engine))])));
        let found = Rc::new(RefCell::new(Vec::new()));
        let random = Rc::new(RefCell::new(Random::new(seed)));
        for device in &devices {
            let (all, found, acknowledged) = (devices.clone(), found.clone(), acknowledged.clone());
            let (engine, said, random) = (engine.clone(), said.clone(), random.clone());
            let mut number = 0;
            device.on_command(move |command, _| {
                number += 1;
                let image = |device: &SimDevice| device.crash_image_with(seed * 1_000_003 + number, survival);
                found.borrow_mut().push((all.iter().map(image).collect(), acknowledged.get()));
                // A piece of a base has one block here, a superblock has more. Changes from now on are in the
                // superblock behind it.
                if command.kind == CommandKind::Write && command.blocks == Blocks(1) {
                    change(&engine, &mut random.borrow_mut());
                    said.borrow_mut().insert(engine.buffering.named.get().id, table(&engine));
                }
            });
        }
        for number in 2..=60 {
            change(&engine, &mut random.borrow_mut());
            engine.buffering.named.set(named_by(number));
            said.borrow_mut().insert(number, table(&engine));
            engine.write_superblock(None).await.unwrap();
            acknowledged.set(number);
        }
        devices.iter().for_each(|device| device.on_command(|_, _| {}));
        let said = said.borrow().clone();
        (found.take(), said)
    })
}

/// AS-SB-1, AS-SB-3, AS-SB-4: wherever the power fails while superblocks are written, the one that was acknowledged
/// last is found, or the one that was on its way, with the table as it was then; also with a drive away.
#[test]
fn the_newest_superblock_is_found_wherever_the_power_fails() {
    for seed in seeds(4) {
        for survival in [Survival::Prefix, Survival::AnySubset] {
            let (cuts, said) = cuts(seed, survival);
            assert!(cuts.len() > 150, "{} cuts", cuts.len());
            for (number, (images, acknowledged)) in cuts.into_iter().enumerate() {
                let about = format!("seed {seed}, {survival:?}, cut {number}");
                let said = said.clone();
                Sim::new(seed).run(move |rt| async move {
                    let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
                    let mut drives = named(&devices);
                    for away in 0..=1 {
                        if away == 1 {
                            drives.remove(number % 4);
                        }
                        let found = look_at(&drives).await.unwrap().superblock;
                        let on_its_way = found.buffer.id == acknowledged + 1;
                        assert!(on_its_way || found.buffer.id == acknowledged, "{about}: {} is there", found.buffer.id);
                        assert!(found.sets == said[&found.buffer.id], "{about}: the table of {}", found.buffer.id);
                    }
                });
            }
        }
    }
}

/// The devices, with superblock zones that a chain is in, and the number of the newest superblock.
async fn chained(rt: &Runtime) -> (Vec<SimDevice>, u64) {
    let devices = four(rt, false).await;
    let store = open_small(rt, &devices).await;
    let engine = store.0.clone();
    for number in 1..=5 {
        change(&engine, &mut Random::new(number));
        engine.buffering.named.set(named_by(number));
        engine.write_superblock(None).await.unwrap();
    }
    (devices, 5)
}

/// AS-SB-3, AS-GATHER-3: where a block of a chain cannot be read, or is rotten, another drive's counts; where none is
/// left that can be read, that is said, and nothing older is taken for the newest.
#[test]
fn a_chain_with_a_gap_is_noticed_and_another_one_read() {
    for rotten in [false, true] {
        Sim::new(1).run(move |rt| async move {
            let (devices, newest) = chained(&rt).await;
            let images: Vec<_> = devices.iter().map(SimDevice::image).collect();
            let mut spoilt = Vec::new();
            for (number, image) in images.iter().enumerate() {
                // The fourth block from the end is the superblock before the last one: each has one, and a trailer.
                let zones = [ZoneId(0), ZoneId(1)].map(|zone| image.zone(zone));
                let zone = zones.iter().max_by_key(|zone| zone.written).unwrap();
                if zone.written.0 < 8 {
                    continue;
                }
                let block = zone.start + Blocks(zone.written.0 - 4);
                spoilt.push((number, block));
                if rotten {
                    image.corrupt(block, |bytes| bytes[150] ^= 1);
                }
                let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
                for (number, block) in spoilt.iter().filter(|_| !rotten) {
                    devices[*number].medium().fail_reads(*block, Blocks(1), None);
                }
                let found = look_at(&named(&devices)).await.unwrap();
                if spoilt.len() < 3 {
                    assert_eq!(found.superblock.buffer.id, newest, "another drive has it");
                    continue;
                }
                assert!(found.superblock.buffer.id < newest, "the case is not met");
                assert_eq!(found.drives.iter().filter(|drive| drive.hidden).count(), 3);
                let options = Options { background: false, ..Options::default() };
                let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
                let error = opened.map(drop).unwrap_err();
                assert_eq!(error.kind, ErrorKind::Device, "{error}");
            }
            assert_eq!(spoilt.len(), 3, "the case is not met");
        });
    }
}

/// AS-SB-2: a common cause fails the superblocks of all drives but one, again and again, and each is tried in both
/// zones. The others keep the newest that they have, as many as an opening needs: where the one that took it is gone,
/// too, the array is there.
#[test]
fn what_fails_superblocks_of_many_drives_leaves_them_the_ones_they_have() {
    for (takes, whole_table) in (0..4).flat_map(|takes| [(takes, 0), (takes, 64 << 10)]) {
        Sim::new(1).run(move |rt| async move {
            let devices = four(&rt, false).await;
            let options = Options { background: false, whole_table, ..Options::default() };
            let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await;
            let store = opened.unwrap().0;
            store.put("o", bytes(1, 19_000), Bytes::new()).await.unwrap();
            let refuse = [ZoneId(0), ZoneId(1)]
                .map(|zone| FaultRule { trigger: Trigger::Zone(CommandKind::Write, zone), fault: Fault::CommandError });
            let others = || devices.iter().enumerate().filter(|(at, _)| *at != takes).map(|(_, device)| device);
            others().for_each(|device| device.set_faults(Faults::new(refuse)));
            for _ in 0..5 {
                assert!(store.0.write_superblock(None).await.is_err(), "the case is not met");
            }
            for without in [None, Some(takes)] {
                let images: Vec<_> = crash(&devices).into_iter().enumerate().collect();
                let left: Vec<_> = images.into_iter().filter(|(at, _)| Some(*at) != without).collect();
                let left: Vec<_> = left.into_iter().map(|(_, image)| SimDevice::new(&rt, &image)).collect();
                let options = Options { background: false, ..Options::default() };
                let opened = ArrayStore::open(&rt, &named(&left), &IndexPlace::Memory, options).await;
                match (opened, without) {
                    (Ok((store, report)), _) => {
                        assert_eq!(report.damage, Vec::<String>::new());
                        assert!(store.get("o").await.unwrap() == bytes(1, 19_000));
                    }
                    // One of the others may have none, and one is gone: more than parity makes up for.
                    (Err(error), Some(_)) => assert_eq!(error.kind, ErrorKind::Device, "{takes}: {error}"),
                    (Err(error), None) => panic!("drive {takes} took them, {whole_table}: {error}"),
                }
            }
        });
    }
}

/// Four drives, with superblocks in both zones of some: written until `enough` says so of the first drive's zones.
async fn with_superblocks(rt: &Runtime, enough: impl Fn([u64; 2]) -> bool) -> Vec<SimDevice> {
    let devices = four(rt, false).await;
    let store = open_small(rt, &devices).await;
    for number in 1..200 {
        change(&store.0, &mut Random::new(number));
        store.0.write_superblock(None).await.unwrap();
        let image = devices[0].image();
        if enough([0, 1].map(|zone| image.zone(ZoneId(zone)).written.0)) {
            return devices;
        }
    }
    panic!("the case is not met");
}

/// AS-GATHER-3: the last block of the zone that a drive went on from cannot be read. The blocks there are older than the drive's newest
/// superblock, and hide nothing.
#[test]
fn a_bad_block_in_a_drives_older_superblock_zone_hides_nothing() {
    Sim::new(1).run(|rt| async move {
        let devices = with_superblocks(&rt, |[first, second]| first > 50 && second > 4).await;
        let images: Vec<_> = devices.iter().map(SimDevice::image).collect();
        let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let whole = look_at(&named(&devices)).await.unwrap();
        let mut met = 0;
        for ((seen, image), device) in whole.drives.iter().zip(&images).zip(&devices) {
            let zone = image.zone(ZoneId(1 - seen.newest.unwrap() as u32));
            if zone.written > Blocks(0) {
                met += 1;
                device.medium().fail_reads(zone.start + Blocks(zone.written.0 - 1), Blocks(1), None);
            }
        }
        assert!(met > 1, "{met} drives have an older zone");
        let found = look_at(&named(&devices)).await.unwrap();
        assert_eq!(found.superblock.generation, whole.superblock.generation);
        assert!(found.drives.iter().all(|drive| !drive.hidden), "it hides a superblock");
        let options = Options { background: false, ..Options::default() };
        let (_, report) = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await.unwrap();
        assert_eq!(report.damage, Vec::<String>::new());
    });
}

/// AS-GATHER-3: a zone of superblocks of which hardly a block can be read is not gone through to its end.
#[test]
fn a_superblock_zone_that_cannot_be_read_is_soon_left() {
    Sim::new(1).run(|rt| async move {
        let devices = with_superblocks(&rt, |[first, _]| first > 50).await;
        let images: Vec<_> = devices.iter().map(SimDevice::image).collect();
        let devices: Vec<SimDevice> = images.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let newest = look_at(&named(&devices)).await.unwrap().superblock.generation;
        let zone = images[0].zone(ZoneId(0));
        devices[0].medium().fail_reads(zone.start, zone.written, None);
        let before = devices[0].counts().commands;
        let found = look_at(&named(&devices)).await.unwrap();
        assert_eq!(found.superblock.generation, newest, "other drives have it");
        let commands = devices[0].counts().commands - before;
        assert!(commands < 110, "{commands} commands");
        assert!(found.drives.iter().all(|drive| drive.hidden == (drive.given == 0) || drive.newest.is_none()));
    });
}

/// AS-SB-5: nobody waits any more for a superblock while it makes the drives durable that the next ones rely on. Those make them
/// durable: also the one drive of four that gets no copy, and so no flush for that.
#[test]
fn a_superblock_that_is_dropped_on_its_way_leaves_drives_to_be_flushed() {
    Sim::new(1).run(|rt| async move {
        let devices = four(&rt, true).await;
        let store = open_small(&rt, &devices).await;
        let engine = store.0.clone();
        let all: Vec<DriveId> = engine.drives.ids();
        engine.superblock.unflushed.add(all);
        let mut dropped = Box::pin(engine.write_superblock(None));
        assert!(dropped.as_mut().now_or_never().is_none(), "nothing was waited for");
        drop(dropped);
        rt.sleep(Duration::from_secs(1)).await;
        let flushed = Rc::new(RefCell::new(vec![false; 4]));
        for (number, device) in devices.iter().enumerate() {
            let flushed = flushed.clone();
            device.on_command(move |command, _| {
                flushed.borrow_mut()[number] |= command.kind == CommandKind::Flush;
            });
        }
        engine.write_superblock(None).await.unwrap();
        assert_eq!(*flushed.borrow(), [true; 4]);
    });
}
