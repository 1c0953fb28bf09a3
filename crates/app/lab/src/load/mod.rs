//! Workloads: calls on chunks ([`ChunkTarget`](crate::rig::target::ChunkTarget)), on blocks
//! ([`BlockStore`](shingle_store_api::BlockStore)) and on objects.

pub mod commands;
pub mod filebench;
pub mod fit;
pub mod fitted;
pub mod generate;
pub mod lanes;
pub mod latency;
pub(crate) mod lengths;
pub mod micro;
pub mod mix;
pub mod multistream;
pub mod objects;
pub mod replay;
pub mod script;
pub(crate) mod table3;
pub mod theory;
pub mod throughput;
pub mod times;
