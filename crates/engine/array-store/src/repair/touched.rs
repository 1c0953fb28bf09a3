//! Objects that damage touches: from places in zone sets to names.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use bytes::Bytes;
use shingle_runtime::Rests;
use shingle_store_api::{Finding, NAMES_MAX, Touched};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::object::own_names::is_own;
use crate::types::{PartPlace, SetId};

/// Parts of the index that are looked at in one step.
const STEP: usize = 4096;

/// Names of objects as they lie in the array.
pub(crate) type Names = BTreeSet<Bytes>;

/// Sets whose contents cannot be told from what lies there, and why.
pub(crate) type Unlisted = Vec<(SetId, String)>;

impl Engine {
    /// Names for a report; each object once.
    pub(crate) fn touched<'a>(&self, names: impl Iterator<Item = &'a Bytes>) -> Result<Touched> {
        let mut touched = Touched::default();
        for (number, name) in names.filter(|name| !is_own(name)).enumerate() {
            match number < NAMES_MAX {
                true => touched.first.push(self.named(name)?),
                false => touched.more += 1,
            }
        }
        Ok(touched)
    }

    /// The sets whose contents cannot be told, with the objects that the index has in them; others may have been there. With
    /// each, if it may return. One pass over the index is for all of them.
    pub(crate) async fn name_unlisted(
        self: &Rc<Self>,
        unlisted: Unlisted,
        gently: bool,
    ) -> Result<Vec<(Finding, bool)>> {
        if unlisted.is_empty() {
            return Ok(Vec::new());
        }
        let mut known: BTreeMap<SetId, (Vec<Bytes>, u64)> = BTreeMap::new();
        known.extend(unlisted.iter().map(|(id, _)| (*id, Default::default())));
        let (mut rests, mut after) = (Rests::new(&self.rt, gently), None);
        let mut last: BTreeMap<SetId, Bytes> = BTreeMap::new();
        loop {
            self.running()?;
            let look = |name: &[u8], _, _, place: &PartPlace| {
                let Some((first, more)) = known.get_mut(&place.set) else { return };
                // They come by name: one that was there before was the last.
                if is_own(name) || last.get(&place.set).is_some_and(|last| last == name) {
                    return;
                }
                let name = Bytes::copy_from_slice(name);
                last.insert(place.set, name.clone());
                if first.len() < NAMES_MAX { first.push(name) } else { *more += 1 }
            };
            after = self.index()?.for_parts_behind(after.as_ref(), STEP, look).map_err(Error::index)?;
            if after.is_none() {
                break;
            }
            self.rt.yield_now().await;
            rests.rest().await;
        }
        let found = unlisted.into_iter().map(|(id, why)| {
            let (first, more) = known.get(&id).cloned().unwrap_or_default();
            let objects = Touched { more, untold: true, ..self.touched(first.iter())? };
            Ok((Finding::at(format_args!("{id}: {why}"), objects), self.may_return(id)))
        });
        found.collect()
    }
}
