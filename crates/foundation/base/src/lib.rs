//! Units, identifiers, checksums and aligned buffers.
//!
//! **Owns** the vocabulary every other crate speaks. **Knows nothing of** drives, time or I/O.

mod aligned;
mod checksum;
mod decay;
mod ids;
mod pool;
mod printable;
mod units;
pub mod wire;

pub use aligned::{AlignedBuf, AlignedBuilder};
pub use checksum::{Crc, crc32c};
pub use decay::decay;
pub use ids::{ChunkId, ParseIdError, StoreId, ZoneId};
pub use pool::BufferPool;
pub use printable::printable;
pub use units::{BLOCK_SIZE, Blocks, ByteSize, Lba, ParseSizeError};
