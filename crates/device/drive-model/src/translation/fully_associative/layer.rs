//! The layer: the host's commands, and where each goes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::command::{Command, CommandId, Nanos, Op};
use crate::profile::{FullyAssociative, Profile};
use crate::translation::bands::Bands;
use crate::translation::extents::{Extent, ExtentMap, gaps};
use crate::translation::hosts::{Hosts, Request};
use crate::translation::managed::{Inside, Layer, Managed, Medium, Work, mechanics};

use super::zone::{Logged, Mixing, Physical, Zone};

/// Meaning of an internal command.
#[derive(Clone, Debug)]
pub(super) enum Task {
    Read(Work),
    Write(Work, Extent),
    /// A part of a sequential write of a zone.
    Stream(Work, Range<u64>),
    Merge(usize),
}

#[derive(Clone, Debug)]
pub(super) struct FullyAssociativeLayer {
    pub(super) bands: Bands,
    pub(super) band_blocks: u64,
    bands_per_zone: u64,
    /// The physical band of each of the host's.
    pub(super) places: Vec<Physical>,
    pub(super) map: ExtentMap,
    pub(super) zones: Vec<Zone>,
    /// Zones with a merge, at work or not.
    pub(super) merges: usize,
    /// Spare bands below which a zone cleans before it goes on.
    pub(super) reserve: usize,
    pub(super) idle: Nanos,
    /// Cleaning mixed with the host's work, on drives that do.
    pub(super) mixing: Option<Mixing>,
    pub(super) last_busy: Nanos,
    pub(super) hosts: Hosts,
    tasks: BTreeMap<Work, Task>,
    next: Work,
    overhead: Nanos,
    host_blocks: u64,
}

/// The drive of a profile with such a layer.
pub(crate) fn drive(profile: &Profile, spec: &FullyAssociative, host: u64) -> Managed {
    let band_blocks = u64::from(spec.band_mib) * 256;
    let bands = host.div_ceil(band_blocks);
    let bands_per_zone = (u64::from(spec.zone_gib) * 262_144 / band_blocks).max(1);
    let spare = ((bands_per_zone as f64 * spec.spare) as u64).max(4);
    let zone_count = bands.div_ceil(bands_per_zone);
    let disk = mechanics(profile, zone_count * (bands_per_zone + spare) * band_blocks);
    let first = |zone: u64| zone * (bands_per_zone + spare);
    let zone = |zone| Zone {
        free: (first(zone) + bands_per_zone..first(zone + 1)).collect(),
        open: None,
        logged: VecDeque::new(),
        streams: Vec::new(),
        waiting: VecDeque::new(),
        merging: None,
    };
    let layer = FullyAssociativeLayer {
        bands: Bands::equal(host, band_blocks),
        band_blocks,
        bands_per_zone,
        places: (0..bands).map(|band| first(band / bands_per_zone) + band % bands_per_zone).collect(),
        map: ExtentMap::default(),
        zones: (0..zone_count).map(zone).collect(),
        merges: 0,
        reserve: 2,
        idle: (spec.idle_ms * 1e6) as Nanos,
        mixing: spec.mix_share.map(|share| Mixing { share, from: 0, cleaned: 0, step: None, held: VecDeque::new() }),
        last_busy: 0,
        hosts: Hosts::default(),
        tasks: BTreeMap::new(),
        next: 0,
        overhead: (profile.queue.overhead_us * 1e3) as Nanos,
        host_blocks: host,
    };
    Managed::over(layer, Some(disk), None)
}

impl FullyAssociativeLayer {
    pub(super) fn run(&mut self, inside: &mut Inside, op: Op, at: u64, blocks: u64, task: Task) {
        self.next += 1;
        self.tasks.insert(self.next, task);
        inside.run(Medium::Disk, op, at, blocks, self.next);
    }

    pub(super) fn zone_of(&self, block: u64) -> usize {
        (self.bands.number(block) / self.bands_per_zone) as usize
    }

    /// The place of a block in its band.
    pub(super) fn native(&self, block: u64) -> u64 {
        let band = self.bands.number(block);
        self.places[band as usize] * self.band_blocks + (block - band * self.band_blocks)
    }

    fn read(&mut self, inside: &mut Inside, id: CommandId, range: &Range<u64>) {
        let extents = self.map.within(range);
        let native = gaps(range, &extents).into_iter().flat_map(|gap| self.bands.parts(&gap));
        let native = native.map(|part| (self.native(part.start), part.end - part.start));
        let parts: Vec<_> = native.chain(extents.iter().map(|extent| (extent.at, extent.blocks))).collect();
        let host = self.hosts.begin(id, parts.len());
        for (at, blocks) in parts {
            self.run(inside, Op::Read, at, blocks, Task::Read(host));
        }
    }

    fn write(&mut self, inside: &mut Inside, id: CommandId, range: &Range<u64>) {
        let parts = self.bands.parts(range);
        let host = self.hosts.begin(id, parts.len());
        for part in parts {
            if !self.write_in_sequence(inside, host, &part) {
                self.log(inside, host, part);
            }
        }
    }

    pub(super) fn host_command(&mut self, inside: &mut Inside, id: CommandId, command: Command) {
        match Request::of(&command, self.host_blocks) {
            Request::Read(range) => self.read(inside, id, &range),
            // Every write is durable when it completes.
            Request::Write { blocks, .. } => self.write(inside, id, &blocks),
            Request::Trim(range) => {
                self.trim(inside, &range);
                inside.complete_in(self.overhead, id);
            }
            Request::Flush | Request::Nothing => inside.complete_in(self.overhead, id),
        }
    }

    /// Logs a part of a write to the zone's open band, or lets it wait for a spare one.
    pub(super) fn log(&mut self, inside: &mut Inside, host: Work, part: Range<u64>) {
        let zone_at = self.zone_of(part.start);
        let blocks = part.end - part.start;
        // Of a sequential write that was left alone the spare band takes no more.
        self.break_stream(zone_at, self.bands.number(part.start));
        let zone = &mut self.zones[zone_at];
        let fits = zone.open.is_some_and(|(_, filled)| filled + blocks <= self.band_blocks);
        if !fits {
            if zone.free.len() <= self.reserve || !zone.waiting.is_empty() {
                zone.waiting.push_back((host, part));
                self.merge(inside, zone_at, false);
                return;
            }
            if let Some(band) = zone.free.pop_front() {
                zone.open = Some((band, 0));
                zone.logged.push_back(Logged { band, written: Vec::new(), live: 0 });
            }
        }
        let Some((band, filled)) = &mut zone.open else { return };
        let extent = Extent { start: part.start, blocks, at: *band * self.band_blocks + *filled, owner: *band };
        *filled += blocks;
        self.run(inside, Op::Write, extent.at, blocks, Task::Write(host, extent));
    }
}

impl Layer for FullyAssociativeLayer {
    fn command(&mut self, inside: &mut Inside, id: CommandId, command: Command) {
        let now = inside.now();
        if let Some(mixing) = &mut self.mixing {
            if now > self.last_busy + self.idle {
                (mixing.from, mixing.cleaned) = (now, 0);
            }
            if mixing.step.is_some() {
                mixing.held.push_back((id, command));
                return;
            }
        }
        self.last_busy = now;
        self.host_command(inside, id, command);
    }

    fn ended(&mut self, inside: &mut Inside, work: Work) {
        match self.tasks.remove(&work) {
            Some(Task::Read(host)) => self.hosts.ended(inside, host, self.overhead),
            Some(Task::Write(host, extent)) => {
                let zone_at = self.zone_of(extent.start);
                let logged = self.zones[zone_at].logged.iter_mut().find(|logged| logged.band == extent.owner);
                if let Some(logged) = logged {
                    logged.written.push(extent.start..extent.end());
                    logged.live += extent.blocks;
                }
                self.enter(zone_at, extent);
                self.hosts.ended(inside, host, self.overhead);
                self.mix(inside, zone_at);
            }
            Some(Task::Stream(host, part)) => {
                let zone_at = self.zone_of(part.start);
                self.hosts.ended(inside, host, self.overhead);
                self.streamed(zone_at, &part);
            }
            Some(Task::Merge(zone_at)) => {
                if let Some(merge) = &mut self.zones[zone_at].merging {
                    merge.runs = false;
                }
                self.mixed(inside);
                if !self.zones[zone_at].waiting.is_empty() {
                    self.merge(inside, zone_at, false);
                }
                self.merge_quietly(inside);
                return;
            }
            None => {}
        }
        self.last_busy = inside.now();
    }

    fn alarm(&self) -> Option<Nanos> {
        self.quiet_zone().map(|_| self.last_busy + self.idle)
    }

    fn woken(&mut self, inside: &mut Inside) {
        self.merge_quietly(inside);
    }

    /// Written blocks lie in their bands, and merges had changed nothing yet.
    fn power_failed(&mut self, now: Nanos) {
        for zone_at in 0..self.zones.len() {
            while let Some(band) = self.zones[zone_at].streams.first().map(|stream| stream.band) {
                self.break_stream(zone_at, band);
            }
            let zone = &mut self.zones[zone_at];
            zone.waiting.clear();
            zone.free.extend(zone.merging.take().map(|merge| merge.to));
        }
        self.merges = 0;
        if let Some(mixing) = &mut self.mixing {
            (mixing.step, mixing.from, mixing.cleaned) = (None, now, 0);
            mixing.held.clear();
        }
        self.tasks.clear();
        self.hosts = Hosts::default();
        self.last_busy = now;
    }

    fn blocks(&self) -> u64 {
        self.host_blocks
    }

    fn boxed_clone(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}
