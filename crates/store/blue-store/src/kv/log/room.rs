//! The room of a log and of the table that takes its place.
//!
//! # Invariants
//! - BLU-LOG-5: batches that were told of room find some. As long as the files have room for a table of all keys, one begins before the logs
//!   have taken that room; batches that come while it is written leave it there, since those that take too much are answered when it is
//!   done. Without room for a table (zones have failed, say), the logs go on, in this life and over openings.

use std::rc::Rc;

use super::super::{KvError, KvErrorKind, KvResult};
use super::record::{HEAD, on_drive};
use super::{Shared, State};

/// Bytes of keys and values in a record of a table, about: what one step writes. Fewer where logs are short.
const PART: u64 = 256 << 10;

/// Bytes that `current`, and the ends of files that are being written, take on the drive.
const ENDS: u64 = 32 << 10;

/// Steps that are waited for the room of removed files at most.
const SETTLING_STEPS: u32 = 32;

impl State {
    /// Bytes on the drive of the logs, once all is synced.
    fn log_length(&self) -> u64 {
        self.log_bytes + on_drive(self.unsynced)
    }
}

impl Shared {
    /// Bytes of the parts of a table.
    pub(super) fn part_bytes(&self) -> u64 {
        PART.min(self.options.log_bytes / 16).max(1)
    }

    /// Bytes that can be written, those that are on their way not counted.
    fn free(&self, state: &State) -> u64 {
        self.files.free_bytes().saturating_sub(on_drive(state.unsynced) + state.syncing)
    }

    /// Bytes that a table of all keys takes on the drive at most.
    fn table_bytes(&self, state: &State) -> u64 {
        let heads = (state.map_bytes / self.part_bytes() + 2) * HEAD as u64;
        let bytes = on_drive(state.map_bytes + heads);
        // Records of files end with their last block.
        bytes + bytes / 64 + ENDS
    }

    /// Bytes that batches can bring.
    pub(super) fn room(&self) -> u64 {
        let state = self.state.borrow();
        // A table of all keys is written beside the one that is there, and logs wait for it. All that comes is in the log, and in that table.
        let table = state.map_bytes + state.map_bytes / 4;
        self.free(&state).saturating_sub(table + self.options.log_bytes * 2) / 2
    }

    /// Bytes that logs may take while a table is written.
    ///
    /// # Errors
    /// `NoSpace` if there is no room for a table.
    pub(super) fn slack(&self) -> KvResult<u64> {
        let state = self.state.borrow();
        let (table, free) = (self.table_bytes(&state), self.free(&state));
        let short = || format!("a table of the metadata takes {table} bytes, and {free} are free");
        free.checked_sub(table).ok_or_else(|| KvError::new(KvErrorKind::NoSpace, short()))
    }

    /// The log has grown so much that a table pays, or takes the table's room from here on. (BLU-LOG-5)
    pub(super) fn wants_table(&self) -> bool {
        let state = self.state.borrow();
        let length = state.log_length();
        if self.compacting.get() || length <= self.options.log_bytes || length < state.rest_until {
            return false;
        }
        let (table, free) = (self.table_bytes(&state), self.free(&state));
        let margin = self.options.log_bytes + state.map_bytes / 8;
        free >= table && (length > state.map_bytes || free < table + margin)
    }

    /// Wins the room of logs, if that pays: a table is written once for every 16th of its bytes at most.
    pub(super) async fn win_room(self: &Rc<Self>) -> KvResult<()> {
        self.running()?;
        let ended = self.compacted.notified();
        if !self.compacting.get() {
            let pays = {
                let state = self.state.borrow();
                let length = state.log_length();
                length > self.options.log_bytes.max(state.map_bytes / 16) && length >= state.rest_until
            };
            if !pays || self.slack().is_err() {
                return Ok(());
            }
            self.begin_table();
        }
        if self.compacting.get() {
            ended.await;
            self.await_removed().await;
        }
        self.running()
    }

    /// Waits for the room of removed files, which they give back a few steps behind their removal. One that somebody reads keeps it.
    async fn await_removed(&self) {
        for _ in 0..SETTLING_STEPS {
            let named = self.files.list("kv").map_or(0, |entries| entries.len() as u64);
            if self.files.stats().files <= named {
                return;
            }
            self.rt.yield_now().await;
        }
    }

    /// Waits for the table that is being written, if logs take the room that it needs. (BLU-LOG-5)
    pub(super) async fn give_way(&self) {
        loop {
            let ended = self.compacted.notified();
            let presses = {
                let state = self.state.borrow();
                state.slack.is_some_and(|slack| state.beside > slack / 2)
            };
            if !presses {
                return;
            }
            ended.await;
        }
    }
}
