//! Strings of bytes behind their length in two bytes.

use bytes::Bytes;
use shingle_base::wire::Fields;

/// The next one; `None` also if it is longer than `max`.
pub(super) fn short(fields: &mut Fields<'_>, max: usize) -> Option<Bytes> {
    let length = usize::from(fields.u16()?);
    if length > max {
        return None;
    }
    fields.bytes(length).map(Bytes::copy_from_slice)
}

/// Writes what [`short`] reads.
pub(super) fn put_short(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}
