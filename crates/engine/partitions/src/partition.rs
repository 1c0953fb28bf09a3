//! A partition, and its name.

use std::ops::Range;

use shingle_runtime::UnixTime;
use shingle_zoned::Share;

/// Bytes of a name at most.
pub const NAME_MAX: usize = 39;

/// Partitions of a drive at most.
pub(crate) const PARTITIONS_MAX: usize = 256;

/// A partition of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Its zones.
    pub zones: Range<u32>,
    /// Its part of the drive's limits.
    pub share: Share,
    /// When it was made.
    pub made: UnixTime,
}

/// True for a name that a partition may have: letters, digits, and `.`, `_` and `-` inside.
pub fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.len() <= NAME_MAX
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for good in ["a", "vm-1", "S.t_o-r.e", &"x".repeat(NAME_MAX)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "-a", ".", "a b", "a/b", "a#b", "ä", &"x".repeat(NAME_MAX + 1)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
