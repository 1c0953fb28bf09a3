//! SIM-2: what a power cut leaves.

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, ZoneId};
use shingle_sim::lives::Life;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{DeviceErrorKind, Geometry, MemoryDevice, ZoneOp, ZoneState, ZonedDevice};

fn blocks(count: u64, fill: u8) -> Vec<Bytes> {
    let mut buffer = AlignedBuf::zeroed(Blocks(count));
    buffer.fill(fill);
    vec![buffer.freeze()]
}

fn cached() -> MemoryDevice {
    MemoryDevice::new(Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(64), 8, 0, 8) })
}

/// ZD-DEV-2 and ZD-DEV-3.
#[test]
fn what_was_flushed_is_there_and_the_rest_is_a_prefix() {
    let (mut lost, mut kept) = (0, 0);
    for seed in seeds(200) {
        let image = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &cached());
            let start = device.geometry().start_of(ZoneId(1));
            device.write(start, blocks(4, 1)).await.unwrap();
            device.flush().await.unwrap();
            for step in 0..6 {
                device.write(start + Blocks(4 + step * 2), blocks(2, 2 + step as u8)).await.unwrap();
            }
            device.crash_image(seed)
        });
        let written = image.zone(ZoneId(1)).written.0;
        assert!((4..=16).contains(&written), "seed {seed}: {written} blocks");
        lost += u64::from(written < 16);
        kept += u64::from(written > 4);
        assert_eq!(image.zone(ZoneId(1)).state, ZoneState::Closed, "seed {seed}: open zones come back closed");
        let bytes = Sim::new(1).run(move |_| async move {
            let start = image.geometry().start_of(ZoneId(1));
            image.read(start, Blocks(written)).await.unwrap()
        });
        // All blocks are what was written, but perhaps the last, which may be torn.
        for (at, block) in bytes.chunks(BLOCK_SIZE).enumerate().take(written as usize - 1) {
            let expected = if at < 4 { 1 } else { 2 + ((at - 4) / 2) as u8 };
            assert!(block.iter().all(|&byte| byte == expected), "seed {seed}: block {at}");
        }
    }
    assert!(lost > 20 && kept > 20, "a cut sometimes loses ({lost}) and sometimes keeps ({kept}) what was not flushed");
}

#[test]
fn a_reset_that_was_not_flushed_may_come_undone() {
    let mut undone = 0;
    for seed in seeds(60) {
        let image = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &cached());
            device.write(device.geometry().start_of(ZoneId(2)), blocks(3, 9)).await.unwrap();
            device.flush().await.unwrap();
            device.manage(ZoneId(2), ZoneOp::Reset).await.unwrap();
            device.crash_image(seed)
        });
        undone += u64::from(image.zone(ZoneId(2)).written == Blocks(3));
    }
    assert!((10..=50).contains(&undone), "{undone} of 60 resets came undone");
}

#[test]
fn without_a_cache_a_completed_write_is_durable() {
    for seed in seeds(50) {
        let image = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(64), 8, 0, 8)));
            device.write(device.geometry().start_of(ZoneId(0)), blocks(5, 1)).await.unwrap();
            device.crash_image(seed)
        });
        assert_eq!(image.zone(ZoneId(0)).written, Blocks(5), "seed {seed}");
    }
}

#[test]
fn what_was_flushed_is_there_though_zones_took_turns_to_be_open() {
    for seed in seeds(20) {
        let image = Sim::new(seed).run(move |rt| async move {
            let geometry = Geometry { volatile_cache: true, ..Geometry::zns(Blocks(64), Blocks(60), 8, 1, 2) };
            let device = SimDevice::new(&rt, &MemoryDevice::new(geometry));
            let mut written = Vec::new();
            for zone in [5, 2, 7, 1].map(ZoneId) {
                device.manage(zone, ZoneOp::Open).await.unwrap();
                device.write(device.geometry().start_of(zone), blocks(4, 1)).await.unwrap();
                device.manage(zone, ZoneOp::Finish).await.unwrap();
                written.push(zone);
            }
            device.flush().await.unwrap();
            for zone in [6, 4, 3].map(ZoneId) {
                device.write(device.geometry().start_of(zone), blocks(4, 2)).await.unwrap();
                device.manage(zone, ZoneOp::Finish).await.unwrap();
            }
            let image = device.crash_image(seed);
            assert!(written.iter().all(|&zone| image.zone(zone).state == ZoneState::Full), "seed {seed}");
            image
        });
        let active = (0..8).filter(|&zone| image.zone(ZoneId(zone)).state.is_active()).count();
        assert!(active <= 2, "seed {seed}: {active} active zones of 2");
    }
}

#[test]
fn each_fault_shows_as_it_should() {
    Sim::new(5).run(|rt| async move {
        let medium = MemoryDevice::new(Geometry::hm_smr(Blocks(64), 8, 0, 8));
        let nth = |kind, number, fault| FaultRule { trigger: Trigger::Nth(kind, number), fault };
        let device = SimDevice::new(&rt, &medium);
        device.set_faults(Faults::new([
            nth(CommandKind::Write, 0, Fault::WriteError),
            nth(CommandKind::Write, 1, Fault::ZoneReadOnly),
            nth(CommandKind::Write, 2, Fault::ZoneOffline),
            nth(CommandKind::Read, 0, Fault::ReadError),
            nth(CommandKind::Write, 4, Fault::BitFlip),
        ]));
        let start = |zone| medium.geometry().start_of(ZoneId(zone));
        let error = device.write(start(0), blocks(8, 1)).await.unwrap_err();
        assert!(matches!(error.kind, DeviceErrorKind::WriteFailed));
        assert!(device.image().zone(ZoneId(0)).written < Blocks(8), "a part of it landed");
        let error = device.write(start(1), blocks(1, 1)).await.unwrap_err();
        assert!(matches!(error.kind, DeviceErrorKind::ZoneReadOnly));
        let error = device.write(start(2), blocks(1, 1)).await.unwrap_err();
        assert!(matches!(error.kind, DeviceErrorKind::ZoneOffline));
        device.write(start(3), blocks(2, 7)).await.unwrap();
        let error = device.read(start(3), Blocks(1)).await.unwrap_err();
        assert!(matches!(error.kind, DeviceErrorKind::ReadFailed));
        assert!(device.read(start(3), Blocks(2)).await.unwrap().iter().all(|&byte| byte == 7));
        device.write(start(4), blocks(1, 0)).await.unwrap();
        let bits: u32 = device.read(start(4), Blocks(1)).await.unwrap().iter().map(|byte| byte.count_ones()).sum();
        assert_eq!(bits, 1, "one bit is wrong");
        device.power_off_at(0);
        assert!(matches!(device.flush().await.unwrap_err().kind, DeviceErrorKind::Gone));
        assert_eq!(device.faults().injected().len(), 5);
    });
}

/// A life ends as its drive may: one without a cache leaves a prefix of each zone, whatever was drawn; of one with a cache any blocks may
/// be missing.
#[test]
fn a_life_ends_as_its_drive_may() {
    let mut holes = [0, 0];
    for seed in seeds(200) {
        let cache = seed.is_multiple_of(2);
        let life = Life::draw(&mut Random::new(seed), &(0..8), 8, 1000);
        let image = Sim::new(seed).run(move |rt| async move {
            let medium = if cache { cached() } else { MemoryDevice::new(Geometry::hm_smr(Blocks(64), 8, 0, 8)) };
            let device = SimDevice::new(&rt, &medium);
            let (start, writer) = (device.geometry().start_of(ZoneId(1)), device.clone());
            let writes = rt.spawn(async move {
                for step in 0..6 {
                    let _ = writer.write(start + Blocks(step * 4), blocks(4, 7)).await;
                }
            });
            // In the middle of a write, or of what is cached.
            rt.sleep(std::time::Duration::from_micros(seed * 3)).await;
            let left = life.end(&device, seed).image();
            writes.await.unwrap();
            left
        });
        let written = image.zone(ZoneId(1)).written.0;
        let start = image.geometry().start_of(ZoneId(1));
        let is_hole =
            |block: u64| image.read_now(start + Blocks(block), Blocks(1)).unwrap().iter().all(|byte| *byte != 7);
        // The last may be torn.
        holes[usize::from(cache)] += (0..written.saturating_sub(1)).filter(|block| is_hole(*block)).count();
    }
    assert!(holes[0] == 0 && holes[1] > 20, "{holes:?}");
}
