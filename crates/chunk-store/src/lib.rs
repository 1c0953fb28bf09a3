//! SMRstore: a chunk store engine on one zoned drive (Zhou et al., FAST'23).

mod client;
mod error;
mod types;

pub use client::{ChunkClient, Reply, Request};
pub use error::{Error, ErrorKind, Result};
pub use shingle_base::ChunkId;
pub use types::{ChunkStat, StoreStat, Stream};
