//! Taking a drive: checks before the first write, and repairs of its zones.

use std::path::Path;
use std::sync::Arc;

use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, ZoneId};
use shingle_zoned::{Geometry, Machine, ZoneInfo, ZoneOp, ZoneState};

use crate::discover::System;
use crate::drive::{Drive, ZonedModel};
use crate::error::{MarkPlace, OpenError, OpenErrorKind};
use crate::ioctl::{self, RawZone};
use crate::node::{self, Node};
use crate::signature;
use crate::zones::{self, BLOCK_SECTORS, Found};

/// Options for opening a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Take the drive although it is partitioned or holds a file system or the like, which will be overwritten. A drive
    /// that is mounted, or held by another device, is refused all the same: the kernel does not give it.
    pub force: bool,
    /// Leave open zones open, for commands by hand. Engines have them closed: they manage the places for open zones.
    pub keep_open: bool,
    /// The drive has this thread for itself: an emulated one may have it wait for small writes and quick syncs. Not for drives of an array,
    /// which have one thread: a host's disk that hangs would stop the others.
    pub alone: bool,
}

/// A drive that was taken.
pub(crate) struct Opened {
    pub(crate) node: Arc<Node>,
    pub(crate) drive: Drive,
    pub(crate) machine: Machine,
}

/// The drive whose node is at `path`.
pub(crate) fn describe(path: &Path) -> Result<Drive, OpenError> {
    System::host().describe(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidInput => OpenError::new(OpenErrorKind::NotABlockDevice, path),
        _ => OpenError::from_io(error, path),
    })
}

/// Refuses a drive that others use.
pub(crate) fn refuse_used(path: &Path, drive: &Drive, options: OpenOptions) -> Result<(), OpenError> {
    let used = |kind| Err(OpenError::new(kind, path));
    if let Some(at) = drive.mounts.first() {
        return used(OpenErrorKind::Mounted(at.clone()));
    }
    if !drive.holders.is_empty() {
        return used(OpenErrorKind::Held(drive.holders.clone()));
    }
    if !drive.partitions.is_empty() && !options.force {
        return used(OpenErrorKind::Partitioned(drive.partitions.clone()));
    }
    Ok(())
}

/// Takes the node of `drive`, alone.
pub(crate) fn claim(path: &Path, drive: &Drive) -> Result<Arc<Node>, OpenError> {
    let (major, minor) = drive.number;
    let sysfs = System::host().sys.join(format!("dev/block/{major}:{minor}"));
    Node::claim(path, drive, sysfs)
}

pub(crate) fn open(path: &Path, options: OpenOptions) -> Result<Opened, OpenError> {
    let failed = |error| OpenError::from_io(error, path);
    let drive = describe(path)?;
    if drive.zoned == ZonedModel::None {
        return Err(OpenError::new(OpenErrorKind::NotZoned, path));
    }
    refuse_used(path, &drive, options)?;
    let node = claim(path, &drive)?;
    let raw = ioctl::report(node.file(), 0, usize::MAX).map_err(failed)?;
    let geometry = shape(path, &drive, &raw)?;
    if !options.force {
        refuse_foreign(path, &node, &geometry, &raw)?;
    }
    let impossible = |error| OpenError::new(OpenErrorKind::Geometry(error), path);
    let mut machine = Machine::new(geometry.clone()).map_err(impossible)?;
    for (raw, zone) in raw.iter().zip((0..geometry.zone_count).map(ZoneId)) {
        let found = zones::found(&geometry, zone, raw);
        let found = mend(&node, &geometry, zone, found).map_err(failed)?;
        let found = if options.keep_open { found } else { shut(&node, &geometry, zone, found).map_err(failed)? };
        // A state from `found` is one that the zone can have.
        let _ = machine.set(zone, found.state, found.written);
    }
    Ok(Opened { node, drive, machine })
}

/// The shape of a drive with these zones.
fn shape(path: &Path, drive: &Drive, raw: &[RawZone]) -> Result<Geometry, OpenError> {
    zones::geometry(drive, raw).map_err(|why| OpenError::new(OpenErrorKind::Unsupported(why), path))
}

/// Looks for marks of others in the first zones: behind a write pointer there is nothing, and some drives fail reads there.
fn refuse_foreign(path: &Path, node: &Node, geometry: &Geometry, raw: &[RawZone]) -> Result<(), OpenError> {
    // Zoned btrfs writes its superblocks in turn to the first two zones.
    for (raw, zone) in raw.iter().take(2).zip([0, 1].map(ZoneId)) {
        let found = zones::found(geometry, zone, raw);
        let readable = match found.state {
            ZoneState::Offline => Blocks::ZERO,
            ZoneState::NotWritePointer => geometry.zone_size,
            _ => found.written,
        };
        let what = signature::in_zone(node.file(), geometry.start_of(zone).byte_offset(), readable.bytes());
        if let Some(what) = what {
            let conventional = geometry.is_conventional(zone);
            let place = if conventional { MarkPlace::Conventional } else { MarkPlace::Sequential };
            return Err(OpenError::new(OpenErrorKind::Foreign { what, place }, path));
        }
    }
    Ok(())
}

/// Moves a zone's write pointer to a boundary between blocks, as the contract has it. A torn block is filled up with
/// zeros: a torn block may be written, with rotten bytes. If the drive does not take that, the zone is finished; if it
/// does not take that either, it is shown as read-only.
fn mend(node: &Node, geometry: &Geometry, zone: ZoneId, found: Found) -> std::io::Result<Found> {
    let mut found = found;
    if let Some(sector) = found.torn {
        let missing = (BLOCK_SECTORS - sector % BLOCK_SECTORS) * 512;
        let zeros = AlignedBuf::zeroed(Blocks(1));
        let start = geometry.start_of(zone).byte_offset() / 512;
        let sectors = geometry.zone_size.0 * BLOCK_SECTORS;
        let filled = write_at(node, &zeros[..missing as usize], sector * 512);
        let done = filled.or_else(|_| ioctl::manage(node.file(), ZoneOp::Finish, start, sectors));
        tracing::warn!(%zone, sector, ?done, "the write pointer lay within a block");
        match done {
            Ok(()) => found = look_at(node, geometry, zone)?,
            Err(_) => found = Found { state: ZoneState::ReadOnly, torn: None, ..found },
        }
    }
    Ok(found)
}

/// Closes a zone that was open before this process opened any.
fn shut(node: &Node, geometry: &Geometry, zone: ZoneId, found: Found) -> std::io::Result<Found> {
    let mut found = found;
    if found.state.is_open() {
        let start = geometry.start_of(zone).byte_offset() / 512;
        let closed = ioctl::manage(node.file(), ZoneOp::Close, start, geometry.zone_size.0 * BLOCK_SECTORS);
        if let Err(error) = closed {
            // One bad zone is no reason to lose the drive.
            tracing::warn!(%zone, %error, "an open zone could not be closed");
        }
        // Emulated drives may close nothing. To the state machine it is closed all the same.
        found = look_at(node, geometry, zone)?.closed();
    }
    Ok(found)
}

fn write_at(node: &Node, bytes: &[u8], at: u64) -> std::io::Result<()> {
    debug_assert!(bytes.len() < BLOCK_SIZE);
    std::os::unix::fs::FileExt::write_all_at(node.file(), bytes, at)
}

/// The drive's present report of `zone`.
pub(crate) fn look_at(node: &Node, geometry: &Geometry, zone: ZoneId) -> std::io::Result<Found> {
    let sector = geometry.start_of(zone).byte_offset() / 512;
    let raw = ioctl::report(node.file(), sector, 1)?;
    let raw = raw.first().ok_or(std::io::ErrorKind::InvalidData)?;
    Ok(zones::found(geometry, zone, raw))
}

/// As [`look_at`], behind a failed write: a torn block is filled up as when the drive is opened.
pub(crate) fn look_and_settle(node: &Node, geometry: &Geometry, zone: ZoneId) -> std::io::Result<Found> {
    let found = look_at(node, geometry, zone)?;
    if found.torn.is_none() {
        return Ok(found);
    }
    let found = mend(node, geometry, zone, found)?;
    shut(node, geometry, zone, found)
}

/// The shape and zones of the drive at `path`, beside its owner, and without changing anything.
pub(crate) fn look(path: &Path) -> Result<(Drive, Geometry, Vec<ZoneInfo>), OpenError> {
    let failed = |error| OpenError::from_io(error, path);
    let drive = describe(path)?;
    if drive.zoned == ZonedModel::None {
        return Err(OpenError::new(OpenErrorKind::NotZoned, path));
    }
    let file = node::look(path).map_err(failed)?;
    let raw = ioctl::report(&file, 0, usize::MAX).map_err(failed)?;
    let geometry = shape(path, &drive, &raw)?;
    let zones = raw.iter().zip((0..geometry.zone_count).map(ZoneId)).map(|(raw, zone)| {
        let Found { state, written, .. } = zones::found(&geometry, zone, raw);
        ZoneInfo { zone, state, start: geometry.start_of(zone), capacity: geometry.capacity_of(zone), written }
    });
    let zones = zones.collect();
    Ok((drive, geometry, zones))
}
