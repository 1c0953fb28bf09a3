//! Checkpoint and journal, taken apart: operations by number, and the zones in use.

use std::collections::BTreeMap;

use shingle_base::ZoneId;
use shingle_record::Recovered;

use crate::drive::Drive;
use crate::error::{FilesError, FilesResult};
use crate::extent::Extent;
use crate::format::{Op, decode};
use crate::tree::Tree;
use crate::write::{LOGS, STREAMS};

/// A zone in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) epoch: u64,
    pub(super) stream: u8,
    /// Of logs: records before this block are in the checkpoint.
    pub(super) covered: u32,
    /// Of logs: nothing behind this block counts, and all before it was durable.
    pub(super) end: Option<u32>,
}

impl Known {
    pub(super) fn is_of_logs(&self) -> bool {
        usize::from(self.stream) == LOGS
    }
}

/// Contents of checkpoint and journal.
pub(super) struct Loaded {
    /// Names and files as the checkpoint has them.
    pub(super) tree: Tree,
    /// Zones as they were in the end.
    pub(super) zones: BTreeMap<ZoneId, Known>,
    /// Groups of operations since the checkpoint, with their numbers.
    pub(super) groups: Vec<(u64, Vec<Op>)>,
    /// The highest number that was found.
    pub(super) last: u64,
}

/// Takes checkpoint and journal apart.
pub(super) fn load(recovered: Recovered, drive: &Drive) -> FilesResult<Loaded> {
    let mut loaded =
        Loaded { tree: Tree::default(), zones: BTreeMap::new(), groups: Vec::new(), last: recovered.sequence };
    for part in recovered.parts {
        for op in sensible(&part, drive).ok_or_else(|| FilesError::senseless("checkpoint part"))? {
            loaded.note_zone(&op);
            loaded.note_number(&op);
            loaded.tree.apply(&op).map_err(|_| FilesError::senseless("checkpoint part"))?;
        }
    }
    for entry in recovered.journal {
        let ops = sensible(&entry.bytes, drive).ok_or_else(|| FilesError::senseless("journal entry"))?;
        for op in &ops {
            loaded.note_zone(op);
            loaded.note_number(op);
        }
        loaded.last = loaded.last.max(entry.sequence);
        loaded.groups.push((entry.sequence, ops));
    }
    Ok(loaded)
}

fn sensible(bytes: &[u8], drive: &Drive) -> Option<Vec<Op>> {
    decode(bytes).filter(|ops| ops.iter().all(|op| makes_sense(op, drive)))
}

fn makes_sense(op: &Op, drive: &Drive) -> bool {
    let (layout, end) = (&drive.layout, 1 << 62);
    let inside = |extent: &Extent| {
        extent.makes_sense(layout.zone_blocks)
            && (extent.is_lost() || (layout.is_data(extent.zone) && extent.record <= layout.record_bytes))
    };
    match op {
        Op::MakeDir { serial, .. } | Op::Create { serial, .. } => *serial < end,
        Op::Place { extents, .. } => extents.iter().all(inside),
        Op::Truncate { size, .. } => *size < end,
        Op::Open { zone, epoch, stream } => layout.is_data(*zone) && *stream < STREAMS && *epoch < end,
        Op::Covered { zone, block, .. } | Op::Closed { zone, block, .. } => {
            layout.is_data(*zone) && *block <= layout.zone_blocks
        }
        Op::Reset { zone, .. } => layout.is_data(*zone),
        _ => true,
    }
}

impl Loaded {
    fn note_zone(&mut self, op: &Op) {
        match *op {
            Op::Open { zone, epoch, stream } => {
                let opened = Known { epoch, stream, covered: 0, end: None };
                let known = self.zones.entry(zone).or_insert(opened);
                if known.epoch < epoch {
                    *known = opened;
                }
            }
            Op::Covered { zone, epoch, block } => {
                if let Some(known) = self.zones.get_mut(&zone).filter(|known| known.epoch == epoch) {
                    known.covered = block;
                }
            }
            Op::Closed { zone, epoch, block } => {
                if let Some(known) = self.zones.get_mut(&zone).filter(|known| known.epoch == epoch) {
                    known.end = Some(block);
                }
            }
            Op::Reset { zone, epoch } if self.zones.get(&zone).is_some_and(|known| known.epoch <= epoch) => {
                self.zones.remove(&zone);
            }
            _ => {}
        }
    }

    /// Numbers are never used twice.
    fn note_number(&mut self, op: &Op) {
        let number = match op {
            Op::MakeDir { serial, .. } | Op::Create { serial, .. } => *serial,
            Op::Open { epoch, .. } => *epoch,
            _ => 0,
        };
        self.last = self.last.max(number);
    }
}
