//! Forming sets anew where superblocks cannot be written.

use super::*;
use crate::repair::membership::prepare;
use crate::zone_set::ZoneSet;

/// An array of 2+1 on three drives with many sets available, and a fourth one that has joined, and of whose zones no set was formed.
async fn joined(rt: &Runtime) -> (Vec<SimDevice>, ArrayStore) {
    let (devices, _) = fresh(rt).await;
    let mut devices: Vec<SimDevice> = crash(&devices).iter().map(|image| SimDevice::new(rt, image)).collect();
    let options = Options { background: false, available_sets: 8, ..Options::default() };
    let store = ArrayStore::open(rt, &named(&devices), &IndexPlace::Memory, options).await.unwrap().0;
    store.0.replenish(&DriveSet::EMPTY).await.unwrap();
    let fourth = SimDevice::new(rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(60), 14, 0, 12)));
    let drive = &named(std::slice::from_ref(&fourth))[0];
    let (entry, _) = prepare(drive, 77, || Ok(())).await.unwrap();
    store.0.drives.join(entry, drive.dev.clone(), &store.0.sets.named_drives()).unwrap();
    store.0.write_superblock_everywhere().await.unwrap();
    devices.push(fourth);
    (devices, store)
}

/// Those drives take no superblock.
fn refuse_superblocks(devices: &[SimDevice]) {
    let refuse =
        |zone| FaultRule { trigger: Trigger::Zone(CommandKind::Write, ZoneId(zone)), fault: Fault::CommandError };
    devices.iter().for_each(|device| device.set_faults(Faults::new([refuse(0), refuse(1)])));
}

/// AS-MEMBER-4: sets that were ready are to be taken apart, and one drive alone takes the superblock that says so. It may be found after a
/// power cut: what is stored from then on does not lie in zones that it calls another set's.
#[test]
fn nothing_is_stored_in_a_set_that_some_superblock_took_apart() {
    for refusing in 0..4 {
        let (images, names) = Sim::new(1).run(move |rt| async move {
            let (devices, store) = joined(&rt).await;
            let ready: Vec<Rc<ZoneSet>> = store.0.sets.of(List::Available).map(|(_, set)| set).collect();
            let others: Vec<_> = (0..4).filter(|at| *at != refusing).map(|at| devices[at].clone()).collect();
            refuse_superblocks(&others);
            assert!(store.0.form_anew().await.is_err(), "the case is not met");
            others.iter().for_each(|device| device.set_faults(Faults::default()));
            let mut names = Vec::new();
            // Into several sets that were ready before.
            while ready.iter().filter(|set| matches!(set.state(), SetState::Open | SetState::Closed)).count() < 4 {
                names.push(format!("o{}", names.len()));
                let stored = store.put(names[names.len() - 1].clone(), bytes(names.len() as u8, 19_000), Bytes::new());
                stored.await.unwrap();
                assert!(names.len() < 200, "the case is not met");
            }
            (crash(&devices), names)
        });
        Sim::new(2).run(move |rt| async move {
            let (_, store, report) = open(&rt, &images).await;
            assert_eq!(report.damage, Vec::<String>::new());
            for (number, name) in names.iter().enumerate() {
                let found = store.get(name.clone()).await;
                let found = found.unwrap_or_else(|error| panic!("drive {refusing} took it: {name}: {error}"));
                assert!(found == bytes(number as u8 + 1, 19_000), "{name}");
            }
        });
    }
}
