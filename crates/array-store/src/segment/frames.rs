//! A segment as records: encoded, and framed for each member of its set.

use bytes::Bytes;
use shingle_base::{BufferPool, StoreId};
use shingle_erasure::Coder;
use shingle_record::{Place, frame, frame_hollow, frame_sliced};

use crate::format::{FRAGMENT, FragmentId, MARKER, Marker, Member};
use crate::types::SetId;

/// Where a segment goes.
pub(crate) struct FrameContext<'a> {
    pub(crate) array: StoreId,
    pub(crate) set: SetId,
    /// The set's life.
    pub(crate) epoch: u64,
    pub(crate) block: u32,
    /// The members, in the order of fragments.
    pub(crate) members: &'a [Member],
    pub(crate) pool: &'a BufferPool,
    /// Drives that drop payload: nothing is encoded for them.
    pub(crate) hollow: bool,
}

/// For each fragment, what its member writes: the layout marker and the fragment. `data` is the segment's, and is filled
/// up with zeros to whole fragments.
pub(crate) fn fragment_frames(
    context: &FrameContext<'_>,
    coder: &mut Coder,
    marker: &Marker,
    mut data: Bytes,
) -> Vec<Vec<Bytes>> {
    let shape = &marker.shape;
    let code = shape.code();
    let length = shape.fragment_length() as usize;
    let mut parity: Vec<Bytes> = Vec::new();
    if !context.hollow && length > 0 {
        if data.len() < length * code.data() {
            let mut filled = Vec::with_capacity(length * code.data());
            filled.extend_from_slice(&data);
            filled.resize(length * code.data(), 0);
            data = filled.into();
        }
        let fragments: Vec<&[u8]> = data.chunks_exact(length).collect();
        let mut out: Vec<Vec<u8>> = (0..code.parity()).map(|_| context.pool.take(length)).collect();
        coder.encode(&fragments, &mut out).expect("fragments of a shape are whole slices, as many as its code has");
        parity = out.into_iter().map(|bytes| context.pool.share(bytes)).collect();
    }
    let payload = marker.payload();
    let fragment = |number: usize| {
        let member = context.members[number];
        let place = Place { store: context.array, epoch: context.epoch, zone: member.zone, block: context.block };
        let head = frame(MARKER, &place, marker.stamp, marker.info(number as u8), &[&payload]);
        let block = context.block + (head.len() / shingle_base::BLOCK_SIZE) as u32;
        let mut frames = vec![head];
        if length == 0 {
            return frames;
        }
        let place = Place { block, ..place };
        let id = FragmentId { stamp: marker.stamp, set: context.set, fragment: number as u8 }.chunk();
        if context.hollow {
            frames.extend(frame_hollow(FRAGMENT, &place, marker.stamp, id, 0, length as u32));
            return frames;
        }
        let bytes = match number.checked_sub(code.data()) {
            None => data.slice(number * length..(number + 1) * length),
            Some(number) => parity[number].clone(),
        };
        frames.push(frame_sliced(FRAGMENT, &place, marker.stamp, id, 0, &[bytes], context.pool));
        frames
    };
    (0..code.width()).map(fragment).collect()
}
