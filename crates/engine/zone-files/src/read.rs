//! Reading: bytes that are not written yet come from memory, all others from their zones, which are pinned; and all of them are verified.
//!
//! # Invariants
//! - ZF-READ-1: bytes from the drive are returned only if the check of their slice holds, for their file, their place in it, and the
//!   generation of their zone.
//! - ZF-READ-2: a zone is not reset while somebody reads it.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use shingle_base::{BLOCK_SIZE, Blocks, ZoneId};
use shingle_record::SlicePlan;
use shingle_zoned::{DeviceError, DeviceErrorKind, read_patiently};

use crate::engine::Engine;
use crate::error::{FilesError, FilesErrorKind, FilesResult};
use crate::extent::{Extent, RecordAt};
use crate::format::Owner;
use crate::write::cut;
use crate::zones::Pin;

/// Commands of one read that are under way at once.
const DEPTH: usize = 8;

/// Blocks of a command, but for those that one record makes necessary.
const COMMAND_BLOCKS: u64 = 512;

/// Bytes of some records that follow each other.
struct Fetch {
    serial: u64,
    zone: ZoneId,
    epoch: u64,
    /// The first block, and the block behind the last.
    blocks: (u32, u32),
    /// Records, and the bytes of each that are wanted.
    parts: Vec<(RecordAt, SlicePlan)>,
    /// ZF-READ-2.
    _pin: Pin,
}

/// A part of an answer.
enum Part {
    Memory(Vec<u8>),
    Fetch(Fetch),
    Lost(u64),
}

impl Engine {
    /// Reads bytes of a file; fewer at its end.
    pub(crate) async fn read(self: &Rc<Self>, serial: u64, offset: u64, length: u64) -> FilesResult<Bytes> {
        let parts = self.parts(serial, offset, length);
        let mut out = Vec::new();
        let mut reading = stream::iter(parts).map(|part| self.bytes_of(part)).buffered(DEPTH);
        while let Some(bytes) = reading.next().await {
            let bytes = bytes?;
            if out.is_empty() { out = bytes } else { out.extend(bytes) }
        }
        drop(reading);
        self.state.borrow_mut().counters.bytes_read += out.len() as u64;
        Ok(out.into())
    }

    /// Reads bytes `from` to `to` of an extent. The caller has pinned its zone.
    pub(crate) async fn read_range(
        self: &Rc<Self>,
        serial: u64,
        extent: Extent,
        from: u64,
        to: u64,
    ) -> FilesResult<Vec<u8>> {
        let mut parts = Vec::new();
        self.add_fetches(serial, &extent, from, to, &mut parts);
        let mut out = Vec::with_capacity((to - from) as usize);
        for part in parts {
            out.extend(self.bytes_of(part).await?);
        }
        Ok(out)
    }

    /// Parts of an answer, in order. One step.
    fn parts(self: &Rc<Self>, serial: u64, offset: u64, length: u64) -> Vec<Part> {
        let mut parts = Vec::new();
        let size = self.state.borrow().size(serial);
        let end = size.min(offset.saturating_add(length));
        let extents: Vec<Extent> = {
            let state = self.state.borrow();
            let node = state.tree.file(serial);
            node.into_iter().flat_map(|node| node.extents.within(offset, end)).copied().collect()
        };
        for extent in extents {
            self.add_fetches(serial, &extent, offset.max(extent.offset), end.min(extent.end()), &mut parts);
        }
        let state = self.state.borrow();
        if let Some(active) = state.active.get(&serial) {
            let mut memory = Vec::new();
            for pending in &active.pending {
                cut(&pending.data, pending.offset, offset, end, &mut memory);
            }
            cut(&active.buffer, size - active.buffered, offset, end, &mut memory);
            if !memory.is_empty() {
                parts.push(Part::Memory(memory));
            }
        }
        parts
    }

    fn add_fetches(self: &Rc<Self>, serial: u64, extent: &Extent, from: u64, to: u64, parts: &mut Vec<Part>) {
        if from >= to {
            return;
        }
        if extent.is_lost() {
            parts.push(Part::Lost(extent.offset));
            return;
        }
        let (zone, mut at) = (extent.zone, from);
        let epoch = self.state.borrow().zones.get(zone).map_or(0, |entry| entry.epoch);
        let mut fetch: Option<Fetch> = None;
        while at < to {
            let record = extent.record_at(at);
            let end = to.min(record.offset + u64::from(record.length));
            let plan = SlicePlan::new(record.length, (at - record.offset) as u32, (end - at) as u32);
            let first = record.block + plan.first_block().0 as u32;
            let last = first + plan.blocks().0 as u32;
            match &mut fetch {
                Some(open) if u64::from(last - open.blocks.0) <= COMMAND_BLOCKS => {
                    open.blocks.1 = last;
                    open.parts.push((record, plan));
                }
                _ => {
                    parts.extend(fetch.take().map(Part::Fetch));
                    let (blocks, records) = ((first, last), vec![(record, plan)]);
                    let pin = self.state.borrow().zones.pin(zone);
                    fetch = Some(Fetch { serial, zone, epoch, blocks, parts: records, _pin: pin });
                }
            }
            at = end;
        }
        parts.extend(fetch.map(Part::Fetch));
    }

    async fn bytes_of(&self, part: Part) -> FilesResult<Vec<u8>> {
        match part {
            Part::Memory(bytes) => Ok(bytes),
            Part::Lost(offset) => {
                let text = format!("bytes from {offset} on were lost");
                Err(FilesError::new(FilesErrorKind::Corrupt, text))
            }
            Part::Fetch(fetch) => {
                let raw = self.fetch(&fetch).await?;
                match self.extract(&fetch, &raw) {
                    Ok(bytes) => Ok(bytes),
                    // They may have been spoilt on the way.
                    Err(_) => {
                        let again = self.fetch(&fetch).await?;
                        self.extract(&fetch, &again)
                    }
                }
            }
        }
    }

    async fn fetch(&self, fetch: &Fetch) -> FilesResult<Bytes> {
        let (first, last) = fetch.blocks;
        let length = Blocks(u64::from(last - first));
        let raw = read_patiently(&self.drive.dev, self.drive.block(fetch.zone, first), length).await;
        raw.map_err(|error| {
            if matches!(error.kind, DeviceErrorKind::Gone) {
                self.stop(&error.duplicate().into());
            }
            read_error(error)
        })
    }

    /// The wanted bytes of each record, verified. (ZF-READ-1)
    fn extract(&self, fetch: &Fetch, raw: &[u8]) -> FilesResult<Vec<u8>> {
        let mut out = Vec::with_capacity(fetch.parts.iter().map(|(_, plan)| plan.length() as usize).sum());
        for (record, plan) in &fetch.parts {
            let owner = Owner::at(fetch.serial, fetch.epoch, record.offset);
            let first = record.block + plan.first_block().0 as u32 - fetch.blocks.0;
            let bytes = raw.get(first as usize * BLOCK_SIZE..).unwrap_or_default();
            self.drive.payload.extract(plan, bytes, owner, record.offset, &mut out).map_err(|error| {
                let text = format!("{}, record at block {}: {error}", fetch.zone, record.block);
                FilesError::new(FilesErrorKind::Corrupt, text)
            })?;
        }
        Ok(out)
    }
}

/// The error of a read: blocks that were never written are lost ones.
fn read_error(error: DeviceError) -> FilesError {
    match error.violation() {
        Some(violation) => FilesError::new(FilesErrorKind::Corrupt, format!("bytes are lost: {violation}")),
        None => error.into(),
    }
}
