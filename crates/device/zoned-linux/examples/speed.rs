//! Sequential writes of 1 MiB and random reads of 4 KiB on a zoned block device, whose data is lost, for comparison with
//! fio's: `speed /dev/nullb0 [MiB] [reads] [depth]`. Prints MiB/s and reads per second.

use std::future::Future;
use std::path::PathBuf;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use shingle_base::{AlignedBuf, Blocks, Lba, ZoneId};
use shingle_runtime::{Runtime, real};
use shingle_zoned::{ZoneOp, ZoneState, ZonedDevice};
use shingle_zoned_linux::{KernelDevice, OpenOptions};

/// Blocks of a write.
const WRITE: u64 = 256;

fn argument(number: usize, usual: u64) -> u64 {
    std::env::args().nth(number).and_then(|text| text.parse().ok()).unwrap_or(usual)
}

async fn seconds(rt: &Runtime, work: impl Future<Output = ()>) -> f64 {
    let begun = rt.now();
    work.await;
    (rt.now() - begun).as_secs_f64()
}

fn main() {
    let path = PathBuf::from(std::env::args().nth(1).expect("the drive's node"));
    let (megabytes, reads, depth) = (argument(2, 256), argument(3, 20_000), argument(4, 32));
    real::run(|rt| async move {
        let device = KernelDevice::open(&path, &rt, OpenOptions { force: true, keep_open: false, alone: false })
            .expect("the drive opens");
        let geometry = device.geometry().clone();
        for info in device.report(ZoneId(0), u32::MAX).await.expect("a report") {
            if info.state != ZoneState::NotWritePointer && info.state != ZoneState::Empty {
                device.manage(info.zone, ZoneOp::Reset).await.expect("a reset");
            }
        }
        let data = AlignedBuf::zeroed(Blocks(WRITE)).freeze();
        let capacity = geometry.zone_capacity.0 / WRITE * WRITE;
        let zones =
            megabytes.div_ceil(capacity / WRITE).min(u64::from(geometry.zone_count - geometry.conventional_zones));
        let places: Vec<Lba> = (0..zones)
            .map(|zone| geometry.start_of(ZoneId(geometry.conventional_zones + zone as u32)))
            .flat_map(|start| (0..capacity).step_by(WRITE as usize).map(move |block| start + Blocks(block)))
            .collect();
        let writing = async {
            for &at in &places {
                device.write(at, vec![data.clone()]).await.expect("a write");
            }
        };
        let took = seconds(&rt, writing).await;
        println!("write {:.1} MiB/s", places.len() as f64 / took);
        let mut seed = 7_u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let block = seed >> 20;
            places[(block / WRITE) as usize % places.len()] + Blocks(block % WRITE)
        };
        let reading = async {
            let mut under_way: FuturesUnordered<_> = (0..depth).map(|_| device.read(random(), Blocks(1))).collect();
            for _ in 0..reads {
                under_way.next().await.expect("reads are under way").expect("a read");
                under_way.push(device.read(random(), Blocks(1)));
            }
        };
        let took = seconds(&rt, reading).await;
        println!("read {:.0}/s at depth {depth}", reads as f64 / took);
    })
    .expect("an executor");
}
