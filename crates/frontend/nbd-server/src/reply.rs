//! Replies of the transmission, from a store's answer to the bytes of a client. Pure.

use bytes::{BufMut, Bytes, BytesMut};

use crate::failure::Failure;
use crate::request::Span;
use crate::wire::{ALLOCATION_ID, CHUNK_MAGIC, HOLE_AND_ZERO, SIMPLE_REPLY_MAGIC, chunk};

/// Result of a request.
pub(crate) type Outcome = Result<Content, Failure>;

/// The data of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// None: the request was done.
    Done,
    /// The bytes of a read, in pieces that together are all of them.
    Read(Vec<Piece>),
    /// The state of blocks.
    Status(Vec<Run>),
}

/// A run of bytes that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) span: Span,
    /// In pieces that follow each other. `None`: a hole, which reads as zeros.
    pub(crate) data: Option<Vec<Bytes>>,
}

/// A run of bytes in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) span: Span,
    pub(crate) mapped: bool,
}

/// Appends a reply to what is to be sent. Data is not copied.
pub(crate) fn encode(cookie: u64, outcome: Outcome, structured: bool, out: &mut impl Extend<Bytes>) {
    match outcome {
        Ok(Content::Done) => out.extend([simple(cookie, 0)]),
        Ok(Content::Read(pieces)) if !structured => {
            out.extend([simple(cookie, 0)]);
            out.extend(pieces.into_iter().filter_map(|piece| piece.data).flatten());
        }
        Ok(Content::Read(pieces)) => {
            let last = pieces.len().saturating_sub(1);
            for (number, Piece { span, data }) in pieces.into_iter().enumerate() {
                let flags = if number == last { chunk::DONE } else { 0 };
                read_chunk(cookie, flags, span, data, out);
            }
        }
        // No client has chosen a context without structured replies.
        Ok(Content::Status(runs)) => {
            let mut bytes = head(cookie, chunk::DONE, chunk::BLOCK_STATUS, 4 + 8 * runs.len());
            bytes.put_u32(ALLOCATION_ID);
            for Run { span, mapped } in runs {
                // A run is no longer than its request.
                bytes.put_u32(span.length as u32);
                bytes.put_u32(if mapped { 0 } else { HOLE_AND_ZERO });
            }
            out.extend([bytes.freeze()]);
        }
        Err(failure) if structured => {
            let words = failure.message.as_bytes();
            let mut bytes = head(cookie, chunk::DONE, chunk::ERROR, 6 + words.len());
            bytes.put_u32(failure.errno as u32);
            bytes.put_u16(words.len() as u16);
            bytes.put_slice(words);
            out.extend([bytes.freeze()]);
        }
        Err(failure) => out.extend([simple(cookie, failure.errno as u32)]),
    }
}

fn read_chunk(cookie: u64, flags: u16, span: Span, data: Option<Vec<Bytes>>, out: &mut impl Extend<Bytes>) {
    let Some(data) = data else {
        let mut bytes = head(cookie, flags, chunk::OFFSET_HOLE, 12);
        bytes.put_u64(span.offset);
        bytes.put_u32(span.length as u32);
        return out.extend([bytes.freeze()]);
    };
    let length: usize = data.iter().map(Bytes::len).sum();
    let mut bytes = head(cookie, flags, chunk::OFFSET_DATA, 8 + length);
    bytes.put_u64(span.offset);
    out.extend([bytes.freeze()]);
    out.extend(data);
}

fn simple(cookie: u64, error: u32) -> Bytes {
    let mut bytes = BytesMut::with_capacity(16);
    bytes.put_u32(SIMPLE_REPLY_MAGIC);
    bytes.put_u32(error);
    bytes.put_u64(cookie);
    bytes.freeze()
}

/// The head of a chunk with `length` bytes behind it: far fewer than 4 GiB, as a request has.
fn head(cookie: u64, flags: u16, kind: u16, length: usize) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(20 + length.min(64 << 10));
    bytes.put_u32(CHUNK_MAGIC);
    bytes.put_u16(flags);
    bytes.put_u16(kind);
    bytes.put_u64(cookie);
    bytes.put_u32(length as u32);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Errno;

    fn encoded(outcome: Outcome, structured: bool) -> Vec<u8> {
        let mut out = Vec::new();
        encode(0x0102_0304_0506_0708, outcome, structured, &mut out);
        out.concat()
    }

    const COOKIE: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

    #[test]
    fn simple_replies_are_a_head_and_the_data() {
        let ok = [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0][..], &COOKIE].concat();
        assert_eq!(encoded(Ok(Content::Done), false), ok);
        assert_eq!(encoded(Ok(Content::Done), true), ok, "where there is no data, it is a simple one always");
        let piece = Piece {
            span: Span { offset: 9, length: 2 },
            data: Some([&b"a"[..], b"b"].map(Bytes::from_static).to_vec()),
        };
        assert_eq!(encoded(Ok(Content::Read(vec![piece])), false), [&ok[..], b"ab"].concat());
        let failed = encoded(Err(Failure::new(Errno::NoSpace, "full")), false);
        assert_eq!(failed, [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28][..], &COOKIE].concat());
    }

    #[test]
    fn structured_replies_are_chunks_and_the_last_one_says_so() {
        let head = |flags: u8, kind: [u8; 2], length: u8| {
            [&[0x66, 0x8e, 0x33, 0xef, 0, flags], &kind[..], &COOKIE, &[0, 0, 0, length]].concat()
        };
        let data = Piece {
            span: Span { offset: 9, length: 2 },
            data: Some([&b"a"[..], b"b"].map(Bytes::from_static).to_vec()),
        };
        let hole = Piece { span: Span { offset: 11, length: 5 }, data: None };
        let read = encoded(Ok(Content::Read(vec![data, hole])), true);
        let first = [&head(0, [0, 1], 10)[..], &[0, 0, 0, 0, 0, 0, 0, 9], b"ab"].concat();
        let second = [&head(1, [0, 2], 12)[..], &[0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 5]].concat();
        assert_eq!(read, [first, second].concat());
        let run = |length, mapped| Run { span: Span { offset: 0, length }, mapped };
        let status = encoded(Ok(Content::Status(vec![run(7, true), run(9, false)])), true);
        let runs = [0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 3];
        assert_eq!(status, [&head(1, [0, 5], 20)[..], &runs].concat());
        let failed = encoded(Err(Failure::new(Errno::Io, "bad")), true);
        assert_eq!(failed, [&head(1, [0x80, 1], 9)[..], &[0, 0, 0, 5, 0, 3], b"bad"].concat());
    }
}
