//! The data plane of translation layers: random writes on zoned drives. (FSTL, section III.)
//!
//! The plane will write at frontiers in zones, keep an extent map of the sectors of a volume, journal the map with the data,
//! and copy and reset zones as a controller asks. So far it has the map, and the places that the map names.
//!
//! **Owns** the extent map of a volume, and the meaning of a place on the drive.
//! **Knows nothing of** policies: a controller decides what is cleaned, and when.
//!
//! # Invariants
//! Those of the map, TL-MAP-1 to TL-MAP-4, are stated in [`ExtentMap`]'s module; those of places, TL-PLACE-1 and TL-PLACE-2, in [`Place`]'s.

mod map;
mod place;

pub use map::{Extent, ExtentMap, LENGTH_MAX, Malformed};
pub use place::{Place, Stride};
