//! The parsers of clients' bytes, for tests of arbitrary bytes: handshakes and requests without a connection.

use std::hint::black_box;
use std::sync::Arc;

use crate::face::{About, Face};
use crate::fields::Fields;
use crate::haggle::{Cover, Haggle, Next};
use crate::option::{self, Head};
use crate::reply::encode;
use crate::request::{self, Request, Rules};

fn faces() -> Vec<Arc<Face>> {
    let face = |name: &str, sector_bytes| Arc::new(Face { about: About::new(name), size_bytes: 1 << 30, sector_bytes });
    vec![face("disk", 512), face("other", 4096)]
}

/// The client's side of a handshake: four bytes of flags, then options. True if it comes to requests.
pub fn handshake(bytes: &[u8]) -> bool {
    let mut fields = Fields(bytes);
    let Some(flags) = fields.u32() else { return false };
    let mut haggle = Haggle::new(faces(), Cover::Offered, flags & 1 != 0, flags & 2 != 0);
    while let Some(head) = fields.bytes(option::HEAD_BYTES).and_then(|head| head.first_chunk()) {
        let Some(Head { option, length }) = Head::parse(head) else { return false };
        if length > option::DATA_BYTES_MAX {
            return false;
        }
        let Some(data) = fields.bytes(length as usize) else { return false };
        let mut out = Vec::new();
        let next = haggle.answer(option, data, &mut out);
        black_box(out);
        match next {
            Next::More => {}
            Next::StartTls => haggle = haggle.covered(),
            Next::End => return false,
            Next::Transmit(_) => return true,
        }
    }
    false
}

/// Requests with their data, one after the other. True if there is one, and all may be done.
pub fn requests(bytes: &[u8]) -> bool {
    let (mut fields, mut done) = (Fields(bytes), false);
    let Some(face) = faces().into_iter().next_back() else { return false };
    let rules = Rules { face, structured: true, allocation: true, aligned: true };
    while let Some(head) = fields.bytes(request::HEAD_BYTES).and_then(|head| head.first_chunk()) {
        let Some(request) = Request::parse(head) else { return false };
        if request.disconnects() {
            return done;
        }
        if fields.bytes(request.data_bytes() as usize).is_none() {
            return false;
        }
        if let Err(failure) = rules.judge(&request) {
            encode(request.cookie, Err(failure), true, &mut Vec::new());
            return false;
        }
        done = true;
    }
    done && fields.end()
}
