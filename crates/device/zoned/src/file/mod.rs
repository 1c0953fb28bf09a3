//! A zoned device in a sparse file, which any user can make.
//!
//! The zone state machine decides; the file holds zones' bytes and a table of their states. A write's bytes go to the
//! file before its entry in the table, and it completes after both: so after any end of the process the table shows
//! exactly the effects of its completed commands. A command cut off in the middle happened or did not; only in a
//! conventional zone may a part of a write be there.
//!
//! The file may be the node of an ordinary block device, for owners of such drives: it never grows, and a reset gives
//! space back only if the device can.
//!
//! Reads and writes run on blocking threads, or by what [`HostIo`] its opener brings (`shingle-zoned-linux`: a ring).
//!
//! **Owns** the file, alone: another process is refused. **Knows nothing of** the stored data.
//!
//! # Invariants
//! - ZD-FD-1: after `kill -9` every zone is as its completed commands left it, or as the command under way would have.
//!   (`a_killed_process_leaves_exactly_what_its_completed_commands_made`)
//! - ZD-FD-2: a flush is an `fdatasync`: after a failure of the machine the drive opens, with all that completed before a
//!   flush. Of the rest, the table may be older or newer than the bytes; engines find out by their records' checksums.
//!   (`any_mix_of_table_entries_since_the_last_flush_is_a_drive`)
//! - ZD-FD-3: the space of a reset zone goes back to the file system.
//! - ZD-FD-4: a failed flush and every command after it are answered with `Gone`: the system may have dropped unwritten pages, and
//!   would not say so again. One flush runs at a time, as it would say so to one of several only. (`after_a_failed_flush_the_drive_is_gone`,
//!   `a_flush_beside_one_that_fails_does_not_succeed`)
//! - ZD-FD-5: all behind the write pointer of a zone is zeros, durably, before this process writes on it: a write that the opening did not show
//!   never comes back behind later ones. (`bytes_behind_a_write_pointer_are_zeros_once_their_zone_is_written_on`)
//! - ZD-FD-6: a write that failed does not come back, either: all that it left behind the write pointer of a sequential zone is zeros, durably, before its error is
//!   told. If that cannot be, the error is `WriteFailed`, whatever it was. (`a_write_that_found_the_host_full_leaves_nothing_behind_the_write_pointer`)

mod ahead;
mod create;
mod error;
mod format;
mod host;
mod io;
mod shared;
mod slots;
mod turn;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_runtime::{Runtime, Task};

use crate::device::{DeviceFuture, ZonedDevice};
use crate::error::{DeviceError, DeviceErrorKind, DeviceResult};
use crate::file::ahead::Ahead;
use crate::file::io::Threads;
use crate::file::shared::{Shared, State};
use crate::file::turn::Turn;
use crate::flushes::Flushes;
use crate::geometry::Geometry;
use crate::lanes::{Kind, Lanes, Settled};
use crate::machine::{ImpossibleState, Target, gathered_length};
use crate::peek::PeekDevice;
use crate::zone::{ZoneInfo, ZoneOp, ZoneState};

pub use create::CreateOptions;
pub use error::{FileDeviceError, FileDeviceErrorKind};
pub use io::{Held, HostFile, HostIo};

/// True if bytes are the header of a drive's file, or a zone's entry in its table: for fuzzing, never panics.
pub fn parse_file_device(bytes: &[u8]) -> bool {
    format::Header::parse(bytes).is_ok() || format::Entry::parse(bytes, ZoneId(0)).is_some()
}

/// A drive that was opened and has no runtime yet: made by a thread that may hang, for the owner's thread to start.
pub struct TakenFile(create::Opened);

/// A zoned device in a file. Reads, and writes to different zones, run side by side.
pub struct FileDevice {
    shared: Rc<Shared>,
}

impl FileDevice {
    /// Makes a drive of this shape, with nothing in it, at `path`. The geometry's `volatile_cache` does not count: a
    /// drive in a file has one.
    ///
    /// Takes as much space as the zone table, 16 bytes a zone; the rest comes as it is written.
    ///
    /// # Errors
    /// `Exists`, `InUse`, `NotADrive`, `NoSpace`, `Geometry` or `System`. A file that was new is removed again.
    pub fn create(path: &Path, geometry: &Geometry, options: CreateOptions) -> Result<(), FileDeviceError> {
        create::create(path, geometry, options)
    }

    /// Makes a drive of this shape, with nothing in it, on the ordinary block device whose node is at `path`, as
    /// [`create`](Self::create) does in a file. All its zones must fit ([`zones_that_fit`](Self::zones_that_fit)).
    ///
    /// All data on the device is lost, and the marks of others at its ends (partition tables, RAID, file systems) are
    /// wiped; they are not looked at, except for a drive of this kind. The crate `shingle-zoned-linux` does look.
    ///
    /// # Errors
    /// `NotFound`, `NotADrive` (no block device), `Exists`, `InUse`, `TooSmall`, `Geometry` or `System`.
    pub fn create_on_node(path: &Path, geometry: &Geometry, options: CreateOptions) -> Result<(), FileDeviceError> {
        create::create_on_node(path, geometry, options)
    }

    /// Zones that fit on a block device of `length` bytes.
    pub fn zones_that_fit(length: u64, zone_size: Blocks) -> u32 {
        create::zones_that_fit(length, zone_size)
    }

    /// Opens the drive at `path`, as its last process left it. Blocks while it reads the zone table. Its commands run
    /// on the runtime's blocking threads.
    ///
    /// # Errors
    /// `NotFound`, `NotADrive`, `NewerVersion`, `Truncated`, `CorruptHeader`, `CorruptTable`, `InUse` or `System`.
    pub fn open(path: &Path, runtime: &Runtime) -> Result<Self, FileDeviceError> {
        Self::open_with(path, runtime, |_| None)
    }

    /// As [`open`](Self::open), with another way to the file's bytes; `None`: the blocking threads all the same.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(
        path: &Path,
        runtime: &Runtime,
        io: impl FnOnce(&HostFile) -> Option<Box<dyn HostIo>>,
    ) -> Result<Self, FileDeviceError> {
        Ok(Self::start(Self::take(path)?, runtime, io))
    }

    /// The first half of [`open_with`](Self::open_with): all of it that may block.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn take(path: &Path) -> Result<TakenFile, FileDeviceError> {
        create::open(path).map(TakenFile)
    }

    /// The other half of [`open_with`](Self::open_with).
    pub fn start(taken: TakenFile, runtime: &Runtime, io: impl FnOnce(&HostFile) -> Option<Box<dyn HostIo>>) -> Self {
        let TakenFile(opened) = taken;
        let (length, uncleared) = (opened.length(), opened.uncleared());
        let create::Opened { file, header, machine, slots } = opened;
        let file = Arc::new(file);
        let host = HostFile::new(file.clone());
        let io = io(&host).unwrap_or_else(|| Box::new(Threads::new(runtime, host)));
        let shared = Shared {
            runtime: runtime.clone(),
            geometry: header.geometry,
            io,
            file,
            data_at: header.data_at,
            flush: Cell::new(1),
            flushes: Flushes::default(),
            state: RefCell::new(State {
                length,
                durable_length: length,
                machine,
                slots,
                lanes: Lanes::default(),
                uncleared,
            }),
            ahead: Ahead::default(),
            writes: Cell::new(0),
            gone: Cell::new(false),
        };
        Self { shared: Rc::new(shared) }
    }

    /// Looks at the drive at `path`, which another process may have open, and changes nothing.
    ///
    /// # Errors
    /// `NotFound`, `NotADrive`, `NewerVersion`, `Truncated`, `CorruptHeader`, `CorruptTable` or `System`.
    pub fn peek(path: &Path, runtime: &Runtime) -> Result<PeekDevice, FileDeviceError> {
        create::peek(path, runtime)
    }

    /// Puts `zone` into `state`, as a failing drive does (read-only, offline).
    ///
    /// # Errors
    /// A zone of its type cannot be in `state`, or the zone table cannot be written.
    pub fn set_state(&self, zone: ZoneId, state: ZoneState) -> std::io::Result<()> {
        let impossible = |_: ImpossibleState| std::io::Error::from(std::io::ErrorKind::InvalidInput);
        if zone.0 >= self.shared.geometry.zone_count {
            return Err(impossible(ImpossibleState));
        }
        let before = self.shared.settled(zone);
        let written = Blocks(u64::from(before.written));
        self.shared.state.borrow_mut().machine.set(zone, state, written).map_err(impossible)?;
        self.shared.mark(zone, before).map(drop).map_err(|error| std::io::Error::other(error.to_string()))
    }
}

impl Shared {
    fn enter(self: &Rc<Self>, zone: ZoneId, kind: Kind, before: Settled) -> Turn {
        Turn::new(self.clone(), zone, kind, before)
    }

    /// Writes the state that the state machine has just given `zone` to the table, behind commands under way there.
    fn mark(self: &Rc<Self>, zone: ZoneId, before: Settled) -> DeviceResult<Option<Task<DeviceResult<()>>>> {
        let after = self.settled(zone);
        if self.state.borrow().lanes.idle(zone) {
            return if before == after { Ok(None) } else { self.persist(zone, after).map(|()| None) };
        }
        let mut turn = self.enter(zone, Kind::Write, before);
        Ok(Some(self.runtime.spawn(async move {
            turn.wait().await?;
            turn.check()?;
            turn.settle(after)
        })))
    }

    /// As [`mark`](Self::mark), for the zone that the device closed of itself to make room. No caller waits for it.
    fn mark_closed(self: &Rc<Self>, closed: Option<ZoneId>) -> DeviceResult<()> {
        let Some(zone) = closed else { return Ok(()) };
        let after = self.settled(zone);
        self.mark(zone, Settled { state: ZoneState::ImplicitOpen, ..after }).map(drop)
    }

    fn start_write(self: &Rc<Self>, target: Target, data: Vec<Bytes>) -> DeviceResult<Task<DeviceResult<Lba>>> {
        let start = target.start(&self.geometry);
        self.begin(start)?;
        let length = gathered_length(&data).map_err(|rule| self.error(DeviceErrorKind::Rule(rule), start))?;
        let before = self.geometry.zone_of(start).map(|zone| self.settled(zone)).unwrap_or(Settled::NOTHING);
        let applied = self.state.borrow_mut().machine.write_to(target, length)?;
        let after = self.settled(applied.zone);
        let mut turn = self.enter(applied.zone, Kind::Write, before);
        self.mark_closed(applied.closed)?;
        Ok(self.runtime.spawn(async move {
            turn.wait().await?;
            turn.check()?;
            match turn.write(applied.at, data).await {
                Ok(()) => turn.settle_behind(after).await.map(|()| applied.at),
                Err(error) => Err(turn.fail(error, applied.at, length).await),
            }
        }))
    }

    async fn read(self: &Rc<Self>, at: Lba, length: Blocks) -> DeviceResult<Bytes> {
        self.begin(at)?;
        let zone = self.state.borrow().machine.read(at, length)?;
        let end = ((at - self.geometry.start_of(zone)) + length).0;
        let kind = self.state.borrow().lanes.read_kind(zone, Blocks(end), self.geometry.is_conventional(zone));
        let mut turn = self.enter(zone, kind, self.settled(zone));
        if turn.starts() {
            // Most reads go at once, without a task.
            return turn.read(at, length, end).await;
        }
        let task = self.runtime.spawn(async move {
            turn.wait().await?;
            turn.read(at, length, end).await
        });
        self.end(at, task).await
    }

    fn start_manage(self: &Rc<Self>, zone: ZoneId, op: ZoneOp) -> DeviceResult<Option<Task<DeviceResult<()>>>> {
        let start = self.geometry.start_of(zone);
        self.begin(start)?;
        let before = if zone.0 < self.geometry.zone_count { self.settled(zone) } else { Settled::NOTHING };
        let applied = self.state.borrow_mut().machine.manage(zone, op)?;
        self.mark_closed(applied.closed)?;
        let plain = {
            let state = self.state.borrow();
            op != ZoneOp::Reset || (state.lanes.idle(zone) && state.slots.get(zone).is_none())
        };
        if plain {
            return self.mark(zone, before);
        }
        let mut turn = self.enter(zone, Kind::Alone, before);
        Ok(Some(self.runtime.spawn(async move {
            turn.wait().await?;
            turn.reset().await
        })))
    }
}

impl ZonedDevice for FileDevice {
    fn geometry(&self) -> &Geometry {
        &self.shared.geometry
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        Box::pin(async move {
            self.shared.begin(self.shared.geometry.start_of(first))?;
            Ok(self.shared.state.borrow().machine.report(first, count))
        })
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        Box::pin(self.shared.read(at, length))
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            let task = self.shared.start_write(Target::At(at), data)?;
            self.shared.end(at, task).await.map(drop)
        })
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        Box::pin(async move {
            let task = self.shared.start_write(Target::Append(zone), data)?;
            self.shared.end(self.shared.geometry.start_of(zone), task).await
        })
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            match self.shared.start_manage(zone, op)? {
                Some(task) => self.shared.end(self.shared.geometry.start_of(zone), task).await,
                None => Ok(()),
            }
        })
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        Box::pin(async move {
            self.shared.begin(Lba(0))?;
            let shared = self.shared.clone();
            let task = self.shared.runtime.spawn(async move {
                shared.sync().await.map_err(|error| {
                    tracing::error!(%error, "a flush failed: the drive is given up until it is opened again");
                    DeviceError::new(DeviceErrorKind::Gone, Lba(0), None)
                })
            });
            self.shared.end(Lba(0), task).await
        })
    }
}
