//! Workloads: the paper's, as streams of calls on a [`ChunkTarget`](crate::rig::target::ChunkTarget).

pub mod commands;
pub mod fit;
pub mod lanes;
pub mod micro;
pub mod mix;
pub mod multistream;
pub mod objects;
pub mod script;
pub(crate) mod table3;
pub mod theory;
pub mod times;
