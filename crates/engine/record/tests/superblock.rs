//! The superblock: either copy is enough, and what is not ours is told apart.

mod common;

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, StoreId, ZoneId};
use shingle_record::{Superblock, SuperblockError, read_superblock, read_superblock_copies, write_superblock};
use shingle_runtime::UnixTime;
use shingle_sim::{Sim, SimDevice, Survival, seeds};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

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
