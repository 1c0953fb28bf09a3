//! Reads: from the index to verified bytes. (SMRstore, sections 5.2 and 5.3.)
//!
//! # Invariants
//! - CS-READ-1: every byte returned lay in a slice whose checksum, chunk and offset were verified, or is still in memory
//!   from the append that brought it.
//! - CS-READ-3: a read that touches a hole fails (CS-IDX-6); it never returns fewer bytes than were asked for.
//! - CS-READ-4: a read ends when its caller goes away, and its pins with it. A command that the drive has begun ends by
//!   itself. `reads_of_callers_who_left_pin_nothing`.
//! - CS-READ-5: reads of clients that the drive has under way are of at most [`UNDER_WAY`] bytes, and a command counts until the drive has answered. Others wait
//!   without memory. `a_slow_drive_has_few_reads_under_way`.
//! - CS-READ-2: a zone is not reset while a read of it is under way (a pin).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{ChunkId, ZoneId};
use shingle_record::SlicePlan;

use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result, read_error};
use crate::index::Located;
use crate::read::{Fetched, Raw, UNDER_WAY};

/// A client's read, which the client may leave.
#[derive(Default)]
pub(crate) struct Fetching {
    pins: RefCell<Vec<Pin>>,
    left: Cell<bool>,
}

impl Fetching {
    /// Lets go of the zones, and begins no further command. (CS-READ-4)
    pub(crate) fn leave(&self) {
        self.left.set(true);
        self.pins.take();
    }

    fn goes_on(&self) -> Result<()> {
        if self.left.get() {
            return Err(Error::new(ErrorKind::Stopped, "the caller went away"));
        }
        Ok(())
    }
}

/// Keeps a zone from being reset until dropped.
pub(crate) struct Pin {
    engine: Rc<Engine>,
    zone: ZoneId,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut state = self.engine.state.borrow_mut();
        let zone = state.zones.get_mut(self.zone);
        zone.pins -= 1;
        if zone.pins == 0 && zone.groups.is_empty() {
            self.engine.wakes.keeper.notify_one();
        }
    }
}

impl Engine {
    /// Pins a zone.
    pub(crate) fn pin(self: &Rc<Self>, zone: ZoneId) -> Pin {
        self.state.borrow_mut().zones.get_mut(zone).pins += 1;
        Pin { engine: self.clone(), zone }
    }

    /// See [`ChunkClient::read`](crate::ChunkClient::read).
    pub(crate) async fn read(self: &Rc<Self>, id: ChunkId, offset: u64, length: u64) -> Result<Bytes> {
        self.fetch(id, offset, length, &Fetching::default()).await?.verify()
    }

    /// Reads, and leaves it to the caller to verify (CS-FETCH-1).
    pub(crate) async fn fetch(
        self: &Rc<Self>,
        id: ChunkId,
        offset: u64,
        length: u64,
        fetching: &Fetching,
    ) -> Result<Fetched> {
        let (records, landed, from, to) = {
            let state = self.state.borrow();
            // A store that can write no more still reads.
            if self.closing.get() {
                state.running()?;
            }
            let (handle, chunk) = state.chunk(id)?;
            let size = u64::from(chunk.size);
            let end = offset.checked_add(length).filter(|&end| end <= size).ok_or_else(|| {
                let text = format!("read of {length} bytes at {offset}, but the chunk ends at {size}");
                Error::new(ErrorKind::OutOfRange { size }, text).of(id)
            })?;
            if length == 0 {
                return Ok(Bytes::new().into());
            }
            let (from, to) = (offset as u32, end as u32);
            let stored = chunk.groups.end();
            let records: Vec<Located> =
                if from < stored { chunk.groups.covering(from, to.min(stored)).collect() } else { Vec::new() };
            let landed = match state.open.get(&handle) {
                Some(open) if stored < to => open.tail.bytes(from.max(stored), to),
                _ => Vec::new(),
            };
            (records, landed, from, to)
        };
        // All at once: a chunk's records may move to other zones while the first of them are read.
        let mut zones: Vec<ZoneId> = records.iter().map(|record| record.zone).collect();
        zones.dedup();
        fetching.pins.replace(zones.into_iter().map(|zone| self.pin(zone)).collect());
        if !records.is_empty()
            && let Some(landing) = &mut self.state.borrow_mut().landing
        {
            landing.note_other_command();
        }
        // Never closed. Bytes in memory wait for no drive.
        let bytes = if records.is_empty() { 0 } else { (to - from).min(UNDER_WAY as u32) };
        let _place = self.reads.acquire_many(bytes).await.ok();
        let (mut raw, mut at) = (Vec::with_capacity(records.len()), from);
        for record in records {
            let (begin, end) = (from.max(record.offset), to.min(record.end()));
            not_lost(id, at, begin)?;
            fetching.goes_on()?;
            raw.push(self.read_raw(id, record, begin - record.offset, end - begin).await?);
            at = end;
        }
        fetching.pins.take();
        not_lost(id, at + landed.iter().map(Bytes::len).sum::<usize>() as u32, to)?;
        let mut state = self.state.borrow_mut();
        state.counters.reads += 1;
        state.counters.read_bytes += length;
        Ok(Fetched::raw(id, raw, landed, length as usize, self.verifier.clone()))
    }

    /// Appends `length` verified bytes of a record, from `from` bytes into its data, to `out`.
    pub(crate) async fn read_record(
        &self,
        id: ChunkId,
        record: Located,
        from: u32,
        length: u32,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let raw = self.read_raw(id, record, from, length).await?;
        self.verifier.append(id, &raw, out)
    }

    async fn read_raw(&self, id: ChunkId, record: Located, from: u32, length: u32) -> Result<Raw> {
        let plan = SlicePlan::new(record.length, from, length);
        let start = self.drive.block(record.zone, record.block);
        let at = start + plan.first_block();
        let blocks = self.drive.dev.read(at, plan.blocks()).await.map_err(|error| read_error(error).of(id))?;
        Ok(Raw { plan, blocks, record_offset: record.offset, at })
    }
}

/// Fails where no record has the bytes between two that follow each other (CS-IDX-6).
fn not_lost(id: ChunkId, from: u32, to: u32) -> Result<()> {
    if from == to {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Corrupt, format!("bytes {from} to {to} are lost: no record of them was found")).of(id))
}
