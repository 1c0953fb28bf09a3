//! Room for small writes that follow each other in a zone, as those of logs do.
//!
//! The sync of a write whose blocks the file system has just given to the file waits for the file system's journal. That of a write over blocks
//! which are there already waits for the blocks alone, less than half of the time. So the second small write in a row brings zeros behind it,
//! and the next ones go over them. Nobody can read the zeros: they lie behind the write pointer.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use shingle_base::ZoneId;

/// Larger writes bring enough blocks at a time.
const SMALL_MAX: u64 = 64 << 10;
/// Zeros that are written at a time.
const AHEAD: usize = 256 << 10;

static ZEROS: [u8; AHEAD] = [0; AHEAD];

/// Bytes of a zone, from its start.
struct Prepared {
    /// End of the last write.
    next: u64,
    /// End of what the file system has given.
    end: u64,
}

/// Zones with small writes in a row.
#[derive(Default)]
pub(super) struct Ahead(RefCell<BTreeMap<ZoneId, Prepared>>);

impl Ahead {
    /// Zeros to write behind a write of `length` bytes at byte `at` of a zone that is written up to `capacity`.
    pub(super) fn of_write(&self, zone: ZoneId, at: u64, length: u64, capacity: u64) -> Option<Bytes> {
        let mut zones = self.0.borrow_mut();
        let next = at + length;
        if length > SMALL_MAX || next >= capacity {
            zones.remove(&zone);
            return None;
        }
        let in_a_row = zones.get_mut(&zone).filter(|prepared| prepared.next == at);
        let Some(prepared) = in_a_row else {
            zones.insert(zone, Prepared { next, end: next });
            return None;
        };
        prepared.next = next;
        if next <= prepared.end {
            return None;
        }
        let zeros = (AHEAD as u64).min(capacity - next);
        prepared.end = next + zeros;
        Some(Bytes::from_static(&ZEROS).slice(..zeros as usize))
    }

    /// The zone's bytes are gone.
    pub(super) fn forget(&self, zone: ZoneId) {
        self.0.borrow_mut().remove(&zone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_writes_in_a_row_bring_zeros_behind_them() {
        let (ahead, zone, capacity) = (Ahead::default(), ZoneId(3), 400 << 10);
        let write = |at: u64, length: u64| ahead.of_write(zone, at, length, capacity).map_or(0, |zeros| zeros.len());
        assert_eq!((write(0, 4096), write(4096, 8192)), (0, AHEAD));
        // Over the zeros, up to their end.
        let mut at = 12_288;
        while at < 12_288 + AHEAD as u64 {
            assert_eq!(write(at, 4096), 0, "{at}");
            at += 4096;
        }
        assert_eq!(write(at, 4096), capacity as usize - at as usize - 4096, "the zone ends");
        ahead.forget(zone);
        assert_eq!((write(at + 4096, 4096), write(at + 4096, 4096)), (0, 0), "not behind the one before");
        assert_eq!((write(0, 128 << 10), write(128 << 10, 4096)), (0, 0));
        assert_eq!(write((128 << 10) + 4096, 4096), AHEAD);
        assert_eq!(write(capacity - 4096, 4096), 0);
        assert!(ahead.0.borrow().is_empty());
    }
}
