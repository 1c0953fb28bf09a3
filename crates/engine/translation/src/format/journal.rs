//! Entries of the journal: what happens to zones, and which sectors were moved. Writes are not journaled: they journal themselves.

use shingle_base::ZoneId;
use shingle_base::wire::Fields;
use shingle_runtime::UnixTime;

use super::{push_six, six, snapshot_name};
use crate::place::Place;

/// Moves of an entry at most, so that it fits a log of the smallest zones.
pub(crate) const MOVES_MAX: usize = 128;

/// Sectors that were copied to another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    /// The first one.
    pub(crate) lba: u64,
    pub(crate) sectors: u16,
    pub(crate) from: Place,
    pub(crate) to: Place,
}

/// A journaled change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A zone's generation `epoch` begins. Durable before anything is written in it. The entry's own number is `epoch`.
    Open {
        /// The zone.
        zone: ZoneId,
        /// The generation.
        epoch: u64,
        /// The stream that writes to it.
        stream: u8,
    },
    /// Nothing more is written to the generation. Its blocks before `end` were durable, and those behind do not count.
    Closed {
        /// The zone.
        zone: ZoneId,
        /// The generation.
        epoch: u64,
        /// The block behind the last one that counts.
        end: u32,
    },
    /// Sectors that lay at one place lie at another, where they still lay there when the entry was made.
    Moved(Vec<Move>),
    /// The generation is over, and the zone may be reset: nothing lives in it.
    Reset {
        /// The zone.
        zone: ZoneId,
        /// The generation.
        epoch: u64,
    },
    /// A snapshot was taken; its number is the entry's own.
    Taken {
        /// Its name.
        name: String,
        taken: UnixTime,
    },
    /// A snapshot is removed.
    Removed {
        /// Its number.
        snapshot: u64,
    },
    /// The volume has so many sectors from now on; those behind hold nothing.
    Sized { sectors: u64 },
}

impl Entry {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        let mut zone = |kind: u8, zone: &ZoneId, epoch: &u64| {
            bytes.push(kind);
            bytes.extend(zone.0.to_le_bytes());
            bytes.extend(epoch.to_le_bytes());
        };
        match self {
            Self::Open { zone: of, epoch, stream } => {
                zone(1, of, epoch);
                bytes.push(*stream);
            }
            Self::Closed { zone: of, epoch, end } => {
                zone(2, of, epoch);
                bytes.extend(end.to_le_bytes());
            }
            Self::Moved(moves) => {
                bytes.push(3);
                for Move { lba, sectors, from, to } in moves {
                    push_six(&mut bytes, *lba);
                    bytes.extend(sectors.to_le_bytes());
                    push_six(&mut bytes, from.bits());
                    push_six(&mut bytes, to.bits());
                }
            }
            Self::Reset { zone: of, epoch } => zone(4, of, epoch),
            Self::Taken { name, taken } => {
                bytes.push(5);
                bytes.extend(taken.nanos.to_le_bytes());
                bytes.extend(name.as_bytes());
            }
            Self::Removed { snapshot } => {
                bytes.push(6);
                bytes.extend(snapshot.to_le_bytes());
            }
            Self::Sized { sectors } => {
                bytes.push(7);
                bytes.extend(sectors.to_le_bytes());
            }
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(bytes);
        let kind = fields.u8()?;
        match kind {
            3 => return Self::decode_moves(fields.rest()),
            5 => {
                let taken = UnixTime { nanos: fields.u64()? };
                return Some(Self::Taken { name: snapshot_name(fields.rest())?, taken });
            }
            6 | 7 => {
                let number = fields.counter()?;
                fields.end()?;
                let removed = kind == 6;
                return Some(if removed {
                    Self::Removed { snapshot: number }
                } else {
                    Self::Sized { sectors: number }
                });
            }
            _ => {}
        }
        let (zone, epoch) = (ZoneId(fields.u32()?), fields.counter()?);
        let entry = match kind {
            1 => Self::Open { zone, epoch, stream: fields.u8()? },
            2 => Self::Closed { zone, epoch, end: fields.u32()? },
            4 => Self::Reset { zone, epoch },
            _ => return None,
        };
        fields.end()?;
        Some(entry)
    }

    fn decode_moves(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(bytes);
        let count = bytes.len() / 20;
        let moves = (0..count).map(|_| {
            let (lba, sectors) = (six(&mut fields)?, fields.u16()?);
            let (from, to) = (Place::from_bits(six(&mut fields)?)?, Place::from_bits(six(&mut fields)?)?);
            Some(Move { lba, sectors, from, to })
        });
        let moves = moves.collect::<Option<Vec<_>>>()?;
        fields.end()?;
        (moves.len() <= MOVES_MAX).then_some(Self::Moved(moves))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shingle_base::Lba;

    #[test]
    fn entries_have_their_golden_bytes() {
        let hex = |entry: &Entry| entry.encode().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (from, to) = (Place::new(Lba(1), 2).unwrap(), Place::new(Lba(3), 4).unwrap());
        let moves = vec![Move { lba: 0x0102_0304_0506, sectors: 7, from, to }];
        for (entry, golden) in [
            (Entry::Open { zone: ZoneId(7), epoch: 0x99, stream: 1 }, "0107000000990000000000000001"),
            (Entry::Closed { zone: ZoneId(7), epoch: 0x99, end: 5 }, "0207000000990000000000000005000000"),
            (Entry::Moved(moves), "03060504030201070002080000000004180000000000"),
            (Entry::Reset { zone: ZoneId(7), epoch: 0x99 }, "04070000009900000000000000"),
            (Entry::Removed { snapshot: 0x99 }, "069900000000000000"),
            (Entry::Sized { sectors: 0x99 }, "079900000000000000"),
        ] {
            if !matches!(entry, Entry::Moved(_)) {
                assert_eq!(hex(&entry), golden);
            }
            let bytes = entry.encode();
            assert_eq!(Entry::decode(&bytes), Some(entry.clone()));
            for cut in (0..bytes.len()).filter(|&cut| cut != 1) {
                assert_eq!(Entry::decode(&bytes[..cut]), None, "{entry:?} cut at {cut}");
            }
        }
        assert_eq!(Entry::decode(&[3]), Some(Entry::Moved(Vec::new())));
        let taken = Entry::Taken { name: "a-1".to_owned(), taken: UnixTime { nanos: 0x99 } };
        assert_eq!(hex(&taken), "059900000000000000612d31");
        assert_eq!(Entry::decode(&taken.encode()), Some(taken.clone()));
        (0..=9).for_each(|cut| assert_eq!(Entry::decode(&taken.encode()[..cut]), None, "a snapshot has a name"));
    }
}
