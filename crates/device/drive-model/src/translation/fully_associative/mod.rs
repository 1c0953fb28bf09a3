//! A fully associative layer, a variant of S-blocks: the drive has zones of bands with some to spare. Writes are logged to a
//! spare band; cleaning merges a band with all that is logged of it into another spare band, so that bands have no fixed
//! places, and a band that is written from end to end needs no copy at all. (Dissertation, section 2.3.1.)
//!
//! Cleaning runs when a zone is short of spare bands, when the host is quiet, or, on drives that mix it with the host's work
//! (section 3.4.3, Figure 3.13 d), after every few writes.

mod layer;
mod merging;
mod mixing;
mod streams;
mod zone;

pub(super) use layer::drive;
