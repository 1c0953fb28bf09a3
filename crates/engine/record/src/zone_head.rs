//! The first record of every zone: its store, kind and generation. (SMRstore, section 5.2, "zonehead".)

use bytes::Bytes;
use shingle_base::{StoreId, ZoneId};
use shingle_runtime::UnixTime;

use crate::frame::frame;
use crate::header::{Expect, FrameError, Header, INFO_SIZE, RecordPlace, RecordType};

/// The type of zone heads.
pub const ZONE_HEAD: RecordType = RecordType(1);

/// A zone head that was read and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneHead {
    /// The store the zone belongs to.
    pub store: StoreId,
    /// The zone's generation.
    pub epoch: u64,
    /// Use of the zone: numbers belong to the engine.
    pub kind: u16,
    /// When it was opened, for people; order is the epoch's matter.
    pub opened: UnixTime,
}

/// Frames the head of `zone`: one block, to be written at the zone's start. Its `info` is kind (2 bytes) and time (8).
pub fn frame_zone_head(store: StoreId, epoch: u64, zone: ZoneId, kind: u16, opened: UnixTime) -> Bytes {
    let mut info = [0; INFO_SIZE];
    info[..2].copy_from_slice(&kind.to_le_bytes());
    info[2..10].copy_from_slice(&opened.nanos.to_le_bytes());
    frame(ZONE_HEAD, &RecordPlace { store, epoch, zone, block: 0 }, epoch, info, &[])
}

/// Reads the head of `zone` off its first block.
///
/// # Errors
/// As [`Header::decode`]; `NotARecord` for a record of another type.
pub fn read_zone_head(bytes: &[u8], store: Option<StoreId>, zone: ZoneId) -> Result<ZoneHead, FrameError> {
    let header = Header::decode(bytes, &Expect { store, epoch: None, at: Some((zone, 0)) })?;
    header.verify_payload(bytes)?;
    if header.kind != ZONE_HEAD {
        return Err(FrameError::NotARecord);
    }
    let [k0, k1, t0, t1, t2, t3, t4, t5, t6, t7, ..] = header.info;
    Ok(ZoneHead {
        store: header.place.store,
        epoch: header.place.epoch,
        kind: u16::from_le_bytes([k0, k1]),
        opened: UnixTime { nanos: u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_head_comes_back() {
        let opened = UnixTime { nanos: 1_700_000_000_000_000_000 };
        let bytes = frame_zone_head(StoreId(5), 42, ZoneId(7), 0x0102, opened);
        assert_eq!(bytes.len(), 4096);
        let head = ZoneHead { store: StoreId(5), epoch: 42, kind: 0x0102, opened };
        assert_eq!(read_zone_head(&bytes, Some(StoreId(5)), ZoneId(7)), Ok(head));
        assert_eq!(read_zone_head(&bytes, None, ZoneId(8)), Err(FrameError::WrongPlace(ZoneId(7), 0)));
        let other = frame(
            RecordType(9),
            &RecordPlace { store: StoreId(5), epoch: 1, zone: ZoneId(7), block: 0 },
            1,
            [0; 32],
            &[],
        );
        assert_eq!(read_zone_head(&other, None, ZoneId(7)), Err(FrameError::NotARecord));
    }
}
