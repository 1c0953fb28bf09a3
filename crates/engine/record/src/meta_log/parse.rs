//! The log's parsers of on-disk bytes, for fuzzing: each says whether the bytes make sense, and never panics.

use bytes::Bytes;

use crate::header::{Expect, HEADER_SIZE, Header, RecordType};
use crate::meta_log::format::{END, EndMark, JOURNAL, LINK, Link, LogInfo, head_position, parse_journal};
use crate::zone_head::ZONE_HEAD;

/// A record of that type, and its payload.
fn record(bytes: &[u8], kind: RecordType) -> Option<(Header, &[u8])> {
    let header = Header::decode(bytes, &Expect::default()).ok().filter(|header| header.kind == kind)?;
    header.verify_payload(bytes).ok()?;
    let payload = bytes.get(HEADER_SIZE..)?.get(..header.length as usize)?;
    Some((header, payload))
}

/// The record at the end of a checkpoint.
pub fn end_mark(bytes: &[u8]) -> bool {
    record(bytes, END).is_some_and(|(header, payload)| {
        let info = LogInfo::decode(&header.info);
        EndMark::decode(payload).is_some() && info.checkpoint <= info.position
    })
}

/// The record that names the next zone.
pub fn link(bytes: &[u8]) -> bool {
    record(bytes, LINK).is_some_and(|(header, payload)| {
        let info = LogInfo::decode(&header.info);
        Link::decode(payload).is_some() && info.first <= header.place.block
    })
}

/// A record of journal entries.
pub fn journal_record(bytes: &[u8]) -> bool {
    record(bytes, JOURNAL).is_some_and(|(header, payload)| {
        let info = LogInfo::decode(&header.info);
        parse_journal(&Bytes::copy_from_slice(payload)).is_some() && info.first <= header.place.block
    })
}

/// The head of a zone of the log.
pub fn zone_head(bytes: &[u8]) -> bool {
    record(bytes, ZONE_HEAD)
        .is_some_and(|(header, _)| head_position(&header.info) > 0 && LogInfo::decode(&header.info).blocks > 0)
}
