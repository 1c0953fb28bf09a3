//! Cost of cleaning: the paper's mix of sizes, in little. (SMORE, section V-E and Figure 6.)
//!
//! Sizes are those of the paper divided by 256, and so are segments; zones are shorter still. `smore-wa` in the lab has
//! the paper's own.

use std::rc::Rc;

use bytes::Bytes;
use shingle_array_store::{ArrayDrive, ArrayStore, CleaningPolicy, ErrorKind, FormatOptions, IndexPlace, Options};
use shingle_base::Blocks;
use shingle_erasure::Code;
use shingle_sim::{Random, Sim};
use shingle_zoned::{Geometry, MemoryDevice};

const MEBIBYTE: f64 = 1_048_576.0 / 256.0;

/// Truncated log-normal: half below 128 MB, most between 16 and 512 MB, none below 1 MB or above 10 GB.
fn size(random: &mut Random) -> u64 {
    loop {
        let uniform = |random: &mut Random| (random.below(1 << 52) as f64 + 0.5) / (1u64 << 52) as f64;
        let (a, b) = (uniform(random), uniform(random));
        let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        let size = 128.0 * (1.2 * normal).exp();
        if (1.0..=10_240.0).contains(&size) {
            return (size * MEBIBYTE) as u64;
        }
    }
}

/// Bytes written for each byte that was put, without parity, at `share` of what the array holds, deleting at random.
/// With `skewed`, one object in five of those that fill it, and nine in ten of later ones, are deleted ten times as
/// likely.
fn amplification(cleaning: CleaningPolicy, share: f64, skewed: bool) -> f64 {
    Sim::new(1).run(move |rt| async move {
        let geometry = Geometry::hm_smr(Blocks(256), 82, 0, 12);
        let device = |_| Rc::new(MemoryDevice::metadata_only(geometry.clone(), shingle_record::keep_metadata));
        let drives: Vec<ArrayDrive> = (0..6).map(|at| ArrayDrive { name: format!("{at}"), dev: device(at) }).collect();
        let format = FormatOptions { segment_length: 80 << 10, ..FormatOptions::new(Code::new(5, 1).unwrap()) };
        shingle_array_store::format(&rt, &drives, &format).await.unwrap();
        let options = Options { cleaning, coalesce: false, background: false, ..Options::default() };
        let (store, _) = ArrayStore::open(&rt, &drives, &IndexPlace::Memory, options).await.unwrap();
        let mut random = Random::new(1);
        let zeros = Bytes::from(vec![0; 1 << 20]);
        // Short-lived ones and others: names and sizes.
        let mut objects: [Vec<(u64, u64)>; 2] = Default::default();
        let (mut live, mut number, mut written, mut room) = (0, 0, 0, u64::MAX);
        let mut measured_from = None;
        loop {
            let size = size(&mut random);
            let target = (room as f64 * share) as u64;
            while room < u64::MAX && live + size > target {
                let kind = usize::from(!(skewed && random.chance(0.9)));
                let kind = if objects[kind].is_empty() { 1 - kind } else { kind };
                let at = random.below(objects[kind].len() as u64) as usize;
                let (name, size) = objects[kind].swap_remove(at);
                assert!(store.delete(format!("{name}")).await.unwrap());
                live -= size;
            }
            number += 1;
            let mut put = store.begin_put(format!("{number}")).unwrap();
            let mut left = size;
            let result = loop {
                let piece = left.min(zeros.len() as u64);
                if piece == 0 {
                    break put.finish(Bytes::new()).await.map(drop);
                }
                if let Err(error) = put.write(zeros.slice(..piece as usize)).await {
                    break Err(error);
                }
                left -= piece;
            };
            match result {
                Ok(()) => {
                    let short_lived = random.chance(if room == u64::MAX { 0.2 } else { 0.9 });
                    objects[usize::from(!(skewed && short_lived))].push((number, size));
                    (live, written) = (live + size, written + size);
                }
                Err(error) if error.kind == ErrorKind::NoSpace && room == u64::MAX => (room, written) = (live, 0),
                Err(error) => panic!("{error}: {:?}", store.stats()),
            }
            let stats = store.stats().unwrap();
            match measured_from {
                // The first rounds bring it from full to how it goes on.
                None if room < u64::MAX && written > 2 * room => measured_from = Some((stats.ingested, stats.moved)),
                Some((ingested, moved)) if written > 4 * room => {
                    return 1.0 + (stats.moved - moved) as f64 / (stats.ingested - ingested) as f64;
                }
                _ => {}
            }
        }
    })
}

#[test]
fn moves_no_more_than_the_goals_allow() {
    for (share, goal) in [(0.8, 1.6), (0.9, 2.5)] {
        let found = amplification(CleaningPolicy::Greedy, share, false);
        println!("greedy, {share} full: {found:.2}");
        assert!(found > 1.0 && found < goal, "{found} at {share}");
    }
}

#[test]
fn lifetimes_that_differ_are_used() {
    let greedy = amplification(CleaningPolicy::Greedy, 0.85, true);
    let lifetime = amplification(CleaningPolicy::Lifetime, 0.85, true);
    println!("skewed, 0.85 full: greedy {greedy:.2}, lifetime {lifetime:.2}");
    assert!(lifetime < greedy, "{lifetime} is not less than {greedy}");
}
