//! Owners of drives, and formats of drives that somebody may need.

use std::rc::Rc;

use shingle_base::{AlignedBuf, Blocks, Lba, StoreId, ZoneId};
use shingle_record::{EngineName, InUse, NotOwned, Superblock, check_unused, read_owner, write_superblock};
use shingle_runtime::UnixTime;
use shingle_sim::{Sim, SimDevice};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

const NAME: EngineName = EngineName {
    engine: 7,
    versions: 2..=3,
    store: "a shelf",
    none: "the drive holds no shelf: build one first",
    other: "the drive holds a store of another engine, not a shelf",
};

fn medium(conventional: u32) -> MemoryDevice {
    MemoryDevice::new(Geometry::hm_smr(Blocks(16), 4, conventional, 4))
}

fn superblock(engine: u32, version: u32) -> Superblock {
    let formatted = UnixTime { nanos: 5 };
    Superblock { store: StoreId(9), engine, version, formatted, payload: vec![1, 2, 3].into() }
}

/// RC-ID-1.
#[test]
fn an_engine_has_its_own_drives_alone() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &medium(1));
        let dev: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        let refused = async || read_owner(&dev, &NAME).await.unwrap_err();
        assert!(matches!(refused().await, NotOwned::Blank("the drive holds no shelf: build one first")));
        check_unused(&dev, ZoneId(1)).await.unwrap();
        for (engine, version, words) in [
            (8, 2, "the drive holds a store of another engine, not a shelf"),
            (7, 1, "the drive holds a shelf of version 1, and this version of Shingle reads 2 to 3: read it with"),
            (7, 4, "the drive holds a shelf of version 4, and this version of Shingle reads 2 to 3: use a newer one"),
        ] {
            write_superblock(&dev, ZoneId(1), &superblock(engine, version)).await.unwrap();
            let error = refused().await;
            assert!(matches!(error, NotOwned::Other(_)) && error.to_string().starts_with(words), "{error}");
        }
        write_superblock(&dev, ZoneId(1), &superblock(7, 3)).await.unwrap();
        let owned = read_owner(&dev, &NAME).await.unwrap();
        assert_eq!((owned.superblock, owned.zone, owned.bad_copies), (superblock(7, 3), ZoneId(1), vec![]));
        device.medium().fail_reads(Lba(16), Blocks(1), None);
        assert_eq!(read_owner(&dev, &NAME).await.unwrap().bad_copies, [0]);
        device.medium().fail_reads(Lba(17), Blocks(1), None);
        assert!(matches!(refused().await, NotOwned::Device(_)));
        assert!(matches!(check_unused(&dev, ZoneId(1)).await, Err(InUse::Device(_))));
        device.medium().heal();
        let image = device.image();
        (16..18).for_each(|block| image.corrupt(Lba(block), |bytes| bytes[20] ^= 1));
        let dev: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &image));
        assert!(matches!(read_owner(&dev, &NAME).await, Err(NotOwned::Corrupt(_))));
        assert!(matches!(check_unused(&dev, ZoneId(1)).await, Err(InUse::Holds(words)) if words == "a store"));
    });
}

/// RC-ID-1: data without a superblock may be somebody's, too.
#[test]
fn a_drive_with_data_is_not_formatted() {
    Sim::new(1).run(|rt| async move {
        let dev: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &medium(0)));
        let block = AlignedBuf::zeroed(Blocks(1)).freeze();
        dev.write(dev.geometry().start_of(ZoneId(2)), vec![block]).await.unwrap();
        let words = "no store, but 1 of its zones hold data";
        assert!(matches!(check_unused(&dev, ZoneId(0)).await, Err(InUse::Holds(found)) if found == words));
        let dev: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &medium(4)));
        assert_eq!(read_owner(&dev, &NAME).await.unwrap_err().to_string(), "the drive has no sequential zones");
    });
}
