//! Index backups: the index's records, in pieces, in chunks of the metadata stream.
//!
//! A backup is a file of its own. All its chunks but the last hold pieces; the last holds one piece without records,
//! the trailer: a backup that has none was cut short and is not used.

use bytes::BufMut;
use shingle_base::crc32c;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::wire::{Input, Malformed};

const MAGIC: [u8; 4] = *b"SHOB";
const VERSION: u8 = 1;
const PIECE: u8 = 0;
const TRAILER: u8 = 1;

/// Bytes in a piece's header.
pub(crate) const PIECE_HEADER_SIZE: usize = 40;

/// Header of a piece. Little-endian.
///
/// | at | size | field     | meaning                                            |
/// |---:|-----:|-----------|----------------------------------------------------|
/// |  0 |    4 | `magic`   | `SHOB`                                             |
/// |  4 |    1 | `format`  | format version, 1                                  |
/// |  5 |    1 | `kind`    | 0 records, 1 trailer                               |
/// |  6 |    2 |           | zero                                               |
/// |  8 |    8 | `file`    | own file number                                    |
/// | 16 |    4 | `set`     | own store set                                      |
/// | 20 |    4 | `number`  | piece number, from 0; in the trailer: how many     |
/// | 24 |    4 | `records` | records in the piece                               |
/// | 28 |    4 | `length`  | bytes of records                                   |
/// | 32 |    4 | `data_crc`| CRC-32C of the records                             |
/// | 36 |    4 | `crc`     | CRC-32C of bytes 0..36                             |
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PieceHeader {
    magic: [u8; 4],
    format: u8,
    kind: u8,
    reserved: [u8; 2],
    file: U64,
    set: U32,
    number: U32,
    records: U32,
    length: U32,
    data_crc: U32,
    crc: U32,
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<PieceHeader>() == PIECE_HEADER_SIZE);
    assert!(offset_of!(PieceHeader, file) == 8);
    assert!(offset_of!(PieceHeader, number) == 20);
    assert!(offset_of!(PieceHeader, data_crc) == 32);
    assert!(offset_of!(PieceHeader, crc) == 36);
};

/// A piece of records, or the trailer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) file: u64,
    pub(crate) set: u32,
    pub(crate) number: u32,
    pub(crate) records: u32,
    pub(crate) length: u32,
    pub(crate) data_crc: u32,
}

/// The end of a backup: how many pieces came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) pieces: u32,
}

impl Piece {
    /// The piece's header and `data`, its records.
    pub(crate) fn encode(file: u64, set: u32, number: u32, records: u32, data: &[u8]) -> Vec<u8> {
        Self { file, set, number, records, length: data.len() as u32, data_crc: crc32c(data) }.encode_as(PIECE, data)
    }

    /// The trailer after `pieces` pieces.
    pub(crate) fn encode_trailer(file: u64, set: u32, pieces: u32) -> Vec<u8> {
        Self { file, set, number: pieces, records: 0, length: 0, data_crc: crc32c(&[]) }.encode_as(TRAILER, &[])
    }

    fn encode_as(self, kind: u8, data: &[u8]) -> Vec<u8> {
        let mut header = PieceHeader {
            magic: MAGIC,
            format: VERSION,
            kind,
            reserved: [0; 2],
            file: self.file.into(),
            set: self.set.into(),
            number: self.number.into(),
            records: self.records.into(),
            length: self.length.into(),
            data_crc: self.data_crc.into(),
            crc: 0.into(),
        };
        header.crc = crc32c(&header.as_bytes()[..PIECE_HEADER_SIZE - 4]).into();
        let mut out = header.as_bytes().to_vec();
        out.extend_from_slice(data);
        out
    }
}

/// Reads a piece's header, written for backup `file` of `set`: a piece with its number, or the trailer.
pub(crate) fn decode_piece_header(bytes: &[u8], file: u64, set: u32) -> Result<Result<Piece, Trailer>, Malformed> {
    let (raw, _) = PieceHeader::ref_from_prefix(bytes).map_err(|_| Malformed("backup piece: cut short"))?;
    if raw.magic != MAGIC || raw.crc.get() != crc32c(&raw.as_bytes()[..PIECE_HEADER_SIZE - 4]) {
        return Err(Malformed("backup piece: checksum"));
    }
    if raw.format != VERSION {
        return Err(Malformed("backup piece: a format version this program does not know"));
    }
    if raw.file.get() != file || raw.set.get() != set {
        return Err(Malformed("backup piece: written for another place"));
    }
    match raw.kind {
        PIECE => Ok(Ok(Piece {
            file,
            set,
            number: raw.number.get(),
            records: raw.records.get(),
            length: raw.length.get(),
            data_crc: raw.data_crc.get(),
        })),
        TRAILER => Ok(Err(Trailer { pieces: raw.number.get() })),
        _ => Err(Malformed("backup piece: kind")),
    }
}

/// Adds one index record to a piece's data.
pub(crate) fn put_record(out: &mut Vec<u8>, space: u8, key: &[u8], value: &[u8]) {
    out.put_u8(space);
    out.put_u32_le(key.len() as u32);
    out.put_u32_le(value.len() as u32);
    out.put_slice(key);
    out.put_slice(value);
}

/// A record of a backup: keyspace, key, value.
pub(crate) type BackupRecord<'a> = (u8, &'a [u8], &'a [u8]);

/// The records of `piece`, whose data is `data`.
pub(crate) fn decode_records<'a>(piece: &Piece, data: &'a [u8]) -> Result<Vec<BackupRecord<'a>>, Malformed> {
    if data.len() != piece.length as usize || crc32c(data) != piece.data_crc {
        return Err(Malformed("backup piece: records' checksum"));
    }
    let mut input = Input::new(data);
    let mut records = Vec::new();
    for _ in 0..piece.records {
        let space = input.u8("backup record")?;
        let (key, value) = (input.u32("backup record")? as usize, input.u32("backup record")? as usize);
        records.push((space, input.take(key, "backup record")?, input.take(value, "backup record")?));
    }
    input.end("backup piece: end")?;
    Ok(records)
}

/// Reads a whole piece, or the trailer, of backup `file` of `set`, and says how many records it holds.
///
/// # Errors
/// `Malformed` if it is none of this version, was written for another place, or fails a checksum.
pub fn read_backup_piece(bytes: &[u8], file: u64, set: u32) -> Result<usize, Malformed> {
    match decode_piece_header(bytes, file, set)? {
        Ok(piece) => {
            let data = bytes.get(PIECE_HEADER_SIZE..).ok_or(Malformed("backup piece: cut short"))?;
            decode_records(&piece, data).map(|records| records.len())
        }
        Err(_) => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &str = "53484f420100000009000000000000000700000002000000020000001a000000887c299541246fe70303000000050000006b6579\
        76616c7565040000000000000000";

    fn sample() -> Vec<u8> {
        let mut data = Vec::new();
        put_record(&mut data, 3, b"key", b"value");
        put_record(&mut data, 4, b"", b"");
        Piece::encode(9, 7, 2, 2, &data)
    }

    #[test]
    fn pieces_keep_their_golden_bytes() {
        let hex: String = sample().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, GOLDEN);
    }

    #[test]
    fn a_changed_byte_in_a_piece_is_noticed() {
        let good = sample();
        let read = |bytes: &[u8]| read_backup_piece(bytes, 9, 7);
        assert_eq!(read(&good), Ok(2));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(read(&bad).is_err(), "byte {at}");
            assert!(read(&good[..at]).is_err(), "cut at {at}");
        }
        assert!(decode_piece_header(&good, 8, 7).is_err() && decode_piece_header(&good, 9, 6).is_err());
        let trailer = Piece::encode_trailer(9, 7, 5);
        assert_eq!(decode_piece_header(&trailer, 9, 7), Ok(Err(Trailer { pieces: 5 })));
    }
}
