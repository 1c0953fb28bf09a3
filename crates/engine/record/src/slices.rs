//! Sliced payloads: any few KiB of a large record can be read and verified alone. (SMRstore, section 5.2.)
//!
//! The payload is cut into slices of 4,096 bytes (the last may be shorter), each followed by a footer of 8 bytes that
//! has the slice's offset in its chunk and a checksum that holds for this chunk alone. So a read of 4 KiB touches at most
//! two slices of a record, and needs nothing else of it. (The paper's footers spell the chunk's id out; decision 0021.)
//!
//! # Invariants
//! - RC-SLICE-1: a footer's checksum covers the slice's data, its offset and the chunk's id, so data of another chunk or
//!   offset does not pass for this one's.
//! - RC-SLICE-2: the header's payload checksum covers the footers, so that writing reads the data once: the header vouches
//!   for the footers, and each footer for its slice.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use shingle_base::{AlignedBuf, AlignedBuilder, BLOCK_SIZE, Blocks, BufferPool, ChunkId, crc32c};

use crate::header::{Form, FrameError, HEADER_SIZE, Header, INFO_SIZE, RecordPlace, RecordType};

/// Bytes of data in a slice.
pub const SLICE_SIZE: usize = 4096;

/// Bytes of a slice's footer.
///
/// | at | size | field    | meaning                                                                |
/// |---:|-----:|----------|------------------------------------------------------------------------|
/// |  0 |    4 | `offset` | offset of the slice's data in the chunk                                |
/// |  4 |    4 | `crc`    | CRC-32C of the slice's data and `offset`, xor CRC-32C of the chunk's id |
pub const FOOTER_SIZE: usize = 8;

const STRIDE: usize = SLICE_SIZE + FOOTER_SIZE;

/// Fields of a sliced record's `info`.
///
/// | at | size | field     | meaning                                                                             |
/// |---:|-----:|-----------|-------------------------------------------------------------------------------------|
/// |  0 |   24 | `chunk`   | the chunk                                                                           |
/// | 24 |    4 | `offset`  | where the record's data begins in it                                                |
/// | 28 |    4 | `durable` | the zone's blocks before this one were durable when the record was written; 0: unknown |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataInfo {
    /// The chunk.
    pub chunk: ChunkId,
    /// Offset of the record's data in its chunk.
    pub offset: u32,
    /// The zone's blocks before this one were durable when the record was written: a block of them that is missing now
    /// was lost since, not torn. 0 = unknown.
    pub durable: u32,
}

impl DataInfo {
    fn encode(&self) -> [u8; INFO_SIZE] {
        let mut info = [0; INFO_SIZE];
        info[..24].copy_from_slice(&self.chunk.0);
        info[24..28].copy_from_slice(&self.offset.to_le_bytes());
        info[28..].copy_from_slice(&self.durable.to_le_bytes());
        info
    }

    /// Reads a sliced record's `info`.
    pub fn decode(info: &[u8; INFO_SIZE]) -> Self {
        let mut chunk = [0; 24];
        chunk.copy_from_slice(&info[..24]);
        let [.., o0, o1, o2, o3, d0, d1, d2, d3] = *info;
        let number = u32::from_le_bytes;
        Self { chunk: ChunkId(chunk), offset: number([o0, o1, o2, o3]), durable: number([d0, d1, d2, d3]) }
    }
}

/// Bytes that `length` bytes of data take with their footers.
pub fn sliced_payload_len(length: u64) -> u64 {
    length + length.div_ceil(SLICE_SIZE as u64) * FOOTER_SIZE as u64
}

/// Place of slice `number` in a sliced record, with its footer; behind the data of the last one nothing is.
pub fn slice_place(number: u32) -> Range<usize> {
    let start = HEADER_SIZE + number as usize * STRIDE;
    start..start + STRIDE
}

/// Blocks of a sliced record with `length` bytes of data.
pub fn sliced_record_blocks(length: u64) -> Blocks {
    Blocks::holding(HEADER_SIZE as u64 + sliced_payload_len(length))
}

/// The most data that a sliced record of `blocks` holds.
pub fn sliced_capacity(blocks: Blocks) -> u64 {
    let payload = blocks.bytes().saturating_sub(HEADER_SIZE as u64);
    let (whole, rest) = (payload / STRIDE as u64, payload % STRIDE as u64);
    whole * SLICE_SIZE as u64 + rest.saturating_sub(FOOTER_SIZE as u64)
}

/// Frames a sliced record in a buffer of `pool`. Each byte of `data` is copied once and read once more, while it is in
/// the cache.
pub fn frame_sliced(
    kind: RecordType,
    place: &RecordPlace,
    sequence: u64,
    chunk: ChunkId,
    offset: u32,
    data: &[Bytes],
    pool: &BufferPool,
) -> Bytes {
    let length = data.iter().map(Bytes::len).sum();
    let mut framer = SlicedFramer::new(chunk, offset, length, pool);
    data.iter().for_each(|piece| framer.extend(piece));
    framer.finish(kind, place, sequence, pool)
}

/// Frames a sliced record whose data comes bit by bit.
pub struct SlicedFramer {
    buffer: AlignedBuilder,
    footers: Vec<u8>,
    chunk: ChunkId,
    /// The checksum of the chunk's id.
    owner: u32,
    offset: u32,
    durable: u32,
    length: usize,
    done: usize,
    /// Start of the slice that is being filled, in the buffer.
    slice_at: usize,
}

impl SlicedFramer {
    /// For a record of `length` bytes, in a buffer of `pool`.
    pub fn new(chunk: ChunkId, offset: u32, length: usize, pool: &BufferPool) -> Self {
        let mut buffer = pool.builder(sliced_record_blocks(length as u64));
        buffer.extend(&[0; HEADER_SIZE]);
        let footers = Vec::with_capacity(length.div_ceil(SLICE_SIZE) * FOOTER_SIZE);
        let owner = crc32c(&chunk.0);
        Self { buffer, footers, chunk, owner, offset, durable: 0, length, done: 0, slice_at: HEADER_SIZE }
    }

    /// Notes in the record that its zone was durable up to block `durable` when it was written.
    #[must_use]
    pub fn behind(self, durable: u32) -> Self {
        Self { durable, ..self }
    }

    /// The next bytes; all together, as many as were announced.
    pub fn extend(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let start = self.done / SLICE_SIZE * SLICE_SIZE;
            let end = self.length.min(start + SLICE_SIZE);
            let (now, rest) = bytes.split_at(bytes.len().min(end - self.done));
            assert!(!now.is_empty(), "a record gets more bytes than were announced");
            self.buffer.extend(now);
            self.done += now.len();
            bytes = rest;
            if self.done == end {
                self.end_slice((start, end));
            }
        }
    }

    fn end_slice(&mut self, (start, end): (usize, usize)) {
        self.buffer.extend(&(self.offset + start as u32).to_le_bytes());
        // Data and offset adjoin, so that one call covers both (RC-SLICE-1).
        let crc = crc32c(self.buffer.from(self.slice_at)) ^ self.owner;
        self.buffer.extend(&crc.to_le_bytes());
        self.footers.extend_from_slice(self.buffer.from(self.slice_at + end - start));
        self.slice_at = self.buffer.len();
    }

    /// The record.
    pub fn finish(mut self, kind: RecordType, place: &RecordPlace, sequence: u64, pool: &BufferPool) -> Bytes {
        assert!(self.done == self.length, "a record lacks bytes that were announced");
        let info = DataInfo { chunk: self.chunk, offset: self.offset, durable: self.durable }.encode();
        let header = Header {
            kind,
            form: Form::Sliced,
            length: self.length as u32,
            place: *place,
            sequence,
            info,
            payload_crc: crc32c(&self.footers),
        };
        self.buffer.set(0, &header.encode());
        pool.finish(self.buffer)
    }
}

/// Frames a sliced record of `length` bytes for a metadata-only device: the header as [`frame_sliced`] makes it, and
/// shared zeros in place of slices. So an experiment on a modelled drive spends no time on bytes that are never read.
pub fn frame_hollow(
    kind: RecordType,
    place: &RecordPlace,
    sequence: u64,
    chunk: ChunkId,
    offset: u32,
    length: u32,
) -> Vec<Bytes> {
    let info = DataInfo { chunk, offset, durable: 0 }.encode();
    let header = Header { kind, form: Form::Sliced, length, place: *place, sequence, info, payload_crc: 0 };
    let mut first = AlignedBuf::zeroed(Blocks(1));
    first[..HEADER_SIZE].copy_from_slice(&header.encode());
    let mut pieces = vec![first.freeze()];
    pieces.extend(hollow(sliced_record_blocks(u64::from(length)) - Blocks(1)));
    pieces
}

/// So many blocks of shared zeros.
pub(crate) fn hollow(mut blocks: Blocks) -> impl Iterator<Item = Bytes> {
    thread_local! {
        static ZEROS: Bytes = AlignedBuf::zeroed(HOLLOW_PIECE).freeze();
    }
    std::iter::from_fn(move || {
        let piece = blocks.min(HOLLOW_PIECE);
        blocks -= piece;
        (piece > Blocks::ZERO).then(|| ZEROS.with(|zeros| zeros.slice(..piece.bytes() as usize)))
    })
}

/// The longest piece of zeros in a hollow record.
const HOLLOW_PIECE: Blocks = Blocks(1024);

/// A slice that cannot be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceError {
    /// The slice's offset in the chunk.
    pub offset: u32,
    /// The fault found.
    pub fault: SliceFault,
}

/// Fault of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceFault {
    /// Its checksum does not hold: it is damaged, or of another chunk.
    Checksum,
    /// It is a good slice of another place in the chunk.
    WrongOffset(u32),
    /// Its bytes end too early.
    Short,
}

impl fmt::Display for SliceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.offset;
        match self.fault {
            SliceFault::Checksum => {
                write!(f, "the slice at offset {offset} fails its checksum: it is damaged, or another chunk's")
            }
            SliceFault::WrongOffset(other) => write!(f, "the slice at offset {offset} belongs to offset {other}"),
            SliceFault::Short => write!(f, "the slice at offset {offset} is cut short"),
        }
    }
}

impl std::error::Error for SliceError {}

/// Blocks of a record that hold a range of its data, with the footers that vouch for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlicePlan {
    record_length: u32,
    from: u32,
    length: u32,
    first_block: u64,
    blocks: u64,
}

impl SlicePlan {
    /// A plan for `length` bytes from `from` bytes into the data of a record that has `record_length` bytes of it. The
    /// range is cut to the record's.
    pub fn new(record_length: u32, from: u32, length: u32) -> Self {
        let from = from.min(record_length);
        let length = length.min(record_length - from);
        if length == 0 {
            return Self { record_length, from, length, first_block: 0, blocks: 0 };
        }
        let first = from as usize / SLICE_SIZE;
        let last = (from as usize + length as usize - 1) / SLICE_SIZE;
        let begin = HEADER_SIZE + first * STRIDE;
        let last_size = SLICE_SIZE.min(record_length as usize - last * SLICE_SIZE);
        let end = HEADER_SIZE + last * STRIDE + last_size + FOOTER_SIZE;
        let first_block = begin / BLOCK_SIZE;
        Self {
            record_length,
            from,
            length,
            first_block: first_block as u64,
            blocks: (end.div_ceil(BLOCK_SIZE) - first_block) as u64,
        }
    }

    /// Bytes of data in the range.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// The first block to read, from the record's start.
    pub fn first_block(&self) -> Blocks {
        Blocks(self.first_block)
    }

    /// Blocks to read.
    pub fn blocks(&self) -> Blocks {
        Blocks(self.blocks)
    }
}

/// Verifies every slice that `plan` touches and appends the wanted bytes to `out`. `raw` begins at the plan's first
/// block; the slices must belong to `chunk` and `record_offset`.
///
/// # Errors
/// The first slice that cannot be believed; `out` then holds the bytes before it.
pub fn extract(
    plan: &SlicePlan,
    raw: &[u8],
    chunk: ChunkId,
    record_offset: u32,
    out: &mut Vec<u8>,
) -> Result<(), SliceError> {
    slices(plan, raw, chunk, record_offset).try_for_each(|slice| slice.map(|bytes| out.extend_from_slice(bytes)))
}

/// The bytes that [`extract`] appends, slice by slice, each verified when its turn comes.
pub fn slices<'r>(
    plan: &SlicePlan,
    raw: &'r [u8],
    chunk: ChunkId,
    record_offset: u32,
) -> impl Iterator<Item = Result<&'r [u8], SliceError>> {
    let owner = crc32c(&chunk.0);
    let (from, to) = (plan.from as usize, plan.from as usize + plan.length as usize);
    let base = plan.first_block as usize * BLOCK_SIZE;
    let record_length = plan.record_length as usize;
    let end = if plan.length == 0 { from / SLICE_SIZE } else { to.div_ceil(SLICE_SIZE) };
    (from / SLICE_SIZE..end).map(move |slice| {
        let start = slice * SLICE_SIZE;
        let size = SLICE_SIZE.min(record_length - start);
        let offset = record_offset.wrapping_add(start as u32);
        let at = HEADER_SIZE + slice * STRIDE - base;
        let fault = |fault| SliceError { offset, fault };
        let bytes = raw.get(at..at + size + FOOTER_SIZE).ok_or(fault(SliceFault::Short))?;
        check(bytes, owner, offset).map_err(fault)?;
        Ok(&bytes[from.saturating_sub(start)..size.min(to - start)])
    })
}

/// Checks a slice with its footer; `owner` is the checksum of its chunk's id.
fn check(slice: &[u8], owner: u32, offset: u32) -> Result<(), SliceFault> {
    let Some((covered, crc)) = slice.split_last_chunk::<4>() else { return Err(SliceFault::Short) };
    if crc32c(covered) ^ owner != u32::from_le_bytes(*crc) {
        return Err(SliceFault::Checksum);
    }
    let Some((_, at)) = covered.split_last_chunk::<4>() else { return Err(SliceFault::Short) };
    let at = u32::from_le_bytes(*at);
    if at == offset { Ok(()) } else { Err(SliceFault::WrongOffset(at)) }
}

/// Checks every slice of a whole sliced record, and that its header vouches for the footers (RC-SLICE-2).
pub(crate) fn verify_sliced(record: &[u8], header: &Header) -> Result<(), FrameError> {
    let info = DataInfo::decode(&header.info);
    let owner = crc32c(&info.chunk.0);
    let length = header.length as usize;
    let mut footers = Vec::with_capacity(length.div_ceil(SLICE_SIZE).min(record.len() / SLICE_SIZE + 1) * FOOTER_SIZE);
    let mut start = 0;
    while start < length {
        let size = SLICE_SIZE.min(length - start);
        let at = HEADER_SIZE + start / SLICE_SIZE * STRIDE;
        let bytes = record.get(at..at + size + FOOTER_SIZE).ok_or(FrameError::NotARecord)?;
        let offset = info.offset.wrapping_add(start as u32);
        check(bytes, owner, offset).map_err(|_| FrameError::BadPayload)?;
        footers.extend_from_slice(&bytes[size..]);
        start += size;
    }
    if crc32c(&footers) == header.payload_crc { Ok(()) } else { Err(FrameError::BadPayload) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Expect;
    use shingle_base::{StoreId, ZoneId};

    const PLACE: RecordPlace = RecordPlace { store: StoreId(7), epoch: 9, zone: ZoneId(3), block: 5 };

    fn id() -> ChunkId {
        ChunkId(std::array::from_fn(|at| at as u8 + 1))
    }

    fn data(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 31 + at / 256) as u8).collect()
    }

    fn record(length: usize, offset: u32) -> Bytes {
        // In uneven pieces, as they come from a socket.
        let whole = Bytes::from(data(length));
        let pieces: Vec<Bytes> = (0..length).step_by(1500).map(|at| whole.slice(at..length.min(at + 1500))).collect();
        frame_sliced(RecordType(0x0101), &PLACE, 1, id(), offset, &pieces, &BufferPool::new(0))
    }

    #[test]
    fn a_small_record_has_its_golden_bytes() {
        let record = record(3, 0x1000);
        let hex: String = record[HEADER_SIZE..HEADER_SIZE + 11].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "001f3e0010000085b695da");
    }

    #[test]
    fn sizes_agree_with_each_other() {
        for length in (1..20_000).chain([1 << 20, (1 << 20) + 1]) {
            let blocks = sliced_record_blocks(length);
            assert!(sliced_capacity(blocks) >= length, "{length}");
            assert_eq!(sliced_record_blocks(sliced_capacity(blocks)), blocks, "{length}");
            assert!(sliced_record_blocks(sliced_capacity(blocks) + 1) > blocks, "{length}");
        }
        assert_eq!(sliced_capacity(Blocks(0)), 0);
    }

    #[test]
    fn every_range_of_a_record_is_read_from_the_planned_blocks_alone() {
        for length in [1usize, 4095, 4096, 4097, 10_000, 12_288] {
            let record = record(length, 500);
            let header = Header::decode(&record, &Expect::place(&PLACE)).unwrap();
            header.verify_payload(&record).unwrap();
            assert_eq!(DataInfo::decode(&header.info), DataInfo { chunk: id(), offset: 500, durable: 0 });
            assert_eq!(header.blocks().bytes(), record.len() as u64);
            for from in (0..length).step_by(97) {
                for size in [1, 2, 4096, length - from] {
                    let size = size.min(length - from);
                    let plan = SlicePlan::new(length as u32, from as u32, size as u32);
                    let begin = plan.first_block().bytes() as usize;
                    let raw = &record[begin..begin + plan.blocks().bytes() as usize];
                    let mut out = Vec::new();
                    extract(&plan, raw, id(), 500, &mut out).unwrap();
                    assert_eq!(out, data(length)[from..from + size], "{length} bytes: {from} + {size}");
                }
            }
        }
    }

    #[test]
    fn reading_4_kib_touches_at_most_two_slices() {
        for from in 0..(1 << 20) - 4096 {
            let plan = SlicePlan::new(1 << 20, from, 4096);
            assert!(plan.blocks() <= Blocks(3), "two slices of 4,104 bytes lie in three blocks");
        }
    }

    /// RC-SLICE-2: a footer is vouched for by the header, and a slice by its footer.
    #[test]
    fn every_flipped_bit_of_the_payload_is_noticed() {
        let record = record(5000, 0);
        let header = Header::decode(&record, &Expect::default()).unwrap();
        let plan = SlicePlan::new(5000, 0, 5000);
        for bit in (HEADER_SIZE * 8)..(HEADER_SIZE + sliced_payload_len(5000) as usize) * 8 {
            let mut bytes = record.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(header.verify_payload(&bytes), Err(FrameError::BadPayload), "bit {bit}");
            assert!(extract(&plan, &bytes, id(), 0, &mut Vec::new()).is_err(), "bit {bit}");
        }
    }

    /// RC-SLICE-1.
    #[test]
    fn data_of_another_chunk_or_place_is_not_taken() {
        let record = record(4096, 8192);
        let plan = SlicePlan::new(4096, 0, 4096);
        let fault = |chunk, offset| extract(&plan, &record, chunk, offset, &mut Vec::new()).unwrap_err().fault;
        assert_eq!(fault(ChunkId::from_u64(1), 8192), SliceFault::Checksum);
        assert_eq!(fault(id(), 4096), SliceFault::WrongOffset(8192));
        assert_eq!(extract(&plan, &record[..4096], id(), 8192, &mut Vec::new()).unwrap_err().fault, SliceFault::Short);
    }
}
