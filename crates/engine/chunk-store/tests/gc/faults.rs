//! GC and zones that fail under it: what lived in the victim is not lost by being moved.

use std::cell::Cell;
use std::time::Duration;

use crate::common::{content, formatted, open};
use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_base::{Blocks, ChunkId, ZoneId};
use shingle_chunk_store::{ChunkStore, ErrorKind, Options, PoolSizes, Stream, ZoneStatus};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{Geometry, ZoneState};

/// Bytes of each chunk.
const SIZE: u64 = 100_000;

fn quiet() -> Options {
    Options {
        pools: PoolSizes { gc: 1, data: 1, meta: 1 },
        landing: None,
        background: false,
        record_max: 64 << 10,
        ..Options::default()
    }
}

fn metadata_zones() -> impl Iterator<Item = ZoneId> {
    (0..7).map(ZoneId)
}

/// Writes chunks until some zones are closed; then deletes all but the first and the last of each zone, so that GC moves
/// them in two writes. Returns what is left.
async fn sparse_zones(store: &ChunkStore, zones: usize) -> Vec<ChunkId> {
    let closed = || store.zones().iter().filter(|zone| zone.status == ZoneStatus::Closed).count();
    let mut of_zone: Vec<(ZoneId, Vec<ChunkId>)> = Vec::new();
    let mut before = store.zones();
    for number in 0.. {
        if closed() == zones {
            break;
        }
        let id = ChunkId::from_u64(number);
        store.create(id, Stream::Data).await.unwrap();
        store.append(id, 0, vec![Bytes::from(content(number, 0, SIZE))]).await.unwrap();
        store.seal(id).await.unwrap();
        let now = store.zones();
        let grown = now.iter().zip(&before).find(|(now, then)| now.live_blocks > then.live_blocks).unwrap().0.zone;
        match of_zone.last_mut().filter(|(zone, _)| *zone == grown) {
            Some((_, chunks)) => chunks.push(id),
            None => of_zone.push((grown, vec![id])),
        }
        before = now;
    }
    let mut left = Vec::new();
    for (_, chunks) in of_zone {
        let [first, dead @ .., last] = &chunks[..] else {
            left.extend(chunks);
            continue;
        };
        for id in dead {
            store.delete(*id).await.unwrap();
        }
        left.extend([*first, *last]);
    }
    left
}

async fn all_there(store: &ChunkStore, chunks: &[ChunkId], context: &str) {
    for id in chunks {
        let bytes = store.read(*id, 0, SIZE).await.unwrap_or_else(|error| panic!("{context}: chunk {id}: {error}"));
        let number = u64::from_be_bytes(id.0[16..].try_into().unwrap());
        assert!(bytes == content(number, 0, SIZE), "{context}: chunk {id}: wrong bytes");
    }
}

/// Empties so many zones while these faults hit the drive. All that lived in them is there directly afterwards, once
/// garbage is reset, after another try, and in a later opening. Returns 1 if GC says that copies were lost.
fn empties_under(geometry: Geometry, seed: u64, zones: u64, faults: &[FaultRule], context: &str) -> u32 {
    let medium = formatted(geometry);
    let faults = Faults::new(faults.iter().copied()).sparing(metadata_zones());
    let context = format!("seed {seed}, {context}");
    Sim::new(seed).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        let chunks = sparse_zones(&store, zones as usize + 2).await;
        all_there(&store, &chunks, &context).await;
        device.set_faults(faults);
        let first = store.gc(zones, |_| {}).await;
        device.set_faults(Faults::default());
        all_there(&store, &chunks, &format!("{context}, at once")).await;
        // Time enough to reset what is garbage.
        rt.sleep(Duration::from_secs(1)).await;
        all_there(&store, &chunks, &context).await;
        let left_out = match first {
            Ok(report) => {
                assert_eq!((report.zones, report.damaged), (zones, 0), "{context}");
                0
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Device, "{context}: {error}");
                1
            }
        };
        let again = store.gc(1, |_| {}).await.unwrap();
        assert_eq!((again.zones, again.damaged), (1, 0), "{context}: CS-GC-8");
        rt.sleep(Duration::from_secs(1)).await;
        all_there(&store, &chunks, &context).await;
        let (store, report) = open(&rt, &SimDevice::new(&rt, &device.crash_image(1)), quiet()).await;
        assert_eq!((&report.damage[..], report.hidden), (&[][..], false), "{context}: copies are no loss: CS-MARK-6");
        all_there(&store, &chunks, &format!("{context}, opened again")).await;
        left_out
    })
}

/// CS-GC-8: the zone that GC moves to goes offline at one write or another. Copies in it go with it, and their originals
/// were durable: they stay where they are, and another try moves them. So they do if the drive does not say what became of
/// the zone.
#[test]
fn originals_stay_where_the_zone_with_their_copies_goes_offline() {
    let silent = FaultRule { trigger: Trigger::Rate(CommandKind::Report, 1.0), fault: Fault::ReadError };
    for told in [true, false] {
        let mut left_out = 0;
        for write in 0..10 {
            let offline = FaultRule { trigger: Trigger::Nth(CommandKind::Write, write), fault: Fault::ZoneOffline };
            let faults = if told { vec![offline] } else { vec![offline, silent] };
            let context = format!("told: {told}");
            left_out += empties_under(Geometry::hm_smr(Blocks(512), 24, 0, 12), write, 1, &faults, &context);
        }
        assert!(left_out > 0, "no zone with copies went offline");
    }
}

/// CS-GC-8: the zone that GC moves to turns read-only, and loses what no flush has covered: at one write or another, or as the
/// drive is told to give it up once it is full.
#[test]
fn originals_stay_where_the_zone_with_their_copies_loses_its_cache() {
    let cached = |geometry| Geometry { volatile_cache: true, ..geometry };
    let (smr, zns) = (Geometry::hm_smr(Blocks(512), 24, 0, 12), Geometry::zns(Blocks(128), Blocks(128), 24, 12, 12));
    for (geometry, zones, kind) in [(zns, 4, CommandKind::Manage), (smr, 1, CommandKind::Write)] {
        let mut left_out = 0;
        for seed in seeds(60) {
            let fault = FaultRule { trigger: Trigger::Nth(kind, seed % 10), fault: Fault::ZoneLosesCache };
            left_out += empties_under(cached(geometry.clone()), seed, zones, &[fault], &format!("{kind:?}"));
        }
        assert!(left_out > 0, "{kind:?}: no zone with copies lost its cache");
    }
}

/// CS-GC-9: a caller of GC may go away at any time: the step that was begun ends, and GC goes on.
#[test]
fn a_step_of_gc_ends_though_its_caller_went_away() {
    let mut during = 0;
    for delay in 0..20 {
        let medium = formatted(Geometry::hm_smr(Blocks(512), 24, 0, 12));
        during += Sim::new(delay).run(move |rt| async move {
            let context = format!("seed {delay}");
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, quiet()).await;
            let chunks = sparse_zones(&store, 3).await;
            device.set_latency(Duration::from_millis(1));
            let pause = Box::pin(rt.sleep(Duration::from_micros(500 * delay)));
            drop(select(Box::pin(store.gc(1, |_| {})), pause).await);
            let during = u32::from(store.gc_status().victim.is_some());
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!(store.gc_status().victim, None, "{context}");
            let again = store.gc(1, |_| {}).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!((again.zones, again.damaged), (1, 0), "{context}");
            rt.sleep(Duration::from_secs(1)).await;
            all_there(&store, &chunks, &context).await;
            let (store, _) = open(&rt, &SimDevice::new(&rt, &device.crash_image(delay)), quiet()).await;
            all_there(&store, &chunks, &format!("{context}, opened again")).await;
            during
        });
    }
    assert!(during > 5, "{during} steps were given up");
}

/// CS-GC-10: the drive reads no data for a while. Zones that GC gave up meanwhile are emptied once they have rested.
#[test]
fn zones_that_cannot_be_read_for_a_while_are_emptied_later() {
    let medium = formatted(Geometry::hm_smr(Blocks(512), 24, 0, 12));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        let chunks = sparse_zones(&store, 3).await;
        let blind = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::ReadError };
        device.set_faults(Faults::new([blind]).sparing(metadata_zones()));
        let report = store.gc(3, |_| {}).await.unwrap();
        assert!(report.zones == 0 && report.damaged > 0, "{report:?}");
        device.set_faults(Faults::default());
        let report = store.gc(3, |_| {}).await.unwrap();
        assert_eq!((report.zones, report.damaged), (0, 0), "a zone is tried again at once");
        rt.sleep(Duration::from_secs(15)).await;
        let report = store.gc(1, |_| {}).await.unwrap();
        assert_eq!((report.zones, report.damaged), (1, 0), "CS-GC-10");
        all_there(&store, &chunks, "after GC").await;
    });
}

/// CS-GC-10: GC has another victim all the time, for the host has no room where it moves that. A zone that could not be read is emptied all
/// the same once it has rested.
#[test]
fn a_rest_ends_in_time_beside_other_victims() {
    let medium = formatted(Geometry::hm_smr(Blocks(512), 24, 0, 12));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        drop(sparse_zones(&store, 3).await);
        let before = store.zones();
        let id = ChunkId::from_u64(1 << 40);
        store.create(id, Stream::Meta).await.unwrap();
        store.append(id, 0, vec![Bytes::from(content(1, 0, SIZE))]).await.unwrap();
        let after = store.zones();
        let grown = after.iter().zip(&before).find(|(now, then)| now.live_blocks > then.live_blocks);
        let zone = grown.unwrap().0.zone;
        store.close().await.unwrap();
        let image = device.image();
        image.set_state(zone, ZoneState::ReadOnly);
        let device = SimDevice::new(&rt, &image);
        let options = Options { background: true, gc_start: 1.0, gc_idle_after: None, ..quiet() };
        let (store, _) = open(&rt, &device, options).await;
        let fault = |kind, zone, fault| FaultRule { trigger: Trigger::Zone(kind, zone), fault };
        let blind = fault(CommandKind::Read, zone, Fault::ReadError);
        device.set_faults(Faults::new([blind]));
        let full = Cell::new(false);
        device.on_command(move |command, device| {
            // The first zone to which anything is moved.
            if command.kind == CommandKind::Write
                && command.blocks > Blocks(1)
                && let Some(to) = command.zone.filter(|zone| metadata_zones().all(|other| other != *zone))
                && !full.replace(true)
            {
                device.set_faults(Faults::new([fault(CommandKind::Write, to, Fault::HostFull)]));
            }
        });
        rt.sleep(Duration::from_secs(590)).await;
        let live = || store.zones().into_iter().find(|found| found.zone == zone).unwrap().live_blocks;
        assert!(live() > 0, "it rests");
        rt.sleep(Duration::from_secs(20)).await;
        assert_eq!(live(), 0, "CS-GC-10");
        assert!(store.store_stat().host_full && store.counters().gc_zones == 1, "{:?}", store.counters());
    });
}

/// CS-GC-10, CS-GC-13: most zones have a block that cannot be read, and trying them all takes longer than they rest. Appends have the space of the others.
#[test]
fn zones_whose_rest_ends_leave_gc_time_for_others() {
    let geometry = Geometry::hm_smr(Blocks(128), 95, 0, 12);
    let medium = formatted(geometry.clone());
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        drop(sparse_zones(&store, 80).await);
        let closed: Vec<_> = store.zones().into_iter().filter(|zone| zone.status == ZoneStatus::Closed).collect();
        store.close().await.unwrap();
        let (store, _) = open(&rt, &device, Options { background: true, gc_idle_after: None, ..quiet() }).await;
        for zone in closed.iter().take(70) {
            device.medium().fail_reads(geometry.start_of(zone.zone) + Blocks(1), Blocks(1), None);
        }
        device.set_latency(Duration::from_secs(20));
        for number in 0..20 {
            let id = ChunkId::from_u64((1 << 40) + number);
            let append = async {
                store.create(id, Stream::Data).await.unwrap();
                store.append(id, 0, vec![Bytes::from(content(number, 0, SIZE))]).await
            };
            match select(Box::pin(append), Box::pin(rt.sleep(Duration::from_secs(7200)))).await {
                Either::Left((appended, _)) => assert!(appended.is_ok(), "append {number}: {appended:?}"),
                Either::Right(_) => {
                    panic!("append {number} waits for zones that cannot be read: {:?}", store.counters())
                }
            }
        }
        assert!(store.counters().gc_zones > 3, "the case is not met: {:?}", store.counters());
    });
}

/// CS-GC-11: a flush of GC is lost, or another of its commands finds the drive gone: the store stops, and asks the drive no more.
#[test]
fn gc_that_finds_the_drive_gone_stops_the_store() {
    let mut met = 0;
    for number in 0..20 {
        let geometry = Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(512), 24, 0, 12) };
        let medium = formatted(geometry);
        met += Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, quiet()).await;
            drop(sparse_zones(&store, 3).await);
            store.close().await.unwrap();
            let device = SimDevice::new(&rt, &device.image());
            let (store, _) = open(&rt, &device, Options { background: true, gc_start: 1.0, ..quiet() }).await;
            let begun = device.counts().commands;
            if number < 10 {
                let lost = FaultRule { trigger: Trigger::Nth(CommandKind::Flush, number), fault: Fault::FlushLost };
                device.set_faults(Faults::new([lost]));
            } else {
                device.power_off_at(begun + number - 10);
            }
            rt.sleep(Duration::from_secs(1)).await;
            let (commands, gone) = (device.counts().commands, device.is_gone());
            rt.sleep(Duration::from_secs(10)).await;
            let more = device.counts().commands - commands;
            if gone {
                assert!(more < 10, "{number}: {more} commands went to a drive that is gone");
                let refused = store.create(ChunkId::from_u64(1 << 40), Stream::Data).await.unwrap_err();
                assert_eq!(refused.kind, ErrorKind::Stopped, "{number}");
            }
            u32::from(gone)
        });
    }
    assert!(met > 10, "{met} of 20");
}
