//! Names of a pair's data: which sectors it is.

use shingle_base::wire::{COUNTER_END, Fields};

use super::SIDE_SIZE;
use crate::header::HEADER_SIZE;

/// Bytes of a name, without a number of its own.
const NAME_SIZE: usize = 12;

/// Bytes of names in a header or trailer.
const NAMES_SIZE: usize = SIDE_SIZE - HEADER_SIZE;

/// The most names of a pair whose writes are numbered one after the other.
pub const NAMES_MAX: usize = NAMES_SIZE / NAME_SIZE;

/// Sectors have numbers below this.
const LBA_END: u64 = 1 << 48;

/// Contents of named sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// Data of the pair, behind that of the names before.
    Data,
    /// Zeros, which take no room.
    Zeros,
    /// Nothing: they were discarded.
    Discarded,
}

impl NameKind {
    const ALL: [Self; 3] = [Self::Data, Self::Zeros, Self::Discarded];

    fn number(self) -> u16 {
        match self {
            Self::Data => 0,
            Self::Zeros => 1,
            Self::Discarded => 2,
        }
    }
}

/// Numbers of the writes that names stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// One after the other, from the pair's own sequence number.
    Consecutive,
    /// Each name has its own: copies keep the numbers of the writes that their data came with.
    Own,
}

impl Numbering {
    fn size(self) -> usize {
        match self {
            Self::Consecutive => NAME_SIZE,
            Self::Own => NAME_SIZE + 8,
        }
    }

    /// The most names of a pair.
    pub fn names_max(self) -> usize {
        NAMES_SIZE / self.size()
    }
}

/// Name of some of a pair's data.
///
/// | at | size | field     | meaning                                          |
/// |---:|-----:|-----------|--------------------------------------------------|
/// |  0 |    6 | `lba`     | first sector                                     |
/// |  6 |    4 | `sectors` | number of sectors                                |
/// | 10 |    2 | `kind`    | 0: data, 1: zeros, 2: discarded                  |
/// | 12 |    8 | `number`  | only if numbers are [their own](Numbering::Own)  |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The first sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Their contents.
    pub kind: NameKind,
    /// Number of the write; 0 if it is not known.
    pub number: u64,
}

/// Bytes of names. Panics if they are too many, or a sector's number is too high.
pub(super) fn encode(names: &[Name], numbering: Numbering) -> Vec<u8> {
    assert!(names.len() <= numbering.names_max(), "a pair has too many names");
    let mut out = Vec::with_capacity(names.len() * numbering.size());
    for Name { lba, sectors, kind, number } in names {
        assert!(*lba < LBA_END, "a sector's number is too high");
        out.extend_from_slice(&lba.to_le_bytes()[..6]);
        out.extend_from_slice(&sectors.to_le_bytes());
        out.extend_from_slice(&kind.number().to_le_bytes());
        if numbering == Numbering::Own {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
    out
}

/// The bytes of `count` names at the front of `bytes`; `None` if a pair has no room for so many.
pub(super) fn bytes_of(bytes: &[u8], count: u16, numbering: Numbering) -> Option<&[u8]> {
    let count = usize::from(count);
    (count <= numbering.names_max()).then(|| bytes.get(..count * numbering.size())).flatten()
}

/// Reads names; `first` is the number of the first write where they are consecutive.
pub(super) fn decode(bytes: &[u8], numbering: Numbering, first: u64) -> Option<Vec<Name>> {
    let mut fields = Fields::new(bytes);
    let count = bytes.len() / numbering.size();
    let names = (0..count as u64).map(|at| {
        let lba = u64::from(fields.u32()?) | u64::from(fields.u16()?) << 32;
        let (sectors, kind) = (fields.u32()?, fields.u16()?);
        let kind = NameKind::ALL.into_iter().find(|one| one.number() == kind)?;
        let number = match numbering {
            Numbering::Consecutive => first.checked_add(at).filter(|number| *number < COUNTER_END)?,
            Numbering::Own => fields.counter()?,
        };
        Some(Name { lba, sectors, kind, number })
    });
    let names = names.collect::<Option<_>>()?;
    fields.end()?;
    Some(names)
}

/// Bytes of data that names tell of.
pub(super) fn data_bytes(names: &[Name], sector_shift: u8) -> u64 {
    let data = names.iter().filter(|name| name.kind == NameKind::Data);
    data.map(|name| u64::from(name.sectors) << sector_shift).sum()
}
