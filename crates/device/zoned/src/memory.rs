//! A zoned device in memory: for simulation, experiments and benchmarks.
//!
//! Written pieces are kept as they came, by reference; nothing is copied. In metadata-only mode a caller's function
//! chooses the part of each piece to keep, so that a drive of 20 TB fits in memory. A zone costs 16 bytes, and each
//! piece 36 bytes beside its kept part.
//!
//! **Owns** states and bytes of a device that ends with its process.
//! **Knows nothing of** time and faults: crate `sim` brings them, through the methods marked *fault*.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, ZoneId};

use crate::device::{DeviceFuture, ZonedDevice};
use crate::error::{DeviceError, DeviceErrorKind, DeviceResult};
use crate::geometry::Geometry;
use crate::machine::{Machine, gathered_length};
use crate::pieces::{Pieces, zeros};
use crate::zone::{ZoneInfo, ZoneOp, ZoneState};

/// Says how many leading bytes of a written piece a metadata-only device keeps.
pub type Keep = fn(&[u8]) -> usize;

/// A zoned device in memory. Every command completes when it starts.
pub struct MemoryDevice {
    geometry: Geometry,
    keep: Option<Keep>,
    contents: RefCell<Contents>,
}

#[derive(Clone)]
struct Contents {
    machine: Machine,
    /// By zone, shared with snapshots until one of them changes.
    zones: Vec<Option<Arc<Pieces>>>,
    /// Blocks that fail to be read, each with how many times more; `u32::MAX`: for good.
    unreadable: BTreeMap<u64, u32>,
}

impl Contents {
    /// True if a read of these blocks fails: at the first unreadable one, which then has failed once more.
    fn fails_to_read(&mut self, at: Lba, length: Blocks) -> bool {
        let Some((&block, left)) = self.unreadable.range_mut(at.0..at.0 + length.0).next() else { return false };
        match *left {
            u32::MAX => {}
            0 | 1 => drop(self.unreadable.remove(&block)),
            _ => *left -= 1,
        }
        true
    }

    /// Blocks that are written can be read again, as a drive puts a bad one elsewhere.
    fn written(&mut self, at: Lba, length: u64) {
        if !self.unreadable.is_empty() {
            self.unreadable.retain(|block, _| !(at.0..at.0 + length).contains(block));
        }
    }
}

impl MemoryDevice {
    /// A device with nothing on it.
    ///
    /// # Panics
    /// If no drive can have the geometry; [`Geometry::validate`] says so beforehand.
    pub fn new(geometry: Geometry) -> Self {
        let machine = match Machine::new(geometry.clone()) {
            Ok(machine) => machine,
            Err(error) => panic!("no drive can have this geometry: {error}"),
        };
        let zones = vec![None; geometry.zone_count as usize];
        Self { geometry, keep: None, contents: RefCell::new(Contents { machine, zones, unreadable: BTreeMap::new() }) }
    }

    /// A device with nothing on it that keeps of each piece it is given only the leading bytes that `keep` names; the
    /// rest reads as zeros and takes no memory.
    ///
    /// # Panics
    /// As [`MemoryDevice::new`].
    pub fn metadata_only(geometry: Geometry, keep: Keep) -> Self {
        Self { keep: Some(keep), ..Self::new(Geometry { keeps_payload: false, ..geometry }) }
    }

    /// A device with the same contents and states, from now on independent. Costs little: bytes are shared, and
    /// bookkeeping is copied for a zone only when either device writes to it.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        Self { geometry: self.geometry.clone(), keep: self.keep, contents: self.contents.clone() }
    }

    /// The same with other limits on open and active zones; `None`: no limit. Zones that are open are closed.
    #[must_use]
    pub fn with_limits(&self, open: Option<u32>, active: Option<u32>) -> Self {
        let mut contents = self.contents.borrow().clone();
        let geometry = Geometry { open_zones_max: open, active_zones_max: active, ..self.geometry.clone() };
        contents.machine.relimit(&geometry);
        Self { geometry, keep: self.keep, contents: RefCell::new(contents) }
    }

    /// One zone, without waiting.
    ///
    /// # Panics
    /// If the device has no such zone.
    pub fn zone(&self, zone: ZoneId) -> ZoneInfo {
        self.contents.borrow().machine.info(zone)
    }

    /// Bytes of payload held, without bookkeeping.
    pub fn held_bytes(&self) -> u64 {
        self.contents.borrow().zones.iter().flatten().map(|pieces| pieces.held_bytes()).sum()
    }

    /// *Fault*: puts `zone` into `state`, as a failing drive does (read-only, offline).
    ///
    /// # Panics
    /// If a zone of its type cannot be in `state`.
    pub fn set_state(&self, zone: ZoneId, state: ZoneState) {
        let machine = &mut self.contents.borrow_mut().machine;
        let written = machine.info(zone).written;
        assert!(machine.set(zone, state, written).is_ok(), "{zone} cannot be {state:?}");
    }

    /// *Fault*: moves the write pointer of `zone` to `written` blocks from its start, as a power cut may leave it. The
    /// zone ends up empty, closed or full; a read-only or offline one stays so. Blocks never written read as zeros.
    ///
    /// # Panics
    /// If `zone` is conventional, or shorter than that.
    pub fn truncate_zone(&self, zone: ZoneId, written: Blocks) {
        let contents = &mut *self.contents.borrow_mut();
        let info = contents.machine.info(zone);
        let state = match info.state {
            dead @ (ZoneState::ReadOnly | ZoneState::Offline) => dead,
            _ if written == info.capacity => ZoneState::Full,
            _ => ZoneState::Closed,
        };
        assert!(contents.machine.set(zone, state, written).is_ok(), "{zone} cannot hold {written}");
        if let Some(pieces) = &mut contents.zones[zone.0 as usize] {
            Arc::make_mut(pieces).truncate(written.0 as u32);
        }
    }

    /// *Fault*: changes the bytes of one block, as a failing medium does. Does nothing if the block cannot be read.
    pub fn corrupt(&self, at: Lba, change: impl FnOnce(&mut [u8])) {
        let contents = &mut *self.contents.borrow_mut();
        let Ok(zone) = contents.machine.read(at, Blocks(1)) else { return };
        let block = (at - self.geometry.start_of(zone)).0 as u32;
        let pieces = Arc::make_mut(contents.zones[zone.0 as usize].get_or_insert_default());
        let mut bytes = AlignedBuf::zeroed(Blocks(1));
        bytes.copy_from_slice(&pieces.read(block, 1));
        change(&mut bytes);
        pieces.overwrite(block, 1, bytes.freeze());
    }

    /// *Fault*: reads of any of these blocks fail, `times` times a block or, with `None`, until they are
    /// [healed](Self::heal) or written again. Snapshots have the fault too.
    pub fn fail_reads(&self, at: Lba, length: Blocks, times: Option<u32>) {
        let unreadable = &mut self.contents.borrow_mut().unreadable;
        unreadable.extend((at.0..at.0 + length.0).map(|block| (block, times.unwrap_or(u32::MAX))));
    }

    /// *Fault*: all blocks can be read again, with their bytes.
    pub fn heal(&self) {
        self.contents.borrow_mut().unreadable.clear();
    }

    /// *Fault*: closes all open zones, as a power cycle does; empties those in which nothing was written.
    pub fn power_cycle(&self) {
        self.contents.borrow_mut().machine.power_cycle();
    }

    fn misaligned_or_length(&self, data: &[Bytes], at: Lba) -> DeviceResult<Blocks> {
        gathered_length(data)
            .map_err(|violation| DeviceError::new(DeviceErrorKind::Rule(violation), at, self.geometry.zone_of(at)))
    }

    /// [Reads](ZonedDevice::read) without waiting.
    ///
    /// # Errors
    /// As the command's.
    pub fn read_now(&self, at: Lba, length: Blocks) -> DeviceResult<Bytes> {
        let contents = &mut *self.contents.borrow_mut();
        let zone = contents.machine.read(at, length)?;
        if contents.fails_to_read(at, length) {
            return Err(DeviceError::new(DeviceErrorKind::ReadFailed, at, Some(zone)));
        }
        let from = (at - self.geometry.start_of(zone)).0 as u32;
        let blocks = length.0 as u32;
        Ok(match &contents.zones[zone.0 as usize] {
            Some(pieces) if !pieces.is_empty() => pieces.read(from, blocks),
            _ => zeros(length),
        })
    }

    /// [Writes](ZonedDevice::write) without waiting.
    ///
    /// # Errors
    /// As the command's.
    pub fn write_now(&self, at: Lba, data: Vec<Bytes>) -> DeviceResult<()> {
        let length = self.misaligned_or_length(&data, at)?;
        let contents = &mut *self.contents.borrow_mut();
        let zone = contents.machine.write(at, length)?.zone;
        self.keep(contents, zone, at, data);
        Ok(())
    }

    /// [Appends](ZonedDevice::append) without waiting.
    ///
    /// # Errors
    /// As the command's.
    pub fn append_now(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceResult<Lba> {
        let length = self.misaligned_or_length(&data, self.geometry.start_of(zone))?;
        let contents = &mut *self.contents.borrow_mut();
        let at = contents.machine.append(zone, length)?.at;
        self.keep(contents, zone, at, data);
        Ok(at)
    }

    /// [Opens, closes, finishes or resets](ZonedDevice::manage) a zone without waiting.
    ///
    /// # Errors
    /// As the command's.
    pub fn manage_now(&self, zone: ZoneId, op: ZoneOp) -> DeviceResult<()> {
        let contents = &mut *self.contents.borrow_mut();
        contents.machine.manage(zone, op)?;
        if op == ZoneOp::Reset {
            contents.zones[zone.0 as usize] = None;
        }
        Ok(())
    }

    /// Keeps the part to be kept of an accepted write.
    fn keep(&self, contents: &mut Contents, zone: ZoneId, at: Lba, data: Vec<Bytes>) {
        contents.written(at, data.iter().map(|piece| (piece.len() / BLOCK_SIZE) as u64).sum());
        let pieces = Arc::make_mut(contents.zones[zone.0 as usize].get_or_insert_default());
        let conventional = self.geometry.is_conventional(zone);
        let mut start = (at - self.geometry.start_of(zone)).0 as u32;
        for piece in data {
            let blocks = (piece.len() / BLOCK_SIZE) as u32;
            let kept = match self.keep {
                None => piece,
                // A copy, not a part of the piece: that would keep all of its buffer alive.
                Some(keep) => Bytes::copy_from_slice(&piece[..keep(&piece).min(piece.len())]),
            };
            if conventional {
                pieces.overwrite(start, blocks, kept)
            } else {
                pieces.push(start, kept)
            }
            start += blocks;
        }
        if contents.machine.info(zone).state == ZoneState::Full {
            pieces.shrink();
        }
    }
}

impl ZonedDevice for MemoryDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        Box::pin(async move { Ok(self.contents.borrow().machine.report(first, count)) })
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        Box::pin(async move { self.read_now(at, length) })
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        Box::pin(async move { self.write_now(at, data) })
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        Box::pin(async move { self.append_now(zone, data) })
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        Box::pin(async move { self.manage_now(zone, op) })
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
