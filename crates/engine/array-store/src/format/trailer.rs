//! The block behind a digest or a superblock: it says where that begins, so that it is found from the write pointer.

use bytes::Bytes;
use shingle_base::wire::Fields;
use shingle_record::{Header, INFO_SIZE, RecordPlace, frame};

use super::TRAILER;

/// First block of the record before this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) start: u32,
}

/// Frames the trailer at `place` of a record that begins at block `start`.
pub(crate) fn frame_trailer(place: &RecordPlace, sequence: u64, start: u32) -> Bytes {
    let mut info = [0; INFO_SIZE];
    info[..4].copy_from_slice(&start.to_le_bytes());
    frame(TRAILER, place, sequence, info, &[])
}

impl Trailer {
    /// Reads the trailer off its header.
    pub(crate) fn decode(header: &Header) -> Option<Self> {
        let start = Fields::new(&header.info).u32()?;
        (header.kind == TRAILER && start < header.place.block).then_some(Self { start })
    }
}
