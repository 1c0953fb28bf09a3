//! SIM-3 to SIM-6, SIM-9: what is durable, what is left of it, and faults that stay with the medium.

use std::time::Duration;

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_drive_model::{Drive, Profile};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Survival, Trigger};
use shingle_zoned::{DeviceErrorKind, Geometry, MemoryDevice, ZoneOp, ZoneState, ZonedDevice};

fn blocks(fills: &[u8]) -> Vec<Bytes> {
    let mut buffer = AlignedBuf::zeroed(Blocks(fills.len() as u64));
    for (block, &fill) in buffer.chunks_exact_mut(BLOCK_SIZE).zip(fills) {
        block.fill(fill);
    }
    vec![buffer.freeze()]
}

/// The first byte of each block of a zone.
fn fills(image: &MemoryDevice, zone: ZoneId) -> Vec<u8> {
    let info = image.zone(zone);
    (0..info.written.0).map(|block| image.read_now(info.start + Blocks(block), Blocks(1)).unwrap()[0]).collect()
}

fn cached() -> MemoryDevice {
    MemoryDevice::new(Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(64), 8, 0, 8) })
}

fn start(zone: u32) -> Lba {
    cached().geometry().start_of(ZoneId(zone))
}

fn on_nth(kind: CommandKind, number: u64, fault: Fault) -> FaultRule {
    FaultRule { trigger: Trigger::Nth(kind, number), fault }
}

/// SIM-3: the second write is submitted before the flush and completes while that is under way.
#[test]
fn a_flush_covers_what_had_completed_when_it_began() {
    let mut lost = 0;
    for seed in 1..=50 {
        let image = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &cached());
            device.write(start(1), blocks(&[1])).await.unwrap();
            device.set_faults(Faults::new([on_nth(CommandKind::Flush, 0, Fault::Hang)]));
            let (writer, flusher) = (device.clone(), device.clone());
            device.set_latency(Duration::from_millis(5));
            let write = rt.spawn(async move { writer.write(start(2), blocks(&[2])).await });
            while device.counts().writes.0 < 2 {
                rt.sleep(Duration::from_nanos(1)).await;
            }
            device.set_latency(Duration::ZERO);
            let flush = rt.spawn(async move { flusher.flush().await });
            while device.hung() < 1 {
                rt.sleep(Duration::from_nanos(1)).await;
            }
            write.await.unwrap().unwrap();
            device.release_hung();
            flush.await.unwrap().unwrap();
            device.crash_image(seed)
        });
        assert_eq!(fills(&image, ZoneId(1)), [1], "seed {seed}: it had completed");
        lost += u64::from(image.zone(ZoneId(2)).written == Blocks::ZERO);
    }
    assert!(lost > 5, "a write that completed after the flush began was lost {lost} times of 50");
}

/// SIM-4: what was flushed is there; the write pointer is one that was; of the other blocks every subset occurs.
#[test]
fn any_subset_of_what_was_not_flushed_survives() {
    let (mut pointers, mut subsets) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for seed in 1..=400 {
        let image = Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &cached());
            device.write(start(1), blocks(&[1, 1])).await.unwrap();
            device.flush().await.unwrap();
            device.write(start(1) + Blocks(2), blocks(&[2, 2, 2])).await.unwrap();
            device.write(start(1) + Blocks(5), blocks(&[3])).await.unwrap();
            device.crash_image_with(seed, Survival::AnySubset)
        });
        let found = fills(&image, ZoneId(1));
        assert_eq!(found[..2], [1, 1], "seed {seed}: what was flushed is there");
        pointers.insert(found.len());
        if found.len() == 6 {
            subsets.insert([2, 2, 2, 3].iter().zip(&found[2..]).map(|(a, b)| a == b).collect::<Vec<_>>());
        }
    }
    assert_eq!(Vec::from_iter(pointers), [2, 5, 6], "the table says what it said after some command");
    assert_eq!(subsets.len(), 16, "every subset of the four blocks occurs: {subsets:?}");
}

/// SIM-4: a host that writes over a reset zone in place may leave blocks of its former life among the new ones.
#[test]
fn a_former_life_may_show_behind_a_reset_that_was_not_flushed() {
    let (mut mixed, mut undone, mut punched) = (0, 0, 0);
    for seed in 1..=400 {
        let image = Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &cached());
            device.write(start(1), blocks(&[1, 1, 1])).await.unwrap();
            device.flush().await.unwrap();
            device.manage(ZoneId(1), ZoneOp::Reset).await.unwrap();
            device.write(start(1), blocks(&[2, 2])).await.unwrap();
            device.crash_image_with(seed, Survival::AnySubset)
        });
        let found = fills(&image, ZoneId(1));
        mixed += u64::from(found == [1, 2] || found == [2, 1]);
        undone += u64::from(found == [1, 1, 1]);
        punched += u64::from(found == [0, 0, 0]);
    }
    assert!(mixed > 5 && undone > 5 && punched > 5, "mixed {mixed}, undone {undone}, punched {punched}");
}

/// SIM-5: through crash images and new devices, until the block is written again or healed.
#[test]
fn a_block_that_cannot_be_read_stays_so() {
    Sim::new(1).run(|rt| async move {
        let failed = |result: Result<Bytes, shingle_zoned::DeviceError>| {
            matches!(result, Err(error) if matches!(error.kind, DeviceErrorKind::ReadFailed))
        };
        let device = SimDevice::new(&rt, &cached());
        device.write(start(1), blocks(&[1, 2, 3])).await.unwrap();
        device.flush().await.unwrap();
        device.medium().fail_reads(start(1) + Blocks(1), Blocks(1), None);
        device.medium().fail_reads(start(1) + Blocks(2), Blocks(1), Some(2));
        for _ in 0..2 {
            assert!(failed(device.read(start(1) + Blocks(2), Blocks(1)).await), "twice");
        }
        assert_eq!(device.read(start(1) + Blocks(2), Blocks(1)).await.unwrap()[0], 3, "and then no more");
        for survival in [Survival::Prefix, Survival::AnySubset] {
            let again = SimDevice::new(&rt, &device.crash_image_with(7, survival));
            assert!(failed(again.read(start(1), Blocks(3)).await), "{survival:?}: any read of the block");
            assert_eq!(again.read(start(1), Blocks(1)).await.unwrap()[0], 1, "others can be read");
            again.medium().heal();
            assert_eq!(again.read(start(1), Blocks(2)).await.unwrap()[BLOCK_SIZE], 2, "nothing was lost");
        }
        device.manage(ZoneId(1), ZoneOp::Reset).await.unwrap();
        device.write(start(1), blocks(&[4, 5])).await.unwrap();
        assert_eq!(device.read(start(1), Blocks(2)).await.unwrap()[BLOCK_SIZE], 5, "written anew");
    });
}

/// SIM-5.
#[test]
fn rot_and_dead_zones_outlive_a_power_cut() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &cached());
        device.write(start(1), blocks(&[7])).await.unwrap();
        device.medium().rot(start(1), 3);
        device.medium().set_state(ZoneId(2), ZoneState::ReadOnly);
        device.medium().set_state(ZoneId(3), ZoneState::Offline);
        let image = device.crash_image(1);
        assert!(image.read_now(start(1), Blocks(1)).unwrap().iter().any(|&byte| byte != 7));
        assert_eq!(image.zone(ZoneId(2)).state, ZoneState::ReadOnly);
        assert_eq!(image.zone(ZoneId(3)).state, ZoneState::Offline);
    });
}

/// SIM-6: what a killed process wrote is seen by the next, and lost to a power cut unless that one flushes.
#[test]
fn a_kill_loses_nothing_and_makes_nothing_durable() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 1..=60 {
        let (cut, flushed) = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &cached());
            device.write(start(1), blocks(&[1, 2, 3])).await.unwrap();
            let next = SimDevice::resume(&rt, device.kill());
            assert_eq!(next.image().zone(ZoneId(1)).written, Blocks(3));
            let cut = next.crash_image(seed);
            let last = SimDevice::resume(&rt, next.kill());
            last.flush().await.unwrap();
            (cut, last.crash_image(seed))
        });
        lost += u64::from(cut.zone(ZoneId(1)).written < Blocks(3));
        kept += u64::from(cut.zone(ZoneId(1)).written == Blocks(3));
        assert_eq!(fills(&flushed, ZoneId(1)), [1, 2, 3], "seed {seed}: the flush of a later process covers it");
    }
    assert!(lost > 5 && kept > 5, "lost {lost}, kept {kept}");
}

#[test]
fn reports_fail_reads_miss_and_commands_hang() {
    Sim::new(3).run(|rt| async move {
        let device = SimDevice::new(&rt, &cached());
        device.write(start(1), blocks(&[1])).await.unwrap();
        device.write(start(2), blocks(&[2])).await.unwrap();
        device.set_faults(Faults::new([
            on_nth(CommandKind::Report, 0, Fault::ReadError),
            on_nth(CommandKind::Read, 0, Fault::Misdirected),
            on_nth(CommandKind::Read, 1, Fault::BitFlip),
            on_nth(CommandKind::Read, 2, Fault::Hang),
        ]));
        assert!(device.report(ZoneId(0), 8).await.is_err());
        assert_eq!(device.report(ZoneId(0), 8).await.unwrap().len(), 8);
        assert_ne!(device.read(start(1), Blocks(1)).await.unwrap()[0], 1, "another place's bytes");
        let flipped = device.read(start(1), Blocks(1)).await.unwrap();
        assert_eq!(flipped.iter().map(|byte| (byte ^ 1).count_ones()).sum::<u32>(), 1);
        let reader = device.clone();
        let read = rt.spawn(async move { reader.read(start(1), Blocks(1)).await });
        rt.sleep(Duration::from_secs(3600)).await;
        assert_eq!(device.hung(), 1, "an hour later it still hangs");
        device.release_hung();
        assert_eq!(read.await.unwrap().unwrap()[0], 1);
    });
}

#[test]
fn an_image_is_taken_before_each_command_from_the_first_on() {
    Sim::new(3).run(|rt| async move {
        let device = SimDevice::new(&rt, &cached());
        let cuts = device.cut_at_every_command(1, Survival::Prefix);
        device.report(ZoneId(0), 8).await.unwrap();
        device.write(start(1), blocks(&[1])).await.unwrap();
        device.flush().await.unwrap();
        device.flush().await.unwrap();
        let cuts = cuts.take();
        let numbers: Vec<u64> = cuts.iter().map(|(command, _)| command.number).collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        let written = |at: usize| cuts[at].1.zone(ZoneId(1)).written;
        assert_eq!((written(0), written(1), written(3)), (Blocks(0), Blocks(0), Blocks(1)));
    });
}

/// SIM-1 and RT-2: commands, their order and times, faults and what a power cut leaves, all of three tasks on one drive.
#[test]
fn a_seed_gives_the_same_commands_at_the_same_times() {
    let run = |seed: u64| {
        Sim::new(seed).run(|rt| async move {
            let device = SimDevice::new(&rt, &cached());
            let rate = |kind, share, fault| FaultRule { trigger: Trigger::Rate(kind, share), fault };
            device.set_faults(Faults::new([
                rate(CommandKind::Write, 0.2, Fault::WriteError),
                rate(CommandKind::Read, 0.2, Fault::BitFlip),
            ]));
            let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
            let (log, clock) = (seen.clone(), rt.clone());
            device.on_command(move |command, _| log.borrow_mut().push((clock.now().nanos, *command)));
            let tasks: Vec<_> = (0..3)
                .map(|zone| {
                    let (device, pause) = (device.clone(), rt.clone());
                    rt.spawn(async move {
                        for number in 0..20u8 {
                            pause.sleep(Duration::from_nanos(pause.random() % 100_000)).await;
                            let zone = ZoneId(zone);
                            drop(device.append(zone, blocks(&[number, number])).await);
                            drop(device.read(device.geometry().start_of(zone), Blocks(1)).await);
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            let image = device.crash_image(seed);
            let left: Vec<_> = (0..3).map(|zone| fills(&image, ZoneId(zone))).collect();
            (seen.take(), device.faults().injected().to_vec(), left)
        })
    };
    for seed in 1..=5 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
    assert_ne!(run(1), run(2));
}

/// A report is no longer than the zones that there are, whatever number is asked for.
#[test]
fn a_report_takes_the_time_of_the_zones_that_there_are() {
    let took = |count: u32| {
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(16), 1000, 0, 8)));
            device.set_drive(Drive::new(&Profile::named("hsh721414al").unwrap(), 1));
            let began = rt.now();
            assert_eq!(device.report(ZoneId(10), count).await.unwrap().len() as u32, count.min(990));
            rt.now().since(began)
        })
    };
    assert_eq!(took(u32::MAX), took(990));
    assert!(took(10) < took(990));
}

/// SIM-9: the blocks of a failed write are there, and a zone whose reset failed is empty.
#[test]
fn a_command_that_failed_after_its_effect_has_happened() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &cached());
        let failing = [CommandKind::Write, CommandKind::Reset, CommandKind::Manage];
        device.set_faults(Faults::new(failing.map(|kind| on_nth(kind, 0, Fault::FailedAfterEffect))));
        let written = device.write(start(1), blocks(&[1, 2, 3])).await;
        assert!(matches!(written.unwrap_err().kind, DeviceErrorKind::WriteFailed));
        assert_eq!(fills(&device.image(), ZoneId(1)), [1, 2, 3]);
        assert!(device.manage(ZoneId(1), ZoneOp::Finish).await.is_err());
        assert_eq!(device.image().zone(ZoneId(1)).state, ZoneState::Full);
        assert!(device.manage(ZoneId(1), ZoneOp::Reset).await.is_err());
        assert_eq!(device.image().zone(ZoneId(1)).state, ZoneState::Empty);
    });
}

/// SIM-9: a write whose caller waits for it no more happens when it completes, and fails if its zone was written to meanwhile.
#[test]
fn a_command_that_hangs_before_its_effect_happens_later() {
    for overtaken in [false, true] {
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &cached());
            device.set_faults(Faults::new([on_nth(CommandKind::Write, 0, Fault::HangBefore)]));
            let writer = device.clone();
            let late = rt.spawn(async move { writer.write(start(1), blocks(&[1])).await });
            let first = if overtaken { Some(late) } else { None };
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!((device.hung(), device.image().zone(ZoneId(1)).written), (1, Blocks::ZERO));
            if overtaken {
                device.write(start(1), blocks(&[2])).await.unwrap();
            }
            device.release_hung();
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!(fills(&device.image(), ZoneId(1)), [if overtaken { 2 } else { 1 }]);
            if let Some(late) = first {
                assert!(late.await.unwrap().is_err());
            }
        });
    }
}

/// SIM-9: after a lost flush the drive is gone, and a power cut's losses are met by the next process, though this one was only killed.
#[test]
fn a_lost_flush_takes_the_drive_and_what_no_flush_had_covered() {
    let mut lost = 0;
    for seed in 1..=20 {
        let left = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &cached());
            device.write(start(1), blocks(&[1])).await.unwrap();
            device.flush().await.unwrap();
            device.write(start(2), blocks(&[2])).await.unwrap();
            device.set_faults(Faults::new([on_nth(CommandKind::Flush, 0, Fault::FlushLost)]));
            assert!(!device.is_gone());
            device.flush().await.unwrap_err();
            for gone in [device.flush().await, device.write(start(3), blocks(&[3])).await] {
                assert!(matches!(gone.unwrap_err().kind, DeviceErrorKind::Gone));
            }
            assert!(device.is_gone());
            device.kill().image()
        });
        assert_eq!(fills(&left, ZoneId(1)), [1]);
        lost += u32::from(fills(&left, ZoneId(2)) != [2]);
    }
    assert!((1..20).contains(&lost), "{lost} of 20 lost the write");
}

/// SIM-9: of a zone that loses its cache all is readable that a flush had covered, and nothing behind the first block that is not.
#[test]
fn a_zone_that_loses_its_cache_keeps_what_was_flushed() {
    let mut read = std::collections::BTreeSet::new();
    for seed in 1..=40 {
        let image = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &cached());
            device.write(start(1), blocks(&[1, 2])).await.unwrap();
            device.flush().await.unwrap();
            device.write(start(1) + Blocks(2), blocks(&[3])).await.unwrap();
            device.write(start(1) + Blocks(3), blocks(&[4])).await.unwrap();
            device.set_faults(Faults::new([on_nth(CommandKind::Write, 0, Fault::ZoneLosesCache)]));
            let failed = device.write(start(1) + Blocks(4), blocks(&[5])).await;
            assert!(matches!(failed.unwrap_err().kind, DeviceErrorKind::ZoneReadOnly));
            device.crash_image(seed)
        });
        let readable = |block: &u64| image.read_now(start(1) + Blocks(*block), Blocks(1)).is_ok();
        read.insert((0..4).filter(readable).collect::<Vec<_>>());
    }
    assert_eq!(read.into_iter().collect::<Vec<_>>(), [vec![0, 1], vec![0, 1, 2], vec![0, 1, 2, 3]]);
}
