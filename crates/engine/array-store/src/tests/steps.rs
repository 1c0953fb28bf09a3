//! Sets of very many parts: no step of the engine, nor what it keeps in memory, grows with their number.

use std::cell::RefCell;

use super::*;
use crate::format::{Digest, DigestItem, ItemBody, Marker};
use crate::index::{Change, PartKey};
use crate::segment::Shape;
use crate::types::{Part, PartPlace};

/// A digest of so many objects of that size, of which every second one lives.
fn digest(engine: &Engine, id: SetId, parts: usize, length: u32) -> Digest {
    let mut items = Vec::new();
    for (number, chunk) in (0..parts).collect::<Vec<_>>().chunks(50).enumerate() {
        let (stamp, block) = (number as u64 + 1, 1 + number as u32);
        let part = |at: usize| Part {
            name: format!("p{}", chunk[at]).into(),
            version: Version(7),
            offset: 0,
            at: at as u32 * length,
            length,
            completion: Some(Completion { size: u64::from(length), attributes: Bytes::new() }),
        };
        let parts: Vec<Part> = (0..chunk.len()).map(part).collect();
        let segment_length = length * chunk.len() as u32;
        let lives = parts.iter().step_by(2).map(|part| Change::Put {
            key: PartKey { name: part.name.clone(), version: part.version, offset: 0 },
            place: PartPlace { set: id, block, stamp, segment_length, at: part.at, length, last: true },
            completion: part.completion.clone(),
        });
        engine.index().unwrap().apply(&lives.collect::<Vec<_>>()).unwrap();
        let marker = Marker { stamp, shape: Shape::new(engine.code, segment_length), parts };
        items.push(DigestItem { block, body: ItemBody::Segment(marker) });
    }
    Digest::of(items)
}

/// AS-CLEAN-10
#[test]
fn parts_of_a_set_are_looked_up_in_steps() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store) = fresh(&rt).await;
        let engine = store.0.clone();
        let (id, _) = engine.sets.all().next().unwrap();
        for (parts, length) in [(100, 300), (20_000, 300), (20_000, 0)] {
            let digest = digest(&engine, id, parts, length);
            let turns = Rc::new(Cell::new(0));
            let others = {
                let (rt, turns) = (rt.clone(), turns.clone());
                async move {
                    loop {
                        turns.set(turns.get() + 1_usize);
                        rt.yield_now().await;
                    }
                }
            };
            let counted = select(Box::pin(engine.blocks_to_move(id, &digest, 0)), Box::pin(others)).await;
            let Either::Left((counted, _)) = counted;
            let exact = counted.unwrap().without_tombstones;
            assert!(turns.get() >= parts / 1024, "{parts}: others had {} turns", turns.get());
            let about = engine.blocks_to_move_about(id, &digest).unwrap();
            let off = f64::from(about) / f64::from(exact);
            assert!((0.8..1.25).contains(&off), "{parts} parts of {length}: {exact} blocks, taken for {about}");
        }
    });
}

/// The digest of a set is large: drives have it in turns, and each has it.
#[test]
fn a_large_digest_is_framed_for_few_drives_at_once() {
    let images = Sim::new(1).run(|rt| async move {
        let (devices, store) = fresh(&rt).await;
        let name = |number: usize| format!("n{number:0>899}");
        devices.iter().for_each(|device| device.set_latency(Duration::from_millis(5)));
        let times = Rc::new(RefCell::new(Vec::new()));
        for device in &devices {
            let (rt, times) = (rt.clone(), times.clone());
            device.on_command(move |command, _| {
                if command.kind == CommandKind::Write && command.blocks.0 > 10 {
                    times.borrow_mut().push(rt.now());
                }
            });
        }
        let puts = (0..120).map(|number| store.put(name(number), bytes(1, 10), Bytes::new()));
        assert!(join_all(puts).await.into_iter().all(|put| put.is_ok()));
        for number in 0..12 {
            store.put(format!("f{number}"), bytes(2, 19_000), Bytes::new()).await.unwrap();
        }
        rt.sleep(Duration::from_secs(1)).await;
        let mut times = times.take();
        let all = times.len();
        times.dedup();
        assert!(all >= 6 && times.len() == all, "of {all} digests {} were written one by one", times.len());
        assert!(store.0.sets.of(List::Closed).all(|(_, set)| !set.is_hurt()));
        (crash(&devices), store.0.sets.listed(List::Closed))
    });
    let (images, sets) = images;
    Sim::new(2).run(move |rt| async move {
        let (_, store, report) = open(&rt, &images).await;
        assert!(report.damage.is_empty() && report.digests >= sets, "{report:?}");
        assert!(store.get(format!("n{:0>899}", 7)).await.unwrap() == bytes(1, 10));
    });
}
