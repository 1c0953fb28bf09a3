//! The writing half: one write in flight, everything that waits in it, and its parity behind it.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, ZoneId};
use shingle_zoned::DeviceError;

use crate::frame::{frame, record_blocks};
use crate::header::{HEADER_SIZE, RecordPlace};
use crate::meta_log::error::MetaLogError;
use crate::meta_log::format::{
    END, ENTRY_HEAD, EndMark, JOURNAL, LINK, Link, LogInfo, Parity, START, WRITE_BLOCKS_MAX, frame_log_head, push_entry,
};
use crate::meta_log::log::{Active, Item, LogInner, LogState, MetaStatus};
use crate::meta_log::zones::Trouble;

/// The most blocks of records that one device write takes, beside a zone's head.
const BATCH_BLOCKS: u32 = WRITE_BLOCKS_MAX - 1;

/// A record to be written, and the items it answers.
struct Draft {
    info: LogInfo,
    items: Vec<Item>,
    payload: Vec<u8>,
    /// The payload of a checkpoint's end.
    end: Option<EndMark>,
}

impl Draft {
    fn blocks(&self) -> u32 {
        record_blocks(self.payload.len() as u64).0 as u32
    }
}

impl LogInner {
    /// Writes items until the queue is empty.
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

    /// Takes items out of the queue, about as many records as one write holds. Positions are given here, so a record
    /// that is written a second time elsewhere keeps its own (RC-LOG-2).
    fn draft(&self, state: &mut LogState) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = Vec::new();
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
            if drafts.iter().map(Draft::blocks).sum::<u32>() >= BATCH_BLOCKS {
                state.queue.push_front(item);
                break;
            }
            state.position += 1;
            let (position, checkpoint, more) = (state.position, item.checkpoint, item.more);
            let info = LogInfo { position, checkpoint, more, ..LogInfo::default() };
            let mut payload = Vec::new();
            let mut end = None;
            if item.kind == JOURNAL {
                push_entry(&mut payload, item.sequence, &item.bytes);
            } else if item.kind == END {
                let start = state.starts.iter().find(|start| start.0 == item.checkpoint);
                let mark = EndMark { start_epoch: start.map_or(0, |&(_, epoch)| epoch), parts: item.parts };
                payload = mark.encode();
                end = Some(mark);
            } else {
                payload.extend_from_slice(&item.bytes);
            }
            drafts.push(Draft { info, items: vec![item], payload, end });
        }
        drafts
    }

    /// Makes drafts durable, in this metazone or the next, and answers their callers.
    async fn write_drafts(self: &Rc<Self>, mut drafts: Vec<Draft>) -> Result<(), (Vec<Draft>, MetaLogError)> {
        let mut trouble = Trouble::default();
        while let Some(first) = drafts.first() {
            let active = match self.active_with_room(first.blocks()).await {
                Ok(active) => active,
                Err(error) => return Err((drafts, error)),
            };
            // Readers take no larger write.
            let mut room = (self.capacity - active.next - active.overhead()).min(BATCH_BLOCKS);
            let fitting = drafts.iter().take_while(|draft| {
                let left = room.checked_sub(draft.blocks());
                room = left.unwrap_or(0);
                left.is_some()
            });
            let count = fitting.count();
            let (pieces, end) = self.frame_drafts(&active, &drafts[..count]);
            match self.write_durably(&active, pieces).await {
                Ok(()) => {
                    let later = drafts.split_off(count);
                    self.state.borrow_mut().active = Some(Active { next: end, ..active });
                    self.state.borrow_mut().stalled = false;
                    self.written(active.epoch, std::mem::replace(&mut drafts, later));
                    trouble = Trouble::default();
                }
                Err(error) => {
                    if let Err(error) = self.after_failed_write(&active, error, &mut trouble).await {
                        return Err((drafts, error));
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes at the active zone's end. No write begins before all earlier ones are durable, so a power cut can spoil
    /// none but the last (RC-LOG-5).
    pub(super) async fn write_durably(&self, active: &Active, pieces: Vec<Bytes>) -> Result<(), DeviceError> {
        if !self.state.borrow().settled {
            // The records found at opening may have been written by a process that was killed before they were durable.
            self.flush().await?;
            self.state.borrow_mut().settled = true;
        }
        let at = self.dev.geometry().start_of(self.zone(active.slot)) + Blocks(u64::from(active.next));
        self.dev.write(at, pieces).await?;
        self.flush().await
    }

    pub(super) async fn flush(&self) -> Result<(), DeviceError> {
        if self.dev.geometry().volatile_cache { self.dev.flush().await } else { Ok(()) }
    }

    pub(super) fn zone(&self, slot: usize) -> ZoneId {
        ZoneId(self.config.zones.start + slot as u32)
    }

    fn frame_drafts(&self, active: &Active, drafts: &[Draft]) -> (Vec<Bytes>, u32) {
        let place =
            |block| RecordPlace { store: self.config.store, epoch: active.epoch, zone: self.zone(active.slot), block };
        let head = u32::from(active.next == 0);
        let blocks = head + drafts.iter().map(Draft::blocks).sum::<u32>();
        let mut pieces = Vec::with_capacity(drafts.len() + 2);
        if head > 0 {
            let position = drafts.first().map_or(0, |draft| draft.info.position);
            pieces.push(frame_log_head(&place(0), self.config.zone_kind, self.rt.unix_time(), blocks, position));
        }
        let mut block = active.next + head;
        for draft in drafts {
            let Some(item) = draft.items.first() else { continue };
            let sequence = draft.items.last().map_or(item.sequence, |last| last.sequence);
            let info = LogInfo { first: active.next, blocks, ..draft.info };
            pieces.push(frame(item.kind, &place(block), sequence, info.encode(), &[&draft.payload]));
            block += draft.blocks();
        }
        pieces.push(parity_of(&place(active.next), &pieces));
        (pieces, block + 1)
    }

    /// The write that links the active zone to the next.
    pub(super) fn frame_link(&self, active: &Active, link: Link) -> Vec<Bytes> {
        let (zone, position) = (self.zone(active.slot), self.state.borrow().written);
        let place = RecordPlace { store: self.config.store, epoch: active.epoch, zone, block: active.next };
        let info = LogInfo { position, first: active.next, blocks: 1, ..LogInfo::default() };
        let mut pieces = vec![frame(LINK, &place, link.epoch, info.encode(), &[&link.encode()])];
        pieces.push(parity_of(&place, &pieces));
        pieces
    }

    /// Notes durable records and answers their callers.
    fn written(&self, epoch: u64, drafts: Vec<Draft>) {
        let mut state = self.state.borrow_mut();
        for draft in drafts {
            let blocks = u64::from(draft.blocks());
            let Draft { info, items, end, .. } = draft;
            state.written = info.position;
            if items.first().is_some_and(|first| first.kind == JOURNAL) {
                state.journal_blocks += blocks;
            }
            if let Some(end) = end {
                checkpoint_done(&mut state, info.checkpoint, end);
            }
            for item in items {
                if item.kind == START {
                    state.starts.push((info.position, epoch));
                }
                let _ = item.done.send(Ok(info.position));
            }
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

/// A checkpoint is complete: zones before the one its start lies in are free (RC-LOG-3).
fn checkpoint_done(state: &mut LogState, checkpoint: u64, end: EndMark) {
    state.starts.retain(|&(position, _)| position > checkpoint);
    state.journal_blocks = 0;
    state.wanted_after = state.wanted_after.filter(|&wanted| checkpoint < wanted);
    for zone in &mut state.zones {
        if let MetaStatus::Live { epoch } = *zone
            && epoch < end.start_epoch
        {
            *zone = MetaStatus::Free { epoch };
        }
    }
}

/// The parity of a write that begins at `place`.
fn parity_of(place: &RecordPlace, pieces: &[Bytes]) -> Bytes {
    let mut parity = Parity::of(place);
    pieces.iter().for_each(|piece| parity.add(piece));
    parity.block()
}
