//! Arrays with very many sets.

use super::*;
use crate::zone_set::Purpose;

const SETS: usize = 100_000;

/// Sets that a step may look at, however many there are: those that are open, kept ready, or on their way.
const FEW: u64 = 300;

/// AS-LIST-2: a put, a deletion and a step of cleaning look at the sets that they are about, also where 100,000 are
/// full.
#[test]
fn a_step_touches_few_of_many_sets() {
    Sim::new(1).run(|rt| async move {
        let zones = SETS as u32 + 2;
        let media: Vec<_> = (0..3).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(2048), zones, 0, 12))).collect();
        let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(&rt, medium)).collect();
        let options = FormatOptions { segment_length: 1 << 20, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
        format(&rt, &named(&devices), &options).await.unwrap();
        let options = Options { background: false, available_sets: 3, open_sets: Some(1), ..Options::default() };
        let place = IndexPlace::Memory;
        let (store, _) = ArrayStore::open(&rt, &named(&devices), &place, options).await.unwrap();
        let engine = store.0.clone();
        let began = engine.sets.touched();
        assert_eq!((engine.for_groups(3, &DriveSet::EMPTY).len(), engine.better_for(0, 3).len()), (3, 0));
        assert!(engine.sets.touched() - began <= FEW, "the next sets were looked for among {SETS}");
        // All but the first thousand are full, and of each a little more lives than of what is written below.
        for (_, set) in engine.sets.of(List::Empty).skip(1000) {
            set.offer();
            set.offered(true);
            set.open(Purpose::Objects);
            set.add_live(9 << 20);
            set.begin_to_end();
            set.has_ended(1000, false);
        }
        assert!(engine.sets.count(SetState::Closed) > SETS * 9 / 10);
        // Drives know that.
        engine.write_superblock(None).await.unwrap();
        let began = Cell::new(engine.sets.touched());
        let step = |what: &str| {
            let now = engine.sets.touched();
            let touched = now - began.replace(now);
            assert!(touched <= FEW, "{what} touched {touched} sets");
        };
        let closed = engine.sets.count(SetState::Closed);
        let mut number = 0;
        while engine.sets.count(SetState::Closed) == closed {
            number += 1;
            store.put(format!("a{number}"), bytes(1, 1 << 20), Bytes::new()).await.unwrap();
            step("a put");
        }
        for number in 1..=number / 2 + 1 {
            assert!(store.delete(format!("a{number}")).await.unwrap());
            step("a deletion");
        }
        // A superblock is as long as what changed, and not as the table; the first has a base before it.
        engine.write_superblock(None).await.unwrap();
        let blocks = |devices: &[SimDevice]| devices.iter().map(|device| device.counts().writes.1).sum::<u64>();
        let before = blocks(&devices);
        for (_, set) in engine.sets.of(List::Empty).take(10).collect::<Vec<_>>() {
            set.offer();
            set.offered(true);
            engine.write_superblock(None).await.unwrap();
        }
        assert!(blocks(&devices) - before <= 10 * 3 * 3, "{} blocks for ten", blocks(&devices) - before);
        step("ten superblocks");
        // Live bytes of sets change all the time, and only the last superblock has them.
        for (_, set) in engine.sets.of(List::Closed).collect::<Vec<_>>() {
            set.add_live(1);
            set.remove_live(1);
        }
        began.set(engine.sets.touched());
        for _ in 0..3 {
            engine.write_superblock(None).await.unwrap();
            step("a superblock after changes of what lives");
        }
        assert_eq!(store.gc(1).await.unwrap(), 1);
        step("a step of cleaning");
        assert!(engine.counters.cleaned.get() == 1);
        for (_, set) in engine.sets.of(List::Open).collect::<Vec<_>>() {
            assert!(set.live() > 0);
        }
    });
}
