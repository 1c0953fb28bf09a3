//! The handshake on a socket: the first exchange, options, TLS.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsAcceptor;

use crate::face::Face;
use crate::haggle::{Chosen, Cover, Haggle, Next, refuse};
use crate::limits::Limits;
use crate::metrics::NbdMetrics;
use crate::option::{DATA_BYTES_MAX, HEAD_BYTES, Head};
use crate::reader::Reader;
use crate::stream::Stream;
use crate::wire::{FIXED_NEWSTYLE, INIT_MAGIC, NO_ZEROES, OPTION_MAGIC, STRING_BYTES_MAX, answer, option};

/// Data of an option that is passed over, so that the client is told that it is too long.
const SKIPPED_BYTES_MAX: u32 = 1 << 20;

/// The result of a handshake.
pub(crate) struct Agreed {
    pub(crate) socket: Box<dyn Stream>,
    /// Bytes of requests that were read with the handshake.
    pub(crate) ahead: BytesMut,
    pub(crate) chosen: Chosen,
    /// The connection's seat at its export.
    pub(crate) seat: OwnedSemaphorePermit,
}

/// Haggles with a client; `None` if it took its leave. `seat` is that at an export, if there is one left.
pub(crate) async fn handshake(
    socket: Box<dyn Stream>,
    faces: Vec<Arc<Face>>,
    seat: impl Fn(usize) -> Option<OwnedSemaphorePermit>,
    (tls, cover): (Option<&TlsAcceptor>, Cover),
    limits: &Limits,
    metrics: Arc<NbdMetrics>,
) -> io::Result<Option<Agreed>> {
    let mut reader = Reader::new(socket, BytesMut::new(), limits.handshake_timeout, metrics.clone());
    let hello =
        [&INIT_MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes()];
    reader.socket().write_all(&hello.concat()).await?;
    let Some(flags) = reader.head::<4>().await? else { return Ok(None) };
    let flags = u32::from_be_bytes(flags);
    let (fixed, no_zeroes) = (flags & u32::from(FIXED_NEWSTYLE) != 0, flags & u32::from(NO_ZEROES) != 0);
    if flags > u32::from(FIXED_NEWSTYLE | NO_ZEROES) {
        return Err(invalid(format!("the client has unknown flags: {flags:#x}")));
    }
    let mut haggle = Haggle::new(faces, cover, fixed, no_zeroes);
    loop {
        let Some(head) = reader.head::<HEAD_BYTES>().await? else { return Ok(None) };
        let Some(Head { option, length }) = Head::parse(&head) else {
            return Err(invalid("no option begins so".to_owned()));
        };
        let mut out = Vec::new();
        let next = if length > DATA_BYTES_MAX || option == option::EXPORT_NAME && length as usize > STRING_BYTES_MAX {
            if length > SKIPPED_BYTES_MAX || option == option::EXPORT_NAME {
                return Err(invalid(format!("an option of {length} bytes")));
            }
            reader.skip(length as usize).await?;
            refuse(&mut out, option, answer::ERR_TOO_BIG, "the option is too long")
        } else {
            let data = reader.data(length as usize).await?.concat();
            haggle.answer(option, &data, &mut out)
        };
        // The choice is taken back if there is no seat: `EXPORT_NAME` has no other refusal than the connection's end.
        let chosen = match &next {
            Next::Transmit(chosen) => Some((*chosen, seat(chosen.export))),
            _ => None,
        };
        if let Some((_, None)) = chosen {
            if option == option::EXPORT_NAME {
                return Err(invalid("the export has as many connections as may be".to_owned()));
            }
            out.clear();
            refuse(&mut out, option, answer::ERR_POLICY, "the export has as many connections as may be");
        }
        reader.socket().write_all(&out).await?;
        reader.socket().flush().await?;
        match next {
            Next::More => {}
            Next::End => return Ok(None),
            Next::Transmit(_) => {
                let Some((chosen, Some(seat))) = chosen else { continue };
                let (socket, ahead) = reader.into_parts();
                return Ok(Some(Agreed { socket, ahead, chosen, seat }));
            }
            Next::StartTls => {
                let (socket, ahead) = reader.into_parts();
                // Bytes in front of TLS came from anybody: they must not be taken for the client's. (NBD-TLS-1)
                if !ahead.is_empty() {
                    return Err(invalid("bytes behind STARTTLS that are not of TLS".to_owned()));
                }
                let Some(tls) = tls else { return Err(invalid("TLS without a certificate".to_owned())) };
                let socket: Box<dyn Stream> = Box::new(tls.accept(socket).await?);
                reader = Reader::new(socket, BytesMut::new(), limits.handshake_timeout, metrics.clone());
                haggle = haggle.covered();
            }
        }
    }
}

fn invalid(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}
