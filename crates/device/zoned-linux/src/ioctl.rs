//! The kernel's zone commands: `BLKREPORTZONE` and its relatives, as `linux/blkzoned.h` has them; and `BLKRRPART`.
//!
//! **Owns** the layout of their arguments, which the compiler checks, and the calls. **Knows nothing of** rules.

use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};

use rustix::ioctl::{NoArg, Opcode, Setter, Updater, ioctl, opcode};
use shingle_zoned::ZoneOp;

/// Zones reported at a time: 256 KiB of answer.
const REPORT_ZONES: usize = 4096;

/// `struct blk_zone`: one zone as the kernel reports it, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct RawZone {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) write_pointer: u64,
    /// 1: conventional, 2: sequential write required, 3: sequential write preferred.
    pub(crate) kind: u8,
    /// The condition's number in ZBC.
    pub(crate) condition: u8,
    pub(crate) non_sequential: u8,
    pub(crate) reset: u8,
    pub(crate) reserved: [u8; 4],
    /// Meaningful only if the report says so.
    pub(crate) capacity: u64,
    pub(crate) reserved_end: [u8; 24],
}

/// `struct blk_zone_report`, with room for its zones.
#[repr(C)]
struct Report {
    sector: u64,
    zone_count: u32,
    flags: u32,
    zones: [RawZone; REPORT_ZONES],
}

/// The head of [`Report`], whose size is part of the command's number.
#[repr(C)]
struct ReportHead {
    sector: u64,
    zone_count: u32,
    flags: u32,
}

/// `struct blk_zone_range`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Range {
    sector: u64,
    sectors: u64,
}

const _: () = {
    assert!(size_of::<RawZone>() == 64);
    assert!(offset_of!(RawZone, kind) == 24);
    assert!(offset_of!(RawZone, capacity) == 32);
    assert!(size_of::<ReportHead>() == 16);
    assert!(offset_of!(Report, zones) == 16);
    assert!(size_of::<Range>() == 16);
};

const GROUP: u8 = 0x12;
const REPORT: Opcode = opcode::read_write::<ReportHead>(GROUP, 130);
const RESET: Opcode = opcode::write::<Range>(GROUP, 131);
const OPEN: Opcode = opcode::write::<Range>(GROUP, 134);
const CLOSE: Opcode = opcode::write::<Range>(GROUP, 135);
const FINISH: Opcode = opcode::write::<Range>(GROUP, 136);
const REREAD_PARTITIONS: Opcode = opcode::none(GROUP, 95);

/// The kernel filled in the capacities (from 5.9 on).
const FLAG_CAPACITY: u32 = 1;

impl RawZone {
    const ZERO: Self = Self {
        start: 0,
        length: 0,
        write_pointer: 0,
        kind: 0,
        condition: 0,
        non_sequential: 0,
        reset: 0,
        reserved: [0; 4],
        capacity: 0,
        reserved_end: [0; 24],
    };

    /// A zone as a test would have it.
    #[cfg(test)]
    pub(crate) fn new(start: u64, length: u64, capacity: u64, kind: u8, condition: u8, write_pointer: u64) -> Self {
        Self { start, length, write_pointer, kind, condition, capacity, ..Self::ZERO }
    }
}

/// Up to `count` zones from the one that `sector` lies in.
pub(crate) fn report(file: &File, sector: u64, count: usize) -> io::Result<Vec<RawZone>> {
    let mut zones: Vec<RawZone> = Vec::new();
    let mut report = Box::new(Report { sector, zone_count: 0, flags: 0, zones: [RawZone::ZERO; REPORT_ZONES] });
    let mut next = sector;
    while zones.len() < count {
        report.sector = next;
        report.zone_count = (count - zones.len()).min(REPORT_ZONES) as u32;
        report.flags = 0;
        // SAFETY: the opcode is BLKREPORTZONE, whose argument is a `blk_zone_report` with room behind it for as many
        // zones as `zone_count` says; `Report` has that layout (checked above) and at least that room, all of it
        // plain integers, so whatever the kernel writes there is valid.
        let command = unsafe { Updater::<REPORT, Report>::new(&mut report) };
        // SAFETY: the command's argument is valid for it, as said; the file lives through the call.
        unsafe { ioctl(file, command) }?;
        let found = report.zones.get(..report.zone_count as usize).unwrap_or_default();
        let Some(last) = found.last() else { break };
        let end = last.start.checked_add(last.length).filter(|&end| end > next);
        next = end.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "the kernel's report of zones goes in circles")
        })?;
        let has_capacity = report.flags & FLAG_CAPACITY != 0;
        zones.extend(found.iter().map(|zone| match has_capacity {
            true => *zone,
            false => RawZone { capacity: zone.length, ..*zone },
        }));
    }
    Ok(zones)
}

/// Opens, closes, finishes or resets the zones of a range. Waits until the drive has done it.
pub(crate) fn manage(file: &File, op: ZoneOp, sector: u64, sectors: u64) -> io::Result<()> {
    let range = Range { sector, sectors };
    match op {
        ZoneOp::Open => command::<OPEN>(file, range),
        ZoneOp::Close => command::<CLOSE>(file, range),
        ZoneOp::Finish => command::<FINISH>(file, range),
        ZoneOp::Reset => command::<RESET>(file, range),
    }
}

fn command<const OPCODE: Opcode>(file: &File, range: Range) -> io::Result<()> {
    // SAFETY: this function is called only with the opcodes of `manage`, all of which read a `blk_zone_range`, which is
    // `Range` (layout checked above), and write nothing.
    let command = unsafe { Setter::<OPCODE, Range>::new(range) };
    // SAFETY: the command's argument is valid for it, as said; the file lives through the call.
    unsafe { ioctl(file, command) }?;
    Ok(())
}

/// Has the kernel look for partitions anew: those that are gone from the drive are gone from the kernel.
pub(crate) fn reread_partitions(file: &File) -> io::Result<()> {
    // SAFETY: the opcode is BLKRRPART, which takes no argument.
    let command = unsafe { NoArg::<REREAD_PARTITIONS>::new() };
    // SAFETY: the command touches no memory of this process; the file lives through the call.
    unsafe { ioctl(file, command) }?;
    Ok(())
}
