//! Reads: the map tells the places, and each slice is verified by its place.
//!
//! # Invariants
//! - TL-READ-1: no byte is returned that was not verified, or that no write put there: unmapped sectors are zeros.
//! - TL-READ-2: a zone that is being read is not reset.

mod fetch;
mod places;
mod plan;

use plan::{Reach, Run};
