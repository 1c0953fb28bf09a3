//! AS-IX-3, and that what is loaded is what was saved.

use bytes::Bytes;
use shingle_sim::{Random, seeds};

use super::{Folder, Model, any_change, moment, put, put_last};
use crate::index::{Change, Index, IndexError, IndexResult, Loader, PartKey, Snapshot};
use crate::types::{Completion, PartPlace, SetId, Version};

fn chunks(mut snapshot: Snapshot, max_bytes: usize) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| snapshot.next_chunk(max_bytes).unwrap()).collect()
}

fn loaded(chunks: &[Vec<u8>]) -> IndexResult<Index> {
    let mut loader = Loader::new(Index::memory()?)?;
    for chunk in chunks {
        loader.add(chunk)?;
    }
    loader.finish()
}

fn refused(chunks: &[Vec<u8>], about: &str) {
    let error = loaded(chunks).err().unwrap_or_else(|| panic!("{about} was taken"));
    assert!(matches!(error, IndexError::Malformed(_)), "{about}: {error}");
}

fn filled(seed: u64) -> (Index, Model) {
    let (index, mut model, mut random) = (Index::memory().unwrap(), Model::default(), Random::new(seed));
    let changes: Vec<_> = (0..random.below(300)).map(|stamp| any_change(&mut random, stamp)).collect();
    index.apply(&changes).unwrap();
    model.apply(&changes);
    (index, model)
}

#[test]
fn what_is_loaded_is_what_was_saved() {
    for seed in seeds(40) {
        let (index, model) = filled(seed);
        for max_bytes in [0, 100, 1000, 1 << 20] {
            let chunks = chunks(index.snapshot().unwrap(), max_bytes);
            assert!(max_bytes < 1000 || chunks.iter().all(|chunk| chunk.len() <= max_bytes), "seed {seed}");
            model.check(&loaded(&chunks).unwrap(), &format!("seed {seed}, chunks of {max_bytes}"));
        }
    }
}

#[test]
fn a_loaded_index_goes_on() {
    let folder = Folder::new("loaded");
    let path = folder.0.join("index");
    let (index, mut model) = filled(3);
    let mut loader = Loader::new(Index::create(&path).unwrap()).unwrap();
    for chunk in chunks(index.snapshot().unwrap(), 500) {
        loader.add(&chunk).unwrap();
    }
    let index = loader.finish().unwrap();
    let mut random = Random::new(4);
    let changes: Vec<_> = (300..500).map(|stamp| any_change(&mut random, stamp)).collect();
    assert_eq!(index.apply(&changes).unwrap(), model.apply(&changes));
    index.close_clean(moment(1)).unwrap();
    model.check(&Index::open_clean(&path, moment(1)).unwrap().unwrap(), "closed and opened");
}

/// AS-IX-3.
#[test]
fn a_snapshot_is_a_moment() {
    for seed in seeds(20) {
        let (index, model) = filled(seed);
        let mut later = model.clone();
        let mut snapshot = index.snapshot().unwrap();
        let mut random = Random::new(seed + 1000);
        let mut chunks = Vec::new();
        // Changes between all chunks, those to what was read already among them.
        while let Some(chunk) = snapshot.next_chunk(200).unwrap() {
            chunks.push(chunk);
            let changes: Vec<_> = (0..20).map(|step| any_change(&mut random, 1000 + step)).collect();
            index.apply(&changes).unwrap();
            later.apply(&changes);
        }
        model.check(&loaded(&chunks).unwrap(), &format!("seed {seed}, the snapshot"));
        later.check(&index, &format!("seed {seed}, the index"));
    }
}

#[test]
fn a_snapshot_that_is_not_whole_is_refused() {
    let (index, _) = filled(5);
    let good = chunks(index.snapshot().unwrap(), 300);
    assert!(good.len() > 5);
    for left_out in 0..good.len() {
        let mut some = good.clone();
        some.remove(left_out);
        refused(&some, &format!("a snapshot without chunk {left_out}"));
    }
    let mut swapped = good.clone();
    swapped.swap(1, 2);
    refused(&swapped, "a snapshot out of order");
    let mut more = good.clone();
    more.push(good[0].clone());
    refused(&more, "a chunk behind the end");
    let full = loaded(&good).unwrap();
    assert!(matches!(Loader::new(full), Err(IndexError::Malformed(_))));
}

/// Nothing panics; what is taken despite the damage (numbers may be others) can be saved and loaded again.
#[test]
fn garbage_is_refused() {
    let (index, _) = filled(6);
    let good = chunks(index.snapshot().unwrap(), 2000);
    let mut taken = 0;
    for seed in seeds(1500) {
        let mut random = Random::new(seed);
        let mut bad = good.clone();
        let at = random.below(bad.len() as u64) as usize;
        let chunk = &mut bad[at];
        match random.below(5) {
            0 => chunk.truncate(random.below(chunk.len() as u64) as usize),
            1 => chunk.extend(random.bytes(5)),
            2 => {
                let from = random.below(chunk.len() as u64) as usize;
                let length = random.below(20) as usize;
                chunk.splice(from..(from + length).min(good[at].len()), random.bytes(length));
            }
            3 => {
                let place = random.below(chunk.len() as u64) as usize;
                chunk[place] ^= 1 << random.below(8);
            }
            _ => *chunk = [&chunk[..10.min(chunk.len())], &random.bytes(300)].concat(),
        }
        match loaded(&bad) {
            Ok(index) => {
                taken += 1;
                let again = chunks(index.snapshot().unwrap(), 2000);
                loaded(&again).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            }
            Err(IndexError::Malformed(_)) => {}
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    assert!(taken > 0, "the damage is so coarse that no check but the first is reached");
}

/// The format, byte for byte: `docs/formats/array-snapshot.md`.
#[test]
fn golden_bytes() {
    let index = Index::memory().unwrap();
    index.apply(&[put("ab", 256, 0, 300), put_last("ab", 256, 10, 301), put("ab", 512, 5, 400)]).unwrap();
    index.apply(&[put_last("ac", 256, 0, 1)]).unwrap();
    let hex = |chunk: &Vec<u8>| chunk.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let found: Vec<_> = chunks(index.snapshot().unwrap(), 1 << 20).iter().map(hex).collect();
    assert_eq!(
        found,
        [
            concat!(
                "53484741495330310100",
                "000002616200010000000000000006ac025813090a",
                "070000ad025a13090a",
                "0100020000000000000a019003df0113090a",
                "040101630001000000000000000101fd0313090a"
            ),
            concat!(
                "53484741495330310201",
                "000261620001000000000000141061747472696275746573206f66203230",
                "01016300010000000000000a1061747472696275746573206f66203130"
            ),
            "534847414953303103020402"
        ]
    );
}

#[test]
fn an_empty_index_has_a_snapshot_too() {
    let empty = chunks(Index::memory().unwrap().snapshot().unwrap(), 1000);
    assert_eq!(empty.len(), 1);
    Model::default().check(&loaded(&empty).unwrap(), "empty");
}

/// Prints how long writers wait for a chunk of a snapshot of 50 TB in segments of 20 MiB, 2.5 million parts, and how
/// long an opening takes with it. Minutes in a release build.
#[test]
#[ignore = "a measurement: cargo test --release -p shingle-array-store --lib -- --ignored --nocapture chunks_of_a_large"]
fn chunks_of_a_large_index_take_how_long() {
    const PARTS: u64 = 2_500_000;
    shingle_runtime::real::run(|rt| async move {
        let index = Index::memory().unwrap();
        let part = |number: u64| {
            let name = Bytes::from(format!("collection/{:016x}/object", number.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
            let place = PartPlace {
                set: SetId((number / 64) as u32),
                block: 1000,
                stamp: number + 1,
                segment_length: 20 << 20,
                at: 0,
                length: 20 << 20,
                last: true,
            };
            let completion = Some(Completion { size: 20 << 20, attributes: Bytes::from_static(&[7; 60]) });
            Change::Put { key: PartKey { name, version: Version(number), offset: 0 }, place, completion }
        };
        for first in (0..PARTS).step_by(10_000) {
            index.apply(&(first..first + 10_000).map(part).collect::<Vec<_>>()).unwrap();
        }
        let began = rt.now();
        let mut view = index.snapshot().unwrap();
        let (mut longest, mut bytes, mut chunks, mut kept) = (rt.now().since(began), 0, Vec::new(), Vec::new());
        loop {
            let began = rt.now();
            let chunk = view.next_chunk(128 << 10).unwrap();
            let took = rt.now().since(began);
            longest = longest.max(took);
            chunks.push(took);
            match chunk {
                Some(chunk) => {
                    bytes += chunk.len();
                    kept.push(chunk);
                }
                None => break,
            }
        }
        chunks.sort();
        let total = rt.now().since(began);
        println!(
            "{} chunks, {bytes} bytes in {total:?}; a chunk: median {:?}, 99.9 % {:?}, longest {longest:?}",
            chunks.len(),
            chunks[chunks.len() / 2],
            chunks[chunks.len() * 999 / 1000]
        );
        // As an opening does: the snapshot is loaded, then all parts are gone through twice.
        let began = rt.now();
        let from_snapshot = loaded(&kept).unwrap();
        let loading = rt.now().since(began);
        let (began, mut parts) = (rt.now(), 0);
        from_snapshot.for_each_part(|_, _, _, _| parts += 1).unwrap();
        println!("loading {loading:?}; a pass over {parts} parts {:?}", rt.now().since(began));
        assert_eq!(parts, PARTS);
    })
    .unwrap();
}
