//! From the kernel's report to the shape and states of the device contract.
//!
//! **Owns** the choices for shapes that the contract does not have. Pure. **Knows nothing of** the way a report is
//! made.
//!
//! - Conventional zones come first in the contract. One that lies behind a sequential zone is shown as offline.
//! - A last zone smaller than the others is left out.
//! - The write pointer counts only in zones that are open or closed; in full and read-only ones some drivers leave
//!   garbage there. A read-only zone with an impossible write pointer counts as written to its capacity, so that all
//!   its data can be read.
//! - The contract's block is 4 KiB. On a drive with smaller blocks, a power cut can leave a write pointer within a
//!   block: [`Found::torn`] says so, and the rest of that block is filled up ([`crate::device`]).

use shingle_base::{BLOCK_SIZE, Blocks, ZoneId};
use shingle_zoned::{Geometry, ZoneState};

use crate::drive::{Drive, WriteCache};
use crate::ioctl::RawZone;

/// Sectors of a block.
pub(crate) const BLOCK_SECTORS: u64 = BLOCK_SIZE as u64 / 512;
/// `BLK_ZONE_TYPE_CONVENTIONAL`.
const CONVENTIONAL: u8 = 1;

/// A drive's report of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) state: ZoneState,
    /// Whole blocks written.
    pub(crate) written: Blocks,
    /// Sector of the write pointer, if it lies within a block.
    pub(crate) torn: Option<u64>,
}

impl Found {
    /// As it is, but not open.
    pub(crate) fn closed(self) -> Self {
        let state = match self.state {
            open if !open.is_open() => open,
            _ if self.written == Blocks::ZERO => ZoneState::Empty,
            _ => ZoneState::Closed,
        };
        Self { state, ..self }
    }
}

/// The shape and limits of a drive with these zones.
///
/// # Errors
/// The reason why Shingle cannot use it.
pub(crate) fn geometry(drive: &Drive, zones: &[RawZone]) -> Result<Geometry, String> {
    if drive.logical_block_bytes as usize > BLOCK_SIZE {
        return Err(format!(
            "the drive's blocks are of {} bytes, and Shingle's are of {BLOCK_SIZE}: format the drive with smaller ones \
             (`nvme format --lbaf`, `sg_format`)",
            drive.logical_block_bytes
        ));
    }
    let Some(first) = zones.first() else { return Err("the drive reports no zones".to_owned()) };
    let size = first.length;
    let (last, others) = zones.split_last().unwrap_or((first, &[]));
    let even = |zone: &&RawZone| zone.length == size;
    if !others.iter().all(|zone| even(&zone)) || last.length > size {
        return Err("the drive's zones are of different sizes, which Shingle cannot use".to_owned());
    }
    // A runt at the end is not worth a special case everywhere.
    let whole = if even(&last) { zones } else { others };
    if whole.iter().zip(0..).any(|(zone, number)| size.checked_mul(number) != Some(zone.start)) {
        return Err("the drive's zones do not lie one behind the other, which Shingle cannot use".to_owned());
    }
    let conventional = whole.iter().take_while(|zone| zone.kind == CONVENTIONAL).count();
    let sequential = |zone: &&RawZone| zone.kind != CONVENTIONAL && zone.condition != ZoneState::Offline.code();
    let mut capacities = whole.iter().filter(sequential).map(|zone| zone.capacity);
    let capacity = capacities.next().unwrap_or(size);
    if let Some(other) = capacities.find(|&other| other != capacity) {
        let bytes = |sectors: u64| sectors * 512;
        return Err(format!(
            "the drive's zones differ in capacity ({} and {} bytes), which Shingle cannot use",
            bytes(capacity),
            bytes(other)
        ));
    }
    if !size.is_multiple_of(BLOCK_SECTORS) || !capacity.is_multiple_of(BLOCK_SECTORS) {
        return Err(format!("the size or capacity of the drive's zones is no multiple of {BLOCK_SIZE} bytes"));
    }
    let zone_count = u32::try_from(whole.len()).map_err(|_| "the drive has too many zones".to_owned())?;
    let active = drive.max_active_zones;
    let geometry = Geometry {
        zone_size: Blocks(size / BLOCK_SECTORS),
        zone_capacity: Blocks(capacity / BLOCK_SECTORS),
        zone_count,
        conventional_zones: conventional as u32,
        open_zones_max: drive.max_open_zones.map(|open| active.map_or(open, |active| open.min(active))),
        active_zones_max: active,
        // Appends are writes at the write pointer, which the state machine knows; these have no limit.
        append_max: None,
        volatile_cache: drive.write_cache != Some(WriteCache::WriteThrough),
        keeps_payload: true,
        revolution: None,
    };
    geometry.validate().map_err(|error| format!("the kernel reports a drive that cannot be: {error}"))?;
    Ok(geometry)
}

/// The report of `zone`, which is one of the geometry's.
pub(crate) fn found(geometry: &Geometry, zone: ZoneId, raw: &RawZone) -> Found {
    let plain = |state, written| Found { state, written, torn: None };
    let state = ZoneState::from_code(raw.condition).unwrap_or(ZoneState::Offline);
    if raw.kind == CONVENTIONAL {
        return match (geometry.is_conventional(zone), state) {
            (true, ZoneState::ReadOnly | ZoneState::Offline) => plain(state, Blocks::ZERO),
            (true, _) => plain(ZoneState::NotWritePointer, Blocks::ZERO),
            (false, _) => plain(ZoneState::Offline, Blocks::ZERO),
        };
    }
    let capacity = geometry.zone_capacity;
    let sectors = raw.write_pointer.checked_sub(raw.start).filter(|&sectors| sectors <= capacity.0 * BLOCK_SECTORS);
    let written = sectors.map(|sectors| Blocks(sectors / BLOCK_SECTORS));
    match (state, written) {
        (ZoneState::NotWritePointer, _) => plain(ZoneState::Offline, Blocks::ZERO),
        (ZoneState::Empty | ZoneState::Offline, _) => plain(state, Blocks::ZERO),
        (ZoneState::Full, _) => plain(state, capacity),
        (ZoneState::ReadOnly, written) => plain(state, written.unwrap_or(capacity)),
        // An open zone whose write pointer is nowhere: nothing can be done with it.
        (_, None) => plain(ZoneState::Offline, Blocks::ZERO),
        (_, Some(written)) => {
            let torn = sectors.is_some_and(|sectors| !sectors.is_multiple_of(BLOCK_SECTORS));
            Found { state, written, torn: torn.then_some(raw.write_pointer) }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::drive::ZonedModel;

    const KIB_64: u64 = 128;

    pub(crate) fn drive() -> Drive {
        Drive {
            name: "sdb".into(),
            node: "/dev/sdb".into(),
            by_id: Vec::new(),
            number: (8, 16),
            partition: None,
            model: None,
            vendor: None,
            serial: None,
            wwn: None,
            uuid: None,
            zoned: ZonedModel::HostManaged,
            size_bytes: 0,
            logical_block_bytes: 512,
            physical_block_bytes: 4096,
            zone_size_bytes: None,
            zone_count: None,
            max_open_zones: Some(8),
            max_active_zones: None,
            zone_append_max_bytes: None,
            transfer_max_bytes: None,
            segments_max: None,
            scheduler: None,
            schedulers: Vec::new(),
            write_cache: Some(WriteCache::WriteBack),
            nr_requests: None,
            rotational: true,
            removable: false,
            read_only: false,
            partitions: Vec::new(),
            holders: Vec::new(),
            multipath: false,
            mounts: Vec::new(),
        }
    }

    fn zone(number: u64, kind: u8, condition: u8, written: u64) -> RawZone {
        let start = number * KIB_64;
        let capacity = if kind == CONVENTIONAL { KIB_64 } else { 96 };
        RawZone::new(start, KIB_64, capacity, kind, condition, start.wrapping_add(written))
    }

    #[test]
    fn the_shape_of_a_drive() {
        let mut zones = vec![zone(0, 1, 0, 0), zone(1, 1, 0, 0), zone(2, 2, 1, 0), zone(3, 2, 0xe, 5000)];
        let wanted = Geometry {
            conventional_zones: 2,
            open_zones_max: Some(8),
            volatile_cache: true,
            ..Geometry::zns(Blocks(16), Blocks(12), 4, 8, 8)
        };
        let shape = geometry(&drive(), &zones).unwrap();
        assert_eq!(shape, Geometry { active_zones_max: None, ..wanted.clone() });
        zones.push(RawZone::new(4 * KIB_64, 64, 64, 2, 1, 0));
        assert_eq!(geometry(&drive(), &zones).unwrap().zone_count, 4, "a smaller last zone is left out");
        let limits = Drive { max_active_zones: Some(6), write_cache: Some(WriteCache::WriteThrough), ..drive() };
        let shape = geometry(&limits, &zones).unwrap();
        assert_eq!((shape.open_zones_max, shape.active_zones_max, shape.volatile_cache), (Some(6), Some(6), false));
    }

    #[test]
    fn shapes_that_cannot_be_used_are_named() {
        let good = [zone(0, 2, 1, 0), zone(1, 2, 1, 0), zone(2, 2, 1, 0)];
        let why = |zones: &[RawZone]| geometry(&drive(), zones).unwrap_err();
        assert!(why(&[]).contains("no zones"));
        let mut zones = good;
        zones[1].capacity = 88;
        assert!(why(&zones).contains("differ in capacity (49152 and 45056 bytes)"));
        zones[1] = RawZone { length: 64, ..good[1] };
        assert!(why(&zones).contains("different sizes"));
        zones[1] = RawZone { start: 1, ..good[1] };
        assert!(why(&zones).contains("one behind the other"));
        let odd = good.map(|zone| RawZone { capacity: 95, ..zone });
        assert!(why(&odd).contains("no multiple"));
        let large = Drive { logical_block_bytes: 16384, ..drive() };
        assert!(geometry(&large, &good).unwrap_err().contains("16384"));
        let mut dead = good;
        dead[1] = RawZone { capacity: 0, condition: 0xf, ..good[1] };
        assert!(geometry(&drive(), &dead).is_ok(), "an offline zone's capacity says nothing");
    }

    #[test]
    fn states_and_write_pointers() {
        use ZoneState as S;
        let shape = Geometry { conventional_zones: 1, ..Geometry::zns(Blocks(16), Blocks(12), 4, 8, 8) };
        let of = |kind, condition, written| {
            let found = found(&shape, ZoneId(1), &zone(1, kind, condition, written));
            (found.state, found.written.0, found.torn)
        };
        assert_eq!(of(2, 1, 0), (S::Empty, 0, None));
        assert_eq!(of(2, 1, 77), (S::Empty, 0, None));
        assert_eq!(of(2, 2, 16), (S::ImplicitOpen, 2, None));
        assert_eq!(of(2, 3, 0), (S::ExplicitOpen, 0, None));
        assert_eq!(of(2, 4, 19), (S::Closed, 2, Some(KIB_64 + 19)));
        assert_eq!(of(2, 4, 97), (S::Offline, 0, None), "past the capacity");
        assert_eq!(of(2, 0xe, u64::MAX), (S::Full, 12, None), "the write pointer of a full zone is garbage");
        assert_eq!(of(2, 0xd, 24), (S::ReadOnly, 3, None));
        assert_eq!(of(2, 0xd, u64::MAX - 5), (S::ReadOnly, 12, None));
        assert_eq!(of(2, 0xf, 24), (S::Offline, 0, None));
        assert_eq!(of(2, 9, 24), (S::Offline, 0, None), "a state nobody knows");
        assert_eq!(of(1, 0, 0), (S::Offline, 0, None), "a conventional zone out of its place");
        let conventional = |condition| found(&shape, ZoneId(0), &zone(0, 1, condition, 0)).state;
        assert_eq!([0, 0xd, 0xf].map(conventional), [S::NotWritePointer, S::ReadOnly, S::Offline]);
    }
}
