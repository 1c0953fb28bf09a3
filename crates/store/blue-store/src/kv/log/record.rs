//! Records of logs and tables: a head, and changes.

use bytes::Bytes;
use shingle_base::Crc;
use shingle_base::wire::Fields;
use shingle_record::number::{put, put_bytes, take, take_bytes};

use super::super::{Change, KvError, KvErrorKind};

/// Bytes of a record's head.
pub(super) const HEAD: usize = 16;

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

/// Bytes that the change of a key with a value has in a record.
pub(super) fn put_bytes_of(key: &[u8], value: &[u8]) -> u64 {
    // Lengths have seven bits a byte.
    let field =
        |bytes: &[u8]| u64::from((usize::BITS - bytes.len().leading_zeros()).max(1).div_ceil(7)) + bytes.len() as u64;
    1 + field(key) + field(value)
}

/// Bytes on the drive of some that are written by themselves.
pub(super) fn on_drive(bytes: u64) -> u64 {
    if bytes == 0 { 0 } else { shingle_record::sliced_record_blocks(bytes).bytes() }
}

/// A record's bytes. `None` if there are more than its head can tell.
pub(super) fn frame(number: u64, changes: &[Change]) -> Option<Vec<u8>> {
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
    let length = u32::try_from(bytes.len() - HEAD).ok()?;
    let crc = Crc::new().update(&number.to_le_bytes()).update(&bytes[HEAD..]).value();
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    Some(bytes)
}

/// Refuses changes that have no record.
pub(super) fn too_long() -> KvError {
    KvError::new(
        KvErrorKind::Unavailable,
        "a batch has more bytes than a record of the log: nothing of it has happened",
    )
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
    read(bytes).is_ok_and(|record| frame(record.number, &record.changes).is_some_and(|again| bytes.starts_with(&again)))
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
        let bytes = frame(7, &changes).unwrap();
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

    /// BLU-META-2: what a writer can make is read, however long it is. A cut may leave the beginning of such a record.
    #[test]
    fn a_long_record_that_is_not_whole_is_torn_and_not_damaged() {
        for length in [1, 200 << 20, 300 << 20, u32::MAX] {
            let mut bytes = frame(7, &[]).unwrap();
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            assert_eq!(read(&bytes), Err(Fault::Torn), "{length}");
        }
    }

    /// BLU-LOG-5: tables are as long as they are thought to be.
    #[test]
    fn the_bytes_of_a_key_are_those_of_its_record() {
        for (key, value) in [(0, 0), (1, 127), (127, 128), (128, 1), (300, 16_383), (5, 16_384), (16_384, 3_000_000)] {
            let (key, value) = (Bytes::from(vec![1; key]), Bytes::from(vec![2; value]));
            let bytes = put_bytes_of(&key, &value);
            assert_eq!(frame(1, &[Change::Put(key, value)]).unwrap().len() as u64, HEAD as u64 + bytes);
        }
    }

    /// The bytes are part of the format.
    #[test]
    fn golden_bytes() {
        let bytes = frame(3, &[Change::Delete(Bytes::from_static(b"k"))]).unwrap();
        assert_eq!(bytes[..4], [3, 0, 0, 0]);
        assert_eq!(bytes[8..], [3, 0, 0, 0, 0, 0, 0, 0, 2, 1, b'k']);
    }
}
