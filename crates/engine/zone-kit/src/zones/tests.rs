//! The table by itself, and against a plain model of zones.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use shingle_base::ZoneId;

use super::*;

type Table = ZoneTable<u8>;

/// A table of zones 5 to 8, all free.
fn table() -> Table {
    let mut table = Table::new(&(5..9));
    (5..9).for_each(|zone| table.add_free(ZoneId(zone), false));
    table
}

/// ZK-ZONE-1.
#[test]
fn the_longest_free_zone_comes_first() {
    let mut table = Table::new(&(5..9));
    [7, 5, 8].into_iter().for_each(|zone| table.add_free(ZoneId(zone), false));
    assert_eq!(table.take_free(), Some(ZoneId(7)));
    table.add_free(ZoneId(7), true);
    assert!(table.feed(ZoneId(8)) && !table.feed(ZoneId(6)));
    let taken = table.take_free().unwrap();
    assert_eq!((table.free(), taken), (2, ZoneId(8)));
    table.give_back(taken);
    let order: Vec<_> = std::iter::from_fn(|| table.take_free()).map(|zone| zone.0).collect();
    assert_eq!(order, [8, 5, 7]);
    assert!(table.get(ZoneId(4)).is_none() && table.get(ZoneId(9)).is_none());
    assert!(table.get(ZoneId(7)).unwrap().dirty);
}

/// ZK-ZONE-4: others come first, then it waits longer and longer, and at last it is given up; one that is broken is so at once.
#[test]
fn a_zone_that_is_not_reset_for_now_stays_free() {
    let mut table = table();
    let zone = table.take_free().unwrap();
    assert_eq!(table.not_reset(zone, Reset::NotNow), Duration::ZERO);
    let order: Vec<_> = std::iter::from_fn(|| table.take_free()).map(|zone| zone.0).collect();
    assert_eq!(order, [6, 7, 8, 5]);
    let mut waited = Duration::ZERO;
    for _ in 2..8 {
        waited += table.not_reset(zone, Reset::NotNow);
        assert_eq!((table.take_free(), table.get(zone).unwrap().dirty), (Some(zone), true));
    }
    assert!(waited > Duration::from_secs(10), "{waited:?}");
    table.not_reset(zone, Reset::NotNow);
    table.not_reset(ZoneId(6), Reset::Broken);
    assert!(table.take_free().is_none());
    for zone in [zone, ZoneId(6)] {
        assert_eq!((table.get(zone).unwrap().status, table.get(zone).unwrap().broken), (Status::Dead, true));
    }
}

/// ZK-ZONE-2: each reason by itself keeps a zone from being vacated, and its end wakes the keeper where nobody else does.
#[test]
fn a_zone_is_vacated_once_nothing_keeps_it() {
    let mut table = table();
    let zone = table.take_free().unwrap();
    table.open(zone, 3, 10);
    table.add_live(zone, 2);
    table.advance(zone, 7, true);
    assert_eq!((table.vacate(zone, 10), table.open_zones().len()), (None, 1), "it is open");
    table.close(zone);
    assert_eq!((table.vacate(zone, 10), table.open_zones().len()), (None, 0), "something lives in it");
    assert!(!table.take_emptied());
    let pins = [table.pin(zone), table.pin(zone)];
    table.hold(zone);
    table.take_live(zone, 2);
    assert!(table.take_emptied() && !table.has_emptied());
    assert_eq!(table.vacate(zone, 10), None, "it is pinned and held");
    table.settle(zone);
    assert_eq!((table.vacate(zone, 10), table.pins(zone)), (None, 2), "it is pinned");
    table.take_emptied();
    let keeper = table.keeper();
    let [first, last] = pins;
    drop(first);
    assert!(keeper.notified().now_or_never().is_none() && !table.has_emptied());
    drop(last);
    assert!(keeper.notified().now_or_never().is_some() && table.has_emptied());
    assert_eq!(table.vacant(|_| true), [(zone, 10)]);
    assert_eq!(table.vacant(|zone| zone.own == 1), []);
    table.hold(zone);
    assert_eq!(table.vacate(zone, 10), None, "it is held again");
    table.settle(zone);
    assert_eq!(table.vacate(zone, 9), None, "another generation");
    assert_eq!(table.vacate(zone, 10), Some(Vacated::Reset));
    assert_eq!((table.vacate(zone, 10), table.free()), (None, 3), "it is reset first");
    table.add_free(zone, false);
    assert_eq!((table.free(), table.live()), (4, 0));
}

/// A pin of a zone that nobody wants to reset wakes nobody.
#[test]
fn readers_of_a_zone_in_use_wake_nobody() {
    let mut table = table();
    let zone = table.take_free().unwrap();
    table.open(zone, 0, 1);
    let pin = table.pin(zone);
    table.close(zone);
    table.add_live(zone, 1);
    table.take_emptied();
    drop(pin);
    drop(table.pin(ZoneId(99)));
    assert!(table.keeper().notified().now_or_never().is_none() && !table.has_emptied());
}

#[test]
fn a_broken_zone_dies_when_it_is_vacated() {
    let mut table = table();
    let zone = table.take_free().unwrap();
    table.open(zone, 0, 1);
    assert_eq!((table.note_failure(zone, false, true), table.note_failure(zone, false, false)), (1, 1));
    table.advance(zone, 1, false);
    assert_eq!(table.note_failure(zone, true, true), 1, "one since the last that succeeded");
    table.close(zone);
    assert_eq!((table.broken_in_use(), table.broken(), table.vacate(zone, 1)), (1, 1, Some(Vacated::Dead)));
    assert_eq!((table.get(zone).unwrap().status, table.broken(), table.free()), (Status::Dead, 1, 3));
    assert_eq!(table.broken_in_use(), 0);
    table.bury(zone);
    assert_eq!(table.broken(), 1, "it is counted once");
}

/// ZK-ZONE-3.
#[test]
fn a_late_flush_marks_no_younger_generation() {
    let mut table = table();
    let zone = table.take_free().unwrap();
    table.open(zone, 0, 1);
    table.advance(zone, 4, false);
    let written = table.written();
    table.advance(zone, 6, false);
    table.mark_durable(&written);
    assert_eq!((table.get(zone).unwrap().durable, table.get(zone).unwrap().next), (4, 6));
    table.close(zone);
    table.vacate(zone, 1).unwrap();
    table.open(zone, 0, 2);
    table.mark_durable(&written);
    table.mark_durable_before(zone, 1, 6);
    assert_eq!(table.get(zone).unwrap().durable, 0);
    table.mark_durable_before(zone, 2, 3);
    assert_eq!(table.get(zone).unwrap().durable, 3);
}

/// ZK-ZONE-5.
#[test]
fn a_flush_makes_nothing_durable_in_a_zone_that_failed_or_may_have() {
    let mut table = table();
    let zone = table.take_free().unwrap();
    table.open(zone, 0, 1);
    table.advance(zone, 4, false);
    table.mark_durable(&table.written());
    table.note_failure(zone, true, true);
    assert!(!table.get(zone).unwrap().is_in_doubt());
    let other = table.take_free().unwrap();
    table.open(other, 0, 2);
    table.advance(other, 4, false);
    let written = table.written();
    table.note_failure(other, true, true);
    table.mark_durable(&written);
    assert!(table.get(other).unwrap().is_in_doubt());
    let third = table.take_free().unwrap();
    table.open(third, 0, 3);
    table.advance(third, 4, false);
    table.note_untold(third, 3);
    table.mark_durable(&table.written());
    assert!(table.get(third).unwrap().is_in_doubt() && !table.get(third).unwrap().broken);
    table.open(third, 0, 4);
    table.note_untold(third, 3);
    assert!(!table.get(third).unwrap().untold, "ZK-ZONE-3");
}

#[test]
fn cleaners_choose_among_closed_zones_that_can_be_emptied() {
    let mut table = table();
    for epoch in 1..=4 {
        let zone = table.take_free().unwrap();
        table.open(zone, 0, epoch);
        table.add_live(zone, epoch % 4);
        if epoch > 1 {
            table.close(zone);
        }
    }
    assert_eq!(table.candidates().map(|(zone, _)| zone.0).collect::<Vec<_>>(), [6, 7]);
    table.note_stuck(ZoneId(6));
    assert_eq!(table.candidates().map(|(zone, _)| zone.0).collect::<Vec<_>>(), [7]);
    assert_eq!((table.unstick(), table.unstick()), (vec![ZoneId(6)], vec![]));
    assert_eq!(table.candidates().map(|(zone, _)| zone.0).collect::<Vec<_>>(), [6, 7]);
    *table.own_mut(ZoneId(7)).unwrap() = 9;
    assert_eq!(table.all_own_mut().map(|own| *own).max(), Some(9));
}

/// Counts, lists and sums of random steps are those of a model.
#[test]
fn random_steps_keep_the_counts() {
    for seed in 1..=200_u64 {
        let mut table = table();
        let mut live = BTreeMap::<ZoneId, u64>::new();
        let mut word = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for step in 1..400_u64 {
            word ^= word << 13;
            word ^= word >> 7;
            word ^= word << 17;
            let (zone, count) = (ZoneId(5 + (word >> 8) as u32 % 4), word >> 40 & 7);
            let used = table.get(zone).unwrap().is_used();
            match word % 5 {
                0 => {
                    if let Some(zone) = table.take_free() {
                        table.open(zone, 0, step);
                        live.insert(zone, 0);
                    }
                }
                1 if used => {
                    table.add_live(zone, count);
                    *live.get_mut(&zone).unwrap() += count;
                }
                2 if used => {
                    let count = count.min(live[&zone]);
                    table.take_live(zone, count);
                    *live.get_mut(&zone).unwrap() -= count;
                }
                3 if used => table.close(zone),
                _ => {
                    for (zone, epoch) in table.vacant(|_| true) {
                        assert_eq!(table.vacate(zone, epoch), Some(Vacated::Reset), "seed {seed}");
                        assert_eq!(live.remove(&zone), Some(0), "seed {seed}");
                        table.add_free(zone, false);
                    }
                }
            }
            let open = table.iter().filter(|(_, zone)| zone.status == Status::Open).map(|(id, _)| id);
            assert!(open.eq(table.open_zones()), "seed {seed}");
            let counted: Vec<u64> = (5..9).map(|zone| live.get(&ZoneId(zone)).copied().unwrap_or(0)).collect();
            assert_eq!(table.iter().map(|(_, zone)| zone.live).collect::<Vec<_>>(), counted, "seed {seed}");
            assert_eq!((table.live(), table.free() as usize + live.len()), (counted.iter().sum(), 4), "seed {seed}");
        }
    }
}
