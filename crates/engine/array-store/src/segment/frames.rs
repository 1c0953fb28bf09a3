//! A segment as records: encoded, and framed for each member of its set.

use bytes::Bytes;
use shingle_base::{BufferPool, StoreId};
use shingle_erasure::Coder;
use shingle_record::{RecordPlace, SLICE_SIZE, SlicedFramer, frame, frame_hollow, record_blocks};

use super::payload::Payload;
use crate::format::{FRAGMENT, FragmentId, MARKER, Marker, Member};
use crate::types::SetId;

/// Place of a segment.
pub(crate) struct FrameContext<'a> {
    pub(crate) array: StoreId,
    pub(crate) set: SetId,
    /// The set's life.
    pub(crate) epoch: u64,
    pub(crate) block: u32,
    /// The members, in the order of fragments.
    pub(crate) members: &'a [Member],
    pub(crate) pool: &'a BufferPool,
    pub(crate) payload: Payload,
}

/// For each fragment, what its member writes: the layout marker and the fragment. `data` is the segment's, and is filled
/// up with zeros to whole fragments.
pub(crate) fn fragment_frames(
    context: &FrameContext<'_>,
    coder: &mut Coder,
    marker: &Marker,
    data: Bytes,
) -> Vec<Vec<Bytes>> {
    let code = marker.shape.code();
    let length = marker.shape.fragment_length() as usize;
    let payload = marker.payload();
    let place = |number: usize, block: u32| {
        let zone = context.members[number].zone;
        RecordPlace { store: context.array, epoch: context.epoch, zone, block }
    };
    let head = |number: usize| {
        let info = marker.info(number as u8);
        frame(MARKER, &place(number, context.block), marker.stamp, info, &[&payload])
    };
    let mut frames: Vec<Vec<Bytes>> = (0..code.width()).map(|number| vec![head(number)]).collect();
    if length == 0 {
        return frames;
    }
    let id = |number: usize| FragmentId { stamp: marker.stamp, set: context.set, fragment: number as u8 }.chunk();
    let block = context.block + record_blocks(payload.len() as u64).0 as u32;
    if context.payload == Payload::Hollow {
        for (number, frames) in frames.iter_mut().enumerate() {
            let place = place(number, block);
            frames.extend(frame_hollow(FRAGMENT, &place, marker.stamp, id(number), 0, length as u32));
        }
        return frames;
    }
    let framers = (0..code.width()).map(|number| SlicedFramer::new(id(number), 0, length, context.pool)).collect();
    for (number, framer) in encoded(coder, &filled(data, length * code.data()), framers).into_iter().enumerate() {
        frames[number].push(framer.finish(FRAGMENT, &place(number, block), marker.stamp, context.pool));
    }
    frames
}

/// `data` with zeros behind it up to `length` bytes.
fn filled(data: Bytes, length: usize) -> Bytes {
    if data.len() >= length {
        return data;
    }
    let mut filled = Vec::with_capacity(length);
    filled.extend_from_slice(&data);
    filled.resize(length, 0);
    filled.into()
}

/// Puts each fragment of `data`, and the parity of them, in its framer: slice by slice, so that what is read once and
/// made once is still in the cache when it is framed.
fn encoded(coder: &mut Coder, data: &[u8], mut framers: Vec<SlicedFramer>) -> Vec<SlicedFramer> {
    let code = coder.code();
    let length = data.len() / code.data();
    let mut parity = vec![Vec::new(); code.parity()];
    let mut slices = Vec::with_capacity(code.data());
    for start in (0..length).step_by(SLICE_SIZE) {
        let end = length.min(start + SLICE_SIZE);
        slices.clear();
        slices.extend(data.chunks_exact(length).map(|fragment| &fragment[start..end]));
        coder.encode(&slices, &mut parity).expect("slices of fragments of a shape, as many as its code has");
        let all = slices.iter().copied().chain(parity.iter().map(Vec::as_slice));
        framers.iter_mut().zip(all).for_each(|(framer, slice)| framer.extend(slice));
    }
    framers
}
