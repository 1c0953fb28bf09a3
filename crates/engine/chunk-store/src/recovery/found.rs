//! Records that the scan found.

use crate::index::Located;

/// A record the scan found, with its sequence number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) record: Located,
    pub(crate) sequence: u64,
    /// It lies in a landing zone.
    pub(crate) landed: bool,
    pub(crate) trust: Trust,
    /// The bytes of the chunk, first and end, that lie in slices of it that fail their checks.
    pub(crate) bad: Option<(u32, u32)>,
    /// That is because they cannot be read: perhaps they can, another time.
    pub(crate) unreadable: bool,
}

/// Certainty that a scanned record was durable before the power failed (CS-REC-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It was, and so was all of its chunk before it.
    Sure,
    /// It is whole, but something before it in the same write is torn.
    Behind,
    /// It fails its check, and nothing in its zone says that it ever was durable.
    Torn,
}
