//! Payloads of log records. See `docs/formats/meta-log.md`.

use bytes::Bytes;
use shingle_base::wire::{COUNTER_END, Fields};
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, ZoneId};
use shingle_runtime::UnixTime;

use crate::frame::frame;
use crate::header::{INFO_SIZE, RecordPlace, RecordType};
use crate::meta_log::opening::Entry;
use crate::zone_head::ZONE_HEAD;

/// Journal entries, several in one record.
pub(crate) const JOURNAL: RecordType = RecordType(16);
/// The start of a checkpoint.
pub(crate) const START: RecordType = RecordType(17);
/// A part of a checkpoint, or a piece of one.
pub(crate) const PART: RecordType = RecordType(18);
/// The end of a complete checkpoint.
pub(crate) const END: RecordType = RecordType(19);
/// The last record of a zone: names the zone in which the log goes on. It has no position of its own, but that of the
/// record before it.
pub(crate) const LINK: RecordType = RecordType(20);

/// The most blocks of records in one write, the zone's head included.
pub(crate) const WRITE_BLOCKS_MAX: u32 = 513;

/// Blocks of the write that links a zone to the next: the record and its parity. Every zone keeps room for it.
pub(crate) const LINK_BLOCKS: u32 = 2;

/// A log record's `info`. A zone's head has `first`, `blocks` at the same places, and [`head_position`] behind them.
///
/// | at | size | field        | meaning                                                           |
/// |---:|-----:|--------------|-------------------------------------------------------------------|
/// |  0 |    8 | `position`   | counts the log's records                                          |
/// |  8 |    8 | `checkpoint` | position of the checkpoint's start; zero in journal records       |
/// | 16 |    4 | `first`      | the block at which the record's write begins                      |
/// | 20 |    4 | `blocks`     | blocks of that write, without the parity block behind them        |
/// | 24 |    1 | `more`       | parts only: 1 if the next part record goes on with the same part  |
/// | 25 |    7 |              | zero                                                              |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogInfo {
    pub(crate) position: u64,
    pub(crate) checkpoint: u64,
    pub(crate) first: u32,
    pub(crate) blocks: u32,
    pub(crate) more: bool,
}

impl LogInfo {
    pub(crate) fn encode(&self) -> [u8; INFO_SIZE] {
        let mut info = [0; INFO_SIZE];
        info[..8].copy_from_slice(&self.position.to_le_bytes());
        info[8..16].copy_from_slice(&self.checkpoint.to_le_bytes());
        info[16..20].copy_from_slice(&self.first.to_le_bytes());
        info[20..24].copy_from_slice(&self.blocks.to_le_bytes());
        info[24] = u8::from(self.more);
        info
    }

    pub(crate) fn decode(info: &[u8; INFO_SIZE]) -> Self {
        Self {
            position: number(info, 0),
            checkpoint: number(info, 8),
            first: number(info, 16) as u32,
            blocks: (number(info, 16) >> 32) as u32,
            more: info[24] != 0,
        }
    }
}

/// Eight bytes at `at`, which is at most 24.
fn number(info: &[u8; INFO_SIZE], at: usize) -> u64 {
    info.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The position of the first record of a zone, from its head's `info`.
pub(crate) fn head_position(info: &[u8; INFO_SIZE]) -> u64 {
    number(info, 24)
}

/// Frames a metazone's head, the first block of a write of `blocks`. Its `info` is kind (2 bytes), time (8), then at 16 the
/// write's first block (4, zero) and blocks (4), and the position of the zone's first record (8).
pub(crate) fn frame_log_head(place: &RecordPlace, kind: u16, opened: UnixTime, blocks: u32, position: u64) -> Bytes {
    let mut info = [0; INFO_SIZE];
    info[..2].copy_from_slice(&kind.to_le_bytes());
    info[2..10].copy_from_slice(&opened.nanos.to_le_bytes());
    info[20..24].copy_from_slice(&blocks.to_le_bytes());
    info[24..].copy_from_slice(&position.to_le_bytes());
    frame(ZONE_HEAD, place, place.epoch, info, &[])
}

/// Payload of a checkpoint's end: the epoch of the zone that its start lies in, and how many part records it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndMark {
    pub(crate) start_epoch: u64,
    pub(crate) parts: u64,
}

impl EndMark {
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.start_epoch.to_le_bytes(), self.parts.to_le_bytes()].concat()
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(payload);
        let end = Self { start_epoch: fields.u64()?, parts: fields.u64()? };
        fields.end().map(|()| end)
    }
}

/// Payload of a link: the next zone of the log, and the generation it begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) zone: ZoneId,
    pub(crate) epoch: u64,
}

impl Link {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = self.zone.0.to_le_bytes().to_vec();
        bytes.extend(self.epoch.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(payload);
        let link = Self { zone: ZoneId(fields.u32()?), epoch: fields.u64()? };
        fields.end().filter(|()| link.epoch < COUNTER_END).map(|()| link)
    }
}

/// Parity of a write: the exclusive or of its blocks and of a pad drawn from the place of the write. The exclusive or
/// of the parity and all blocks but one is the missing block.
///
/// Checksums are linear: the exclusive or of three records can pass for a record. Without the pad this would happen if
/// a power cut took a parity block, a parity block of the zone's former generation lies in its place, and the records
/// have the same places.
pub(crate) struct Parity(AlignedBuf);

impl Parity {
    /// Parity of no blocks, for the write that begins at `place`.
    pub(crate) fn of(place: &RecordPlace) -> Self {
        let mut sum = Self::unpadded();
        let mut state =
            place.store.0 ^ mixed(place.epoch ^ mixed(u64::from(place.zone.0) << 32 | u64::from(place.block)));
        for word in sum.0.as_chunks_mut::<8>().0 {
            state = state.wrapping_add(GOLDEN);
            *word = mixed(state).to_le_bytes();
        }
        sum
    }

    /// Parity without the pad, of a write whose generation is yet to be found out.
    pub(crate) fn unpadded() -> Self {
        Self(AlignedBuf::zeroed(Blocks(1)))
    }

    /// Adds blocks.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for block in bytes.chunks_exact(BLOCK_SIZE) {
            let (sum, _) = self.0.as_chunks_mut::<8>();
            for (sum, word) in sum.iter_mut().zip(block.as_chunks::<8>().0) {
                *sum = (u64::from_ne_bytes(*sum) ^ u64::from_ne_bytes(*word)).to_ne_bytes();
            }
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn block(self) -> Bytes {
        self.0.freeze()
    }
}

/// The step of SplitMix64, and its mixing of bits (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
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
        let sequence = Some(u64::from_le_bytes(*sequence)).filter(|&sequence| sequence < COUNTER_END)?;
        entries.push(Entry { sequence, bytes: payload.slice(begin..end) });
        at = end;
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{Expect, FrameError, Header};
    use shingle_base::StoreId;

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
    fn log_records_have_golden_info_and_come_back() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let info = LogInfo { position: 1, checkpoint: 0x0203, first: 4, blocks: 5, more: true };
        let golden = "0100000000000000 0302000000000000 04000000 05000000 0100000000000000";
        assert_eq!(hex(&info.encode()), golden.replace(' ', ""));
        assert_eq!(LogInfo::decode(&info.encode()), info);
        let end = EndMark { start_epoch: 6, parts: 7 };
        assert_eq!(hex(&end.encode()), "06000000000000000700000000000000");
        assert_eq!(EndMark::decode(&end.encode()), Some(end));
        let link = Link { zone: ZoneId(8), epoch: 9 };
        assert_eq!(hex(&link.encode()), "080000000900000000000000");
        assert_eq!(Link::decode(&link.encode()), Some(link));
        assert_eq!((Link::decode(&[0; 11]), EndMark::decode(&[0; 17])), (None, None));
    }

    /// Numbers that a store goes on from are never so large that it comes to an end.
    #[test]
    fn numbers_that_no_store_counts_to_are_refused() {
        for (number, good) in [(COUNTER_END - 1, true), (COUNTER_END, false), (u64::MAX, false)] {
            assert_eq!(Link::decode(&Link { zone: ZoneId(8), epoch: number }.encode()).is_some(), good);
            let mut payload = Vec::new();
            push_entry(&mut payload, number, b"ab");
            assert_eq!(parse_journal(&Bytes::from(payload)).is_some(), good);
            for (epoch, sequence) in [(number, 1), (1, number)] {
                let place = RecordPlace { store: StoreId(5), epoch, zone: ZoneId(7), block: 0 };
                let record = frame(LINK, &place, sequence, [0; INFO_SIZE], &[]);
                assert_eq!(Header::decode(&record, &Expect::default()).is_ok(), good, "{epoch}, {sequence}");
            }
        }
    }

    #[test]
    fn a_head_says_where_its_write_ends_and_which_record_is_the_zones_first() {
        let place = RecordPlace { store: StoreId(5), epoch: 42, zone: ZoneId(7), block: 0 };
        let head = frame_log_head(&place, 1, UnixTime { nanos: 2 }, 3, 99);
        let header = Header::decode(&head, &Expect::place(&place)).unwrap();
        let info = LogInfo::decode(&header.info);
        assert_eq!((header.kind, info.first, info.blocks, head_position(&header.info)), (ZONE_HEAD, 0, 3, 99));
    }

    #[test]
    fn parity_makes_up_for_any_one_block_and_never_passes_for_a_record() {
        let place = |block| RecordPlace { store: StoreId(5), epoch: 42, zone: ZoneId(7), block };
        // Of these three the plain exclusive or is a record with a good checksum at the parity's own place.
        let blocks: Vec<Bytes> =
            (4..7).map(|block| frame(JOURNAL, &place(block), 1, LogInfo::default().encode(), &[&[7; 40]])).collect();
        let whole: Vec<&Bytes> = blocks.iter().collect();
        let last = parity(Parity::of(&place(4)), &whole);
        assert_eq!(Header::decode(&last, &Expect::default()), Err(FrameError::NotARecord));
        let plain = parity(Parity::unpadded(), &whole);
        assert!(Header::decode(&plain, &Expect::place(&place(7))).is_ok(), "the case that the pad rules out");
        for lost in 0..3 {
            let mut others: Vec<&Bytes> = blocks.iter().collect();
            others[lost] = &last;
            assert_eq!(parity(Parity::of(&place(4)), &others), blocks[lost]);
        }
    }

    fn parity(mut sum: Parity, blocks: &[&Bytes]) -> Bytes {
        blocks.iter().for_each(|block| sum.add(block));
        sum.block()
    }

    /// A parity block left from a zone's former generation makes no record out of the blocks written over the rest.
    #[test]
    fn parity_of_a_former_generation_makes_no_record() {
        let generation = |epoch| {
            let place = move |block| RecordPlace { store: StoreId(5), epoch, zone: ZoneId(7), block };
            let record = move |block, position| {
                let info = LogInfo { position, first: 4, blocks: 2, ..LogInfo::default() };
                frame(JOURNAL, &place(block), position, info.encode(), &[&position.to_le_bytes()])
            };
            [record(4, epoch), record(5, epoch + 1)]
        };
        let (old, new) = (generation(16), generation(52));
        let place = |epoch, block| RecordPlace { store: StoreId(5), epoch, zone: ZoneId(7), block };
        let remade = |pad: fn(&RecordPlace) -> Parity| {
            let left = parity(pad(&place(16, 4)), &[&old[0], &old[1]]);
            parity(pad(&place(52, 4)), &[&new[0], &left])
        };
        let expected = Expect::place(&place(52, 5));
        let plain = Header::decode(&remade(|_| Parity::unpadded()), &expected).unwrap();
        assert_eq!(LogInfo::decode(&plain.info).position, 53, "the case that the pad rules out");
        assert_eq!(Header::decode(&remade(Parity::of), &expected), Err(FrameError::NotARecord));
    }

    #[test]
    fn the_pad_has_golden_bytes() {
        let place = RecordPlace { store: StoreId(0x0102_0304_0506_0708), epoch: 42, zone: ZoneId(7), block: 4 };
        let block = Parity::of(&place).block();
        let word = |at: usize| u64::from_le_bytes(block[at * 8..][..8].try_into().unwrap());
        let golden = [0x1BE8_D3CE_9BDD_6DCD, 0x2F9D_211D_A7D5_74CC, 0x4494_D999_57C1_05F2];
        assert_eq!([word(0), word(1), word(511)], golden);
    }
}
