//! Drives that fail: what was acknowledged is found or named as damaged, nothing wrong is ever returned, and the rest of
//! the drive keeps working.

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use common::{Driver, Model, content, formatted, open, options};
use shingle_base::{BLOCK_SIZE, Blocks, ChunkId, ZoneId};
use shingle_chunk_store::{ChunkStore, ErrorKind, Options, RecoveryReport, Stream, check, dump};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{Geometry, MemoryDevice, ZoneState, ZonedDevice};

fn drive() -> Geometry {
    Geometry::hm_smr(Blocks(64), 40, 0, 16)
}

/// Zones of superblock and metazones: faults in data zones leave them alone.
fn metadata_zones() -> impl Iterator<Item = ZoneId> {
    (0..7).map(ZoneId)
}

fn rate(kind: CommandKind, share: f64, fault: Fault) -> FaultRule {
    FaultRule { trigger: Trigger::Rate(kind, share), fault }
}

/// The most that faults may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    /// Nothing.
    Nothing,
    /// Reads fail for a while; the medium is as it should be.
    Reads,
    /// Records in zones that went offline.
    OfflineZones,
    /// Bytes on the medium are wrong.
    Bytes,
}

/// Zones of which a write succeeded and put other bytes there.
fn spoiled_zones(device: &SimDevice) -> Vec<ZoneId> {
    let silent = [Fault::BitFlip, Fault::TornWrite, Fault::Misdirected];
    let faults = device.faults();
    let spoiled = faults.injected().iter().filter(|(.., fault)| silent.contains(fault));
    spoiled.filter_map(|(_, zone, _)| *zone).collect()
}

/// Zones with wrong bytes, and which chunks have records there.
#[derive(Debug, Default)]
struct Spoiled {
    zones: Vec<ZoneId>,
    /// As the store had it; landing zones may hold any chunk's.
    chunks: Vec<(ZoneId, Option<ChunkId>)>,
    /// Zones in which a later store wrote wrong bytes: it may have moved anything there.
    later: Vec<ZoneId>,
}

impl Spoiled {
    fn may_hold(&self, chunk: ChunkId, zone: ZoneId) -> bool {
        let held = self.chunks.iter().any(|&(of, id)| of == zone && id.is_none_or(|id| id == chunk));
        self.later.contains(&zone) || self.zones.contains(&zone) && held
    }
}

/// Zones with the chunks whose records they hold, by the index of a store that runs.
async fn chunks_in_zones(rt: &Runtime, device: &SimDevice, store: &ChunkStore) -> Vec<(ZoneId, Option<ChunkId>)> {
    device.set_faults(Faults::new([]));
    store.checkpoint().await.unwrap();
    let found = dump(rt, Rc::new(SimDevice::new(rt, &device.image()))).await.unwrap();
    let landing = found.zones.iter().filter(|zone| zone.landing).map(|zone| (zone.zone, None));
    let records =
        found.chunks.iter().flat_map(|chunk| chunk.records.iter().map(|record| (record.zone, Some(chunk.id))));
    landing.chain(records).collect()
}

/// Holds a store against the model: what is missing is named by a report, and what is there is right.
async fn examine(
    store: &ChunkStore,
    model: &Model,
    report: Option<&RecoveryReport>,
    (cost, spoiled): (Cost, &Spoiled),
    context: &str,
) {
    let reads_fail = cost != Cost::Nothing;
    for (&id, chunk) in model.chunks.iter().filter(|(_, chunk)| chunk.created && !chunk.delete_begun) {
        let context = format!("{context}: chunk {id}");
        let size = store.stat(id).unwrap_or_else(|error| panic!("{context}: {error}")).size;
        if size < chunk.acked {
            // The chunk of a zone's lost records is not always known.
            let damage = report.map(|report| report.damage.as_slice()).unwrap_or_default();
            let told = damage.iter().any(|damage| damage.chunk == Some(id) || damage.chunk.is_none());
            // Wrong bytes in the last write of a zone cannot be told from a tear: of a zone that had a faulty write.
            let told = told || report.is_some_and(|report| report.torn.iter().any(|zone| spoiled.may_hold(id, *zone)));
            assert!(reads_fail && told, "{context}: {size} of {} bytes, without a word", chunk.acked);
        }
        for write in chunk.writes.iter().filter(|write| write.to <= size.min(chunk.acked)) {
            let length = write.to - write.from;
            match store.read(id, write.from, length).await {
                Ok(bytes) => assert!(bytes == chunk.bytes(write.from, length), "{context}: {write:?}: wrong bytes"),
                Err(error) => {
                    let known = matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Device);
                    assert!(reads_fail && known && error.chunk == Some(id), "{context}: {write:?}: {error}");
                }
            }
        }
    }
}

/// Runs a history with faults in the data zones, opens what a power cut leaves while the faults go on, and once more
/// when they are over.
fn history(seed: u64, rules: Vec<FaultRule>, cost: Cost) {
    let mut random = Random::new(seed);
    let medium = formatted(drive());
    let options = Options { background: true, ..options(&mut random) };
    Sim::new(seed).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, options.clone()).await;
        let faults = Faults::new(rules).sparing(metadata_zones());
        device.set_faults(faults.clone());
        let model = Rc::new(RefCell::new(Model::default()));
        let random = Rc::new(RefCell::new(random));
        let tasks: Vec<_> = (0..3)
            .map(|_| {
                let (model, random) = (model.clone(), random.clone());
                let driver = Driver { rt: rt.clone(), store: store.clone(), model, random, ids: 10, faults: true };
                rt.spawn(async move { driver.run(60).await })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let context = format!("seed {seed}, {} faults", device.faults().injected().len());
        let model = model.borrow().clone();
        // As the store that ran has it: it forgets nothing.
        for (&id, chunk) in model.chunks.iter().filter(|(_, chunk)| chunk.created && !chunk.delete_begun) {
            assert!(store.stat(id).unwrap().size >= chunk.acked, "{context}: {id} has shrunk");
        }
        // A short chunk is none of a zone's that no write spoiled.
        let mut spoiled = Spoiled { zones: spoiled_zones(&device), ..Spoiled::default() };
        examine(&store, &model, None, (cost, &spoiled), &format!("{context}, running")).await;
        let left = SimDevice::new(&rt, &device.crash_image(seed));
        spoiled.chunks = chunks_in_zones(&rt, &device, &store).await;
        left.set_faults(faults);
        let (store, report) = open(&rt, &left, options.clone()).await;
        examine(&store, &model, Some(&report), (cost, &spoiled), &format!("{context}, opened with faults")).await;
        let image = left.crash_image(seed);
        spoiled.later = spoiled_zones(&left);
        // Marks name what lies in zones that are offline now; nothing else does.
        let options = Options { scan_whole_zones: false, ..options };
        let (store, report) = open(&rt, &SimDevice::new(&rt, &image), options).await;
        let lasting = matches!(cost, Cost::OfflineZones | Cost::Bytes);
        let cost_now = if lasting { cost } else { Cost::Nothing };
        examine(&store, &model, Some(&report), (cost_now, &spoiled), &format!("{context}, opened without")).await;
        assert!(lasting || report.damage.is_empty(), "{context}: {:?}", report.damage);
        if cost == Cost::OfflineZones {
            only_offline_zones_cost(&rt, &image, &store, &model, &report, &context).await;
        }
    });
}

/// Reads every record in zones that can be read; missing ones were in others.
async fn only_offline_zones_cost(
    rt: &Runtime,
    image: &MemoryDevice,
    store: &ChunkStore,
    model: &Model,
    report: &RecoveryReport,
    context: &str,
) {
    let is_offline = |zone: ZoneId| image.zone(zone).state == ZoneState::Offline;
    for damage in report.damage.iter().filter(|damage| damage.chunk.is_none()) {
        assert!(damage.zone.is_some_and(is_offline), "{context}: {damage}");
    }
    let any = (0..image.geometry().zone_count).any(|zone| is_offline(ZoneId(zone)));
    assert!(any || report.damage.is_empty(), "{context}: {:?}", report.damage);
    let found = dump(rt, Rc::new(SimDevice::new(rt, image))).await.unwrap();
    for listed in &found.chunks {
        let Some(chunk) = model.chunks.get(&listed.id) else { continue };
        for record in listed.records.iter().filter(|record| record.offset + record.length <= chunk.acked) {
            let read = store.read(listed.id, record.offset, record.length).await;
            if is_offline(record.zone) {
                assert_eq!(read.unwrap_err().kind, ErrorKind::Device, "{context}: {record:?}");
            } else {
                let bytes = read.unwrap_or_else(|error| panic!("{context}: {record:?}: {error}"));
                assert!(bytes == chunk.bytes(record.offset, record.length), "{context}: {record:?}: wrong bytes");
            }
        }
    }
}

#[test]
fn failed_writes_lose_nothing() {
    for seed in seeds(60) {
        let share = 0.02 + (seed % 5) as f64 * 0.03;
        history(seed, vec![rate(CommandKind::Write, share, Fault::WriteError)], Cost::Nothing);
    }
}

#[test]
fn zones_that_turn_read_only_lose_nothing() {
    for seed in seeds(60) {
        let rules = vec![
            rate(CommandKind::Write, 0.02, Fault::ZoneReadOnly),
            rate(CommandKind::Reset, 0.05, Fault::ZoneReadOnly),
            rate(CommandKind::Manage, 0.02, Fault::CommandError),
        ];
        history(seed, rules, Cost::Nothing);
    }
}

#[test]
fn reads_that_fail_are_errors_and_never_wrong_bytes() {
    for seed in seeds(40) {
        let rules = vec![
            rate(CommandKind::Read, 0.05, Fault::ReadError),
            rate(CommandKind::Write, 0.03, Fault::BitFlip),
            rate(CommandKind::Write, 0.02, Fault::TornWrite),
            rate(CommandKind::Write, 0.02, Fault::Misdirected),
        ];
        history(seed, rules, Cost::Bytes);
    }
}

#[test]
fn reads_that_fail_for_a_while_cost_nothing_afterwards() {
    for seed in seeds(40) {
        let share = 0.05 + (seed % 4) as f64 * 0.2;
        history(seed, vec![rate(CommandKind::Read, share, Fault::ReadError)], Cost::Reads);
    }
}

#[test]
fn zones_that_go_offline_take_only_what_lay_in_them() {
    for seed in seeds(40) {
        let rules =
            vec![rate(CommandKind::Write, 0.01, Fault::ZoneOffline), rate(CommandKind::Read, 0.01, Fault::ZoneOffline)];
        history(seed, rules, Cost::OfflineZones);
    }
}

#[test]
fn slow_commands_only_take_longer() {
    for seed in seeds(20) {
        history(
            seed,
            vec![rate(CommandKind::Write, 0.1, Fault::Slow), rate(CommandKind::Read, 0.1, Fault::Slow)],
            Cost::Nothing,
        );
    }
}

async fn filled(rt: &Runtime, device: &SimDevice, id: ChunkId, size: u64) -> ChunkStore {
    let (store, _) = open(rt, device, Options::default()).await;
    store.create(id, Stream::Data).await.unwrap();
    for at in (0..size).step_by(10_000) {
        let data = Bytes::from(content(5, at, (size - at).min(10_000)));
        store.append(id, at, vec![data]).await.unwrap();
    }
    store
}

/// CS-APP-4: an append fails and is tried again, and another one waits behind it by then. They make no record together, which
/// would be longer than what the failed write may have left.
#[test]
fn an_append_that_is_tried_again_covers_the_same_range() {
    let medium = formatted(drive());
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, Options { landing: None, ..Options::default() }).await;
        device.set_latency(std::time::Duration::from_millis(1));
        let id = ChunkId::from_u64(1);
        store.create(id, Stream::Data).await.unwrap();
        let append = |at: u64| {
            let store = store.clone();
            rt.spawn(async move { store.append(id, at, vec![Bytes::from(content(5, at, 9000))]).await })
        };
        append(0).await.unwrap().unwrap();
        let [zone] = used_zones(&device).await[..] else { panic!("one chunk of data lies in one zone") };
        let fails = FaultRule { trigger: Trigger::Zone(CommandKind::Write, zone), fault: Fault::WriteError };
        device.set_faults(Faults::new([fails]));
        let first = append(9000);
        rt.sleep(std::time::Duration::from_micros(500)).await;
        let second = append(18_000);
        first.await.unwrap().unwrap();
        second.await.unwrap().unwrap();
        assert_eq!(store.counters().write_errors, 1);
        store.checkpoint().await.unwrap();
        let found = dump(&rt, Rc::new(SimDevice::new(&rt, &device.image()))).await.unwrap();
        let ranges: Vec<_> = found.chunks[0].records.iter().map(|record| (record.offset, record.length)).collect();
        assert_eq!(ranges, [(0, 9000), (9000, 9000), (18_000, 9000)]);
    });
}

/// The data zones that hold anything.
async fn used_zones(device: &SimDevice) -> Vec<ZoneId> {
    let zones = device.report(ZoneId(7), u32::MAX).await.unwrap();
    zones.iter().filter(|zone| zone.written > Blocks(1)).map(|zone| zone.zone).collect()
}

/// Its bytes are not lost, and a caller may ask again once it is back: that is not the error of a bad block.
#[test]
fn reads_of_a_drive_that_is_gone_say_that_the_store_has_stopped() {
    let medium = formatted(drive());
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let id = ChunkId::from_u64(1);
        let store = filled(&rt, &device, id, 60_000).await;
        store.seal(id).await.unwrap();
        device.power_off_at(0);
        assert_eq!(store.read(id, 0, 60_000).await.unwrap_err().kind, ErrorKind::Stopped);
    });
}

#[test]
fn one_unreadable_slice_costs_only_its_own_bytes() {
    let medium = formatted(drive());
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let id = ChunkId::from_u64(1);
        let store = filled(&rt, &device, id, 60_000).await;
        store.close().await.unwrap();
        let [zone] = used_zones(&device).await[..] else { panic!("one chunk of data lies in one zone") };
        let image = device.image();
        // Ten thousand bytes make a record of three blocks; the third record's second block holds its second slice.
        image.corrupt(image.geometry().start_of(zone) + Blocks(1 + 6 + 1), |block| block[BLOCK_SIZE / 2] ^= 4);
        let device = SimDevice::new(&rt, &image);
        let (store, _) = open(&rt, &device, Options::default()).await;
        let mut bad = Vec::new();
        for at in (0..60_000).step_by(1000) {
            match store.read(id, at, 1000).await {
                Ok(bytes) => assert!(bytes == content(5, at, 1000)),
                Err(error) => {
                    assert_eq!((error.kind, error.chunk), (ErrorKind::Corrupt, Some(id)));
                    assert!(error.at.is_some(), "the place is named");
                    bad.push(at);
                }
            }
        }
        assert!((4..=6).contains(&bad.len()), "one slice of 4,096 bytes: {bad:?}");
        let report = check(&rt, Rc::new(device), |_, _| {}).await.unwrap();
        assert!(!report.clean && report.damage.iter().all(|damage| damage.chunk == Some(id)), "{:?}", report.damage);
    });
}

#[test]
fn a_drive_without_space_says_so_and_takes_data_again_after_a_delete() {
    let medium = formatted(drive());
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, Options::default()).await;
        let mut written = Vec::new();
        let refused = loop {
            let id = ChunkId::from_u64(written.len() as u64);
            store.create(id, Stream::Data).await.unwrap();
            match store.append(id, 0, vec![Bytes::from(content(written.len() as u64, 0, 150_000))]).await {
                Ok(_) => written.push(id),
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind, ErrorKind::NoSpace);
        assert!(written.len() >= 20, "only {} of about 33 zones were used", written.len());
        let full = ChunkId::from_u64(written.len() as u64);
        for (key, &id) in written.iter().enumerate() {
            let bytes = store.read(id, 0, 150_000).await.unwrap();
            assert!(bytes == content(key as u64, 0, 150_000), "a full drive keeps what it has");
        }
        store.delete(written[3]).await.unwrap();
        assert_eq!(store.append(full, 0, vec![Bytes::from(content(99, 0, 150_000))]).await.unwrap(), 150_000);
    });
}

#[test]
fn appends_wait_while_gc_can_win_a_zone() {
    let medium = formatted(drive());
    Sim::new(3).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, Options::default()).await;
        // Small chunks fill every zone; then every second one goes, so that no zone is all garbage.
        let mut ids = Vec::new();
        loop {
            let id = ChunkId::from_u64(ids.len() as u64);
            store.create(id, Stream::Data).await.unwrap();
            if store.append(id, 0, vec![Bytes::from(content(id.0[23].into(), 0, 20_000))]).await.is_err() {
                break;
            }
            ids.push(id);
        }
        for id in ids.iter().step_by(2) {
            store.delete(*id).await.unwrap();
        }
        let room = ids.len() / 2 - 8;
        for number in 0..room {
            let id = ChunkId::from_u64(1000 + number as u64);
            store.create(id, Stream::Data).await.unwrap();
            let data = Bytes::from(content(number as u64, 0, 20_000));
            store.append(id, 0, vec![data]).await.unwrap_or_else(|error| panic!("append {number} of {room}: {error}"));
        }
        assert!(store.counters().gc_zones > 0, "space came back by GC");
        for id in ids.iter().skip(1).step_by(2) {
            assert!(store.read(*id, 0, 20_000).await.unwrap() == content(id.0[23].into(), 0, 20_000));
        }
    });
}

#[test]
fn an_offline_zone_leaves_other_chunks_alone() {
    let medium = formatted(drive());
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (lost, kept) = (ChunkId::from_u64(1), ChunkId::from_u64(2));
        let store = filled(&rt, &device, lost, 50_000).await;
        store.create(kept, Stream::Meta).await.unwrap();
        store.append(kept, 0, vec![Bytes::from(content(7, 0, 9000))]).await.unwrap();
        store.close().await.unwrap();
        let image = device.image();
        let zones = used_zones(&device).await;
        let data = zones.iter().copied().max_by_key(|&zone| image.zone(zone).written).unwrap();
        image.set_state(data, ZoneState::Offline);
        let device = SimDevice::new(&rt, &image);
        let (store, _) = open(&rt, &device, Options::default()).await;
        assert_eq!(store.read(lost, 0, 100).await.unwrap_err().kind, ErrorKind::Device);
        assert!(store.read(kept, 0, 9000).await.unwrap() == content(7, 0, 9000));
        store.delete(lost).await.unwrap();
    });
}

/// CS-ZONE-5: the opening that finds the zone offline is not the only one to say what went with it.
#[test]
fn a_loss_in_an_offline_zone_is_told_by_every_later_opening() {
    let medium = formatted(drive());
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let store = filled(&rt, &device, ChunkId::from_u64(1), 60_000).await;
        let [zone] = used_zones(&device).await[..] else { panic!("one chunk of data lies in one zone") };
        let mut image = device.image();
        drop(store);
        image.set_state(zone, ZoneState::Offline);
        for opening in 0..4 {
            let device = SimDevice::new(&rt, &image);
            let (store, report) = open(&rt, &device, Options::default()).await;
            let told = report.damage.iter().any(|damage| damage.zone == Some(zone));
            assert!(told && report.hidden, "opening {opening}: {:?}", report.damage);
            // Other zones are used, and checkpoints made, meanwhile.
            let id = ChunkId::from_u64(10 + opening);
            store.create(id, Stream::Data).await.unwrap();
            store.append(id, 0, vec![Bytes::from(content(5, 0, 9000))]).await.unwrap();
            if opening % 2 == 0 {
                store.close().await.unwrap();
            } else {
                store.checkpoint().await.unwrap();
            }
            image = device.image();
        }
    });
}
