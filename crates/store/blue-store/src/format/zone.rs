//! State of a zone in the metadata, and the merge operator that keeps it. (Dissertation, section 5.7.1: ZonedFreelistManager.)
//!
//! The paper keeps a write pointer and the number of stale bytes. Here it is the write pointer and the number of live blocks: their
//! difference is stale, and blocks whose transaction never became durable are stale without anybody having to say so.
//!
//! # Invariants
//! - BLU-Z-1: the operator's result does not depend on the order of operands of one generation.

use shingle_base::wire::COUNTER_END;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A zone in the metadata.
///
/// | at | size | field   | meaning                                                                         |
/// |---:|-----:|---------|---------------------------------------------------------------------------------|
/// |  0 |    1 | `state` | 1 used; 0 free: nothing in it is needed, and it may be reset                    |
/// |  1 |    8 | `epoch` | generation of its contents                                                      |
/// |  9 |    4 | `end`   | block behind the last one that a transaction has named: the write pointer is no smaller |
/// | 13 |    4 | `live`  | blocks that are live                                                            |
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawValue {
    state: u8,
    epoch: U64,
    end: U32,
    live: U32,
}

const _: () = assert!(size_of::<RawValue>() == 17);

/// A zone in the metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZoneValue {
    pub(crate) used: bool,
    pub(crate) epoch: u64,
    pub(crate) end: u32,
    pub(crate) live: u32,
}

/// A change of a zone, as operand of a merge. One of a later generation begins it.
///
/// | at | size | field   | meaning                                         |
/// |---:|-----:|---------|-------------------------------------------------|
/// |  0 |    8 | `epoch` | generation of its contents                      |
/// |  8 |    4 | `end`   | block behind the last one that was written      |
/// | 12 |    4 | `live`  | live blocks more, or fewer (two's complement)   |
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawChange {
    epoch: U64,
    end: U32,
    live: U32,
}

const _: () = assert!(size_of::<RawChange>() == 16);

/// A change of a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ZoneChange {
    pub(crate) epoch: u64,
    pub(crate) end: u32,
    pub(crate) live: i32,
}

impl ZoneValue {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let raw = RawValue {
            state: u8::from(self.used),
            epoch: U64::new(self.epoch),
            end: U32::new(self.end),
            live: U32::new(self.live),
        };
        raw.as_bytes().to_vec()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let raw = RawValue::read_from_bytes(bytes).ok().filter(|raw| raw.state <= 1)?;
        let epoch = Some(raw.epoch.get()).filter(|epoch| *epoch < COUNTER_END)?;
        Some(Self { used: raw.state == 1, epoch, end: raw.end.get(), live: raw.live.get() })
    }
}

impl ZoneChange {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (epoch, end) = (U64::new(self.epoch), U32::new(self.end));
        RawChange { epoch, end, live: U32::new(self.live.cast_unsigned()) }.as_bytes().to_vec()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let raw = RawChange::read_from_bytes(bytes).ok()?;
        let epoch = Some(raw.epoch.get()).filter(|epoch| *epoch < COUNTER_END)?;
        Some(Self { epoch, end: raw.end.get(), live: raw.live.get().cast_signed() })
    }
}

/// The merge operator of zones. (BLU-Z-1)
pub(crate) fn merge(value: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
    let kept = || value.unwrap_or_default().to_vec();
    let Some(change) = ZoneChange::decode(operand) else { return kept() };
    let old = match value.map(ZoneValue::decode) {
        Some(None) => return kept(),
        Some(Some(old)) => old,
        None => ZoneValue::default(),
    };
    let before = match (old.used, old.epoch) {
        (true, epoch) if epoch == change.epoch => old,
        (_, epoch) if epoch < change.epoch => ZoneValue { used: true, epoch: change.epoch, end: 0, live: 0 },
        _ => return kept(),
    };
    let (end, live) = (before.end.max(change.end), before.live.wrapping_add_signed(change.live));
    ZoneValue { end, live, ..before }.encode()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(value: Option<ZoneValue>, changes: &[ZoneChange]) -> ZoneValue {
        let value = value.map(|value| value.encode());
        let value = changes.iter().fold(value, |value, change| Some(merge(value.as_deref(), &change.encode())));
        ZoneValue::decode(&value.unwrap()).unwrap()
    }

    /// BLU-Z-1.
    #[test]
    fn operands_of_a_generation_may_come_in_any_order() {
        let of = |end, live| ZoneChange { epoch: 3, end, live };
        let changes = [of(10, 8), of(25, 15), of(12, -20), of(0, -3)];
        let expected = ZoneValue { used: true, epoch: 3, end: 25, live: 0 };
        for turn in 0..4 {
            let mut turned = changes;
            turned.rotate_left(turn);
            assert_eq!(merged(None, &turned), expected);
            turned.reverse();
            let free = ZoneValue { used: false, epoch: 2, end: 99, live: 0 };
            assert_eq!(merged(Some(free), &turned), expected);
        }
    }

    #[test]
    fn earlier_generations_and_nonsense_change_nothing() {
        let free = ZoneValue { used: false, epoch: 3, end: 0, live: 0 };
        assert_eq!(merged(Some(free), &[ZoneChange { epoch: 3, end: 5, live: 5 }]), free);
        assert_eq!(merge(Some(b"nonsense"), &ZoneChange::default().encode()), b"nonsense");
        assert_eq!(merge(Some(&free.encode()), b"nonsense"), free.encode());
        assert_eq!(merge(None, b"nonsense"), b"");
    }

    /// The bytes are part of the format.
    #[test]
    fn golden_bytes() {
        let value = ZoneValue { used: true, epoch: 3, end: 25, live: 7 };
        assert_eq!(value.encode(), [1, 3, 0, 0, 0, 0, 0, 0, 0, 25, 0, 0, 0, 7, 0, 0, 0]);
        let change = ZoneChange { epoch: 3, end: 25, live: -2 };
        assert_eq!(change.encode(), [3, 0, 0, 0, 0, 0, 0, 0, 25, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF]);
        assert_eq!(ZoneChange::decode(&change.encode()), Some(change));
        assert_eq!(ZoneValue::decode(&[2; 17]), None);
    }
}
