//! SMRstore's experiments: the chunk store beside file systems on one drive.

pub(super) mod access_pattern;
mod by_length;
pub(super) mod memory;
pub(super) mod micro_read;
pub(super) mod micro_write;
mod micro_write_hosts;
pub(super) mod multistream;
mod multistream_case;
pub(super) mod placement;
pub(super) mod recovery;
pub(super) mod space;
pub(super) mod zone_utilisation;
