//! Chunks put together from checkpoint, journal and scan, whole and with losses.

use std::collections::BTreeMap;

use shingle_base::{ChunkId, ZoneId};

use crate::format::{ChunkEntry, JournalEntry};
use crate::index::ChunkTable;
use crate::index::{Located, Run};
use crate::recovery::chunks::{Chunks, Found, Loading, Trust};
use crate::types::Stream;

fn located(zone: u32, block: u32, offset: u32, length: u32) -> Located {
    Located { zone: ZoneId(zone), block, offset, length }
}

fn id() -> ChunkId {
    ChunkId::from_u64(1)
}

fn zones(table: &ChunkTable) -> Vec<(u32, u32)> {
    let chunk = table.get(table.find(id()).unwrap()).unwrap();
    chunk.groups.iter().map(|group| (group.zone.0, group.end)).collect()
}

/// CS-REC-1.
#[test]
fn records_of_an_earlier_chunk_of_the_same_id_do_not_count() {
    let mut loading = Loading::default();
    loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 10);
    loading.found(
        id(),
        Found {
            record: located(1, 1, 0, 10),
            sequence: 11,
            landed: false,
            trust: Trust::Sure,
            bad: None,
            unreadable: false,
        },
    );
    loading.replay(JournalEntry::Delete { id: id() }, 12);
    loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 13);
    loading.found(
        id(),
        Found {
            record: located(1, 1, 0, 10),
            sequence: 11,
            landed: false,
            trust: Trust::Sure,
            bad: None,
            unreadable: false,
        },
    );
    loading.found(
        id(),
        Found {
            record: located(1, 2, 0, 20),
            sequence: 14,
            landed: false,
            trust: Trust::Sure,
            bad: None,
            unreadable: false,
        },
    );
    let Chunks { table, .. } = loading.finish(&mut Vec::new());
    assert_eq!(zones(&table), [(1, 20)]);
}

#[test]
fn a_copy_takes_the_place_of_a_record_whose_zone_was_reset() {
    let entry = ChunkEntry {
        id: id(),
        stream: Stream::Data,
        sealed: true,
        birth: 1,
        size: 30,
        since: 0,
        runs: [(located(1, 1, 0, 10), 5), (located(2, 1, 10, 10), 6), (located(1, 2, 20, 10), 5)]
            .map(|(record, epoch)| (Run::of(record), epoch))
            .to_vec(),
    };
    let mut loading = Loading::default();
    loading.load(entry, &BTreeMap::from([(ZoneId(1), 5)]), |_| true);
    loading.found(
        id(),
        Found {
            record: located(3, 1, 0, 10),
            sequence: 20,
            landed: false,
            trust: Trust::Sure,
            bad: None,
            unreadable: false,
        },
    );
    loading.found(
        id(),
        Found {
            record: located(3, 2, 20, 10),
            sequence: 21,
            landed: false,
            trust: Trust::Sure,
            bad: None,
            unreadable: false,
        },
    );
    loading.found(
        id(),
        Found {
            record: located(3, 3, 10, 10),
            sequence: 22,
            landed: false,
            trust: Trust::Sure,
            bad: None,
            unreadable: false,
        },
    );
    let mut damage = Vec::new();
    let Chunks { table, .. } = loading.finish(&mut damage);
    assert_eq!(zones(&table), [(3, 10), (2, 20), (3, 30)], "the index's own record of 10..20 is kept");
    assert!(damage.is_empty());
}

/// CS-REC-2.
#[test]
fn moved_records_are_taken_before_what_landed_and_what_landed_goes_on_behind_them() {
    let mut loading = Loading::default();
    loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
    let landed = |block, offset, length| Found {
        record: located(9, block, offset, length),
        sequence: u64::from(block),
        landed: true,
        trust: Trust::Sure,
        bad: None,
        unreadable: false,
    };
    // Of 0..30 the second piece is gone with its zone; 30..50 has not moved yet; 10..40 is of no use.
    for found in [landed(50, 0, 10), landed(52, 20, 10), landed(53, 30, 5), landed(54, 35, 15)] {
        loading.found(id(), found);
    }
    loading.found(
        id(),
        Found {
            record: located(2, 1, 0, 30),
            sequence: 40,
            landed: false,
            trust: Trust::Sure,
            bad: None,
            unreadable: false,
        },
    );
    loading.found(
        id(),
        Found {
            record: located(3, 1, 10, 30),
            sequence: 90,
            landed: false,
            trust: Trust::Sure,
            bad: None,
            unreadable: false,
        },
    );
    let mut damage = Vec::new();
    let Chunks { table, .. } = loading.finish(&mut damage);
    assert_eq!(zones(&table), [(2, 30), (9, 50)]);
    assert!(damage.is_empty());
}

fn found(block: u32, offset: u32, trust: Trust, bad: Option<(u32, u32)>) -> Found {
    Found {
        record: located(1, block, offset, 10),
        sequence: u64::from(block),
        landed: false,
        trust,
        bad,
        unreadable: false,
    }
}

/// The damage of a chunk of which these records were found; where its records end, and its size.
fn completed(records: &[Found], sealed_at: Option<u32>) -> (Vec<String>, u32, u32) {
    let mut loading = Loading::default();
    loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
    records.iter().for_each(|&found| loading.found(id(), found));
    if let Some(size) = sealed_at {
        loading.replay(JournalEntry::Seal { id: id(), size }, 1000);
    }
    let mut damage = Vec::new();
    let Chunks { table, .. } = loading.finish(&mut damage);
    let chunk = table.get(table.find(id()).unwrap()).unwrap();
    let what = damage.into_iter().map(|damage| damage.what).collect();
    (what, chunk.groups.end(), chunk.size)
}

#[test]
fn a_hole_is_reported_and_what_lies_behind_it_is_kept() {
    let records = [found(2, 0, Trust::Sure, None), found(4, 20, Trust::Sure, None)];
    let hole = |to: u32| format!("bytes 10 to {to} are lost: no record of them was found");
    assert_eq!(completed(&records, None), (vec![hole(20)], 30, 30));
    assert_eq!(completed(&records, Some(30)), (vec![hole(20)], 30, 30), "one that is sealed stays so");
    assert_eq!(completed(&records[..1], Some(30)), (vec![hole(30)], 10, 30), "its end may be lost, too");
}

#[test]
fn a_tear_ends_a_chunk_and_is_no_damage() {
    let behind = [found(2, 0, Trust::Sure, None), found(4, 20, Trust::Behind, None)];
    assert_eq!(completed(&behind, None), (vec![], 10, 10));
    let torn = [found(2, 0, Trust::Sure, None), found(3, 10, Trust::Torn, Some((10, 20))), behind[1]];
    assert_eq!(completed(&torn, None), (vec![], 10, 10));
    let adjoins = [found(2, 0, Trust::Sure, None), found(4, 10, Trust::Behind, None)];
    assert_eq!(completed(&adjoins, None), (vec![], 20, 20), "what is there all the same is whole");
}

#[test]
fn a_record_with_bad_slices_keeps_its_place_if_it_was_durable() {
    let bad = "bytes 12 to 15 cannot be read, or fail their check".to_owned();
    let records = |trust| [found(2, 0, Trust::Sure, None), found(3, 10, trust, Some((12, 15)))];
    assert_eq!(completed(&records(Trust::Sure), None), (vec![bad.clone()], 20, 20));
    assert_eq!(completed(&records(Trust::Torn), Some(20)), (vec![bad.clone()], 20, 20), "the seal says so");
    let [first, torn] = records(Trust::Torn);
    let later = [first, torn, found(9, 20, Trust::Sure, None)];
    assert_eq!(completed(&later, None), (vec![bad], 30, 30), "a later record says so");
    let copied = [first, torn, Found { sequence: 2, ..found(7, 10, Trust::Sure, None) }];
    assert_eq!(completed(&copied, None), (vec![], 20, 20), "a whole copy is taken first");
}

/// A landed record that cannot be read now, and a torn copy of it in its chunk's zone: the copy will never be better.
#[test]
fn of_bad_copies_that_is_taken_that_may_be_read_again() {
    let torn = Found { record: located(2, 9, 0, 20), ..found(9, 0, Trust::Torn, Some((4, 5))) };
    let landed = Found { landed: true, unreadable: true, ..found(3, 0, Trust::Sure, Some((0, 10))) };
    let next = Found { record: located(1, 50, 10, 5), ..found(50, 10, Trust::Sure, None) };
    let bad = "bytes 0 to 10 cannot be read, or fail their check".to_owned();
    assert_eq!(completed(&[torn, landed, next], None), (vec![bad.clone()], 15, 15));
    let rotten = Found { record: located(2, 9, 0, 10), ..found(9, 0, Trust::Sure, Some((4, 5))) };
    assert_eq!(completed(&[rotten, landed, next], None), (vec![bad], 15, 15));
}

/// CS-REC-8: a copy that GC was writing when the power failed, and an original that this opening cannot see. The next one
/// can.
#[test]
fn a_torn_copy_does_not_take_the_place_of_a_record_that_may_be_read_later() {
    let torn = found(9, 0, Trust::Torn, Some((0, 10)));
    let next = found(50, 10, Trust::Sure, None);
    for unread in [true, false] {
        let mut loading = Loading { unread, ..Loading::default() };
        loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
        [torn, next].into_iter().for_each(|found| loading.found(id(), found));
        let mut damage = Vec::new();
        let Chunks { table, undecided, .. } = loading.finish(&mut damage);
        let chunk = table.get(table.find(id()).unwrap()).unwrap();
        let first = chunk.groups.iter().next().map(|group| group.start());
        assert_eq!((first, chunk.size, damage.len()), (Some(if unread { 10 } else { 0 }), 20, 1), "{unread}");
        let held = undecided.into_iter().collect::<Vec<_>>();
        assert_eq!(held, if unread { vec![(torn.record.zone, vec![torn.record])] } else { vec![] }, "{unread}");
    }
}

/// CS-REC-8: a copy that was torn while it was written, and its landed original; neither can be read, and the copy is
/// taken. The next opening can read both, and finds the copy in the index.
#[test]
fn of_records_that_cannot_be_read_a_later_opening_chooses_again() {
    let next = found(50, 10, Trust::Sure, None);
    let copy = Found { record: located(2, 9, 0, 10), unreadable: true, ..found(9, 0, Trust::Sure, Some((0, 10))) };
    let landed = Found { landed: true, unreadable: true, ..found(3, 0, Trust::Sure, Some((4, 8))) };
    let mut loading = Loading::default();
    loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
    [copy, landed, next].into_iter().for_each(|found| loading.found(id(), found));
    let Chunks { table, undecided, .. } = loading.finish(&mut Vec::new());
    assert_eq!(zones(&table), [(2, 10), (1, 20)]);
    let held = undecided.into_values().flatten().collect::<Vec<_>>();
    assert_eq!(held, [landed.record, copy.record]);
    for (original, taken, damages) in
        [(Found { bad: None, unreadable: false, ..landed }, vec![(1, 20)], 0), (landed, vec![(1, 20)], 1)]
    {
        let runs = [(Run::of(copy.record), 5), (Run::of(next.record), 5)].to_vec();
        let stream = Stream::Data;
        let entry = ChunkEntry { id: id(), stream, sealed: false, birth: 1, size: 20, since: 0, runs };
        let mut loading = Loading::default();
        loading.load(entry, &BTreeMap::new(), |_| true);
        let torn = Found { trust: Trust::Torn, unreadable: false, ..copy };
        [torn, original].into_iter().for_each(|found| loading.found(id(), found));
        let mut damage = Vec::new();
        let Chunks { table, .. } = loading.finish(&mut damage);
        assert_eq!((zones(&table), damage.len()), (taken, damages), "{damage:?}");
    }
}

/// The chunk of a checkpoint with these records, and `scanned` beside it: where its records lie, those that are held, and
/// whether anything is hidden.
fn loaded(records: &[Located], scanned: &[Found]) -> (Vec<(u32, u32)>, Vec<Located>, bool) {
    let runs = records.iter().map(|&record| (Run::of(record), 5)).collect();
    let size = records.last().map_or(0, Located::end);
    let entry = ChunkEntry { id: id(), stream: Stream::Data, sealed: false, birth: 1, size, since: 0, runs };
    let mut loading = Loading::default();
    loading.load(entry, &BTreeMap::new(), |_| true);
    scanned.iter().for_each(|&found| loading.found(id(), found));
    let Chunks { table, undecided, hidden, .. } = loading.finish(&mut Vec::new());
    (zones(&table), undecided.into_values().flatten().collect(), hidden)
}

/// CS-REC-8: the checkpoint has a record that is rotten, and the scan finds a good one. A mark would say that the zone of the
/// first needs no look, and the next opening would take it from the checkpoint.
#[test]
fn the_zone_of_a_record_that_another_replaced_is_looked_at_again() {
    let rotten = Found { record: located(2, 9, 0, 10), ..found(9, 0, Trust::Sure, Some((0, 10))) };
    let good = Found { landed: true, ..found(3, 0, Trust::Sure, None) };
    assert_eq!(loaded(&[rotten.record], &[rotten, good]), (vec![(1, 10)], vec![rotten.record], false));
    assert_eq!(
        loaded(&[good.record], &[rotten, good]),
        (vec![(1, 10)], vec![], false),
        "a checkpoint has the good one"
    );
}

/// CS-REC-8: a record cannot be read, and all but its beginning has a good copy. Its beginning has nothing else.
#[test]
fn an_unreadable_record_with_bytes_that_no_other_has_is_looked_at_again() {
    let unreadable =
        Found { record: located(2, 9, 0, 20), unreadable: true, ..found(9, 0, Trust::Sure, Some((12, 16))) };
    let part = found(3, 10, Trust::Sure, None);
    let held = vec![unreadable.record];
    assert_eq!(loaded(&[unreadable.record], &[unreadable, part]), (vec![(1, 20)], held.clone(), true));
    assert_eq!(loaded(&[], &[unreadable, part]), (vec![(1, 20)], held, true), "the checkpoint has neither");
}

/// CS-APP-5: the entry says that all before its place was durable, and that older records past it are dead.
#[test]
fn a_chunk_that_was_gone_on_with_has_all_bytes_before_that_place() {
    let resumed = |found: &[Found]| {
        let mut loading = Loading::default();
        loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
        found.iter().for_each(|&found| loading.found(id(), found));
        loading.replay(JournalEntry::Resume { id: id(), size: 20 }, 30);
        let mut damage = Vec::new();
        let Chunks { table, resumed, .. } = loading.finish(&mut damage);
        assert_eq!(resumed.iter().map(|(_, place)| place).collect::<Vec<_>>(), [(30, 20)]);
        let chunk = table.get(table.find(id()).unwrap()).unwrap();
        (chunk.groups.end(), chunk.size, damage.len())
    };
    let [first, second, dead] = [(2, 0), (3, 10), (4, 20)].map(|(block, at)| found(block, at, Trust::Sure, None));
    let newer = found(40, 20, Trust::Sure, None);
    assert_eq!(resumed(&[first, second, dead]), (20, 20, 0));
    assert_eq!(resumed(&[first, dead]), (10, 20, 1), "its end is lost");
    assert_eq!(resumed(&[first, second, dead, newer]), (30, 30, 0));
}

#[test]
fn what_lies_past_a_seal_is_not_part_of_the_chunk() {
    let mut loading = Loading::default();
    loading.replay(JournalEntry::Create { id: id(), stream: Stream::Data }, 1);
    loading.found(
        id(),
        Found {
            record: located(1, 1, 0, 10),
            sequence: 2,
            landed: false,
            trust: Trust::Sure,
            bad: None,
            unreadable: false,
        },
    );
    loading.found(
        id(),
        Found {
            record: located(1, 2, 10, 10),
            sequence: 3,
            landed: false,
            trust: Trust::Sure,
            bad: None,
            unreadable: false,
        },
    );
    loading.replay(JournalEntry::Seal { id: id(), size: 10 }, 4);
    let mut damage = Vec::new();
    let Chunks { table, .. } = loading.finish(&mut damage);
    assert_eq!(zones(&table), [(1, 10)]);
    assert!(damage.is_empty());
}
