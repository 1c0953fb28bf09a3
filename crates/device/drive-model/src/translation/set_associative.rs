//! A set-associative layer: each data band has its cache band, its own number modulo the number of cache bands; a cache band
//! that is full is cleaned before it takes more. (Cassuto et al., as the dissertation describes it, section 2.3.1.)

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::command::{Command, CommandId, Nanos, Op};
use crate::flash::FlashDrive;
use crate::profile::{CachePlace, Profile, SetAssociative};
use crate::translation::bands::Bands;
use crate::translation::extents::{Extent, ExtentMap, gaps};
use crate::translation::hosts::{Hosts, Request};
use crate::translation::managed::{Inside, Layer, Managed, Medium, Work, mechanics};
use crate::translation::steps::{Step, pieces};

/// A cache band.
#[derive(Clone, Debug, Default)]
struct CacheBand {
    /// Extents written to it since it was clean, in order.
    written: Vec<Range<u64>>,
    filled: u64,
    /// Writes to it that are under way.
    writing: u32,
    /// Parts of the host's writes that wait until it is clean, and the host's commands.
    waiting: VecDeque<(Work, Range<u64>)>,
    cleaning: Option<Cleaning>,
}

/// Cleaning of a cache band.
#[derive(Clone, Debug)]
struct Cleaning {
    steps: VecDeque<Step>,
    /// Blocks of the host that are being overwritten in their places, and a track behind them, which the head overlaps.
    overwrites: Range<u64>,
}

/// Meaning of an internal command.
#[derive(Clone, Debug)]
enum Task {
    /// A part of the host's read.
    Read(Work),
    /// A part of its write, and where it went.
    Write(Work, Extent),
    /// A step of a cache band's cleaning.
    Clean(usize),
}

#[derive(Clone, Debug)]
struct SetAssociativeLayer {
    medium: Medium,
    /// First block of the cache on its medium, and of the bands on the disk.
    cache_at: u64,
    data_at: u64,
    cache_band_blocks: u64,
    /// Blocks of the longest track.
    track_blocks: u64,
    bands: Bands,
    map: ExtentMap,
    cache: Vec<CacheBand>,
    hosts: Hosts,
    tasks: BTreeMap<Work, Task>,
    next: Work,
    overhead: Nanos,
    host_blocks: u64,
}

/// The drive of a profile with such a layer.
pub(super) fn drive(profile: &Profile, spec: &SetAssociative, host: u64) -> Managed {
    let band_blocks = u64::from(spec.band_mib) * 256;
    let cache_blocks = u64::from(spec.cache_bands) * band_blocks;
    let (medium, cache_at, data_at) = match spec.cache {
        CachePlace::Inner => (Medium::Disk, host, 0),
        CachePlace::Outer => (Medium::Disk, 0, cache_blocks),
        CachePlace::Flash => (Medium::Flash, 0, 0),
    };
    let on_disk = medium == Medium::Disk;
    let disk = mechanics(profile, if on_disk { host + cache_blocks } else { host });
    let layer = SetAssociativeLayer {
        medium,
        cache_at,
        data_at,
        cache_band_blocks: band_blocks,
        track_blocks: disk.surface().track_blocks(0),
        bands: Bands::equal(host, band_blocks),
        map: ExtentMap::default(),
        cache: vec![CacheBand::default(); spec.cache_bands as usize],
        hosts: Hosts::default(),
        tasks: BTreeMap::new(),
        next: 0,
        overhead: (profile.queue.overhead_us * 1e3) as Nanos,
        host_blocks: host,
    };
    Managed::over(layer, Some(disk), (!on_disk).then(|| FlashDrive::new(profile)))
}

impl SetAssociativeLayer {
    fn run(&mut self, inside: &mut Inside, step: Step, task: Task) {
        self.next += 1;
        self.tasks.insert(self.next, task);
        step.run(inside, self.next);
    }

    fn read(&mut self, inside: &mut Inside, id: CommandId, range: &Range<u64>) {
        let extents = self.map.within(range);
        let native = gaps(range, &extents);
        let native = native.iter().map(|gap| (Medium::Disk, self.data_at + gap.start, gap.end - gap.start));
        let cached = extents.iter().map(|extent| (self.medium, extent.at, extent.blocks));
        let parts: Vec<_> = native.chain(cached).collect();
        let host = self.hosts.begin(id, parts.len());
        for (medium, at, blocks) in parts {
            self.run(inside, Step { medium, op: Op::Read, at, blocks }, Task::Read(host));
        }
    }

    fn write(&mut self, inside: &mut Inside, id: CommandId, range: &Range<u64>) {
        let parts = self.bands.parts(range);
        let host = self.hosts.begin(id, parts.len());
        parts.into_iter().for_each(|part| self.append(inside, host, part));
    }

    /// Appends a part of a write to its cache band, or lets it wait until that is clean.
    fn append(&mut self, inside: &mut Inside, host: Work, part: Range<u64>) {
        let number = (self.bands.number(part.start) % self.cache.len() as u64) as usize;
        let band = &mut self.cache[number];
        let blocks = part.end - part.start;
        if band.cleaning.is_some() || !band.waiting.is_empty() || band.filled + blocks > self.cache_band_blocks {
            band.waiting.push_back((host, part));
            self.clean(inside, number);
            return;
        }
        let at = self.cache_at + number as u64 * self.cache_band_blocks + band.filled;
        let extent = Extent { start: part.start, blocks, at, owner: number as u64 };
        band.filled += blocks;
        band.writing += 1;
        band.written.push(part);
        self.run(inside, Step { medium: self.medium, op: Op::Write, at, blocks }, Task::Write(host, extent));
    }

    /// Begins to clean a cache band for which writes wait, once none is under way to it.
    fn clean(&mut self, inside: &mut Inside, number: usize) {
        let band = &self.cache[number];
        if band.cleaning.is_none() && band.writing == 0 && !band.waiting.is_empty() {
            self.cache[number].cleaning = Some(Cleaning { steps: self.plan(number), overwrites: 0..0 });
            self.clean_on(inside, number);
        }
    }

    /// Each data band with blocks in a cache band is read, with these blocks, and written again.
    fn plan(&self, number: usize) -> VecDeque<Step> {
        let mut cached: BTreeMap<u64, BTreeMap<u64, Extent>> = BTreeMap::new();
        for range in &self.cache[number].written {
            for extent in self.map.within(range).into_iter().filter(|extent| extent.owner == number as u64) {
                cached.entry(self.bands.number(extent.start)).or_default().insert(extent.start, extent);
            }
        }
        let mut steps = VecDeque::new();
        for extents in cached.into_values() {
            let Some(first) = extents.keys().next() else { continue };
            let data = self.bands.of(*first);
            let (at, length) = (self.data_at + data.start, data.end - data.start);
            steps.extend(pieces(Medium::Disk, Op::Read, at, length));
            let (medium, op) = (self.medium, Op::Read);
            steps.extend(extents.values().map(|extent| Step { medium, op, at: extent.at, blocks: extent.blocks }));
            steps.extend(pieces(Medium::Disk, Op::Write, at, length));
        }
        steps
    }

    /// Sends the next step of a cleaning, or ends it: what waited is written now.
    fn clean_on(&mut self, inside: &mut Inside, number: usize) {
        if let Some(cleaning) = &mut self.cache[number].cleaning
            && let Some(step) = cleaning.steps.pop_front()
        {
            cleaning.overwrites = 0..0;
            if step.op == Op::Write {
                let start = step.at - self.data_at;
                cleaning.overwrites = start..(start + step.blocks + self.track_blocks).min(self.bands.of(start).end);
            }
            self.run(inside, step, Task::Clean(number));
            return;
        }
        let band = std::mem::take(&mut self.cache[number]);
        for range in &band.written {
            for extent in self.map.within(range).into_iter().filter(|extent| extent.owner == number as u64) {
                self.map.remove(&(extent.start..extent.end()));
            }
        }
        for (host, part) in band.waiting {
            self.append(inside, host, part);
        }
    }
}

impl Layer for SetAssociativeLayer {
    fn command(&mut self, inside: &mut Inside, id: CommandId, command: Command) {
        match Request::of(&command, self.host_blocks) {
            Request::Read(range) => self.read(inside, id, &range),
            // Every write is durable when it completes.
            Request::Write { blocks, .. } => self.write(inside, id, &blocks),
            Request::Trim(range) => {
                self.map.remove(&range);
                inside.complete_in(self.overhead, id);
            }
            Request::Flush | Request::Nothing => inside.complete_in(self.overhead, id),
        }
    }

    fn ended(&mut self, inside: &mut Inside, work: Work) {
        match self.tasks.remove(&work) {
            Some(Task::Read(host)) => self.hosts.ended(inside, host, self.overhead),
            Some(Task::Write(host, extent)) => {
                let number = extent.owner as usize;
                self.map.insert(extent);
                self.cache[number].writing -= 1;
                self.hosts.ended(inside, host, self.overhead);
                self.clean(inside, number);
            }
            Some(Task::Clean(number)) => self.clean_on(inside, number),
            None => {}
        }
    }

    /// A data band is overwritten in its place. Blocks of it that are in the cache can be read there until all of the cache band
    /// is clean.
    fn torn(&self) -> Vec<Range<u64>> {
        let overwritten = |band: &CacheBand| band.cleaning.as_ref().map(|cleaning| cleaning.overwrites.clone());
        let torn = self.cache.iter().filter_map(overwritten).filter(|range| !range.is_empty());
        torn.flat_map(|range| gaps(&range, &self.map.within(&range))).collect()
    }

    fn power_failed(&mut self, _now: Nanos) {
        for band in &mut self.cache {
            (band.writing, band.cleaning) = (0, None);
            band.waiting.clear();
        }
        self.tasks.clear();
        self.hosts = Hosts::default();
    }

    fn blocks(&self) -> u64 {
        self.host_blocks
    }

    fn boxed_clone(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}
