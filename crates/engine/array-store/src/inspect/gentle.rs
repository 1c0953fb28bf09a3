//! Checking an open array beside whoever uses it: does what the index names lie where it says, whole? Writes nothing,
//! and rests as long as it reads.
//!
//! # Invariants
//! - AS-GENTLE-1: what is written, moved and deleted meanwhile is no damage. A part that is not where the index says is
//!   reported only if the index says so once more while its set is kept from being reset, and the set does not hold it
//!   then either. `tests/gentle.rs`.
//! - AS-GENTLE-2: memory does not grow with the array: what sets hold is compared with the index in windows of
//!   [`WINDOW`] segments.

use std::collections::BTreeMap;

use bytes::Bytes;
use shingle_runtime::Rests;
use shingle_store_api::{Finding, Touched};

use crate::buffer::BUFFER_SET;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::format::{DigestItem, ItemBody};
use crate::index::PartKey;
use crate::inspect::check::CheckReport;
use crate::repair::scrub::{ScrubReport, holds};
use crate::repair::touched::Unlisted;
use crate::store::ArrayStore;
use crate::types::{PartPlace, SetId};
use std::rc::Rc;

/// Segments whose places are remembered at a time.
const WINDOW: usize = if cfg!(test) { 16 } else { 1 << 20 };
/// Parts of the index that are looked at in one step.
const STEP: usize = 4096;
/// Limit of losses that are told.
const LOST_MAX: usize = 10_000;

/// Stamp and length of segments, by the block of their fragments.
type Segments = BTreeMap<u32, (u64, u32)>;

/// Contents of some sets.
#[derive(Default)]
struct Window {
    sets: BTreeMap<SetId, Segments>,
    segments: usize,
}

impl Window {
    fn add(&mut self, id: SetId, segments: Segments) {
        self.segments += segments.len();
        self.sets.insert(id, segments);
    }
}

fn segments_of(items: &[DigestItem]) -> Segments {
    let segment = |item: &DigestItem| match &item.body {
        ItemBody::Segment(marker) => Some((marker.fragments_at(item.block), (marker.stamp, marker.shape.length()))),
        ItemBody::Tombstones { .. } => None,
    };
    items.iter().filter_map(segment).collect()
}

fn has(segments: &Segments, place: &PartPlace) -> bool {
    segments.get(&place.block) == Some(&(place.stamp, place.segment_length))
}

impl ArrayStore {
    /// Holds the index against what lies on the drives, and unless it is to be `quick` verifies every byte, while the
    /// array is used. It changes nothing, and may be dropped anywhere. `progress` is told after each set.
    ///
    /// # Errors
    /// `Stopped`, `Index`; `Device` where a drive fails for good. Damage is in the report.
    pub async fn check_gently(&self, quick: bool, progress: impl FnMut(&ScrubReport)) -> Result<CheckReport> {
        self.engine().check_gently(quick, progress).await
    }
}

/// Sets that are looked at before those behind them are counted anew: sets come and go meanwhile.
const COUNTED_ANEW: usize = 256;

impl Engine {
    async fn check_gently(self: &Rc<Self>, quick: bool, mut progress: impl FnMut(&ScrubReport)) -> Result<CheckReport> {
        let began = self.stamps.next();
        let mut report = CheckReport { objects: self.objects()?, ..CheckReport::default() };
        report.missing_drives = self.drives.missing().into_iter().map(|id| self.drives.name(id)).collect();
        let (mut told, mut window, mut after) = (ScrubReport::default(), Window::default(), None);
        let mut unlisted = Unlisted::new();
        let mut rests = Rests::new(&self.rt, true);
        loop {
            self.running()?;
            let Some((id, set)) = self.sets.next_holding(after) else { break };
            if told.done.is_multiple_of(COUNTED_ANEW) {
                told.sets = told.done + self.sets.holding_behind(after);
            }
            after = Some(id);
            told.sets = told.sets.max(told.done + 1);
            debug_assert!(window.segments < WINDOW, "AS-GENTLE-2: {} segments are remembered", window.segments);
            if let Some(mut contents) = self.kept_contents(id, &set).await? {
                window.add(id, segments_of(&contents.items));
                if quick {
                    told.done += 1;
                    unlisted.append(&mut contents.unlisted);
                } else {
                    self.look_gently(id, &set, &mut contents, &mut told, &mut unlisted).await?;
                }
            } else {
                told.done += 1;
            }
            progress(&told);
            rests.rest().await;
            if window.segments >= WINDOW {
                self.compare(&std::mem::take(&mut window), began, false, &mut told).await?;
            }
        }
        self.compare(&window, began, true, &mut told).await?;
        told.lacks_all(self.name_unlisted(unlisted, true).await?);
        report.sets = told.sets;
        report.bytes = told.bytes;
        (report.repairable, report.lost, report.away) = (told.damaged, told.lost, told.away);
        for lacks in [&mut report.lost, &mut report.away] {
            lacks.sort();
            lacks.dedup();
            if lacks.len() > LOST_MAX {
                let words = format!("{} more places, which are not listed", lacks.len() - LOST_MAX);
                lacks.truncate(LOST_MAX);
                lacks.push(Finding { words, objects: Touched::untold() });
            }
        }
        Ok(report)
    }

    /// Parts of the index that are not in the sets of a window; with `all`, also those in sets that hold nothing. Newer
    /// ones than `began` were written since their set was looked at.
    async fn compare(self: &Rc<Self>, window: &Window, began: u64, all: bool, report: &mut ScrubReport) -> Result<()> {
        let mut rests = Rests::new(&self.rt, true);
        let mut after = None;
        loop {
            self.running()?;
            let mut doubtful: BTreeMap<SetId, Vec<(PartKey, PartPlace)>> = BTreeMap::new();
            let empty = |id| self.sets.get(id).is_none_or(|set| !holds(&set));
            let look = |name: &[u8], version, offset, place: &PartPlace| {
                if place.set == BUFFER_SET || place.stamp > began {
                    return;
                }
                let misplaced = match window.sets.get(&place.set) {
                    Some(segments) => !has(segments, place),
                    None => all && empty(place.set),
                };
                if misplaced {
                    let key = PartKey { name: Bytes::copy_from_slice(name), version, offset };
                    doubtful.entry(place.set).or_default().push((key, *place));
                }
            };
            after = self.index()?.for_parts_behind(after.as_ref(), STEP, look).map_err(Error::index)?;
            for (id, parts) in doubtful {
                self.confirm(id, parts, report).await?;
            }
            if after.is_none() {
                return Ok(());
            }
            self.rt.yield_now().await;
            rests.rest().await;
        }
    }

    /// Tells of those parts that are not in a set and that the index still says are. (AS-GENTLE-1)
    async fn confirm(
        self: &Rc<Self>,
        id: SetId,
        parts: Vec<(PartKey, PartPlace)>,
        report: &mut ScrubReport,
    ) -> Result<()> {
        let _pin = self.sets.pin(id);
        let mut still = Vec::new();
        for (key, place) in parts {
            if self.index()?.part(&key.name, key.version, key.offset).map_err(Error::index)? == Some(place) {
                still.push((key, place));
            }
        }
        if still.is_empty() {
            return Ok(());
        }
        let segments = match self.sets.get(id) {
            None => Segments::new(),
            Some(set) if !holds(&set) => Segments::new(),
            Some(set) => match self.kept_contents(id, &set).await? {
                Some(contents) => segments_of(&contents.items),
                // It is being begun or emptied: what the index says changes with it.
                None => return Ok(()),
            },
        };
        for (key, place) in still.into_iter().filter(|(_, place)| !has(&segments, place)) {
            let name = self.named(&key.name)?;
            let (length, from) = (place.length, key.offset);
            let finding = Finding::of(name, format_args!("{length} bytes from byte {from} on are not in {id}"));
            report.lacks(finding, self.may_return(id));
        }
        Ok(())
    }
}
