//! A range of a drive's zones as a device of its own, so that several engines share one drive.
//!
//! A view has a share of the drive's limits on open and active zones and keeps to it as a drive would: it closes its
//! own implicitly open zone that has been open longest, and never one of another view. With shares that sum up to no
//! more than the drive's limits, no engine can starve another.
//!
//! **Owns** the share. **Knows nothing of** the other views: ranges must not overlap.
//!
//! # Invariants
//! - ZD-VW-1: no command reaches a zone outside the range.
//! - ZD-VW-2: addresses and zones in answers and errors are the view's own.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::join;
use shingle_base::{Blocks, Lba, ZoneId};

use crate::device::{DeviceFuture, ZonedDevice};
use crate::error::{DeviceError, DeviceErrorKind, DeviceResult, Violation};
use crate::geometry::{Geometry, GeometryError};
use crate::machine::{Applied, Machine, gathered_length};
use crate::zone::{ZoneInfo, ZoneOp, ZoneState};

/// A part of a drive's limits. `None`: as much as the drive has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The most zones that may be open at once.
    pub open_zones_max: Option<u32>,
    /// The most zones that may be active at once.
    pub active_zones_max: Option<u32>,
}

/// Reason why there is no such view.
#[derive(Debug)]
pub enum ZoneRangeError {
    /// The drive has no such zones, or not so much to share.
    Geometry(GeometryError),
    /// The drive could not report its zones.
    Device(DeviceError),
}

impl fmt::Display for ZoneRangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Geometry(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ZoneRangeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Geometry(error) => Some(error),
            Self::Device(error) => Some(error),
        }
    }
}

/// A range of zones.
pub struct ZoneRange {
    device: Rc<dyn ZonedDevice>,
    first: ZoneId,
    geometry: Geometry,
    /// State of the view's zones after its commands: decides about its share. The drive decides about all else.
    gate: RefCell<Machine>,
}

impl ZoneRange {
    /// `count` zones of `device` from `first`. Reports them once, and closes implicitly open zones past the share.
    ///
    /// # Errors
    /// `Geometry` if the drive has no such zones or limits; `Device` if it cannot report or close them.
    pub async fn new(
        device: Rc<dyn ZonedDevice>,
        first: ZoneId,
        count: u32,
        share: Share,
    ) -> Result<Self, ZoneRangeError> {
        let geometry = geometry_of(device.geometry(), first, count, share).map_err(ZoneRangeError::Geometry)?;
        let machine = Machine::new(geometry.clone()).map_err(ZoneRangeError::Geometry)?;
        let view = Self { device, first, geometry, gate: RefCell::new(machine) };
        let zones = view.report(ZoneId(0), count).await.map_err(ZoneRangeError::Device)?;
        let excess = {
            let gate = &mut *view.gate.borrow_mut();
            zones.iter().for_each(|info| follow(gate, info));
            gate.close_excess()
        };
        for zone in excess {
            let closed = view.device.manage(view.outer_zone(zone), ZoneOp::Close).await;
            closed.map_err(|error| ZoneRangeError::Device(view.inner_error(error)))?;
        }
        Ok(view)
    }

    fn offset(&self) -> Blocks {
        Blocks(self.geometry.start_of(self.first).0)
    }

    fn outer_zone(&self, zone: ZoneId) -> ZoneId {
        ZoneId(self.first.0 + zone.0)
    }

    fn inner(&self, at: Lba) -> Lba {
        Lba(at.0.saturating_sub(self.offset().0))
    }

    fn inner_info(&self, info: ZoneInfo) -> ZoneInfo {
        ZoneInfo { zone: ZoneId(info.zone.0 - self.first.0), start: self.inner(info.start), ..info }
    }

    fn inner_error(&self, error: DeviceError) -> DeviceError {
        use Violation as V;
        let at = |at: Lba| self.inner(at);
        let kind = match error.kind {
            DeviceErrorKind::Rule(violation) => DeviceErrorKind::Rule(match violation {
                V::NotAtWritePointer { at: was, write_pointer } => {
                    V::NotAtWritePointer { at: at(was), write_pointer: at(write_pointer) }
                }
                V::PastCapacity { end, capacity_end } => {
                    V::PastCapacity { end: at(end), capacity_end: at(capacity_end) }
                }
                V::PastWritePointer { end, write_pointer } => {
                    V::PastWritePointer { end: at(end), write_pointer: at(write_pointer) }
                }
                V::CrossesZone { end, zone_end } => V::CrossesZone { end: at(end), zone_end: at(zone_end) },
                V::OutOfRange { end, device_end } => V::OutOfRange { end: at(end), device_end: at(device_end) },
                other @ (V::ZoneFull
                | V::TooManyOpen { .. }
                | V::TooManyActive { .. }
                | V::WrongState { .. }
                | V::NotSequential
                | V::AppendTooLong { .. }
                | V::Misaligned) => other,
            }),
            other => other,
        };
        let zone = error.zone.map(|zone| ZoneId(zone.0.saturating_sub(self.first.0)));
        DeviceError { kind, at: at(error.at), zone }
    }

    /// Lets the gate judge a command. It refuses commands beyond the share or the range; a command that is wrong in a
    /// zone's state goes on as `None`, for the drive's own error is better.
    fn admit(&self, judged: DeviceResult<Applied>) -> DeviceResult<Option<Applied>> {
        match judged {
            Ok(applied) => Ok(Some(applied)),
            Err(error) => match error.violation() {
                Some(
                    Violation::TooManyOpen { .. } | Violation::TooManyActive { .. } | Violation::OutOfRange { .. },
                ) => Err(error),
                _ => Ok(None),
            },
        }
    }

    /// Runs an admitted command, behind the close that makes room for it. Both start at once, in this order.
    async fn run<T>(&self, zone: ZoneId, admitted: Option<Applied>, command: DeviceFuture<'_, T>) -> DeviceResult<T> {
        let result = match admitted.and_then(|applied| applied.closed) {
            Some(oldest) => {
                let close = self.device.manage(self.outer_zone(oldest), ZoneOp::Close);
                let (closed, result) = join(close, command).await;
                if closed.is_err() {
                    self.resync(oldest).await;
                }
                result
            }
            None => command.await,
        };
        if result.is_err() || admitted.is_none() {
            self.resync(zone).await;
        }
        result.map_err(|error| self.inner_error(error))
    }

    /// Updates the gate's state of a zone from the drive's. A drive that cannot even report has worse problems.
    async fn resync(&self, zone: ZoneId) {
        if let Ok(zones) = self.device.report(self.outer_zone(zone), 1).await
            && let Some(info) = zones.first()
        {
            follow(&mut self.gate.borrow_mut(), &self.inner_info(*info));
        }
    }
}

/// Puts a zone of the gate into the state the drive reports.
fn follow(gate: &mut Machine, info: &ZoneInfo) {
    // A report that no drive can give changes nothing here; the drive goes on deciding for itself.
    let _ = gate.set(info.zone, info.state, info.written);
}

fn geometry_of(whole: &Geometry, first: ZoneId, count: u32, share: Share) -> Result<Geometry, GeometryError> {
    if count == 0 || first.0.checked_add(count).is_none_or(|end| end > whole.zone_count) {
        let text = format!("{count} zones from {first} are out of range: the drive has {}", whole.zone_count);
        return Err(GeometryError(text));
    }
    let part = |name: &str, whole: Option<u32>, part: Option<u32>| match (whole, part) {
        (Some(whole), Some(part)) if part > whole => {
            Err(GeometryError(format!("a share of {part} {name} zones exceeds the drive's limit of {whole}")))
        }
        (whole, part) => Ok(part.or(whole)),
    };
    let geometry = Geometry {
        zone_count: count,
        conventional_zones: whole.conventional_zones.saturating_sub(first.0).min(count),
        open_zones_max: part("open", whole.open_zones_max, share.open_zones_max)?,
        active_zones_max: part("active", whole.active_zones_max, share.active_zones_max)?,
        ..whole.clone()
    };
    geometry.validate()?;
    Ok(geometry)
}

impl ZonedDevice for ZoneRange {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        Box::pin(async move {
            let count = count.min(self.geometry.zone_count.saturating_sub(first.0));
            if count == 0 {
                return Ok(Vec::new());
            }
            let zones = self.device.report(self.outer_zone(first), count).await;
            let zones = zones.map_err(|error| self.inner_error(error))?;
            let zones: Vec<ZoneInfo> = zones.into_iter().map(|info| self.inner_info(info)).collect();
            // Other differences are commands under way; these are zones that failed.
            let dead = |info: &&ZoneInfo| matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline);
            zones.iter().filter(dead).for_each(|info| follow(&mut self.gate.borrow_mut(), info));
            Ok(zones)
        })
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        Box::pin(async move {
            if let Err(error) = self.gate.borrow().read(at, length)
                && let Some(Violation::OutOfRange { .. }) = error.violation()
            {
                return Err(error);
            }
            self.device.read(at + self.offset(), length).await.map_err(|error| self.inner_error(error))
        })
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            let length = gathered_length(&data)
                .map_err(|rule| DeviceError::new(DeviceErrorKind::Rule(rule), at, self.geometry.zone_of(at)))?;
            let judged = self.gate.borrow_mut().write(at, length);
            let admitted = self.admit(judged)?;
            let zone = self.geometry.zone_of(at).unwrap_or_default();
            self.run(zone, admitted, self.device.write(at + self.offset(), data)).await
        })
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        Box::pin(async move {
            let at = self.geometry.start_of(zone);
            let length = gathered_length(&data)
                .map_err(|rule| DeviceError::new(DeviceErrorKind::Rule(rule), at, self.geometry.zone_of(at)))?;
            let judged = self.gate.borrow_mut().append(zone, length);
            let admitted = self.admit(judged)?;
            let landed = self.run(zone, admitted, self.device.append(self.outer_zone(zone), data)).await?;
            Ok(self.inner(landed))
        })
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            let judged = self.gate.borrow_mut().manage(zone, op);
            let admitted = self.admit(judged)?;
            self.run(zone, admitted, self.device.manage(self.outer_zone(zone), op)).await
        })
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        Box::pin(async move { self.device.flush().await.map_err(|error| self.inner_error(error)) })
    }
}
