//! Records on zones, the base of all on-disk formats.
//!
//! **Owns** framing, slices, pairs, zone heads, scanning, superblock and metadata log.
//! **Knows nothing of** chunks' placement, indexes or cleaning: engines decide these.

mod damaged;
mod frame;
mod header;
mod identity;
mod meta_log;
pub mod number;
mod pair;
mod reading;
mod scan;
mod sequence;
mod slices;
mod superblock;
mod superblock_copies;
mod zone_head;

pub use frame::{frame, keep_metadata, keep_unless_hollow, record_blocks};
pub use header::{Expect, Form, FrameError, HEADER_SIZE, Header, INFO_SIZE, RecordPlace, RecordType};
pub use identity::{EngineName, InUse, NotOwned, Owned, check_unused, read_owner};
pub use meta_log::{
    CheckpointWriter, Entry, LogRecord, META_ZONES_MIN, MetaLog, MetaLogConfig, MetaLogError, Recovered, dump, parse,
    parse_journal, room_for_checkpoint,
};
pub use pair::{
    CHECK_SIZE, JudgedPair, NAMES_MAX, Name, NameKind, NextZone, Numbering, PAIR_SLICES_MAX, Pair, PairFramer,
    PairPlan, PairSliceError, SIDE_SIZE, check_slice, frame_hollow_pair, judge_pair, pair_blocks, slice_tag,
};
pub use scan::{Scanned, ZoneScanner, read_block};
pub use sequence::SequenceSource;
pub use slices::{
    DataInfo, FOOTER_SIZE, SLICE_SIZE, SliceError, SliceFault, SlicePlan, SlicedFramer, extract, frame_hollow,
    frame_sliced, slice_place, sliced_capacity, sliced_payload_len, sliced_record_blocks, slices,
};
pub use superblock::{
    FoundSuperblock, SUPERBLOCK, SUPERBLOCK_PAYLOAD_MAX, Superblock, SuperblockError, SuperblockPlace, find_superblock,
    read_superblock, read_superblock_copies, write_superblock, write_superblock_pair, write_superblock_zone,
};
pub use superblock_copies::SuperblockCopies;
pub use zone_head::{ZONE_HEAD, ZoneHead, frame_zone_head, read_zone_head};
