//! The file device beside fio, by both of its ways to the file: sequential writes of 1 MiB and random reads of 4 KiB, as
//! `shingle bench device` does them. `file DIR [rounds [fio|threads|ring]]`; prints the medians of each, and ratios to fio's in the same round.

use std::cell::Cell;
use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, ByteSize, ZoneId};
use shingle_runtime::{Runtime, real};
use shingle_zoned::{CreateOptions, FileDevice, GeometrySpec, ZoneOp, ZonedDevice};
use shingle_zoned_linux::open_file;

const MIB: u64 = 1 << 20;
const WRITERS: u64 = 4;
const ZONE: u64 = 64 * MIB;
const READS: u64 = 16_384;

fn forget(path: &Path) {
    let file = File::open(path).expect("the file");
    file.sync_all().expect("a sync");
    let forgotten = Command::new("dd")
        .arg(format!("of={}", path.display()))
        .args(["oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"])
        .status();
    assert!(forgotten.is_ok_and(|status| status.success()), "dd forgets the file");
}

fn open(path: &Path, runtime: &Runtime, ring: bool) -> Rc<FileDevice> {
    let opened = if ring { open_file(path, runtime, false) } else { FileDevice::open(path, runtime) };
    Rc::new(opened.expect("the drive opens"))
}

fn reset(path: &Path) {
    real::run(|rt| async move {
        let device = open(path, &rt, false);
        for zone in 0..WRITERS as u32 {
            device.manage(ZoneId(zone), ZoneOp::Reset).await.expect("a reset");
        }
        device.flush().await.expect("a flush");
    })
    .expect("an executor");
}

/// Bytes written and reads a second.
fn ours(path: &Path, ring: bool) -> (f64, f64) {
    reset(path);
    real::run(|rt| async move {
        let device = open(path, &rt, ring);
        let mut data = AlignedBuf::zeroed(Blocks(MIB / BLOCK_SIZE as u64));
        data.iter_mut().zip((0..=250u8).cycle()).for_each(|(byte, value)| *byte = value);
        let data = data.freeze();
        let begun = rt.now();
        let writers = (0..WRITERS).map(|zone| {
            let (device, data) = (device.clone(), data.clone());
            rt.spawn(async move {
                let start = device.geometry().start_of(ZoneId(zone as u32));
                for piece in 0..ZONE / MIB {
                    if piece > 0 && piece % 16 == 0 {
                        device.flush().await.expect("a flush");
                    }
                    let at = start + Blocks(piece * MIB / BLOCK_SIZE as u64);
                    device.write(at, vec![data.clone()]).await.expect("a write");
                }
            })
        });
        join_all(writers.collect::<Vec<_>>()).await;
        let write = (WRITERS * ZONE) as f64 / (rt.now() - begun).as_secs_f64();
        device.flush().await.expect("a flush");
        forget(path);
        let next = Rc::new(Cell::new(0x2545_F491_4F6C_DD1Du64));
        let begun = rt.now();
        let readers = (0..32).map(|_| {
            let (device, next) = (device.clone(), next.clone());
            rt.spawn(async move {
                for _ in 0..READS / 32 {
                    let mut state = next.get();
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    next.set(state);
                    let start = device.geometry().start_of(ZoneId((state % WRITERS) as u32));
                    let at = start + Blocks((state >> 16) % (ZONE / BLOCK_SIZE as u64));
                    std::hint::black_box(device.read(at, Blocks(1)).await.expect("a read"));
                }
            })
        });
        join_all(readers.collect::<Vec<_>>()).await;
        (write, READS as f64 / (rt.now() - begun).as_secs_f64())
    })
    .expect("an executor")
}

fn fio(path: &Path, arguments: &[String]) -> f64 {
    let mut command = Command::new("fio");
    command.args([
        "--name=x",
        "--ioengine=io_uring",
        "--output-format=terse",
        "--terse-version=3",
        "--group_reporting",
    ]);
    command.args(["--fallocate=none", "--invalidate=1", "--norandommap", "--randrepeat=0", "--fadvise_hint=0"]);
    command.arg(format!("--filename={}", path.display())).args(arguments);
    let out = command.output().expect("fio runs");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("3;")).expect("fio's line");
    let fields: Vec<f64> = line.split(';').map(|field| field.parse().unwrap_or(0.0)).collect();
    (fields[6] + fields[47]) * 1024.0
}

fn fios(path: &Path) -> (f64, f64) {
    let _ = std::fs::remove_file(path);
    let common = |bs: u64, jobs: u64, depth: u64, range: u64, io: u64| {
        ["bs", "numjobs", "iodepth", "offset_increment", "size", "io_size"]
            .into_iter()
            .zip([bs, jobs, depth, range, range, io])
            .map(|(name, value)| format!("--{name}={value}"))
            .collect::<Vec<_>>()
    };
    let mut write = common(MIB, WRITERS, 1, ZONE, ZONE);
    write.extend(["--rw=write".into(), "--fdatasync=16".into()]);
    let written = fio(path, &write);
    forget(path);
    let mut read = common(BLOCK_SIZE as u64, 1, 32, WRITERS * ZONE, READS * BLOCK_SIZE as u64);
    read.push("--rw=randread".into());
    (written, fio(path, &read) / BLOCK_SIZE as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let folder = std::env::args().nth(1).expect("a directory");
    let rounds: usize = std::env::args().nth(2).and_then(|text| text.parse().ok()).unwrap_or(5);
    let (drive, other) = (Path::new(&folder).join("speed.drive"), Path::new(&folder).join("speed.fio"));
    let spec =
        GeometrySpec { zone_size: ByteSize(ZONE), conventional_zones: 0, ..GeometrySpec::hm_smr(ByteSize(16 * ZONE)) };
    let geometry = spec.build().expect("a geometry");
    FileDevice::create(&drive, &geometry, CreateOptions { overwrite: true }).expect("a drive");
    let only = std::env::args().nth(3);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    let mut all: Vec<Vec<(f64, f64)>> = vec![Vec::new(); 3];
    for _ in 0..rounds {
        all[0].push(if wanted("fio") { fios(&other) } else { (f64::NAN, f64::NAN) });
        for (side, name) in [(1, "threads"), (2, "ring")] {
            if wanted(name) {
                all[side].push(ours(&drive, side == 2));
            }
        }
    }
    for (rates, name) in all.iter().zip(["fio", "threads", "ring"]).filter(|(rates, _)| !rates.is_empty()) {
        let ratio = |of: fn(&(f64, f64)) -> f64| {
            median(rates.iter().zip(&all[0]).map(|(rate, fio)| of(rate) / of(fio)).collect())
        };
        println!(
            "{name:8} writes {:6.0} MiB/s ({:.2})  reads {:7.0}/s ({:.2})",
            median(rates.iter().map(|rate| rate.0).collect()) / MIB as f64,
            ratio(|rate| rate.0),
            median(rates.iter().map(|rate| rate.1).collect()),
            ratio(|rate| rate.1)
        );
    }
    let _ = std::fs::remove_file(&drive);
    let _ = std::fs::remove_file(&other);
}
