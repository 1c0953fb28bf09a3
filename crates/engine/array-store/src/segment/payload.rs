//! Form of the payload of a set's segments: the one place that asks whether drives keep it.
//!
//! Modelled drives drop payload, so that an experiment over terabytes costs no time for bytes that nobody will see
//! ([`hollow`](super::hollow)). Snapshots of the index are kept whole everywhere.

use bytes::{Bytes, BytesMut};
use shingle_base::{BufferPool, ChunkId};
use shingle_record::{RecordPlace, frame_hollow, frame_sliced};

use super::framing::Framing;
use super::hedge::read_part;
use super::hollow::{fragment_hollow, read_hollow, zeros};
use super::read::{Fault, Source};
use crate::format::FRAGMENT;
use crate::types::SetState;

/// Clients' reads up to this are as on other drives also where drives drop payload, hedged where a drive is slow.
const SHORT: u32 = 1 << 20;

/// Reader of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    /// It gets the bytes, as soon as can be.
    Client,
    /// It copies them, and nobody waits: where drives drop payload no byte is laid out, however few there are.
    Copy,
}

/// The form of a set's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    /// Fragments and parity, each in slices with their checksums.
    Coded,
    /// Zeros that are neither copied, encoded nor verified.
    Hollow,
}

impl Framing {
    /// True if drives drop the payload of objects.
    pub(crate) fn drops_payload(&self) -> bool {
        self.hollow
    }

    /// The form of payload in a set of that state.
    pub(crate) fn payload(&self, state: SetState) -> Payload {
        if self.hollow && state != SetState::Index { Payload::Hollow } else { Payload::Coded }
    }

    /// The pieces of a segment's data as one: a single one uncopied.
    pub(crate) fn join(&self, pieces: &[Bytes]) -> Bytes {
        let length = pieces.iter().map(Bytes::len).sum();
        match pieces {
            [piece] => piece.clone(),
            _ if self.hollow => zeros(length),
            _ => {
                let mut data = BytesMut::with_capacity(length);
                pieces.iter().for_each(|piece| data.extend_from_slice(piece));
                data.freeze()
            }
        }
    }
}

impl Payload {
    /// `length` bytes from `from` bytes into a part.
    pub(crate) async fn part(
        self,
        framing: &Framing,
        source: &Source<'_>,
        (from, length): (u32, u32),
        reader: For,
        faults: &mut Vec<Fault>,
    ) -> Option<Bytes> {
        match self {
            Self::Hollow if length > SHORT || reader == For::Copy => read_hollow(source, from, length, faults).await,
            _ => read_part(source, &framing.coder, &framing.pool, from, length, faults).await,
        }
    }

    /// A whole fragment: as it is, or computed from others.
    pub(crate) async fn fragment(
        self,
        framing: &Framing,
        source: &Source<'_>,
        number: usize,
        faults: &mut Vec<Fault>,
    ) -> Option<Bytes> {
        if self == Self::Hollow
            && let Some(bytes) = fragment_hollow(source, number, faults).await
        {
            return Some(bytes);
        }
        if let Ok(bytes) = source.fragment(&framing.pool, number).await {
            return Some(framing.pool.share(bytes));
        }
        let bytes = source.fragment_anew(&framing.coder, &framing.pool, number, faults).await?;
        Some(framing.pool.share(bytes))
    }

    /// A fragment as a record, in the pieces to be written.
    pub(crate) fn frame(
        self,
        place: &RecordPlace,
        stamp: u64,
        id: ChunkId,
        bytes: Bytes,
        pool: &BufferPool,
    ) -> Vec<Bytes> {
        match self {
            Self::Hollow => frame_hollow(FRAGMENT, place, stamp, id, 0, bytes.len() as u32),
            Self::Coded => vec![frame_sliced(FRAGMENT, place, stamp, id, 0, &[bytes], pool)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_erasure::Code;

    #[test]
    fn snapshots_of_the_index_are_kept_on_drives_that_drop_payload() {
        let framing = |hollow| Framing::new(Code::new(4, 2).unwrap(), 1 << 20, hollow);
        let pieces = [Bytes::from("ab"), Bytes::from("c")];
        for state in [SetState::Index, SetState::Open] {
            assert_eq!(framing(false).payload(state), Payload::Coded);
        }
        assert_eq!(framing(true).payload(SetState::Index), Payload::Coded);
        assert_eq!(framing(true).payload(SetState::Open), Payload::Hollow);
        assert_eq!((framing(false).join(&pieces), framing(true).join(&pieces)), ("abc".into(), vec![0; 3].into()));
        assert_eq!(framing(true).join(&pieces[..1]), pieces[0], "uncopied");
    }
}
