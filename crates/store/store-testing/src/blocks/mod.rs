//! The contract of a block store: cases that every store runs, a store in memory, and random histories through power cuts whose
//! every read is held against the writes it may show.

mod calls;
pub mod contract;
mod driver;
mod memory;
mod mix;
mod sector;
mod shadow;
mod state;
mod tokens;
mod verify;
mod versions;

pub use calls::Failed;
pub use driver::{BlockDriver, Met};
pub use memory::MemoryBlocks;
pub use mix::Mix;
pub use sector::fill;
pub use shadow::BlockShadow;
pub use tokens::{Changing, Flushing, Reading};
pub use verify::Verdict;
