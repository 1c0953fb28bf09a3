//! CS-ROOM-3: appends that find no zone while the log is full are refused, whatever space there would be else.

use super::*;

/// Commands that hang while the log is filled, so that the space which they would win is not won before.
fn hang(kind: CommandKind) -> Faults {
    let hangs = FaultRule { trigger: Trigger::Rate(kind, 1.0), fault: Fault::Hang };
    Faults::new([hangs]).sparing((0..=6).map(ZoneId))
}

/// Fills the data zones. Returns how many chunks there are; one more is there, and empty.
async fn fill_zones(store: &ChunkStore) -> u64 {
    for chunk in 1.. {
        store.create(id(chunk), Stream::Data).await.unwrap();
        if let Err(error) = append(store, chunk, 0, 80_000).await {
            assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
            return chunk - 1;
        }
    }
    unreachable!("the drive never fills");
}

/// Appends and a close end, though they find no zone.
async fn nobody_waits(rt: &Runtime, store: &ChunkStore, chunk: u64) {
    for round in 0..3 {
        let appended = ends(rt, "append", append(store, chunk, 0, 80_000)).await;
        assert_eq!(appended.unwrap_err().kind, ErrorKind::Device, "round {round}: CS-ROOM-3");
        rt.sleep(Duration::from_secs(10)).await;
    }
    assert!(store.read(id(14), 0, 80_000).await.unwrap() == content(14, 0, 80_000));
    let waiting = append(store, chunk, 0, 80_000);
    let (closed, waited) = join(ends(rt, "close", store.close()), waiting).await;
    drop(closed);
    assert!(waited.is_err());
}

fn count(store: &ChunkStore, status: ZoneStatus) -> usize {
    store.zones().iter().filter(|zone| zone.status == status).count()
}

/// Zones are garbage and none can be reset.
#[test]
fn appends_do_not_wait_for_garbage_that_a_full_log_keeps() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        let chunks = fill_zones(&store).await;
        // Readers keep the zones until the log is full.
        device.set_faults(hang(CommandKind::Read));
        for chunk in 1..=12 {
            let store = store.clone();
            rt.spawn_detached(async move { drop(store.read(id(chunk), 0, 80_000).await) });
        }
        rt.sleep(Duration::from_secs(1)).await;
        join_all((1..=12).map(|chunk| store.delete(id(chunk)))).await.into_iter().for_each(|deleted| deleted.unwrap());
        fill_log(&rt, &device, &store).await;
        device.set_faults(Faults::default());
        device.release_hung();
        rt.sleep(Duration::from_secs(1)).await;
        let (free, garbage) = (count(&store, ZoneStatus::Free), count(&store, ZoneStatus::Garbage));
        assert!(free <= 1 && garbage > 0, "the case is not met: {free} free, {garbage} garbage");
        nobody_waits(&rt, &store, chunks + 1).await;
    });
}

/// No zone is garbage, and GC can open none to move to.
#[test]
fn appends_do_not_wait_for_gc_that_a_full_log_stops() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, Options { background: true, ..quiet() }).await;
        let chunks = fill_zones(&store).await;
        device.set_faults(hang(CommandKind::Read));
        let deleted = join_all((1..=chunks).step_by(2).map(|chunk| store.delete(id(chunk)))).await;
        deleted.into_iter().for_each(|deleted| deleted.unwrap());
        fill_log(&rt, &device, &store).await;
        device.set_faults(Faults::default());
        device.release_hung();
        rt.sleep(Duration::from_secs(1)).await;
        let (free, garbage) = (count(&store, ZoneStatus::Free), count(&store, ZoneStatus::Garbage));
        assert!(free <= 1 && garbage == 0, "the case is not met: {free} free, {garbage} garbage");
        nobody_waits(&rt, &store, chunks + 1).await;
    });
}
