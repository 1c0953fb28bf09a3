//! Translation layers: controllers that decide what a volume cleans, and where copies go. (FSTL, section IV.)
//!
//! - [`tl1`]: writes go to a persistent cache of zones; sectors have homes, into which the cache is merged.
//! - [`tl2`]: sectors stay where they are written; zones with few of them alive are emptied to the head of the log.
//!
//! [`Layer`] is the choice among them and the volume's own cleaner.
//!
//! Each is a task beside its volume, and uses nothing but [`Control`](shingle_translation::Control): so the volume loses no data by what it does. A layer ends
//! when its volume closes.
//!
//! **Owns** policies. **Knows nothing of** formats, zones' commands and recovery.
//!
//! # Invariants
//! - TLL-HOME-1: once the cache of TL1 is empty, all sectors of a home lie in one zone.
//! - TLL-BASE-1: a zone is the base of a home, or of the cache. A base is written to no more, holds sectors of no other home, and no
//!   such zone holds more of them.
//! - TLL-END-1: a layer ends soon after its volume begins to close.

mod census;
mod layer;
mod moves;
mod pace;
mod tl1;
mod tl2;

pub use layer::Layer;
pub use tl1::{CachePolicy, Tl1, tl1};
pub use tl2::{LogPolicy, Tl2, tl2};
