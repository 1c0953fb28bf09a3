//! The translation layer that Skylight found in Seagate's first drive-managed disks: a persistent cache on the platters, written
//! as a circular log, in front of bands at fixed places. (Dissertation, sections 2.4.3 to 2.4.11 and 3.4.3.)
//!
//! Writes are gathered into journal entries, which take whole half turns of the cache at the outer diameter; out-of-band
//! data goes with each entry, and every so many entries the map is merged at the middle. Idle, or without room for the next
//! entry, the drive cleans: of the oldest extent it takes the band, reads it and all that the cache has of it, writes both
//! to a scratch place and then to the band. With a volatile cache, long sequential runs go to their bands directly.
//!
//! # Invariants
//! - DM-LOG-1: an entry's place is used again only when nothing in it lives. `log.rs`.
//! - DM-LOG-2: the map has no more extents than it may, and entries no more room; a write that would exceed either waits
//!   for cleaning. `a_full_cache_makes_writers_wait_for_bands`.

mod clean;
mod cleaner;
mod journal;
mod layer;
mod layout;
mod log;
mod runs;
mod stream;
mod streaming;
mod writing;

pub(super) use layer::drive;
