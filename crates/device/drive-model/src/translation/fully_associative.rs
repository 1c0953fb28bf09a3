//! A fully associative layer, a variant of S-blocks: the drive has zones of bands with some to spare. Writes are logged to a
//! spare band; cleaning merges a band with all that is logged of it into another spare band, so that bands have no fixed
//! places, and a band that is written from end to end needs no copy at all. (Dissertation, section 2.3.1.)
//!
//! Cleaning runs when a zone is short of spare bands, when the host is quiet, or, on drives that mix it with the host's work
//! (section 3.4.3, Figure 3.13 d), after every few writes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::command::{Command, CommandId, Nanos, Op};
use crate::profile::{FullyAssociative, Profile};
use crate::translation::bands::Bands;
use crate::translation::extents::{Extent, ExtentMap, gaps};
use crate::translation::hosts::Hosts;
use crate::translation::managed::{Inside, Layer, Managed, Medium, Work, mechanics};
use crate::translation::steps::{Step, pieces};

/// Blocks from which a write at a band's start counts as the start of a sequential one.
const STREAM_MIN: u64 = 64;

/// Sequential writes that a zone follows at once.
const STREAMS_MAX: usize = 4;

/// A band on the platters, by number.
type Physical = u64;

/// A logged band.
#[derive(Clone, Debug)]
struct Logged {
    band: Physical,
    /// Extents in it, in the order of writing.
    written: Vec<Range<u64>>,
    /// Blocks that the map has of it.
    live: u64,
}

/// A zone: an area of the drive with spare bands of its own.
#[derive(Clone, Debug)]
struct Zone {
    free: VecDeque<Physical>,
    /// The band that takes writes, and its blocks that are written.
    open: Option<(Physical, u64)>,
    /// Logged bands, the open one included, oldest first.
    logged: VecDeque<Logged>,
    /// Bands that are written from their starts on.
    streams: Vec<Stream>,
    /// Writes that wait for a spare band.
    waiting: VecDeque<(Work, Range<u64>)>,
    merging: Option<Merge>,
}

/// A band that is written in sequence, to a spare band of its own.
#[derive(Clone, Debug)]
struct Stream {
    band: u64,
    to: Physical,
    /// Block up to which writes of it have come, and how many of them are under way.
    end: u64,
    writing: u32,
}

/// A merge of a band with what is logged of it.
#[derive(Clone, Debug)]
struct Merge {
    band: u64,
    to: Physical,
    taken: Vec<Extent>,
    steps: VecDeque<Step>,
    runs: bool,
}

/// Cleaning that takes its share of the time while the host is at work.
#[derive(Clone, Debug)]
struct Mixing {
    share: f64,
    /// Begin of the host's work, and time of cleaning since then.
    from: Nanos,
    cleaned: Nanos,
    /// Begin of the step that is under way; commands of the host wait for its end.
    step: Option<Nanos>,
    held: VecDeque<(CommandId, Command)>,
}

impl Mixing {
    fn is_due(&self, now: Nanos) -> bool {
        self.step.is_none() && (self.cleaned as f64) < self.share * now.saturating_sub(self.from) as f64
    }
}

/// Meaning of an internal command.
#[derive(Clone, Debug)]
enum Task {
    Read(Work),
    Write(Work, Extent),
    /// A part of a sequential write of a zone.
    Stream(Work, Range<u64>),
    Merge(usize),
}

#[derive(Clone, Debug)]
struct FullyAssociativeLayer {
    bands: Bands,
    band_blocks: u64,
    bands_per_zone: u64,
    /// The physical band of each of the host's.
    places: Vec<Physical>,
    map: ExtentMap,
    zones: Vec<Zone>,
    /// Spare bands below which a zone cleans before it goes on.
    reserve: usize,
    idle: Nanos,
    /// Cleaning mixed with the host's work, on drives that do.
    mixing: Option<Mixing>,
    last_busy: Nanos,
    hosts: Hosts,
    tasks: BTreeMap<Work, Task>,
    next: Work,
    overhead: Nanos,
    host_blocks: u64,
}

/// The drive of a profile with such a layer.
pub(super) fn drive(profile: &Profile, spec: &FullyAssociative, host: u64) -> Managed {
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
    fn run(&mut self, inside: &mut Inside, op: Op, at: u64, blocks: u64, task: Task) {
        self.next += 1;
        self.tasks.insert(self.next, task);
        inside.run(Medium::Disk, op, at, blocks, self.next);
    }

    fn zone_of(&self, block: u64) -> usize {
        (self.bands.number(block) / self.bands_per_zone) as usize
    }

    /// The place of a block in its band.
    fn native(&self, block: u64) -> u64 {
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

    /// Cleans one step in a zone that was written to, if the share of cleaning says so.
    fn mix(&mut self, inside: &mut Inside, zone_at: usize) {
        let now = inside.now();
        if self.mixing.as_ref().is_some_and(|mixing| mixing.is_due(now)) {
            self.merge(inside, zone_at, true);
            let runs = self.zones[zone_at].merging.as_ref().is_some_and(|merge| merge.runs);
            if let Some(mixing) = self.mixing.as_mut().filter(|_| runs) {
                mixing.step = Some(now);
            }
        }
    }

    /// A step of cleaning ended: commands that were held go on.
    fn mixed(&mut self, inside: &mut Inside) {
        let Some(mixing) = &mut self.mixing else { return };
        if let Some(began) = mixing.step.take() {
            mixing.cleaned += inside.now() - began;
        }
        for (id, command) in std::mem::take(&mut mixing.held) {
            self.host_command(inside, id, command);
        }
    }

    fn host_command(&mut self, inside: &mut Inside, id: CommandId, command: Command) {
        let end = (command.at + command.blocks).min(self.host_blocks);
        let range = command.at.min(end)..end;
        match command.op {
            Op::Read if !range.is_empty() => self.read(inside, id, &range),
            Op::Write if !range.is_empty() => self.write(inside, id, &range),
            _ => inside.complete_in(self.overhead, id),
        }
    }

    /// Writes a part of a band that is written from its start on to a spare band of its own.
    fn write_in_sequence(&mut self, inside: &mut Inside, host: Work, part: &Range<u64>) -> bool {
        let zone_at = self.zone_of(part.start);
        let (number, band) = (self.bands.number(part.start), self.bands.of(part.start));
        let begins = part.start == band.start && part.end - part.start >= STREAM_MIN;
        let zone = &mut self.zones[zone_at];
        let known = zone.streams.iter().position(|stream| stream.band == number);
        let known = match known {
            Some(known) if zone.streams[known].end == part.start => known,
            None if begins && zone.free.len() > self.reserve && zone.streams.len() < STREAMS_MAX => {
                let Some(to) = zone.free.pop_front() else { return false };
                zone.streams.push(Stream { band: number, to, end: part.start, writing: 0 });
                zone.streams.len() - 1
            }
            _ => return false,
        };
        let stream = &mut zone.streams[known];
        stream.end = part.end;
        stream.writing += 1;
        let at = stream.to * self.band_blocks + (part.start - band.start);
        self.run(inside, Op::Write, at, part.end - part.start, Task::Stream(host, part.clone()));
        true
    }

    /// Ends a sequential write that does not go on: its part of the band becomes a logged one.
    fn break_stream(&mut self, zone_at: usize, band: u64) {
        let streams = &mut self.zones[zone_at].streams;
        let Some(at) = streams.iter().position(|stream| stream.band == band) else { return };
        let Stream { to, end, .. } = streams.remove(at);
        let start = band * self.band_blocks;
        let extent = Extent { start, blocks: end - start, at: to * self.band_blocks, owner: to };
        let written = std::iter::once(start..end).collect();
        self.zones[zone_at].logged.push_back(Logged { band: to, written, live: extent.blocks });
        self.enter(zone_at, extent);
    }

    /// Logs a part of a write to the zone's open band, or lets it wait for a spare one.
    fn log(&mut self, inside: &mut Inside, host: Work, part: Range<u64>) {
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

    /// Enters an extent into the map; those that it replaces live no longer.
    fn enter(&mut self, zone_at: usize, extent: Extent) {
        for replaced in self.map.insert(extent) {
            self.let_go(zone_at, replaced.owner, replaced.blocks);
        }
    }

    fn let_go(&mut self, zone_at: usize, band: Physical, blocks: u64) {
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
    fn merge(&mut self, inside: &mut Inside, zone_at: usize, gently: bool) {
        if self.zones[zone_at].merging.is_none() {
            let Some(merge) = self.plan(zone_at, gently) else { return };
            self.zones[zone_at].merging = Some(merge);
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
    fn plan(&mut self, zone_at: usize, gently: bool) -> Option<Merge> {
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

    /// The merged band takes the old one's place; the old one is spare.
    fn merged(&mut self, inside: &mut Inside, zone_at: usize) {
        let Some(merge) = self.zones[zone_at].merging.take() else { return };
        let old = std::mem::replace(&mut self.places[merge.band as usize], merge.to);
        self.zones[zone_at].free.push_back(old);
        for taken in &merge.taken {
            let same = |part: &Extent| part.owner == taken.owner && part.at + taken.start == taken.at + part.start;
            for part in self.map.within(&(taken.start..taken.end())).into_iter().filter(same) {
                self.map.remove(&(part.start..part.end()));
                self.let_go(zone_at, part.owner, part.blocks);
            }
        }
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

    /// A part of a sequential write ended. With the last one of its band the spare band takes the band's place.
    fn streamed(&mut self, zone_at: usize, part: &Range<u64>) {
        let (number, band) = (self.bands.number(part.start), self.bands.of(part.start));
        let streams = &mut self.zones[zone_at].streams;
        let Some(at) = streams.iter().position(|stream| stream.band == number) else { return };
        streams[at].writing -= 1;
        if streams[at].writing > 0 || streams[at].end != band.end {
            return;
        }
        let Stream { to, .. } = streams.remove(at);
        let old = std::mem::replace(&mut self.places[number as usize], to);
        self.zones[zone_at].free.push_back(old);
        for replaced in self.map.remove(&band) {
            self.let_go(zone_at, replaced.owner, replaced.blocks);
        }
    }

    /// The next zone with something to merge while the host is quiet; none while a merge is at work.
    fn quiet_zone(&self) -> Option<usize> {
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
    fn merge_quietly(&mut self, inside: &mut Inside) {
        while let Some(zone_at) = self.quiet_zone().filter(|_| inside.now() >= self.last_busy + self.idle) {
            self.merge(inside, zone_at, false);
        }
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

    fn blocks(&self) -> u64 {
        self.host_blocks
    }

    fn boxed_clone(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}
