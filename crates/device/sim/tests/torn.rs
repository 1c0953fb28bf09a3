//! SIM-7: bands that a drive-managed drive was overwriting when its power failed.

use std::time::Duration;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, Lba};
use shingle_drive_model::{Drive, Profile, Translation};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_zoned::{DeviceErrorKind, Geometry, MemoryDevice, ZonedDevice};

/// A MiB.
const MIB: u64 = 256;

/// Blocks of a read.
const PIECE: u64 = 64;

fn mib(fill: u8) -> Vec<Bytes> {
    let mut buffer = AlignedBuf::zeroed(Blocks(MIB));
    buffer.fill(fill);
    vec![buffer.freeze()]
}

/// A drive that any block of can be overwritten.
fn drive(rt: &Runtime, profile: &Profile) -> SimDevice {
    let shape = Geometry::hm_smr(Blocks(256 * MIB), profile.shape.zones, profile.shape.zones, 1);
    let medium = MemoryDevice::new(Geometry { volatile_cache: profile.cache.write_cache, ..shape });
    let device = SimDevice::new(rt, &medium);
    device.set_drive(Drive::new(profile, 1));
    device
}

/// The device when power is back.
fn after_cut(rt: &Runtime, device: &SimDevice, seed: u64) -> SimDevice {
    let next = SimDevice::new(rt, &device.crash_image(seed));
    next.set_drive(device.drive_after_power_cut().unwrap());
    next
}

/// The blocks of a range that cannot be read.
async fn unreadable(device: &SimDevice, from: u64, to: u64) -> Vec<u64> {
    let mut found = Vec::new();
    for piece in (from..to).step_by(PIECE as usize) {
        if device.read(Lba(piece), Blocks(PIECE)).await.is_ok() {
            continue;
        }
        for at in piece..piece + PIECE {
            match device.read(Lba(at), Blocks(1)).await {
                Ok(_) => {}
                Err(error) if matches!(error.kind, DeviceErrorKind::ReadFailed) => found.push(at),
                Err(error) => panic!("block {at}: {error}"),
            }
        }
    }
    found
}

/// True if every byte of a range has that value.
async fn holds(device: &SimDevice, from: u64, to: u64, fill: u8) -> bool {
    for at in (from..to).step_by(MIB as usize) {
        if device.read(Lba(at), Blocks(MIB)).await.unwrap().iter().any(|&byte| byte != fill) {
            return false;
        }
    }
    true
}

/// Writes MiB after MiB from `at` on, for so long; the end of what completed.
async fn stream(rt: &Runtime, device: &SimDevice, at: u64, time: Duration) -> u64 {
    let (until, mut end) = (rt.now().nanos + time.as_nanos() as u64, at);
    while rt.now().nanos < until {
        device.write(Lba(end), mib(2)).await.unwrap();
        end += MIB;
    }
    end
}

fn seagate(volatile: bool) -> Profile {
    let mut profile = Profile::named("st5000as0011").unwrap();
    profile.cache.write_cache = volatile;
    profile
}

/// Test 13 of the dissertation, section 2.4.11: streams of 1 MiB writes, power cuts, and reads. The band that was being overwritten
/// lies behind the last write by what the volatile cache holds. Errors are gone once the region is overwritten.
#[test]
fn a_power_cut_amid_a_stream_leaves_blocks_that_cannot_be_read_until_they_are_overwritten() {
    let mut cuts = 0;
    for seed in seeds(5) {
        let torn = Sim::new(seed).run(move |rt| async move {
            let device = drive(&rt, &seagate(true));
            let at = Random::new(seed).below(1 << 30) / MIB * MIB;
            // Old data, durable and clean: the cut loses some of it.
            for number in 0..400 {
                device.write(Lba(at + number * MIB), mib(1)).await.unwrap();
            }
            device.flush().await.unwrap();
            rt.sleep(Duration::from_secs(20)).await;
            let middle = stream(&rt, &device, at, Duration::from_millis(200 + seed % 300)).await;
            device.flush().await.unwrap();
            let end = stream(&rt, &device, middle, Duration::from_millis(500 + seed % 700)).await;
            assert!(end < at + 390 * MIB, "{} MiB", (end - at) / MIB);

            let next = after_cut(&rt, &device, seed);
            let torn = unreadable(&next, at, at + 400 * MIB).await;
            assert!(torn.iter().all(|block| (middle..end + 1000).contains(block)), "seed {seed}: {torn:?}");
            assert!(holds(&next, at, middle, 2).await, "seed {seed}: what was flushed is there");
            for number in 0..400 {
                next.write(Lba(at + number * MIB), mib(3)).await.unwrap();
            }
            next.flush().await.unwrap();
            assert_eq!(unreadable(&next, at, at + 400 * MIB).await, [], "seed {seed}: overwritten");
            torn.len()
        });
        cuts += u64::from(torn > 0);
        assert!(torn <= 512 + 36 * 256 / 21, "seed {seed}: {torn} blocks, and not the whole band");
    }
    assert!(cuts >= 3, "{cuts} of 5 cuts tore a band");
}

/// All else is as durable as the drive says: without a volatile cache nothing streams, and a quiet drive has nothing open.
#[test]
fn a_drive_that_overwrites_nothing_in_its_place_loses_nothing() {
    for volatile in [false, true] {
        Sim::new(3).run(move |rt| async move {
            let device = drive(&rt, &seagate(volatile));
            let (at, time) = (3 << 28, Duration::from_millis(700));
            let end = stream(&rt, &device, at, time).await;
            if volatile {
                device.flush().await.unwrap();
                rt.sleep(Duration::from_secs(3)).await;
            }
            let next = after_cut(&rt, &device, 1);
            assert_eq!(unreadable(&next, at, end + 1000).await, [], "volatile: {volatile}");
            assert!(holds(&next, at, end, 2).await, "volatile: {volatile}");
        });
    }
}

/// The read-modify-write of a band in its place: durable neighbours are lost, blocks that are still in the cache are not.
#[test]
fn a_power_cut_amid_the_cleaning_of_a_band_tears_it() {
    let mut profile = Profile::named("emulated-smr-1").unwrap();
    if let Some(Translation::SetAssociative(spec)) = &mut profile.translation {
        spec.cache_bands = 1;
    }
    let band = 40 * MIB;
    let mut torn = 0;
    for seed in seeds(6) {
        let profile = profile.clone();
        torn += Sim::new(seed).run(move |rt| async move {
            let device = drive(&rt, &profile);
            // One MiB in each of forty bands fills the only cache band.
            for number in 0..40 {
                device.write(Lba(number * band + MIB), mib(1)).await.unwrap();
            }
            let writer = device.clone();
            let write = rt.spawn(async move { writer.write(Lba(50 * band), mib(2)).await });
            rt.sleep(Duration::from_millis(300 + seed % 20_000)).await;
            let next = after_cut(&rt, &device, seed);
            drop(write);
            let mut torn = 0;
            for number in 0..40 {
                let cached = next.read(Lba(number * band + MIB), Blocks(MIB)).await.unwrap();
                assert!(cached.iter().all(|&byte| byte == 1), "seed {seed}: what was written last is in the cache");
                for piece in (0..band).step_by(64).filter(|at| !(MIB..2 * MIB).contains(at)) {
                    torn += u64::from(next.read(Lba(number * band + piece), Blocks(64)).await.is_err());
                }
            }
            torn
        });
    }
    assert!(torn > 20, "{torn} pieces of 256 KiB in six cuts");
}
