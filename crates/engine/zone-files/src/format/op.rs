//! Operations on metadata. A journal entry is a group of them that happens as a whole; a checkpoint is the operations that make all
//! that there is.

use shingle_base::ZoneId;
use shingle_base::wire::Fields;
use shingle_record::number::{put, take, take_u32};
use shingle_runtime::UnixTime;

use crate::config::{FileKind, WriteLifetime};
use crate::extent::Extent;

/// Bytes of a name at most.
pub(crate) const NAME_MAX: usize = 255;

/// An operation: its number in one byte, then its fields.
///
/// | number | operation   | fields                                                              |
/// |-------:|-------------|---------------------------------------------------------------------|
/// |      1 | `MakeDir`   | serial, parent, name                                                |
/// |      2 | `Create`    | serial, parent, name, kind (1 byte), lifetime (1 byte), time        |
/// |      3 | `Link`      | serial, parent, name                                                |
/// |      4 | `Unlink`    | parent, name                                                        |
/// |      5 | `RemoveDir` | parent, name                                                        |
/// |      6 | `Rename`    | parent, name, new parent, new name                                  |
/// |      7 | `Place`     | serial, time, offset, extents and their number                      |
/// |      8 | `Truncate`  | serial, time, size                                                  |
/// |      9 | `Modified`  | serial, time                                                        |
/// |     10 | `Open`      | zone, epoch, stream (1 byte)                                        |
/// |     11 | `Covered`   | zone, epoch, block                                                  |
/// |     12 | `Closed`    | zone, epoch, block                                                  |
/// |     13 | `Reset`     | zone, epoch                                                         |
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    MakeDir {
        serial: u64,
        parent: u64,
        name: String,
    },
    /// A file that has the name loses it.
    Create {
        serial: u64,
        parent: u64,
        name: String,
        kind: FileKind,
        lifetime: WriteLifetime,
        time: UnixTime,
    },
    Link {
        serial: u64,
        parent: u64,
        name: String,
    },
    Unlink {
        parent: u64,
        name: String,
    },
    RemoveDir {
        parent: u64,
        name: String,
    },
    /// A file or empty directory that has the new name loses it.
    Rename {
        parent: u64,
        name: String,
        to_parent: u64,
        to_name: String,
    },
    /// Bytes of a file have these places, whether or not they had others. The extents follow each other.
    Place {
        serial: u64,
        time: UnixTime,
        extents: Vec<Extent>,
    },
    Truncate {
        serial: u64,
        time: UnixTime,
        size: u64,
    },
    Modified {
        serial: u64,
        time: UnixTime,
    },
    /// A generation of a zone begins.
    Open {
        zone: ZoneId,
        epoch: u64,
        stream: u8,
    },
    /// Records before this block of a zone of logs are in the checkpoint.
    Covered {
        zone: ZoneId,
        epoch: u64,
        block: u32,
    },
    /// Nothing behind this block counts, and all before it is durable.
    Closed {
        zone: ZoneId,
        epoch: u64,
        block: u32,
    },
    /// Nothing in the zone is needed.
    Reset {
        zone: ZoneId,
        epoch: u64,
    },
}

const KINDS: [FileKind; 4] = [FileKind::Wal, FileKind::Sst, FileKind::Manifest, FileKind::Other];

const LIFETIMES: [WriteLifetime; 5] =
    [WriteLifetime::None, WriteLifetime::Short, WriteLifetime::Medium, WriteLifetime::Long, WriteLifetime::Extreme];

fn position<T: PartialEq>(all: &[T], one: &T) -> u8 {
    all.iter().position(|other| other == one).unwrap_or(0) as u8
}

fn put_name(bytes: &mut Vec<u8>, name: &str) {
    put(bytes, name.len() as u64);
    bytes.extend_from_slice(name.as_bytes());
}

fn take_name(fields: &mut Fields<'_>) -> Option<String> {
    let length = take(fields)?;
    if length == 0 || length > NAME_MAX as u64 {
        return None;
    }
    let name = std::str::from_utf8(fields.bytes(length as usize)?).ok()?;
    (!name.contains('\0')).then(|| name.to_owned())
}

fn take_time(fields: &mut Fields<'_>) -> Option<UnixTime> {
    Some(UnixTime { nanos: take(fields)? })
}

/// Extents that follow each other in their file: the first byte, then each extent.
///
/// An extent begins with a number: 1 if it lies behind the one before it, else twice the number of its zone plus two, and then its block;
/// 0 is a lost one. Twice the length follows, plus one if the extent is one record and all of it is the file's; if not, the bytes of its
/// records and of the last.
fn put_extents(bytes: &mut Vec<u8>, extents: &[Extent]) {
    put(bytes, extents.len() as u64);
    put(bytes, extents.first().map_or(0, |first| first.offset));
    let mut before: Option<&Extent> = None;
    for extent in extents {
        if extent.is_lost() {
            put(bytes, 0);
            put(bytes, extent.length << 1);
            before = None;
            continue;
        }
        let follows =
            before.is_some_and(|last| last.zone == extent.zone && last.end_block() == u64::from(extent.block));
        if follows {
            put(bytes, 1);
        } else {
            put(bytes, (u64::from(extent.zone.0) << 1) + 2);
            put(bytes, u64::from(extent.block));
        }
        let one = extent.length == u64::from(extent.record) && extent.last == extent.record;
        put(bytes, extent.length << 1 | u64::from(one));
        if !one {
            put(bytes, u64::from(extent.record));
            put(bytes, u64::from(extent.last));
        }
        before = Some(extent);
    }
}

fn take_extents(fields: &mut Fields<'_>) -> Option<Vec<Extent>> {
    let (count, mut offset) = (take(fields)?, take(fields)?);
    // Each takes two bytes at least, so that no count makes this allocate without bound.
    if count > fields.rest().len() as u64 {
        return None;
    }
    let mut extents: Vec<Extent> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let tag = take(fields)?;
        let extent = if tag == 0 {
            Extent::lost(offset, take(fields)?.checked_shr(1)?)
        } else {
            let (zone, block) = if tag == 1 {
                let last = extents.last().filter(|last| !last.is_lost())?;
                (last.zone, u32::try_from(last.end_block()).ok()?)
            } else if tag.is_multiple_of(2) {
                (ZoneId(u32::try_from((tag >> 1) - 1).ok().filter(|zone| *zone < u32::MAX)?), take_u32(fields)?)
            } else {
                return None;
            };
            let word = take(fields)?;
            let length = word >> 1;
            let (record, last) = match word & 1 {
                1 => (u32::try_from(length).ok()?, u32::try_from(length).ok()?),
                _ => (take_u32(fields)?, take_u32(fields)?),
            };
            Extent { offset, length, zone, block, record, last }
        };
        // No zone has more blocks than this.
        if !extent.makes_sense(u32::MAX) {
            return None;
        }
        offset = extent.end();
        extents.push(extent);
    }
    Some(extents)
}

impl Op {
    fn put(&self, bytes: &mut Vec<u8>) {
        let mut numbers = |op: u8, numbers: &[u64]| {
            bytes.push(op);
            numbers.iter().for_each(|number| put(bytes, *number));
        };
        match self {
            Self::MakeDir { serial, parent, name } => {
                numbers(1, &[*serial, *parent]);
                put_name(bytes, name);
            }
            Self::Create { serial, parent, name, kind, lifetime, time } => {
                numbers(2, &[*serial, *parent]);
                put_name(bytes, name);
                bytes.extend([position(&KINDS, kind), position(&LIFETIMES, lifetime)]);
                put(bytes, time.nanos);
            }
            Self::Link { serial, parent, name } => {
                numbers(3, &[*serial, *parent]);
                put_name(bytes, name);
            }
            Self::Unlink { parent, name } => {
                numbers(4, &[*parent]);
                put_name(bytes, name);
            }
            Self::RemoveDir { parent, name } => {
                numbers(5, &[*parent]);
                put_name(bytes, name);
            }
            Self::Rename { parent, name, to_parent, to_name } => {
                numbers(6, &[*parent]);
                put_name(bytes, name);
                put(bytes, *to_parent);
                put_name(bytes, to_name);
            }
            Self::Place { serial, time, extents } => {
                numbers(7, &[*serial, time.nanos]);
                put_extents(bytes, extents);
            }
            Self::Truncate { serial, time, size } => numbers(8, &[*serial, time.nanos, *size]),
            Self::Modified { serial, time } => numbers(9, &[*serial, time.nanos]),
            Self::Open { zone, epoch, stream } => {
                numbers(10, &[u64::from(zone.0), *epoch]);
                bytes.push(*stream);
            }
            Self::Covered { zone, epoch, block } => numbers(11, &[u64::from(zone.0), *epoch, u64::from(*block)]),
            Self::Closed { zone, epoch, block } => numbers(12, &[u64::from(zone.0), *epoch, u64::from(*block)]),
            Self::Reset { zone, epoch } => numbers(13, &[u64::from(zone.0), *epoch]),
        }
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let op = fields.u8()?;
        Some(match op {
            1 => Self::MakeDir { serial: take(fields)?, parent: take(fields)?, name: take_name(fields)? },
            2 => Self::Create {
                serial: take(fields)?,
                parent: take(fields)?,
                name: take_name(fields)?,
                kind: *KINDS.get(usize::from(fields.u8()?))?,
                lifetime: *LIFETIMES.get(usize::from(fields.u8()?))?,
                time: take_time(fields)?,
            },
            3 => Self::Link { serial: take(fields)?, parent: take(fields)?, name: take_name(fields)? },
            4 => Self::Unlink { parent: take(fields)?, name: take_name(fields)? },
            5 => Self::RemoveDir { parent: take(fields)?, name: take_name(fields)? },
            6 => Self::Rename {
                parent: take(fields)?,
                name: take_name(fields)?,
                to_parent: take(fields)?,
                to_name: take_name(fields)?,
            },
            7 => Self::Place { serial: take(fields)?, time: take_time(fields)?, extents: take_extents(fields)? },
            8 => Self::Truncate { serial: take(fields)?, time: take_time(fields)?, size: take(fields)? },
            9 => Self::Modified { serial: take(fields)?, time: take_time(fields)? },
            10 => Self::Open { zone: ZoneId(take_u32(fields)?), epoch: take(fields)?, stream: fields.u8()? },
            11 | 12 => {
                let (zone, epoch, block) = (ZoneId(take_u32(fields)?), take(fields)?, take_u32(fields)?);
                if op == 11 { Self::Covered { zone, epoch, block } } else { Self::Closed { zone, epoch, block } }
            }
            13 => Self::Reset { zone: ZoneId(take_u32(fields)?), epoch: take(fields)? },
            _ => return None,
        })
    }
}

/// Bytes of operations.
pub(crate) fn encode(ops: &[Op]) -> Vec<u8> {
    let mut bytes = Vec::new();
    ops.iter().for_each(|op| op.put(&mut bytes));
    bytes
}

/// Operations; `None` for bytes that no writer makes.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Op>> {
    let mut fields = Fields::new(bytes);
    let mut ops = Vec::new();
    while !fields.rest().is_empty() {
        ops.push(Op::take(&mut fields)?);
    }
    Some(ops)
}

#[cfg(test)]
mod tests;
