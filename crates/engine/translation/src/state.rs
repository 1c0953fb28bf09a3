//! Everything a volume holds in memory, changed only between two awaits (RT-1).

use bytes::Bytes;
use shingle_base::ZoneId;
use shingle_runtime::Instant;
use shingle_zone_kit::Losses;

use crate::failure::Failure;
use crate::format::Move;
use crate::layout::Shape;
use crate::map::Extent;
use crate::pace::Pace;
use crate::place::Place;
use crate::room::COPY_RESERVE;
use crate::snapshot::{Fate, Maps};
use crate::stats::Counters;
use crate::write::{COPIES, Frontier, Router, STREAMS, WRITES, is_copy, of_writes};
use crate::zones::{Zone, ZoneTable, add_kept, take_kept};

/// The amount at which writers wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mark {
    /// So few blocks are left to them.
    Room(u64),
    /// They have written so much since copies began that make room. (TL-PACE-1)
    Pace(Pace),
}

/// A mark of a controller, or of the volume's own cleaner. (FSTL, section III-B)
#[derive(Clone, Copy, Debug)]
pub(crate) struct LowWater {
    pub(crate) mark: Mark,
    /// It counts until then.
    pub(crate) until: Instant,
}

/// A controller that takes the place of the volume's own cleaner.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attached {
    /// Commands that it gave.
    pub(crate) commands: u64,
    /// Commands it had given when the volume last cleaned by itself.
    pub(crate) taken_over: Option<u64>,
}

/// Blocks of a zone that failed, which no flush had covered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubt {
    pub(crate) zone: ZoneId,
    pub(crate) epoch: u64,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// The course of gathering through the volume's map, round and round. (TL-MEM-1)
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gathering {
    /// The sector from which the map is looked at next.
    pub(crate) from: u64,
    /// Extents were joined in this round.
    pub(crate) fruitful: bool,
    /// Steps since then that joined hardly any.
    pub(crate) poor: u32,
    /// There was nothing to be won; the next try comes then.
    pub(crate) again: Option<Instant>,
    /// Most extents of the part that was looked at last have no neighbours.
    pub(crate) sparse: bool,
    /// When this round began.
    pub(crate) began: Option<Instant>,
    /// Extents that would be left of those looked at in this round if all that follow each other were one, and in the last round.
    pub(crate) apart: u64,
    pub(crate) apart_before: u64,
}

/// A volume's state.
pub(crate) struct State {
    pub(crate) maps: Maps,
    /// Size of the volume.
    pub(crate) sectors: u64,
    pub(crate) zones: ZoneTable,
    /// By stream.
    pub(crate) frontiers: [Frontier; STREAMS as usize],
    pub(crate) router: Router,
    pub(crate) shape: Shape,
    /// Zones that the drive allows to be open, or active, at once.
    pub(crate) open_max: Option<u32>,
    /// Writers wait at this mark, for a while.
    pub(crate) low_water: Option<LowWater>,
    /// Free zones below which a controller wants to be told; the volume's own number if that is higher.
    pub(crate) wanted_free: u32,
    /// A controller wants the volume's own cleaner to win a zone.
    pub(crate) reclaim: bool,
    /// Since when writers wait for room.
    pub(crate) waiting_since: Option<Instant>,
    /// A controller, in place of the volume's own cleaner.
    pub(crate) attached: Option<Attached>,
    /// Callers' writes wait before they are numbered, while the volume as a whole is changed.
    pub(crate) held: bool,
    /// Bytes that a controller wants to find again.
    pub(crate) saved: Bytes,
    /// Reason why the volume has stopped, if it has.
    pub(crate) stopped: Option<Failure>,
    /// When sectors could not be read last, so that their zone cannot be emptied; none once such zones are tried again.
    pub(crate) stuck_at: Option<Instant>,
    /// The volume closes, and the file system that holds the drive has no room: nothing more can be written. (TL-CLOSE-1)
    pub(crate) host_full: bool,
    pub(crate) gathering: Gathering,
    /// The keeper found nothing that would make room.
    pub(crate) hopeless: bool,
    /// Zones that failed with callers' writes that no flush had covered. (TL-LOSS-1)
    pub(crate) losses: Losses,
    /// Blocks that each of them may have lost.
    pub(crate) doubts: Vec<Doubt>,
    /// Zones that failed, or may have: a checkpoint is due that lets no opening depend on them.
    pub(crate) failed: u64,
    /// Those of them that had failed when the last complete checkpoint began.
    pub(crate) settled: u64,
    pub(crate) counters: Counters,
}

impl State {
    pub(crate) fn new(shape: Shape, open_max: Option<u32>, zones: ZoneTable, maps: Maps, sectors: u64) -> Self {
        Self {
            maps,
            sectors,
            zones,
            shape,
            open_max,
            frontiers: Default::default(),
            router: Router::default(),
            low_water: None,
            wanted_free: 0,
            reclaim: false,
            waiting_since: None,
            attached: None,
            held: false,
            saved: Bytes::new(),
            stopped: None,
            stuck_at: None,
            host_full: false,
            gathering: Gathering::default(),
            hopeless: false,
            losses: Losses::default(),
            doubts: Vec::new(),
            failed: 0,
            settled: 0,
            counters: Counters::default(),
        }
    }

    /// Fails once the volume has stopped.
    pub(crate) fn running(&self) -> Result<(), Failure> {
        self.stopped.clone().map_or(Ok(()), Err)
    }

    /// A zone has failed, or may have: takes note of its blocks that no flush had covered. (TL-LOSS-1)
    pub(crate) fn doubt(&mut self, zone: ZoneId) {
        // No opening looks at copies, and those that no flush has covered are in no map.
        let Some(entry) = self.zones.get(zone).filter(|entry| !is_copy(entry.stream)) else { return };
        let Zone { epoch, durable: from, next: to, .. } = *entry;
        self.failed += 1;
        if from < to {
            self.losses.note();
            self.doubts.push(Doubt { zone, epoch, from, to });
        }
    }

    /// A zone has failed, and no complete checkpoint lets openings do without it yet.
    pub(crate) fn settles(&self) -> bool {
        self.failed > self.settled
    }

    /// Gives sectors of the volume a place, or none. (TL-ZONE-1)
    pub(crate) fn place(&mut self, lba: u64, sectors: u64, place: Option<Place>) {
        let Self { maps, zones, shape, .. } = self;
        maps.write(lba..lba + sectors, place, |Extent { sectors, place, .. }, fate| {
            let zone = shape.zone_of(place);
            match fate {
                Fate::Freed => zones.take_live(zone, u64::from(sectors)),
                Fate::Kept => add_kept(zones, zone, u64::from(sectors)),
            }
        });
        if let Some(place) = place {
            zones.add_live(shape.zone_of(place), sectors);
        }
    }

    /// Moves sectors to another place, whosever they are. (TL-ZONE-1)
    pub(crate) fn relocate(&mut self, moved: &Move) {
        let (live, kept) = self.maps.relocate(moved);
        let [from, to] = [moved.from, moved.to].map(|place| self.shape.zone_of(place));
        self.zones.add_live(to, live + kept);
        add_kept(&mut self.zones, to, kept);
        take_kept(&mut self.zones, from, kept);
        self.zones.take_live(from, live + kept);
    }

    /// Blocks that writers may still use.
    pub(crate) fn room_of_writers(&self) -> u64 {
        let zone_blocks = u64::from(self.shape.zone_blocks);
        let open = of_writes().filter_map(|stream| self.zones.get(self.frontiers[usize::from(stream)].zone?));
        let rest: u64 = open.map(|zone| zone_blocks - u64::from(zone.next)).sum();
        u64::from(self.zones.free().saturating_sub(COPY_RESERVE)) * zone_blocks + rest
    }

    /// Writers wait for room, and have not been told that there will be none.
    pub(crate) fn writers_wait(&self) -> bool {
        self.waiting_since.is_some() && !self.hopeless
    }

    /// A stream has nothing to write.
    pub(crate) fn is_idle(&self, stream: u8) -> bool {
        !self.frontiers[usize::from(stream)].is_busy()
    }

    /// A stream has its place among the zones that may be open. That of writes always has, and others of writes from when something waits
    /// there; copies take theirs with their zone.
    fn has_place(&self, stream: u8) -> bool {
        let frontier = &self.frontiers[usize::from(stream)];
        let waits = !is_copy(stream) && frontier.is_busy();
        stream == WRITES || frontier.zone.is_some() || frontier.own.changes > 0 || waits
    }

    /// A stream may have a zone: the drive's limits leave it to the log, to the volume's own cleaner, and to one zone that is being left.
    /// (TL-LIMIT-1)
    pub(crate) fn may_open(&self, stream: u8) -> bool {
        let others = (0..STREAMS).filter(|&other| other != COPIES && self.has_place(other));
        stream == COPIES
            || self.has_place(stream)
            || self.open_max.is_none_or(|most| others.count() + 3 < most as usize)
    }
}
