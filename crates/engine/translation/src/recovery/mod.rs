//! Opening a volume: superblock, checkpoint, journal, and the pairs that were written since. (FSTL, section III-A.)
//!
//! All that happened since the checkpoint's start is gone through again by number: writes, found as pairs in the zones that were
//! open, and moves, found in the journal.
//!
//! # Invariants
//! - TL-REC-1: every write that was durable is in the map, and of two to one sector the later one. Others are there in part or not.
//! - TL-REC-2: a pair that is not whole is torn only if all its blocks can be read, and nothing says that it was durable: no pair
//!   behind it in its zone, and no end of the zone in the journal. A torn one never was.
//!   On a drive with a volatile cache one of which blocks cannot be read, and of which nothing says that it was durable, may be either: the
//!   opening is refused until it can be read.
//! - TL-REC-3: a pair that is not whole and not torn counts as written: header or trailer tell its names, and its sectors fail when
//!   they are read and cannot be verified. If neither tells them, the opening is refused.
//! - TL-REC-4: a torn pair with others behind it, of a drive with a volatile cache, stays torn: a checkpoint says so before anything
//!   says that those are durable.
//! - TL-REC-5: what was found is durable, and the ends of zones are in the journal, before anybody is answered.

mod find;
mod found;
mod load;
mod replay;
mod report;
mod scan;
mod start;
mod verdict;

pub(crate) use find::find;
pub use report::{RecoveryReport, Unknown};
