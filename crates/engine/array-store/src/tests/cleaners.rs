//! Several sets are cleaned at once.

use std::cell::RefCell;
use std::collections::BTreeMap;

use futures_util::future::join;
use shingle_sim::{Medium, Random, Survival, seeds};

use super::*;
use crate::append::open_set::RESERVED;
use crate::clean::cleaners::Cleaners;

const SEGMENT: u32 = 40_000;

/// An array of 2+1 on that many drives, of that many zones each.
pub(super) async fn fresh_with(
    rt: &Runtime,
    drives: usize,
    zones: u32,
    options: Options,
) -> (Vec<SimDevice>, ArrayStore) {
    let media: Vec<_> = (0..drives).map(|_| MemoryDevice::new(Geometry::hm_smr(Blocks(60), zones, 0, 30))).collect();
    let devices: Vec<SimDevice> = media.iter().map(|medium| SimDevice::new(rt, medium)).collect();
    let format_options = FormatOptions { segment_length: SEGMENT, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
    format(rt, &named(&devices), &format_options).await.unwrap();
    let store = ArrayStore::open(rt, &named(&devices), &IndexPlace::Memory, options).await.unwrap().0;
    (devices, store)
}

fn with_cleaners(cleaners: usize) -> Options {
    Options { cleaners: Some(cleaners), open_sets: Some(4), background: false, ..Options::default() }
}

/// Objects by name: the number that their bytes come from, and how many these are.
type Expected = BTreeMap<String, (u8, usize)>;

/// Puts objects until the array refuses one.
async fn fill(rt: &Runtime, store: &ArrayStore, random: &mut Random, number: &mut u64, all: &mut Expected) {
    loop {
        *number += 1;
        let (byte, size) = (*number as u8, random.between(u64::from(SEGMENT) / 8, 2 * u64::from(SEGMENT)) as usize);
        match store.put(format!("o{number}"), bytes(byte, size), Bytes::new()).await {
            Ok(_) => drop(all.insert(format!("o{number}"), (byte, size))),
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                return;
            }
        }
        rt.sleep(Duration::from_millis(1)).await;
    }
}

/// Deletes each object with that chance.
async fn thin(store: &ArrayStore, random: &mut Random, chance: f64, all: &mut Expected) {
    for name in all.keys().cloned().collect::<Vec<_>>() {
        if random.chance(chance) {
            assert!(store.delete(name.clone()).await.unwrap());
            all.remove(&name);
        }
    }
}

async fn holds(store: &ArrayStore, all: &Expected, context: &str) {
    for (name, (byte, size)) in all {
        let found = store.get(name.clone()).await.unwrap_or_else(|error| panic!("{context}: {name}: {error}"));
        assert!(found == bytes(*byte, *size), "{context}: {name} has other bytes");
    }
    let listed = store.list(b"", None, usize::MAX).unwrap();
    assert!(
        listed.iter().map(|object| &object.name[..]).eq(all.keys().map(String::as_bytes)),
        "{context}: other objects"
    );
}

/// Number of sets being emptied.
fn under_way(engine: &Engine) -> usize {
    engine.sets.all().filter(|(id, _)| engine.cleaners.empty(*id)).count()
}

#[test]
fn cleaners_follow_groups_and_sets() {
    let most = |wanted, groups, sets, zones| Cleaners::new(wanted, groups, sets, zones).most();
    assert_eq!(most(None, 5, 375_000, usize::MAX), 5);
    assert_eq!(most(None, 1, 30_000, usize::MAX), 1);
    assert_eq!(most(None, 5, 200, usize::MAX), 3);
    assert_eq!(most(None, 5, 10, usize::MAX), 1);
    assert_eq!(most(None, 5, 375_000, 2), 3);
    assert_eq!(most(Some(9), 1, 375_000, usize::MAX), 9);
    assert_eq!(most(Some(9), 1, 20, usize::MAX), 4);
    assert_eq!(most(Some(0), 5, 375_000, usize::MAX), 1);
}

/// AS-CLEAN-5: sets that are being emptied are no choice, and those on other drives come first unless they win far less.
#[test]
fn the_next_victim_lies_on_other_drives() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store) = fresh_with(&rt, 6, 20, with_cleaners(2)).await;
        let (mut random, mut all) = (Random::new(1), Expected::new());
        fill(&rt, &store, &mut random, &mut 0, &mut all).await;
        thin(&store, &mut random, 0.3, &mut all).await;
        let engine = &store.0;
        let (first, set) = engine.victim(&DriveSet::EMPTY).unwrap();
        let cleaner = engine.cleaners.first().unwrap();
        let _victim = cleaner.take(first, &set);
        let (second, other) = engine.victim(&DriveSet::EMPTY).unwrap();
        assert!(second != first && !other.drives().meets(&set.drives()));
        // There is one on the drives of the first from which everything is won.
        let near = |(id, near): &(SetId, Rc<crate::zone_set::ZoneSet>)| *id != first && near.drives() == set.drives();
        let (third, near) = engine.sets.of(crate::zone_set::List::Closed).find(near).unwrap();
        near.set_live(0);
        assert_eq!(engine.victim(&DriveSet::EMPTY).unwrap().0, third);
    });
}

/// Sets on drives of their own are cleaned side by side.
#[test]
fn two_cleaners_are_about_twice_as_fast_as_one() {
    let took = |cleaners| {
        Sim::new(3).run(move |rt| async move {
            let (_devices, store) = fresh_with(&rt, 6, 40, with_cleaners(cleaners)).await;
            let (mut random, mut all) = (Random::new(1), Expected::new());
            fill(&rt, &store, &mut random, &mut 0, &mut all).await;
            thin(&store, &mut random, 0.4, &mut all).await;
            let (began, moved, cleaned) = (rt.now(), store.stats().unwrap().moved, store.0.counters.cleaned.get());
            let done = store.gc(16).await.unwrap();
            let took = rt.now().since(began).as_secs_f64();
            assert_eq!((done, store.0.counters.cleaned.get() - cleaned), (16, 16));
            holds(&store, &all, "cleaned").await;
            let moved = store.stats().unwrap().moved - moved;
            println!("{cleaners} cleaners: {took} s, {moved} bytes");
            took / moved as f64
        })
    };
    let (one, two) = (took(1), took(2));
    assert!(one / two > 1.7, "with one cleaner {one} s for a byte, with two {two}");
}

/// AS-CLEAN-4: in an array with the fewest free sets cleaners neither wait for each other nor leave anything that one
/// could win.
#[test]
fn cleaners_of_a_full_array_come_to_their_end() {
    let mut met = 0;
    for seed in seeds(12) {
        met += Sim::new(seed).run(move |rt| async move {
            let mut random = Random::new(seed);
            let cleaning = [crate::CleaningPolicy::Greedy, crate::CleaningPolicy::Lifetime][random.below(2) as usize];
            let (drives, zones) = (3 * (1 + random.below(4) as usize), 14 + random.below(20) as u32);
            let options = Options { background: random.chance(0.5), cleaning, ..with_cleaners(4) };
            let (_devices, store) = fresh_with(&rt, drives, zones, options).await;
            let context = format!("seed {seed}, {drives} drives, {} cleaners", store.0.cleaners.most());
            let (mut all, mut number, mut most) = (Expected::new(), 0, 0);
            fill(&rt, &store, &mut random, &mut number, &mut all).await;
            for _ in 0..3 {
                thin(&store, &mut random, 0.15, &mut all).await;
                // Several writers win back what was deleted.
                let writers = (0..6).map(|writer| {
                    let (store, rt) = (store.clone(), rt.clone());
                    let mut random = Random::new(random.number());
                    async move {
                        let (mut own, mut number, mut most) = (Expected::new(), 1_000_000 * (writer + 1) + number, 0);
                        loop {
                            number += 1;
                            let (byte, size) = (number as u8, random.between(1_000, 60_000) as usize);
                            let put = store.put(format!("o{number}"), bytes(byte, size), Bytes::new());
                            most = most.max(under_way(&store.0));
                            if let Err(error) = put.await {
                                assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
                                let (free, offered) = (store.0.free_sets(), store.0.sets.listed(List::Offered));
                                assert!(offered == 0 || free <= RESERVED, "refused, {offered} are on their way");
                                return (own, most);
                            }
                            own.insert(format!("o{number}"), (byte, size));
                            rt.sleep(Duration::from_micros(random.below(500))).await;
                        }
                    }
                });
                let writing = Box::pin(join_all(writers.collect::<Vec<_>>()));
                let ended = select(writing, Box::pin(rt.sleep(Duration::from_secs(3600)))).await;
                let Either::Left((written, _)) = ended else { panic!("{context}: somebody waits for ever") };
                number += 10_000;
                for (own, under_way) in written {
                    all.extend(own);
                    most = most.max(under_way);
                }
            }
            rt.sleep(Duration::from_secs(30)).await;
            fill(&rt, &store, &mut random, &mut number, &mut all).await;
            assert!(store.0.free_sets() <= RESERVED, "{context}: refused with {} free sets", store.0.free_sets());
            assert_eq!(store.gc(1).await.unwrap(), 0, "{context}: refused although something is won");
            holds(&store, &all, &context).await;
            store.close().await.unwrap();
            usize::from(most > 1)
        });
    }
    assert!(met > 2 || std::env::var_os("SHINGLE_SEED").is_some(), "the case is not met: {met}");
}

/// AS-CLEAN-5: who waits for a set that another one empties waits for the end of that, and wakes nobody.
#[test]
fn who_waits_for_a_set_that_is_being_emptied_wakes_nobody() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store) = fresh_with(&rt, 6, 20, with_cleaners(2)).await;
        let (mut random, mut all) = (Random::new(1), Expected::new());
        fill(&rt, &store, &mut random, &mut 0, &mut all).await;
        thin(&store, &mut random, 0.5, &mut all).await;
        store.gc(3).await.unwrap();
        let engine = &store.0;
        let (cleaner, id, set) = engine.another_cleaner(&DriveSet::EMPTY).unwrap();
        let emptying = async {
            let victim = cleaner.take(id, &set);
            rt.sleep(Duration::from_secs(1)).await;
            drop(victim);
        };
        let both = join(engine.collect_alone(id, &set), engine.collect_alone(id, &set));
        let ((), (one, other)) = join(emptying, both).await;
        assert!(one.unwrap() && other.unwrap());
        holds(&store, &all, "emptied").await;
    });
}

/// AS-CLEAN-4: in an array of which no set can be opened any more cleaners in the background wait; they do not wake
/// each other. (AS-CLEAN-6)
#[test]
fn cleaners_that_win_nothing_do_not_wake_each_other() {
    Sim::new(1).run(|rt| async move {
        let options = Options { background: true, slow_for_most: None, ..with_cleaners(2) };
        let (devices, store) = fresh_with(&rt, 6, 24, options).await;
        let (mut random, mut all) = (Random::new(1), Expected::new());
        fill(&rt, &store, &mut random, &mut 0, &mut all).await;
        // From now on nothing can be reset.
        for device in &devices {
            let never = FaultRule { trigger: Trigger::Rate(CommandKind::Reset, 1.0), fault: Fault::CommandError };
            device.set_faults(Faults::new([never]));
        }
        for name in all.keys().step_by(2) {
            if store.delete(name.clone()).await.is_err() {
                break;
            }
        }
        rt.sleep(Duration::from_secs(60)).await;
        let engine = &store.0;
        let reads = || devices.iter().map(|device| device.counts().reads.0).sum::<u64>();
        let before = reads();
        rt.sleep(Duration::from_secs(100)).await;
        assert!(engine.victim(&DriveSet::EMPTY).is_some() && engine.drives.missing().is_empty(), "the case is not met");
        assert!(reads() - before < 1_000, "{} reads in 100 seconds", reads() - before);
    });
}

/// The end of a cleaner is no space for those who wait for that.
#[test]
fn a_cleaner_that_won_nothing_wakes_nobody_who_waits_for_space() {
    Sim::new(1).run(|rt| async move {
        let (_devices, store) = fresh_with(&rt, 3, 20, with_cleaners(2)).await;
        let (mut random, mut all) = (Random::new(1), Expected::new());
        fill(&rt, &store, &mut random, &mut 0, &mut all).await;
        let engine = &store.0;
        let (id, set) = engine.sets.of(List::Closed).next().unwrap();
        let space = engine.space.notified();
        let cleaner = engine.cleaners.first().unwrap();
        drop(cleaner.take(id, &set));
        drop(cleaner);
        assert!(space.now_or_never().is_none());
    });
}

/// More cleaners than sets are kept available: clients open what is free before anything is cleaned for them.
#[test]
fn clients_of_an_array_with_many_cleaners_clean_nothing_while_sets_are_free() {
    Sim::new(1).run(|rt| async move {
        let options = Options { available_sets: 3, ..with_cleaners(4) };
        let (_devices, store) = fresh_with(&rt, 3, 34, options).await;
        assert_eq!(store.0.cleaners.most(), 4);
        let mut number = 0;
        while store.0.free_sets() > 10 {
            number += 1;
            store.put(format!("o{number}"), bytes(1, 30_000), Bytes::new()).await.unwrap();
            if number % 2 == 0 {
                store.delete(format!("o{number}")).await.unwrap();
            }
            assert_eq!(store.0.counters.cleaned.get(), 0, "cleaned with {} free sets", store.0.free_sets());
        }
        assert!(store.0.victim(&DriveSet::EMPTY).is_some(), "the case is not met");
    });
}

/// Calls that end while two sets are emptied, and at each command: the drives then, and the acknowledged calls.
fn cuts(seed: u64) -> Vec<(Vec<Medium>, Expected, Vec<String>)> {
    Sim::new(seed).run(move |rt| async move {
        let (devices, store) = fresh_with(&rt, 6, 16, with_cleaners(2)).await;
        let (mut random, mut all) = (Random::new(seed), Expected::new());
        fill(&rt, &store, &mut random, &mut 0, &mut all).await;
        thin(&store, &mut random, 0.35, &mut all).await;
        if random.chance(0.5) {
            store.snapshot().await.unwrap();
        }
        let all = Rc::new(RefCell::new(all));
        // Deletions that were not answered yet.
        let trying = Rc::new(RefCell::new(Vec::<String>::new()));
        let found = Rc::new(RefCell::new(Vec::new()));
        let drawn = Rc::new(RefCell::new(Random::new(random.number())));
        for device in &devices {
            let (engine, devices, found) = (Rc::downgrade(&store.0), devices.clone(), found.clone());
            let (all, trying, random) = (all.clone(), trying.clone(), drawn.clone());
            device.on_command(move |_, _| {
                let two = engine.upgrade().is_some_and(|engine| under_way(&engine) == 2);
                let mut random = random.borrow_mut();
                if two && random.chance(0.08) {
                    let survival = [Survival::Prefix, Survival::AnySubset][random.below(2) as usize];
                    let left = devices.iter().map(|device| device.crash_image_with(random.number(), survival));
                    let left: Vec<Medium> = left.map(|image| Medium::from(&image)).collect();
                    found.borrow_mut().push((left, all.borrow().clone(), trying.borrow().clone()));
                }
            });
        }
        let deleting = async {
            let names: Vec<String> = all.borrow().keys().cloned().collect();
            for name in names {
                if random.chance(0.2) {
                    trying.borrow_mut().push(name.clone());
                    store.delete(name.clone()).await.unwrap();
                    all.borrow_mut().remove(&name);
                    trying.borrow_mut().clear();
                }
                rt.sleep(Duration::from_micros(random.below(300))).await;
            }
        };
        let snapshot = async {
            rt.sleep(Duration::from_millis(3)).await;
            store.snapshot().await.unwrap();
        };
        let cleaning = store.gc(12);
        let (done, ..) = futures_util::future::join3(cleaning, deleting, snapshot).await;
        assert!(done.unwrap() > 2, "seed {seed}: the case is not met");
        devices.iter().for_each(|device| device.on_command(|_, _| {}));
        found.take()
    })
}

/// AS-REC-1: wherever the power fails while two sets are emptied, what was acknowledged is found, and what was deleted
/// is not.
#[test]
fn a_power_cut_while_two_sets_are_emptied_loses_nothing() {
    let mut pairs = 0;
    for seed in seeds(8) {
        for (number, (media, mut all, trying)) in cuts(seed).into_iter().enumerate() {
            pairs += 1;
            let context = format!("seed {seed}, cut {number}");
            Sim::new(seed).run(move |rt| async move {
                let devices: Vec<SimDevice> = media.into_iter().map(|medium| SimDevice::resume(&rt, medium)).collect();
                let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, with_cleaners(2)).await;
                let (store, report) = opened.unwrap();
                assert_eq!(report.damage, Vec::<String>::new(), "{context}");
                for name in trying.into_iter().filter(|name| store.head(name.as_bytes()).is_err()) {
                    all.remove(&name);
                }
                holds(&store, &all, &context).await;
                // It goes on from there.
                store.gc(4).await.unwrap();
                holds(&store, &all, &format!("{context}, cleaned")).await;
            });
        }
    }
    println!("{pairs} cuts");
    assert!(pairs > 100 || std::env::var_os("SHINGLE_SEED").is_some(), "only {pairs} cuts");
}
