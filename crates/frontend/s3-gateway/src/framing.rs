//! Chunks of a streamed body (`aws-chunked`), made small before they are decoded.
//!
//! The decoder in `s3s` holds a chunk in memory until it has come whole, and a chunk may be as large as the client
//! says: some SDKs send an object as one chunk. An unsigned body's chunks mean nothing, so they are cut into one chunk
//! for each frame that comes. A signed chunk has to be whole to be checked, so it may not be larger than 8 MiB.
//!
//! Grammar: `(SIZE-IN-HEX [;chunk-signature=HEX] CRLF DATA CRLF)* 0[;...] CRLF (TRAILER CRLF)* CRLF`.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use crate::errors::BodyError;
use crate::options::SIGNED_CHUNK_BYTES_MAX;

/// The longest line that says a chunk's size.
const LINE_BYTES_MAX: usize = 1024;

/// Reads a body's framing as it passes.
pub(crate) struct Framing {
    signed: bool,
    state: State,
}

enum State {
    /// In the line that says a chunk's size.
    Line(Vec<u8>),
    /// In a chunk's data.
    Data { size: u64, left: u64 },
    /// In the line break behind a chunk's data.
    Break { left: usize },
    /// Behind the last chunk.
    Trailers,
}

impl Framing {
    /// For chunks with signatures, or without.
    pub(crate) fn new(signed: bool) -> Self {
        Self { signed, state: State::Line(Vec::new()) }
    }

    /// Bytes of the chunk that is coming, if it must have come whole before its signature can be checked.
    pub(crate) fn whole_bytes(&self) -> usize {
        match self.state {
            // Bounded where it was begun.
            State::Data { size, .. } if self.signed => usize::try_from(size).unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    /// Takes a frame of the body; its data goes to `out`.
    ///
    /// # Errors
    /// `Framing` for malformed chunks, `ChunkTooLarge`.
    pub(crate) fn push(&mut self, mut frame: Bytes, out: &mut VecDeque<Bytes>) -> Result<(), BodyError> {
        if self.signed {
            // Passed on as it is: the signatures hold for these very chunks.
            out.push_back(frame.clone());
        }
        while !frame.is_empty() {
            match &mut self.state {
                State::Line(line) => {
                    let end = frame.iter().position(|byte| *byte == b'\n');
                    let part = frame.split_to(end.map_or(frame.len(), |end| end + 1));
                    if line.len() + part.len() > LINE_BYTES_MAX {
                        return Err(BodyError::Framing);
                    }
                    line.extend_from_slice(&part);
                    if end.is_some() {
                        let size = chunk_size(line).ok_or(BodyError::Framing)?;
                        self.begin_chunk(size, out)?;
                    }
                }
                State::Data { left, .. } => {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(frame.len());
                    let data = frame.split_to(take);
                    *left -= take as u64;
                    if *left == 0 {
                        self.state = State::Break { left: 2 };
                    }
                    if !self.signed {
                        out.push_back(Bytes::from(format!("{take:x}\r\n")));
                        out.push_back(data);
                        out.push_back(Bytes::from_static(b"\r\n"));
                    }
                }
                State::Break { left } => {
                    let expected = if *left == 2 { b'\r' } else { b'\n' };
                    if frame.get_u8() != expected {
                        return Err(BodyError::Framing);
                    }
                    *left -= 1;
                    if *left == 0 {
                        self.state = State::Line(Vec::new());
                    }
                }
                State::Trailers => {
                    let rest = std::mem::take(&mut frame);
                    if !self.signed {
                        out.push_back(rest);
                    }
                }
            }
        }
        Ok(())
    }

    fn begin_chunk(&mut self, size: u64, out: &mut VecDeque<Bytes>) -> Result<(), BodyError> {
        if self.signed && size > SIGNED_CHUNK_BYTES_MAX {
            return Err(BodyError::ChunkTooLarge);
        }
        if size == 0 {
            self.state = State::Trailers;
            if !self.signed {
                out.push_back(Bytes::from_static(b"0\r\n"));
            }
        } else {
            self.state = State::Data { size, left: size };
        }
        Ok(())
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let line = line.strip_suffix(b"\r\n")?;
    let digits = line.split(|byte| *byte == b';').next()?;
    let digits = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(signed: bool, body: &[u8], frame: usize) -> Result<Vec<Bytes>, BodyError> {
        let mut framing = Framing::new(signed);
        let mut out = VecDeque::new();
        for piece in body.chunks(frame) {
            framing.push(Bytes::copy_from_slice(piece), &mut out)?;
        }
        Ok(out.into())
    }

    /// Data of the chunks, and the bytes behind them.
    fn decode(mut body: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut data = Vec::new();
        loop {
            let end = body.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            let size = chunk_size(&body[..end]).unwrap() as usize;
            body = &body[end..];
            if size == 0 {
                return (data, body.to_vec());
            }
            data.extend_from_slice(&body[..size]);
            assert_eq!(&body[size..size + 2], b"\r\n");
            body = &body[size + 2..];
        }
    }

    #[test]
    fn an_unsigned_chunk_is_cut_at_every_frame() {
        let body = b"5\r\nhello\r\nC\r\n, wide world\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n";
        for frame in 1..body.len() {
            let out = through(false, body, frame).unwrap();
            assert!(out.iter().all(|piece| piece.len() <= frame.max(8)), "frame {frame}");
            let (data, trailers) = decode(&out.concat());
            assert_eq!(data, b"hello, wide world", "frame {frame}");
            assert_eq!(trailers, b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n", "frame {frame}");
        }
    }

    #[test]
    fn signed_chunks_pass_unchanged() {
        let body = b"5;chunk-signature=ab\r\nhello\r\n0;chunk-signature=cd\r\n\r\n";
        for frame in 1..body.len() {
            assert_eq!(through(true, body, frame).unwrap().concat(), body);
        }
    }

    #[test]
    fn signed_chunks_have_a_limit_and_unsigned_ones_none() {
        assert!(through(true, b"800000;chunk-signature=ab\r\n", 9).is_ok());
        assert_eq!(through(true, b"800001;chunk-signature=ab\r\n", 9), Err(BodyError::ChunkTooLarge));
        assert!(through(false, b"fffffffffff\r\n", 9).is_ok());
    }

    #[test]
    fn what_is_no_framing_is_refused() {
        let long = vec![b'0'; 2000];
        for body in
            [&b"\n"[..], b"5\n", b"+5\r\n", b"g\r\n", b"11112222333344445\r\n", b"1\r\nxyz", b"1\r\nx\ry", &long]
        {
            assert_eq!(through(false, body, 3), Err(BodyError::Framing), "{:?}", body.escape_ascii().to_string());
        }
    }
}
