//! A command's turn in its zone: its effect on the file once it may go.
//!
//! **Owns** the order of bytes and table entries. **Knows nothing of** the rules of zones: the state machine has accepted
//! the command before it gets its turn.

use std::io;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, Lba, ZoneId};

use crate::error::{DeviceError, DeviceErrorKind, DeviceResult, Violation};
use crate::file::host;
use crate::file::shared::Shared;
use crate::lanes::{Kind, LanePlace, Settled};
use crate::zone::ZoneState;

/// The fewest slots that the file of a drive in use is long.
const LENGTH_MIN: u32 = 16;

/// A command's place in its zone's lane; leaves it when dropped.
pub(super) struct Turn {
    shared: Rc<Shared>,
    zone: ZoneId,
    kind: Kind,
    place: LanePlace,
    started: bool,
}

impl Turn {
    /// The next place in the lane of `zone`, which was `before` until this command.
    pub(super) fn new(shared: Rc<Shared>, zone: ZoneId, kind: Kind, before: Settled) -> Self {
        let place = shared.state.borrow_mut().lanes.enter(zone, kind, before);
        Self { shared, zone, kind, place, started: false }
    }

    /// True if the command may go at once; then it has begun.
    pub(super) fn starts(&mut self) -> bool {
        self.started = self.place.go.is_none();
        self.started
    }

    /// Waits until the command may go.
    pub(super) async fn wait(&mut self) -> DeviceResult<()> {
        if let Some(go) = self.place.go.take()
            && go.await.is_err()
        {
            // Only a device that is being dropped forgets its lanes.
            return Err(self.shared.error(DeviceErrorKind::Gone, self.start()));
        }
        self.started = true;
        self.shared.begin(self.start())
    }

    fn start(&self) -> Lba {
        self.shared.geometry.start_of(self.zone)
    }

    /// Refuses to go on behind a failed write (ZD-LN-2).
    pub(super) fn check(&self) -> DeviceResult<()> {
        let failed = self.shared.state.borrow().lanes.failed(self.zone, self.place.epoch);
        if failed { Err(self.shared.error(DeviceErrorKind::WriteFailed, self.start())) } else { Ok(()) }
    }

    pub(super) fn settle(&self, settled: Settled) -> DeviceResult<()> {
        self.shared.state.borrow_mut().lanes.settle(self.zone, settled);
        self.shared.persist(self.zone, settled)
    }

    /// As [`settle`](Self::settle), behind a write.
    pub(super) async fn settle_behind(&self, settled: Settled) -> DeviceResult<()> {
        self.shared.state.borrow_mut().lanes.settle(self.zone, settled);
        self.shared.persist_behind(self.zone, settled).await
    }

    pub(super) async fn write(&self, at: Lba, data: Vec<Bytes>) -> io::Result<()> {
        let first = self.shared.state.borrow().slots.get(self.zone).is_none();
        let slot = loop {
            let found = self.slot_for_write();
            let given_back = self.shared.state.borrow().slots.any_given_back();
            match found {
                Ok(Some(slot)) => break slot,
                // Slots given back since the last flush make room.
                Ok(None) | Err(_) if given_back => self.shared.sync().await?,
                Ok(None) => return Err(io::ErrorKind::StorageFull.into()),
                Err(error) => return Err(error),
            }
        };
        if slot >= self.shared.state.borrow().durable_length {
            // An entry that names a slot past the end of the file would make the drive one that was cut short.
            self.shared.sync().await?;
        }
        if first && self.shared.file.is_node() && self.shared.geometry.is_conventional(self.zone) {
            // Unwritten blocks of a conventional zone read as zeros; a block device holds old bytes.
            let (file, start) = (self.shared.file.clone(), self.shared.slot_at(slot));
            let length = self.shared.geometry.zone_size.bytes();
            let zeroed = self.shared.runtime.blocking(move || host::zero(&file, start, length)).await;
            if let Err(error) = zeroed.unwrap_or_else(|lost| Err(io::Error::other(lost))) {
                self.shared.state.borrow_mut().slots.untake(self.zone);
                return Err(error);
            }
        }
        let offset = self.shared.offset(slot, at);
        if self.shared.state.borrow().uncleared.contains(&self.zone) {
            self.clear_from(offset, slot).await?;
        }
        if let Some(zeros) = self.zeros_behind(at, &data) {
            use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
            let with_zeros = data.iter().cloned().chain([zeros]).collect();
            match self.write_at(offset, with_zeros).await {
                // The zeros alone may be too many.
                Err(error) if matches!(error.kind(), StorageFull | FileTooLarge | QuotaExceeded) => {}
                done => return done,
            }
        }
        self.write_at(offset, data).await
    }

    /// Clears what lies behind the write pointer of a zone before it is written on for the first time. Not at the opening: where there are no
    /// holes it is read, a zone's length at most. (ZD-FD-5)
    async fn clear_from(&self, offset: u64, slot: u32) -> io::Result<()> {
        let shared = &self.shared;
        let (file, end) = (shared.file.clone(), shared.slot_at(slot) + shared.geometry.zone_size.bytes());
        let cleared = shared.runtime.blocking(move || host::clear(&file, offset, end - offset)).await;
        cleared.unwrap_or_else(|lost| Err(io::Error::other(lost)))?;
        shared.sync().await?;
        shared.state.borrow_mut().uncleared.remove(&self.zone);
        Ok(())
    }

    async fn write_at(&self, offset: u64, data: Vec<Bytes>) -> io::Result<()> {
        let writes = &self.shared.writes;
        writes.set(writes.get() + 1);
        let done = self.shared.io.write(offset, data).await;
        writes.set(writes.get() - 1);
        done
    }

    /// Zeros that make the syncs of later writes cheap. A block device has all its blocks.
    fn zeros_behind(&self, at: Lba, data: &[Bytes]) -> Option<Bytes> {
        let Shared { geometry, file, ahead, .. } = &*self.shared;
        if file.is_node() || geometry.is_conventional(self.zone) {
            return None;
        }
        let length = data.iter().map(|piece| piece.len() as u64).sum();
        ahead.of_write(self.zone, (at - self.start()).bytes(), length, geometry.zone_capacity.bytes())
    }

    /// The zone's slot, a new one if it has none; `None` if only a flush makes one free. The file then grows, by as much again so that few writes wait for its
    /// length; here and not on a blocking thread, where two such changes could overtake each other.
    fn slot_for_write(&self) -> io::Result<Option<u32>> {
        let state = &mut *self.shared.state.borrow_mut();
        if let Some(slot) = state.slots.get(self.zone) {
            return Ok(Some(slot));
        }
        let Some(slot) = state.slots.take(self.zone) else { return Ok(None) };
        if slot < state.length {
            return Ok(Some(slot));
        }
        let most = self.shared.geometry.zone_count;
        let wanted = (slot + 1).saturating_mul(2).clamp(LENGTH_MIN.min(most), most);
        let grow = |length| self.shared.file.resize(self.shared.slot_at(length)).map(|()| length);
        match grow(wanted).or_else(|_| grow(slot + 1)) {
            Ok(length) => {
                state.length = length;
                Ok(Some(slot))
            }
            Err(error) => {
                state.slots.untake(self.zone);
                Err(error)
            }
        }
    }

    /// A write failed: the zone stays as it was settled, none of its bytes stay behind the write pointer (ZD-FD-6), and the commands behind it
    /// are refused.
    pub(super) async fn fail(&self, error: io::Error, at: Lba, length: Blocks) -> DeviceError {
        let shared = &self.shared;
        if error.kind() == io::ErrorKind::NotConnected {
            // The bytes may land yet: the table stays as it is, and no further command runs.
            return shared.failed(error, true, at);
        }
        let conventional = shared.geometry.is_conventional(self.zone);
        let cleared = if conventional { Ok(()) } else { self.clear(at, length).await };
        if !conventional {
            let state = &mut *shared.state.borrow_mut();
            if state.lanes.fail(self.zone, self.place.epoch)
                && let Some(settled) = state.lanes.settled(self.zone)
            {
                state.machine.write_failed(self.zone, Blocks(u64::from(settled.written)));
                let info = state.machine.info(self.zone);
                state.lanes.settle(self.zone, Settled { state: info.state, ..settled });
            }
        }
        let settled = shared.state.borrow().lanes.settled(self.zone);
        if let Some(settled) = settled
            && let Err(error) = shared.persist(self.zone, settled)
        {
            return error;
        }
        match (cleared, shared.begin(at)) {
            (Ok(()), _) => shared.failed(error, true, at),
            (Err(_), Err(gone)) => gone,
            (Err(_), Ok(())) => shared.error(DeviceErrorKind::WriteFailed, at),
        }
    }

    /// Makes durable zeros of what a failed write may have left: else a later write that the machine loses, and whose entry it keeps, could
    /// show those bytes.
    async fn clear(&self, at: Lba, length: Blocks) -> io::Result<()> {
        let shared = &self.shared;
        let Some(slot) = shared.state.borrow().slots.get(self.zone) else { return Ok(()) };
        shared.ahead.forget(self.zone);
        let (file, at, length) = (shared.file.clone(), shared.offset(slot, at), length.bytes());
        let cleared = shared.runtime.blocking(move || host::clear(&file, at, length)).await;
        cleared.unwrap_or_else(|lost| Err(io::Error::other(lost)))?;
        shared.sync().await
    }

    /// Reads as the state machine has admitted. The turn ends when the read does, even if the caller has gone.
    pub(super) async fn read(self, at: Lba, length: Blocks, end: u64) -> DeviceResult<Bytes> {
        let shared = self.shared.clone();
        let (slot, settled) = {
            let state = shared.state.borrow();
            (state.slots.get(self.zone), state.lanes.settled(self.zone))
        };
        if self.kind == Kind::LateRead
            && let Some(settled) = settled.filter(|settled| end > u64::from(settled.written))
            && !shared.geometry.is_conventional(self.zone)
        {
            // The write it waited for failed.
            let write_pointer = self.start() + Blocks(u64::from(settled.written));
            let violation = Violation::PastWritePointer { end: at + length, write_pointer };
            return Err(shared.error(DeviceErrorKind::Rule(violation), at));
        }
        let Some(slot) = slot else { return Ok(AlignedBuf::zeroed(length).freeze()) };
        let read = shared.io.read(shared.offset(slot, at), length, Box::new(self));
        read.await.map_err(|error| shared.failed(error, false, at))
    }

    /// The table says empty before the bytes go, and keeps the slot until they are gone, so that a process that ends in
    /// between leaves neither a zone that claims missing bytes nor space that is never freed.
    pub(super) async fn reset(&self) -> DeviceResult<()> {
        let shared = &self.shared;
        let empty = Settled { state: ZoneState::Empty, written: 0 };
        shared.ahead.forget(self.zone);
        self.settle(empty)?;
        shared.state.borrow_mut().uncleared.remove(&self.zone);
        let Some(slot) = shared.state.borrow().slots.get(self.zone) else { return Ok(()) };
        let (file, at, length) = (shared.file.clone(), shared.slot_at(slot), shared.geometry.zone_size.bytes());
        let punched = shared.runtime.blocking(move || host::punch(&file, at, length)).await;
        if !matches!(punched, Ok(Ok(()))) {
            // A file system without holes: the zone keeps its slot and writes over it.
            return Ok(());
        }
        shared.state.borrow_mut().slots.release(self.zone, shared.flush.get());
        shared.persist(self.zone, empty)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.started {
            self.shared.state.borrow_mut().lanes.leave(self.zone, self.kind);
        }
    }
}
