//! The writing half: one write in flight, everything that waits in it.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, ZoneId};
use shingle_zoned::{DeviceError, DeviceErrorKind, ZoneOp, ZoneState};

use crate::frame::{HEADER_SIZE, Place, frame, record_blocks};
use crate::meta_log::MetaLogError;
use crate::meta_log::format::{END, ENTRY_HEAD, JOURNAL, LogInfo, START, push_entry};
use crate::meta_log::log::{Item, LogInner, LogState, MetaStatus};
use crate::zone_head::frame_zone_head;

/// The most that one device write takes, in blocks.
const BATCH_BLOCKS: u32 = 512;

/// A record to be, and the items it answers.
struct Draft {
    info: LogInfo,
    items: Vec<Item>,
    payload: Vec<u8>,
}

impl Draft {
    fn blocks(&self) -> u32 {
        record_blocks(self.payload.len() as u64).0 as u32
    }
}

impl LogInner {
    /// Writes what waits until nothing does.
    pub(super) async fn write_queue(self: Rc<Self>) {
        loop {
            let drafts = {
                let mut state = self.state.borrow_mut();
                let drafts = self.draft(&mut state);
                if drafts.is_empty() {
                    state.writing = false;
                    return;
                }
                drafts
            };
            if let Err((rest, error)) = self.write_drafts(drafts).await {
                self.stop(rest, &error);
                return;
            }
        }
    }

    /// Takes what waits out of the queue, as many records as one write holds. Positions are given here, so a record
    /// that is written a second time elsewhere keeps its own (LOG-2).
    fn draft(&self, state: &mut LogState) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut blocks = 0;
        let limit = BATCH_BLOCKS.min(self.capacity / 2).max(1);
        let payload_max = (Blocks(u64::from((self.capacity / 8).max(1))).bytes() as usize - HEADER_SIZE).min(64 << 10);
        while let Some(item) = state.queue.pop_front() {
            if item.kind == JOURNAL
                && let Some(last) = drafts.last_mut()
                && last.items.first().is_some_and(|first| first.kind == JOURNAL)
                && last.payload.len() + ENTRY_HEAD + item.bytes.len() <= payload_max
            {
                push_entry(&mut last.payload, item.sequence, &item.bytes);
                last.items.push(item);
                continue;
            }
            let need = record_blocks((item.bytes.len() + ENTRY_HEAD) as u64).0 as u32;
            if blocks + need > limit && !drafts.is_empty() {
                state.queue.push_front(item);
                break;
            }
            blocks += need;
            state.position += 1;
            let mut info = LogInfo { position: state.position, checkpoint: item.checkpoint, ..LogInfo::default() };
            if item.kind == END {
                info.parts = item.parts;
                info.start_epoch =
                    state.starts.iter().find(|start| start.0 == item.checkpoint).map_or(0, |&(_, epoch)| epoch);
            }
            let mut payload = Vec::new();
            if item.kind == JOURNAL {
                push_entry(&mut payload, item.sequence, &item.bytes);
            } else {
                payload.extend_from_slice(&item.bytes);
            }
            drafts.push(Draft { info, items: vec![item], payload });
        }
        drafts
    }

    /// Makes drafts durable, in this metazone or the next, and answers who waits.
    async fn write_drafts(self: &Rc<Self>, mut drafts: Vec<Draft>) -> Result<(), (Vec<Draft>, MetaLogError)> {
        while let Some(first) = drafts.first() {
            let need = first.blocks();
            let (slot, epoch, next) = match self.active_with_room(need).await {
                Ok(active) => active,
                Err(error) => return Err((drafts, error)),
            };
            let mut end = next;
            let fitting = drafts.iter().take_while(|draft| {
                let fits = end + draft.blocks() <= self.capacity;
                end += if fits { draft.blocks() } else { 0 };
                fits
            });
            let count = fitting.count();
            let (pieces, end) = self.frame_drafts(slot, epoch, next, &drafts[..count]);
            let zone = self.zone(slot);
            let at = self.dev.geometry().start_of(zone) + Blocks(u64::from(next));
            match self.write_durably(at, pieces).await {
                Ok(()) => {
                    let later = drafts.split_off(count);
                    self.state.borrow_mut().active = Some((slot, epoch, end));
                    self.written(epoch, std::mem::replace(&mut drafts, later));
                }
                Err(error) if matches!(error.kind, DeviceErrorKind::Gone) => return Err((drafts, error.into())),
                Err(_) => self.give_up_zone(slot, epoch).await,
            }
        }
        Ok(())
    }

    async fn write_durably(&self, at: shingle_base::Lba, pieces: Vec<Bytes>) -> Result<(), DeviceError> {
        self.dev.write(at, pieces).await?;
        if self.dev.geometry().volatile_cache { self.dev.flush().await } else { Ok(()) }
    }

    pub(super) fn zone(&self, slot: usize) -> ZoneId {
        ZoneId(self.config.zones.start + slot as u32)
    }

    fn frame_drafts(&self, slot: usize, epoch: u64, next: u32, drafts: &[Draft]) -> (Vec<Bytes>, u32) {
        let mut block = next;
        let mut pieces = Vec::with_capacity(drafts.len());
        for draft in drafts {
            let Some(item) = draft.items.first() else { continue };
            let place = Place { store: self.config.store, epoch, zone: self.zone(slot), block };
            // Where the start mark of a checkpoint lies is known only now.
            let sequence = draft.items.last().map_or(item.sequence, |last| last.sequence);
            pieces.push(frame(item.kind, &place, sequence, draft.info.encode(), &[&draft.payload]));
            block += draft.blocks();
        }
        (pieces, block)
    }

    /// Takes note of durable records and answers who waits for them.
    fn written(&self, epoch: u64, drafts: Vec<Draft>) {
        let mut state = self.state.borrow_mut();
        for draft in drafts {
            let blocks = u64::from(draft.blocks());
            let Draft { info, items, .. } = draft;
            if items.first().is_some_and(|first| first.kind == JOURNAL) {
                state.journal_blocks += blocks;
            }
            for item in items {
                if item.kind == START {
                    state.starts.push((info.position, epoch));
                } else if item.kind == END {
                    checkpoint_done(&mut state, info);
                }
                let _ = item.done.send(Ok(info.position));
            }
        }
    }

    /// The zone that is written, with room for `need` blocks: another one where the present one has too little.
    async fn active_with_room(&self, need: u32) -> Result<(usize, u64, u32), MetaLogError> {
        loop {
            let (active, free) = {
                let state = self.state.borrow();
                let free = state.zones.iter().position(|zone| *zone == MetaStatus::Free);
                (state.active, free)
            };
            if let Some((slot, epoch, next)) = active {
                if next + need <= self.capacity {
                    return Ok((slot, epoch, next));
                }
                self.state.borrow_mut().active = None;
                self.release(slot).await;
                continue;
            }
            let slot = free.ok_or(MetaLogError::Full)?;
            self.open_zone(slot).await?;
        }
    }

    /// Resets a free metazone and writes its head; a zone that cannot be opened is out of use.
    async fn open_zone(&self, slot: usize) -> Result<(), MetaLogError> {
        let zone = self.zone(slot);
        let epoch = self.sequence.next();
        let head = frame_zone_head(self.config.store, epoch, zone, self.config.zone_kind, self.rt.unix_time());
        let opened = async {
            self.dev.manage(zone, ZoneOp::Reset).await?;
            self.dev.write(self.dev.geometry().start_of(zone), vec![head]).await
        };
        let result = opened.await;
        let mut state = self.state.borrow_mut();
        match result {
            Ok(()) => {
                state.zones[slot] = MetaStatus::Live { epoch };
                state.active = Some((slot, epoch, 1));
                Ok(())
            }
            Err(error) if matches!(error.kind, DeviceErrorKind::Gone) => Err(error.into()),
            Err(_) => {
                state.zones[slot] = MetaStatus::Bad;
                Ok(())
            }
        }
    }

    /// A write to the zone failed: nothing more is written to it. What it holds stays needed until it is recycled.
    async fn give_up_zone(&self, slot: usize, epoch: u64) {
        self.state.borrow_mut().active = None;
        let report = self.dev.report(self.zone(slot), 1).await.ok();
        let lost = report
            .as_deref()
            .and_then(|zones| zones.first())
            .is_some_and(|info| matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline));
        self.state.borrow_mut().zones[slot] = if lost { MetaStatus::Bad } else { MetaStatus::Live { epoch } };
        if !lost {
            self.release(slot).await;
        }
    }

    /// Gives a zone's open (and active) resource back to the drive. Failure costs only that resource.
    async fn release(&self, slot: usize) {
        let active = self.dev.geometry().active_zones_max.is_some();
        let zone = self.zone(slot);
        let Ok(report) = self.dev.report(zone, 1).await else { return };
        let Some(info) = report.first() else { return };
        if active && info.state.is_active() {
            let _ = self.dev.manage(zone, ZoneOp::Finish).await;
        } else if info.state.is_open() {
            let _ = self.dev.manage(zone, ZoneOp::Close).await;
        }
    }

    /// The log cannot be written any more: everyone who waits hears why.
    fn stop(&self, drafts: Vec<Draft>, error: &MetaLogError) {
        let mut state = self.state.borrow_mut();
        state.stopped = true;
        state.writing = false;
        let waiting = drafts.into_iter().flat_map(|draft| draft.items).chain(state.queue.drain(..));
        for item in waiting {
            let _ = item.done.send(Err(error.clone()));
        }
    }
}

/// A checkpoint is complete: zones before the one its start lies in are free (LOG-3).
fn checkpoint_done(state: &mut LogState, end: LogInfo) {
    state.starts.retain(|&(position, _)| position > end.checkpoint);
    state.journal_blocks = 0;
    for zone in &mut state.zones {
        if let MetaStatus::Live { epoch } = *zone
            && epoch < end.start_epoch
        {
            *zone = MetaStatus::Free;
        }
    }
}
