//! BLU-MAP-1: a model of bytes, each of which knows blob and place.

use std::cell::RefCell;
use std::rc::Rc;

use shingle_sim::{Random, seeds};

use super::*;
use crate::blob::packing::Packing;

fn blob(raw: u32) -> Rc<Blob> {
    let checks = vec![0; raw.div_ceil(4096) as usize];
    Rc::new(Blob { raw, stored: raw, packing: Packing::Plain, unit_shift: 0, checks, state: RefCell::default() })
}

type Byte = Option<(*const Blob, u32)>;

fn bytes(extents: &Extents) -> Vec<Byte> {
    let mut bytes = vec![None; SHARD as usize];
    for extent in extents.iter() {
        for number in 0..extent.length {
            let byte = &mut bytes[(extent.at + number) as usize];
            assert!(byte.is_none(), "extents overlap");
            *byte = Some((Rc::as_ptr(&extent.blob), extent.from + number));
        }
    }
    bytes
}

#[test]
fn random_changes_are_those_of_the_model() {
    for seed in seeds(10) {
        let mut random = Random::new(seed);
        let (mut extents, mut model) = (Extents::default(), vec![None; SHARD as usize]);
        let mut blobs = Vec::new();
        for _ in 0..40 {
            let at = random.below(u64::from(SHARD) - 1) as u32;
            let length = (1 + random.below(60_000) as u32).min(SHARD - at);
            let before = extents.clone();
            if random.chance(0.7) {
                let blob = blob(length + 10);
                blobs.push(blob.clone());
                let new = Extent { at, length, blob: blob.clone(), from: 10 };
                extents = extents.with(&[new]);
                for number in 0..length {
                    model[(at + number) as usize] = Some((Rc::as_ptr(&blob), 10 + number));
                }
            } else {
                extents = extents.punched(&(at..at + length));
                model[at as usize..(at + length) as usize].fill(None);
            }
            assert!(bytes(&extents) == model, "seed {seed}");
            let again = Extents::checked(0, extents.iter().cloned().collect()).expect("BLU-MAP-1");
            assert!(bytes(&again) == model, "seed {seed}");
            let range = at.saturating_sub(1000)..(at + length + 1000).min(SHARD);
            let parts = Extents(extents.parts(range.clone()));
            for (number, byte) in bytes(&parts).into_iter().enumerate() {
                let inside = range.contains(&(number as u32));
                assert!(byte == if inside { model[number] } else { None }, "seed {seed}");
            }
            for change in changes(&before, &extents) {
                let needed = |extents: &Extents| {
                    let of = extents.iter().filter(|extent| Rc::ptr_eq(&extent.blob, &change.blob));
                    of.map(|extent| extent.blob.needed(extent.content())).collect()
                };
                assert_eq!((&change.before, &change.after), (&needed(&before), &needed(&extents)), "seed {seed}");
            }
        }
    }
}

#[test]
fn extents_from_outside_are_checked() {
    let of = |at, length, from| Extent { at, length, blob: blob(100), from };
    assert!(Extents::checked(0, vec![of(0, 10, 0), of(10, 10, 90)]).is_some());
    for bad in [
        vec![of(0, 0, 0)],
        vec![of(5, 10, 0), of(10, 1, 0)],
        vec![of(0, 10, 91)],
        vec![of(SHARD - 1, 2, 0)],
        vec![of(u32::MAX, 2, 0)],
    ] {
        assert!(Extents::checked(0, bad).is_none());
    }
    assert!(Extents::checked(1, vec![of(0, 10, 0)]).is_none() && Extents::checked(u32::MAX, Vec::new()).is_none());
    let cut: Vec<_> = by_shard(SHARD - 5..SHARD + 7).collect();
    assert_eq!(cut, [(0, SHARD - 5..SHARD), (1, SHARD..SHARD + 7)]);
    assert_eq!(by_shard(9..9).count(), 0);
}
