//! Comparisons with file systems for zoned drives.

pub(super) mod replay;
