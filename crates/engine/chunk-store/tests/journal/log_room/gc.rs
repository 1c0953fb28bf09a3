//! GC and a log that is full, or an index that has no room.

use super::*;

/// CS-ROOM-1: records at equal distances take little room in the index. Records between them die, so that GC, which keeps
/// their order, would leave them at many distances.
#[test]
fn gc_leaves_the_index_as_much_room_as_there_was() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 440, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let placement = Placement { allocation: Allocation::OneZone, ..Placement::default() };
        let (store, _) = open(&rt, &device, Options { placement, ..quiet() }).await;
        // Records a b a c a b a c ...; then all b are deleted.
        let mut kinds = [10_000, 20_000, 30_000].map(|next| Kind { next, at: 0, full: Vec::new() });
        for _ in 0..330 * 63 / 4 {
            for kind in [0, 1, 0, 2] {
                kinds[kind].append(&store).await;
            }
            for (chunk, _) in std::mem::take(&mut kinds[1].full) {
                store.delete(id(chunk)).await.unwrap();
            }
        }
        for kind in &mut kinds {
            kind.end(&store).await;
        }
        store.delete(id(kinds[1].full[0].0)).await.unwrap();
        let emptied = store.gc(1000, |_| {}).await.unwrap();
        assert!(emptied.zones > 200 && emptied.damaged == 0, "{emptied:?}");
        for number in 0..100 {
            store.create(id(number), Stream::Data).await.unwrap_or_else(|error| panic!("CS-ROOM-1: {error}"));
        }
        store.checkpoint().await.unwrap();
        // Chunks take the rest of the room; GC still wins zones, and checkpoints have room.
        let mut last = 100;
        while store.create(id(last), Stream::Data).await.is_ok() {
            last += 1;
        }
        for (chunk, _) in kinds[2].full.drain(..).step_by(2) {
            store.delete(id(chunk)).await.unwrap();
        }
        while store.create(id(last), Stream::Data).await.is_ok() {
            last += 1;
        }
        let zones = store.gc(1000, |_| {}).await.unwrap().zones;
        assert!(zones > 20, "{zones}");
        store.checkpoint().await.unwrap();
        for round in 0..50 {
            store.delete(id(round)).await.unwrap();
            store.checkpoint().await.unwrap();
        }
        for &(chunk, size) in &kinds[0].full {
            let expected: Vec<u8> = (0..size).step_by(10).flat_map(|at| content(chunk, at, 10)).collect();
            assert!(store.read(id(chunk), 0, size).await.unwrap() == expected, "chunk {chunk}");
        }
    });
}

/// CS-ROOM-4: unreadable records stay behind, and would split their chunk into many groups. If the index has no room for
/// these the chunk stays as it is.
#[test]
fn gc_does_not_split_a_chunk_into_parts_that_the_index_has_no_room_for() {
    for crowded in [false, true] {
        let medium = formatted(Geometry::hm_smr(Blocks(64), 100, 0, 16));
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let placement = Placement { allocation: Allocation::OneZone, ..Placement::default() };
            let (store, _) = open(&rt, &device, Options { placement, ..quiet() }).await;
            let mut kinds = [10_000, 20_000].map(|next| Kind { next, at: 0, full: Vec::new() });
            for number in 0..400 {
                kinds[number % 2].append(&store).await;
            }
            kinds[1].end(&store).await;
            for chunk in kinds[1].full.iter() {
                store.delete(id(chunk.0)).await.unwrap();
            }
            if crowded {
                let created = join_all((0..1400).map(|number| store.create(id(number), Stream::Data))).await;
                assert!(created.iter().all(Result::is_ok));
            }
            for zone in store.zones().into_iter().filter(|zone| zone.live_blocks > 20) {
                let start = device.geometry().start_of(zone.zone);
                for block in (5..60).step_by(8) {
                    device.medium().fail_reads(start + Blocks(block), Blocks(2), None);
                }
            }
            let before = store.index_memory();
            store.gc(1, |_| {}).await.unwrap();
            let after = store.index_memory();
            let split = after.runs() - before.runs();
            assert_eq!(split > 10, !crowded, "{split} runs more");
            device.medium().heal();
            assert_eq!(store.read(id(10_000), 0, 300).await.unwrap().len(), 300);
        });
    }
}
