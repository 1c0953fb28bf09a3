//! The state of the landing log.

use std::collections::VecDeque;

use shingle_base::ZoneId;
use shingle_runtime::Instant;
use shingle_zoned::Geometry;

use crate::append::Pending;
use crate::config::Landing;
use crate::landing::phases::{Origin, Phases};
use crate::landing::zones::LandingZones;

/// The state of the landing log.
pub(crate) struct LandingLog {
    pub(crate) config: Landing,
    /// Appends that wait to be written, in order.
    pub(super) queue: VecDeque<Pending>,
    /// The landing zones.
    pub(crate) zones: LandingZones,
    pub(super) phases: Phases,
    /// Likely position of the head.
    pub(super) from: Origin,
    /// Bytes in memory.
    pub(super) bytes: u64,
    /// Moves under way.
    pub(super) moves: u32,
    /// A write is under way.
    pub(super) writing: bool,
    /// The mover has the head.
    pub(super) paused: bool,
    /// Something small came.
    pub(super) wanted: bool,
    /// Space is short: nothing lands.
    pub(super) suspended: bool,
    /// When something last landed.
    pub(super) last: Instant,
}

impl LandingLog {
    /// A log for a drive, if it is to have one. `zones` is what the drive allows.
    pub(crate) fn new(config: Option<Landing>, geometry: &Geometry, zones: u32) -> Option<Self> {
        let revolution = geometry.revolution.filter(|time| !time.is_zero());
        let config = config.filter(|config| zones > 0 && (revolution.is_some() || config.everywhere))?;
        Some(Self {
            config,
            queue: VecDeque::new(),
            zones: LandingZones::new(zones),
            phases: Phases::new(revolution.map_or(0, |time| time.as_nanos() as u64)),
            from: Origin::Far,
            bytes: 0,
            moves: 0,
            writing: false,
            paused: false,
            wanted: false,
            suspended: false,
            last: Instant::default(),
        })
    }

    /// Something else was written or read: the head is somewhere.
    pub(crate) fn note_other_command(&mut self) {
        self.from = Origin::Far;
    }

    /// Number of zones to open: none before the first small append.
    pub(crate) fn zones_missing(&self) -> u32 {
        if self.wanted && !self.suspended { self.zones.missing() } else { 0 }
    }

    /// A zone is ready to take appends.
    pub(crate) fn add_zone(&mut self, zone: ZoneId, now: Instant, capacity: u32) {
        self.zones.add(zone, now, capacity);
    }

    pub(crate) fn is_writing(&self) -> bool {
        self.writing
    }

    /// Lets things land again, once there is space.
    pub(crate) fn resume(&mut self) {
        self.suspended = false;
    }
}
