//! Errors of a device.

use std::fmt;

use shingle_base::{Blocks, Lba, ZoneId};

use crate::zone::{ZoneOp, ZoneState};

/// The result of a device command.
pub type DeviceResult<T> = Result<T, DeviceError>;

/// A failed command: the caller's next action, and the place.
#[derive(Debug)]
pub struct DeviceError {
    /// Kind of the failure.
    pub kind: DeviceErrorKind,
    /// The block at which it happened: the command's first, if no other is known.
    pub at: Lba,
    /// The zone it happened in, if there is one.
    pub zone: Option<ZoneId>,
}

/// Kind of a command's failure.
#[derive(Debug)]
#[non_exhaustive]
pub enum DeviceErrorKind {
    /// The command breaks a rule of zoned devices: a bug in the caller, or a zone that changed behind its back.
    Rule(Violation),
    /// The medium could not be read. Reading again may not help: use another copy.
    ReadFailed,
    /// The medium could not be written. A prefix may have landed: report the zone before going on.
    WriteFailed,
    /// The zone has become read-only: its data can be read, and should be moved elsewhere.
    ZoneReadOnly,
    /// The zone has gone offline, with its data.
    ZoneOffline,
    /// The device is gone: unplugged, out of power, or its file closed. Nothing more will succeed.
    Gone,
    /// The operating system failed the command for another reason.
    System(std::io::Error),
}

impl DeviceErrorKind {
    /// True if the file system that holds an emulated drive has no room for a write. Nothing is wrong with the drive:
    /// the same command succeeds once there is room, and nothing of this one comes back (ZD-FD-6).
    pub fn is_host_full(&self) -> bool {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::System(error) if matches!(error.kind(), StorageFull | QuotaExceeded))
    }
}

/// A broken rule, with both positions if there are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A write elsewhere than at the write pointer.
    NotAtWritePointer {
        /// First block of the write.
        at: Lba,
        /// Block at which it had to begin.
        write_pointer: Lba,
    },
    /// A write that ends past the zone's capacity.
    PastCapacity {
        /// End of the write.
        end: Lba,
        /// End of the capacity.
        capacity_end: Lba,
    },
    /// A write to a full zone.
    ZoneFull,
    /// A read at or past the write pointer.
    PastWritePointer {
        /// End of the read.
        end: Lba,
        /// End of the written part.
        write_pointer: Lba,
    },
    /// A range that lies in two zones.
    CrossesZone {
        /// End of the range.
        end: Lba,
        /// End of the first zone.
        zone_end: Lba,
    },
    /// A range or zone past the end of the device.
    OutOfRange {
        /// End of the range.
        end: Lba,
        /// End of the device.
        device_end: Lba,
    },
    /// Opening one more zone would exceed the limit on open zones.
    TooManyOpen {
        /// The limit.
        limit: u32,
    },
    /// Opening one more zone would exceed the limit on active zones.
    TooManyActive {
        /// The limit.
        limit: u32,
    },
    /// A command that the zone's state or type does not allow.
    WrongState {
        /// The command.
        op: ZoneOp,
        /// The zone's state.
        state: ZoneState,
    },
    /// An append to a conventional zone.
    NotSequential,
    /// An append longer than the device takes at once.
    AppendTooLong {
        /// Its length.
        length: Blocks,
        /// The limit.
        limit: Blocks,
    },
    /// A command of no blocks, or of pieces that are not whole, aligned blocks.
    Misaligned,
}

impl DeviceError {
    /// An error of `kind` at `at`, in `zone`.
    pub fn new(kind: DeviceErrorKind, at: Lba, zone: Option<ZoneId>) -> Self {
        Self { kind, at, zone }
    }

    /// The same failure, for another caller who waits for the command. Of the operating system's error it keeps the number, or
    /// kind and text.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let kind = match &self.kind {
            DeviceErrorKind::Rule(violation) => DeviceErrorKind::Rule(*violation),
            DeviceErrorKind::ReadFailed => DeviceErrorKind::ReadFailed,
            DeviceErrorKind::WriteFailed => DeviceErrorKind::WriteFailed,
            DeviceErrorKind::ZoneReadOnly => DeviceErrorKind::ZoneReadOnly,
            DeviceErrorKind::ZoneOffline => DeviceErrorKind::ZoneOffline,
            DeviceErrorKind::Gone => DeviceErrorKind::Gone,
            DeviceErrorKind::System(error) => DeviceErrorKind::System(match error.raw_os_error() {
                Some(number) => std::io::Error::from_raw_os_error(number),
                None => std::io::Error::new(error.kind(), error.to_string()),
            }),
        };
        Self { kind, ..*self }
    }

    /// The broken rule, if the error is one.
    pub fn violation(&self) -> Option<Violation> {
        match self.kind {
            DeviceErrorKind::Rule(violation) => Some(violation),
            _ => None,
        }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(zone) = self.zone {
            write!(f, "{zone}, ")?;
        }
        write!(f, "{}: ", self.at)?;
        match &self.kind {
            DeviceErrorKind::Rule(violation) => violation.fmt(f),
            DeviceErrorKind::ReadFailed => f.write_str("the drive could not read this block"),
            DeviceErrorKind::WriteFailed => f.write_str("the drive could not write this block"),
            DeviceErrorKind::ZoneReadOnly => f.write_str("the zone has become read-only"),
            DeviceErrorKind::ZoneOffline => f.write_str("the zone has gone offline"),
            DeviceErrorKind::Gone => f.write_str("the drive is gone"),
            DeviceErrorKind::System(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAtWritePointer { at, write_pointer } => {
                write!(f, "write at {at}, but the write pointer is at {write_pointer}")
            }
            Self::PastCapacity { end, capacity_end } => {
                write!(f, "write up to {end}, but the zone's capacity ends at {capacity_end}")
            }
            Self::ZoneFull => f.write_str("write to a full zone"),
            Self::PastWritePointer { end, write_pointer } => {
                write!(f, "read up to {end}, but the write pointer is at {write_pointer}")
            }
            Self::CrossesZone { end, zone_end } => write!(f, "range up to {end}, but the zone ends at {zone_end}"),
            Self::OutOfRange { end, device_end } => {
                write!(f, "range up to {end}, but the device ends at {device_end}")
            }
            Self::TooManyOpen { limit } => write!(f, "more than {limit} open zones"),
            Self::TooManyActive { limit } => write!(f, "more than {limit} active zones"),
            Self::WrongState { op, state } => write!(f, "{op} of a zone that is {state}"),
            Self::NotSequential => f.write_str("append to a conventional zone"),
            Self::AppendTooLong { length, limit } => write!(f, "append of {length}, but the limit is {limit}"),
            Self::Misaligned => f.write_str("data that is not a whole number of aligned blocks"),
        }
    }
}

impl std::error::Error for DeviceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            DeviceErrorKind::System(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_says_the_same() {
        let system = |error| DeviceError::new(DeviceErrorKind::System(error), Lba(7), Some(ZoneId(1)));
        let full = system(std::io::Error::new(std::io::ErrorKind::StorageFull, "the host is full"));
        assert!(full.kind.is_host_full() && full.duplicate().kind.is_host_full());
        let numbered = system(std::io::Error::from_raw_os_error(16));
        for error in [full, numbered, DeviceError::new(DeviceErrorKind::Gone, Lba(0), None)] {
            let other = error.duplicate();
            assert_eq!((other.to_string(), other.at, other.zone), (error.to_string(), error.at, error.zone));
        }
    }
}
