//! The last step: the state that the store begins with, from the chunks and zones that were found.

use std::collections::{BTreeMap, BTreeSet};

use shingle_base::{Blocks, ZoneId};
use shingle_zoned::Geometry;

use crate::append::pools::Pools;
use crate::append::turns::Turns;
use crate::append::{OpenChunk, Resumption, Starved, ZoneWriter};
use crate::config::Options;
use crate::drive::Layout;
use crate::gc::{Destination, Destinations, Lifetimes};
use crate::index::Tally;
use crate::journal::{Deletions, Unmarked};
use crate::landing::LandingLog;
use crate::recovery::chunks::Chunks;
use crate::recovery::report::Damage;
use crate::recovery::scan::FoundZone;
use crate::state::StoreState;
use crate::stats::Counters;
use crate::types::ZoneStatus;
use crate::zones::GC_RESERVE;
use crate::zones::ZoneTable;
use crate::zones::leases::{Holder, Leases};

/// Continues zones that can be written: as open zones of pools that lack some, and one of each stream as the zone that
/// GC moves to, the one with the most room.
///
/// GC comes first where it has no free zone: it could not go on anywhere else, and appends wait for what it wins.
///
/// Each needs a lease (CS-LEASE-1). All others that the drive has open are to be given up.
fn reuse(found: &[FoundZone], pools: &mut Pools, leases: &mut Leases) -> (BTreeSet<ZoneId>, Destinations) {
    let mut open: Vec<&FoundZone> = found.iter().filter(|zone| zone.reusable && !zone.landing).collect();
    open.sort_by_key(|zone| zone.written);
    let mut destinations = [None; 3];
    let mut take_destinations = |open: &mut Vec<&FoundZone>, leases: &mut Leases| {
        open.retain(|zone| {
            let many = destinations.iter().flatten().count() >= leases.gc() as usize;
            let destination = &mut destinations[zone.stream.slot()];
            let taken = destination.is_none() && !many && leases.take(zone.zone, Holder::Gc).is_some();
            if taken {
                *destination = Some(Destination { zone: zone.zone, next: zone.written });
            }
            !taken
        });
    };
    let free = found.iter().filter(|zone| matches!(zone.status, ZoneStatus::Free | ZoneStatus::Garbage)).count();
    if free <= GC_RESERVE as usize {
        take_destinations(&mut open, leases);
    }
    let mut pooled = BTreeSet::new();
    open.retain(|zone| {
        let pool = pools.of(zone.stream);
        let wanted = pools.stream(pool) == zone.stream && pools.missing(pool) > 0;
        let taken = wanted && leases.take(zone.zone, Holder::Caller).is_some();
        if taken {
            pools.add(pool, zone.zone);
            pooled.insert(zone.zone);
        }
        !taken
    });
    take_destinations(&mut open, leases);
    (pooled, destinations)
}

/// Puts the state together.
pub(super) fn state(
    Chunks { table: chunks, resumed, .. }: Chunks,
    found: Vec<FoundZone>,
    geometry: &Geometry,
    layout: &Layout,
    options: &Options,
    now: u64,
    damage: &mut Vec<Damage>,
) -> (StoreState, Destinations) {
    let capacity = geometry.zone_capacity;
    let mut zones = ZoneTable::new(layout.data_zones.start, layout.data_zones.len() as u32, (capacity.0 - 1) as u32);
    let landing_zones = options.landing.map_or(0, |landing| landing.zones);
    let mut leases = Leases::new(geometry, Pools::count(options.placement));
    let data_zones = layout.data_zones.len() as u32;
    let mut pools = Pools::new(options.placement, options.pools, landing_zones, leases.callers(), data_zones);
    let mut open = BTreeMap::new();
    let mut records = 0;
    for (handle, chunk) in chunks.after(None) {
        let mut footprint = Blocks::ZERO;
        for group in chunk.groups.iter() {
            zones.add_group(group.zone, handle);
            zones.add_live(group.zone, group.blocks());
            footprint += group.blocks();
            records += group.len() as u64;
            // The first of a run is as long as any of it.
            group.runs().for_each(|run| zones.note_length(group.zone, run.record(0).blocks()));
        }
        if !chunk.sealed {
            let pool = pools.of(chunk.stream);
            let before = pools.note_opened(pool, handle);
            let chunk = OpenChunk::at(chunk.size, footprint.0 as u32, pool, before);
            open.insert(handle, OpenChunk { resumption: Resumption::Needed, ..chunk });
        }
    }
    let mut writers = BTreeMap::new();
    let mut unmarked = Unmarked::new(options.mark_every);
    let (pooled, destinations) = reuse(&found, &mut pools, &mut leases);
    for zone in found {
        let mut status = zone.status;
        let slot = zones.get_mut(zone.zone);
        (slot.stream, slot.epoch, slot.last_write) = (zone.stream, zone.epoch, zone.last_write);
        (slot.landing, slot.suspect) = (zone.landing, zone.is_suspect());
        slot.lost = zone.lost;
        (slot.written, slot.indexed_to, slot.marked_to) = (zone.written, zone.indexed_to, zone.marked_to);
        if zone.marked_to < zone.indexed_to && !zone.landing && zone.status != ZoneStatus::Garbage {
            unmarked.note(zone.zone, 0);
            // Of what was found there some may be copies (CS-MARK-5).
            unmarked.note_moved(zone.zone);
        }
        if zone.status != ZoneStatus::Garbage {
            zone.behind().into_iter().for_each(|stretch| unmarked.note_behind(zone.zone, stretch));
        }
        // A landing zone goes on as any other that is closed: its records are in the index now.
        if pooled.contains(&zone.zone) {
            writers.insert(zone.zone, ZoneWriter::new(zone.written, capacity.0 as u32));
            status = if zone.written > 1 { ZoneStatus::Activated } else { ZoneStatus::Opened };
        } else if destinations.iter().flatten().any(|destination| destination.zone == zone.zone) {
            status = ZoneStatus::Activated;
        }
        if status == ZoneStatus::Free && !zones.get(zone.zone).groups.is_empty() {
            // Somebody emptied it behind the store's back: what lay there is lost, and it stays out of use until the
            // chunks that had it are deleted.
            status = ZoneStatus::Closed;
            zones.get_mut(zone.zone).damaged = true;
            let what = "the zone is empty, but chunks have records in it".to_owned();
            damage.push(Damage { chunk: None, zone: Some(zone.zone), what });
        }
        zones.set_status(zone.zone, status);
        let goes_on = matches!(status, ZoneStatus::Opened | ZoneStatus::Activated);
        if zone.active && !goes_on {
            leases.found(zone.zone);
        }
        zones.note_garbage(zone.zone);
    }
    let starved = Starved::new(pools.ids().len());
    let state = StoreState {
        chunks,
        zones,
        landing: LandingLog::new(options.landing, geometry, pools.landing),
        pools,
        open,
        deletions: Deletions::default(),
        turns: Turns::new(options.writes_max),
        writers,
        starved,
        leases,
        failed_openings: 0,
        stopped: None,
        counters: Counters::default(),
        lifetimes: Lifetimes::new(now),
        tally: Tally::of(records),
        unmarked,
        resumed,
    };
    (state, destinations)
}
