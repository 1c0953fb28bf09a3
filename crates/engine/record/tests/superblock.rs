//! The superblock: either copy is enough, and what is not ours is told apart.

mod common;

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, StoreId, ZoneId};
use shingle_record::{
    EngineName, Superblock, SuperblockCopies, SuperblockError, find_superblock, read_owner, read_superblock,
    read_superblock_copies, write_superblock, write_superblock_pair,
};
use shingle_runtime::UnixTime;
use shingle_sim::{Sim, SimDevice, Survival, seeds};
use shingle_zoned::{Geometry, MemoryDevice, ZoneState, ZonedDevice};

fn superblock() -> Superblock {
    let formatted = UnixTime { nanos: 1_700_000_000_000_000_000 };
    Superblock { store: StoreId(3), engine: 7, version: 1, formatted, payload: Bytes::from_static(b"payload") }
}

/// Writes a superblock, changes the medium, and reads it.
fn after(change: impl FnOnce(&MemoryDevice)) -> Result<Superblock, SuperblockError> {
    let device = MemoryDevice::new(Geometry::hm_smr(Blocks(16), 4, 0, 4));
    let image = Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &device);
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        write_superblock(&shared, ZoneId(0), &superblock()).await.unwrap();
        device.image()
    });
    change(&image);
    Sim::new(1).run(move |rt| async move {
        let device: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &image));
        read_superblock(&device, ZoneId(0)).await
    })
}

fn spoil(image: &MemoryDevice, block: u64) {
    image.corrupt(Lba(block), |bytes| bytes[20] ^= 1);
}

#[test]
fn either_copy_is_enough() {
    assert_eq!(after(|_| {}).unwrap(), superblock());
    assert_eq!(after(|image| spoil(image, 0)).unwrap(), superblock());
    assert_eq!(after(|image| spoil(image, 1)).unwrap(), superblock());
}

#[test]
fn two_bad_copies_are_damage() {
    let both = |image: &MemoryDevice| {
        spoil(image, 0);
        spoil(image, 1);
    };
    assert!(matches!(after(both), Err(SuperblockError::Corrupt)));
}

/// RC-SB-1: also where any blocks of an unflushed write survive. Afterwards the drive holds the store, or none.
#[test]
fn a_cut_of_the_first_format_leaves_a_drive_without_a_store() {
    for seed in seeds(1000) {
        Sim::new(seed).run(move |rt| async move {
            let volatile_cache = seed % 2 == 0;
            let geometry = Geometry { volatile_cache, ..Geometry::hm_smr(Blocks(16), 4, 0, 4) };
            let device = SimDevice::new(&rt, &MemoryDevice::new(geometry));
            let survival = if volatile_cache { Survival::AnySubset } else { Survival::Prefix };
            let cuts = device.cut_at_every_command(seed, survival);
            let shared: Rc<dyn ZonedDevice> = Rc::new(device);
            write_superblock(&shared, ZoneId(0), &superblock()).await.unwrap();
            for (command, image) in cuts.take() {
                let device: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &image));
                match read_superblock(&device, ZoneId(0)).await {
                    Ok(found) => assert_eq!(found, superblock()),
                    Err(SuperblockError::NotFormatted) => {}
                    Err(error) => panic!("seed {seed}, cut at command {}: {error}", command.number),
                }
            }
        });
    }
}

#[test]
fn an_empty_drive_and_one_with_other_data_are_not_formatted() {
    assert!(matches!(after(|image| image.truncate_zone(ZoneId(0), Blocks(0))), Err(SuperblockError::NotFormatted)));
    let other = |image: &MemoryDevice| {
        image.corrupt(Lba(0), |bytes| bytes.fill(0xAA));
        image.corrupt(Lba(1), |bytes| bytes.fill(0x55));
    };
    assert!(matches!(after(other), Err(SuperblockError::NotFormatted)));
}

#[test]
fn a_newer_format_is_named() {
    let digits = |image: &MemoryDevice, block| image.corrupt(Lba(block), |bytes| bytes[6..8].copy_from_slice(b"17"));
    let newer = |image: &MemoryDevice| (0..2).for_each(|block| digits(image, block));
    assert!(matches!(after(newer), Err(SuperblockError::NewerVersion(17))));
    assert_eq!(after(|image| digits(image, 0)).unwrap(), superblock(), "one copy's digits rotted");
}

#[test]
fn a_superblock_that_cannot_be_read_is_not_taken_for_none() {
    for (bad, good) in [(vec![0], true), (vec![1], true), (vec![0, 1], false)] {
        let medium = MemoryDevice::new(Geometry::hm_smr(Blocks(16), 4, 0, 4));
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
            write_superblock(&shared, ZoneId(0), &superblock()).await.unwrap();
            let blocks = bad.iter().map(|&block| Lba(u64::from(block)));
            let device: Rc<dyn ZonedDevice> = Rc::new(common::Unreadable::new(device, blocks));
            match read_superblock_copies(&device, ZoneId(0)).await {
                Ok((found, missing)) => assert!(good && found == superblock() && missing == bad, "{missing:?}"),
                Err(error) => assert!(!good && matches!(error, SuperblockError::Device(_)), "{error}"),
            }
        });
    }
}

/// A drive with a pair of zones of superblocks.
async fn with_pair(rt: &shingle_runtime::Runtime, volatile_cache: bool) -> SimDevice {
    let geometry = Geometry { volatile_cache, ..Geometry::hm_smr(Blocks(16), 4, 0, 4) };
    let device = SimDevice::new(rt, &MemoryDevice::new(geometry));
    let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
    assert_eq!(write_superblock_pair(&shared, ZoneId(0), &superblock()).await.unwrap(), [ZoneId(0), ZoneId(1)]);
    device
}

/// RC-SB-2: a later store, of an engine with one zone of superblocks or with two, is never taken for the earlier one.
#[test]
fn a_second_zone_is_of_the_store_or_empty() {
    for seed in seeds(100) {
        Sim::new(seed).run(move |rt| async move {
            let volatile_cache = seed % 2 == 0;
            let survival = if volatile_cache { Survival::AnySubset } else { Survival::Prefix };
            let later = Superblock { store: StoreId(4), ..superblock() };
            for pair in [true, false] {
                let device = with_pair(&rt, volatile_cache).await;
                let cuts = device.cut_at_every_command(seed, survival);
                let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
                match pair {
                    true => drop(write_superblock_pair(&shared, ZoneId(0), &later).await.unwrap()),
                    false => write_superblock(&shared, ZoneId(0), &later).await.unwrap(),
                }
                for (command, image) in cuts.take() {
                    let cut: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &image));
                    match find_superblock(&cut, ZoneId(0)).await {
                        Ok(found) if found.superblock == later => {}
                        Ok(found) => assert_eq!((found.zone, found.superblock), (ZoneId(0), superblock())),
                        Err(SuperblockError::NotFormatted) => {}
                        Err(error) => panic!("seed {seed}, cut at command {}: {error}", command.number),
                    }
                }
                let image = device.image();
                (0..2).for_each(|block| spoil(&image, block));
                let spoilt: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &image));
                let found = read_superblock(&spoilt, ZoneId(0)).await.map_err(drop);
                assert_eq!(found, if pair { Ok(later.clone()) } else { Err(()) }, "seed {seed}");
            }
        });
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Zone {
    Good,
    /// One copy of two.
    Half,
    Rotten,
    Unreadable,
    Offline,
    Empty,
}

/// RC-SB-3: whatever became of the two zones, a good copy is found, and a drive that cannot be read is not said to hold no store.
#[test]
fn what_cannot_be_read_is_not_taken_for_none() {
    use Zone::{Empty, Good, Half, Offline, Rotten, Unreadable};
    for first in [Good, Half, Rotten, Unreadable, Offline, Empty] {
        for second in [Good, Half, Rotten, Unreadable, Offline, Empty] {
            Sim::new(1).run(move |rt| async move {
                let image = with_pair(&rt, false).await.image();
                for (zone, state) in [(0, first), (16, second)] {
                    match state {
                        Half => spoil(&image, zone),
                        Rotten => (0..2).for_each(|block| spoil(&image, zone + block)),
                        _ => {}
                    }
                }
                let device = SimDevice::new(&rt, &image);
                for (zone, state) in [(0, first), (1, second)] {
                    let (at, medium) = (Lba(zone * 16), device.medium());
                    match state {
                        Good | Half | Rotten => {}
                        Unreadable => medium.fail_reads(at, Blocks(2), None),
                        Offline => medium.set_state(ZoneId(zone as u32), ZoneState::Offline),
                        Empty => device.manage(ZoneId(zone as u32), shingle_zoned::ZoneOp::Reset).await.unwrap(),
                    }
                }
                let shared: Rc<dyn ZonedDevice> = Rc::new(device);
                let found = find_superblock(&shared, ZoneId(0)).await;
                let (good, lost) = (|zone| matches!(zone, Good | Half), |zone| matches!(zone, Unreadable | Offline));
                match found {
                    Ok(found) => {
                        assert_eq!(found.superblock, superblock());
                        let (zone, state) = if good(first) { (0, first) } else { (1, second) };
                        assert!(good(state) && found.zone == ZoneId(zone), "{first:?}, {second:?}");
                        assert_eq!(found.bad_copies, if state == Half { vec![0] } else { vec![] });
                    }
                    Err(error) => {
                        assert!(!good(first) && !good(second), "{first:?}, {second:?}: {error}");
                        let expected = match error {
                            SuperblockError::Device(_) => lost(first) || lost(second),
                            SuperblockError::Corrupt => first == Rotten && !lost(second),
                            SuperblockError::NotFormatted => first == Empty && !lost(second),
                            _ => false,
                        };
                        assert!(expected, "{first:?}, {second:?}: {error}");
                    }
                }
            });
        }
    }
}

/// A drive whose second zone fails has one zone of superblocks, unless an earlier store is in the other for good.
#[test]
fn a_second_zone_that_cannot_be_written_is_done_without() {
    for state in [ZoneState::ReadOnly, ZoneState::Offline] {
        Sim::new(1).run(move |rt| async move {
            let blank = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(16), 4, 0, 4)));
            let used = with_pair(&rt, false).await;
            let later = Superblock { store: StoreId(4), ..superblock() };
            for (device, takes) in [(blank, true), (used, state == ZoneState::Offline)] {
                device.medium().set_state(ZoneId(1), state);
                let shared: Rc<dyn ZonedDevice> = Rc::new(device);
                let written = write_superblock_pair(&shared, ZoneId(0), &later).await;
                assert_eq!(written.ok(), takes.then(|| vec![ZoneId(0)]));
                let found = read_superblock(&shared, ZoneId(0)).await.unwrap();
                assert_eq!(found, if takes { later.clone() } else { superblock() });
            }
        });
    }
}

/// RC-SB-2: an earlier store's superblock that cannot be read while the drive is formatted does not count afterwards.
#[test]
fn an_unreadable_second_zone_does_not_come_back_with_the_earlier_store() {
    for (state, formats) in [(None, true), (Some(ZoneState::ReadOnly), false), (Some(ZoneState::Offline), true)] {
        Sim::new(1).run(move |rt| async move {
            let device = with_pair(&rt, false).await;
            let medium = device.medium();
            if let Some(state) = state {
                medium.set_state(ZoneId(1), state);
            }
            medium.fail_reads(Lba(16), Blocks(2), None);
            let later = Superblock { store: StoreId(4), ..superblock() };
            let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
            assert_eq!(write_superblock(&shared, ZoneId(0), &later).await.is_ok(), formats, "{state:?}");
            let image = device.image();
            image.heal();
            (0..2).for_each(|block| spoil(&image, block));
            let readable: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &image));
            let found = read_superblock(&readable, ZoneId(0)).await.ok();
            assert_eq!(found, (!formats).then(superblock), "{state:?}");
        });
    }
}

/// RC-SB-4: a zone that was written anew and cannot be read stands for no other: the last good copy stays.
#[test]
fn a_mend_that_cannot_be_read_does_not_cost_the_last_copy() {
    Sim::new(1).run(|rt| async move {
        let device = with_pair(&rt, false).await;
        let image = device.image();
        spoil(&image, 1);
        let device = SimDevice::new(&rt, &image);
        let cuts = device.cut_at_every_command(1, Survival::Prefix);
        let second = [Lba(16), Lba(17)];
        let dev: Rc<dyn ZonedDevice> = Rc::new(common::Unreadable::new(device, second));
        let name = EngineName { engine: 7, versions: 1..=1, store: "it", none: "none", other: "another" };
        let owned = read_owner(&dev, &name).await.unwrap();
        SuperblockCopies::look(&dev, owned, 0..2).await.mend(&dev).await;
        for (command, image) in cuts.take() {
            let cut: Rc<dyn ZonedDevice> = Rc::new(common::Unreadable::new(SimDevice::new(&rt, &image), second));
            let found = read_superblock(&cut, ZoneId(0)).await;
            assert_eq!(found.ok(), Some(superblock()), "cut at command {}", command.number);
        }
    });
}
