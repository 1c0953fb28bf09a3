//! Zones as cells of a map, before it is drawn.

use shingle_base::StoreId;
use shingle_zoned::{Geometry, ZoneInfo, ZoneState};

/// Role of a zone or cell, apart from its share. A cell of several zones has the first role that any of them has, down
/// to `Data`; below it, the most common one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Lost.
    Offline,
    /// Never writable again.
    ReadOnly,
    /// Open to writes.
    Open,
    /// Written, in part or wholly.
    Data,
    /// The store's own: superblock, checkpoints, journal.
    Metadata,
    /// Without a write pointer.
    Conventional,
    /// Nothing in it.
    Empty,
}

impl Role {
    pub(crate) const ALL: [Self; 7] =
        [Self::Offline, Self::ReadOnly, Self::Open, Self::Data, Self::Metadata, Self::Conventional, Self::Empty];

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Offline => "offline",
            Self::ReadOnly => "read-only",
            Self::Open => "open",
            Self::Data => "written",
            Self::Metadata => "store's own (superblock, checkpoints, journal)",
            Self::Conventional => "conventional",
            Self::Empty => "empty",
        }
    }
}

/// A zone.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) number: u32,
    pub(crate) role: Role,
    pub(crate) written: u64,
    pub(crate) capacity: u64,
    /// Live bytes; `None` if unknown.
    pub(crate) live: Option<u64>,
}

impl Zone {
    pub(crate) fn new(info: &ZoneInfo, geometry: &Geometry) -> Self {
        let role = match info.state {
            ZoneState::NotWritePointer => Role::Conventional,
            ZoneState::Empty => Role::Empty,
            ZoneState::ImplicitOpen | ZoneState::ExplicitOpen => Role::Open,
            ZoneState::Closed | ZoneState::Full => Role::Data,
            ZoneState::ReadOnly => Role::ReadOnly,
            ZoneState::Offline => Role::Offline,
        };
        let capacity = geometry.capacity_of(info.zone).bytes();
        Self { number: info.zone.0, role, written: info.written.bytes(), capacity, live: None }
    }

    /// True if it can still be written.
    pub(crate) fn is_sound(&self) -> bool {
        !matches!(self.role, Role::ReadOnly | Role::Offline)
    }
}

/// Contents of a map.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: String,
    /// The chunk store whose live bytes are known.
    pub(crate) store: Option<StoreId>,
    pub(crate) zone_size: u64,
    pub(crate) zones: Vec<Zone>,
    pub(crate) notes: Vec<String>,
}

impl View {
    /// Meaning of the share, in words.
    pub(crate) fn share_words(&self) -> &'static str {
        if self.store.is_some() { "share of written bytes that live" } else { "share of capacity that is written" }
    }

    pub(crate) fn count(&self, role: Role) -> usize {
        self.zones.iter().filter(|zone| zone.role == role).count()
    }

    pub(crate) fn written(&self) -> u64 {
        self.zones.iter().map(|zone| zone.written).sum()
    }

    /// Live bytes, if a store knows them.
    pub(crate) fn live(&self) -> Option<u64> {
        self.store.map(|_| self.zones.iter().filter_map(|zone| zone.live).sum())
    }

    pub(crate) fn cells(&self, zones_per_cell: u32) -> Vec<Cell> {
        self.zones.chunks(zones_per_cell.max(1) as usize).map(|zones| Cell::of(zones, self.store.is_some())).collect()
    }
}

/// Some zones beside each other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) role: Role,
    /// Of all its zones together; `None` if its zones have no share.
    pub(crate) share: Option<f64>,
}

impl Cell {
    fn of(zones: &[Zone], with_store: bool) -> Self {
        let count = |role: Role| zones.iter().filter(|zone| zone.role == role).count();
        let any = Role::ALL.into_iter().take_while(|&role| role <= Role::Data).find(|&role| count(role) > 0);
        let most = || Role::ALL.into_iter().max_by_key(|&role| (count(role), std::cmp::Reverse(role)));
        let role = any.or_else(most).unwrap_or(Role::Empty);
        // A share of metadata and conventional zones has no meaning.
        let counted = zones.iter().filter(|zone| zone.role <= Role::Data || zone.role == Role::Empty);
        let (mut part, mut whole) = (0, 0);
        for zone in counted {
            part += if with_store { zone.live.unwrap_or(0) } else { zone.written };
            whole += if with_store { zone.written } else { zone.capacity };
        }
        let share = (role <= Role::Data && whole > 0).then(|| (part as f64 / whole as f64).clamp(0.0, 1.0));
        let number = |zone: Option<&Zone>| zone.map_or(0, |zone| zone.number);
        Self { first: number(zones.first()), last: number(zones.last()), role, share }
    }

    /// The share in tenths; 10 is only for all of it.
    pub(crate) fn tenths(&self) -> Option<usize> {
        self.share.map(|share| if share >= 0.995 { 10 } else { (share * 10.0) as usize })
    }
}

/// The fewest zones in a cell so that at most `cells` cells are needed, out of 1, 2, 5, 10, 20, 50...
pub(crate) fn zones_per_cell(zones: usize, cells: usize) -> u32 {
    let mut scale = 1u32;
    loop {
        for step in [1, 2, 5] {
            let per_cell = scale.saturating_mul(step);
            if zones.div_ceil(per_cell as usize) <= cells.max(1) || per_cell == u32::MAX {
                return per_cell;
            }
        }
        scale = scale.saturating_mul(10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(role: Role, written: u64, live: Option<u64>) -> Zone {
        Zone { number: 0, role, written, capacity: 100, live }
    }

    #[test]
    fn a_cell_shows_trouble_first_and_shares_of_all_its_zones() {
        let zones = [zone(Role::Data, 100, Some(50)), zone(Role::Empty, 0, None), zone(Role::Data, 50, Some(0))];
        let cell = Cell::of(&zones, true);
        assert_eq!((cell.role, cell.tenths()), (Role::Data, Some(3)));
        assert_eq!(Cell::of(&zones, false).tenths(), Some(5));
        let mut zones = zones.to_vec();
        zones.push(zone(Role::Offline, 0, None));
        assert_eq!(Cell::of(&zones, true).role, Role::Offline);
        let quiet = [zone(Role::Empty, 0, None), zone(Role::Conventional, 0, None), zone(Role::Empty, 0, None)];
        assert_eq!((Cell::of(&quiet, true).role, Cell::of(&quiet, true).share), (Role::Empty, None));
    }

    #[test]
    fn a_drive_of_any_size_fits() {
        assert_eq!(zones_per_cell(60, 60), 1);
        assert_eq!(zones_per_cell(61, 60), 2);
        assert_eq!(zones_per_cell(74_508, 1500), 50);
        assert_eq!(zones_per_cell(usize::MAX, 0), u32::MAX);
    }
}
