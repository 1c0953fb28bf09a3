//! Space that a drive takes on the file system, and gives back.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;

use shingle_base::{BLOCK_SIZE, Blocks, ByteSize, Crc, Lba, ZoneId};
use shingle_runtime::real;
use shingle_zoned::{GeometrySpec, ZoneOp, ZoneState, ZonedDevice};

use super::{Directory, blocks, create, geometry, space};

/// ZD-FD-3.
#[test]
fn a_drive_of_twenty_terabytes_takes_little_space_and_resets_give_it_back() {
    let directory = Directory::new("space");
    let path = directory.drive();
    let geometry = GeometrySpec::hm_smr("20TB".parse::<ByteSize>().unwrap()).build().unwrap();
    create(&path, &geometry);
    assert!(space(&path) < 2 << 20, "{} bytes for an empty drive", space(&path));
    real::run(|runtime| async move {
        let device = crate::open(&path, &runtime).unwrap();
        let empty = space(&path);
        let last = ZoneId(geometry.zone_count - 1);
        let zones = [last, ZoneId(geometry.conventional_zones), ZoneId(40_000)];
        for zone in zones {
            for part in 0..4 {
                device.append(zone, vec![blocks(part * 256, 256)]).await.unwrap();
            }
        }
        let full = space(&path);
        assert!(full >= empty + (12 << 20) && full < empty + (14 << 20), "{full} bytes");
        device.manage(zones[1], ZoneOp::Reset).await.unwrap();
        let after_one = space(&path);
        assert!(after_one + (4 << 20) <= full, "{after_one} bytes after a reset, {full} before");
        let bytes = device.read(geometry.start_of(last), Blocks(1024)).await.unwrap();
        assert!(bytes == blocks(0, 1024), "a neighbour of the hole");
        // Slots that came free are used again before the file grows, once a flush has made their resets durable.
        let length = fs::metadata(&path).unwrap().len();
        for round in 0..40 {
            let zone = ZoneId(50_000 + round);
            device.append(zone, vec![blocks(9, 1)]).await.unwrap();
            device.manage(zone, ZoneOp::Reset).await.unwrap();
            device.flush().await.unwrap();
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), length);
        device.append(ZoneId(50_000), vec![blocks(9, 1)]).await.unwrap();
        for zone in [zones[0], zones[2], ZoneId(50_000)] {
            device.manage(zone, ZoneOp::Reset).await.unwrap();
        }
        assert!(space(&path) <= empty + 65_536, "{} bytes with nothing on it", space(&path));
    })
    .unwrap();
}

/// A process killed between the two halves of a reset: the table says empty, the bytes are still there.
#[test]
fn opening_a_drive_gives_back_the_space_of_a_reset_that_was_cut_off() {
    let directory = Directory::new("tidy");
    let path = directory.drive();
    create(&path, &geometry());
    real::run(|runtime| async move {
        let device = crate::open(&path, &runtime).unwrap();
        for zone in [5, 6, 7] {
            device.append(ZoneId(zone), vec![blocks(1, 60)]).await.unwrap();
        }
        drop(device);
        let full = space(&path);
        for zone in [5_u32, 7] {
            let mut entry = [0; 16];
            entry[4] = zone as u8 - 4;
            entry[8] = ZoneState::Empty.code();
            let crc = Crc::new().update(&zone.to_le_bytes()).update(&entry[..12]).value();
            entry[12..].copy_from_slice(&crc.to_le_bytes());
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.write_all_at(&entry, 4096 + 16 * u64::from(zone)).unwrap();
        }
        let device = crate::open(&path, &runtime).unwrap();
        assert!(space(&path) + 2 * 60 * 4096 <= full, "{} of {full} bytes", space(&path));
        assert_eq!(fs::metadata(&path).unwrap().len(), 8192 + 2 * 64 * 4096, "the file ends with its last slot in use");
        assert!(device.read(Lba(6 * 64), Blocks(60)).await.unwrap() == blocks(1, 60));
        // Their slots go to others, who must not see what was in them.
        device.append(ZoneId(8), vec![blocks(50, 1)]).await.unwrap();
        device.manage(ZoneId(8), ZoneOp::Finish).await.unwrap();
        let bytes = device.read(Lba(8 * 64), Blocks(60)).await.unwrap();
        assert!(bytes[BLOCK_SIZE..].iter().all(|&byte| byte == 0));
        drop(device);
        let device = crate::open(&path, &runtime).unwrap();
        assert!(device.read(Lba(8 * 64), Blocks(1)).await.unwrap() == blocks(50, 1));
    })
    .unwrap();
}

/// Slots are scarce between flushes: more resets than zones force one.
#[test]
fn resets_without_a_flush_do_not_run_out_of_places() {
    let directory = Directory::new("scarce");
    let path = directory.drive();
    create(&path, &geometry());
    real::run(|runtime| async move {
        let device = crate::open(&path, &runtime).unwrap();
        for round in 0..100 {
            let zone = ZoneId(2 + round % 14);
            device.append(zone, vec![blocks(u64::from(round), 60)]).await.unwrap();
            let start = device.geometry().start_of(zone);
            assert!(device.read(start, Blocks(60)).await.unwrap() == blocks(u64::from(round), 60), "round {round}");
            device.manage(zone, ZoneOp::Reset).await.unwrap();
        }
        drop(device);
        crate::open(&path, &runtime).unwrap();
    })
    .unwrap();
}

/// A failure of the machine: the disk has any part of the writes since the last flush. With any mix of the table's
/// entries the drive opens, and data that was flushed and left alone since is there. (ZD-FD-2)
#[test]
fn any_mix_of_table_entries_since_the_last_flush_is_a_drive() {
    let directory = Directory::new("mix");
    for seed in 1..=12_u64 {
        let path = directory.0.join(format!("drive-{seed}"));
        create(&path, &geometry());
        let mut state = seed;
        let mut below = move |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        real::run(|runtime| async move {
            let device = crate::open(&path, &runtime).unwrap();
            let file = File::open(&path).unwrap();
            let table = || {
                let mut bytes = vec![0; 16 * 16];
                file.read_exact_at(&mut bytes, 4096).unwrap();
                bytes
            };
            let mut since = vec![table()];
            let mut flushed = device.report(ZoneId(0), 16).await.unwrap();
            for step in 0..150 {
                let zone = ZoneId(2 + below(14) as u32);
                let _refused = match below(8) {
                    0..5 => device.append(zone, vec![blocks(step, 1 + below(30))]).await.map(drop),
                    5 | 6 => device.manage(zone, ZoneOp::Reset).await,
                    _ => device.manage(zone, ZoneOp::Finish).await,
                };
                since.push(table());
                if below(20) == 0 {
                    device.flush().await.unwrap();
                    since = vec![table()];
                    flushed = device.report(ZoneId(0), 16).await.unwrap();
                }
                if below(10) > 0 {
                    continue;
                }
                let mut image = vec![0; 8192];
                file.read_exact_at(&mut image, 0).unwrap();
                for entry in 0..16 {
                    let version = &since[below(since.len() as u64) as usize];
                    image[4096 + entry * 16..][..16].copy_from_slice(&version[entry * 16..][..16]);
                }
                let cut = path.with_extension("cut");
                fs::write(&cut, &image).unwrap();
                OpenOptions::new().write(true).open(&cut).unwrap().set_len(file.metadata().unwrap().len()).unwrap();
                let found =
                    crate::open(&cut, &runtime).unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
                for (zone, before) in found.report(ZoneId(0), 16).await.unwrap().iter().zip(&flushed) {
                    let entry = zone.zone.0 as usize * 16;
                    if since.iter().all(|table| table[entry..entry + 16] == since[0][entry..entry + 16]) {
                        let same = zone.written == before.written;
                        assert!(same, "seed {seed}, step {step}: {} was flushed and left alone", zone.zone);
                    }
                }
            }
        })
        .unwrap();
    }
}

/// ZD-FD-5: a write whose process was killed before its entry left bytes behind the write pointer. No later write may be followed by them.
#[test]
fn bytes_behind_a_write_pointer_are_zeros_once_their_zone_is_written_on() {
    let directory = Directory::new("behind");
    let path = directory.drive();
    create(&path, &geometry());
    real::run(|runtime| async move {
        let device = crate::open(&path, &runtime).unwrap();
        device.append(ZoneId(5), vec![blocks(1, 10)]).await.unwrap();
        device.append(ZoneId(6), vec![blocks(2, 60)]).await.unwrap();
        device.append(ZoneId(7), vec![blocks(3, 4)]).await.unwrap();
        device.manage(ZoneId(7), ZoneOp::Close).await.unwrap();
        drop(device);
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let at = |slot: u64, block: u64| 8192 + (slot * 64 + block) * 4096;
        let behind = [(5, at(0, 10), 54 * 4096), (7, at(2, 4), 60 * 4096)];
        for (_, at, length) in behind {
            file.write_all_at(&vec![7; length], at).unwrap();
        }
        let device = crate::open(&path, &runtime).unwrap();
        for (zone, at, length) in behind {
            let is = |byte: u8, from: u64| {
                let mut found = vec![1; length - from as usize];
                file.read_exact_at(&mut found, at + from).unwrap();
                found.iter().all(|found| *found == byte)
            };
            assert!(is(7, 0), "an opening takes no time for zone {zone}");
            device.append(ZoneId(zone), vec![blocks(4, 1)]).await.unwrap();
            assert!(is(0, 4096), "zone {zone}: old bytes behind {at}");
            device.append(ZoneId(zone), vec![blocks(5, 1)]).await.unwrap();
        }
        let written = device.read(Lba(5 * 64 + 10), Blocks(2)).await.unwrap();
        assert!(written == [blocks(4, 1), blocks(5, 1)].concat(), "it is cleared once");
        for (zone, tag, count) in [(5, 1, 10), (6, 2, 60), (7, 3, 4)] {
            let read = device.read(Lba(zone * 64), Blocks(count)).await.unwrap();
            assert!(read == blocks(tag, count), "zone {zone}: what was written stays");
        }
    })
    .unwrap();
}
