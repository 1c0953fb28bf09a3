//! Everything that the engine holds in memory, changed only between two awaits (RT-1).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use shingle_base::ZoneId;
use shingle_runtime::Instant;
use shingle_zone_kit::Losses;

use crate::config::FileKind;
use crate::error::{FilesError, FilesResult};
use crate::extent::Extent;
use crate::format::Op;
use crate::layout::Layout;
use crate::stats::Counters;
use crate::tree::Tree;
use crate::write::{COPIES, LOGS, Lanes};
use crate::zones::{Status, ZoneTable};

/// Bytes on their way to the drive.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) data: Vec<Bytes>,
}

/// A file in use: open, written, or with changes that are not durable yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Active {
    /// Handles.
    pub(crate) opens: u32,
    /// Bytes that are in no piece yet.
    pub(crate) buffer: Vec<Bytes>,
    pub(crate) buffered: u64,
    /// Bytes in pieces.
    pub(crate) pending: VecDeque<Pending>,
    /// Bytes that were ever appended since it is in use, those of them that are written, and those that a flush has covered.
    pub(crate) appended: u64,
    pub(crate) landed: u64,
    pub(crate) flushed: u64,
    /// Bytes that the journal knows.
    pub(crate) journaled: u64,
    /// The last journal entry that its bytes hang on.
    pub(crate) entry: u64,
    /// The lane of its pieces that are on their way.
    pub(crate) lane: Option<usize>,
    /// Expected size.
    pub(crate) expected: u64,
    /// Zones that failed with some of its bytes, which no flush had covered. (ZF-SYNC-3)
    pub(crate) losses: Losses,
    /// Names that it lost, and journal entries that say so are not durable yet.
    pub(crate) unlinking: u32,
}

impl Active {
    /// Bytes that are not written yet.
    pub(crate) fn waiting(&self) -> u64 {
        self.appended - self.landed
    }
}

/// The state of the files.
pub(crate) struct State {
    pub(crate) tree: Tree,
    /// By the file's number.
    pub(crate) active: BTreeMap<u64, Active>,
    pub(crate) zones: ZoneTable,
    pub(crate) lanes: Lanes,
    /// Extents of all files.
    pub(crate) extents: u64,
    /// Paths that are locked, by their parts. (ZF-TREE-3)
    pub(crate) locks: BTreeSet<Vec<String>>,
    /// The last journal entry that is durable.
    pub(crate) durable_entry: u64,
    /// Entries on their way that free blocks. (ZF-ROOM-2)
    pub(crate) freeing: u64,
    /// Reason why the files have stopped, if they have.
    pub(crate) stopped: Option<FilesError>,
    /// When some bytes could last not be copied, because they cannot be read. (ZF-CLEAN-4)
    pub(crate) stuck_at: Option<Instant>,
    /// The keeper found nothing that would make room.
    pub(crate) full: bool,
    pub(crate) counters: Counters,
}

impl State {
    pub(crate) fn new(tree: Tree, zones: ZoneTable, layout: &Layout) -> Self {
        let extents = tree.files().map(|(_, node)| node.extents.len() as u64).sum();
        Self {
            tree,
            active: BTreeMap::new(),
            zones,
            lanes: Lanes::new(layout.open_max),
            extents,
            locks: BTreeSet::new(),
            durable_entry: 0,
            freeing: 0,
            stopped: None,
            stuck_at: None,
            full: false,
            counters: Counters::default(),
        }
    }

    /// Fails once the files have stopped.
    pub(crate) fn running(&self) -> FilesResult<()> {
        self.stopped.clone().map_or(Ok(()), Err)
    }

    /// Bytes of a file, those in memory included.
    pub(crate) fn size(&self, serial: u64) -> u64 {
        let stored = self.tree.file(serial).map_or(0, |node| node.extents.size());
        stored + self.active.get(&serial).map_or(0, Active::waiting)
    }

    /// A record at the end of a file is written. (ZF-ZONE-1)
    pub(crate) fn add_record(&mut self, serial: u64, extent: Extent) {
        let Some(node) = self.tree.file_mut(serial) else { return };
        let before = node.extents.len();
        node.extents.push(extent);
        self.extents += (node.extents.len() - before) as u64;
        self.zones.add_live(extent.zone, extent.blocks());
    }

    /// Blocks are needed no more. (ZF-ZONE-1)
    pub(crate) fn free(&mut self, blocks: impl IntoIterator<Item = (ZoneId, u64)>) {
        for (zone, blocks) in blocks {
            self.full = false;
            self.zones.take_live(zone, blocks);
            if let Some(own) = self.zones.own_mut(zone) {
                own.tried = false;
            }
        }
    }

    /// Gives back all that belongs to a file without names and handles. True if there was such a file.
    pub(crate) fn release_if_gone(&mut self, serial: u64) -> bool {
        let links = self.tree.file(serial).map(|node| node.links);
        let used = self.active.get(&serial).is_some_and(|active| active.opens > 0 || active.unlinking > 0);
        if links != Some(0) || used {
            return false;
        }
        let Some(node) = self.tree.remove_file(serial) else { return false };
        self.extents -= node.extents.len() as u64;
        self.free(node.extents.blocks_by_zone());
        self.active.remove(&serial);
        self.lanes.disown(serial);
        true
    }

    /// Forgets a file's use if there is nothing more to know of it.
    pub(crate) fn rest_if_idle(&mut self, serial: u64) {
        let node = self.tree.file(serial);
        let idle = self.active.get(&serial).is_some_and(|active| {
            let known = node.is_none_or(|node| match node.kind {
                FileKind::Wal => active.flushed == active.appended,
                _ => active.journaled >= node.extents.size(),
            });
            let told = active.unlinking == 0 && !active.losses.any();
            active.opens == 0 && active.waiting() == 0 && told && known && active.entry <= self.durable_entry
        });
        if idle {
            self.active.remove(&serial);
            self.lanes.disown(serial);
        }
    }

    /// A zone has failed: notes files of which it may have lost bytes. Copies are the cleaner's own concern. (ZF-SYNC-3)
    pub(crate) fn note_losses(&mut self, zone: ZoneId) {
        let Some(entry) = self.zones.get(zone).filter(|entry| entry.is_in_doubt()) else { return };
        if usize::from(entry.stream) == COPIES {
            return;
        }
        let is_lost = |extent: &Extent| extent.zone == zone && extent.end_block() > u64::from(entry.durable);
        for (serial, active) in &mut self.active {
            if self.tree.file(*serial).is_some_and(|node| node.extents.iter().any(is_lost)) {
                active.losses.note();
            }
        }
    }

    /// All metadata as they are now. One step, and a short one.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let used = self.zones.iter().filter(|(_, zone)| zone.is_used());
        let mut zones = Vec::new();
        for (zone, entry) in used {
            let epoch = entry.epoch;
            zones.push(Op::Open { zone, epoch, stream: entry.stream });
            if usize::from(entry.stream) == LOGS {
                zones.push(Op::Covered { zone, epoch, block: entry.next });
                if entry.status == Status::Closed {
                    zones.push(Op::Closed { zone, epoch, block: entry.next });
                }
            }
        }
        Snapshot { zones, tree: self.tree.clone() }
    }
}

/// All metadata of one moment. (ZF-PAGE-2)
pub(crate) struct Snapshot {
    zones: Vec<Op>,
    tree: Tree,
}

impl Snapshot {
    /// Operations for a checkpoint, made one after the other.
    pub(crate) fn ops(&self) -> impl Iterator<Item = Op> {
        self.zones.iter().cloned().chain(self.tree.ops())
    }
}
