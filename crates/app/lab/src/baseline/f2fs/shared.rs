//! State of the file system that writing, cleaning and checkpoints share, and writes to its logs.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use shingle_base::ChunkId;
use shingle_runtime::{Instant, Runtime};
use tokio::sync::{Mutex, RwLock};

use super::file::File;
use super::layout::Layout;
use super::log::{Log, Written};
use super::options::F2fsOptions;
use super::sections::{Owner, Piece, SectionState, Sections};
use super::temperature::{LOGS, Temperature};
use crate::baseline::disk::Disk;
use crate::rig::target::TargetError;

/// Time without a request after which the drive counts as idle (`REQ_TIME`).
pub(super) const IDLE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Files {
    pub(super) by_id: BTreeMap<ChunkId, u32>,
    pub(super) slots: Vec<Option<File>>,
    pub(super) free_slots: Vec<u32>,
    pub(super) next_serial: u64,
    pub(super) next_nid: u32,
    pub(super) next_write: u64,
}

impl Files {
    pub(super) fn get(&mut self, slot: u32, serial: u64) -> Option<&mut File> {
        self.slots.get_mut(slot as usize)?.as_mut().filter(|file| file.serial == serial)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) appended: u64,
    pub(super) moved_blocks: u64,
    pub(super) cleaned: u64,
    pub(super) foreground: u64,
    pub(super) checkpoints: u64,
    pub(super) live_blocks: u64,
    /// Blocks of appends that are under way.
    pub(super) promised: u64,
}

pub(super) struct Shared {
    pub(super) rt: Runtime,
    pub(super) disk: Rc<Disk>,
    pub(super) layout: Layout,
    pub(super) options: F2fsOptions,
    pub(super) files: RefCell<Files>,
    pub(super) sections: RefCell<Sections>,
    /// Nodes whose addresses changed since the last checkpoint.
    pub(super) changed_nids: RefCell<BTreeSet<u32>>,
    /// Nodes that changed and were not written: their file's slot, and which.
    pub(super) dirty_nodes: RefCell<BTreeSet<(u32, u32)>>,
    pub(super) logs: [Rc<Log>; LOGS],
    /// Held for reading while blocks are given out, for writing by a checkpoint.
    pub(super) operations: RwLock<()>,
    /// Held by the task that cleans.
    pub(super) cleaning: Mutex<()>,
    pub(super) counters: Cell<Counters>,
    pub(super) last_request: Cell<Instant>,
    pub(super) failed: RefCell<Option<TargetError>>,
}

/// Nodes on their way: each with its file's slot, its number and the file's serial number.
pub(super) struct NodeWrite {
    pub(super) piece: Piece,
    pub(super) written: Written,
    pub(super) nodes: Vec<(u32, u32, u64)>,
    pub(super) number: u64,
}

impl Shared {
    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    pub(super) fn now(&self) -> u64 {
        self.rt.now().nanos
    }

    pub(super) fn check(&self) -> Result<(), TargetError> {
        self.failed.borrow().clone().map_or(Ok(()), Err)
    }

    pub(super) fn address(&self, piece: Piece) -> u64 {
        let zone = u64::from(self.layout.first_zone + piece.section);
        zone * u64::from(self.layout.section) + u64::from(piece.offset)
    }

    /// Takes `blocks` blocks of a log, and sends them on their way. (`f2fs_allocate_data_block`.)
    pub(super) fn write(
        &self,
        temperature: Temperature,
        mut blocks: u32,
    ) -> Result<Vec<(Piece, Written)>, TargetError> {
        let log = &self.logs[temperature as usize];
        let mut written = Vec::with_capacity(1);
        while blocks > 0 {
            let piece = {
                let mut sections = self.sections.borrow_mut();
                if sections.all[log.section.get() as usize].state != SectionState::Open {
                    let next = sections.open_next(log.section.get() + 1).ok_or(TargetError::NoSpace)?;
                    log.section.set(next);
                }
                sections.take(log.section.get(), blocks, self.now())
            };
            blocks -= piece.blocks;
            written.push((piece, log.write(self.address(piece), u64::from(piece.blocks))));
        }
        Ok(written)
    }

    /// Writes nodes of files to a log.
    pub(super) fn write_nodes(
        &self,
        nodes: &[(u32, u32)],
        temperature: Temperature,
    ) -> Result<Vec<NodeWrite>, TargetError> {
        let files = &mut *self.files.borrow_mut();
        files.next_write += 1;
        let number = files.next_write;
        let alive = nodes.iter().filter_map(|&(slot, node)| {
            let file = files.slots.get(slot as usize)?.as_ref()?;
            file.nodes.contains_key(&node).then_some((slot, node, file.serial))
        });
        let mut alive: Vec<_> = alive.collect();
        let written = self.write(temperature, alive.len() as u32)?;
        let mut writes = Vec::with_capacity(written.len());
        for (piece, written) in written {
            let rest = alive.split_off(piece.blocks as usize);
            writes.push(NodeWrite { piece, written, nodes: std::mem::replace(&mut alive, rest), number });
        }
        Ok(writes)
    }

    pub(super) async fn settle_nodes(&self, writes: Vec<NodeWrite>) -> Result<(), TargetError> {
        for NodeWrite { piece, written, nodes, number } in writes {
            let result = settled(written).await;
            for (at, (slot, node, serial)) in nodes.into_iter().enumerate() {
                let piece = Piece { offset: piece.offset + at as u32, blocks: 1, ..piece };
                let mut files = self.files.borrow_mut();
                let known = files.get(slot, serial).and_then(|file| file.nodes.get_mut(&node));
                let newest = known.filter(|known| known.write < number && result.is_ok());
                let owner = newest.map(|newest| {
                    newest.write = number;
                    self.changed_nids.borrow_mut().insert(newest.nid);
                    if let Some(old) = newest.at.replace(piece) {
                        self.sections.borrow_mut().invalidate(old, self.now());
                    }
                    Owner::Node { slot, node }
                });
                self.sections.borrow_mut().written(piece, owner);
            }
            result?;
        }
        Ok(())
    }
}

/// The end of a write; one that is lost failed with its simulation.
pub(super) async fn settled(written: Written) -> Result<(), TargetError> {
    written.await.unwrap_or_else(|_| failed("a write was lost"))
}

pub(super) fn failed<T>(why: &str) -> Result<T, TargetError> {
    Err(TargetError::Failed(why.to_owned()))
}
