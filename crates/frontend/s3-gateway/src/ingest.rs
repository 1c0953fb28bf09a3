//! From a request's body to the store: pieces of a MiB, digests taken as they pass, and everything stated checked.
//!
//! **Owns** the check of GW-S3-2: a client's statements about its body must be true before the writer is committed.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use hyper::HeaderMap;
use s3s::dto::StreamingBlob;
use s3s::{S3Result, TrailingHeaders, s3_error};
use shingle_runtime::memory::{Memory, Reservation};
use shingle_store_api::{Metadata, ObjectWriter};

use crate::checksums::{self, Algorithm, Hasher, Stated};
use crate::digests::{same_md5, stated_md5};
use crate::hex::hex;
use crate::md5::{BodyMd5, Company};
use crate::options::PIECE_BYTES;
use crate::{errors, guard};

/// Frames of at least this size go to the store as they are; smaller ones are copied together.
const FRAME_BYTES_WHOLE: usize = PIECE_BYTES / 4;

/// Length and digests that a request states for its body.
pub(crate) struct Statement {
    length: u64,
    md5: Option<Vec<u8>>,
    checksum: Option<Stated>,
    trailers: Option<TrailingHeaders>,
}

impl Statement {
    /// Reads the statement from the request's headers.
    ///
    /// # Errors
    /// `MissingContentLength`; `EntityTooLarge` above `bytes_max`; `InvalidDigest` and `InvalidRequest` for malformed
    /// digests.
    pub(crate) fn of_request(
        length: Option<i64>,
        sdk_algorithm: Option<&str>,
        headers: &HeaderMap,
        trailers: Option<TrailingHeaders>,
        bytes_max: u64,
    ) -> S3Result<Self> {
        let length = match length {
            Some(length) => {
                u64::try_from(length).map_err(|_| s3_error!(InvalidArgument, "Content-Length is negative"))?
            }
            // The body comes in chunks of HTTP; a streamed one says beside them how much it holds.
            None => decoded_length(headers).ok_or_else(|| {
                s3_error!(MissingContentLength, "You must provide the Content-Length HTTP header, or stream the body as aws-chunked with x-amz-decoded-content-length.")
            })?,
        };
        if length > bytes_max {
            return Err(s3_error!(
                EntityTooLarge,
                "Your proposed upload of {length} bytes exceeds the {bytes_max} that one request may bring; upload it in parts"
            ));
        }
        let md5 = stated_md5(headers)?;
        Ok(Self { length, md5, checksum: Stated::of_request(headers, sdk_algorithm)?, trailers })
    }

    /// Has the body's checksum computed in this algorithm if it states none.
    pub(crate) fn want(&mut self, algorithm: Algorithm) -> S3Result<()> {
        match &self.checksum {
            Some(stated) if stated.algorithm != algorithm => Err(s3_error!(
                InvalidRequest,
                "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
                algorithm.name(),
                stated.algorithm.name()
            )),
            Some(_) => Ok(()),
            None => {
                self.checksum = Some(Stated { algorithm, value: None, in_trailer: false });
                Ok(())
            }
        }
    }
}

fn decoded_length(headers: &HeaderMap) -> Option<u64> {
    guard::framing(headers)?;
    headers.get("x-amz-decoded-content-length")?.to_str().ok()?.parse().ok()
}

/// A body that came whole.
pub(crate) struct Ingested {
    /// Its MD5 in hex: the ETag.
    pub(crate) etag: String,
    /// Its checksum, if it has one.
    pub(crate) checksum: Option<(Algorithm, Vec<u8>)>,
}

impl Ingested {
    /// Puts the checksum where the store keeps it.
    pub(crate) fn store_checksum(&self, metadata: &mut Metadata) {
        if let Some((algorithm, digest)) = &self.checksum {
            checksums::store(metadata, *algorithm, digest);
        }
    }
}

/// Moves the body to the writer, which is not committed.
///
/// # Errors
/// `IncompleteBody`, `BadDigest`, and others for a body that differs from its statement; the store's errors.
pub(crate) async fn ingest(
    body: Option<StreamingBlob>,
    statement: Statement,
    writer: &mut dyn ObjectWriter,
    memory: &Memory,
    company: &Arc<Company>,
) -> S3Result<Ingested> {
    writer.expect(statement.length);
    let algorithm = statement.checksum.as_ref().map(|stated| stated.algorithm);
    let mut sink = Sink::new(writer, statement.length, algorithm, memory, company);
    if let Some(mut body) = body {
        while let Some(frame) = body.next().await {
            let frame = frame.map_err(|error| errors::of_body(&error))?;
            if sink.length + frame.len() as u64 > statement.length {
                return Err(s3_error!(InvalidRequest, "the body is longer than stated"));
            }
            sink.push(frame).await?;
        }
    }
    if sink.length < statement.length {
        let (came, stated) = (sink.length, statement.length);
        return Err(s3_error!(IncompleteBody, "{came} bytes came of the {stated} that were stated"));
    }
    let (md5, checksum) = sink.finish().await?;
    if let Some(stated) = &statement.md5 {
        same_md5(&md5, stated)?;
    }
    if let (Some(stated), Some((_, digest))) = (&statement.checksum, &checksum) {
        stated.verify(digest, statement.trailers.as_ref())?;
    }
    Ok(Ingested { etag: hex(&md5), checksum })
}

/// Collects small frames into pieces, and digests what passes.
///
/// A frame is digested when it comes, while the next is on its way: at most a few hundred KiB, under a millisecond. Its MD5 may wait
/// for those of other bodies.
pub(crate) struct Sink<'a> {
    writer: &'a mut dyn ObjectWriter,
    memory: &'a Memory,
    pending: BytesMut,
    /// Memory of `pending`.
    reserved: Option<Reservation>,
    /// Bytes that there will be at most.
    expected: u64,
    md5: BodyMd5,
    checksum: Option<(Algorithm, Hasher)>,
    length: u64,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(
        writer: &'a mut dyn ObjectWriter,
        expected: u64,
        checksum: Option<Algorithm>,
        memory: &'a Memory,
        company: &Arc<Company>,
    ) -> Self {
        let checksum = checksum.map(|algorithm| (algorithm, algorithm.hasher()));
        let (pending, md5) = (BytesMut::new(), BodyMd5::new(company.clone()));
        Self { writer, memory, pending, reserved: None, expected, md5, checksum, length: 0 }
    }

    /// A piece that goes to the writer as it is, and has memory until this returns.
    pub(crate) async fn push_whole(&mut self, piece: Bytes) -> S3Result<()> {
        self.digest(&piece).await?;
        self.writer.write(piece).await.map_err(errors::of_store)
    }

    async fn digest(&mut self, bytes: &Bytes) -> S3Result<()> {
        self.length += bytes.len() as u64;
        self.md5.push(bytes).await?;
        if let Some((_, hasher)) = &mut self.checksum {
            hasher.update(bytes);
        }
        Ok(())
    }

    pub(crate) async fn push(&mut self, frame: Bytes) -> S3Result<()> {
        if self.pending.is_empty() && frame.len() >= FRAME_BYTES_WHOLE {
            return self.push_whole(frame).await;
        }
        let left = self.expected.saturating_sub(self.length);
        self.digest(&frame).await?;
        let memory = self.memory;
        let reserved = self
            .reserved
            .get_or_insert_with(|| memory.take(PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES))));
        let most = reserved.bytes();
        if self.pending.capacity() == 0 {
            self.pending.reserve(most);
        }
        self.pending.extend_from_slice(&frame);
        if self.pending.len() >= most { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> S3Result<()> {
        let piece = std::mem::take(&mut self.pending);
        // The writer accounts for the piece from here on.
        self.reserved = None;
        if piece.is_empty() { Ok(()) } else { self.writer.write(piece.freeze()).await.map_err(errors::of_store) }
    }

    /// The MD5 and the checksum of all that was pushed; the writer has all of it.
    pub(crate) async fn finish(mut self) -> S3Result<([u8; 16], Option<(Algorithm, Vec<u8>)>)> {
        self.flush().await?;
        let checksum = self.checksum.map(|(algorithm, hasher)| (algorithm, hasher.finish()));
        Ok((self.md5.finish().await?, checksum))
    }
}
