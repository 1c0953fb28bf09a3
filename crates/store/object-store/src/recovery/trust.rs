//! Decides if an index fits the drives.

use std::collections::BTreeSet;

use shingle_store_api::StoreResult;

use super::inventory::{FileRecords, Inventory};
use crate::errors::{invalid, unavailable};
use crate::index::{IndexErrorKind, IndexResult};
use crate::indexer::Owner;

/// Decision about the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    Keep,
    Rebuild,
}

pub(super) struct Verdict {
    pub(super) trust: Trust,
    /// The store set; none if neither drives nor index name one.
    pub(super) set: Option<u32>,
    /// Stores of the drives that the index knows.
    pub(super) stores: Vec<u64>,
    /// Reason why an existing index is not kept.
    pub(super) refused: Option<String>,
}

/// Compares whose the index is with whose the drives are.
///
/// # Errors
/// `Invalid` if drives of different stores were mixed, or the index is another store's; `Unavailable` if it cannot be read
/// now.
pub(super) fn judge(
    inventory: &Inventory,
    owner: &IndexResult<Option<Owner>>,
    stores: &BTreeSet<u64>,
    rebuild: bool,
) -> StoreResult<Verdict> {
    if inventory.sets.len() > 1 {
        return Err(invalid("the drives belong to different object stores; name only those of one"));
    }
    if let Some(file) = inventory.twice {
        return Err(invalid(format!("file {file} is on two drives: one is a copy of the other; name only one")));
    }
    let set = inventory.sets.keys().next().copied();
    let verdict = |trust, set, refused| Verdict { trust, set, stores: Vec::new(), refused };
    let owner = match owner {
        _ if rebuild => return Ok(verdict(Trust::Rebuild, set, None)),
        Err(error) if error.kind() == IndexErrorKind::Damaged => {
            return Ok(verdict(Trust::Rebuild, set, Some(error.to_string())));
        }
        // It may be as good as it was, and knows what the drives do not.
        Err(error) => return Err(unavailable(format!("the index cannot be read now: {error}"))),
        Ok(None) => return Ok(verdict(Trust::Rebuild, set, None)),
        Ok(Some(owner)) => owner,
    };
    let known = owner.stores.iter().any(|store| stores.contains(store));
    if set.is_some_and(|set| set != owner.set) || !known {
        return Err(invalid(
            "the index belongs to another object store; name its own directory, or rebuild the index in an empty one",
        ));
    }
    Ok(Verdict { trust: Trust::Keep, set: Some(owner.set), stores: owner.stores.clone(), refused: None })
}

/// Compares the files the index knows with those that are there.
///
/// An index may be older than the drives: what it lacks is scanned. But it never needs a file that is gone, since files are
/// deleted once the index, durably, does not need them. One that does is older than that, or the drives are; in either
/// case the drives decide. Ends of chunks that the index knows and the drive does not are another matter (OS-REC-3).
pub(super) fn compare(inventory: &Inventory, records: &FileRecords, stores: &BTreeSet<u64>) -> Result<(), String> {
    for (number, record) in records.iter().filter(|(_, record)| stores.contains(&record.store)) {
        let Some(found) = inventory.files.get(number) else {
            if record.dropping || record.live_bytes == 0 {
                continue;
            }
            return Err(format!("the index needs file {number}, which is not on its drive"));
        };
        let Some((first, _)) = found.chunks.first_key_value() else { continue };
        if *first > record.first && !record.dropping {
            return Err(format!("the index needs chunk {} of file {number}, which is not on its drive", record.first));
        }
    }
    Ok(())
}
