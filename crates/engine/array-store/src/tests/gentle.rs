//! An open array is checked beside those who use it.

use futures_util::future::join;
use shingle_sim::{Random, seeds};
use shingle_store_api::{Finding, NAMES_MAX};

use super::cleaners::fresh_with;
use super::*;
use crate::CheckReport;
use crate::index::Change;

const DRIVES: usize = 5;

fn of_test() -> Options {
    Options { cleaners: Some(2), open_sets: Some(3), background: false, ..Options::default() }
}

/// Puts, overwrites and deletes objects of its own.
async fn work(rt: &Runtime, store: &ArrayStore, mut random: Random, writer: u64) {
    for number in 0..80 {
        let name = format!("w{writer}/{}", random.below(12));
        if random.chance(0.7) {
            let size = random.between(1_000, 60_000) as usize;
            store.put(name, bytes(number, size), Bytes::new()).await.unwrap();
        } else {
            store.delete(name).await.unwrap();
        }
        rt.sleep(Duration::from_micros(random.below(2_000))).await;
    }
}

/// Checks that were made while an array was written to, cleaned, and rebuilt or not.
async fn checks_beside_others(rt: &Runtime, seed: u64) -> Vec<CheckReport> {
    let mut random = Random::new(seed);
    let (devices, store) = fresh_with(rt, DRIVES, 26, of_test()).await;
    let mut number = 0;
    while store.0.free_sets() > store.0.sets.len() / 2 {
        number += 1;
        let size = random.between(5_000, 80_000) as usize;
        store.put(format!("o{number}"), bytes(number as u8, size), Bytes::new()).await.unwrap();
        if random.chance(0.4) {
            store.delete(format!("o{number}")).await.unwrap();
        }
        rt.sleep(Duration::from_millis(1)).await;
    }
    let lost = random.chance(0.5);
    if lost {
        lose(&devices, &store, random.below(DRIVES as u64) as usize).await;
    }
    let left = Cell::new(3);
    let end = |result: Result<(), String>| {
        result.unwrap();
        left.set(left.get() - 1);
    };
    let writers = async {
        let (one, two) = (Random::new(random.number()), Random::new(random.number()));
        join(work(rt, &store, one, 1), work(rt, &store, two, 2)).await;
        end(Ok(()));
    };
    let rebuild = async {
        if lost {
            store.rebuild(RebuildOptions::default(), |_| {}).await.unwrap();
        }
        end(Ok(()));
    };
    let cleaning = async { end(store.gc(20).await.map(drop).map_err(|error| error.to_string())) };
    let checks = async {
        let mut reports = Vec::new();
        while left.get() > 0 {
            reports.push(store.check_gently(reports.len() % 2 == 1, |_| ()).await.unwrap());
        }
        reports
    };
    join(join(writers, rebuild), join(cleaning, checks)).await.1.1
}

/// AS-GENTLE-1.
#[test]
fn what_is_written_moved_and_deleted_during_a_check_is_no_damage() {
    let (mut read, mut checks) = (0, 0);
    for seed in seeds(12) {
        let reports = Sim::new(seed).run(move |rt| async move { checks_beside_others(&rt, seed).await });
        for report in &reports {
            let found = (&report.repairable, &report.lost);
            assert_eq!(found, (&Vec::new(), &Vec::new()), "seed {seed}");
        }
        checks += reports.len();
        read += reports.iter().map(|report| report.bytes).sum::<u64>();
    }
    println!("{checks} checks, {read} bytes");
    assert!(checks > 12 && read > 10 << 20, "{checks} checks read only {read} bytes");
}

/// Damage on one drive can be repaired, on two it is a loss, and a part is missed that the index has elsewhere.
#[test]
fn damage_is_found_beside_clients_too() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, id) = filled(&rt).await;
        let clean = store.check_gently(false, |_| ()).await.unwrap();
        assert!(clean.clean() && clean.bytes > 0 && clean.sets > 2, "{clean:?}");
        let wrong = |store: &ArrayStore| {
            let index = store.0.index().unwrap();
            let mut wanted = None;
            let look = |name: &[u8], version, offset, place: &crate::types::PartPlace| {
                if place.set == id && wanted.is_none() {
                    wanted = Some((Bytes::copy_from_slice(name), version, offset, *place));
                }
            };
            index.for_parts_behind(None, 1000, look).unwrap();
            wanted.unwrap()
        };
        let (name, version, offset, place) = wrong(&store);
        let moved = crate::types::PartPlace { block: place.block + 1, ..place };
        let key = crate::index::PartKey { name: name.clone(), version, offset };
        store
            .0
            .index()
            .unwrap()
            .apply(&[Change::Move { key: key.clone(), from_stamp: place.stamp, place: moved }])
            .unwrap();
        for quick in [true, false] {
            let report = store.check_gently(quick, |_| ()).await.unwrap();
            let name = String::from_utf8_lossy(&name);
            assert!(report.lost.len() == 1 && report.lost[0].words.contains(&*name), "{report:?}");
        }
        store.0.index().unwrap().apply(&[Change::Move { key, from_stamp: place.stamp, place }]).unwrap();

        let mut there = std::collections::BTreeSet::new();
        let look = |name: &[u8], _, _, place: &crate::types::PartPlace| {
            if place.set == id {
                there.insert(crate::quoted(name));
            }
        };
        store.0.index().unwrap().for_parts_behind(None, usize::MAX, look).unwrap();
        let named = |finding: &Finding| finding.objects.first.iter().map(|name| name.words.clone()).collect::<Vec<_>>();
        let members = store.0.sets.get(id).unwrap().ordered_members(id);
        for number in 0..2 {
            // Bits that flip in two fragments lie in different rows: both are there. Of two that are not read nothing is.
            let fault = if number == 0 { Fault::BitFlip } else { Fault::ReadError };
            for member in &members[..=number] {
                let fails = FaultRule { trigger: Trigger::Zone(CommandKind::Read, member.zone), fault };
                devices[usize::from(member.drive.0)].set_faults(Faults::new([fails]));
            }
            let report = store.check_gently(false, |_| ()).await.unwrap();
            assert_eq!((report.repairable.len(), report.lost.is_empty()), (number + 1, number == 0), "{report:?}");
            for finding in report.repairable.iter().filter(|_| number == 0) {
                // A flipped bit may lie where nothing is.
                let names = named(finding);
                assert!(names.len() > there.len() / 2 && names.iter().all(|name| there.contains(name)), "{finding}");
                assert!(!finding.objects.untold && finding.objects.more == 0 && names.is_sorted(), "{finding}");
            }
            assert!(report.lost.iter().all(|lost| there.contains(&named(lost)[0])), "{report:?}");
            assert!(store.check_gently(true, |_| ()).await.unwrap().clean(), "bytes are not read by a quick one");
        }
    });
}

/// A set whose own list of contents is gone: the objects are those that the index has there, and others may be lost with them.
#[test]
fn objects_of_a_set_that_tells_nothing_are_named_by_the_index() {
    Sim::new(1).run(|rt| async move {
        let (devices, store, id) = filled(&rt).await;
        let mut there = std::collections::BTreeSet::new();
        let look = |name: &[u8], _, _, place: &crate::types::PartPlace| {
            if place.set == id {
                there.insert(crate::quoted(name));
            }
        };
        store.0.index().unwrap().for_parts_behind(None, usize::MAX, look).unwrap();
        for member in store.0.sets.get(id).unwrap().ordered_members(id) {
            let unread = FaultRule { trigger: Trigger::Zone(CommandKind::Read, member.zone), fault: Fault::ReadError };
            devices[usize::from(member.drive.0)].set_faults(Faults::new([unread]));
        }
        let only_look = ScrubOptions { read_only: true, ..ScrubOptions::default() };
        let scrubbed = store.scrub(only_look, |_| ()).await.unwrap().lost;
        let quick = store.check_gently(true, |_| ()).await.unwrap().lost;
        let full = store.check_gently(false, |_| ()).await.unwrap().lost;
        for lost in [scrubbed, quick, full] {
            let of_set: Vec<_> = lost.iter().filter(|lost| lost.words.starts_with(&format!("{id}: "))).collect();
            let [set] = of_set[..] else { panic!("{lost:?}") };
            let first: Vec<_> = set.objects.first.iter().map(|name| name.words.clone()).collect();
            assert_eq!(first, there.iter().take(NAMES_MAX).cloned().collect::<Vec<_>>(), "{set}");
            assert!(set.objects.untold && set.words.ends_with("others that cannot be named"), "{set}");
        }
    });
}
