//! Writes: they queue at a frontier, go into pairs together, and enter the map when these are written. (FSTL, section III-A.)
//!
//! # Invariants
//! - TL-ORDER: numbers of writes rise with the order in which they enter the map: those of a frontier are written one pair after
//!   the other, and get their numbers then.
//! - TL-WRITE-1: every number in a zone is above the zone's generation.
//! - TL-WRITE-2: a write that fails ends its zone, unless nothing of it was written. It goes to another zone once the journal says
//!   where the first one ended, so nothing that it may have left there counts.
//! - TL-WRITE-3: sectors that were copied are moved only where they still lie at the place they were copied from; the journal
//!   names them, and until that is durable the zone they came from is not reset.

mod copies;
mod draft;
mod frontier;
mod piece;

pub(crate) use draft::Draft;
pub(crate) use frontier::{COPIES, Frontier, STREAMS, WRITES};
pub(crate) use piece::Piece;
