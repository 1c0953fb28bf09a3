//! TL-REC-2, TL-REC-3: pairs with blocks that cannot be read, for a while or for good, and rot.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, Lba};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Medium, Sim, SimDevice, Trigger};
use shingle_store_api::{BlockStore, Durability, StoreErrorKind, StoreResult};
use shingle_translation::{FormatOptions, Options, RecoveryReport, Volume};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

const SECTOR: u64 = 4096;

async fn opened(rt: &Runtime, medium: Medium, accept_loss: bool) -> (SimDevice, StoreResult<(Volume, RecoveryReport)>) {
    let device = SimDevice::resume(rt, medium);
    let options = Options { accept_loss, ..Options::default() };
    let opened = Volume::open(rt, Rc::new(device.clone()), options).await;
    (device, opened)
}

async fn write(volume: &Volume, lba: u64, sectors: u64, byte: u8) {
    let data = Bytes::from(vec![byte; (sectors * SECTOR) as usize]);
    volume.write(lba * SECTOR, vec![data], Durability::Durable).await.expect("it is written");
}

/// The byte of which a sector is full.
async fn byte_of(volume: &Volume, lba: u64) -> Result<u8, StoreErrorKind> {
    let read = volume.read(lba * SECTOR, SECTOR).await.map_err(|error| error.kind)?;
    assert!(read.iter().all(|&byte| byte == read[0]), "sector {lba}");
    Ok(read[0])
}

/// A drive with three pairs behind the last checkpoint: sectors 0 to 3 of ones, of twos, and sectors 2 to 5 of threes. Returns the address
/// of their zone. The pairs have 5 blocks each, from block 1 on.
async fn drive(rt: &Runtime) -> (Medium, Lba) {
    let geometry = Geometry::hm_smr(Blocks(64), 40, 0, 8);
    let device = SimDevice::new(rt, &MemoryDevice::new(geometry));
    let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
    Volume::format(rt, shared.clone(), FormatOptions::default()).await.expect("the drive takes a volume");
    let (volume, _) = Volume::open(rt, shared, Options::default()).await.expect("the volume opens");
    write(&volume, 0, 4, 1).await;
    write(&volume, 0, 4, 2).await;
    write(&volume, 2, 4, 3).await;
    let zone = device.geometry().start_of(shingle_base::ZoneId(volume.data_zones().start));
    (device.kill(), zone)
}

fn run(test: impl AsyncFnOnce(Runtime, Medium, Lba) + 'static) {
    Sim::new(1).run(move |rt| async move {
        let (medium, zone) = drive(&rt).await;
        test(rt, medium, zone).await;
    });
}

/// Block `block` of pair `pair`, from 0.
fn block(zone: Lba, pair: u64, block: u64) -> Lba {
    zone + Blocks(1 + pair * 5 + block)
}

#[test]
fn either_side_of_a_pair_tells_its_names() {
    for (side, lost) in [(0, 2), (4, 5)] {
        run(async move |rt, medium, zone| {
            medium.fail_reads(block(zone, 2, side), Blocks(1), None);
            let (device, opened) = opened(&rt, medium, false).await;
            let (volume, report) = opened.expect("the names are known");
            assert_eq!(report.damaged.len(), 1, "{report:?}");
            assert_eq!(byte_of(&volume, 1).await, Ok(2));
            // The slice that lies in that block cannot be had, and nothing older is taken for it.
            assert_eq!(byte_of(&volume, lost).await, Err(StoreErrorKind::Device));
            assert_eq!(byte_of(&volume, 3).await, Ok(3));
            device.medium().heal();
            assert_eq!(byte_of(&volume, lost).await, Ok(3), "it can be read again");
        });
    }
}

#[test]
fn an_opening_that_cannot_tell_the_names_is_refused_and_changes_nothing() {
    run(async |rt, medium, zone| {
        medium.fail_reads(block(zone, 2, 0), Blocks(5), None);
        let (device, refused) = opened(&rt, medium, false).await;
        let error = refused.map(drop).expect_err("sectors of an unknown write");
        assert_eq!(error.kind, StoreErrorKind::Unavailable, "{error}");
        assert!(error.message.contains("--accept-loss"), "{error}");
        let medium = device.kill();
        medium.heal();
        let (_, opened) = opened(&rt, medium, false).await;
        let (volume, report) = opened.expect("all can be read");
        assert_eq!((report.damaged.len(), report.unknown.len()), (0, 0), "{report:?}");
        assert_eq!([byte_of(&volume, 1).await, byte_of(&volume, 3).await], [Ok(2), Ok(3)]);
    });
}

#[test]
fn an_accepted_loss_is_for_good() {
    run(async |rt, medium, zone| {
        medium.fail_reads(block(zone, 2, 0), Blocks(5), None);
        let (device, accepted) = opened(&rt, medium, true).await;
        let (volume, report) = accepted.expect("the loss was accepted");
        assert_eq!(report.unknown.len(), 1);
        assert_eq!([byte_of(&volume, 1).await, byte_of(&volume, 3).await], [Ok(2), Ok(2)]);
        let medium = device.kill();
        medium.heal();
        let (_, opened) = opened(&rt, medium, false).await;
        let (volume, report) = opened.expect("it was settled");
        assert_eq!(report.unknown.len(), 0);
        assert_eq!([byte_of(&volume, 3).await, byte_of(&volume, 5).await], [Ok(2), Ok(0)]);
    });
}

#[test]
fn rot_before_a_durable_pair_costs_its_own_sectors() {
    run(async |rt, medium, zone| {
        medium.rot(block(zone, 1, 2), 7);
        let (_, opened) = opened(&rt, medium, false).await;
        let (volume, report) = opened.expect("the names are known");
        assert_eq!((report.damaged.len(), report.torn.len()), (1, 0), "{report:?}");
        assert_eq!(byte_of(&volume, 0).await, Ok(2));
        assert_eq!(byte_of(&volume, 1).await, Err(StoreErrorKind::Corrupt));
        assert_eq!(byte_of(&volume, 2).await, Ok(3), "it was written again since");
    });
}

#[test]
fn rot_of_all_names_of_a_durable_pair_refuses_the_opening() {
    run(async |rt, medium, zone| {
        for seed in 0..300 {
            medium.rot(block(zone, 1, 0), seed);
            medium.rot(block(zone, 1, 4), seed);
        }
        let (_, refused) = opened(&rt, medium, false).await;
        let error = refused.map(drop).expect_err("sectors of an unknown write");
        assert_eq!(error.kind, StoreErrorKind::Corrupt, "{error}");
    });
}

/// The fault model says so: nothing tells it from a torn write.
#[test]
fn rot_of_the_very_last_pair_passes_for_a_tear() {
    run(async |rt, medium, zone| {
        medium.rot(block(zone, 2, 2), 7);
        let (_, opened) = opened(&rt, medium, false).await;
        let (volume, report) = opened.expect("it opens");
        assert_eq!((report.damaged.len(), report.torn.len()), (0, 1), "{report:?}");
        assert_eq!([byte_of(&volume, 3).await, byte_of(&volume, 5).await], [Ok(2), Ok(0)]);
    });
}

/// A failed flush leaves it unknown what is durable: the volume says so, and the next opening finds what was flushed before.
#[test]
fn a_failed_flush_stops_the_volume_and_those_who_watch_it_are_told() {
    Sim::new(1).run(|rt| async move {
        let geometry = Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(64), 40, 0, 8) };
        let device = SimDevice::new(&rt, &MemoryDevice::new(geometry));
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        Volume::format(&rt, shared.clone(), FormatOptions::default()).await.unwrap();
        let (volume, _) = Volume::open(&rt, shared, Options::default()).await.unwrap();
        write(&volume, 0, 4, 1).await;
        volume.flush().await.unwrap();
        write(&volume, 4, 4, 1).await;
        let stopped = rt.spawn(volume.stopped());
        let mut early = Box::pin(volume.stopped());
        assert!(futures_util::poll!(&mut early).is_pending(), "it works");
        device.set_faults(Faults::new(vec![FaultRule {
            trigger: Trigger::Nth(CommandKind::Flush, 0),
            fault: Fault::CommandError,
        }]));
        assert_eq!(volume.flush().await.unwrap_err().kind, StoreErrorKind::Unavailable);
        stopped.await.unwrap();
        volume.stopped().await;
        assert!(volume.flush().await.is_err());
        let (_, opened) = opened(&rt, device.kill(), false).await;
        assert_eq!(byte_of(&opened.unwrap().0, 0).await, Ok(1));
    });
}
