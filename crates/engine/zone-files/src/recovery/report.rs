//! The findings of an opening.

use std::ops::Range;

use shingle_base::ZoneId;

use crate::error::{FilesError, FilesErrorKind, FilesResult};

/// The findings of an opening.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Blocks of superblocks and metadata log that were lost. Others stand for them; superblocks are made anew by an opening that writes,
    /// where their zone can be reset.
    pub mended: Vec<(ZoneId, u32)>,
    /// Entries of the journal that were gone through.
    pub entries: u64,
    /// Records of logs that were found behind the checkpoint.
    pub records: u64,
    /// Ends of logs that a power cut tore: zone, and the first block that does not count.
    pub torn: Vec<(ZoneId, u32)>,
    /// Records of logs that were durable and are damaged: zone, block, number of the file.
    pub damaged: Vec<(ZoneId, u32, u64)>,
    /// Blocks of which it cannot be told whether they were durable, or whose they are. Only an opening that accepts the loss has any.
    pub unknown: Vec<(ZoneId, Range<u32>)>,
    /// Bytes of files whose place is lost: number of the file, bytes.
    pub lost: Vec<(u64, u64)>,
    /// Some of the blocks could not be read.
    pub(super) unreadable: bool,
}

impl RecoveryReport {
    /// Fails if there is a loss that nobody has accepted.
    pub(super) fn refuse_unless(&self, accepted: bool) -> FilesResult<()> {
        let Some((zone, blocks)) = self.unknown.first().filter(|_| !accepted) else { return Ok(()) };
        let (kind, state) = match self.unreadable {
            true => (FilesErrorKind::Unavailable, "cannot be read"),
            false => (FilesErrorKind::Corrupt, "are damaged"),
        };
        let text = format!(
            "{zone}: blocks {} to {} of the logs {state}, and what they held is not known; if the drive does not recover, \
             accept the loss (`--accept-loss`): logs may then lack their ends",
            blocks.start,
            blocks.end.saturating_sub(1)
        );
        Err(FilesError::new(kind, text))
    }
}
