//! The chunks in a zone. A zone of large chunks has few, so a few need no memory of their own.

use std::ops::Deref;

use crate::index::Handle;

/// Handles in no order, one for each group.
#[derive(Clone, Debug)]
pub(crate) enum Residents {
    /// Those before the first [`NONE`].
    Few([Handle; FEW]),
    Many(Vec<Handle>),
}

const FEW: usize = 4;

/// No chunk's handle: a table of so many would not fit into memory.
const NONE: Handle = Handle::MAX;

const _: () = assert!(size_of::<Residents>() == 24);

impl Default for Residents {
    fn default() -> Self {
        Self::Few([NONE; FEW])
    }
}

impl Deref for Residents {
    type Target = [Handle];

    fn deref(&self) -> &[Handle] {
        match self {
            Self::Few(few) => few.split(|&handle| handle == NONE).next().unwrap_or_default(),
            Self::Many(many) => many,
        }
    }
}

impl Residents {
    pub(crate) fn push(&mut self, chunk: Handle) {
        match self {
            Self::Few(few) => match few.iter().position(|&handle| handle == NONE) {
                Some(free) => few[free] = chunk,
                None => {
                    let mut many = Vec::with_capacity(2 * FEW);
                    many.extend(*few);
                    many.push(chunk);
                    *self = Self::Many(many);
                }
            },
            Self::Many(many) => {
                if many.len() == many.capacity() {
                    many.reserve_exact((many.len() / 4).max(FEW));
                }
                many.push(chunk);
            }
        }
    }

    /// Takes out one entry of `chunk`, and says whether there was one.
    pub(crate) fn remove(&mut self, chunk: Handle) -> bool {
        let Some(at) = self.iter().position(|&handle| handle == chunk) else { return false };
        let last = self.len() - 1;
        match self {
            Self::Few(few) => {
                few.swap(at, last);
                few[last] = NONE;
            }
            Self::Many(many) => {
                many.swap_remove(at);
                if last <= FEW / 2 {
                    let mut few = [NONE; FEW];
                    few[..last].copy_from_slice(many);
                    *self = Self::Few(few);
                }
            }
        }
        true
    }

    /// Takes out one entry for each of `gone`, which is in order, in one pass: a zone that GC empties loses all of what
    /// may be tens of thousands. Returns how many there were.
    pub(crate) fn remove_all(&mut self, gone: &[Handle]) -> usize {
        let before = self.len();
        let mut left: Vec<Handle> = self.to_vec();
        left.sort_unstable();
        let mut gone = gone.iter().copied().peekable();
        left.retain(|&handle| {
            while gone.next_if(|&other| other < handle).is_some() {}
            gone.next_if_eq(&handle).is_none()
        });
        let removed = before - left.len();
        *self = Self::default();
        match left.len() {
            0..=FEW => left.into_iter().for_each(|handle| self.push(handle)),
            _ => *self = Self::Many(left.into_boxed_slice().into_vec()),
        }
        removed
    }

    /// Bytes of memory beside the value itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        if let Self::Many(many) = self { many.capacity() * size_of::<Handle>() } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_sim::Random;

    #[test]
    fn many_are_taken_out_as_one_by_one() {
        for seed in 1..=200 {
            let mut random = Random::new(seed);
            let (mut residents, mut one_by_one) = (Residents::default(), Residents::default());
            for _ in 0..random.below(20) {
                let chunk = random.below(8) as Handle;
                residents.push(chunk);
                one_by_one.push(chunk);
            }
            let mut gone: Vec<Handle> = (0..random.below(15)).map(|_| random.below(10) as Handle).collect();
            gone.sort_unstable();
            let removed = gone.iter().filter(|&&chunk| one_by_one.remove(chunk)).count();
            assert_eq!(residents.remove_all(&gone), removed, "seed {seed}");
            let (mut found, mut wanted) = (residents.to_vec(), one_by_one.to_vec());
            found.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "seed {seed}");
        }
    }

    #[test]
    fn they_are_what_was_put_in_and_not_taken_out() {
        for seed in 1..=20 {
            let mut random = Random::new(seed);
            let (mut residents, mut expected) = (Residents::default(), Vec::new());
            for _ in 0..400 {
                let chunk = random.below(12) as Handle;
                if random.chance(0.5) {
                    residents.push(chunk);
                    expected.push(chunk);
                } else {
                    let at = expected.iter().position(|&handle| handle == chunk);
                    assert_eq!(residents.remove(chunk), at.is_some(), "seed {seed}");
                    at.map(|at| expected.swap_remove(at));
                }
                let (mut found, mut wanted) = (residents.to_vec(), expected.clone());
                found.sort_unstable();
                wanted.sort_unstable();
                assert_eq!(found, wanted, "seed {seed}");
            }
        }
    }
}
