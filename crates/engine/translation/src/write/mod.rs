//! Writes: they queue at a frontier, go into pairs together, and enter the map when these are written. (FSTL, section III-A.)
//!
//! # Invariants
//! - TL-ORDER: numbers of overlapping writes rise with the order in which they enter the map: those of a frontier are written one
//!   pair after the other, and get their numbers then; and writes that overlap are never at two frontiers at once.
//! - TL-WRITE-1: every number in a zone is above the zone's generation.
//! - TL-WRITE-2: a write that fails ends its zone, unless nothing of it was written. It goes to another zone once the journal says
//!   where the first one ended, so nothing that it may have left there counts.
//! - TL-WRITE-3: sectors that were copied are moved only where they still lie at the place they were copied from; the journal
//!   names them, and until that is durable the zone they came from is not reset.
//! - TL-WRITE-4: copies count only if the drive says behind the flush that covers them that their zone has not failed; else they are written
//!   again, elsewhere. (`a_zone_that_fails_with_copies_costs_no_original`)

mod copies;
mod draft;
mod frontier;
mod piece;
mod queue;
mod route;
mod router;
mod stream;

pub(crate) use piece::{Origin, Piece};
pub(crate) use queue::{Frontier, Own, is_settled, waiting};
pub use router::Route;
pub(crate) use router::Router;
pub(crate) use stream::{COPIES, HEAD, STREAMS, TAKEN, WRITES, is_copy, is_run, of_writes, reserve};
