//! State of an open array in the durable superblock, and the changes for the next one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use tokio::sync::Mutex;

use super::unflushed::Unflushed;
use super::{Superblocks, copies};
use crate::drives::Drives;
use crate::error::{Error, Result};
use crate::format::{DriveState, Superblock};
use crate::types::DriveId;

/// The superblocks of an open array.
pub(crate) struct Ledger {
    pub(crate) log: Superblocks,
    /// One is written at a time.
    pub(crate) turn: Mutex<()>,
    pub(crate) generation: Cell<u64>,
    /// Generation of the last one that this opening wrote.
    pub(crate) written: Cell<u64>,
    /// The last stamp when the array was opened, this time or, until recovery has ended, the time before.
    pub(crate) opened: Cell<u64>,
    /// Of versions below it some may be missing that nobody deleted; 0: none. (AS-LOSS-1)
    pub(crate) lost_before: Cell<u64>,
    /// Number of drives that the last superblock went to. (AS-SB-1)
    copies: Cell<u8>,
    /// Members replaced since the array was opened.
    replaced: Cell<u64>,
    /// So many of them are in a durable superblock.
    saved: Cell<u64>,
    /// Drives with zones that are to take a member's place, or were emptied for a set that is offered, and may be in a cache still:
    /// flushed before a superblock names them.
    pub(crate) unflushed: Unflushed,
    /// Failed drives that a superblock names.
    pub(crate) recorded: RefCell<BTreeSet<DriveId>>,
    /// Own ids of the drives whose loss was accepted when the array was opened. (AS-LOSS-3)
    pub(crate) accepted: RefCell<BTreeSet<u64>>,
    /// A superblock says that the index was left clean: none may follow.
    pub(crate) closed: Cell<bool>,
}

impl Ledger {
    pub(crate) fn new(log: Superblocks, newest: &Superblock, drives: &Drives) -> Self {
        let recorded = drives.entries().into_iter().enumerate();
        let recorded = recorded.filter(|(_, drive)| drive.state != DriveState::Present);
        let recorded = recorded.map(|(number, _)| DriveId(number as u8)).collect();
        Self {
            log,
            turn: Mutex::new(()),
            generation: Cell::new(newest.generation),
            written: Cell::new(0),
            opened: Cell::new(newest.opened),
            lost_before: Cell::new(newest.lost_before),
            copies: Cell::new(newest.copies),
            replaced: Cell::new(0),
            saved: Cell::new(0),
            unflushed: Unflushed::default(),
            recorded: RefCell::new(recorded),
            accepted: RefCell::default(),
            closed: Cell::new(false),
        }
    }

    pub(crate) fn next_generation(&self) -> u64 {
        self.generation.set(self.generation.get() + 1);
        self.generation.get()
    }

    /// Number of drives that the last superblock went to. (AS-SB-1)
    pub(crate) fn copies(&self) -> u8 {
        self.copies.get()
    }

    /// Number of drives that the next one goes to: never fewer.
    pub(crate) fn next_copies(&self, code: shingle_erasure::Code, drives: &Drives) -> u8 {
        self.copies.set(copies(code, drives.not_removed(), self.copies.get()));
        self.copies.get()
    }

    /// # Errors
    /// `Stopped` behind the superblock of a clean close.
    pub(crate) fn open(&self) -> Result<()> {
        if self.closed.get() { Err(Error::stopped()) } else { Ok(()) }
    }

    /// Members replaced since the array was opened.
    pub(crate) fn replaced(&self) -> u64 {
        self.replaced.get()
    }

    pub(crate) fn count_replaced(&self) {
        self.replaced.set(self.replaced.get() + 1);
    }

    /// A durable superblock has so many of them.
    pub(crate) fn saved(&self, replaced: u64) {
        self.saved.set(replaced);
    }

    /// Members that were replaced and are in no durable superblock yet.
    pub(crate) fn unsaved(&self) -> u64 {
        self.replaced.get() - self.saved.get()
    }
}
