//! Entries of the journal.

use shingle_base::{ChunkId, ZoneId};

use crate::format::mark::Mark;
use crate::format::{LANDING_BIT, stream_from, stream_number};
use crate::types::Stream;
use shingle_base::wire::Fields;

/// One journaled change. Appends are not journaled. (SMRstore, section 5.6.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalEntry {
    /// A chunk was created; the entry's sequence number is its birth.
    Create {
        /// Its identity.
        id: ChunkId,
        /// Its stream.
        stream: Stream,
    },
    /// A chunk was sealed at a size; records past it are not part of it.
    Seal {
        /// Its identity.
        id: ChunkId,
        /// Its final size.
        size: u32,
    },
    /// A chunk was deleted.
    Delete {
        /// Its identity.
        id: ChunkId,
    },
    /// A zone is about to be reset: its generation up to `epoch` is over.
    Reset {
        /// The zone.
        zone: ZoneId,
        /// The epoch of the generation that ends.
        epoch: u64,
    },
    /// Records were written: recovery need not scan for them.
    Mark(Mark),
    /// A free zone is opened: its generation `epoch` begins. Durable before a record in it is acknowledged.
    Open {
        /// The zone.
        zone: ZoneId,
        /// The epoch of the generation that begins.
        epoch: u64,
        /// The stream of its records.
        stream: Stream,
        /// It is a landing zone.
        landing: bool,
    },
    /// A chunk that an earlier opening of the store left open is appended to again, at `size`: older records of it that
    /// end past that are dead, whether they were found or not. Durable before the append is acknowledged.
    Resume {
        /// Its identity.
        id: ChunkId,
        /// Size at which it goes on.
        size: u32,
    },
}

impl JournalEntry {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        match self {
            Self::Create { id, stream } => {
                bytes.push(1);
                bytes.extend(id.0);
                bytes.push(stream_number(*stream));
            }
            Self::Seal { id, size } => {
                bytes.push(2);
                bytes.extend(id.0);
                bytes.extend(size.to_le_bytes());
            }
            Self::Delete { id } => {
                bytes.push(3);
                bytes.extend(id.0);
            }
            Self::Reset { zone, epoch } => {
                bytes.push(4);
                bytes.extend(zone.0.to_le_bytes());
                bytes.extend(epoch.to_le_bytes());
            }
            Self::Mark(mark) => {
                bytes.push(5);
                mark.encode(&mut bytes);
            }
            Self::Open { zone, epoch, stream, landing } => {
                bytes.push(6);
                bytes.extend(zone.0.to_le_bytes());
                bytes.extend(epoch.to_le_bytes());
                bytes.push(stream_number(*stream) | if *landing { LANDING_BIT } else { 0 });
            }
            Self::Resume { id, size } => {
                bytes.push(7);
                bytes.extend(id.0);
                bytes.extend(size.to_le_bytes());
            }
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(bytes);
        let entry = match fields.u8()? {
            1 => Self::Create { id: ChunkId(fields.array()?), stream: stream_from(fields.u8()?)? },
            2 => Self::Seal { id: ChunkId(fields.array()?), size: fields.u32()? },
            3 => Self::Delete { id: ChunkId(fields.array()?) },
            4 => Self::Reset { zone: ZoneId(fields.u32()?), epoch: fields.u64()? },
            5 => Self::Mark(Mark::decode(&mut fields)?),
            6 => {
                let (zone, epoch, flags) = (ZoneId(fields.u32()?), fields.u64()?, fields.u8()?);
                Self::Open {
                    zone,
                    epoch,
                    stream: stream_from(flags & !LANDING_BIT)?,
                    landing: flags & LANDING_BIT != 0,
                }
            }
            7 => Self::Resume { id: ChunkId(fields.array()?), size: fields.u32()? },
            _ => return None,
        };
        fields.end()?;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> ChunkId {
        ChunkId(std::array::from_fn(|at| at as u8))
    }

    #[test]
    fn journal_entries_have_their_golden_bytes() {
        let hex = |entry: JournalEntry| entry.encode().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let id_hex = id().to_string();
        for (entry, golden) in [
            (JournalEntry::Create { id: id(), stream: Stream::Meta }, format!("01{id_hex}02")),
            (JournalEntry::Seal { id: id(), size: 0x1234 }, format!("02{id_hex}34120000")),
            (JournalEntry::Delete { id: id() }, format!("03{id_hex}")),
            (JournalEntry::Reset { zone: ZoneId(7), epoch: 0x99 }, "04070000009900000000000000".to_owned()),
            (
                JournalEntry::Open { zone: ZoneId(7), epoch: 0x99, stream: Stream::Gc, landing: true },
                "0607000000990000000000000081".to_owned(),
            ),
            (JournalEntry::Resume { id: id(), size: 0x1234 }, format!("07{id_hex}34120000")),
        ] {
            assert_eq!(hex(entry.clone()), golden);
            assert_eq!(JournalEntry::decode(&entry.encode()), Some(entry.clone()));
            for cut in 0..entry.encode().len() {
                assert_eq!(JournalEntry::decode(&entry.encode()[..cut]), None, "{entry:?} cut at {cut}");
            }
        }
    }
}
