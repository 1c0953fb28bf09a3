//! The test suite of the [`ZonedDevice`] contract, which every backend runs.
//!
//! A backend makes a device of a given shape, and, as far as it can, opens one again and lets a zone fail. [`check`]
//! then runs every case on fresh devices and panics at the first broken rule; [`random`] runs a long random history
//! beside a naive model.
//!
//! **Owns** the cases. **Knows nothing of** any backend.

mod limits;
mod model;
mod rig;
mod rules;
mod states;

use shingle_base::Blocks;

use crate::geometry::Geometry;

pub use model::random;
pub use rig::Backend;

/// Runs every case, and returns their number.
///
/// # Panics
/// At the first rule that the backend breaks.
pub async fn check<B: Backend>(backend: &B) -> usize {
    let shape = backend.shape().unwrap_or_else(small);
    rules::check(backend, &shape).await + states::check(backend, &shape).await + limits::check(backend, &shape).await
}

/// Zones of 16 blocks, of which 12 can be written; 2 conventional; at most 3 open and 5 active.
fn small() -> Geometry {
    Geometry { zone_capacity: Blocks(12), conventional_zones: 2, ..Geometry::zns(Blocks(16), Blocks(12), 10, 3, 5) }
}
