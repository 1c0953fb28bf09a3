//! GC where things go wrong or space is short: it waits for nothing that only itself could bring about, it takes what lives
//! out of zones that can be read only, and no append fails while a zone can be won.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{content, formatted, open};
use bytes::Bytes;
use futures_util::future::{Either, select};
use shingle_base::{Blocks, ChunkId, ZoneId};
use shingle_chunk_store::{
    ChunkStore, CostBenefit, ErrorKind, GcStatus, Greedy, Landing, Options, Placement, PoolSizes, Stream, ZoneStat,
    ZoneStatus, dump,
};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{Geometry, ZoneState};

fn quiet() -> Options {
    Options {
        pools: PoolSizes { gc: 1, data: 1, meta: 1 },
        landing: None,
        background: false,
        record_max: 64 << 10,
        ..Options::default()
    }
}

async fn append(store: &ChunkStore, id: ChunkId, at: u64, length: u64) -> shingle_chunk_store::Result<u64> {
    store.append(id, at, vec![Bytes::from(content(at + length, at, length))]).await
}

/// Fills data zones with pairs of chunks that take a zone together, until there is no space. Returns each with its zone.
async fn fill(store: &ChunkStore) -> Vec<(ChunkId, ZoneId)> {
    let mut ids = Vec::new();
    let mut before = store.zones();
    for number in 0..1000 {
        let id = ChunkId::from_u64(number);
        store.create(id, Stream::Data).await.unwrap();
        match append(store, id, 0, 100_000).await {
            Ok(_) => {
                store.seal(id).await.unwrap();
                let now = store.zones();
                let (grown, _) =
                    now.iter().zip(&before).find(|(now, then)| now.live_blocks > then.live_blocks).unwrap();
                ids.push((id, grown.zone));
                before = now;
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::NoSpace);
                store.delete(id).await.unwrap();
                return ids;
            }
        }
    }
    unreachable!("the drive never fills");
}

/// GC has lost its destination, no zone is free, and all that lived in its victim is deleted: the only garbage then is the
/// victim, which GC itself keeps from being reset.
#[test]
fn gc_does_not_wait_for_its_own_victim() {
    let mut waited = 0;
    for delay in 0..12 {
        let medium = formatted(Geometry::hm_smr(Blocks(64), 16, 0, 12));
        waited += Sim::new(delay).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, quiet()).await;
            let ids = fill(&store).await;
            // One chunk is left in each, and to the only free zone nothing can be moved.
            for (id, _) in ids.iter().step_by(2) {
                store.delete(*id).await.unwrap();
            }
            let free = store.zones().into_iter().find(|zone| zone.status == ZoneStatus::Free).unwrap().zone;
            let rule = FaultRule { trigger: Trigger::Zone(CommandKind::Write, free), fault: Fault::ZoneReadOnly };
            device.set_faults(Faults::new([rule]));
            let collector = store.clone();
            let collecting = rt.spawn(async move { collector.gc(1, |_| {}).await });
            while store.gc_status().victim.is_none() {
                rt.sleep(Duration::from_micros(1)).await;
            }
            let victim = store.gc_status().victim.unwrap();
            rt.sleep(Duration::from_micros(40 * delay)).await;
            let (left, _) = ids.iter().skip(1).step_by(2).find(|(_, zone)| *zone == victim).unwrap();
            store.delete(*left).await.unwrap();
            let waiting = store.zones().iter().any(|zone| zone.zone == victim && zone.status == ZoneStatus::Garbage);
            let timeout = Box::pin(rt.sleep(Duration::from_secs(10)));
            let ended = select(Box::pin(collecting), timeout).await;
            assert!(matches!(ended, Either::Left(_)), "delay {delay}: GC waits for ever");
            u32::from(waiting)
        });
    }
    assert!(waited > 0, "the victim never became garbage while it was emptied");
}

/// Records of all chunks: their ranges, and the zones that they lie in.
async fn records(rt: &Runtime, device: &SimDevice, store: &ChunkStore) -> (Vec<(ChunkId, u64, u64)>, Vec<ZoneId>) {
    store.checkpoint().await.unwrap();
    let found = dump(rt, Rc::new(SimDevice::new(rt, &device.image()))).await.unwrap();
    let records = found.chunks.iter().flat_map(|chunk| chunk.records.iter().map(|record| (chunk.id, *record)));
    records.map(|(id, record)| ((id, record.offset, record.length), record.zone)).unzip()
}

/// CS-GC-2: a copy has the range of its original.
#[test]
fn records_keep_their_ranges_when_they_move() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 24, 0, 12));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        for id in (0..20).map(ChunkId::from_u64) {
            store.create(id, Stream::Data).await.unwrap();
            let mut size = 0;
            for length in [20_000, 300, 9000, 15_000] {
                size = append(&store, id, size, length).await.unwrap();
            }
            store.seal(id).await.unwrap();
        }
        for id in (0..20).step_by(2).map(ChunkId::from_u64) {
            store.delete(id).await.unwrap();
        }
        let (ranges, zones) = records(&rt, &device, &store).await;
        assert!(store.gc(100, |_| {}).await.unwrap().zones > 0);
        let (moved, zones_now) = records(&rt, &device, &store).await;
        assert_ne!(zones_now, zones, "GC moved nothing");
        assert_eq!(moved, ranges);
    });
}

/// CS-GC-6, as the fault model has it.
#[test]
fn what_lives_in_a_zone_that_turned_read_only_is_moved_away() {
    for background in [false, true] {
        let medium = formatted(Geometry::hm_smr(Blocks(64), 24, 0, 12));
        Sim::new(1).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, Options { background, ..quiet() }).await;
            let id = ChunkId::from_u64(1);
            store.create(id, Stream::Data).await.unwrap();
            append(&store, id, 0, 50_000).await.unwrap();
            let zone = store.zones().into_iter().find(|zone| zone.live_blocks > 0).unwrap().zone;
            let rule = FaultRule { trigger: Trigger::Zone(CommandKind::Write, zone), fault: Fault::ZoneReadOnly };
            device.set_faults(Faults::new([rule]));
            append(&store, id, 50_000, 20_000).await.unwrap();
            let lost = |store: &ChunkStore| store.zones().into_iter().find(|found| found.zone == zone).unwrap();
            assert_eq!(lost(&store).status, ZoneStatus::ReadOnly);
            if background {
                rt.sleep(Duration::from_secs(1)).await;
            } else {
                assert!(lost(&store).live_blocks > 0);
                assert_eq!(store.gc(1, |_| {}).await.unwrap().zones, 1);
            }
            let now = lost(&store);
            assert_eq!((now.live_blocks, now.status), (0, ZoneStatus::ReadOnly), "CS-GC-6");
            store.close().await.unwrap();
            // The zone dies: nothing was in it any more.
            let medium = device.image();
            medium.set_state(zone, ZoneState::Offline);
            let device = SimDevice::new(&rt, &medium);
            let (store, report) = open(&rt, &device, quiet()).await;
            assert_eq!(report.damage, [], "CS-ZONE-5");
            let expected = [content(50_000, 0, 50_000), content(70_000, 50_000, 20_000)].concat();
            assert!(store.read(id, 0, 70_000).await.unwrap() == expected);
        });
    }
}

/// Expected contents of the store near the limit: chunks with their bytes.
struct Full {
    rt: Runtime,
    store: ChunkStore,
    chunks: RefCell<VecDeque<(ChunkId, u64)>>,
    random: RefCell<Random>,
    /// Blocks that are to live.
    most: u64,
}

impl Full {
    fn below(&self, limit: u64) -> u64 {
        self.random.borrow_mut().below(limit)
    }

    /// Writes chunk after chunk, each after so much was deleted that it has space.
    async fn run(&self, first: u64, steps: u64, context: &str) {
        for number in first..first + steps {
            let id = ChunkId::from_u64(number);
            let stream = Stream::ALL[self.below(3) as usize];
            let mut size = 0;
            self.make_room().await;
            self.store.create(id, stream).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            for _ in 0..1 + self.below(4) {
                let length = 1 + self.below(16_000);
                let end = append(&self.store, id, size, length).await;
                size = end.unwrap_or_else(|error| panic!("{context}, chunk {number}: {error}: CS-CHUNK-4"));
            }
            self.store.seal(id).await.unwrap();
            self.chunks.borrow_mut().push_back((id, size));
            self.rt.sleep(Duration::from_micros(self.below(2000))).await;
        }
    }

    /// Deletes chunks, anywhere, until there is room for one more.
    async fn make_room(&self) {
        while self.store.store_stat().live_bytes / 4096 + 60 > self.most {
            let doomed = {
                let mut chunks = self.chunks.borrow_mut();
                let at = self.below(chunks.len() as u64) as usize;
                chunks.swap_remove_back(at)
            };
            self.store.delete(doomed.unwrap().0).await.unwrap();
        }
    }
}

/// CS-CHUNK-4 with little to spare: garbage lies all over, appends wait for what GC wins, and the drive allows few open
/// zones.
#[test]
fn no_append_fails_for_space_while_a_zone_can_be_won() {
    let mut emptied = 0;
    for seed in seeds(24) {
        let mut random = Random::new(seed);
        let limit = 7 + random.below(10) as u32;
        let geometry = match random.below(3) {
            0 => Geometry::hm_smr(Blocks(64), 97, 0, limit),
            1 => Geometry::zns(Blocks(64), Blocks(64), 97, limit, limit),
            _ => Geometry { open_zones_max: None, ..Geometry::hm_smr(Blocks(64), 97, 0, limit) },
        };
        let medium = formatted(geometry);
        emptied += Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let mut options = Options {
                background: true,
                gc_start: 0.1,
                checkpoint_every: Duration::from_millis(50),
                gc_idle_after: random.chance(0.5).then_some(Duration::from_millis(1)),
                ..quiet()
            };
            match random.below(3) {
                0 => options.victims = Rc::new(Greedy),
                1 => options.victims = Rc::new(CostBenefit),
                _ => {}
            }
            options.landing = random.chance(0.4).then(|| Landing {
                append_max: 8000,
                budget: 40_000,
                zones: 2,
                idle: Duration::from_millis(5),
                everywhere: true,
            });
            let (store, _) = open(&rt, &device, options).await;
            let zones = store.layout().data_zones.len() as u64;
            // Free: GC's reserve, a zone for each pool and for each destination, what records leave at ends of zones.
            let most = (zones - 7) * (63 - 4);
            let full = Full {
                rt: rt.clone(),
                store: store.clone(),
                chunks: RefCell::default(),
                random: RefCell::new(random),
                most,
            };
            let context = format!("seed {seed}");
            full.run(0, 900, &context).await;
            for (id, size) in full.chunks.borrow().iter() {
                assert_eq!(store.stat(*id).unwrap().size, *size, "{context}");
            }
            store.counters().gc_zones
        });
    }
    assert!(emptied > 500, "GC emptied only {emptied} zones");
}

/// CS-VICTIM-4: a store that kept streams apart is opened by one that does not, so that GC has one destination for all of them.
#[test]
fn gc_of_streams_that_share_a_destination_comes_to_an_end() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 16));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        // Zones of both streams by turns, a third of which lives.
        for number in 0..8 {
            let stream = [Stream::Data, Stream::Meta][number as usize % 2];
            for (id, records) in [(number, 7), (100 + number, 14)] {
                store.create(ChunkId::from_u64(id), stream).await.unwrap();
                for at in 0..records {
                    append(&store, ChunkId::from_u64(id), at * 10_000, 10_000).await.unwrap();
                }
            }
        }
        for number in 0..8 {
            store.delete(ChunkId::from_u64(100 + number)).await.unwrap();
        }
        store.close().await.unwrap();
        let placement = Placement { separate_streams: false, ..Placement::default() };
        let options = Options { placement, victims: Rc::new(Greedy), ..quiet() };
        let (store, _) = open(&rt, &SimDevice::new(&rt, &device.image()), options).await;
        let emptied = store.gc(100, |_| {}).await.unwrap().zones;
        assert!((4..=12).contains(&emptied), "{emptied} zones were emptied: CS-VICTIM-4");
        for number in 0..8 {
            assert_eq!(store.stat(ChunkId::from_u64(number)).unwrap().size, 70_000);
        }
    });
}

/// CS-CHUNK-4: what GC moved has died since, and lies in the zone that it moves to; all others are full and live. The next append
/// gets that zone.
#[test]
fn an_append_gets_the_zone_that_gc_moves_to_if_nothing_in_it_lives() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 24, 0, 12));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        let ids = fill(&store).await;
        // One of two chunks in three zones goes; GC moves two of the others together, and finds no place for the third.
        for pair in ids.chunks(2).take(3) {
            assert_eq!(pair[0].1, pair[1].1);
            store.delete(pair[0].0).await.unwrap();
        }
        while store.gc(1, |_| {}).await.is_ok_and(|report| report.zones > 0) {}
        rt.sleep(Duration::from_secs(1)).await;
        let lives = |zone| store.zones().iter().any(|found| found.zone == zone && found.live_blocks > 0);
        let moved: Vec<ChunkId> =
            ids.chunks(2).take(3).filter(|pair| !lives(pair[1].1)).map(|pair| pair[1].0).collect();
        assert_eq!(moved.len(), 2);
        let mut number = 2000;
        loop {
            let id = ChunkId::from_u64(number);
            store.create(id, Stream::Data).await.unwrap();
            if append(&store, id, 0, 200_000).await.is_err() {
                break;
            }
            number += 1;
        }
        for id in moved {
            store.delete(id).await.unwrap();
        }
        let dead = |zone: &ZoneStat| zone.status == ZoneStatus::Activated && zone.live_blocks == 0;
        let found: Vec<ZoneStat> = store.zones().into_iter().filter(dead).collect();
        assert!(found.len() == 1 && found[0].written_blocks > 40, "the case is not met: {found:?}");
        let id = ChunkId::from_u64(number);
        append(&store, id, 0, 200_000).await.unwrap_or_else(|error| panic!("CS-CHUNK-4: {error}"));
    });
}

/// CS-GC-12: GC gives way to appends that are slow, and pauses many times as long as it works. Once appends wait for what it wins, no pause goes on.
#[test]
fn a_pause_of_gc_ends_once_appends_wait_for_space() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 64, 0, 12));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        device.on_command(|command, device| {
            // The first appends are fast, so that the later ones count as slow.
            if command.number == 400 {
                device.set_latency(Duration::from_secs(1));
            }
        });
        let (store, _) = open(&rt, &device, Options { background: true, gc_start: 0.5, ..quiet() }).await;
        let ids = fill(&store).await;
        // Long enough that free zones do not seem to run out.
        rt.sleep(Duration::from_secs(100_000)).await;
        for (id, _) in ids.iter().step_by(2) {
            store.delete(*id).await.unwrap();
        }
        let pauses = |status: GcStatus| status.speed < 0.03 && status.progress == 1.0;
        while !pauses(store.gc_status()) {
            rt.sleep(Duration::from_secs(1)).await;
        }
        device.set_latency(Duration::from_millis(1));
        let mut slowest = Duration::ZERO;
        for number in 2000..2030 {
            let id = ChunkId::from_u64(number);
            store.create(id, Stream::Data).await.unwrap();
            let began = rt.now();
            append(&store, id, 0, 100_000).await.unwrap();
            slowest = slowest.max(rt.now().since(began));
        }
        assert!(slowest < Duration::from_secs(5), "an append waited {slowest:?} for a pause of GC");
    });
}

/// CS-APP-6: a write fails after its effect, and no zone is left for another try: the append may be found by the next opening, so its caller
/// must not be told that nothing was written.
#[test]
fn an_append_that_may_be_on_the_drive_is_not_refused_for_want_of_space() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 24, 0, 12));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        // One zone is free again, and is the only one that appends have.
        for (id, _) in fill(&store).await.into_iter().take(2) {
            store.delete(id).await.unwrap();
        }
        let id = ChunkId::from_u64(2000);
        store.create(id, Stream::Data).await.unwrap();
        append(&store, id, 0, 1000).await.unwrap();
        let rule = FaultRule { trigger: Trigger::Rate(CommandKind::Write, 1.0), fault: Fault::FailedAfterEffect };
        device.set_faults(Faults::new([rule]).sparing((0..7).map(ZoneId)));
        let refused = append(&store, id, 1000, 1000).await.unwrap_err();
        assert!(!device.faults().injected().is_empty(), "nothing was written: {refused}");
        assert_eq!(refused.kind, ErrorKind::Device, "{refused}");
    });
}

/// CS-CHUNK-4, CS-GC-10: a full drive reads no data for a while, so that GC can win nothing. Appends do not wait for that, and have space
/// soon after it can.
#[test]
fn appends_have_space_again_once_a_full_drive_can_be_read() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 24, 0, 12));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, Options { background: true, ..quiet() }).await;
        let ids = fill(&store).await;
        let blind = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::ReadError };
        device.set_faults(Faults::new([blind]).sparing((0..7).map(ZoneId)));
        for (id, _) in ids.iter().step_by(2) {
            store.delete(*id).await.unwrap();
        }
        let id = ChunkId::from_u64(2000);
        store.create(id, Stream::Data).await.unwrap();
        for _ in 0..40 {
            let reads = device.counts().reads.0;
            let waits = select(Box::pin(append(&store, id, 0, 200_000)), Box::pin(rt.sleep(Duration::from_secs(10))));
            let Either::Left((refused, _)) = waits.await else { panic!("an append waits for what cannot be read") };
            assert_eq!(refused.unwrap_err().kind, ErrorKind::NoSpace);
            rt.sleep(Duration::from_secs(1)).await;
            assert!(device.counts().reads.0 - reads < 100, "GC tries again and again");
        }
        device.set_faults(Faults::default());
        rt.sleep(Duration::from_secs(60)).await;
        append(&store, id, 0, 200_000).await.unwrap_or_else(|error| panic!("CS-CHUNK-4: {error}"));
    });
}

/// Without background work nobody but a caller runs GC: an append does not wait for that.
#[test]
fn without_background_work_a_full_drive_says_so() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 24, 0, 12));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, quiet()).await;
        let ids = fill(&store).await;
        for (id, _) in ids.iter().step_by(2) {
            store.delete(*id).await.unwrap();
        }
        let id = ChunkId::from_u64(2000);
        store.create(id, Stream::Data).await.unwrap();
        for _ in 0..2 {
            let waited = select(Box::pin(append(&store, id, 0, 200_000)), Box::pin(rt.sleep(Duration::from_secs(60))));
            let Either::Left((refused, _)) = waited.await else { panic!("the append waits") };
            assert_eq!(refused.unwrap_err().kind, ErrorKind::NoSpace);
        }
        assert!(store.gc(100, |_| {}).await.unwrap().zones > 0);
        append(&store, id, 0, 200_000).await.unwrap();
    });
}
