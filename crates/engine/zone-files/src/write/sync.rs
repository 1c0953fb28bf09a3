//! Making appends durable.
//!
//! # Invariants
//! - ZF-SYNC-1: bytes are durable before an entry of the journal names their place, and the entry is before the caller is answered.
//! - ZF-SYNC-2: bytes of a log are durable once their records are: a sync of them writes nothing else. It waits for entries of the journal
//!   that make the file or cut it. (`a_sync_waits_for_the_entries_that_its_bytes_hang_on`)
//! - ZF-SYNC-3: a sync fails, once, after a zone failed with bytes of its file that no flush had covered, by whichever handle they were appended;
//!   what can still be read of them is durable then. It tells of failures that a write has shown, or the look at the end of a zone.
//!   (`a_sync_tells_of_bytes_that_were_lost_with_their_zone`)

use std::rc::Rc;

use shingle_zone_kit::Pin;

use crate::config::FileKind;
use crate::engine::{After, Engine};
use crate::error::{FilesError, FilesErrorKind, FilesResult};
use crate::extent::Extent;
use crate::format::Op;
use crate::state::State;
use crate::tree::EXTENTS_MAX;
use crate::zones::Zone;

/// Bytes that are read at a time to see that they are there.
const READ_BYTES: u64 = 1 << 20;

impl State {
    /// Operations that tell the journal of a file's bytes before `end`, and note that it knows them. None for logs (ZF-SYNC-2), and for
    /// files without a name.
    pub(crate) fn tell(&mut self, serial: u64, end: u64) -> Vec<Op> {
        let Some(node) = self.tree.file(serial).filter(|node| node.kind != FileKind::Wal && node.links > 0) else {
            return Vec::new();
        };
        let Some(active) = self.active.get_mut(&serial) else { return Vec::new() };
        let end = end.min(node.extents.size());
        if active.journaled >= end {
            return Vec::new();
        }
        let extents = node.extents.range(active.journaled, end);
        active.journaled = end;
        let time = node.modified;
        extents.chunks(EXTENTS_MAX).map(|some| Op::Place { serial, time, extents: some.to_vec() }).collect()
    }
}

impl Engine {
    /// Has all that was appended to a file written; it survives the end of the process then, and a power cut after a flush.
    pub(crate) async fn write_out(self: &Rc<Self>, serial: u64) -> FilesResult<()> {
        self.cut_pieces(serial, true);
        let target = self.state.borrow().active.get(&serial).map_or(0, |active| active.appended);
        loop {
            let landed = self.wakes.landed.notified();
            {
                let state = self.state.borrow();
                let Some(active) = state.active.get(&serial).filter(|active| active.landed < target) else {
                    return Ok(());
                };
                state.running()?;
                if self.keeper.has_ended() {
                    return Err(FilesError::closed());
                }
                let waits = active.lane.is_some_and(|lane| state.lanes.all[lane].own.waits);
                if waits && state.full {
                    return Err(FilesError::no_space());
                }
            }
            landed.await;
        }
    }

    /// Makes all that was appended to a file durable, and tells of what was lost. (ZF-SYNC-3)
    pub(crate) async fn sync(self: &Rc<Self>, serial: u64) -> FilesResult<()> {
        let losses = || self.state.borrow().active.get(&serial).map(|active| active.losses).unwrap_or_default();
        let told = losses().told();
        self.make_durable(serial).await?;
        let Some(lost) = losses().since(told) else { return Ok(()) };
        self.checkpoint().await?;
        let survived = self.survived(serial).await;
        if let Some(active) = self.state.borrow_mut().active.get_mut(&serial) {
            active.losses.tell(lost);
        }
        survived
    }

    /// Fails if some of what a file has in zones that failed before a flush covered them cannot be read.
    pub(crate) async fn survived(self: &Rc<Self>, serial: u64) -> FilesResult<()> {
        let (doubted, _pins): (Vec<Extent>, Vec<Pin>) = {
            let state = self.state.borrow();
            let in_doubt = |extent: &&Extent| state.zones.get(extent.zone).is_some_and(Zone::is_in_doubt);
            let extents = state.tree.file(serial).into_iter().flat_map(|node| node.extents.iter());
            extents.filter(in_doubt).map(|extent| (*extent, state.zones.pin(extent.zone))).unzip()
        };
        for extent in doubted {
            let mut at = extent.offset;
            while at < extent.end() {
                let end = extent.records_end(at, READ_BYTES);
                if self.read_range(serial, extent, at, end).await.is_err() {
                    let text = "a zone failed, and bytes of the file that no flush had covered are lost with it";
                    return Err(FilesError::new(FilesErrorKind::Device, text));
                }
                at = end;
            }
        }
        Ok(())
    }

    /// Makes all that was appended to a file durable.
    async fn make_durable(self: &Rc<Self>, serial: u64) -> FilesResult<()> {
        self.state.borrow_mut().counters.syncs += 1;
        self.write_out(serial).await?;
        let (end, landed) = {
            let state = self.state.borrow();
            let size = state.tree.file(serial).map_or(0, |node| node.extents.size());
            (size, state.active.get(&serial).map_or(0, |active| active.landed))
        };
        self.flush().await?;
        let is_log = {
            let mut state = self.state.borrow_mut();
            if let Some(active) = state.active.get_mut(&serial) {
                active.flushed = active.flushed.max(landed);
            }
            state.tree.file(serial).is_none_or(|node| node.kind == FileKind::Wal)
        };
        if !is_log {
            self.journal_room().await?;
        }
        // None for logs. (ZF-SYNC-2)
        let ops = self.state.borrow_mut().tell(serial, end);
        // One entry each: a prefix of them is a prefix of the file.
        let mut last = 0;
        for op in &ops {
            last = self.journal(std::slice::from_ref(op), After::default());
        }
        let entry = {
            let mut state = self.state.borrow_mut();
            let Some(active) = state.active.get_mut(&serial) else { return Ok(()) };
            active.entry = active.entry.max(last);
            active.entry
        };
        self.journaled(entry).await?;
        self.state.borrow_mut().rest_if_idle(serial);
        Ok(())
    }

    /// A file's last handle is gone: its bytes are written, and become durable some time later.
    pub(crate) fn let_go(self: &Rc<Self>, serial: u64) {
        let begins = {
            let mut state = self.state.borrow_mut();
            let Some(active) = state.active.get_mut(&serial) else { return };
            active.opens = active.opens.saturating_sub(1);
            if active.opens > 0 {
                return;
            }
            let gone = state.release_if_gone(serial);
            state.rest_if_idle(serial);
            if gone {
                self.keeper.wake();
            }
            !gone && state.active.contains_key(&serial) && state.stopped.is_none() && !self.read_only.get()
        };
        if begins {
            let engine = self.clone();
            self.rt.spawn_detached(async move {
                // A failure stays with the file: it is told at the next sync, or at the end.
                if let Err(error) = engine.make_durable(serial).await {
                    tracing::warn!(serial, %error, "a file that was closed without a sync is not durable yet");
                }
            });
        }
    }
}
