//! Commands: from the state machine's consent to the drive, and on to their answers.

use std::io;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_zoned::lanes::{Kind, LanePlace, Settled};
use shingle_zoned::{DeviceErrorKind, DeviceResult, Target, Violation, ZoneOp, ZoneState, gathered_length};
use tokio::sync::oneshot;

use crate::device::shared::Shared;
use crate::device::work::{Answered, Read, Work, Write};
use crate::gate::{Entry, Reservation, Room};
use crate::ioctl;
use crate::ring::{Completed, Io};
use crate::zones::BLOCK_SECTORS;

/// The drive's error for a command for which it has no place.
fn no_place() -> io::Error {
    io::Error::from_raw_os_error(libc::EOVERFLOW)
}

impl Shared {
    /// Queues an operation at the block `at`.
    pub(super) fn push(&self, io: Io, at: Lba, work: Work) {
        // If the device is dropped, so is the work, and with it the sender of its answer.
        self.seat.push(io, at.byte_offset(), work);
    }

    pub(super) fn start_read(self: &Rc<Self>, at: Lba, length: Blocks) -> DeviceResult<Answered<Bytes>> {
        self.begin(at)?;
        let state = &mut *self.state.borrow_mut();
        let zone = state.machine.read(at, length)?;
        let end = (at - self.geometry.start_of(zone)) + length;
        let kind = state.lanes.read_kind(zone, end, self.geometry.is_conventional(zone));
        let before = state.machine.info(zone).into();
        let place = state.lanes.enter(zone, kind, before);
        let (answer, answered) = oneshot::channel();
        let read = Read { zone, kind, at, length, answer };
        match place.go {
            None => self.send_read(read),
            Some(go) => {
                let shared = self.clone();
                self.runtime.spawn_detached(async move {
                    if go.await.is_ok() {
                        shared.late_read(read);
                    }
                });
            }
        }
        Ok(answered)
    }

    /// A read whose turn has come: the write it waited for may have failed.
    fn late_read(&self, read: Read) {
        let settled = self.state.borrow().lanes.settled(read.zone);
        let start = self.geometry.start_of(read.zone);
        let end = read.at + read.length;
        if let Some(settled) = settled.filter(|settled| (end - start).0 > u64::from(settled.written))
            && read.kind == Kind::LateRead
            && !self.geometry.is_conventional(read.zone)
        {
            let write_pointer = start + Blocks(u64::from(settled.written));
            let violation = Violation::PastWritePointer { end, write_pointer };
            self.state.borrow_mut().lanes.leave(read.zone, read.kind);
            let _ = read.answer.send(Err(self.error(DeviceErrorKind::Rule(violation), read.at)));
            return;
        }
        self.send_read(read);
    }

    fn send_read(&self, read: Read) {
        let Some(buffer) = self.seat.read_buffer(read.length.bytes() as usize) else { return };
        let at = read.at;
        self.push(Io::Read(buffer), at, Work::Read(read));
    }

    pub(super) fn start_write(self: &Rc<Self>, target: Target, data: Vec<Bytes>) -> DeviceResult<Answered<Lba>> {
        let start = target.start(&self.geometry);
        self.begin(start)?;
        let length = gathered_length(&data).map_err(|rule| self.error(DeviceErrorKind::Rule(rule), start))?;
        let before = self.geometry.zone_of(start).map_or(Settled::NOTHING, |zone| self.settled(zone));
        let (answer, answered) = oneshot::channel();
        let applied = self.state.borrow_mut().machine.write_to(target, length)?;
        self.close(applied.closed);
        let (place, reservation, write) = {
            let state = &mut *self.state.borrow_mut();
            let (zone, at) = (applied.zone, applied.at);
            let after = state.machine.info(zone).into();
            let place = state.lanes.enter(zone, Kind::Write, before);
            let reservation = match &mut state.gate {
                Some(gate) if !self.geometry.is_conventional(zone) => Some(gate.ask(zone)),
                _ => None,
            };
            let epoch = place.epoch;
            (place, reservation, Write { zone, epoch, at, after, answer })
        };
        // Nearly always it may go at once, without a task of its own.
        if place.go.is_some() {
            self.queue_write(Some(place), reservation, write, data);
            return Ok(answered);
        }
        match self.enter_gate(reservation) {
            Room::Now(entry) => self.admit_write(entry, write, data),
            Room::Later(room) => {
                let shared = self.clone();
                self.runtime.spawn_detached(async move {
                    if let Ok(entry) = room.await {
                        shared.admit_write(entry, write, data);
                    }
                });
            }
        }
        Ok(answered)
    }

    fn queue_write(
        self: &Rc<Self>,
        place: Option<LanePlace>,
        reservation: Option<Reservation>,
        write: Write,
        data: Vec<Bytes>,
    ) {
        let shared = self.clone();
        self.runtime.spawn_detached(async move {
            if let Some(go) = place.and_then(|place| place.go)
                && go.await.is_err()
            {
                return;
            }
            if let Err(error) = shared.check(write.zone, write.epoch, reservation) {
                let _ = write.answer.send(Err(error));
                return;
            }
            if let Some(entry) = shared.wait_for_room(reservation).await {
                shared.admit_write(entry, write, data);
            }
        });
    }

    fn admit_write(self: &Rc<Self>, entry: Entry, write: Write, data: Vec<Bytes>) {
        match entry {
            Entry::Go => self.send_write(write, data),
            Entry::NoPlace => self.complete(Completed { tag: Work::Write(write), result: Err(no_place()) }),
        }
    }

    fn enter_gate(&self, reservation: Option<Reservation>) -> Room {
        match (self.state.borrow_mut().gate.as_mut(), reservation) {
            (Some(gate), Some(reservation)) => gate.enter(reservation),
            _ => Room::Now(Entry::Go),
        }
    }

    /// `None`: the device is gone.
    async fn wait_for_room(&self, reservation: Option<Reservation>) -> Option<Entry> {
        match self.enter_gate(reservation) {
            Room::Now(entry) => Some(entry),
            Room::Later(room) => room.await.ok(),
        }
    }

    /// Refuses a command whose turn has come behind a failed one (ZD-LN-2), and ends it.
    fn check(&self, zone: ZoneId, epoch: u32, reservation: Option<Reservation>) -> DeviceResult<()> {
        let state = &mut *self.state.borrow_mut();
        if !state.lanes.failed(zone, epoch) {
            return Ok(());
        }
        if let (Some(gate), Some(reservation)) = (&mut state.gate, reservation) {
            gate.cancel(reservation);
        }
        state.lanes.leave(zone, Kind::Write);
        Err(self.error(DeviceErrorKind::WriteFailed, self.geometry.start_of(zone)))
    }

    fn send_write(&self, write: Write, data: Vec<Bytes>) {
        let at = write.at;
        self.push(Io::Write(data, self.write_max), at, Work::Write(write));
    }

    /// `None`: there is nothing to do.
    pub(super) fn start_manage(self: &Rc<Self>, zone: ZoneId, op: ZoneOp) -> DeviceResult<Option<Answered<()>>> {
        let start = self.geometry.start_of(zone);
        self.begin(start)?;
        let before = if zone.0 < self.geometry.zone_count { self.settled(zone) } else { Settled::NOTHING };
        let applied = self.state.borrow_mut().machine.manage(zone, op)?;
        let after = self.settled(zone);
        self.close(applied.closed);
        // An empty zone may be one whose reset is still under way, and may fail.
        let pending = op == ZoneOp::Reset && !self.state.borrow().lanes.idle(zone);
        if before == after && !pending {
            return Ok(None);
        }
        Ok(Some(self.send_change(zone, op, before, after)))
    }

    /// Closes at the drive the zone that the state machine closed to make room: left to itself, the drive might close
    /// another, or none. Only the gate waits for it.
    pub(super) fn close(self: &Rc<Self>, closed: Option<ZoneId>) {
        let Some(zone) = closed else { return };
        let after = self.settled(zone);
        let before = Settled { state: ZoneState::ImplicitOpen, ..after };
        drop(self.send_change(zone, ZoneOp::Close, before, after));
    }

    /// Puts a zone command, which the state machine has accepted, in its zone's lane.
    fn send_change(self: &Rc<Self>, zone: ZoneId, op: ZoneOp, before: Settled, after: Settled) -> Answered<()> {
        let kind = if op == ZoneOp::Reset { Kind::Alone } else { Kind::Write };
        let (place, reservation) = {
            let state = &mut *self.state.borrow_mut();
            let takes = matches!(op, ZoneOp::Open | ZoneOp::Finish);
            let reservation = state.gate.as_mut().filter(|_| takes).map(|gate| gate.ask(zone));
            (state.lanes.enter(zone, kind, before), reservation)
        };
        let (answer, answered) = oneshot::channel();
        let shared = self.clone();
        self.runtime.spawn_detached(async move {
            let epoch = place.epoch;
            if let Some(go) = place.go
                && go.await.is_err()
            {
                return;
            }
            if kind != Kind::Alone
                && let Err(error) = shared.check(zone, epoch, reservation)
            {
                let _ = answer.send(Err(error));
                return;
            }
            let Some(entry) = shared.wait_for_room(reservation).await else { return };
            let Some(held) = shared.node().map(|node| node.hold()) else { return };
            let start = shared.geometry.start_of(zone);
            let sectors = shared.geometry.zone_size.0 * BLOCK_SECTORS;
            let work = move || ioctl::manage(held.file(), op, start.0 * BLOCK_SECTORS, sectors);
            let done = match entry {
                Entry::Go => shared.runtime.blocking(work).await.unwrap_or_else(|lost| Err(io::Error::other(lost))),
                Entry::NoPlace => Err(no_place()),
            };
            let result = match done {
                Ok(()) => {
                    shared.state.borrow_mut().settle(zone, after);
                    Ok(())
                }
                Err(error) => Err(shared.change_failed(zone, epoch, start, error, Some(op)).await),
            };
            shared.state.borrow_mut().lanes.leave(zone, kind);
            let _ = answer.send(result);
        });
        answered
    }

    /// The ring has done its part.
    pub(super) fn complete(self: &Rc<Self>, completed: Completed<Work>) {
        let Completed { tag, result } = completed;
        // The caller may have gone away: a dropped future changes nothing.
        match (tag, result) {
            (Work::Read(read), Ok(bytes)) => {
                self.state.borrow_mut().lanes.leave(read.zone, read.kind);
                let _ = read.answer.send(Ok(bytes));
            }
            (Work::Write(write), Ok(_)) => {
                {
                    let state = &mut *self.state.borrow_mut();
                    if !self.geometry.is_conventional(write.zone) {
                        state.settle(write.zone, write.after);
                    }
                    state.lanes.leave(write.zone, Kind::Write);
                }
                let _ = write.answer.send(Ok(write.at));
            }
            (Work::Flush(answer), Ok(_)) => {
                let _ = answer.send(Ok(()));
            }
            (Work::Read(read), Err(error)) => {
                let shared = self.clone();
                self.runtime.spawn_detached(async move {
                    let error = shared.read_failed(read.zone, read.at, error).await;
                    shared.state.borrow_mut().lanes.leave(read.zone, read.kind);
                    let _ = read.answer.send(Err(error));
                });
            }
            (Work::Write(write), Err(error)) => {
                let shared = self.clone();
                self.runtime.spawn_detached(async move {
                    let error = shared.change_failed(write.zone, write.epoch, write.at, error, None).await;
                    shared.state.borrow_mut().lanes.leave(write.zone, Kind::Write);
                    let _ = write.answer.send(Err(error));
                });
            }
            (Work::Flush(answer), Err(error)) => {
                let _ = answer.send(Err(self.flush_failed(error)));
            }
        }
    }
}
