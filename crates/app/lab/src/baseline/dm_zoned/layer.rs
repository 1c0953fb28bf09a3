//! Accesses to chunks.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::future::try_join_all;
use shingle_base::{AlignedBuf, Blocks};
use shingle_runtime::{Instant, Runtime};
use shingle_store_api::StoreResult;
use tokio::sync::{Mutex, Notify};

use super::shape::{Changes, Shape};
use super::table::Table;
use crate::baseline::zones::{Zones, joined};

/// State of the layer.
pub(super) struct Layer {
    pub(super) rt: Runtime,
    pub(super) zones: Rc<Zones>,
    pub(super) shape: Shape,
    pub(super) table: RefCell<Table>,
    pub(super) changes: RefCell<Changes>,
    /// One flush at a time.
    pub(super) flushes: Mutex<()>,
    pub(super) flushing: Cell<bool>,
    pub(super) flushed: Notify,
    pub(super) last_access: Cell<Instant>,
    /// Reclaim is to look.
    pub(super) wanted: Notify,
    /// A zone became free, or a chunk is reclaimed no more.
    pub(super) room: Notify,
}

/// Part of an access in one chunk.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) chunk: u32,
    pub(super) blocks: Range<u64>,
}

impl Layer {
    /// Begins an access to a chunk: not while it is reclaimed.
    async fn begin(&self, chunk: u32) {
        self.last_access.set(self.rt.now());
        loop {
            let waits = self.room.notified();
            {
                let entry = &mut self.table.borrow_mut().chunks[chunk as usize];
                if !entry.reclaimed {
                    entry.active += 1;
                    return;
                }
                entry.terminates = true;
            }
            waits.await;
        }
    }

    /// Ends an access. Zones that hold nothing become free.
    async fn end(&self, chunk: u32) -> StoreResult<()> {
        let mut to_reset = None;
        {
            let table = &mut *self.table.borrow_mut();
            let entry = &mut table.chunks[chunk as usize];
            entry.active -= 1;
            let Some(data) = entry.data else { return Ok(()) };
            if entry.active == 0 {
                if let Some(buffer) = entry.buffer.filter(|&buffer| table.weight(buffer) == 0) {
                    table.chunks[chunk as usize].buffer = None;
                    table.free(buffer);
                }
                if table.weight(data) == 0 {
                    // The buffer takes the place of what it buffers.
                    let entry = &mut table.chunks[chunk as usize];
                    entry.data = entry.buffer.take();
                    match table.is_random(data) {
                        true => table.free(data),
                        false => to_reset = Some(data),
                    }
                    self.changes.borrow_mut().add([self.shape.of_chunk(chunk)]);
                }
            }
            [table.chunks[chunk as usize].data, table.chunks[chunk as usize].buffer]
                .into_iter()
                .flatten()
                .for_each(|zone| table.use_random(zone, chunk));
        }
        if let Some(zone) = to_reset {
            self.zones.reset(zone).await?;
            self.table.borrow_mut().free(zone);
        }
        self.room.notify_waiters();
        Ok(())
    }

    /// The zone to which blocks of a chunk are written; reclaim makes room for a new one.
    async fn target(&self, part: &Part) -> u32 {
        loop {
            let waits = self.room.notified();
            {
                let table = &mut *self.table.borrow_mut();
                let entry = table.chunks[part.chunk as usize];
                match (entry.data, entry.buffer) {
                    (Some(data), _) if table.is_random(data) || self.zones.given(data) == part.blocks.start => {
                        return data;
                    }
                    (Some(_), Some(buffer)) => return buffer,
                    (data, _) => {
                        if let Some(zone) = table.take_random(part.chunk) {
                            let entry = &mut table.chunks[part.chunk as usize];
                            *(if data.is_some() { &mut entry.buffer } else { &mut entry.data }) = Some(zone);
                            self.changes.borrow_mut().add([self.shape.of_chunk(part.chunk)]);
                            self.wanted.notify_one();
                            return zone;
                        }
                    }
                }
            }
            self.wanted.notify_one();
            waits.await;
        }
    }

    pub(super) async fn write(self: &Rc<Self>, part: Part, data: Vec<Bytes>) -> StoreResult<()> {
        self.not_flushing().await;
        self.begin(part.chunk).await;
        let zone = self.target(&part).await;
        let written = if self.table.borrow().is_random(zone) {
            self.zones.write(zone, part.blocks.start, data).await
        } else {
            self.zones.append(zone, data).await
        };
        if written.is_ok() {
            self.enter(&part, Some(zone));
        }
        self.end(part.chunk).await?;
        written
    }

    /// Blocks of a chunk are valid in one zone, and in no other.
    fn enter(&self, part: &Part, zone: Option<u32>) {
        let table = &mut *self.table.borrow_mut();
        let Part { chunk, blocks } = part;
        let entry = table.chunks[*chunk as usize];
        for known in [entry.data, entry.buffer].into_iter().flatten() {
            let valid = Some(known) == zone;
            if valid || blocks.clone().any(|block| table.is_valid(known, block)) {
                table.mark(known, blocks.clone(), valid);
                self.changes.borrow_mut().add(self.shape.of_bits(known, blocks));
            }
        }
    }

    pub(super) async fn read(&self, part: Part) -> StoreResult<Bytes> {
        self.begin(part.chunk).await;
        let mut found: Vec<(Option<u32>, u64, u64)> = Vec::new();
        {
            let table = self.table.borrow();
            let entry = table.chunks[part.chunk as usize];
            for block in part.blocks.clone() {
                let holds = |zone: &u32| table.is_valid(*zone, block);
                let zone = [entry.data, entry.buffer].into_iter().flatten().find(holds);
                match found.last_mut() {
                    Some((last, _, count)) if *last == zone => *count += 1,
                    _ => found.push((zone, block, 1)),
                }
            }
        }
        let run = |(zone, block, count): (Option<u32>, u64, u64)| async move {
            match zone {
                Some(zone) => self.zones.read(zone, block, count).await,
                None => Ok(AlignedBuf::zeroed(Blocks(count)).freeze()),
            }
        };
        let read = try_join_all(found.into_iter().map(run)).await;
        self.end(part.chunk).await?;
        read.map(joined)
    }

    pub(super) async fn trim(&self, part: Part) -> StoreResult<()> {
        self.not_flushing().await;
        self.begin(part.chunk).await;
        self.enter(&part, None);
        self.end(part.chunk).await
    }
}
