//! Drives that limit active zones.

use shingle_zoned::{ZoneState, ZonedDevice};

use super::*;

const ACTIVE: u32 = 14;

/// The number of active zones of each drive.
async fn active(devices: &[SimDevice]) -> Vec<usize> {
    let mut counts = Vec::new();
    for device in devices {
        let zones = device.report(ZoneId(0), device.geometry().zone_count).await.unwrap();
        let is_active = |state| matches!(state, ZoneState::ImplicitOpen | ZoneState::ExplicitOpen | ZoneState::Closed);
        counts.push(zones.iter().filter(|zone| is_active(zone.state)).count());
    }
    counts
}

/// AS-WRITE-6: writes fail now and then, and each ends a set. Its zones on all drives are finished: at once, or by the next opening.
#[test]
fn sets_that_failed_writes_end_keep_no_zone_active() {
    for at_once in [true, false] {
        let images = Sim::new(1).run(move |rt| async move {
            let geometry = Geometry::zns(Blocks(64), Blocks(60), 40, ACTIVE, ACTIVE);
            let media: Vec<_> = (0..3).map(|_| MemoryDevice::new(geometry.clone())).collect();
            let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
            let options = FormatOptions { segment_length: 20_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
            format(&rt, &named(&devices), &options).await.unwrap();
            let images: Vec<_> = devices.iter().map(SimDevice::image).collect();
            let (devices, store, _) = open(&rt, &images).await;
            store.put("first", bytes(1, 19_000), Bytes::new()).await.unwrap();
            let no_finish = FaultRule { trigger: Trigger::Rate(CommandKind::Manage, 1.0), fault: Fault::CommandError };
            for round in 0..8 {
                let members = store.0.allocator.look(|open| open.members.clone()).concat();
                let member = members[round % 3];
                let number = usize::from(member.drive.0);
                let rule =
                    FaultRule { trigger: Trigger::Zone(CommandKind::Write, member.zone), fault: Fault::WriteError };
                for (at, device) in devices.iter().enumerate() {
                    let rules = [(at == number).then_some(rule), (!at_once).then_some(no_finish)];
                    device.set_faults(Faults::new(rules.into_iter().flatten()));
                }
                store.put(format!("a{round}"), bytes(2, 19_000), Bytes::new()).await.unwrap();
                rt.sleep(Duration::from_secs(3600)).await;
                assert_eq!(store.0.drives.missing(), [], "round {round}: a healthy drive was given up");
            }
            devices.iter().for_each(|device| device.set_faults(Faults::default()));
            let counts = active(&devices).await;
            println!("at once {at_once}: {counts:?} zones are active");
            if at_once {
                assert!(counts.iter().all(|count| *count <= 4), "zones of sets that ended stay active: {counts:?}");
            } else {
                assert!(counts.iter().all(|count| *count >= 8), "the case is not met: {counts:?}");
            }
            crash(&devices)
        });
        Sim::new(2).run(move |rt| async move {
            let (devices, store, report) = open(&rt, &images).await;
            assert_eq!(report.damage, Vec::<String>::new());
            let counts = active(&devices).await;
            assert!(counts.iter().all(|count| *count <= 4), "an opening leaves zones active: {counts:?}");
            for round in 0..8 {
                assert!(store.get(format!("a{round}")).await.unwrap() == bytes(2, 19_000), "a{round}");
            }
            let scrubbed =
                store.scrub(ScrubOptions { read_only: true, ..ScrubOptions::default() }, |_| {}).await.unwrap();
            assert_eq!((scrubbed.damaged, scrubbed.lost), (vec![], vec![]));
        });
    }
}
