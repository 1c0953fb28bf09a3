//! Records of logs and tables: a head, and changes.

use bytes::Bytes;
use shingle_base::Crc;
use shingle_base::wire::Fields;
use shingle_record::number::{put, put_bytes, take, take_bytes};

use super::super::Change;

/// Bytes of a record's head.
pub(super) const HEAD: usize = 16;

/// Bytes of a record's changes at most.
pub(super) const PAYLOAD_MAX: usize = 256 << 20;

/// A record: its head, and then changes.
///
/// | at | size | field    | meaning                                                        |
/// |---:|-----:|----------|----------------------------------------------------------------|
/// |  0 |    4 | `length` | bytes of changes                                               |
/// |  4 |    4 | `crc`    | CRC-32C of `number` and the changes                            |
/// |  8 |    8 | `number` | one more than that of the record before it                     |
///
/// A change is its number in one byte and its fields, strings of bytes behind their lengths:
///
/// | number | change        | fields              |
/// |-------:|---------------|---------------------|
/// |      1 | `Put`         | key, value          |
/// |      2 | `Delete`      | key                 |
/// |      3 | `DeleteRange` | first key, end      |
/// |      4 | `Merge`       | key, operand        |
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) changes: Vec<Change>,
    /// Bytes of all of it.
    pub(super) bytes: usize,
}

/// Reason why there is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bytes end before it does.
    Torn,
    /// It was changed.
    Damaged,
}

/// A record's bytes.
pub(super) fn frame(number: u64, changes: &[Change]) -> Vec<u8> {
    let mut bytes = vec![0; HEAD];
    for change in changes {
        let (code, one, other) = match change {
            Change::Put(key, value) => (1, key, Some(value)),
            Change::Delete(key) => (2, key, None),
            Change::DeleteRange(from, to) => (3, from, Some(to)),
            Change::Merge(key, operand) => (4, key, Some(operand)),
        };
        put(&mut bytes, code);
        put_bytes(&mut bytes, one);
        if let Some(other) = other {
            put_bytes(&mut bytes, other);
        }
    }
    let length = (bytes.len() - HEAD) as u32;
    let crc = Crc::new().update(&number.to_le_bytes()).update(&bytes[HEAD..]).value();
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn take_change(fields: &mut Fields<'_>) -> Option<Change> {
    let code = take(fields)?;
    let mut next = || take_bytes(fields).map(Bytes::copy_from_slice);
    Some(match code {
        1 => Change::Put(next()?, next()?),
        2 => Change::Delete(next()?),
        3 => Change::DeleteRange(next()?, next()?),
        4 => Change::Merge(next()?, next()?),
        _ => return None,
    })
}

/// The first record of some bytes.
pub(super) fn read(bytes: &[u8]) -> Result<Record, Fault> {
    let mut fields = Fields::new(bytes);
    let head = (fields.u32(), fields.u32(), fields.u64());
    let (Some(length), Some(crc), Some(number)) = head else { return Err(Fault::Torn) };
    let length = length as usize;
    if length > PAYLOAD_MAX {
        return Err(Fault::Damaged);
    }
    let payload = fields.bytes(length).ok_or(Fault::Torn)?;
    if Crc::new().update(&number.to_le_bytes()).update(payload).value() != crc {
        return Err(Fault::Damaged);
    }
    let mut fields = Fields::new(payload);
    let mut changes = Vec::new();
    while !fields.rest().is_empty() {
        changes.push(take_change(&mut fields).ok_or(Fault::Damaged)?);
    }
    Ok(Record { number, changes, bytes: HEAD + length })
}

/// Says whether bytes begin with a record, for tests of parsers.
pub fn parse_record(bytes: &[u8]) -> bool {
    read(bytes).is_ok_and(|record| bytes.starts_with(&frame(record.number, &record.changes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_no_other_does() {
        let of = |text: &'static str| Bytes::from_static(text.as_bytes());
        let changes = vec![
            Change::Put(of("a"), of("value")),
            Change::Delete(of("b")),
            Change::DeleteRange(of("c"), of("d")),
            Change::Merge(of("e"), of("")),
        ];
        let bytes = frame(7, &changes);
        assert_eq!(read(&bytes), Ok(Record { number: 7, changes, bytes: bytes.len() }));
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), Err(Fault::Torn));
        }
        for at in 4..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert_eq!(read(&bad), Err(Fault::Damaged), "byte {at}");
        }
        assert!(parse_record(&bytes) && !parse_record(&[0xFF; 40]));
    }

    /// The bytes are part of the format.
    #[test]
    fn golden_bytes() {
        let bytes = frame(3, &[Change::Delete(Bytes::from_static(b"k"))]);
        assert_eq!(bytes[..4], [3, 0, 0, 0]);
        assert_eq!(bytes[8..], [3, 0, 0, 0, 0, 0, 0, 0, 2, 1, b'k']);
    }
}
