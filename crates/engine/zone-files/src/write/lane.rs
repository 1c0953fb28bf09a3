//! Lanes: queues of pieces, each of which is written to one zone at a time.
//!
//! A file's pieces are in one lane, so that they are written in their order.
//!
//! # Invariants
//! - ZF-LANE-1: zones that lanes have, take or leave, and spare ones, are together no more than zones may be open; one of them is left to
//!   logs, and one to copies. (`files_of_all_lifetimes_begin_at_once`)
//! - ZF-LANE-2: nothing is written to a lane while its zone is taken or left, whoever does it.
//!   (`a_log_keeps_its_commits_while_tables_wait_for_room`)

use shingle_base::ZoneId;

use super::piece::Piece;
use crate::config::{FileKind, WriteLifetime};

/// The lane of logs, and the stream of its zones.
pub(crate) const LOGS: usize = 0;

/// The lane of copies, and the stream of its zones.
pub(crate) const COPIES: usize = 1;

/// The lane of small files.
const SMALL: usize = 2;

/// The first lane of files that have zones of their own, and the stream of their zones.
pub(crate) const OWN: usize = 7;

/// Streams of zones.
pub(crate) const STREAMS: u8 = OWN as u8 + 1;

/// Free zones that files leave to copies. (ZF-ROOM-1)
const COPY_RESERVE: u32 = 2;

/// Free zones that the streams of a lane leave to others.
pub(crate) fn reserve(lane: usize) -> u32 {
    match lane {
        COPIES => 0,
        LOGS => COPY_RESERVE - 1,
        _ => COPY_RESERVE,
    }
}

/// The files' part of a lane.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// Its task waits for a free zone.
    pub(crate) waits: bool,
    /// Its zone is being taken or left. (ZF-LANE-2)
    pub(crate) changes: bool,
    /// The file that has this lane for itself.
    pub(crate) file: Option<u64>,
}

/// A queue of pieces and its zone.
pub(crate) type Lane = shingle_zone_kit::Lane<Piece, Own>;

/// The lane for files of a kind and a lifetime.
pub(crate) fn class_of(kind: FileKind, lifetime: WriteLifetime) -> usize {
    match (kind, lifetime) {
        (FileKind::Wal, _) => LOGS,
        (FileKind::Sst, WriteLifetime::None) => SMALL + 2,
        (FileKind::Manifest | FileKind::Other, WriteLifetime::None) => SMALL,
        (_, lifetime) => SMALL + lifetime as usize,
    }
}

/// All lanes.
pub(crate) struct Lanes {
    /// Logs, copies, small files, four lifetimes; then those of files of their own.
    pub(crate) all: Vec<Lane>,
    /// Open zones without a lane.
    pub(crate) spare: Vec<ZoneId>,
    /// Spare zones that are given up, and the drive has open still.
    pub(crate) leaving: usize,
    /// Lanes that may be open at once, beside logs and copies.
    others_max: usize,
}

impl Lanes {
    pub(crate) fn new(open_max: u32) -> Self {
        let lanes = OWN + open_max as usize;
        let all = std::iter::repeat_with(Lane::default).take(lanes).collect();
        Self { all, spare: Vec::new(), leaving: 0, others_max: (open_max as usize).saturating_sub(2).max(1) }
    }

    /// Lanes and zones that count against the limit, beside logs and copies.
    fn count(&self, counts: impl Fn(&Lane) -> bool) -> usize {
        self.all.iter().skip(SMALL).filter(|lane| counts(lane)).count() + self.spare.len() + self.leaving
    }

    /// As many as zones will be open if all lanes with something to write get one.
    fn used(&self) -> usize {
        self.count(|lane| lane.zone.is_some() || lane.own.changes || lane.is_busy())
    }

    /// True if a lane may take one more zone. (ZF-LANE-1)
    pub(crate) fn may_take(&self, lane: usize) -> bool {
        lane < SMALL || self.count(|lane| lane.zone.is_some() || lane.own.changes) < self.others_max
    }

    /// A lane may begin: with a zone of its own, or with a spare one.
    fn may_begin(&self) -> bool {
        self.used() < self.others_max || !self.spare.is_empty()
    }

    /// The lane for a file of a class, or another one that has a zone if no more may be open.
    pub(crate) fn choose(&self, class: usize) -> usize {
        let of = |lane: usize| &self.all[lane];
        if class < SMALL || of(class).zone.is_some() || of(class).is_busy() || self.may_begin() {
            return class;
        }
        self.neighbour(class, |lane| lane.zone.is_some()).unwrap_or(class)
    }

    /// The lane nearest to `class` of those that others may use.
    pub(crate) fn neighbour(&self, class: usize, takes: impl Fn(&Lane) -> bool) -> Option<usize> {
        let lanes = (SMALL..self.all.len()).filter(|lane| *lane != class && takes(&self.all[*lane]));
        lanes.min_by_key(|lane| (self.all[*lane].own.file.is_some(), lane.abs_diff(class)))
    }

    /// A lane for one file alone, if one more zone may be open beside the classes'.
    pub(crate) fn own(&mut self, serial: u64) -> Option<usize> {
        if let Some(lane) = self.all.iter().position(|lane| lane.own.file == Some(serial)) {
            return Some(lane);
        }
        // One is left to the classes. Spare zones are given up for others, or go on in this lane.
        if self.used() - self.spare.len() + 1 >= self.others_max {
            return None;
        }
        let free = |lane: &Lane| lane.own.file.is_none() && lane.zone.is_none() && !lane.is_busy();
        let lane = (OWN..self.all.len()).find(|lane| free(&self.all[*lane]))?;
        self.all[lane].own.file = Some(serial);
        Some(lane)
    }

    /// A file gives up its own lane: the zone is for others. An own lane that is busy is given up when it becomes idle.
    pub(crate) fn disown(&mut self, serial: u64) {
        if let Some(lane) = self.all.iter_mut().find(|lane| lane.own.file == Some(serial) && !lane.is_busy()) {
            lane.own.file = None;
            self.spare.extend(lane.zone.take());
        }
    }
}

/// The stream of the zones of a lane.
pub(crate) fn stream_of(lane: usize) -> u8 {
    lane.min(OWN) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ZF-LANE-1.
    #[test]
    fn classes_share_zones_where_few_may_be_open() {
        let mut lanes = Lanes::new(4);
        let class = |lifetime| class_of(FileKind::Sst, lifetime);
        let (short, long) = (class(WriteLifetime::Short), class(WriteLifetime::Long));
        assert_eq!(lanes.choose(short), short);
        lanes.all[short].zone = Some(ZoneId(1));
        assert_eq!(lanes.own(9), None, "one is left to the classes");
        lanes.all[long].zone = Some(ZoneId(2));
        assert_eq!(lanes.choose(class(WriteLifetime::Extreme)), long);
        assert_eq!(lanes.choose(class_of(FileKind::Other, WriteLifetime::None)), short);
        assert_eq!(lanes.choose(class_of(FileKind::Wal, WriteLifetime::Short)), LOGS);
        lanes.all[long].zone = None;
        lanes.spare.push(ZoneId(2));
        assert!(!lanes.may_take(long) && lanes.may_begin());
        (lanes.spare, lanes.all[long].own.changes) = (Vec::new(), true);
        assert!(!lanes.may_take(SMALL) && lanes.may_take(LOGS) && !lanes.may_begin());
    }

    #[test]
    fn a_large_file_has_a_lane_of_its_own_where_many_may_be_open() {
        let mut lanes = Lanes::new(10);
        let lane = lanes.own(9).unwrap();
        assert_eq!((lanes.own(9), lane), (Some(lane), OWN));
        lanes.all[lane].zone = Some(ZoneId(3));
        lanes.disown(9);
        assert_eq!(lanes.spare, [ZoneId(3)]);
        assert_eq!(lanes.own(10), Some(OWN));
    }
}
