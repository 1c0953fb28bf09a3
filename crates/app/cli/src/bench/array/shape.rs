//! The array that is measured: 10+2, fragments of 1 MiB.

use bytes::Bytes;
use shingle_erasure::Code;

use crate::failure::{Failure, Outcome};

pub(super) const DATA: u8 = 10;
pub(super) const PARITY: u8 = 2;
pub(super) const FRAGMENT: usize = 1 << 20;
pub(super) const SEGMENT: usize = DATA as usize * FRAGMENT;

pub(super) fn code() -> Outcome<Code> {
    Code::new(DATA, PARITY).map_err(|error| Failure::new(error.to_string()))
}

pub(super) fn segment() -> Bytes {
    (0..SEGMENT as u32).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect::<Vec<u8>>().into()
}
