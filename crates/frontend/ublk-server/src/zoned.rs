//! A zoned device as a zoned disk.
//!
//! The rules of zones are the device's; here are the kernel's customs that differ from them:
//! - A read may reach behind the write pointer, where no drive has data: zeros are read there, as from drives that say so (ZNS; ZBC's
//!   URSWRZ). Programs that look for partitions and file systems read so.
//! - A reset of all zones leaves alone those that cannot be reset.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba, ZoneId};
use shingle_runtime::LocalBoxFuture;
use shingle_zoned::{DeviceError, DeviceErrorKind, DeviceResult, Violation, ZoneOp, ZoneState, ZonedDevice};
use shingle_zoned_linux::{UBLK_TRANSFER_MAX, UBLK_ZONE_BYTES, UblkCommand, UblkShape, ublk_zone};

use crate::backend::{Backend, Done, Refused};
use crate::errno::{of_device, unsupported};

/// Sectors of a block.
const BLOCK_SECTORS: u64 = BLOCK_SIZE as u64 / 512;
/// Zones asked for at a time when all are reset.
const BATCH: u32 = 4096;
/// Tries of a read whose zone changes meanwhile.
const TRIES: u32 = 100;

/// A zoned device, to be a disk.
pub struct ZonedDisk {
    device: Rc<dyn ZonedDevice>,
    read_only: bool,
    rotational: bool,
    /// Zeros for reads behind write pointers, once they are needed.
    zeros: Cell<Bytes>,
}

impl ZonedDisk {
    /// Of `device`, which the disk's users have to themselves.
    pub fn new(device: Rc<dyn ZonedDevice>, rotational: bool, read_only: bool) -> Self {
        Self { device, read_only, rotational, zeros: Cell::default() }
    }

    async fn run(&self, command: UblkCommand, data: Bytes) -> Result<Done, Refused> {
        if self.read_only && changes(command) {
            return Err(Refused { errno: libc::EROFS, message: "the disk takes no writes".to_owned() });
        }
        let done = match command {
            UblkCommand::Read { at, length } => self.read(at, length).await.map(Done::Data),
            UblkCommand::Write { at, durable, .. } => self.write(at, data, durable).await.map(|()| Done::Plain),
            UblkCommand::Append { at, durable, .. } => self.append(at, data, durable).await.map(Done::Appended),
            UblkCommand::Flush => self.device.flush().await.map(|()| Done::Plain),
            UblkCommand::Report { at, zones } => self.report(at, zones).await.map(|zones| Done::Data(vec![zones])),
            UblkCommand::Open { at } => self.manage(at, ZoneOp::Open).await,
            UblkCommand::Close { at } => self.manage(at, ZoneOp::Close).await,
            UblkCommand::Finish { at } => self.manage(at, ZoneOp::Finish).await,
            UblkCommand::Reset { at } => self.manage(at, ZoneOp::Reset).await,
            UblkCommand::ResetAll => self.reset_all().await.map(|()| Done::Plain),
            UblkCommand::Discard { .. } | UblkCommand::WriteZeros { .. } | UblkCommand::Unknown => {
                return Err(unsupported());
            }
        };
        done.map_err(|error| of_device(&error))
    }

    async fn read(&self, at: u64, length: u64) -> DeviceResult<Vec<Bytes>> {
        let (mut at, mut left) = blocks(at, length)?;
        let mut pieces = Vec::new();
        while left > Blocks::ZERO {
            let zone = self.zone_at(at)?;
            let end = self.device.geometry().start_of(zone) + self.device.geometry().zone_size;
            let here = (end - at).min(left);
            self.read_in_zone(at, here, &mut pieces).await?;
            at = at + here;
            left = left.saturating_sub(here);
        }
        Ok(pieces)
    }

    /// The part of a read in one zone.
    async fn read_in_zone(&self, at: Lba, length: Blocks, pieces: &mut Vec<Bytes>) -> DeviceResult<()> {
        let (mut written, mut tries) = (length, 0);
        while written > Blocks::ZERO {
            tries += 1;
            match self.device.read(at, written).await {
                Ok(data) => {
                    pieces.push(data);
                    break;
                }
                // The pointer is asked for by trying: a report before the read may be of another time.
                Err(error) => match error.violation() {
                    Some(Violation::PastWritePointer { write_pointer, .. }) if tries < TRIES => {
                        let below = Blocks(write_pointer.0.saturating_sub(at.0));
                        // Less at each try, so that it ends.
                        written = below.min(Blocks(written.0.saturating_sub(1)));
                    }
                    _ => return Err(error),
                },
            }
        }
        let missing = length.saturating_sub(written);
        if missing > Blocks::ZERO {
            pieces.push(self.zeros(missing));
        }
        Ok(())
    }

    fn zeros(&self, length: Blocks) -> Bytes {
        let most = Blocks::holding(u64::from(UBLK_TRANSFER_MAX));
        if length > most {
            return AlignedBuf::zeroed(length).freeze();
        }
        let mut zeros = self.zeros.take();
        if zeros.is_empty() {
            zeros = AlignedBuf::zeroed(most).freeze();
        }
        self.zeros.set(zeros.clone());
        zeros.slice(..length.bytes() as usize)
    }

    async fn write(&self, at: u64, data: Bytes, durable: bool) -> DeviceResult<()> {
        let (at, _) = blocks(at, data.len() as u64)?;
        self.device.write(at, vec![data]).await?;
        if durable { self.device.flush().await } else { Ok(()) }
    }

    async fn append(&self, at: u64, data: Bytes, durable: bool) -> DeviceResult<u64> {
        let zone = self.zone_from(at)?;
        let landed = self.device.append(zone, vec![data]).await?;
        if durable {
            self.device.flush().await?;
        }
        Ok(landed.0 * BLOCK_SECTORS)
    }

    async fn manage(&self, at: u64, op: ZoneOp) -> DeviceResult<Done> {
        let zone = self.zone_from(at)?;
        self.device.manage(zone, op).await.map(|()| Done::Plain)
    }

    async fn reset_all(&self) -> DeviceResult<()> {
        let geometry = self.device.geometry();
        let mut next = geometry.conventional_zones;
        while next < geometry.zone_count {
            let zones = self.device.report(ZoneId(next), BATCH).await?;
            let Some(last) = zones.last() else { break };
            next = last.zone.0 + 1;
            for zone in &zones {
                if !matches!(zone.state, ZoneState::Empty | ZoneState::ReadOnly | ZoneState::Offline) {
                    self.device.manage(zone.zone, ZoneOp::Reset).await?;
                }
            }
        }
        Ok(())
    }

    /// The zones as the kernel reads them from the one that byte `at` lies in, as many as fit its memory. The driver's header says that
    /// a zone begins there, but it passes on what programs ask for: fsck.f2fs asks for zones by places in them.
    async fn report(&self, at: u64, most: u32) -> DeviceResult<Bytes> {
        let first = self.zone_at(Lba(at / BLOCK_SIZE as u64))?;
        let most = most.min(UBLK_TRANSFER_MAX / UBLK_ZONE_BYTES as u32);
        let zones = self.device.report(first, most).await?;
        let mut bytes = Vec::with_capacity(zones.len() * UBLK_ZONE_BYTES);
        zones.iter().for_each(|zone| bytes.extend(ublk_zone(self.device.geometry(), zone)));
        Ok(bytes.into())
    }

    /// The zone that begins at byte `at`.
    fn zone_from(&self, at: u64) -> DeviceResult<ZoneId> {
        let (lba, _) = blocks(at, BLOCK_SIZE as u64)?;
        let zone = self.zone_at(lba)?;
        if self.device.geometry().start_of(zone) != lba {
            return Err(broken(Violation::Misaligned, lba));
        }
        Ok(zone)
    }

    fn zone_at(&self, at: Lba) -> DeviceResult<ZoneId> {
        let device_end = Lba(0) + self.device.geometry().blocks();
        self.device.geometry().zone_of(at).ok_or_else(|| broken(Violation::OutOfRange { end: at, device_end }, at))
    }
}

fn broken(violation: Violation, at: Lba) -> DeviceError {
    DeviceError::new(DeviceErrorKind::Rule(violation), at, None)
}

/// Bytes as whole blocks.
fn blocks(at: u64, length: u64) -> DeviceResult<(Lba, Blocks)> {
    let block = BLOCK_SIZE as u64;
    if !at.is_multiple_of(block) || !length.is_multiple_of(block) || at.checked_add(length).is_none() {
        return Err(broken(Violation::Misaligned, Lba(at / block)));
    }
    Ok((Lba(at / block), Blocks(length / block)))
}

fn changes(command: UblkCommand) -> bool {
    !matches!(command, UblkCommand::Read { .. } | UblkCommand::Report { .. } | UblkCommand::Flush)
}

impl Backend for ZonedDisk {
    fn shape(&self) -> Result<UblkShape, String> {
        UblkShape::of_zoned(self.device.geometry(), self.rotational, self.read_only)
    }

    fn execute(&self, command: UblkCommand, data: Bytes) -> LocalBoxFuture<'_, Result<Done, Refused>> {
        Box::pin(self.run(command, data))
    }
}
