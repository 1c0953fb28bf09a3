//! The frame of every record: a [header](Header), a payload, zeros up to the next block.
//!
//! **Owns** plain records, and the choice between plain and sliced payloads. **Knows nothing of** the types of records.

use bytes::Bytes;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, crc32c};

use crate::header::{Expect, Form, FrameError, HEADER_SIZE, Header, INFO_SIZE, MAGIC, RecordPlace, RecordType};
use crate::pair::{SIDE_SIZE, pair_blocks, verify_pair};
use crate::slices::{sliced_record_blocks, verify_sliced};

impl Header {
    /// Blocks of the whole record.
    pub fn blocks(&self) -> Blocks {
        let length = u64::from(self.length);
        match self.form {
            Form::Plain => record_blocks(length),
            Form::Sliced => sliced_record_blocks(length),
            Form::Paired => pair_blocks(length),
        }
    }

    /// Checks the payload of a whole record, header included in `record`.
    ///
    /// # Errors
    /// [`FrameError::BadPayload`]; [`FrameError::NotARecord`] if `record` is too short.
    pub fn verify_payload(&self, record: &[u8]) -> Result<(), FrameError> {
        match self.form {
            Form::Plain => {}
            Form::Sliced => return verify_sliced(record, self),
            Form::Paired => return verify_pair(record, self),
        }
        let payload = record.get(HEADER_SIZE..HEADER_SIZE + self.length as usize).ok_or(FrameError::NotARecord)?;
        if crc32c(payload) == self.payload_crc { Ok(()) } else { Err(FrameError::BadPayload) }
    }
}

/// Blocks of a plain record with `length` bytes of payload.
pub fn record_blocks(length: u64) -> Blocks {
    Blocks::holding(HEADER_SIZE as u64 + length)
}

/// Frames a plain record; `payload` is its pieces, one after the other.
pub fn frame(kind: RecordType, place: &RecordPlace, sequence: u64, info: [u8; INFO_SIZE], payload: &[&[u8]]) -> Bytes {
    let length: usize = payload.iter().map(|piece| piece.len()).sum();
    let mut buffer = AlignedBuf::zeroed(record_blocks(length as u64));
    let mut at = HEADER_SIZE;
    for piece in payload {
        buffer[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    let payload_crc = crc32c(&buffer[HEADER_SIZE..at]);
    let header = Header { kind, form: Form::Plain, length: length as u32, place: *place, sequence, info, payload_crc };
    buffer[..HEADER_SIZE].copy_from_slice(&header.encode());
    buffer.freeze()
}

/// Bytes of a written piece that a metadata-only device keeps: the header of a sliced record, header and names of a pair, none of a
/// [hollow](crate::frame_hollow) one's zeros, and all of anything else.
pub fn keep_metadata(piece: &[u8]) -> usize {
    if piece.starts_with(&[0; MAGIC.len()]) {
        return 0;
    }
    match Header::decode(piece, &Expect::default()) {
        Ok(Header { form: Form::Sliced, .. }) => HEADER_SIZE,
        // Most pairs have few names, and zeros behind them.
        Ok(Header { form: Form::Paired, .. }) => trimmed(&piece[..SIDE_SIZE.min(piece.len())]),
        Ok(Header { form: Form::Plain, .. }) | Err(_) => piece.len(),
    }
}

/// Length without the zeros at the end.
fn trimmed(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

/// As [`keep_metadata`], but keeps whole records that were framed with their payload: for stores whose data is hollow
/// while sliced records hold metadata, too.
pub fn keep_unless_hollow(piece: &[u8]) -> usize {
    // The header of a hollow record comes as a piece of its own.
    if piece.len() == BLOCK_SIZE || piece.starts_with(&[0; MAGIC.len()]) { keep_metadata(piece) } else { piece.len() }
}

#[cfg(test)]
mod tests {
    use shingle_base::{StoreId, ZoneId};

    use super::*;

    const PLACE: RecordPlace =
        RecordPlace { store: StoreId(0x1122_3344_5566_7788), epoch: 9, zone: ZoneId(3), block: 5 };

    fn sample() -> Bytes {
        frame(RecordType(0x0102), &PLACE, 77, [0xAB; INFO_SIZE], &[b"pay", b"load"])
    }

    #[test]
    fn a_record_has_its_golden_bytes() {
        let record = sample();
        assert_eq!(record.len(), 4096);
        let hex: String = record[..HEADER_SIZE + 7].iter().map(|byte| format!("{byte:02x}")).collect();
        let golden = concat!(
            "5348475245433031",
            "0201",
            "0000",
            "07000000",
            "8877665544332211",
            "0900000000000000",
            "4d00000000000000",
            "03000000",
            "05000000",
            "abababababababababababababababababababababababababababababababab",
        );
        assert!(hex.starts_with(golden), "{hex}");
        assert!(hex.ends_with("7061796c6f6164"), "{hex}");
        assert!(record[HEADER_SIZE + 7..].iter().all(|&byte| byte == 0));
    }

    /// RC-FRAME-2.
    #[test]
    fn a_header_comes_back_and_every_expectation_is_checked() {
        let record = sample();
        let header = Header::decode(&record, &Expect::place(&PLACE)).unwrap();
        assert_eq!((header.kind, header.length, header.sequence), (RecordType(0x0102), 7, 77));
        assert_eq!(header.blocks(), Blocks(1));
        header.verify_payload(&record).unwrap();
        let wrong = |expect: Expect| Header::decode(&record, &expect).unwrap_err();
        assert_eq!(wrong(Expect { store: Some(StoreId(1)), ..Expect::default() }), FrameError::WrongStore(PLACE.store));
        assert_eq!(wrong(Expect { epoch: Some(8), ..Expect::default() }), FrameError::WrongEpoch(9));
        let elsewhere = Expect { at: Some((ZoneId(3), 6)), ..Expect::default() };
        assert_eq!(wrong(elsewhere), FrameError::WrongPlace(ZoneId(3), 5));
        let newer = [b"SHGREC02", &record[8..]].concat();
        assert_eq!(Header::decode(&newer, &Expect::default()), Err(FrameError::NewerVersion(*b"02")));
    }

    /// RC-FRAME-1.
    #[test]
    fn every_flipped_bit_of_header_and_payload_is_noticed() {
        let record = sample();
        for bit in 0..(HEADER_SIZE + 7) * 8 {
            let mut bytes = record.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let seen = Header::decode(&bytes, &Expect::default()).and_then(|header| header.verify_payload(&bytes));
            assert!(seen.is_err(), "bit {bit}");
        }
    }

    #[test]
    fn short_input_is_no_record() {
        let record = sample();
        for length in 0..HEADER_SIZE {
            assert_eq!(Header::decode(&record[..length], &Expect::default()), Err(FrameError::NotARecord));
        }
    }
}
