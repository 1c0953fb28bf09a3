//! ST-SHADOW-1 and ST-SHADOW-2: histories of a sound disk through power cuts are taken, and those of broken ones are not.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_sim::{Random, Sim, seeds};
use shingle_store_testing::blocks::{BlockDriver, BlockShadow, Mix};

use crate::disk::{Contents, Defect, Disk};

/// Sectors, and bytes of a sector.
const SIZES: [(u64, u64); 3] = [(300, 4096), (2000, 512), (6000, 512)];

const LIVES: u64 = 5;

/// A chain of lives, each with a history that the power ends; forks of the shadow are held against images of other instants.
fn chain(seed: u64, defect: Option<Defect>, steady_trims: bool) -> Result<(), String> {
    let mut random = Random::new(seed);
    let size = SIZES[random.below(3) as usize];
    let shadow = BlockShadow::new(size.0, size.1);
    let shadow = if steady_trims { shadow.with_steady_trims() } else { shadow };
    let contents = Rc::new(RefCell::new(Contents::default()));
    for life in 0..LIVES {
        let mix = Mix { access_bytes_max: 64 << 10, ..Mix::draw(&mut random) };
        let ends_after = Duration::from_micros(random.between(100, 15_000));
        let (its_shadow, its_contents, drawn) = (shadow.clone(), contents.clone(), Random::new(random.number()));
        let forks = Sim::new(seed * 100 + life).run(move |rt| async move {
            let store = Rc::new(Disk::new(&rt, size, its_contents.clone(), defect));
            its_shadow.verify(&*store).await?;
            let (rt_of_driver, shadow) = (rt.clone(), its_shadow.clone());
            let mut driver = BlockDriver { rt: rt_of_driver, store, shadow, random: drawn, mix };
            let mut forks = Vec::new();
            let forking = async {
                for _ in 0..3 {
                    rt.sleep(ends_after / 3).await;
                    forks.push((its_shadow.fork(), its_contents.borrow().clone()));
                }
            };
            match select(pin!(driver.run_well(400)), pin!(forking)).await {
                Either::Left((done, _)) => done.map(drop)?,
                Either::Right(((), _)) => {}
            }
            Ok::<_, String>(forks)
        })?;
        for (shadow, mut contents) in forks {
            contents.power_cut(&mut random, defect);
            opened(seed, size, shadow, contents, defect)?;
        }
        contents.borrow_mut().power_cut(&mut random, defect);
        shadow.cut();
    }
    Ok(())
}

/// A fork after its power cut, twice.
fn opened(
    seed: u64,
    size: (u64, u64),
    shadow: BlockShadow,
    contents: Contents,
    defect: Option<Defect>,
) -> Result<(), String> {
    shadow.cut();
    let contents = Rc::new(RefCell::new(contents));
    for life in 0..2 {
        let (shadow, contents) = (shadow.clone(), contents.clone());
        let verified = Sim::new(seed + life).run(move |rt| async move {
            let disk = Disk::new(&rt, size, contents.clone(), defect);
            shadow.verify(&disk).await?;
            contents.borrow_mut().power_cut(&mut Random::new(seed), defect);
            shadow.cut();
            Ok::<_, String>(())
        });
        verified?;
    }
    Ok(())
}

/// ST-SHADOW-1
#[test]
fn a_sound_disk_is_never_refused() {
    for seed in seeds(60) {
        chain(seed, None, seed % 2 == 0).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
}

/// ST-SHADOW-2: calls of a life that is over promise nothing.
#[test]
fn a_call_that_ends_after_the_cut_is_not_counted() {
    let shadow = BlockShadow::new(10, 512);
    let write = shadow.begin_write(0..1, shingle_store_api::Durability::Durable);
    let read = shadow.begin_read(0..1);
    shadow.cut();
    write.completed();
    read.completed(&[1; 512]).unwrap();
    shadow.begin_read(0..1).completed(&[0; 512]).unwrap();
    assert_eq!(shadow.unsettled(), 0);
}

fn is_found(defect: Defect, steady_trims: bool) -> bool {
    (1..=40).any(|seed| chain(seed, Some(defect), steady_trims).is_err())
}

/// Each within few chains of lives, by the shadow alone.
#[test]
fn each_defect_is_found() {
    use Defect::*;
    let defects = [
        DurableIsCached,
        FlushDoesNothing,
        FlushForgetsSome,
        ShowsOlder,
        AnswersEarly,
        TearsSectors,
        TearsInCuts,
        Misplaces,
        OrdersTwice,
        FlushesBackwards,
        TrimsLate,
        ZerosEndEarly,
        CallsDataUnmapped,
    ];
    let missed: Vec<_> = defects.into_iter().filter(|defect| !is_found(*defect, false)).collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

/// The contract lets trimmed bytes come and go; stores that promise more are held to it.
#[test]
fn trims_that_come_and_go_are_refused_where_they_are_steady() {
    assert!(is_found(Defect::TrimsComeAndGo, true));
    assert!(!is_found(Defect::TrimsComeAndGo, false));
}
