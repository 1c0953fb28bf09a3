//! One chunk, as the index knows it.

use shingle_base::ChunkId;

use crate::index::Groups;
use crate::types::Stream;

/// A chunk's number in the table, reused after the chunk is gone.
pub(crate) type Handle = u32;

/// One chunk. State that only chunks being written need is in [`crate::append::OpenChunk`].
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) id: ChunkId,
    pub(crate) groups: Groups,
    /// The sequence number of its creation; records with lower numbers belong to an earlier chunk of its id.
    pub(crate) birth: u64,
    /// Durable bytes.
    pub(crate) size: u32,
    pub(crate) stream: Stream,
    pub(crate) sealed: bool,
}

impl Chunk {
    pub(crate) fn new(id: ChunkId, stream: Stream, birth: u64) -> Self {
        Self { id, groups: Groups::default(), birth, size: 0, stream, sealed: false }
    }
}

const _: () = assert!(size_of::<Option<Chunk>>() == 72);
