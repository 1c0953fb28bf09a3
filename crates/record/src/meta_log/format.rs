//! What log records hold. See `docs/formats/meta-log.md`.

use bytes::Bytes;

use crate::frame::{INFO_SIZE, RecordType};
use crate::meta_log::Entry;

/// Journal entries, several in one record.
pub(crate) const JOURNAL: RecordType = RecordType(16);
/// The start of a checkpoint.
pub(crate) const START: RecordType = RecordType(17);
/// A part of a checkpoint.
pub(crate) const PART: RecordType = RecordType(18);
/// The end of a complete checkpoint.
pub(crate) const END: RecordType = RecordType(19);

/// A log record's `info`.
///
/// | at | size | field         | meaning                                                     |
/// |---:|-----:|---------------|-------------------------------------------------------------|
/// |  0 |    8 | `position`    | counts the log's records                                    |
/// |  8 |    8 | `checkpoint`  | position of the checkpoint's start; zero in journal records |
/// | 16 |    8 | `start_epoch` | end only: the epoch of the zone its start lies in           |
/// | 24 |    8 | `parts`       | end only: how many parts it has                             |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogInfo {
    pub(crate) position: u64,
    pub(crate) checkpoint: u64,
    pub(crate) start_epoch: u64,
    pub(crate) parts: u64,
}

impl LogInfo {
    pub(crate) fn encode(&self) -> [u8; INFO_SIZE] {
        let mut info = [0; INFO_SIZE];
        let fields = [self.position, self.checkpoint, self.start_epoch, self.parts];
        for (bytes, field) in info.chunks_exact_mut(8).zip(fields) {
            bytes.copy_from_slice(&field.to_le_bytes());
        }
        info
    }

    pub(crate) fn decode(info: &[u8; INFO_SIZE]) -> Self {
        let (fields, _) = info.as_chunks::<8>();
        let field = |at: usize| fields.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        Self { position: field(0), checkpoint: field(1), start_epoch: field(2), parts: field(3) }
    }
}

/// Adds an entry to a journal record's payload: sequence number (8), length (4), bytes.
pub(crate) fn push_entry(payload: &mut Vec<u8>, sequence: u64, bytes: &[u8]) {
    payload.extend(sequence.to_le_bytes());
    payload.extend((bytes.len() as u32).to_le_bytes());
    payload.extend(bytes);
}

/// Bytes of an entry in a journal record, beside its own.
pub(crate) const ENTRY_HEAD: usize = 12;

/// Takes a journal record's payload apart; `None` if it makes no sense.
pub fn parse_journal(payload: &Bytes) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut at = 0;
    while at < payload.len() {
        let (sequence, rest) = payload.get(at..)?.split_first_chunk::<8>()?;
        let (length, _) = rest.split_first_chunk::<4>()?;
        let begin = at + ENTRY_HEAD;
        let end = begin.checked_add(u32::from_le_bytes(*length) as usize).filter(|&end| end <= payload.len())?;
        entries.push(Entry { sequence: u64::from_le_bytes(*sequence), bytes: payload.slice(begin..end) });
        at = end;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_payloads_have_golden_bytes_and_come_back() {
        let mut payload = Vec::new();
        push_entry(&mut payload, 0x0102, b"ab");
        push_entry(&mut payload, 3, b"");
        let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "02010000000000000200000061620300000000000000000000 00".replace(' ', ""));
        let payload = Bytes::from(payload);
        let entries = parse_journal(&payload).unwrap();
        assert_eq!(
            entries.iter().map(|entry| (entry.sequence, &entry.bytes[..])).collect::<Vec<_>>(),
            [(0x0102, &b"ab"[..]), (3, b"")]
        );
        for cut in (1..payload.len()).filter(|&cut| cut != 14) {
            assert_eq!(parse_journal(&payload.slice(..cut)), None, "cut at {cut}");
        }
    }

    #[test]
    fn log_info_comes_back() {
        let info = LogInfo { position: 1, checkpoint: 2, start_epoch: 3, parts: 4 };
        assert_eq!(LogInfo::decode(&info.encode()), info);
    }
}
