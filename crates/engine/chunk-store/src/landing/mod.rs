//! The landing log: small appends of all chunks land together, and reach their chunks' own zones in large pieces.
//!
//! If every chunk has its own zone each append is a seek, however short. So short ones are written to a few landing
//! zones first, in the order they come, many to a write, and acknowledged there. Their bytes stay in memory until there
//! is much to move at once ([`mover`]); then the index takes them, and the landed records are dead. A landing zone is
//! never written twice, and is garbage once all its records are dead.
//!
//! A landed record is an ordinary data record. If its bytes cannot be moved, for want of space, after errors, or
//! because memory was lost with the power, the index takes it in its landing zone ([`Engine::adopt`]).
//!
//! # Invariants
//! - CS-LAND-1: what a chunk has in landing zones is a run of whole appends behind its indexed bytes (CS-TAIL-1), each durable
//!   before the next of the chunk is written: a power cut leaves a prefix, wherever its parts lie.
//! - CS-LAND-2: an append goes to the chunk's own zone only behind all that landed, in the same zone and order.
//! - CS-LAND-3: a landing zone's `indexed_to` stays before its oldest record that is neither in the index nor dead
//!   (CS-ZONE-3), and the zone is not reset while there is one.

mod log;
mod mover;
mod phases;
mod tail;
mod zones;

use std::collections::VecDeque;

use shingle_base::ZoneId;
use shingle_runtime::Instant;
use shingle_zoned::Geometry;

use crate::append::Pending;
use crate::config::Landing;
use crate::landing::phases::{Origin, Phases};
pub(crate) use crate::landing::tail::Tail;
use crate::landing::zones::LandingZones;

/// The state of the log.
pub(crate) struct LandingLog {
    pub(crate) config: Landing,
    /// Appends that wait to be written, in order.
    queue: VecDeque<Pending>,
    /// The landing zones.
    pub(crate) zones: LandingZones,
    phases: Phases,
    /// Likely position of the head.
    from: Origin,
    /// Bytes in memory.
    bytes: u64,
    /// Moves under way.
    moves: u32,
    /// A write is under way.
    writing: bool,
    /// The mover has the head.
    paused: bool,
    /// Something small came.
    wanted: bool,
    /// Space is short: nothing lands.
    suspended: bool,
    /// When something last landed.
    last: Instant,
}

impl LandingLog {
    /// A log for a drive, if it is to have one. `zones` is what the drive allows.
    pub(crate) fn new(config: Option<Landing>, geometry: &Geometry, zones: u32) -> Option<Self> {
        let turns = geometry.revolution.filter(|turn| !turn.is_zero());
        let config = config.filter(|config| zones > 0 && (turns.is_some() || config.everywhere))?;
        Some(Self {
            config,
            queue: VecDeque::new(),
            zones: LandingZones::new(zones),
            phases: Phases::new(turns.map_or(0, |turn| turn.as_nanos() as u64)),
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
