//! The layer: the host's commands, and who has the arm next.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::command::{Command, CommandId, Nanos, Op};
use crate::disk::Disk;
use crate::profile::{MediaCache, Profile};
use crate::translation::bands::Bands;
use crate::translation::extents::{Extent, ExtentMap, gaps};
use crate::translation::hosts::Request;
use crate::translation::managed::{Inside, Layer, Managed, Medium, Work, mechanics};

use super::clean::Cleaning;
use super::journal::{Journal, Stage, Waiting};
use super::layout::Layout;
use super::log::Log;
use super::runs::Runs;
use super::stream::Stream;

/// Numbers of internal commands; those of reads are from `READ` on.
pub(crate) mod work {
    use super::Work;

    pub(crate) const JOURNAL: Work = 0;
    pub(crate) const CLEAN: Work = 1;
    pub(crate) const STREAM: Work = 2;
    pub(crate) const READ: Work = 16;
}

/// Constants of a drive, in blocks, quanta and nanoseconds.
#[derive(Clone, Debug)]
pub(super) struct Spec {
    /// Blocks that pass the head in half a turn of the cache: a quantum.
    pub(super) quantum: u64,
    /// Quanta of an entry's out-of-band data.
    pub(super) out_of_band: u64,
    /// Blocks at an entry's end that are not written, so that the next one is not missed.
    pub(super) gap: u64,
    /// The most blocks of the host in one entry.
    pub(super) entry_max: u64,
    /// Quanta of data, and extents, at which cleaning has to make room.
    pub(super) data_max: u64,
    pub(super) extents_max: usize,
    /// Entries from one merge of the map to the next, and blocks written by one.
    pub(super) merge_every: u64,
    pub(super) merge_blocks: u64,
    /// Blocks of the map that a cleaning writes.
    pub(super) map_blocks: u64,
    pub(super) gather: Nanos,
    pub(super) idle: Nanos,
    /// The volatile cache, if it is on: its blocks, the time that a run waits in it, and the length from which it streams.
    pub(super) volatile: Option<Volatile>,
    /// Tracks of a band.
    band_tracks: u64,
    /// The same, whether it is on or off; `None`: there is too little of it to be turned on.
    volatile_on: Option<Volatile>,
    overhead: Nanos,
    interface_ns_block: Nanos,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Volatile {
    pub(super) blocks: u64,
    pub(super) hold: Nanos,
    pub(super) stream_min: u64,
}

/// A drive with a persistent cache in front of bands at fixed places.
#[derive(Clone, Debug)]
pub(super) struct MediaCacheLayer {
    pub(super) spec: Spec,
    pub(super) layout: Layout,
    pub(super) bands: Bands,
    pub(super) map: ExtentMap,
    pub(super) log: Log,
    pub(super) journal: Journal,
    pub(super) runs: Runs,
    pub(super) stream: Stream,
    pub(super) cleaning: Option<Cleaning>,
    /// Writes wait for room in the cache.
    pub(super) full: bool,
    /// Writes that the volatile cache has no room for, and whether each is to be durable when it completes.
    blocked: VecDeque<(CommandId, Range<u64>, bool)>,
    /// Writes of streams that complete when they are durable: the run of each, and its end.
    through: Vec<(CommandId, u64, u64)>,
    /// Flushes, and the number of writes before each.
    flushes: Vec<(CommandId, u64)>,
    writes: u64,
    /// Reads, and their internal commands that have not ended.
    reads: BTreeMap<Work, (CommandId, u32)>,
    next_read: Work,
    /// Time of the host's last command or of the end of its last.
    last_busy: Nanos,
    host_blocks: u64,
}

fn ms(value: f64) -> Nanos {
    (value * 1e6) as Nanos
}

/// The drive of a profile with such a layer.
pub(crate) fn drive(profile: &Profile, spec: &MediaCache, host: u64) -> Managed {
    let (layer, disk) = MediaCacheLayer::new(profile, spec, host);
    Managed::over(layer, Some(disk), None)
}

impl MediaCacheLayer {
    /// The layer, and its mechanics.
    fn new(profile: &Profile, cache: &MediaCache, host: u64) -> (Self, Disk) {
        let layout = Layout {
            ring: u64::from(cache.ring_gib) * 262_144,
            scratch: u64::from(cache.scratch_mib) * 256,
            map: u64::from(cache.map_mib) * 256,
            middle: host / 2,
        };
        let disk = mechanics(profile, layout.total(host));
        let (surface, revolution) = (disk.surface(), disk.revolution());
        let skew = ms(profile.recording.map_or(0.0, |recording| recording.skew_ms));
        let track = |block| surface.track_blocks(block);
        let in_turns =
            |track: u64, turns: f64| (track as f64 * turns * revolution as f64 / (revolution + skew) as f64) as u64;
        let quantum = in_turns(track(0), 0.5).max(1);
        let gap = in_turns(track(0), ms(cache.gap_ms) as f64 / revolution as f64);
        let merge = cache.merge_ms * 1e6 / revolution as f64;
        // Bands lie where they lie whether the map lies amid them or not.
        let bands = Bands::of_tracks(host, u64::from(cache.band_tracks), surface, |block| layout.native(block));
        let layout = Layout { middle: bands.of(layout.middle.min(host - 1)).start, ..layout };
        let too_little = profile.cache.write_cache_mib <= cache.stream_min_mib;
        let volatile_on = (!too_little).then(|| Volatile {
            blocks: u64::from(profile.cache.write_cache_mib) * 256,
            hold: ms(cache.hold_ms),
            stream_min: u64::from(cache.stream_min_mib) * 256,
        });
        let spec = Spec {
            quantum,
            out_of_band: u64::from(cache.out_of_band_half_turns),
            gap,
            entry_max: u64::from(cache.entry_max_kib) / 4,
            data_max: (f64::from(cache.cache_gib) * 262_144.0 * cache.watermark / quantum as f64) as u64,
            extents_max: (f64::from(cache.map_extents) * cache.watermark) as usize,
            merge_every: u64::from(cache.merge_every.max(2)),
            merge_blocks: in_turns(track(layout.map_at()), merge).clamp(1, layout.map.max(1)),
            map_blocks: in_turns(track(layout.map_at()), 0.5).clamp(1, layout.map.max(1)),
            gather: ms(cache.gather_ms),
            idle: ms(cache.idle_ms),
            band_tracks: u64::from(cache.band_tracks),
            volatile: volatile_on.filter(|_| profile.cache.write_cache),
            volatile_on,
            overhead: (profile.queue.overhead_us * 1e3) as Nanos,
            interface_ns_block: (4096.0 * 1e3 / profile.queue.interface_mb_s) as Nanos,
        };
        let layer = Self {
            log: Log::new(layout.ring / quantum),
            spec,
            layout,
            bands,
            map: ExtentMap::default(),
            journal: Journal::new(),
            runs: Runs::default(),
            stream: Stream::default(),
            cleaning: None,
            full: false,
            blocked: VecDeque::new(),
            through: Vec::new(),
            flushes: Vec::new(),
            writes: 0,
            reads: BTreeMap::new(),
            next_read: work::READ,
            last_busy: 0,
            host_blocks: host,
        };
        (layer, disk)
    }

    /// Time for a command's answer, and for its blocks between host and drive.
    pub(super) fn answer(&self, blocks: u64) -> Nanos {
        self.spec.overhead + blocks * self.spec.interface_ns_block
    }

    fn read(&mut self, inside: &mut Inside, id: CommandId, range: &Range<u64>) {
        if self.journal.holds(range) || self.runs.holds(range) {
            inside.complete_in(self.answer(range.end - range.start), id);
            return;
        }
        let extents = self.map.within(range);
        let cached = extents.iter().map(|extent| (extent.at, extent.blocks));
        let native = gaps(range, &extents).into_iter().flat_map(|gap| self.bands.parts(&gap));
        // A band's neighbour follows it on the platter, but where the map lies between them.
        let native = native.map(|part| (self.layout.native(part.start), part.end - part.start));
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for (at, blocks) in cached.chain(native) {
            match parts.last_mut().filter(|last| last.0 + last.1 == at) {
                Some(last) => last.1 += blocks,
                None => parts.push((at, blocks)),
            }
        }
        self.next_read += 1;
        self.reads.insert(self.next_read, (id, parts.len() as u32));
        for (at, blocks) in parts {
            inside.run(Medium::Disk, Op::Read, at, blocks, self.next_read);
        }
    }

    fn write(&mut self, inside: &mut Inside, id: CommandId, range: Range<u64>, through: bool) {
        if self.spec.volatile.is_some() {
            self.blocked.push_back((id, range, through));
        } else {
            self.journal.waiting.push_back(Waiting { id: Some(id), blocks: range, number: self.writes });
            self.writes += 1;
        }
        self.go(inside);
    }

    /// Lets writes into the volatile cache, as far as there is room.
    fn admit(&mut self, inside: &mut Inside) {
        let Some(volatile) = self.spec.volatile else { return };
        while let Some((id, range, through)) = self.blocked.front().cloned() {
            let blocks = range.end - range.start;
            if self.runs.blocks() > 0 && self.runs.blocks() + blocks > volatile.blocks {
                return;
            }
            self.blocked.pop_front();
            let run = self.runs.write(&range, inside.now(), self.writes, volatile.stream_min);
            self.writes += 1;
            if through {
                self.write_through(id, run, &range);
            } else {
                inside.complete_in(self.answer(blocks), id);
            }
        }
    }

    /// Lets a write of a run complete when it is durable: the run goes to the journal at once, or streams.
    fn write_through(&mut self, id: CommandId, run: u64, range: &Range<u64>) {
        if self.runs.streams(run) {
            self.through.push((id, run, range.end));
            return;
        }
        // Older blocks of the same places go before it.
        let mut taken = self.runs.take_overlapping(range);
        taken.sort_by_key(|&(number, _)| number == run);
        let waiting = |(number, blocks)| Waiting { id: (number == run).then_some(id), blocks, number };
        self.journal.waiting.extend(taken.into_iter().map(waiting));
    }

    /// The host needs blocks no more: neither is there anything to clean of them.
    fn trim(&mut self, inside: &mut Inside, range: &Range<u64>) {
        self.runs.forget(range);
        self.journal.forget(range);
        let gone = self.map.remove(range);
        self.let_go(&gone);
        self.go(inside);
    }

    /// The map has extents no more, so that there may be room for writes that wait.
    pub(super) fn let_go(&mut self, gone: &[Extent]) {
        gone.iter().for_each(|part| self.log.let_go(part.owner, part.blocks));
        self.full &= gone.is_empty();
    }

    /// True if what lies in the volatile cache must go on at once.
    pub(super) fn presses(&self) -> bool {
        !self.flushes.is_empty() || !self.blocked.is_empty() || !self.through.is_empty()
    }

    /// Everything that can go on does.
    pub(super) fn go(&mut self, inside: &mut Inside) {
        self.admit(inside);
        self.go_streaming(inside);
        self.go_journaling(inside);
        self.end_flushes(inside);
        self.go_cleaning(inside);
    }

    /// Completes the flushes whose writes are all on the platters. Without a volatile cache these are all that completed.
    fn end_flushes(&mut self, inside: &mut Inside) {
        let overhead = self.spec.overhead;
        for (id, ..) in self.through.extract_if(.., |&mut (_, run, to)| !self.runs.has_of(run, to)) {
            inside.complete_in(overhead, id);
        }
        for (id, number) in std::mem::take(&mut self.flushes) {
            let volatile = self.spec.volatile.is_some();
            if volatile && (self.runs.has_before(number) || self.journal.has_before(number)) {
                self.flushes.push((id, number));
            } else {
                inside.complete_in(self.spec.overhead, id);
            }
        }
    }

    fn is_busy(&self) -> bool {
        let journal = !self.journal.is_idle() || !self.journal.waiting.is_empty();
        journal || !self.reads.is_empty() || !self.runs.is_empty() || !self.blocked.is_empty()
    }

    /// Time from which the drive cleans, unless the host comes back.
    pub(super) fn idle_from(&self) -> Option<Nanos> {
        (!self.is_busy()).then_some(self.last_busy + self.spec.idle)
    }
}

impl Layer for MediaCacheLayer {
    fn command(&mut self, inside: &mut Inside, id: CommandId, command: Command) {
        self.last_busy = inside.now();
        match Request::of(&command, self.host_blocks) {
            Request::Read(range) => self.read(inside, id, &range),
            Request::Write { blocks, through } => self.write(inside, id, blocks, through),
            Request::Trim(range) => {
                inside.complete_in(self.spec.overhead, id);
                self.trim(inside, &range);
            }
            Request::Flush => {
                self.flushes.push((id, self.writes));
                self.go(inside);
            }
            Request::Nothing => inside.complete_in(self.spec.overhead, id),
        }
    }

    fn ended(&mut self, inside: &mut Inside, work: Work) {
        match work {
            work::JOURNAL => self.journaled(inside),
            work::CLEAN => self.cleaned_step(),
            work::STREAM => self.streamed(inside),
            read => {
                if let Some((id, left)) = self.reads.get_mut(&read) {
                    *left -= 1;
                    if *left == 0 {
                        let id = *id;
                        self.reads.remove(&read);
                        inside.complete_in(self.spec.overhead, id);
                    }
                }
            }
        }
        // Cleaning alone keeps nobody busy.
        if work != work::CLEAN {
            self.last_busy = inside.now();
        }
        self.go(inside);
    }

    fn alarm(&self) -> Option<Nanos> {
        let gathers = match self.journal.stage {
            Stage::Gathers(until) => Some(until),
            _ => None,
        };
        [gathers, self.cleans_at(), self.run_due(), self.stream_ends()].into_iter().flatten().min()
    }

    fn woken(&mut self, inside: &mut Inside) {
        self.go(inside);
    }

    fn blocks(&self) -> u64 {
        self.host_blocks
    }

    fn set_write_cache(&mut self, on: bool) -> bool {
        let idle = self.runs.is_empty() && !self.is_busy() && !self.stream.runs();
        if !idle || (on && self.spec.volatile_on.is_none()) {
            return self.spec.volatile.is_some() == on;
        }
        self.spec.volatile = self.spec.volatile_on.filter(|_| on);
        true
    }

    fn torn(&self) -> Vec<Range<u64>> {
        self.stream.torn(&self.bands, self.spec.band_tracks)
    }

    fn power_failed(&mut self, now: Nanos) {
        self.runs = Runs::default();
        self.stream = Stream::default();
        self.journal.power_failed();
        self.cleaning = self.cleaning.take().and_then(|cleaning| cleaning.after_power_failed(&self.layout));
        self.blocked.clear();
        self.through.clear();
        self.flushes.clear();
        self.reads.clear();
        (self.full, self.last_busy) = (false, now);
    }

    fn boxed_clone(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}
