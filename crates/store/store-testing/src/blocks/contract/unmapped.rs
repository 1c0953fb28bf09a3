//! Trims, zeros, and questions for what is mapped.

use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_sim::Random;
use shingle_store_api::{BlockStore, Durability};

use super::shadow_of;

const CACHED: Durability = Durability::Cached;
const DURABLE: Durability = Durability::Durable;

/// In the middle of a write, across two, and where nothing was.
pub async fn trimmed_sectors_read_as_before_or_as_zeros_until_they_are_written(
    _rt: Runtime,
    store: Rc<dyn BlockStore>,
) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    shadow.write(store, 0..50, CACHED).await.unwrap();
    shadow.write(store, 50..100, DURABLE).await.unwrap();
    for range in [10..20, 45..55, 90..130, 0..1, 200..300, 12..14] {
        shadow.trim(store, range).await.unwrap();
        shadow.read(store, 0..150).await.unwrap();
    }
    shadow.write(store, 15..16, CACHED).await.unwrap();
    shadow.write(store, 48..97, CACHED).await.unwrap();
    shadow.read(store, 0..150).await.unwrap();
    shadow.flush(store).await.unwrap();
    shadow.verify(store).await.unwrap();
}

/// Over data, trims and nothing, until they are written again.
pub async fn zeros_are_read_where_zeros_were_written(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    let sectors = shadow.sectors();
    for durability in [CACHED, DURABLE] {
        shadow.write(store, 0..200, CACHED).await.unwrap();
        shadow.trim(store, 100..120).await.unwrap();
        for range in [0..1, 10..60, 90..130, 199..202, sectors - 3..sectors] {
            shadow.write_zeros(store, range.clone(), durability).await.unwrap();
            shadow.read(store, range.clone()).await.unwrap();
            shadow.mapped(store, range, 4).await.unwrap();
        }
        shadow.write(store, 20..21, durability).await.unwrap();
        shadow.read(store, 0..210).await.unwrap();
    }
    // More than a store may do at once.
    shadow.write_zeros(store, 0..sectors, CACHED).await.unwrap();
    shadow.verify(store).await.unwrap();
}

/// At most as many as were asked for; those that are not mapped read as zeros.
pub async fn mapped_runs_cover_an_access_from_its_start(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    for sector in (0..120).step_by(7) {
        shadow.write(store, sector..sector + 1 + sector % 4, CACHED).await.unwrap();
    }
    shadow.trim(store, 40..60).await.unwrap();
    shadow.write_zeros(store, 70..80, DURABLE).await.unwrap();
    let mut random = Random::new(3);
    for runs_max in [1, 2, 3, 5, 100, usize::MAX] {
        shadow.mapped(store, 0..shadow.sectors(), runs_max).await.unwrap();
        for _ in 0..30 {
            let first = random.below(150);
            shadow.mapped(store, first..first + random.between(1, 100), runs_max).await.unwrap();
        }
    }
}

/// However few are asked for, the same sectors are mapped.
pub async fn all_runs_are_found_by_going_on_where_an_answer_ended(_rt: Runtime, store: Rc<dyn BlockStore>) {
    let (store, shadow) = (&*store, shadow_of(&*store));
    let sector = shadow.sector_bytes();
    for first in (5..200).step_by(11) {
        shadow.write(store, first..first + first % 5 + 1, CACHED).await.unwrap();
    }
    let end = 256 * sector;
    let mut answers = Vec::new();
    for runs_max in [1, 3, 1000] {
        let (mut at, mut mapped) = (0, vec![false; 256]);
        while at < end {
            let runs = store.mapped(at, end - at, runs_max).await.unwrap();
            assert!(!runs.is_empty() && runs.len() <= runs_max, "{} runs of {runs_max}", runs.len());
            for run in runs {
                assert!(run.offset == at && run.length >= sector && run.length <= end - at, "{run:?} at {at}");
                let sectors = run.offset / sector..(run.offset + run.length) / sector;
                mapped[sectors.start as usize..sectors.end as usize].fill(run.mapped);
                at += run.length;
            }
        }
        answers.push(mapped);
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "the mapped sectors depend on the number of runs");
    let written = (5..200).step_by(11).flat_map(|first| first..first + first % 5 + 1);
    let missing: Vec<usize> = written.filter(|sector| !answers[0][*sector]).collect();
    assert!(missing.is_empty(), "sectors {missing:?} were written and are not mapped");
}
