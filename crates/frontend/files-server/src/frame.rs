//! Frames on a socket: two lengths, a head in JSON, and bytes of a file.

use std::io::{self, Error, ErrorKind};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shingle_zone_files::FilesError;

use crate::wire::{Answer, Call, DATA_BYTES_MAX, Reply, error_kind, error_number};

/// Bytes before the head.
pub(crate) const LENGTHS: usize = 8;
/// Most bytes of a head: that of a directory with very many files.
const HEAD_BYTES_MAX: u32 = 64 << 20;
/// Most bytes of a call's head.
pub(crate) const CALL_BYTES_MAX: u32 = 64 << 10;

/// The head of a frame.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Head {
    /// First, in both directions: the version of the calls.
    Hello(u32),
    /// A call, and the number of its answer.
    Call(u64, Call),
    /// Its result: an error is its number and its words.
    Answer(u64, Result<Reply, (u8, String)>),
}

/// Lengths of a head and of the data behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lengths {
    pub(crate) head: usize,
    pub(crate) data: usize,
}

fn refused(text: &str) -> Error {
    Error::new(ErrorKind::InvalidData, text)
}

impl Lengths {
    /// Lengths of a frame whose head is not longer than `head_max`.
    pub(crate) fn decode(bytes: [u8; LENGTHS], head_max: u32) -> io::Result<Self> {
        let [a, b, c, d, e, f, g, h] = bytes;
        let (head, data) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        if head > head_max.min(HEAD_BYTES_MAX) || data as usize > DATA_BYTES_MAX {
            return Err(refused("a frame is too long"));
        }
        Ok(Self { head: head as usize, data: data as usize })
    }

    /// As [`decode`](Self::decode), of an answer.
    pub(crate) fn of_answer(bytes: [u8; LENGTHS]) -> io::Result<Self> {
        Self::decode(bytes, HEAD_BYTES_MAX)
    }
}

impl Head {
    /// Lengths and head; the data follow.
    pub(crate) fn encode(&self, data: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; LENGTHS];
        serde_json::to_writer(&mut bytes, self)?;
        let head = u32::try_from(bytes.len() - LENGTHS).unwrap_or(u32::MAX);
        if head > HEAD_BYTES_MAX || data > DATA_BYTES_MAX {
            return Err(refused("a frame is too long"));
        }
        bytes[..4].copy_from_slice(&head.to_le_bytes());
        bytes[4..LENGTHS].copy_from_slice(&(data as u32).to_le_bytes());
        Ok(bytes)
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

/// An answer as a head and data.
pub(crate) fn parted(id: u64, answer: Answer) -> (Head, Bytes) {
    match answer {
        Ok(Reply::Data(data)) => (Head::Answer(id, Ok(Reply::Data(Bytes::new()))), data),
        Ok(reply) => (Head::Answer(id, Ok(reply)), Bytes::new()),
        Err(error) => (Head::Answer(id, Err((error_number(error.kind), error.message.to_string()))), Bytes::new()),
    }
}

/// The opposite of [`parted`].
pub(crate) fn joined(answer: Result<Reply, (u8, String)>, data: Bytes) -> Answer {
    match answer {
        Ok(Reply::Data(_)) => Ok(Reply::Data(data)),
        Ok(reply) => Ok(reply),
        Err((kind, words)) => Err(FilesError::new(error_kind(kind), words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Then;

    #[test]
    fn frames_come_back_as_they_were() {
        let call = Call::Append { handle: 7, then: Then::Sync };
        let bytes = Head::Call(3, call.clone()).encode(5).unwrap();
        let lengths = Lengths::decode(bytes[..LENGTHS].try_into().unwrap(), CALL_BYTES_MAX).unwrap();
        assert_eq!((lengths.head, lengths.data), (bytes.len() - LENGTHS, 5));
        assert!(matches!(Head::decode(&bytes[LENGTHS..]).unwrap(), Head::Call(3, found) if found == call));

        let error = FilesError::new(shingle_zone_files::FilesErrorKind::Locked, "it is locked");
        for answer in [Ok(Reply::Data(Bytes::from_static(b"bytes"))), Ok(Reply::Locked(9)), Err(error)] {
            let (head, data) = parted(1, answer.clone());
            let bytes = head.encode(data.len()).unwrap();
            let Head::Answer(1, found) = Head::decode(&bytes[LENGTHS..]).unwrap() else { panic!("no answer") };
            assert_eq!(joined(found, data), answer);
        }
    }

    #[test]
    fn frames_from_outside_are_bounded_and_never_panic() {
        for lengths in [[0xff; LENGTHS], [1, 0, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0x40, 0]] {
            assert!(Lengths::decode(lengths, CALL_BYTES_MAX).is_err());
        }
        for bytes in [&b""[..], b"{", b"{\"call\":[1]}", b"{\"call\":[-1,{\"open\":{}}]}", b"[[[[[[", b"\"room\""] {
            assert!(Head::decode(bytes).is_err());
        }
        assert!(Head::decode(&b"[".repeat(60_000)).is_err());
    }
}
