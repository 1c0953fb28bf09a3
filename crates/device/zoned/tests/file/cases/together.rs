//! Commands under way together.

use std::fs::File;
use std::os::unix::fs::FileExt;

use futures_util::future::{join, join_all, join3, join4, poll_immediate};
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::real;
use shingle_zoned::{Geometry, Violation, ZoneOp, ZoneState, ZonedDevice};

use super::{Directory, blocks, create, geometry};

#[test]
fn commands_of_a_zone_take_effect_in_the_order_they_start() {
    let directory = Directory::new("order");
    let path = directory.drive();
    create(&path, &geometry());
    real::run(|runtime| async move {
        let device = crate::open(&path, &runtime).unwrap();
        for round in 0..50_u64 {
            let tag = round * 1000;
            let zone = ZoneId(2 + (round % 14) as u32);
            let start = device.geometry().start_of(zone);
            let writes = join_all((0..10).map(|at| {
                device.write(start + Blocks(at * 5), vec![blocks(tag + at * 5, 2), blocks(tag + at * 5 + 2, 3)])
            }));
            // Wants blocks that no write has finished yet; goes behind them.
            let early = device.read(start + Blocks(20), Blocks(30));
            let finish = device.manage(zone, ZoneOp::Finish);
            let whole = device.read(start, Blocks(50));
            let reset = device.manage(zone, ZoneOp::Reset);
            let gone = device.read(start, Blocks(1));
            let again = device.append(zone, vec![blocks(tag + 500, 40)]);
            let last = device.read(start + Blocks(38), Blocks(2));
            let ((writes, early, finish, whole), (reset, gone, again, last)) =
                join(join4(writes, early, finish, whole), join4(reset, gone, again, last)).await;
            writes.into_iter().for_each(|result| result.unwrap());
            assert!(early.unwrap() == blocks(tag + 20, 30), "round {round}");
            finish.unwrap();
            assert!(whole.unwrap() == blocks(tag, 50), "round {round}: a reset waits for the reads before it");
            reset.unwrap();
            let rule = gone.unwrap_err().violation();
            assert_eq!(rule, Some(Violation::PastWritePointer { end: start + Blocks(1), write_pointer: start }));
            assert_eq!(again.unwrap(), start);
            assert!(last.unwrap() == blocks(tag + 538, 2), "round {round}");
            device.manage(zone, ZoneOp::Reset).await.unwrap();
        }
    })
    .unwrap();
}

/// A zone that was full is reset and written again, and its end read, all at once: the read wants the new bytes,
/// though the old ones lay there too.
#[test]
fn a_read_behind_a_reset_and_a_long_write_waits_for_both() {
    let directory = Directory::new("long");
    let path = directory.drive();
    create(&path, &Geometry::zns(Blocks(4096), Blocks(4096), 4, 2, 2));
    real::run(|runtime| async move {
        let device = crate::open(&path, &runtime).unwrap();
        device.append(ZoneId(1), vec![blocks(1, 4096)]).await.unwrap();
        let again = vec![blocks(10_000, 4096)];
        let (reset, write, read) = join3(
            device.manage(ZoneId(1), ZoneOp::Reset),
            device.append(ZoneId(1), again),
            device.read(Lba(2 * 4096 - 1), Blocks(1)),
        )
        .await;
        reset.unwrap();
        write.unwrap();
        assert!(read.unwrap() == blocks(14_095, 1));
    })
    .unwrap();
}

#[test]
fn many_reads_and_writes_are_under_way_at_once() {
    let directory = Directory::new("parallel");
    let path = directory.drive();
    create(&path, &Geometry { open_zones_max: None, active_zones_max: None, ..geometry() });
    real::run(|runtime| async move {
        let device = crate::open(&path, &runtime).unwrap();
        let writes = (2..16).flat_map(|zone| (0..4).map(move |part| (zone, part)));
        let device = &device;
        join_all(writes.map(|(zone, part)| async move {
            device.append(ZoneId(zone), vec![blocks(u64::from(zone) * 100 + part * 10, 10)]).await.unwrap();
        }))
        .await;
        let reads = (0..2000_u64).map(|at| async move {
            let (zone, block) = (2 + at % 14, at * 31 % 40);
            let bytes = device.read(Lba(zone * 64 + block), Blocks(1)).await.unwrap();
            assert!(bytes == blocks(zone * 100 + block, 1), "block {block} of zone {zone}");
        });
        join_all(reads).await;
        device.flush().await.unwrap();
    })
    .unwrap();
}

/// Between the moment a reset drops the bytes and the moment its table entry is there, a killed process would leave a
/// zone that claims more than it holds. So the entry comes first.
#[test]
fn the_table_says_empty_before_the_bytes_of_a_reset_zone_go() {
    let directory = Directory::new("reset-order");
    let path = directory.drive();
    create(&path, &geometry());
    real::run(|runtime| async move {
        let device = crate::open(&path, &runtime).unwrap();
        let file = File::open(&path).unwrap();
        for round in 0..20 {
            device.append(ZoneId(2), vec![blocks(7, 60)]).await.unwrap();
            device.flush().await.unwrap();
            let _ = poll_immediate(device.manage(ZoneId(2), ZoneOp::Reset)).await;
            runtime.yield_now().await;
            // The hole is being punched elsewhere; as long as nothing else runs here, no entry can follow it.
            let mut byte = [0];
            let mut entry = [0; 16];
            while let Ok(1) = file.read_at(&mut byte, 8192 + 59 * 4096)
                && byte[0] != 0
            {
                runtime.yield_now().await;
            }
            file.read_exact_at(&mut entry, 4096 + 2 * 16).unwrap();
            assert_eq!(entry[8], ZoneState::Empty.code(), "round {round}");
            device.append(ZoneId(3), vec![blocks(1, 1)]).await.unwrap();
            device.manage(ZoneId(3), ZoneOp::Reset).await.unwrap();
        }
    })
    .unwrap();
}
