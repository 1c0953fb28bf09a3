//! A piece: bytes of a file on their way to a record.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::error::FilesError;
use crate::extent::Extent;

/// Copies of an extent's bytes that are being written.
#[derive(Default)]
pub(crate) struct Copying {
    /// Their records, in order. Their blocks count as live already.
    pub(crate) placed: RefCell<Vec<Extent>>,
    pub(crate) failed: RefCell<Option<FilesError>>,
    /// Nobody needs them any more: those that are still on their way are garbage as soon as they are written. (ZF-CLEAN-2)
    pub(crate) abandoned: Cell<bool>,
    /// Some more are written, or none will be.
    pub(crate) landed: Notify,
}

/// The one who waits for a piece.
#[derive(Clone)]
pub(crate) enum Target {
    /// It goes to the end of its file.
    File,
    /// It takes the place of a record elsewhere.
    Copy(Rc<Copying>),
}

/// Bytes of a file that become one record, or several where zones end.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) serial: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) data: Vec<Bytes>,
    pub(crate) target: Target,
}

impl Piece {
    /// It is not written: whoever waits for a copy hears why. Bytes of files go with those who wait.
    pub(super) fn fail(&self, failure: &FilesError) {
        if let Target::Copy(copying) = &self.target {
            *copying.failed.borrow_mut() = Some(failure.clone());
            copying.landed.notify_one();
        }
    }

    /// Keeps the first `length` bytes, and returns the others.
    pub(crate) fn split_off(&mut self, length: u64) -> Self {
        let mut rest =
            Self { offset: self.offset + length, length: self.length - length, data: Vec::new(), ..self.clone() };
        rest.data = split_off(&mut self.data, length);
        self.length = length;
        rest
    }
}

/// Keeps the first `length` bytes, and returns the others.
fn split_off(data: &mut Vec<Bytes>, length: u64) -> Vec<Bytes> {
    let mut left = length as usize;
    for at in 0..data.len() {
        if left < data[at].len() {
            let mut rest = data.split_off(at);
            let kept = rest[0].split_to(left);
            if !kept.is_empty() {
                data.push(kept);
            }
            return rest;
        }
        left -= data[at].len();
    }
    Vec::new()
}

/// Bytes from `from` to `to` of pieces of memory that follow each other from `offset` on.
pub(crate) fn cut(data: &[Bytes], offset: u64, from: u64, to: u64, out: &mut Vec<u8>) {
    let mut at = offset;
    for piece in data {
        let end = at + piece.len() as u64;
        let (first, last) = (from.max(at), to.min(end));
        if first < last {
            out.extend_from_slice(&piece[(first - at) as usize..(last - at) as usize]);
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_split_anywhere() {
        let data = vec![Bytes::from_static(b"abc"), Bytes::from_static(b"de"), Bytes::from_static(b"fgh")];
        for length in 1..8 {
            let mut first = Piece { serial: 1, offset: 10, length: 8, data: data.clone(), target: Target::File };
            let rest = first.split_off(length);
            assert_eq!((first.length, rest.length, rest.offset), (length, 8 - length, 10 + length));
            let all: Vec<u8> = first.data.concat().into_iter().chain(rest.data.concat()).collect();
            assert_eq!((all.as_slice(), first.data.concat().len() as u64), (&b"abcdefgh"[..], length));
        }
        let mut out = Vec::new();
        cut(&data, 100, 102, 106, &mut out);
        assert_eq!(out, b"cdef");
    }
}
