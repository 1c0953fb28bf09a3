//! AS-STUCK-1: a set that could not be emptied is tried again, and not for ever at once.

use std::time::Duration;

use bytes::Bytes;
use shingle_array_store::{ArrayStore, Options};
use shingle_base::ZoneId;
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, seeds};

use crate::common::content;
use crate::slow::{OBJECTS, filled_with, name, object, read};

/// An array of 4+2 with several sets that ended, in each of which most is dead.
async fn worn(rt: &Runtime) -> (Vec<SimDevice>, ArrayStore) {
    let (devices, store) = filled_with(rt, 0, Options { background: false, ..Options::default() }).await;
    for number in OBJECTS..5 * OBJECTS {
        store.put(name(number), content(object(number)), Bytes::new()).await.unwrap();
    }
    for number in (0..5 * OBJECTS).filter(|number| number % 5 != 0) {
        store.delete(name(number)).await.unwrap();
    }
    (devices, store)
}

/// Reads of data zones fail on so many drives.
fn unreadable(devices: &[SimDevice]) {
    let rule = |zone| FaultRule { trigger: Trigger::Zone(CommandKind::Read, ZoneId(zone)), fault: Fault::ReadError };
    devices.iter().for_each(|device| device.set_faults(Faults::new((2..14).map(rule))));
}

#[test]
fn sets_that_could_not_be_emptied_are_tried_again_after_a_while() {
    for seed in seeds(4) {
        Sim::new(seed).run(move |rt| async move {
            let (devices, store) = worn(&rt).await;
            // More than parity makes up for.
            unreadable(&devices[..3]);
            assert_eq!(store.gc(1).await.unwrap(), 0, "seed {seed}: emptied what cannot be read");
            devices.iter().for_each(|device| device.set_faults(Faults::default()));
            let reads = |devices: &[SimDevice]| devices.iter().map(|device| device.counts().reads.0).sum::<u64>();
            let before = reads(&devices);
            assert_eq!(store.gc(1).await.unwrap(), 0, "seed {seed}");
            assert_eq!(reads(&devices), before, "seed {seed}: tried again at once");
            rt.sleep(Duration::from_secs(601)).await;
            assert!(store.gc(1).await.unwrap() > 0, "seed {seed}: stuck until a restart");
            for number in (0..5 * OBJECTS).step_by(5) {
                read(&rt, &store, number, u64::MAX).await;
            }
        });
    }
}
