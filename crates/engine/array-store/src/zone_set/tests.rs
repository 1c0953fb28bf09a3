use shingle_base::ZoneId;
use shingle_runtime::Instant;
use shingle_sim::{Random, seeds};

use super::lists::Mark;
use super::*;
use crate::format::{DriveEntry, DriveState};

const ALL: [List; 8] =
    [List::Empty, List::Unusable, List::Offered, List::Available, List::Open, List::Closed, List::Indexed, List::Index];

fn drives(count: u8) -> Drives {
    let drives = Drives::default();
    for id in 0..count {
        drives.push(
            DriveEntry {
                reused: false,
                id: u64::from(id) + 1,
                state: DriveState::Present,
                zones: 100,
                zone_capacity: 64 + u32::from(id % 3) * 8,
                superblock_zones: [ZoneId(0), ZoneId(1)],
                name: format!("d{id}"),
            },
            None,
        );
    }
    drives
}

fn members(random: &mut Random, drives: u8) -> Vec<Member> {
    let first = random.below(u64::from(drives) - 2) as u8;
    (first..first + 3)
        .map(|drive| Member { drive: DriveId(drive), zone: ZoneId(random.below(90) as u32 + 2) })
        .collect()
}

/// A step that may be taken from where the set is.
fn any_step(set: &ZoneSet, random: &mut Random) {
    let (some, stamp) = (random.below(9000), random.below(50));
    match random.below(6) {
        0 if some < 4000 => return set.wins_nothing_at(set.died()),
        0 => return set.may_win_again(),
        1 if some < 4000 => return set.set_live(some),
        1 => return set.remove_live(set.live().min(some % 3)),
        2 if random.below(8) == 0 => return set.hurt(),
        3 if random.below(4) == 0 => return set.set_stuck(random.below(2) == 0),
        _ => {}
    }
    match (set.phase(), set.state()) {
        (_, SetState::Empty) if set.is_offered() => set.offered(random.below(3) > 0),
        (_, SetState::Empty) => set.offer(),
        (_, SetState::Available) if random.below(4) == 0 => set.withdraw(),
        (_, SetState::Available) => {
            set.open(if random.below(4) == 0 { Purpose::Index } else { Purpose::Objects });
            set.set_live(some);
        }
        (Phase::Filling, _) => set.begin_to_end(),
        (Phase::Ending, _) => {
            set.closed_at(stamp);
            set.has_ended(60, random.below(2) == 0);
        }
        (Phase::Still, SetState::Open) => set.reopen(),
        (Phase::Resetting, _) => set.emptied(if random.below(2) == 0 { Zones::Clean } else { Zones::Unclean }),
        (Phase::Still, SetState::Closed) if random.below(3) == 0 => set.cover(u32::MAX),
        (Phase::Still, _) if !set.is_leaving() => match set.members().first() {
            Some(first) if random.below(3) == 0 => {
                set.replace_member(*first, Member { zone: ZoneId(95), ..*first });
            }
            _ => set.leave(),
        },
        (Phase::Still, _) => set.begin_to_reset(),
    }
}

/// Contents of the lists, by looking at all sets.
fn scanned(table: &SetTable) -> Vec<(SetId, Mark)> {
    let sets = table.sets.borrow();
    let all = sets.iter().enumerate().filter_map(|(at, set)| Some((SetId(at as u32), set.as_ref()?.mark())));
    all.collect()
}

fn check(table: &SetTable, lost: &[DriveId], about: &str) {
    let all = scanned(table);
    for list in ALL {
        let expected: Vec<SetId> = all.iter().filter(|(_, mark)| mark.list == list).map(|(id, _)| *id).collect();
        assert_eq!(table.of(list).map(|(id, _)| id).collect::<Vec<_>>(), expected, "{about}: {list:?}");
        let mut backwards: Vec<SetId> = table.backwards(list).map(|(id, _)| id).collect();
        backwards.reverse();
        assert_eq!(backwards, expected, "{about}: {list:?}");
        assert_eq!(table.listed(list), expected.len(), "{about}: {list:?}");
        table.with_groups(|groups| {
            let in_groups: BTreeSet<SetId> = groups.values().flat_map(|group| group.list(list)).copied().collect();
            assert_eq!(in_groups, expected.iter().copied().collect(), "{about}: {list:?}");
            for (id, mark) in all.iter().filter(|(_, mark)| mark.list == list) {
                assert!(groups[&mark.drives].list(list).contains(id), "{about}: {id} in its group");
            }
        });
    }
    let coming: Vec<*const ZoneSet> = table.coming().iter().map(Rc::as_ptr).collect();
    let expected: Vec<_> = all.iter().filter(|(_, mark)| mark.comes).map(|(id, _)| table.get(*id).unwrap()).collect();
    assert_eq!(coming, expected.iter().map(Rc::as_ptr).collect::<Vec<_>>(), "{about}");
    let suspects = all.iter().filter(|(_, mark)| mark.said.suspect).map(|(id, _)| *id);
    assert!(table.suspects().into_iter().eq(suspects), "{about}");
    let sum = |of: fn(&Mark) -> u64| all.iter().map(|(_, mark)| of(mark)).sum::<u64>();
    assert_eq!(table.bytes(), (sum(|mark| mark.live), sum(|mark| mark.data)), "{about}");
    assert_eq!(table.len(), all.len(), "{about}");
    let candidates = all.iter().filter_map(|(id, mark)| Some((*id, mark.candidate?)));
    let greedy = candidates.min_by_key(|(id, one)| (!one.hurt, one.live, *id)).map(|(id, _)| id);
    assert_eq!(table.victim(100, |_| true, |_| true).map(|(id, _)| id), greedy, "{about}");
    let lost_drives: DriveSet = lost.iter().copied().collect();
    let holding = |mark: &Mark| !matches!(mark.list, List::Empty | List::Unusable);
    let lacking =
        all.iter().filter(|(_, mark)| holding(mark)).map(|(_, mark)| mark.drives.common(&lost_drives) as usize);
    assert_eq!(table.most_lacking(lost.iter().copied(), |_| true), lacking.max().unwrap_or(0), "{about}");
}

/// AS-LIST-1: whatever becomes of sets, and wherever they go, their lists say the same as a look at all of them.
/// (AS-LIFE-1)
#[test]
fn lists_agree_with_a_scan_of_all_sets() {
    for seed in seeds(20) {
        let mut random = Random::new(seed);
        let (drives, code) = (drives(9), Code::new(2, 1).unwrap());
        let states = [
            SetState::Empty,
            SetState::Available,
            SetState::Open,
            SetState::Closed,
            SetState::Indexed,
            SetState::Index,
        ];
        let entries = (0..30).map(|_| {
            (random.below(6) > 0).then(|| SetEntry {
                state: states[random.below(6) as usize],
                members: members(&mut random, 9),
                live: 0,
                covered: 0,
                end: 7,
                length: u32::MAX,
                suspect: random.chance(0.3),
            })
        });
        let entries: Vec<_> = entries.collect();
        let table = SetTable::from_entries(entries.clone(), &drives, code, CleaningPolicy::Greedy);
        assert_eq!(
            table.entries().iter().filter(|(_, entry)| entry.is_some()).count(),
            entries.iter().flatten().count(),
            "seed {seed}"
        );
        let mut out: Option<(SetId, Rc<ZoneSet>)> = None;
        // A copy that learns of changes only. (AS-SB-4)
        let mut copy: Vec<_> = table.entries().into_iter().map(|(_, entry)| entry).collect();
        let mut since = table.changes_so_far();
        for step in 0..400 {
            match random.below(20) {
                0 => drop(table.insert(members(&mut random, 9))),
                1 => {
                    if let Some((id, set)) = out.take() {
                        if table.get(id).is_none() {
                            table.put_back(id, set);
                        }
                    } else if let Some((id, _)) = table.all().nth(random.below(20) as usize) {
                        out = table.remove(id).map(|set| (id, set));
                    }
                }
                _ => {
                    let nth = random.below(table.len().max(1) as u64) as usize;
                    if let Some((_, set)) = table.all().nth(nth) {
                        any_step(&set, &mut random);
                        set.set_awaited(Some(Instant::default()));
                        set.set_suspect(random.chance(0.5));
                    }
                }
            }
            for (SetId(number), entry) in table.changes(since, Some(since)) {
                copy.resize(copy.len().max(number as usize + 1), None);
                copy[number as usize] = entry;
            }
            since = table.changes_so_far();
            table.forget_changes(since, since);
            assert!(
                table.entries().into_iter().map(|(_, entry)| entry).eq(copy.iter().cloned()),
                "seed {seed}, {step}"
            );
            let lost = [DriveId(random.below(9) as u8), DriveId(random.below(9) as u8)];
            check(&table, &lost, &format!("seed {seed}, step {step}"));
        }
    }
}

/// A set is one thing at a time: what is asked of another state than a step is for is refused.
#[test]
#[should_panic(expected = "not what it was taken for")]
fn a_set_that_is_being_filled_is_not_reset() {
    let table = SetTable::from_entries(Vec::new(), &drives(3), Code::new(2, 1).unwrap(), CleaningPolicy::Greedy);
    let id = table.insert(members(&mut Random::new(1), 3));
    let set = table.get(id).unwrap();
    set.offer();
    set.offered(true);
    set.open(Purpose::Objects);
    set.begin_to_reset();
}
