//! Pieces: blocks of a blob on their way to a zone.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::BLOCK_SIZE;
use tokio::sync::Notify;

use crate::blob::{Blob, Place};

/// Writes that somebody waits for together.
#[derive(Default)]
pub(crate) struct Group {
    /// Blocks that are not written yet.
    pub(crate) left: Cell<u64>,
    /// Copies had no place to go.
    pub(crate) failed: Cell<bool>,
    pub(crate) landed: Notify,
}

impl Group {
    /// All is written, or never will be.
    pub(crate) fn is_over(&self) -> bool {
        self.left.get() == 0 || self.failed.get()
    }
}

/// The writing of a blob, or of a part of it.
pub(crate) struct Writing {
    pub(crate) blob: Rc<Blob>,
    /// The blob has places already: these are others.
    pub(crate) copy: bool,
    pub(crate) left: Cell<u32>,
    pub(crate) places: RefCell<Vec<Place>>,
    pub(crate) group: Rc<Group>,
}

/// Blocks that wait in a lane.
pub(crate) struct Piece {
    pub(crate) writing: Rc<Writing>,
    /// First block in the blob.
    pub(crate) at: u32,
    pub(crate) data: Bytes,
}

impl Piece {
    pub(crate) fn blocks(&self) -> u32 {
        (self.data.len() / BLOCK_SIZE) as u32
    }

    /// Keeps the first blocks, and returns the others.
    pub(crate) fn split_off(&mut self, blocks: u32) -> Self {
        let data = self.data.split_off(blocks as usize * BLOCK_SIZE);
        Self { writing: self.writing.clone(), at: self.at + blocks, data }
    }
}
