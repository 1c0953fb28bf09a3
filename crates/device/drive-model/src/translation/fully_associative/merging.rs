//! Merges: a band with all that is logged of it goes to a spare band, and those it came from are spare again.

use std::collections::VecDeque;
use std::ops::Range;

use crate::command::Op;
use crate::translation::extents::Extent;
use crate::translation::managed::{Inside, Medium};
use crate::translation::steps::{Step, pieces};

use super::layer::{FullyAssociativeLayer, Task};
use super::zone::{Logged, Merge, Physical, Zone};

impl FullyAssociativeLayer {
    /// Enters an extent into the map; those that it replaces live no longer.
    pub(super) fn enter(&mut self, zone_at: usize, extent: Extent) {
        for replaced in self.map.insert(extent) {
            self.let_go(zone_at, replaced.owner, replaced.blocks);
        }
    }

    pub(super) fn let_go(&mut self, zone_at: usize, band: Physical, blocks: u64) {
        let zone = &mut self.zones[zone_at];
        let open = zone.open.map(|(open, _)| open);
        if let Some(logged) = zone.logged.iter_mut().find(|logged| logged.band == band) {
            logged.live -= blocks;
        }
        // Stale bands are spare again, but for the one that takes writes.
        let stale = |logged: &Logged| logged.live == 0 && Some(logged.band) != open && !logged.written.is_empty();
        zone.free.extend(zone.logged.iter().filter(|logged| stale(logged)).map(|logged| logged.band));
        zone.logged.retain(|logged| !stale(logged));
    }

    /// Begins a merge in a zone, or goes on with it.
    ///
    /// `gently` takes nothing of the band that takes writes.
    pub(super) fn merge(&mut self, inside: &mut Inside, zone_at: usize, gently: bool) {
        if self.zones[zone_at].merging.is_none() {
            let planned = self.plan(zone_at, gently).or_else(|| self.plan_of_stream(zone_at));
            let Some(merge) = planned else { return };
            self.zones[zone_at].merging = Some(merge);
            self.merges += 1;
        }
        let Some(merge) = self.zones[zone_at].merging.as_mut().filter(|merge| !merge.runs) else { return };
        match merge.steps.pop_front() {
            Some(step) => {
                merge.runs = true;
                self.run(inside, step.op, step.at, step.blocks, Task::Merge(zone_at));
            }
            None => self.merged(inside, zone_at),
        }
    }

    /// The band of the oldest extent that is logged, read with all that is logged of it, and written to a spare band.
    pub(super) fn plan(&mut self, zone_at: usize, gently: bool) -> Option<Merge> {
        let zone = &self.zones[zone_at];
        let open = zone.open.map(|(open, _)| open);
        let oldest = zone.logged.iter().find(|logged| logged.live > 0 && (Some(logged.band) != open || !gently))?;
        let owner = oldest.band;
        let live = |range: &Range<u64>| self.map.within(range).into_iter().find(|extent| extent.owner == owner);
        let block = oldest.written.iter().find_map(live)?.start;
        let (band, range) = (self.bands.number(block), self.bands.of(block));
        let taken = self.map.within(&range);
        let to = self.zones[zone_at].free.pop_front()?;
        let length = range.end - range.start;
        let mut steps: VecDeque<Step> = VecDeque::new();
        if taken.iter().map(|extent| extent.blocks).sum::<u64>() < length {
            steps.extend(pieces(Medium::Disk, Op::Read, self.native(range.start), length));
        }
        let (medium, op) = (Medium::Disk, Op::Read);
        steps.extend(taken.iter().map(|extent| Step { medium, op, at: extent.at, blocks: extent.blocks }));
        steps.extend(pieces(Medium::Disk, Op::Write, to * self.band_blocks, length));
        Some(Merge { band, to, taken, steps, runs: false })
    }

    /// If writes wait and nothing is logged, streams hold the spare bands: the first of them ends here.
    fn plan_of_stream(&mut self, zone_at: usize) -> Option<Merge> {
        let zone = &self.zones[zone_at];
        let band = zone.streams.first().filter(|_| !zone.waiting.is_empty())?.band;
        self.break_stream(zone_at, band);
        self.plan(zone_at, false)
    }

    /// The merged band takes the old one's place; the old one is spare.
    pub(super) fn merged(&mut self, inside: &mut Inside, zone_at: usize) {
        let Some(merge) = self.zones[zone_at].merging.take() else { return };
        self.merges -= 1;
        let old = std::mem::replace(&mut self.places[merge.band as usize], merge.to);
        self.zones[zone_at].free.push_back(old);
        for taken in &merge.taken {
            let same = |part: &Extent| part.owner == taken.owner && part.at + taken.start == taken.at + part.start;
            for part in self.map.within(&(taken.start..taken.end())).into_iter().filter(same) {
                self.map.remove(&(part.start..part.end()));
                self.let_go(zone_at, part.owner, part.blocks);
            }
        }
        self.resume(inside, zone_at);
    }

    /// Lets waiting writes go on if there are spare bands again, or else makes some.
    pub(super) fn resume(&mut self, inside: &mut Inside, zone_at: usize) {
        let zone = &mut self.zones[zone_at];
        if zone.free.len() > self.reserve {
            for (host, part) in std::mem::take(&mut zone.waiting) {
                self.log(inside, host, part);
            }
        }
        if !self.zones[zone_at].waiting.is_empty() {
            self.merge(inside, zone_at, false);
        }
    }

    /// Forgets what is logged of a range; bands with nothing else are spare again.
    pub(super) fn trim(&mut self, inside: &mut Inside, range: &Range<u64>) {
        let gone = self.map.remove(range);
        for extent in &gone {
            self.let_go(self.zone_of(extent.start), extent.owner, extent.blocks);
        }
        let mut zones: Vec<usize> = gone.iter().map(|extent| self.zone_of(extent.start)).collect();
        zones.dedup();
        zones.into_iter().for_each(|zone_at| self.resume(inside, zone_at));
    }

    /// The next zone with something to merge while the host is quiet; none while a merge is at work.
    pub(super) fn quiet_zone(&self) -> Option<usize> {
        // Most commands of a drive with nothing logged ask this in vain.
        if self.merges == 0 && self.map.is_empty() {
            return None;
        }
        if !self.hosts.is_empty() || self.zones.iter().any(|zone| zone.merging.as_ref().is_some_and(|merge| merge.runs))
        {
            return None;
        }
        let has_work = |zone: &Zone| {
            zone.merging.is_some() || !zone.free.is_empty() && zone.logged.iter().any(|logged| logged.live > 0)
        };
        self.zones.iter().position(has_work)
    }

    /// Goes on with merges as long as the host is quiet.
    pub(super) fn merge_quietly(&mut self, inside: &mut Inside) {
        while let Some(zone_at) = self.quiet_zone().filter(|_| inside.now() >= self.last_busy + self.idle) {
            self.merge(inside, zone_at, false);
        }
    }
}
