//! The face of an export: all that clients are told of it.

use crate::wire::{REQUEST_BYTES_MAX, export_flag as flag};

/// Description of an export by whoever offers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// The name that clients ask for: at most 4,096 bytes. One that is empty is that of the default export.
    pub name: String,
    /// Words for a person, in lists of exports.
    pub description: String,
    /// Nothing can be written.
    pub read_only: bool,
    /// The store makes zeros in less time than it writes them, so clients that want that only if it is fast may have it.
    pub fast_zeros: bool,
    /// Access in order is faster, as on a disk that turns.
    pub rotational: bool,
    /// Least size of requests that are done without detours, in bytes. It is rounded up to a power of two, from 4,096 bytes and the
    /// store's sector to 32 MiB.
    pub preferred_bytes: u32,
}

impl About {
    /// An export of this name that can be written.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            read_only: false,
            fast_zeros: false,
            rotational: false,
            preferred_bytes: 4096,
        }
    }
}

/// An export as clients see it.
#[derive(Clone, Debug)]
pub(crate) struct Face {
    pub(crate) about: About,
    pub(crate) size_bytes: u64,
    pub(crate) sector_bytes: u32,
}

impl Face {
    /// Flags of the transmission.
    pub(crate) fn flags(&self, structured: bool) -> u16 {
        let mut flags = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::CAN_MULTI_CONN;
        flags |= if self.about.read_only {
            flag::READ_ONLY
        } else {
            flag::SEND_TRIM | flag::SEND_WRITE_ZEROES | flag::SEND_FAST_ZERO
        };
        for (set, bit) in [(self.about.rotational, flag::ROTATIONAL), (structured, flag::SEND_DF)] {
            flags |= if set { bit } else { 0 };
        }
        flags
    }

    /// The least, preferred and largest sizes of requests.
    pub(crate) fn block_sizes(&self) -> [u32; 3] {
        let least = self.sector_bytes.max(4096);
        let preferred = self.about.preferred_bytes.clamp(least, REQUEST_BYTES_MAX).next_power_of_two();
        [self.sector_bytes, preferred, REQUEST_BYTES_MAX]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_says_what_it_can() {
        let mut face = Face { about: About::new("a"), size_bytes: 1 << 20, sector_bytes: 512 };
        assert_eq!(face.flags(false), 0b1001_0110_1101);
        assert_eq!(face.flags(true), 0b1001_1110_1101);
        face.about = About { read_only: true, rotational: true, preferred_bytes: 100_000, ..face.about };
        assert_eq!(face.flags(false), 0b1_0001_1111);
        assert_eq!(face.block_sizes(), [512, 1 << 17, 32 << 20]);
        face.about.preferred_bytes = u32::MAX;
        assert_eq!(face.block_sizes(), [512, 32 << 20, 32 << 20]);
        (face.about.preferred_bytes, face.sector_bytes) = (0, 4096);
        assert_eq!(face.block_sizes(), [4096, 4096, 32 << 20]);
    }
}
