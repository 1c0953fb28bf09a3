//! The meaning of a request.
//!
//! **Owns** the check of what the kernel's descriptors say. Pure.

use super::abi::{Descriptor, REQUEST_FUA, REQUEST_NO_UNMAP, SECTOR_BYTES};
use super::shape::UBLK_TRANSFER_MAX;

/// Operations of the kernel's list.
const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;
const DISCARD: u32 = 3;
const WRITE_ZEROS: u32 = 5;
const ZONE_OPEN: u32 = 10;
const ZONE_CLOSE: u32 = 11;
const ZONE_FINISH: u32 = 12;
const ZONE_APPEND: u32 = 13;
const ZONE_RESET_ALL: u32 = 14;
const ZONE_RESET: u32 = 15;
const REPORT_ZONES: u32 = 18;

/// A request's meaning. Places and lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UblkCommand {
    /// Give the bytes there.
    Read {
        /// Their place.
        at: u64,
        /// Their number.
        length: u64,
    },
    /// Take the data.
    Write {
        /// Their place.
        at: u64,
        /// Their number.
        length: u64,
        /// They are not to be lost from then on.
        durable: bool,
    },
    /// Make all durable that was answered.
    Flush,
    /// The bytes are not needed any more.
    Discard {
        /// Their place.
        at: u64,
        /// Their number.
        length: u64,
    },
    /// The bytes are zeros from now on.
    WriteZeros {
        /// Their place.
        at: u64,
        /// Their number.
        length: u64,
        /// They are not to be lost from then on.
        durable: bool,
        /// They are to take their room.
        filled: bool,
    },
    /// Give the states of zones.
    Report {
        /// Start of the first.
        at: u64,
        /// The most zones.
        zones: u32,
    },
    /// Take the data at the write pointer of the zone.
    Append {
        /// Start of the zone.
        at: u64,
        /// Number of bytes.
        length: u64,
        /// They are not to be lost from then on.
        durable: bool,
    },
    /// Open the zone.
    Open {
        /// Its start.
        at: u64,
    },
    /// Close the zone.
    Close {
        /// Its start.
        at: u64,
    },
    /// Finish the zone.
    Finish {
        /// Its start.
        at: u64,
    },
    /// Empty the zone.
    Reset {
        /// Its start.
        at: u64,
    },
    /// Empty all zones.
    ResetAll,
    /// The driver asks for something that it did not have when this was written.
    Unknown,
}

impl UblkCommand {
    /// The meaning of a descriptor.
    pub(super) fn of(descriptor: &Descriptor) -> Self {
        let Descriptor { operation, count, sector, .. } = *descriptor;
        match operation & 0xff {
            // The kernel gives these any place, such as the last sector of all.
            FLUSH => return Self::Flush,
            ZONE_RESET_ALL => return Self::ResetAll,
            _ => {}
        }
        // Other places fit by far; an impossible one is no request that we know.
        let Some(at) = sector.checked_mul(SECTOR_BYTES) else { return Self::Unknown };
        let length = u64::from(count) * SECTOR_BYTES;
        let durable = operation & REQUEST_FUA != 0;
        let moved = length > 0 && length <= u64::from(UBLK_TRANSFER_MAX);
        match operation & 0xff {
            READ if moved => Self::Read { at, length },
            WRITE if moved => Self::Write { at, length, durable },
            DISCARD => Self::Discard { at, length },
            WRITE_ZEROS => Self::WriteZeros { at, length, durable, filled: operation & REQUEST_NO_UNMAP != 0 },
            ZONE_OPEN => Self::Open { at },
            ZONE_CLOSE => Self::Close { at },
            ZONE_FINISH => Self::Finish { at },
            ZONE_APPEND if moved => Self::Append { at, length, durable },
            ZONE_RESET => Self::Reset { at },
            REPORT_ZONES => Self::Report { at, zones: count },
            _ => Self::Unknown,
        }
    }

    /// Bytes that come with it.
    pub(super) fn bytes_in(self) -> usize {
        match self {
            Self::Write { length, .. } | Self::Append { length, .. } => length as usize,
            _ => 0,
        }
    }

    pub(super) fn is_report(self) -> bool {
        matches!(self, Self::Report { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(operation: u32, count: u32, sector: u64) -> UblkCommand {
        UblkCommand::of(&Descriptor { operation, count, sector, address: 0 })
    }

    #[test]
    fn descriptors_are_read_in_sectors() {
        use UblkCommand as C;
        assert_eq!(of(0, 8, 16), C::Read { at: 8192, length: 4096 });
        assert_eq!(of(1 | 1 << 13, 2048, 0), C::Write { at: 0, length: 1 << 20, durable: true });
        assert_eq!(of(1 | 1 << 8, 1, 1), C::Write { at: 512, length: 512, durable: false });
        assert_eq!([of(2, 0, 0), of(2, 0, u64::MAX)], [C::Flush; 2], "the kernel gives it no place");
        assert_eq!(of(3, 1 << 21, 0), C::Discard { at: 0, length: 1 << 30 });
        assert_eq!(of(5 | 1 << 15, 8, 0), C::WriteZeros { at: 0, length: 4096, durable: false, filled: true });
        assert_eq!(
            [10, 11, 12, 15].map(|op| of(op, 0, 8)),
            [C::Open { at: 4096 }, C::Close { at: 4096 }, C::Finish { at: 4096 }, C::Reset { at: 4096 }]
        );
        assert_eq!(of(13, 8, 8), C::Append { at: 4096, length: 4096, durable: false });
        assert_eq!((of(14, 0, 0), of(18, 40, 8)), (C::ResetAll, C::Report { at: 4096, zones: 40 }));
        assert_eq!(of(1, 16, 0).bytes_in() + of(13, 8, 0).bytes_in() + of(0, 8, 0).bytes_in(), 8192 + 4096);
    }

    #[test]
    fn requests_that_make_no_sense_are_not_known() {
        for (operation, count, sector) in
            [(4, 8, 0), (17, 0, 0), (255, 0, 0), (0, 0, 0), (1, 2049, 0), (13, u32::MAX, 0), (0, 8, u64::MAX / 2)]
        {
            assert_eq!(of(operation, count, sector), UblkCommand::Unknown, "{operation} {count} {sector}");
        }
    }
}
