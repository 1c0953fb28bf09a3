//! Making the file of a drive, and taking it up again.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use shingle_base::{BLOCK_SIZE, Blocks, ZoneId};
use shingle_runtime::Runtime;

use crate::file::error::{FileDeviceError, FileDeviceErrorKind};
use crate::file::format::{BadHeader, ENTRY_SIZE, Entry, Header, TABLE_AT};
use crate::file::host::{self, Claimed};
use crate::file::slots::Slots;
use crate::geometry::Geometry;
use crate::machine::Machine;
use crate::peek::PeekDevice;
use crate::zone::ZoneState;

/// Bytes zeroed at both ends of a block device: all that `wipefs` and `blkid` look at there. ZFS goes farthest, with
/// two labels of 256 KiB at each end; the second partition table and old RAID formats lie in the last 128 KiB.
const MARKS_BYTES: u64 = 512 << 10;

/// Options for making a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreateOptions {
    /// Put the new drive in place of one that is there, whose data is lost. Anything but a drive or an empty file is
    /// left alone all the same.
    pub overwrite: bool,
}

/// A drive that was opened.
pub(crate) struct Opened {
    pub(crate) file: Claimed,
    pub(crate) header: Header,
    pub(crate) machine: Machine,
    pub(crate) slots: Slots,
}

pub(crate) fn create(path: &Path, geometry: &Geometry, options: CreateOptions) -> Result<(), FileDeviceError> {
    let failed = |error| FileDeviceError::from_io(error, path);
    geometry.validate().map_err(|error| FileDeviceError::new(FileDeviceErrorKind::Geometry(error), path))?;
    let mut open = OpenOptions::new();
    // It may hold anybody's data: only the user who makes it lets others in.
    open.read(true).write(true).mode(0o600);
    let new = open.clone().create_new(true).open(path);
    let is_new = new.is_ok();
    let file = match new {
        Err(error) if options.overwrite && error.kind() == io::ErrorKind::AlreadyExists && !host::is_node(path) => {
            open.open(path).map_err(failed)?
        }
        other => other.map_err(failed)?,
    };
    let file = host::claim(file, path)?;
    if file.length().map_err(failed)? > 0 {
        let first = read_header(&file).map_err(failed)?;
        if Header::parse(&first) == Err(BadHeader::NotADrive) {
            return Err(FileDeviceError::new(FileDeviceErrorKind::NotADrive, path));
        }
    }
    write_new(&file, geometry).and_then(|()| sync_directory(path)).map_err(|error| {
        if is_new {
            // None of it was ever used; if it cannot be removed either, the first error still says why.
            let _ = std::fs::remove_file(path);
        }
        failed(error)
    })
}

/// Makes a drive on a block device, over any contents but another drive.
pub(crate) fn create_on_node(path: &Path, geometry: &Geometry, options: CreateOptions) -> Result<(), FileDeviceError> {
    let failed = |error| FileDeviceError::from_io(error, path);
    let wrong = |kind| Err(FileDeviceError::new(kind, path));
    geometry.validate().map_err(|error| FileDeviceError::new(FileDeviceErrorKind::Geometry(error), path))?;
    let file = host::claim(host::existing(path).open(path).map_err(failed)?, path)?;
    if !file.is_node() {
        return wrong(FileDeviceErrorKind::NotADrive);
    }
    let length = file.length().map_err(failed)?;
    let header = Header::new(geometry);
    let needed = header.data_at.saturating_add(geometry.blocks().bytes());
    if needed > length {
        return wrong(FileDeviceErrorKind::TooSmall { length, needed });
    }
    let first = read_header(&file).map_err(failed)?;
    if Header::parse(&first) != Err(BadHeader::NotADrive) && !options.overwrite {
        return wrong(FileDeviceErrorKind::Exists);
    }
    write_new(&file, geometry).map_err(failed)
}

/// Zones of `zone_size` that fit on a block device of `length` bytes, beside header and table.
pub(crate) fn zones_that_fit(length: u64, zone_size: Blocks) -> u32 {
    let each = zone_size.bytes() + ENTRY_SIZE as u64;
    // A block for the header, and one because the table ends at a block.
    let room = length.saturating_sub(2 * BLOCK_SIZE as u64);
    u32::try_from(room / each.max(1)).unwrap_or(u32::MAX)
}

/// The header goes last: a file without one is no drive, so that half a drive is never taken for one.
fn write_new(file: &Claimed, geometry: &Geometry) -> io::Result<()> {
    let machine = Machine::new(geometry.clone()).map_err(io::Error::other)?;
    let header = Header::new(geometry);
    if file.is_node() {
        // An old drive ends here, before its table does.
        file.write_all_at(&[0; BLOCK_SIZE], 0)?;
        file.sync_all()?;
        wipe_marks(file, file.length()?)?;
    }
    file.resize(0)?;
    file.resize(header.data_at)?;
    let mut table = Vec::with_capacity(geometry.zone_count as usize * ENTRY_SIZE);
    for zone in (0..geometry.zone_count).map(ZoneId) {
        let entry = Entry { state: machine.info(zone).state, written: 0, slot: None };
        table.extend(entry.to_bytes(zone));
    }
    file.write_all_at(&table, TABLE_AT)?;
    file.sync_all()?;
    file.write_all_at(&header.to_bytes(), 0)?;
    file.sync_all()
}

/// Wipes marks of other owners from the ends of a block device. With a mark that stayed, the next boot, or the next
/// `mdadm --assemble --scan`, would take the drive for its former use.
fn wipe_marks(file: &File, length: u64) -> io::Result<()> {
    let zeros = vec![0; MARKS_BYTES.min(length) as usize];
    file.write_all_at(&zeros, 0)?;
    file.write_all_at(&zeros, length - zeros.len() as u64)
}

/// Makes the file's name durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

/// The first block of the file, or as much of it as there is.
fn read_header(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; BLOCK_SIZE];
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

pub(crate) fn open(path: &Path) -> Result<Opened, FileDeviceError> {
    let failed = |error| FileDeviceError::from_io(error, path);
    let wrong = |kind| FileDeviceError::new(kind, path);
    let file = host::existing(path).open(path).map_err(failed)?;
    let file = host::claim(file, path)?;
    let length = file.length().map_err(failed)?;
    let truncated = |needed| wrong(FileDeviceErrorKind::Truncated { length, needed });
    let header = parse_header(&file, path, length)?;
    if length < header.data_at {
        return Err(truncated(header.data_at));
    }
    let (machine, slots) = read_table(&file, &header).map_err(|error| error.named(path))?;
    let mut opened = Opened { file, header, machine, slots };
    let end = opened.slot_at(opened.length());
    if length < end {
        return Err(truncated(end));
    }
    opened.tidy().map_err(failed)?;
    Ok(opened)
}

fn parse_header(file: &File, path: &Path, length: u64) -> Result<Header, FileDeviceError> {
    let bytes = read_header(file).map_err(|error| FileDeviceError::from_io(error, path))?;
    Header::parse(&bytes).map_err(|bad| {
        let kind = match bad {
            BadHeader::NotADrive => FileDeviceErrorKind::NotADrive,
            BadHeader::NewerVersion(version) => FileDeviceErrorKind::NewerVersion(version),
            BadHeader::CutShort => FileDeviceErrorKind::Truncated { length, needed: BLOCK_SIZE as u64 },
            BadHeader::Corrupt => FileDeviceErrorKind::CorruptHeader,
        };
        FileDeviceError::new(kind, path)
    })
}

/// A drive as it is now, with the place of each zone's bytes. It may be open elsewhere, and is left as it is.
pub(crate) fn peek(path: &Path, runtime: &Runtime) -> Result<PeekDevice, FileDeviceError> {
    let failed = |error| FileDeviceError::from_io(error, path);
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(FileDeviceError::new(FileDeviceErrorKind::Directory, path));
    }
    // A block device's length is where its end is.
    let length = (&file).seek(SeekFrom::End(0)).map_err(failed)?;
    let header = parse_header(&file, path, length)?;
    if length < header.data_at {
        let kind = FileDeviceErrorKind::Truncated { length, needed: header.data_at };
        return Err(FileDeviceError::new(kind, path));
    }
    // An entry that its owner was just writing is read again.
    let (machine, slots) = read_table(&file, &header)
        .or_else(|_| read_table(&file, &header))
        .or_else(|_| read_table(&file, &header))
        .map_err(|error| error.named(path))?;
    let slot_bytes = header.geometry.zone_size.bytes();
    let place = |zone| slots.get(zone).map(|slot| header.data_at + u64::from(slot) * slot_bytes);
    Ok(PeekDevice::new(runtime, file, machine, place))
}

enum TableError {
    Io(io::Error),
    Corrupt(ZoneId),
}

impl TableError {
    fn named(self, path: &Path) -> FileDeviceError {
        match self {
            Self::Io(error) => FileDeviceError::from_io(error, path),
            Self::Corrupt(zone) => FileDeviceError::new(FileDeviceErrorKind::CorruptTable(zone), path),
        }
    }
}

fn read_table(file: &File, header: &Header) -> Result<(Machine, Slots), TableError> {
    let count = header.geometry.zone_count;
    let mut machine = Machine::new(header.geometry.clone()).map_err(|_| TableError::Corrupt(ZoneId(0)))?;
    let mut slots = Slots::new(count);
    let mut table = vec![0; count as usize * ENTRY_SIZE];
    file.read_exact_at(&mut table, TABLE_AT).map_err(TableError::Io)?;
    for (zone, bytes) in (0..count).map(ZoneId).zip(table.chunks_exact(ENTRY_SIZE)) {
        let corrupt = || TableError::Corrupt(zone);
        let entry = Entry::parse(bytes, zone).ok_or_else(corrupt)?;
        let holds = entry.state.is_active() && entry.written > 0;
        if holds && entry.slot.is_none() || entry.slot.is_some_and(|slot| !slots.restore(zone, slot)) {
            return Err(corrupt());
        }
        machine.set(zone, entry.state, Blocks(u64::from(entry.written))).map_err(|_| corrupt())?;
    }
    machine.close_excess();
    Ok((machine, slots))
}

impl Opened {
    /// The length of the file, in slots, so far as it is certain: a block device has room for all.
    pub(crate) fn length(&self) -> u32 {
        if self.file.is_node() { self.header.geometry.zone_count } else { self.slots.end() }
    }

    fn slot_at(&self, slot: u32) -> u64 {
        self.header.data_at + u64::from(slot) * self.header.geometry.zone_size.bytes()
    }

    /// Zones that can be written on: behind their write pointers may lie what writes left that were cut off before their entries. (ZD-FD-5)
    pub(crate) fn uncleared(&self) -> BTreeSet<ZoneId> {
        let zones = (0..self.header.geometry.zone_count).map(ZoneId);
        zones.filter(|&zone| self.machine.info(zone).state.is_active() && self.slots.get(zone).is_some()).collect()
    }

    /// Frees space that its process did not: slots of resets and of first writes that were cut off.
    fn tidy(&mut self) -> io::Result<()> {
        let reset: Vec<ZoneId> = (0..self.header.geometry.zone_count)
            .map(ZoneId)
            .filter(|&zone| self.machine.info(zone).state == ZoneState::Empty && self.slots.get(zone).is_some())
            .collect();
        for zone in reset {
            self.slots.release(zone, 0);
            let entry = Entry { state: ZoneState::Empty, written: 0, slot: None };
            self.file.write_all_at(&entry.to_bytes(zone), TABLE_AT + u64::from(zone.0) * ENTRY_SIZE as u64)?;
        }
        // Effects of the last process may not be flushed: only behind this are its slots free (ZD-SL-1).
        self.file.sync_data()?;
        self.slots.flushed(0);
        for (first, end) in self.slots.free_runs() {
            // A file system without holes keeps them; nothing reads them.
            let _ = host::punch(&self.file, self.slot_at(first), self.slot_at(end) - self.slot_at(first));
        }
        self.slots.trim();
        let end = self.slot_at(self.slots.end());
        self.file.resize(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_wiped_and_nothing_between_them() {
        for (length, kept) in [(3 * MARKS_BYTES, MARKS_BYTES), (MARKS_BYTES + 4096, 0), (4096, 0)] {
            let path = std::env::temp_dir().join(format!("shingle-wipe-{}-{length}", std::process::id()));
            std::fs::write(&path, vec![7; length as usize]).unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            wipe_marks(&file, length).unwrap();
            let left = std::fs::read(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            assert_eq!(left.len() as u64, length);
            assert_eq!(left.iter().filter(|&&byte| byte != 0).count() as u64, kept);
        }
    }
}
