//! Cleaning: valid blocks of a section move to the cold log, and the section becomes prefree. (fs/f2fs/gc.c;
//! FAST'15, section 2.5.)
//!
//! In the foreground, callers wait for it when free sections fall to the reserve: the least valid section goes first,
//! until enough are prefree, then a checkpoint frees them. In the background one section at a time, the best by cost
//! and benefit, while the drive is idle.
//!
//! # Invariants
//! - LAB-FG-1: cleaning never uses the last free sections of the logs: the reserve is larger than one section's blocks.

use std::collections::VecDeque;
use std::rc::Weak;
use std::time::Duration;

use shingle_runtime::Runtime;

use super::file::node_of;
use super::layout::SEGMENT;
use super::log::Written;
use super::sections::{Entry, Owner, Piece, Policy};
use super::shared::{IDLE, Shared, settled};
use super::temperature::{LOGS, Temperature};
use crate::rig::target::TargetError;

/// Pauses of the background thread: with much to clean, with little, and with nothing.
const PAUSES: [Duration; 3] = [Duration::from_secs(30), Duration::from_secs(60), Duration::from_secs(300)];
/// The share of invalid blocks, in percent, from which there is much to clean (`limit_invalid_blocks`).
const INVALID_MUCH: u64 = 40;
/// Segments whose moved blocks may be on their way while the next is read.
const SEGMENTS_UNDER_WAY: usize = 2;

/// A run on its way to its new place.
struct Move {
    owner: Owner,
    from: Piece,
    serial: u64,
    to: Vec<(Piece, Written)>,
}

pub(super) async fn in_background(rt: Runtime, shared: Weak<Shared>) {
    let mut pause = PAUSES[0];
    loop {
        rt.sleep(pause).await;
        let Some(shared) = shared.upgrade() else { return };
        let Ok(_cleaning) = shared.cleaning.try_lock() else { continue };
        if rt.now().since(shared.last_request.get()) < IDLE {
            pause = PAUSES[1];
            continue;
        }
        pause = if shared.much_is_invalid() { PAUSES[0] } else { PAUSES[1] };
        match shared.clean_one(Policy::CostBenefit).await {
            Ok(true) => {}
            Ok(false) => pause = PAUSES[2],
            Err(error) => {
                shared.failed.borrow_mut().get_or_insert(error);
            }
        }
    }
}

impl Shared {
    /// Cleans before blocks are given out if too few sections are free. (`f2fs_balance_fs`.)
    pub(super) async fn balance(&self) -> Result<(), TargetError> {
        if self.wants_checkpoint()
            && let Ok(_cleaning) = self.cleaning.try_lock()
        {
            self.checkpoint().await?;
        }
        if !self.is_short(0) {
            return Ok(());
        }
        let _cleaning = self.cleaning.lock().await;
        while self.is_short(0) {
            if self.sections.borrow().prefree_count() > 0 {
                self.checkpoint().await?;
                continue;
            }
            let mut freed = 0;
            // A checkpoint in between, before full victims eat up the free sections (LAB-FG-1).
            while self.is_short(freed) && (freed == 0 || self.sections.borrow().free_count() > LOGS as u32) {
                if !self.clean_one(Policy::Greedy).await? {
                    break;
                }
                freed += 1;
                self.count(|counters| counters.foreground += 1);
            }
            if freed == 0 {
                // Nothing has garbage: the kernel goes on too, into the reserve.
                return Ok(());
            }
        }
        Ok(())
    }

    fn is_short(&self, freed: u32) -> bool {
        self.sections.borrow().free_count() + freed <= self.layout.reserved
    }

    fn much_is_invalid(&self) -> bool {
        let sections = self.sections.borrow();
        let used: u64 = sections.all.iter().map(|section| u64::from(section.next)).sum();
        (used - sections.valid.min(used)) * 100 > self.layout.user_blocks.saturating_sub(sections.valid) * INVALID_MUCH
    }

    /// Cleans one section; `false` if none has garbage.
    async fn clean_one(&self, policy: Policy) -> Result<bool, TargetError> {
        let victim = self.sections.borrow_mut().victim(policy, self.now());
        let Some(number) = victim else { return Ok(false) };
        self.count(|counters| counters.cleaned += 1);
        let segments = u64::from(self.layout.section / SEGMENT);
        self.disk.read(self.layout.ssa(number * segments as u32), segments).await?;
        let mut entries = self.sections.borrow().all[number as usize].entries.clone();
        entries.sort_unstable_by_key(|entry| entry.offset);
        let mut under_way = VecDeque::new();
        let mut rest = entries.as_slice();
        while let Some(first) = rest.first() {
            // A segment's worth, as the kernel goes; a run that crosses its end is moved whole.
            let segment = first.offset / SEGMENT;
            let count = rest.partition_point(|entry| entry.offset / SEGMENT == segment);
            let (part, later) = rest.split_at(count);
            rest = later;
            let moves = self.move_entries(number, part).await?;
            under_way.push_back(moves);
            if under_way.len() > SEGMENTS_UNDER_WAY
                && let Some(moves) = under_way.pop_front()
            {
                self.settle_moves(moves).await?;
            }
        }
        for moves in under_way {
            self.settle_moves(moves).await?;
        }
        Ok(true)
    }

    /// Reads the valid blocks of some runs, and sends them to the cold log.
    async fn move_entries(&self, section: u32, entries: &[Entry]) -> Result<Vec<Move>, TargetError> {
        let valid: Vec<(Entry, u64)> =
            entries.iter().filter_map(|&entry| self.serial_of(section, entry).map(|serial| (entry, serial))).collect();
        let mut reads: Vec<Piece> = Vec::new();
        for (entry, _) in &valid {
            match reads.last_mut() {
                Some(last) if last.offset + last.blocks == entry.offset => last.blocks += entry.blocks,
                _ => reads.push(Piece { section, offset: entry.offset, blocks: entry.blocks }),
            }
        }
        let reads = reads.into_iter().map(|piece| self.disk.read(self.address(piece), u64::from(piece.blocks)));
        futures_util::future::join_all(reads).await.into_iter().collect::<Result<(), _>>()?;
        let _no_checkpoint = self.operations.read().await;
        let mut moves = Vec::with_capacity(valid.len());
        for (entry, serial) in valid {
            // Deleted while it was read: nothing to move.
            if self.serial_of(section, entry) != Some(serial) {
                continue;
            }
            let log = match entry.owner {
                Owner::Data { .. } => Temperature::ColdData,
                Owner::Node { .. } => Temperature::WarmNode,
            };
            let from = Piece { section, offset: entry.offset, blocks: entry.blocks };
            moves.push(Move { owner: entry.owner, from, serial, to: self.write(log, entry.blocks)? });
            self.count(|counters| counters.moved_blocks += u64::from(entry.blocks));
        }
        Ok(moves)
    }

    /// The serial number of the file that names a run; `None` if no file does.
    fn serial_of(&self, section: u32, entry: Entry) -> Option<u64> {
        let files = self.files.borrow();
        let piece = Piece { section, offset: entry.offset, blocks: entry.blocks };
        match entry.owner {
            Owner::Data { slot, block } => {
                let file = files.slots.get(slot as usize)?.as_ref()?;
                file.names(block, piece).then_some(file.serial)
            }
            Owner::Node { slot, node } => {
                let file = files.slots.get(slot as usize)?.as_ref()?;
                (file.nodes.get(&node)?.at == Some(piece)).then_some(file.serial)
            }
        }
    }

    /// Waits for moved runs; from then on their owners name the new places.
    async fn settle_moves(&self, moves: Vec<Move>) -> Result<(), TargetError> {
        for Move { owner, from, serial, to } in moves {
            let mut pieces = Vec::with_capacity(to.len());
            for (piece, written) in to {
                settled(written).await?;
                pieces.push(piece);
            }
            let entry = Entry { offset: from.offset, blocks: from.blocks, owner };
            let alive = self.serial_of(from.section, entry) == Some(serial);
            let mut sections = self.sections.borrow_mut();
            if !alive {
                pieces.into_iter().for_each(|piece| sections.written(piece, None));
                continue;
            }
            let files = &mut *self.files.borrow_mut();
            match owner {
                Owner::Data { slot, block } => {
                    let mut next = block;
                    for &piece in &pieces {
                        sections.written(piece, Some(Owner::Data { slot, block: next }));
                        self.dirty_nodes.borrow_mut().insert((slot, node_of(next)));
                        next += piece.blocks;
                    }
                    if let Some(file) = files.get(slot, serial) {
                        file.replace(block, &pieces);
                    }
                }
                Owner::Node { slot, node } => {
                    for &piece in &pieces {
                        sections.written(piece, Some(owner));
                        if let Some(node) = files.get(slot, serial).and_then(|file| file.nodes.get_mut(&node)) {
                            node.at = Some(piece);
                            self.changed_nids.borrow_mut().insert(node.nid);
                        }
                    }
                }
            }
            sections.invalidate(from, self.now());
        }
        Ok(())
    }
}
