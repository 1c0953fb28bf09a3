//! Flushes shared by writers of one drive, in simulation.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_base::{AlignedBuf, Blocks, ZoneId};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Survival, Trigger, seeds};
use shingle_zone_kit::Flusher;
use shingle_zoned::{DeviceErrorKind, DeviceResult, Geometry, MemoryDevice, ZonedDevice};

const ZONES: u32 = 8;

fn medium(volatile_cache: bool) -> MemoryDevice {
    let geometry = Geometry { volatile_cache, ..Geometry::hm_smr(Blocks(64), ZONES, 0, ZONES) };
    MemoryDevice::new(geometry)
}

fn block(fill: u8) -> Vec<Bytes> {
    let mut block = AlignedBuf::zeroed(Blocks(1));
    block.fill(fill);
    vec![block.freeze()]
}

/// ZK-FLUSH-1: a write that was answered survives a power cut at any later command, though flushes are shared.
#[test]
fn an_answered_write_survives_every_power_cut() {
    for seed in seeds(20) {
        let (cuts, answered) = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium(true));
            let flusher = Flusher::new(Rc::new(device.clone()));
            // Blocks of each zone that were answered, whenever a command begins.
            let written = Rc::new(RefCell::new([0u64; ZONES as usize]));
            let moments = Rc::new(RefCell::new(Vec::new()));
            let (seen, taken) = (written.clone(), moments.clone());
            device.on_command(move |command, device| {
                let image = device.crash_image_with(seed ^ command.number, Survival::AnySubset);
                taken.borrow_mut().push((image, *seen.borrow()));
            });
            let writers = (0..ZONES).map(|zone| {
                let (rt, flusher, written) = (rt.clone(), flusher.clone(), written.clone());
                let start = device.geometry().start_of(ZoneId(zone));
                let pause = rt.clone();
                rt.spawn(async move {
                    for number in 0..6 {
                        pause.sleep(std::time::Duration::from_micros(pause.random() % 200)).await;
                        flusher.write(start + Blocks(number), block(1 + number as u8)).await.unwrap();
                        written.borrow_mut()[zone as usize] = number + 1;
                    }
                })
            });
            for writer in writers.collect::<Vec<_>>() {
                writer.await.unwrap();
            }
            let counts = device.counts();
            assert!(counts.flushes < counts.writes.0, "{} flushes for {} writes", counts.flushes, counts.writes.0);
            (moments.take(), written.take())
        });
        assert_eq!(answered, [6; ZONES as usize], "seed {seed}");
        for (command, (image, answered)) in cuts.iter().enumerate() {
            for zone in 0..ZONES {
                for number in 0..answered[zone as usize] {
                    let at = image.geometry().start_of(ZoneId(zone)) + Blocks(number);
                    let found = image.read_now(at, Blocks(1));
                    let held = found.is_ok_and(|bytes| bytes[0] == 1 + number as u8);
                    assert!(held, "seed {seed}, command {command}: zone {zone} lost block {number}");
                }
            }
        }
    }
}

/// ZK-JOIN-2, at a drive: callers that come while a flush is under way share one.
#[test]
fn many_callers_take_two_flushes() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &medium(true));
        let flusher = Flusher::new(Rc::new(device.clone()));
        let begun = Cell::new(false);
        let first = async {
            begun.set(true);
            flusher.flush().await
        };
        let others = (0..20).map(|_| {
            let (rt, flusher) = (rt.clone(), flusher.clone());
            async move {
                rt.yield_now().await;
                flusher.flush().await
            }
        });
        let (first, others) = futures_util::future::join(first, join_all(others)).await;
        assert!(begun.get() && first.is_ok() && others.iter().all(Result::is_ok));
        assert_eq!(device.counts().flushes, 2);
    });
}

/// ZK-FLUSH-2.
#[test]
fn everybody_who_shares_a_failed_flush_hears_of_it() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &medium(true));
        let rule = FaultRule { trigger: Trigger::Nth(CommandKind::Flush, 1), fault: Fault::CommandError };
        device.set_faults(Faults::new([rule]));
        let flusher = Flusher::new(Rc::new(device.clone()));
        // The first is alone, and the others share the second.
        let mut results = join_all((0..6).map(|_| flusher.flush())).await.into_iter();
        assert!(results.next().is_some_and(|first| first.is_ok()));
        let failed = |result: DeviceResult<()>| result.is_err_and(|error| matches!(error.kind, DeviceErrorKind::Gone));
        assert!(results.all(failed));
        assert_eq!(device.counts().flushes, 2);
        // The drive went with it (ZD-DEV-4).
        assert!(failed(flusher.flush().await));
        assert_eq!(device.counts().flushes, 3);
    });
}

#[test]
fn a_drive_without_a_volatile_cache_is_not_asked() {
    Sim::new(1).run(|rt| async move {
        let device = SimDevice::new(&rt, &medium(false));
        let flusher = Flusher::new(Rc::new(device.clone()));
        flusher.write(device.geometry().start_of(ZoneId(0)), block(1)).await.unwrap();
        assert_eq!((device.counts().writes.0, device.counts().flushes), (1, 0));
    });
}
