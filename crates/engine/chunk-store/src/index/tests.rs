//! The index against a plain list of records.

use shingle_base::{Blocks, ZoneId};
use shingle_sim::{Random, seeds};

use crate::index::ZONE_BLOCKS_MAX;
use crate::index::{Groups, IndexGroup, Located, Run};

fn located(zone: u32, block: u32, offset: u32, length: u32) -> Located {
    Located { zone: ZoneId(zone), block, offset, length }
}

fn of(records: &[Located]) -> Groups {
    let mut groups = Groups::default();
    for &record in records {
        groups.push(record);
    }
    groups
}

fn all(groups: &Groups) -> Vec<Located> {
    groups.iter().flat_map(IndexGroup::records).collect()
}

/// Entries' bytes.
fn entries(groups: &mut Groups) -> usize {
    groups.shrink();
    groups.heap_bytes().1
}

/// Records as chunks have them: of few lengths, at few distances, in few zones; sometimes at random.
fn records(random: &mut Random) -> Vec<Located> {
    let mut records = Vec::new();
    let (mut zone, mut block, mut offset) = (1, 1 + random.below(50) as u32, 0);
    let lengths = [4096, 1 << 20, 5000, 1 + random.below(100_000) as u32];
    for _ in 0..1 + random.below(12) {
        let (length, steady) = (lengths[random.below(4) as usize], random.chance(0.7));
        let gap = if random.chance(0.5) { 0 } else { random.below(600) as u32 };
        for _ in 0..1 + random.below(20) {
            let length = if steady { length } else { 1 + random.below(9000) as u32 };
            let record = located(zone, block, offset, length);
            (offset, block) = (record.end(), block + record.blocks().0 as u32 + gap);
            records.push(record);
        }
        match random.below(4) {
            0 => (zone, block) = (1 + random.below(4) as u32, 1 + random.below(50) as u32),
            // GC can put a later part of a chunk before an earlier one.
            1 => block = 1 + random.below(1000) as u32,
            2 => {
                let record = located(zone, block, offset, 1 + random.below(u64::from(length)) as u32);
                (offset, block) = (record.end(), block + record.blocks().0 as u32 + gap);
                records.push(record);
            }
            _ => {}
        }
    }
    records
}

/// CS-IDX-1 to CS-IDX-5, against the list of records.
fn check(groups: &mut Groups, expected: &[Located], random: &mut Random, seed: u64) {
    assert_eq!(all(groups), expected, "seed {seed}");
    let end = expected.last().map_or(0, Located::end);
    assert_eq!(groups.end(), end, "seed {seed}");
    assert!(entries(groups) <= 8 * expected.len(), "CS-IDX-5: seed {seed}");
    let mut at = 0;
    for group in groups.iter() {
        let of_group = &expected[at..at + group.len()];
        at += group.len();
        assert!(of_group.iter().all(|record| record.zone == group.zone), "CS-IDX-2: seed {seed}");
        assert_eq!(group.start(), of_group[0].offset, "seed {seed}");
        assert_eq!(group.end, of_group[of_group.len() - 1].end(), "seed {seed}");
        assert_eq!(group.blocks(), of_group.iter().map(Located::blocks).sum::<Blocks>(), "seed {seed}");
        assert!(group.runs().all(|run| run.is_sound()), "CS-IDX-4: seed {seed}");
    }
    assert!(groups.iter().zip(groups.iter().skip(1)).all(|(group, next)| group.zone != next.zone), "seed {seed}");
    for _ in 0..200 {
        let from = random.below(u64::from(end)) as u32;
        let to = from + 1 + random.below(u64::from(end - from)) as u32;
        let to = if random.chance(0.5) { to } else { (from + 1 + random.below(5000) as u32).min(end) };
        let wanted: Vec<_> =
            expected.iter().copied().filter(|record| record.offset < to && record.end() > from).collect();
        assert_eq!(groups.covering(from, to).collect::<Vec<_>>(), wanted, "{from}..{to}: seed {seed}");
    }
}

#[test]
fn it_finds_what_a_plain_list_of_records_does() {
    for seed in seeds(300) {
        let mut random = Random::new(seed);
        let mut expected = records(&mut random);
        let mut groups = of(&expected);
        check(&mut groups, &expected, &mut random, seed);
        // As a checkpoint brings it back: run by run.
        let mut loaded = Groups::default();
        for run in groups.iter().flat_map(IndexGroup::runs) {
            loaded.push_run(run);
        }
        assert_eq!(loaded, groups, "seed {seed}");
        // And as GC leaves it: some records of a zone moved, in turns with those of other chunks or without.
        for victim in 1..4 {
            let (zone, gap) = (10 + random.below(2) as u32, random.below(2) as u32 * 300);
            let (mut block, share) = (1, random.below(3) as f64 / 2.0);
            let mut moved = Vec::new();
            for record in expected.iter_mut().filter(|record| record.zone == ZoneId(victim)) {
                if random.chance(share) {
                    let copy = Located { zone: ZoneId(zone), block, ..*record };
                    block += copy.blocks().0 as u32 + gap;
                    moved.push(copy);
                    *record = copy;
                }
            }
            groups = groups.moved(ZoneId(victim), &moved);
            check(&mut groups, &expected, &mut random, seed);
        }
    }
}

#[test]
fn equal_records_take_no_memory_of_their_own() {
    // A chunk that owns its zone; one that shares it in equal turns; one with a short record at its end.
    for (stride, last) in [(259, 1 << 20), (4 * 259, 1 << 20), (259, 77)] {
        let records: Vec<_> = (0..253u32)
            .map(|number| {
                let length = if number == 252 { last } else { 1 << 20 };
                located(7, 1 + number * stride, number << 20, length)
            })
            .collect();
        let mut groups = of(&records);
        assert_eq!(groups.heap_bytes(), (0, 0));
        groups.shrink();
        assert_eq!(all(&groups), records);
        assert_eq!(groups.iter().flat_map(IndexGroup::runs).count(), 1);
    }
}

/// CS-IDX-3.
#[test]
fn a_change_of_length_takes_eight_bytes_and_a_run_sixteen() {
    let mut list = Vec::new();
    let mut push = |length, count| {
        for _ in 0..count {
            let (offset, block) =
                list.last().map_or((0, 1), |last: &Located| (last.end(), last.block + last.blocks().0 as u32));
            list.push(located(1, block, offset, length));
        }
        let mut groups = of(&list);
        assert_eq!(all(&groups), list);
        entries(&mut groups)
    };
    assert_eq!(push(4096, 1), 0);
    assert_eq!(push(9000, 1), 16, "two records, and room for a third");
    assert_eq!(push(9000, 1), 24, "the beginning of a run");
    assert_eq!(push(9000, 1), 32, "a run");
    assert_eq!(push(9000, 100), 32, "of any length");
    assert_eq!(push(10, 1), 32, "that a shorter record ends");
    assert_eq!(push(10, 1), 40);
    assert_eq!(push(10, 50), 48);
}

#[test]
fn records_of_many_lengths_side_by_side_take_little_more_than_four_bytes() {
    let mut list: Vec<Located> = Vec::new();
    for number in 0..1500u32 {
        let last = list.last().copied();
        let (offset, block) = last.map_or((0, 1), |last| (last.end(), last.block + last.blocks().0 as u32));
        list.push(located(1, block, offset, 4096 + number % 7 * 5000));
    }
    let mut groups = of(&list);
    assert_eq!(all(&groups), list);
    assert_eq!(entries(&mut groups), 1500 / 15 * 64);
}

#[test]
fn the_largest_numbers_have_room() {
    let last = ZONE_BLOCKS_MAX as u32 - 1;
    // The end of the largest chunk, in the last block of the largest zone, a stride as long as the zone.
    let half = u32::MAX / 2;
    let records = [located(u32::MAX, 0, 0, half), located(u32::MAX, last, half, half)];
    let mut groups = of(&records);
    assert_eq!(all(&groups), records);
    assert_eq!(groups.heap_bytes(), (0, 0));
    assert_eq!(groups.covering(u32::MAX - 2, u32::MAX - 1).collect::<Vec<_>>(), records[1..]);
    assert_eq!(groups.covering(0, u32::MAX - 1).collect::<Vec<_>>(), records);
    // The same in a list of entries.
    let records = [
        located(1, last, 0, 1),
        located(1, 0, 1, 1 << 31),
        located(1, last / 2, 1 + (1 << 31), 1 << 30),
        located(1, last - 1, 1 + (3 << 30), u32::MAX - 1 - (3 << 30)),
    ];
    groups = of(&records);
    assert_eq!(all(&groups), records);
    for record in records {
        for at in [record.offset, record.end() - 1] {
            assert_eq!(groups.covering(at, at + 1).collect::<Vec<_>>(), [record]);
        }
    }
    assert_eq!(groups.end(), u32::MAX);
}

#[test]
fn a_run_from_a_drive_must_make_sense() {
    let sound = Run { zone: ZoneId(1), block: 1, offset: 10, end: 110, length: 30, stride: 5 };
    assert!(sound.is_sound() && sound.count() == 4);
    let whole = u32::MAX;
    for run in [
        Run { end: 10, ..sound },
        Run { end: 9, ..sound },
        Run { length: 0, ..sound },
        Run { length: 101, ..sound },
        Run { length: 100, ..sound },
        Run { stride: 0, ..sound },
        Run { stride: 1 << 30, ..sound },
        Run { block: 1 << 30, ..sound },
        Run { block: (1 << 30) - 15, ..sound },
        Run { offset: 0, end: whole, length: 1, stride: 1, ..sound },
        Run { offset: 0, end: whole, length: 1, stride: whole, ..sound },
    ] {
        assert!(!run.is_sound(), "{run:?}");
    }
    assert!(Run { block: (1 << 30) - 16, ..sound }.is_sound());
    assert!(Run { length: 100, stride: 0, ..sound }.is_sound());
}
