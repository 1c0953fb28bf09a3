//! A rebuild with several workers beside several cleaners, writers and deletions.

use std::cell::RefCell;
use std::collections::BTreeMap;

use futures_util::future::{join, join3};
use shingle_sim::{Medium, Random, Survival, seeds};

use super::cleaners::fresh_with;
use super::*;

/// Objects by name: the number that their bytes come from, and how many these are.
type Expected = BTreeMap<String, (u8, usize)>;

const DRIVES: usize = 9;

fn of_test() -> Options {
    Options { cleaners: Some(3), open_sets: Some(4), background: false, ..Options::default() }
}

/// The acknowledged state, and the change under way, of which nobody knows what became.
#[derive(Clone, Default)]
struct Known {
    all: Expected,
    trying: BTreeMap<String, Option<(u8, usize)>>,
}

async fn holds(store: &ArrayStore, known: &Known, context: &str) -> Expected {
    let mut all = known.all.clone();
    for (name, tried) in &known.trying {
        match store.get(name.clone()).await {
            Ok(found) => {
                let may_be = [all.get(name).copied(), *tried].into_iter().flatten();
                let is = may_be.into_iter().find(|(byte, size)| found == bytes(*byte, *size));
                all.insert(name.clone(), is.unwrap_or_else(|| panic!("{context}: {name} never was that")));
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NotFound, "{context}: {name}: {error}");
                let was = all.remove(name);
                assert!(was.is_none() || tried.is_none(), "{context}: {name} is gone");
            }
        }
    }
    for (name, (byte, size)) in &all {
        let found = store.get(name.clone()).await.unwrap_or_else(|error| panic!("{context}: {name}: {error}"));
        assert!(found == bytes(*byte, *size), "{context}: {name} has other bytes");
    }
    let listed = store.list(b"", None, usize::MAX).unwrap();
    assert!(
        listed.iter().map(|object| &object.name[..]).eq(all.keys().map(String::as_bytes)),
        "{context}: other objects"
    );
    all
}

/// Puts, overwrites and deletes objects of its own.
async fn work(rt: Runtime, store: ArrayStore, known: Rc<RefCell<Known>>, mut random: Random, writer: u64) {
    for number in 0..60 {
        let name = format!("w{writer}/{}", random.below(12));
        let new = (number as u8, random.between(1_000, 60_000) as usize);
        let new = random.chance(0.7).then_some(new);
        known.borrow_mut().trying.insert(name.clone(), new);
        match new {
            Some((byte, size)) => drop(store.put(name.clone(), bytes(byte, size), Bytes::new()).await.unwrap()),
            None => drop(store.delete(name.clone()).await.unwrap()),
        }
        {
            let mut known = known.borrow_mut();
            known.trying.remove(&name);
            match new {
                Some(new) => drop(known.all.insert(name, new)),
                None => drop(known.all.remove(&name)),
            }
        }
        rt.sleep(Duration::from_micros(random.below(2_000))).await;
    }
}

/// Times that two cleaners worked while zones were written anew, and the states that power cuts then would leave.
struct Ran {
    met: u64,
    cuts: Vec<(Vec<Medium>, Known)>,
}

/// An array that loses a drive; what was lost is rebuilt while three cleaners work and two writers.
fn run(seed: u64) -> Ran {
    Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let (devices, store) = fresh_with(&rt, DRIVES, 26, of_test()).await;
        let known = Rc::new(RefCell::new(Known::default()));
        let mut number = 0;
        while store.0.free_sets() > store.0.sets.len() / 3 {
            number += 1;
            let (name, byte, size) = (format!("o{number}"), number as u8, random.between(5_000, 80_000) as usize);
            store.put(name.clone(), bytes(byte, size), Bytes::new()).await.unwrap();
            known.borrow_mut().all.insert(name, (byte, size));
            rt.sleep(Duration::from_millis(1)).await;
        }
        let names: Vec<String> = known.borrow().all.keys().cloned().collect();
        for name in names {
            if random.chance(0.4) {
                assert!(store.delete(name.clone()).await.unwrap());
                known.borrow_mut().all.remove(&name);
            }
        }
        if random.chance(0.5) {
            store.snapshot().await.unwrap();
        }
        assert_eq!(store.0.cleaners.most(), 3);
        let lost = random.below(DRIVES as u64) as usize;
        lose(&devices, &store, lost).await;
        let (met, cuts) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
        let rebuilt = Rc::new(Cell::new((0, 0)));
        let drawn = Rc::new(RefCell::new(Random::new(random.number())));
        for device in &devices {
            let (engine, all, rebuilt) = (Rc::downgrade(&store.0), devices.clone(), rebuilt.clone());
            let (met, cuts, known, drawn) = (met.clone(), cuts.clone(), known.clone(), drawn.clone());
            device.on_command(move |_, _| {
                let cleaning =
                    |engine: Rc<Engine>| engine.sets.all().filter(|(id, _)| engine.cleaners.empty(*id)).count();
                let (done, of) = rebuilt.get();
                if done == 0 || done == of || engine.upgrade().is_none_or(|engine| cleaning(engine) < 2) {
                    return;
                }
                met.set(met.get() + 1);
                let mut random = drawn.borrow_mut();
                if random.chance(0.02) {
                    let survival = [Survival::Prefix, Survival::AnySubset][random.below(2) as usize];
                    let left = all.iter().map(|device| device.crash_image_with(random.number(), survival));
                    let left: Vec<Medium> = left.map(|image| Medium::from(&image)).collect();
                    cuts.borrow_mut().push((left, known.borrow().clone()));
                }
            });
        }
        let context = format!("seed {seed}");
        let rebuild = store.rebuild(RebuildOptions::default(), |so_far| {
            rebuilt.set((so_far.done + so_far.failed, so_far.members));
        });
        let writer = |writer| work(rt.clone(), store.clone(), known.clone(), Random::new(random.number()), writer);
        let writers: Vec<_> = [1, 2].map(writer).into();
        let all = Box::pin(join3(rebuild, store.gc(40), join_all(writers)));
        let ended = select(all, Box::pin(rt.sleep(Duration::from_secs(3600)))).await;
        let Either::Left(((rebuilt, cleaned, ..), _)) = ended else { panic!("{context}: somebody waits for ever") };
        devices.iter().for_each(|device| device.on_command(|_, _| {}));
        let (rebuilt, cleaned) = (rebuilt.unwrap(), cleaned.unwrap());
        assert!(rebuilt.done > 0 && rebuilt.failed == 0 && cleaned > 3, "{context}: {rebuilt:?}, {cleaned} cleaned");
        let known = known.take();
        assert!(known.trying.is_empty());
        holds(&store, &known, &context).await;
        let wanted = ScrubOptions { read_only: true, ..ScrubOptions::default() };
        let found = store.scrub(wanted, |_| {}).await.unwrap();
        assert_eq!((found.damaged, found.lost), (vec![], vec![]), "{context}");
        // Another one may be lost now.
        lose(&devices, &store, (lost + 1) % DRIVES).await;
        holds(&store, &known, &format!("{context}, without two")).await;
        Ran { met: met.get(), cuts: cuts.take() }
    })
}

/// AS-REPLACE-1, AS-CLEAN-4, AS-REC-1: sets are rebuilt while others, and the same ones, are emptied and written to.
/// All that was acknowledged is there, also after a power cut in the middle; parity is whole again, and the rebuild
/// goes on from there.
#[test]
fn a_rebuild_beside_three_cleaners_and_writers_loses_nothing() {
    let (mut met, mut cuts) = (0, 0);
    for seed in seeds(6) {
        let ran = run(seed);
        met += u64::from(ran.met > 0);
        for (number, (media, known)) in ran.cuts.into_iter().enumerate() {
            cuts += 1;
            let context = format!("seed {seed}, cut {number}");
            Sim::new(seed).run(move |rt| async move {
                rt.sleep(Duration::from_secs(3600)).await;
                let devices: Vec<SimDevice> = media.into_iter().map(|medium| SimDevice::resume(&rt, medium)).collect();
                let opened = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, of_test()).await;
                let (store, report) = opened.unwrap_or_else(|error| panic!("{context}: {error}"));
                assert_eq!(report.damage, Vec::<String>::new(), "{context}");
                let all = holds(&store, &known, &context).await;
                let known = Known { all, ..Known::default() };
                let (rebuilt, cleaned) = join(store.rebuild(RebuildOptions::default(), |_| {}), store.gc(8)).await;
                let rebuilt = rebuilt.unwrap_or_else(|error| panic!("{context}: rebuild: {error}"));
                assert_eq!(rebuilt.failed, 0, "{context}: {rebuilt:?}");
                cleaned.unwrap_or_else(|error| panic!("{context}: cleaning: {error}"));
                holds(&store, &known, &format!("{context}, rebuilt")).await;
            });
        }
    }
    println!("{met} runs, {cuts} cuts");
    assert!(met > 3 && cuts > 50 || std::env::var_os("SHINGLE_SEED").is_some(), "only {met} runs, {cuts} cuts");
}
