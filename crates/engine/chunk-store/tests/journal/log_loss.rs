//! Superblock and metadata log under loss: one lost block costs nothing, the loss of more is said, and a log that cannot
//! go on stops the store.

use std::rc::Rc;

use crate::common::formatted;
use shingle_base::{AlignedBuf, Blocks, ChunkId, Lba, ZoneId};
use shingle_chunk_store::{ChunkStore, ErrorKind, FormatOptions, Options, Stream, check, dump};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger};
use shingle_zoned::{Geometry, MemoryDevice, ZoneState, ZonedDevice};

fn id(number: u64) -> ChunkId {
    ChunkId::from_u64(number)
}

/// 70 chunks, each made by an opening of its own, as a command does; the first is deleted at the 60th.
fn seventy_chunks() -> MemoryDevice {
    let mut image = formatted(Geometry::hm_smr(Blocks(256), 256, 0, 16));
    for number in 0..70 {
        image = Sim::new(number).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), Options::default()).await.unwrap();
            store.create(id(number), Stream::Data).await.unwrap();
            store.append(id(number), 0, vec![vec![number as u8; 5000].into()]).await.unwrap();
            if number == 60 {
                store.delete(id(0)).await.unwrap();
            }
            // Every other time the process is killed.
            if number % 2 == 0 {
                store.close().await.unwrap();
            }
            device.image()
        });
    }
    image
}

fn metazones(image: &MemoryDevice) -> Vec<ZoneId> {
    let image = image.snapshot();
    let layout =
        Sim::new(1).run(move |rt| async move { dump(&rt, Rc::new(SimDevice::new(&rt, &image))).await.unwrap().layout });
    layout.metazones.map(ZoneId).collect()
}

/// The metazone that was begun last, and the blocks of it that hold records.
fn newest_metazone(image: &MemoryDevice) -> ZoneId {
    let image = image.snapshot();
    Sim::new(1).run(move |rt| async move {
        let dump = dump(&rt, Rc::new(SimDevice::new(&rt, &image))).await.unwrap();
        dump.log.iter().max_by_key(|record| record.position).unwrap().zone
    })
}

/// Checks and opens what is on the image: all is there, or the store says what is not.
fn holds_all(image: &MemoryDevice, context: &str, mended: bool) {
    let (image, context) = (image.snapshot(), context.to_owned());
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &image);
        let report = check(&rt, Rc::new(device.clone()), |_, _| {}).await.unwrap();
        assert!(report.clean, "{context}: {:?}", report.damage);
        assert_eq!(!report.recovery.mended.is_empty(), mended, "{context}: {:?}", report.recovery.mended);
        let (store, _) = ChunkStore::open(&rt, Rc::new(device), Options::default()).await.unwrap();
        assert_eq!(store.stat(id(0)).unwrap_err().kind, ErrorKind::NotFound, "{context}: a deleted chunk is back");
        for number in 1..70 {
            let bytes = store.read(id(number), 0, 5000).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(bytes.iter().all(|&byte| byte == number as u8), "{context}: chunk {number}");
        }
    });
}

#[test]
fn a_zeroed_head_of_the_newest_metazone_loses_nothing_and_is_named() {
    let image = seventy_chunks();
    holds_all(&image, "untouched", false);
    let newest = newest_metazone(&image);
    image.corrupt(image.geometry().start_of(newest), |block| block.fill(0));
    holds_all(&image, "head zeroed", true);
}

#[test]
fn one_bad_block_of_superblock_or_log_loses_nothing() {
    let image = seventy_chunks();
    let superzone = ZoneId(metazones(&image)[0].0 - 1);
    let zones = [superzone, newest_metazone(&image)];
    for zone in zones {
        let info = image.zone(zone);
        for block in 0..info.written.0.min(40) {
            let rotten = image.snapshot();
            rotten.corrupt(info.start + Blocks(block), |bytes| bytes[70..80].fill(0xAB));
            holds_all(&rotten, &format!("{zone}, block {block}"), true);
        }
    }
}

#[test]
fn a_metazone_that_went_offline_is_damage_or_costs_nothing() {
    let image = seventy_chunks();
    let newest = newest_metazone(&image);
    for zone in metazones(&image) {
        let offline = image.snapshot();
        offline.set_state(zone, ZoneState::Offline);
        if zone != newest {
            holds_all(&offline, &format!("{zone}"), false);
            continue;
        }
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &offline);
            let report = check(&rt, Rc::new(device.clone()), |_, _| {}).await.unwrap();
            assert!(!report.clean && report.damage.len() == 1, "{:?}", report.damage);
            let error = ChunkStore::open(&rt, Rc::new(device), Options::default()).await.err().unwrap();
            assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
        });
    }
}

#[test]
fn a_drive_whose_superblock_cannot_be_read_is_not_formatted_over() {
    let image = seventy_chunks();
    let superzone = ZoneId(metazones(&image)[0].0 - 1);
    let start = image.geometry().start_of(superzone);
    for rot in [true, false] {
        let image = image.snapshot();
        let faults =
            Faults::new([FaultRule { trigger: Trigger::Zone(CommandKind::Read, superzone), fault: Fault::ReadError }]);
        if rot {
            (0..2).for_each(|block| image.corrupt(Lba(start.0 + block), |bytes| bytes[20] ^= 1));
        }
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            if !rot {
                device.set_faults(faults);
            }
            let device: Rc<dyn ZonedDevice> = Rc::new(device);
            let expected =
                if rot { (ErrorKind::Format, ErrorKind::Corrupt) } else { (ErrorKind::Device, ErrorKind::Device) };
            let error = ChunkStore::format(&rt, device.clone(), &FormatOptions::default()).await.unwrap_err();
            assert_eq!(error.kind, expected.0, "{error}");
            let error = ChunkStore::open(&rt, device, Options::default()).await.err().unwrap();
            assert_eq!(error.kind, expected.1, "{error}");
        });
    }
}

/// CS-FMT-1: whatever the zone is for.
#[test]
fn a_drive_with_data_in_any_zone_is_not_formatted() {
    let shape = Geometry::hm_smr(Blocks(64), 40, 2, 16);
    let places = (2..40).map(|zone| vec![(zone, 20)]).chain([vec![(2, 1)], vec![(3, 1), (4, 1)], vec![(2, 1), (5, 1)]]);
    for places in places {
        let medium = MemoryDevice::new(shape.clone());
        Sim::new(1).run(move |rt| async move {
            let device: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &medium));
            for &(zone, blocks) in &places {
                let bytes = AlignedBuf::zeroed(Blocks(blocks)).freeze();
                device.write(device.geometry().start_of(ZoneId(zone)), vec![bytes]).await.unwrap();
            }
            let error = ChunkStore::format(&rt, device.clone(), &FormatOptions::default()).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Format, "{places:?}: {error}");
            assert!(error.message.contains("hold data"), "{places:?}: {error}");
            let written = device.report(ZoneId(places[0].0), 1).await.unwrap()[0].written;
            assert_eq!(written, Blocks(places[0].1), "{places:?}");
            ChunkStore::format(&rt, device, &FormatOptions { force: true, ..Default::default() }).await.unwrap();
        });
    }
}

#[test]
fn a_log_that_cannot_be_written_stops_the_store_and_nothing_spins() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), Options::default()).await.unwrap();
        store.create(id(1), Stream::Data).await.unwrap();
        store.append(id(1), 0, vec![vec![7; 5000].into()]).await.unwrap();
        let writes = (1..7).map(|zone| Trigger::Zone(CommandKind::Write, ZoneId(zone)));
        device.set_faults(Faults::new(writes.map(|trigger| FaultRule { trigger, fault: Fault::CommandError })));
        let error = store.create(id(2), Stream::Data).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Stopped, "{error}");
        let before = device.counts().commands;
        rt.sleep(std::time::Duration::from_secs(60)).await;
        let commands = device.counts().commands - before;
        assert!(commands < 20, "{commands} commands of a store that has stopped");
        assert_eq!(store.create(id(3), Stream::Data).await.unwrap_err().kind, ErrorKind::Stopped);
    });
}

/// 64 GiB in zones of 1 MiB: the zone table is longer than a metazone.
#[test]
fn a_zone_table_longer_than_a_metazone_fits_or_format_says_that_it_does_not() {
    let medium = MemoryDevice::metadata_only(Geometry::hm_smr(Blocks(16), 3000, 0, 16), shingle_record::keep_metadata);
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let few = FormatOptions { metazones: Some(6), ..FormatOptions::default() };
        let error = ChunkStore::format(&rt, Rc::new(device.clone()), &few).await.unwrap_err();
        assert!(error.kind == ErrorKind::Format && error.message.contains("metazones"), "{error}");
        let enough = FormatOptions { metazones: Some(40), ..FormatOptions::default() };
        ChunkStore::format(&rt, Rc::new(device.clone()), &enough).await.unwrap();
        let (store, _) = ChunkStore::open(&rt, Rc::new(device.clone()), Options::default()).await.unwrap();
        // Every data zone is used, so that the table names it.
        for number in 0..2900 {
            store.create(id(number), Stream::Data).await.unwrap();
            store.append(id(number), 0, vec![vec![number as u8; 45_000].into()]).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        let (_, report) = ChunkStore::open(&rt, Rc::new(device), Options::default()).await.unwrap();
        assert_eq!((report.chunks, report.damage.len()), (2900, 0));
        assert!(report.checkpoint_bytes > Blocks(16).bytes() + 2900 * 41, "{}", report.checkpoint_bytes);
    });
}
