//! Looking at a whole array without changing it: does everything that the index names lie where it says, whole?

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use shingle_runtime::Runtime;
use shingle_store_api::{Finding, Touched};

use crate::buffer::BUFFER_SET;
use crate::config::Options;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::ItemBody;
use crate::given::{ArrayDrive, IndexPlace};
use crate::index::PartKey;
use crate::object::naming::Naming;
use crate::recovery::examine::{Examined, Holds};
use crate::repair::scrub::{ScrubOptions, ScrubReport};
use crate::store::ArrayStore;
use crate::types::{PartPlace, SetId};

/// Findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Objects.
    pub objects: u64,
    /// Zone sets that hold something.
    pub sets: usize,
    /// Bytes that were read and verified.
    pub bytes: u64,
    /// Drives that are missing or out of use, by name: what they held is computed from the others.
    pub missing_drives: Vec<String>,
    /// Files of the buffer that are not there or old, in words: the other has all that is needed.
    pub buffer: Vec<String>,
    /// Zones that cannot be read, or not as they were written, and that a scrub can replace.
    pub repairable: Vec<Finding>,
    /// Losses.
    pub lost: Vec<Finding>,
    /// Contents that cannot be read as long as drives are away which were not given up: they may bring it back.
    pub away: Vec<Finding>,
}

impl CheckReport {
    /// Nothing is damaged, and all can be read; drives may be missing.
    pub fn clean(&self) -> bool {
        self.repairable.is_empty() && self.lost.is_empty() && self.away.is_empty()
    }
}

/// Options of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Only see that everything is there.
    pub quick: bool,
    /// The files of the array's buffer, if it has one: as [`Options::buffer`].
    pub buffer: Option<[PathBuf; 2]>,
    /// Go on where the buffer is lost: as [`Options::abandon_buffer`].
    pub abandon_buffer: bool,
    /// Display of objects' names: as [`Options::naming`].
    pub naming: Naming,
}

/// Builds the index of an array from its drives alone, holds it against what lies there, and verifies every byte unless
/// it is to be quick. Writes nothing.
///
/// # Errors
/// As [`ArrayStore::open`]: what stands in the way of opening the array at all.
pub async fn check(
    rt: &Runtime,
    drives: &[ArrayDrive],
    wanted: CheckOptions,
    progress: impl FnMut(&ScrubReport),
) -> Result<CheckReport> {
    let CheckOptions { quick, buffer, abandon_buffer, naming } = wanted;
    let options = Options { read_only: true, background: false, buffer, abandon_buffer, naming, ..Options::default() };
    let (store, found) = ArrayStore::open(rt, drives, &IndexPlace::Memory, options).await?;
    let mut report = CheckReport {
        objects: found.objects,
        missing_drives: found.missing_drives,
        buffer: found.buffer,
        ..CheckReport::default()
    };
    let engine = store.engine();
    let mut found_here = ScrubReport::default();
    engine.misplaced(&mut found_here).await?;
    if quick {
        report.sets = store.stats()?.sets.iter().skip(2).sum();
    } else {
        let only_look = ScrubOptions { read_only: true, ..ScrubOptions::default() };
        let scrubbed = engine.scrub(only_look, progress).await?;
        report.sets = scrubbed.sets;
        report.bytes = scrubbed.bytes;
        report.repairable = scrubbed.damaged;
        found_here.lost.extend(scrubbed.lost);
        found_here.away.extend(scrubbed.away);
    }
    (report.lost, report.away) = (found_here.lost, found_here.away);
    for lacks in [&mut report.lost, &mut report.away] {
        lacks.sort();
        lacks.dedup();
    }
    // Of many sets: each is looked for once.
    let may_return: BTreeSet<String> = found.may_return.into_iter().collect();
    let (away, lost) = found.damage.into_iter().partition(|words| may_return.contains(words));
    add_found(&mut report.lost, lost);
    add_found(&mut report.away, away);
    store.close().await?;
    Ok(report)
}

/// Adds what the opening found, in words, unless it is among the findings already, with names.
fn add_found(known: &mut Vec<Finding>, found: Vec<String>) {
    let is_known = |words: &String| {
        let at = known.partition_point(|known| known.words < *words);
        known.get(at).is_some_and(|known| known.words.starts_with(words.as_str()))
    };
    let new: Vec<_> = found.into_iter().filter(|words| !is_known(words)).collect();
    known.extend(new.into_iter().map(|words| Finding::at(words, Touched::untold())));
    known.sort();
    known.dedup();
}

impl Engine {
    /// Reports parts in the index that do not lie where it says.
    async fn misplaced(&self, report: &mut ScrubReport) -> Result<()> {
        let mut segments: BTreeMap<(SetId, u32), (u64, u32)> = BTreeMap::new();
        for (id, set) in self.sets.all() {
            let written = self.written(&set).await?;
            let Examined::Holds(Holds { digest, .. }) = self.examine(id, &set, &written).await else { continue };
            for item in &digest.items {
                if let ItemBody::Segment(marker) = &item.body {
                    let at = (id, marker.fragments_at(item.block));
                    segments.insert(at, (marker.stamp, marker.shape.length()));
                }
            }
        }
        let mut misplaced = Vec::new();
        let mut look = |key: PartKey, place: &PartPlace| {
            // Buffered objects are in memory by now.
            if place.set != BUFFER_SET
                && segments.get(&(place.set, place.block)) != Some(&(place.stamp, place.segment_length))
            {
                misplaced.push((key, *place));
            }
        };
        self.index()?
            .for_each_part(|name, version, offset, place| {
                let name = bytes::Bytes::copy_from_slice(name);
                look(PartKey { name, version, offset }, place);
            })
            .map_err(Error::index)?;
        for (key, place) in misplaced {
            let name = self.named(&key.name)?;
            let (length, from, set) = (place.length, key.offset, place.set);
            let finding = Finding::of(name, format_args!("{length} bytes from byte {from} on are not in {set}"));
            report.lacks(finding, self.may_return(set));
        }
        Ok(())
    }
}
