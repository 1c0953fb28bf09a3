//! RC-LOG-8: the file system that holds an emulated drive is full for a while.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::{Asked, config, holds, medium, open, work};
use shingle_record::{MetaLog, MetaLogError, SequenceSource};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{DeviceErrorKind, ZonedDevice};

/// From write `first` on every write fails for want of room, the first of them in the middle if `inside`; for two seconds.
/// Returns whether that write came.
fn full_from(seed: u64, first: u64, inside: bool) -> bool {
    let mut random = Random::new(seed);
    let medium = medium(&mut random);
    Sim::new(seed).run(move |rt| async move {
        let context = format!("seed {seed}, write {first}, inside {inside}");
        let device = SimDevice::new(&rt, &medium);
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        let log = MetaLog::format(&rt, &shared, config(), SequenceSource::default()).await.unwrap();
        let fault = |at, fault| FaultRule { trigger: Trigger::Nth(CommandKind::Write, at), fault };
        let begin = fault(first, if inside { Fault::HostFullInside } else { Fault::HostFull });
        device
            .set_faults(Faults::new(std::iter::once(begin).chain((1..5).map(|at| fault(first + at, Fault::HostFull)))));
        let asked = Rc::new(RefCell::new(Asked::default()));
        let working = rt.spawn(work(rt.clone(), log.clone(), asked.clone(), random, 40));
        rt.sleep(Duration::from_millis(600)).await;
        let hit = !device.faults().injected().is_empty();
        assert_eq!(log.is_stalled(), hit, "{context}");
        let cut = (device.crash_image(seed), asked.borrow().clone());
        working.await.unwrap().unwrap();
        assert!(!log.is_stalled(), "{context}");
        let done = (device.crash_image(seed), asked.borrow().clone());
        let entries = done.1.entries.len() as u64;
        assert_eq!(done.1.acked, entries, "{context}: the log did not go on");
        for (image, asked) in [cut, done] {
            let reopened = SimDevice::new(&rt, &image);
            let (_, recovered) = open(&rt, &reopened).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            holds(&recovered, &asked, &context);
        }
        hit
    })
}

#[test]
fn a_log_waits_for_room_on_a_full_host() {
    for seed in seeds(12) {
        for inside in [false, true] {
            let writes = (0..).take_while(|&first| full_from(seed, first, inside)).count();
            assert!(writes > 40, "seed {seed}: only {writes} writes");
        }
    }
}

#[test]
fn formatting_on_a_full_host_says_so_and_does_not_wait() {
    let medium = medium(&mut Random::new(1));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let full = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::HostFull };
        device.set_faults(Faults::new([full]));
        let shared: Rc<dyn ZonedDevice> = Rc::new(device.clone());
        let format = MetaLog::format(&rt, &shared, config(), SequenceSource::default()).await;
        let Err(MetaLogError::Device(error)) = format.map(drop) else { panic!("formatted a drive without room") };
        assert!(matches!(&error.kind, DeviceErrorKind::System(_)), "{error}");
        rt.sleep(Duration::from_secs(2)).await;
        let writes = device.counts().writes;
        rt.sleep(Duration::from_secs(5)).await;
        assert_eq!(device.counts().writes, writes, "it tries on");
    });
}
