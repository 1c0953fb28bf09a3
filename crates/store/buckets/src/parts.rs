//! Parts of an upload, and which of them become the object.

use std::collections::BTreeMap;

use shingle_store_api::{CompletedPart, PartInfo, StoreError, StoreErrorKind, StoreResult};

use crate::attributes::Attributes;
use crate::errors::invalid;

/// Part numbers go to this.
const NUMBER_MAX: u32 = 10_000;

/// A part of an upload, whose bytes are a `B`.
#[derive(Clone, Debug)]
pub struct Part<B> {
    /// Its number, from 1.
    pub number: u32,
    /// Its length in bytes.
    pub size: u64,
    /// All that is stored with it.
    pub attributes: Attributes,
    /// Its bytes.
    pub blob: B,
}

impl<B> Part<B> {
    pub(crate) fn info(self) -> PartInfo {
        let Self { number, size, attributes: Attributes { modified_unix_ns, etag, metadata }, .. } = self;
        PartInfo { number, size, etag, modified_unix_ns, metadata }
    }
}

/// The parts of a completion.
#[derive(Debug)]
pub struct Chosen<B> {
    /// Parts of the object, in order.
    pub parts: Vec<Part<B>>,
    /// Parts that were sent and not named: they are not needed once the upload has ended.
    pub others: Vec<Part<B>>,
    /// Bytes in all.
    pub size: u64,
}

impl<B> Chosen<B> {
    /// The sizes of the parts, in order.
    pub fn sizes(&self) -> Vec<u64> {
        self.parts.iter().map(|part| part.size).collect()
    }
}

/// Fails if a part cannot have that number.
///
/// # Errors
/// `Invalid`.
pub(crate) fn check_number(number: u32) -> StoreResult<()> {
    if !(1..=NUMBER_MAX).contains(&number) {
        return Err(invalid(format!("part numbers go from 1 to {NUMBER_MAX}")));
    }
    Ok(())
}

/// Chooses the `wanted` ones, which are in order, of those that there are.
///
/// # Errors
/// `InvalidPart`; `PartTooSmall` where one that is not the last has fewer bytes than `bytes_min`; `TooLarge`.
pub(crate) fn choose<B>(have: Vec<Part<B>>, wanted: &[CompletedPart], bytes_min: u64) -> StoreResult<Chosen<B>> {
    let mut have: BTreeMap<u32, Part<B>> = have.into_iter().map(|part| (part.number, part)).collect();
    let find = |number: u32| have.remove(&number);
    let parts = CompletedPart::choose(wanted, bytes_min, find, |part| (part.attributes.etag.as_str(), part.size))?;
    let size = parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.size));
    let size = size.ok_or_else(|| StoreError::new(StoreErrorKind::TooLarge, "too many bytes"))?;
    Ok(Chosen { parts, others: have.into_values().collect(), size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u32, size: u64) -> Part<()> {
        let attributes = Attributes { etag: number.to_string(), ..Attributes::default() };
        Part { number, size, attributes, blob: () }
    }

    fn named(numbers: &[u32]) -> Vec<CompletedPart> {
        numbers.iter().map(|number| CompletedPart { number: *number, etag: number.to_string() }).collect()
    }

    #[test]
    fn parts_that_are_named_become_the_object_and_the_last_may_be_short() {
        let have = || vec![part(1, 9), part(2, 10), part(4, 1), part(7, u64::MAX)];
        let kind = |numbers: &[u32]| choose(have(), &named(numbers), 10).err().map(|error| error.kind);
        let chosen = choose(have(), &named(&[2, 4]), 10).unwrap();
        assert_eq!((chosen.size, chosen.sizes()), (11, vec![10, 1]));
        assert_eq!(chosen.others.iter().map(|part| part.number).collect::<Vec<_>>(), [1, 7]);
        assert_eq!(kind(&[1]), None);
        assert_eq!(kind(&[1, 2]), Some(StoreErrorKind::PartTooSmall));
        assert_eq!(kind(&[2, 3]), Some(StoreErrorKind::InvalidPart));
        assert_eq!(kind(&[2, 7]), Some(StoreErrorKind::TooLarge));
        let other = vec![CompletedPart { number: 2, etag: "1".to_owned() }];
        assert_eq!(choose(have(), &other, 10).unwrap_err().kind, StoreErrorKind::InvalidPart);
        for (number, taken) in [(0, false), (1, true), (10_000, true), (10_001, false)] {
            assert_eq!(check_number(number).is_ok(), taken);
        }
    }
}
