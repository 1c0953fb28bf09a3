//! The zone state machine: effect of every command on the states, write pointers and limits of a drive.
//!
//! Pure: no data, no I/O, no time. Memory and file devices apply each command here first, and a view uses one to hold
//! its engine to its share of a drive's limits. Rules are those of ZBC, ZAC and NVMe ZNS; if these differ, the method
//! names the choice.
//!
//! **Owns** the eight states, write pointers, and the counts of open and active zones.
//! **Knows nothing of** payload, or of how a zone is stored.
//!
//! # Invariants
//! - ZD-ZM-1: a refused command changes nothing.
//! - ZD-ZM-2: open and active zones never exceed their limits, save where a zone was put into its state from outside
//!   ([`Machine::set`]).
//! - ZD-ZM-3: a closed or implicitly open zone holds at least one block and is not full; an empty one holds none.

use std::collections::VecDeque;

use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, Blocks, Lba, ZoneId};

use crate::error::{DeviceError, DeviceErrorKind, DeviceResult, Violation};
use crate::geometry::{Geometry, GeometryError};
use crate::zone::{ZoneInfo, ZoneOp, ZoneState};

/// Eight bytes a zone, so that the 75,000 zones of a 20 TB drive take 600 KB.
#[derive(Clone, Copy)]
struct Zone {
    /// Blocks written; for a full zone its capacity; zero for conventional and offline zones.
    written: u32,
    state: ZoneState,
}

/// The states and write pointers of all zones of a drive.
#[derive(Clone)]
pub struct Machine {
    geometry: Geometry,
    zones: Vec<Zone>,
    open: u32,
    active: u32,
    /// Implicitly open zones, longest open first: the one the drive closes when it needs a resource. Kept only
    /// where the number of open zones is limited.
    implicit: VecDeque<ZoneId>,
}

/// Effect of an accepted command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The zone the command was for.
    pub zone: ZoneId,
    /// The command's first block; for an append, where it landed.
    pub at: Lba,
    /// The implicitly open zone that the drive closed to free a resource.
    pub closed: Option<ZoneId>,
}

/// A state that a zone cannot be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImpossibleState;

impl ZoneState {
    /// The state's number in ZBC and ZAC, which on-disk formats use.
    pub const fn code(self) -> u8 {
        match self {
            Self::NotWritePointer => 0x0,
            Self::Empty => 0x1,
            Self::ImplicitOpen => 0x2,
            Self::ExplicitOpen => 0x3,
            Self::Closed => 0x4,
            Self::ReadOnly => 0xd,
            Self::Full => 0xe,
            Self::Offline => 0xf,
        }
    }

    /// The state with this number, if there is one.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x0 => Self::NotWritePointer,
            0x1 => Self::Empty,
            0x2 => Self::ImplicitOpen,
            0x3 => Self::ExplicitOpen,
            0x4 => Self::Closed,
            0xd => Self::ReadOnly,
            0xe => Self::Full,
            0xf => Self::Offline,
            _ => return None,
        })
    }
}

/// Target of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To this block.
    At(Lba),
    /// To the write pointer of this zone.
    Append(ZoneId),
}

impl Target {
    /// The place to name if the write is refused before its zone was looked at.
    pub fn start(self, geometry: &Geometry) -> Lba {
        match self {
            Self::At(at) => at,
            Self::Append(zone) => geometry.start_of(zone),
        }
    }
}

/// The length of a write's pieces together.
///
/// # Errors
/// [`Violation::Misaligned`] unless there is at least one block, and every piece is a whole number of blocks and
/// starts at a block boundary in memory.
pub fn gathered_length(data: &[Bytes]) -> Result<Blocks, Violation> {
    let mut bytes = 0;
    for piece in data {
        if piece.is_empty() || piece.len() % BLOCK_SIZE != 0 || piece.as_ptr().align_offset(BLOCK_SIZE) != 0 {
            return Err(Violation::Misaligned);
        }
        bytes += piece.len() as u64;
    }
    if bytes == 0 { Err(Violation::Misaligned) } else { Ok(Blocks::holding(bytes)) }
}

impl Machine {
    /// A drive fresh from the factory: conventional zones first, all others empty.
    ///
    /// # Errors
    /// A geometry no drive can have.
    pub fn new(geometry: Geometry) -> Result<Self, GeometryError> {
        geometry.validate()?;
        let state_of = |zone| {
            if geometry.is_conventional(ZoneId(zone)) { ZoneState::NotWritePointer } else { ZoneState::Empty }
        };
        let zones = (0..geometry.zone_count).map(|zone| Zone { written: 0, state: state_of(zone) }).collect();
        Ok(Self { geometry, zones, open: 0, active: 0, implicit: VecDeque::new() })
    }

    /// The drive's shape and limits.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The number of open zones.
    pub fn open_zones(&self) -> u32 {
        self.open
    }

    /// The number of active zones.
    pub fn active_zones(&self) -> u32 {
        self.active
    }

    /// State and written blocks of `zone`.
    ///
    /// # Panics
    /// If the drive has no such zone.
    pub fn info(&self, zone: ZoneId) -> ZoneInfo {
        let Zone { written, state } = self.zones[zone.0 as usize];
        ZoneInfo {
            zone,
            state,
            start: self.geometry.start_of(zone),
            capacity: self.geometry.capacity_of(zone),
            written: Blocks(u64::from(written)),
        }
    }

    /// `count` zones from `first`, fewer at the end of the drive.
    pub fn report(&self, first: ZoneId, count: u32) -> Vec<ZoneInfo> {
        let end = first.0.saturating_add(count).min(self.geometry.zone_count);
        (first.0..end).map(|zone| self.info(ZoneId(zone))).collect()
    }

    /// Checks a read and returns the zone it lies in.
    ///
    /// # Errors
    /// The broken rule, or `ZoneOffline`.
    pub fn read(&self, at: Lba, length: Blocks) -> DeviceResult<ZoneId> {
        let zone = self.range(at, length)?;
        let Zone { written, state } = self.zones[zone.0 as usize];
        if state == ZoneState::Offline {
            return Err(DeviceError::new(DeviceErrorKind::ZoneOffline, at, Some(zone)));
        }
        let write_pointer = self.geometry.start_of(zone) + Blocks(u64::from(written));
        let end = at + length;
        if end > write_pointer && !self.geometry.is_conventional(zone) {
            return Err(rule(Violation::PastWritePointer { end, write_pointer }, at, zone));
        }
        Ok(zone)
    }

    /// Applies a write of `length` blocks at `at`.
    ///
    /// # Errors
    /// The broken rule, `ZoneReadOnly` or `ZoneOffline`.
    pub fn write(&mut self, at: Lba, length: Blocks) -> DeviceResult<Applied> {
        let zone = self.range(at, length)?;
        self.refuse_dead(zone, at)?;
        if self.geometry.is_conventional(zone) {
            return Ok(Applied { zone, at, closed: None });
        }
        let Zone { written, state } = self.zones[zone.0 as usize];
        if state == ZoneState::Full {
            return Err(rule(Violation::ZoneFull, at, zone));
        }
        let write_pointer = self.geometry.start_of(zone) + Blocks(u64::from(written));
        if at != write_pointer {
            return Err(rule(Violation::NotAtWritePointer { at, write_pointer }, at, zone));
        }
        self.advance(zone, at, length)
    }

    /// Applies an append of `length` blocks to `zone`.
    ///
    /// # Errors
    /// The broken rule, `ZoneReadOnly` or `ZoneOffline`.
    pub fn append(&mut self, zone: ZoneId, length: Blocks) -> DeviceResult<Applied> {
        let start = self.existing(zone)?;
        if length == Blocks::ZERO {
            return Err(rule(Violation::Misaligned, start, zone));
        }
        if self.geometry.is_conventional(zone) {
            return Err(rule(Violation::NotSequential, start, zone));
        }
        if let Some(limit) = self.geometry.append_max
            && length > limit
        {
            return Err(rule(Violation::AppendTooLong { length, limit }, start, zone));
        }
        self.refuse_dead(zone, start)?;
        let Zone { written, state } = self.zones[zone.0 as usize];
        let at = start + Blocks(u64::from(written));
        if state == ZoneState::Full {
            return Err(rule(Violation::ZoneFull, at, zone));
        }
        self.advance(zone, at, length)
    }

    /// Applies a [`write`](Self::write) or [`append`](Self::append).
    ///
    /// # Errors
    /// As these.
    pub fn write_to(&mut self, target: Target, length: Blocks) -> DeviceResult<Applied> {
        match target {
            Target::At(at) => self.write(at, length),
            Target::Append(zone) => self.append(zone, length),
        }
    }

    /// Applies an open, close, finish or reset of `zone`.
    ///
    /// Opening an open zone, closing a zone that is not open, finishing a full zone and resetting an empty one succeed
    /// and change nothing, as ZBC has it. Opening a full zone fails, as ZNS has it. Finishing an empty or closed zone
    /// passes through the open state, and so needs the same resources as a write there (ZBC).
    ///
    /// # Errors
    /// The broken rule, `ZoneReadOnly` or `ZoneOffline`.
    pub fn manage(&mut self, zone: ZoneId, op: ZoneOp) -> DeviceResult<Applied> {
        let at = self.existing(zone)?;
        self.refuse_dead(zone, at)?;
        let Zone { written, state } = self.zones[zone.0 as usize];
        let capacity = self.geometry.zone_capacity.0 as u32;
        let mut closed = None;
        match (op, state) {
            (_, ZoneState::NotWritePointer) | (ZoneOp::Open, ZoneState::Full) => {
                return Err(rule(Violation::WrongState { op, state }, at, zone));
            }
            (ZoneOp::Open, _) => {
                closed = self.reserve(zone, at)?;
                self.put(zone, ZoneState::ExplicitOpen, written);
            }
            (ZoneOp::Close, ZoneState::ImplicitOpen | ZoneState::ExplicitOpen) => self.close(zone),
            (ZoneOp::Close, _) | (ZoneOp::Finish, ZoneState::Full) => {}
            (ZoneOp::Finish, _) => {
                closed = self.reserve(zone, at)?;
                self.put(zone, ZoneState::Full, capacity);
            }
            (ZoneOp::Reset, _) => self.put(zone, ZoneState::Empty, 0),
        }
        Ok(Applied { zone, at, closed })
    }

    /// Puts `zone` into a state from outside: after a fault, from a zone table, or after a failed write. States that
    /// ZD-ZM-3 rules out are put right (an open zone of no blocks is empty, one written to its end is full). Limits are
    /// not held: a drive that starts with too many open zones opens no further ones.
    ///
    /// # Errors
    /// [`ImpossibleState`]: no such zone, more blocks than its capacity, or a state its type does not have.
    pub fn set(&mut self, zone: ZoneId, state: ZoneState, written: Blocks) -> Result<(), ImpossibleState> {
        use ZoneState as S;
        let capacity = self.geometry.capacity_of(zone);
        if zone.0 >= self.geometry.zone_count || written > capacity {
            return Err(ImpossibleState);
        }
        let whole = capacity.0 as u32;
        let written = written.0 as u32;
        let (state, written) = match (self.geometry.is_conventional(zone), state) {
            (true, S::NotWritePointer | S::ReadOnly | S::Offline) | (false, S::Offline) => (state, 0),
            (true, _) | (false, S::NotWritePointer) => return Err(ImpossibleState),
            (false, S::ReadOnly) => (state, written),
            (false, S::Full) => (state, whole),
            (false, S::Empty) => (state, 0),
            (false, S::ImplicitOpen | S::Closed) if written == 0 => (S::Empty, 0),
            (false, S::ImplicitOpen | S::ExplicitOpen | S::Closed) if written == whole => (S::Full, whole),
            (false, S::ImplicitOpen | S::ExplicitOpen | S::Closed) => (state, written),
        };
        self.put(zone, state, written);
        Ok(())
    }

    /// Takes the write pointer of a sequential zone back to `written` after a write that landed only so far.
    /// An open zone stays open if it can; a full one becomes closed.
    pub fn write_failed(&mut self, zone: ZoneId, written: Blocks) {
        let info = self.info(zone);
        let state = match info.state {
            ZoneState::Full if written < info.capacity => ZoneState::Closed,
            other if other.is_active() => other,
            _ => return,
        };
        // Only a shorter length of a zone that is active: always a possible state.
        let _ = self.set(zone, state, written.min(info.written));
    }

    /// Effect of a power cycle: open zones become closed, or empty if nothing was written.
    pub fn power_cycle(&mut self) {
        for zone in 0..self.geometry.zone_count {
            if self.zones[zone as usize].state.is_open() {
                self.close(ZoneId(zone));
            }
        }
    }

    /// Goes on with the limits of `geometry`, which is the same otherwise, as after a power cycle.
    pub(crate) fn relimit(&mut self, geometry: &Geometry) {
        self.power_cycle();
        self.geometry = geometry.clone();
    }

    /// Closes implicitly open zones while more are open than may be, and returns them: a table of states taken while
    /// a command was under way can say so, and so can the drive under a view.
    pub fn close_excess(&mut self) -> Vec<ZoneId> {
        let mut closed = Vec::new();
        while self.geometry.open_zones_max.is_some_and(|limit| self.open > limit)
            && let Some(&oldest) = self.implicit.front()
        {
            self.close(oldest);
            closed.push(oldest);
        }
        closed
    }

    /// Checks that a range is not empty and lies in one zone, and returns the zone.
    fn range(&self, at: Lba, length: Blocks) -> DeviceResult<ZoneId> {
        let device_end = Lba(self.geometry.blocks().0);
        let end = Lba(at.0.saturating_add(length.0));
        let Some(zone) = self.geometry.zone_of(at).filter(|_| end <= device_end) else {
            return Err(DeviceError::new(DeviceErrorKind::Rule(Violation::OutOfRange { end, device_end }), at, None));
        };
        if length == Blocks::ZERO {
            return Err(rule(Violation::Misaligned, at, zone));
        }
        let zone_end = self.geometry.start_of(zone) + self.geometry.zone_size;
        if end > zone_end {
            return Err(rule(Violation::CrossesZone { end, zone_end }, at, zone));
        }
        Ok(zone)
    }

    /// The start of `zone`, if there is such a zone.
    fn existing(&self, zone: ZoneId) -> DeviceResult<Lba> {
        let start = self.geometry.start_of(zone);
        if zone.0 < self.geometry.zone_count {
            return Ok(start);
        }
        let violation =
            Violation::OutOfRange { end: start + self.geometry.zone_size, device_end: Lba(self.geometry.blocks().0) };
        Err(DeviceError::new(DeviceErrorKind::Rule(violation), start, None))
    }

    fn refuse_dead(&self, zone: ZoneId, at: Lba) -> DeviceResult<()> {
        match self.zones[zone.0 as usize].state {
            ZoneState::ReadOnly => Err(DeviceError::new(DeviceErrorKind::ZoneReadOnly, at, Some(zone))),
            ZoneState::Offline => Err(DeviceError::new(DeviceErrorKind::ZoneOffline, at, Some(zone))),
            _ => Ok(()),
        }
    }

    /// Moves the write pointer of a sequential, writable zone on by `length`.
    fn advance(&mut self, zone: ZoneId, at: Lba, length: Blocks) -> DeviceResult<Applied> {
        let capacity_end = self.geometry.start_of(zone) + self.geometry.zone_capacity;
        let end = at + length;
        if end > capacity_end {
            return Err(rule(Violation::PastCapacity { end, capacity_end }, at, zone));
        }
        let closed = self.reserve(zone, at)?;
        let state = match self.zones[zone.0 as usize].state {
            _ if end == capacity_end => ZoneState::Full,
            ZoneState::ExplicitOpen => ZoneState::ExplicitOpen,
            _ => ZoneState::ImplicitOpen,
        };
        let written = (end - self.geometry.start_of(zone)).0 as u32;
        self.put(zone, state, written);
        Ok(Applied { zone, at, closed })
    }

    /// Sees that `zone` can be opened; closes the implicitly open zone that has been open longest if that makes it
    /// possible, and returns it. Nothing can free an active resource but the host.
    fn reserve(&mut self, zone: ZoneId, at: Lba) -> DeviceResult<Option<ZoneId>> {
        let state = self.zones[zone.0 as usize].state;
        if state.is_open() {
            return Ok(None);
        }
        if let Some(limit) = self.geometry.active_zones_max
            && !state.is_active()
            && self.active >= limit
        {
            return Err(rule(Violation::TooManyActive { limit }, at, zone));
        }
        let Some(limit) = self.geometry.open_zones_max.filter(|&limit| self.open >= limit) else { return Ok(None) };
        let Some(&oldest) = self.implicit.front().filter(|_| self.open == limit) else {
            return Err(rule(Violation::TooManyOpen { limit }, at, zone));
        };
        self.close(oldest);
        Ok(Some(oldest))
    }

    fn close(&mut self, zone: ZoneId) {
        let written = self.zones[zone.0 as usize].written;
        self.put(zone, if written == 0 { ZoneState::Empty } else { ZoneState::Closed }, written);
    }

    /// The one place where a zone changes: keeps the counts.
    fn put(&mut self, zone: ZoneId, state: ZoneState, written: u32) {
        let old = std::mem::replace(&mut self.zones[zone.0 as usize], Zone { written, state }).state;
        if old == state {
            return;
        }
        self.open = self.open + u32::from(state.is_open()) - u32::from(old.is_open());
        self.active = self.active + u32::from(state.is_active()) - u32::from(old.is_active());
        if self.geometry.open_zones_max.is_some() {
            if old == ZoneState::ImplicitOpen {
                self.implicit.retain(|&other| other != zone);
            }
            if state == ZoneState::ImplicitOpen {
                self.implicit.push_back(zone);
            }
        }
    }
}

fn rule(violation: Violation, at: Lba, zone: ZoneId) -> DeviceError {
    DeviceError::new(DeviceErrorKind::Rule(violation), at, Some(zone))
}
