//! Checkpoints: the whole index and zone table in the metazones, written while everything goes on. (SMRstore,
//! section 5.6.)
//!
//! A checkpoint is fuzzy: its parts are taken one after the other, each in one step, while changes go on. Recovery
//! makes them one again, because
//! - CS-CKPT-1: a journaled change is made in memory in the same step in which it takes its place in the journal; so what
//!   is journaled before the start mark is in every part, and what comes after it is replayed, which changes nothing
//!   where a part has it already;
//! - CS-CKPT-2: the zone table is taken before any chunk, and says from where each zone has records that the index may
//!   lack (CS-ZONE-3); so a record that a part lacks is found by the scan.

use std::future::Future;
use std::rc::Rc;

use futures_util::future::join_all;
use shingle_base::ChunkId;
use shingle_record::MetaLogError;

use crate::drive::host_full;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{ChunkPage, JournalEntry, encode_zones};
use crate::types::ZoneStatus;

/// Bytes of a part, about: small enough not to hold up appends while it is put together.
const PAGE_BYTES: usize = 256 << 10;

impl Engine {
    /// Makes a checkpoint; one at a time.
    pub(crate) async fn checkpoint(self: &Rc<Self>) -> Result<()> {
        let _one_at_a_time = self.checkpointing.lock().await;
        self.write_checkpoint().await
    }

    /// Makes a checkpoint, unless the one before it left the journal room, or none does (CS-ROOM-5).
    pub(super) async fn checkpoint_for_room(self: &Rc<Self>) -> Result<()> {
        let _one_at_a_time = self.checkpointing.lock().await;
        if self.log.has_journal_room() || self.is_log_full() {
            return Ok(());
        }
        self.write_checkpoint().await
    }

    async fn write_checkpoint(self: &Rc<Self>) -> Result<()> {
        self.state.borrow().running()?;
        if !self.has_checkpoint_room() {
            return Err(self.note_no_checkpoint());
        }
        // A log that failed takes no journal entry any more: nothing that the store would do next could be acknowledged.
        let failed = |error| {
            let why = format!("the checkpoint could not be written: {error}");
            self.stop(&why);
            Error::new(ErrorKind::Device, why).caused_by(error)
        };
        let mut writer = self.log.begin_checkpoint().await.map_err(failed)?;
        let (zones, indexed) = {
            let state = self.state.borrow();
            (encode_zones(&state.zones), state.indexed_zones())
        };
        let places = self.journal_places();
        writer.part(zones).await.map_err(failed)?;
        let mut last = None;
        while let Some(page) = self.next_page(&mut last) {
            writer.part(page).await.map_err(failed)?;
        }
        join_all(places).await.into_iter().collect::<std::result::Result<(), _>>().map_err(failed)?;
        writer.finish().await.map_err(failed)?;
        let mut state = self.state.borrow_mut();
        state.covered(indexed);
        state.counters.checkpoints += 1;
        drop(state);
        self.note_checkpoint();
        Ok(())
    }

    /// Journals again where chunks were gone on with (CS-RESUME-1): the entries from before the checkpoint go.
    fn journal_places(&self) -> Vec<impl Future<Output = std::result::Result<(), MetaLogError>> + use<>> {
        let state = &mut *self.state.borrow_mut();
        let used = state.zones.iter().filter(|(_, zone)| zone.status != ZoneStatus::Free);
        state.resumed.forget_before(used.map(|(_, zone)| zone.epoch).min().unwrap_or(0));
        let entry = |(handle, (number, size))| {
            let id = state.chunks.get(handle)?.id;
            Some(self.log.append(JournalEntry::Resume { id, size }.encode(), number))
        };
        state.resumed.iter().filter_map(entry).collect()
    }

    /// The checkpoint of a store that closes. It does not wait for room on the host.
    pub(crate) async fn last_checkpoint(self: &Rc<Self>) -> Result<()> {
        let engine = self.clone();
        let checkpoint = Box::pin(async move { engine.checkpoint().await });
        self.unless_stalled(checkpoint).await.unwrap_or_else(|_| Err(host_full()))
    }

    /// The chunks after `last`, as many as make a part; `None` after the last one.
    fn next_page(&self, last: &mut Option<ChunkId>) -> Option<Vec<u8>> {
        let state = self.state.borrow();
        let mut page = ChunkPage::new();
        for (handle, chunk) in state.chunks.after(*last) {
            let open = state.open.get(&handle);
            // The scan of the landing zones finds records that have only landed.
            let size = open.and_then(|open| open.tail.start()).unwrap_or(chunk.size);
            page.add(chunk, size, &state.zones);
            *last = Some(chunk.id);
            if page.len() >= PAGE_BYTES.min(self.log.part_max()) {
                break;
            }
        }
        (!page.is_empty()).then(|| page.finish())
    }

    /// Makes checkpoints when the journal grows long or old, until the store stops.
    pub(crate) async fn checkpoint_task(self: Rc<Self>) {
        loop {
            let entries = self.state.borrow().counters.journal_entries;
            self.wait_for_checkpoint_time().await;
            let (stopped, now) = {
                let state = self.state.borrow();
                (state.stopped.is_some(), state.counters.journal_entries)
            };
            if stopped {
                return;
            }
            if (now != entries || self.log.needs_checkpoint())
                && let Err(error) = self.checkpoint().await
            {
                tracing::warn!(%error, "a checkpoint failed");
                self.rt.sleep(std::time::Duration::from_secs(1)).await;
            }
        }
    }

    /// Returns when the interval is over or the journal asks for a checkpoint.
    async fn wait_for_checkpoint_time(&self) {
        let timer = Box::pin(self.rt.sleep(self.options.checkpoint_every));
        let asked = Box::pin(self.wakes.checkpoint.notified());
        futures_util::future::select(timer, asked).await;
    }
}
