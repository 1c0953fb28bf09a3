//! The index: chunks by id, and the places of their records. (SMRstore, section 5.3.)

mod chunk;
mod groups;
mod id_order;
mod memory;
mod runs;
mod table;
mod tally;
#[cfg(test)]
mod tests;

pub(crate) use chunk::{Chunk, Handle};
pub(crate) use groups::{Added, Groups};
pub use memory::{IndexMemory, StreamMemory};
pub(crate) use runs::{IndexGroup, Located, Run, ZONE_BLOCKS_MAX};
pub(crate) use table::ChunkTable;
pub(crate) use tally::Tally;
