//! Nothing waits for ever: whatever a call waits for comes, or the call fails.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{content, formatted, open};
use bytes::Bytes;
use shingle_base::{Blocks, ChunkId};
use shingle_chunk_store::{ChunkClient, ChunkStore, ErrorKind, Landing, Options, Stream};
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, SimDevice, Trigger};
use shingle_zoned::{Geometry, MemoryDevice};

fn drive() -> MemoryDevice {
    formatted(Geometry::hm_smr(Blocks(64), 120, 0, 24))
}

fn landing(budget: u64, zones: u32) -> Options {
    let landing = Landing { append_max: 8000, budget, zones, idle: Duration::from_secs(3600), everywhere: true };
    Options { landing: Some(landing), background: false, ..Options::default() }
}

fn append(
    store: &ChunkStore,
    id: ChunkId,
    at: u64,
    length: u64,
) -> impl Future<Output = shingle_chunk_store::Result<u64>> + use<> {
    store.append(id, at, vec![Bytes::from(content(u64::from(id.0[23]), at, length))])
}

async fn read_all(store: &ChunkStore, id: ChunkId) {
    let size = store.stat(id).unwrap().size;
    assert!(store.read(id, 0, size).await.unwrap() == content(u64::from(id.0[23]), 0, size), "chunk {id}");
}

/// Result of `work`, unless it takes longer than anything may.
async fn in_time<T>(rt: &Runtime, what: &str, work: impl Future<Output = T>) -> T {
    let limit = Box::pin(rt.sleep(Duration::from_secs(100)));
    match futures_util::future::select(Box::pin(work), limit).await {
        futures_util::future::Either::Left((done, _)) => done,
        futures_util::future::Either::Right(_) => panic!("{what} waits for ever"),
    }
}

/// Landing zones are written side by side, so what keeps the oldest of them may lie behind what landed in a younger one.
#[test]
fn a_landing_zone_is_emptied_though_its_chunks_begin_in_another() {
    let medium = drive();
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, landing(100_000, 2)).await;
        let busy: Vec<ChunkId> = (0..8).map(ChunkId::from_u64).collect();
        let quiet: Vec<ChunkId> = (8..10).map(ChunkId::from_u64).collect();
        for &id in busy.iter().chain(&quiet) {
            store.create(id, if id < quiet[0] { Stream::Gc } else { Stream::Meta }).await.unwrap();
            append(&store, id, 0, 9000).await.unwrap();
        }
        let mut sizes = [9000; 8];
        sizes[0] = append(&store, busy[0], sizes[0], 1000).await.unwrap();
        rt.sleep(Duration::from_millis(20)).await;
        // A piece in each of the two landing zones, for one of the chunks the first in the younger.
        for &id in &quiet {
            for at in [9000, 9100] {
                append(&store, id, at, 100).await.unwrap();
            }
            sizes[0] = append(&store, busy[0], sizes[0], 1000).await.unwrap();
        }
        for round in 0..80 {
            let appends = busy.iter().zip(&sizes).map(|(&id, &size)| append(&store, id, size, 1000));
            let ended = in_time(&rt, &format!("round {round}"), futures_util::future::join_all(appends)).await;
            for (size, end) in sizes.iter_mut().zip(ended) {
                *size = end.unwrap();
            }
        }
        assert!(store.counters().moved_bytes > 0);
        for id in busy.into_iter().chain(quiet) {
            read_all(&store, id).await;
        }
    });
}

/// Creates and deletes a chunk until that takes a checkpoint.
async fn until_checkpoint(store: &ChunkStore) {
    let before = store.counters().checkpoints;
    while store.counters().checkpoints == before {
        let id = ChunkId::from_u64(250);
        store.create(id, Stream::Data).await.unwrap();
        store.delete(id).await.unwrap();
    }
}

/// A deletion may have to wait for room in the journal. Were the chunk's tail sent on its way meanwhile, the moves would
/// go on for a chunk that is gone, or for another of the same number.
#[test]
fn a_tail_does_not_move_while_its_chunk_waits_to_be_deleted() {
    let mut waited = 0;
    for seed in 0..100 {
        let medium = drive();
        waited += Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let options = Options { writes_max: 1, ..landing(20_000, 2) };
            let (store, _) = open(&rt, &device, options.clone()).await;
            let ids: Vec<ChunkId> = (0..4).map(ChunkId::from_u64).collect();
            for &id in &ids {
                store.create(id, Stream::Gc).await.unwrap();
                append(&store, id, 0, 9000).await.unwrap();
                append(&store, id, 9000, 100).await.unwrap();
                rt.sleep(Duration::from_millis(20)).await;
            }
            until_checkpoint(&store).await;
            // Nearly as much again as the journal takes, two blocks each, so that the deletion is what takes the next.
            for number in 0..86 {
                let id = ChunkId::from_u64(251);
                if number % 2 == 0 {
                    store.create(id, Stream::Data).await.unwrap();
                } else {
                    store.delete(id).await.unwrap();
                }
            }
            for at in [9100, 16_100] {
                append(&store, ids[0], at, 7000).await.unwrap();
            }
            let checkpoints = store.counters().checkpoints;
            let deleter = store.clone();
            let doomed = ids[0];
            let deleting = rt.spawn(async move { deleter.delete(doomed).await });

            let appends = ids[1..].iter().map(|&id| append(&store, id, 9100, 7000));
            let appends = rt.spawn(futures_util::future::join_all(appends));
            in_time(&rt, "a deletion", deleting).await.unwrap().unwrap();
            let waited = store.counters().checkpoints - checkpoints;
            let new = ChunkId::from_u64(9);
            store.create(new, Stream::Gc).await.unwrap();
            let mut size = 0;
            for length in [700, 9000, 30].into_iter().chain([7000; 10]) {
                size = in_time(&rt, "an append", append(&store, new, size, length)).await.unwrap();
            }
            for end in in_time(&rt, "an append", appends).await.unwrap() {
                assert_eq!(end.unwrap(), 16_100);
            }
            let again = SimDevice::new(&rt, &device.crash_image(seed));
            let (reopened, report) = open(&rt, &again, options).await;
            assert_eq!(report.damage, [], "seed {seed}");
            for store in [&store, &reopened] {
                for &id in ids[1..].iter().chain([&new]) {
                    read_all(store, id).await;
                }
            }
            waited
        });
    }
    assert!(waited > 50, "only {waited} deletions waited for a checkpoint");
}

/// A write to a landing zone is under way when space runs out: its zone can be won only once it has ended.
#[test]
fn a_full_drive_answers_though_something_is_just_landing() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 40, 0, 24));
    for delay in 0..60 {
        let medium = medium.snapshot();
        Sim::new(delay).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let (store, _) = open(&rt, &device, Options { background: true, ..landing(1 << 20, 3) }).await;
            let small = ChunkId::from_u64(0);
            store.create(small, Stream::Meta).await.unwrap();
            append(&store, small, 0, 100).await.unwrap();
            rt.sleep(Duration::from_millis(20)).await;
            let mut size = 100;
            for number in 1.. {
                let id = ChunkId::from_u64(number);
                store.create(id, Stream::Data).await.unwrap();
                let landing = append(&store, small, size, 100);
                rt.sleep(Duration::from_micros(3 * delay)).await;
                let large = append(&store, id, 0, 240_000);
                let (landed, large) = futures_util::future::join(
                    in_time(&rt, "a small append", landing),
                    in_time(&rt, &format!("chunk {number}, delay {delay}"), large),
                )
                .await;
                size = landed.unwrap_or(size);
                if large.is_err() {
                    break;
                }
            }
        });
    }
}

/// The drive is gone at one command or another: whoever waits for it, for space or for others hears so.
#[test]
fn nobody_waits_for_a_drive_that_is_gone() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 30, 0, 24));
    for command in (0..400).step_by(9) {
        let medium = medium.snapshot();
        Sim::new(command).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let options = Options { background: true, writes_max: 2, ..landing(10_000, 2) };
            let (store, _) = open(&rt, &device, options).await;
            device.power_off_at(device.counts().commands + command);
            let mut tasks = Vec::new();
            for number in 0..40 {
                let (rt, store) = (rt.clone(), store.clone());
                tasks.push(rt.clone().spawn(async move {
                    let id = ChunkId::from_u64(number);
                    let stream = Stream::ALL[number as usize % 3];
                    let name = format!("chunk {number}, command {command}");
                    let _ = in_time(&rt, &name, store.create(id, stream)).await;
                    let mut size = 0;
                    for length in [9000, 700, 7000, 40_000, 700, 7000, 60_000, 100, 80_000] {
                        let appends = [length, 500].map(|length| {
                            size += length;
                            append(&store, id, size - length, length)
                        });
                        let _ = in_time(&rt, &name, futures_util::future::join_all(appends)).await;
                    }
                    let _ = in_time(&rt, &name, store.seal(id)).await;
                    let _ = in_time(&rt, &name, store.delete(id)).await;
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
        });
    }
}

/// CS-READ-4: reads that the drive does not answer hold their zones for as long as their callers wait, and no longer.
#[test]
fn reads_of_callers_who_left_pin_nothing() {
    let medium = drive();
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, Options { landing: None, ..Options::default() }).await;
        let (client, requests) = ChunkClient::channel(16);
        let serving = store.clone();
        drop(rt.spawn(async move { serving.serve(requests).await }));
        let mut chunks = Vec::new();
        loop {
            let id = ChunkId::from_u64(chunks.len() as u64);
            store.create(id, Stream::Data).await.unwrap();
            if append(&store, id, 0, 100_000).await.is_err() {
                store.delete(id).await.unwrap();
                break;
            }
            store.seal(id).await.unwrap();
            chunks.push(id);
        }
        assert!(chunks.len() > 100, "{} chunks fill the drive", chunks.len());
        let hang = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::Hang };
        device.set_faults(Faults::new([hang]));
        for &id in &chunks {
            let read = Box::pin(client.read(id, 0, 100_000));
            let leaves = Box::pin(rt.sleep(Duration::from_millis(10)));
            let answered =
                matches!(futures_util::future::select(read, leaves).await, futures_util::future::Either::Left(_));
            assert!(!answered, "a read was answered that hangs");
        }
        assert_eq!(device.hung(), chunks.len());
        for &id in &chunks {
            store.delete(id).await.unwrap();
        }
        for &id in &chunks {
            in_time(&rt, "a create", store.create(id, Stream::Data)).await.unwrap();
            in_time(&rt, "an append", append(&store, id, 0, 100_000)).await.unwrap();
        }
    });
}

/// A store that its owner ends does not wait for those who might ask again.
#[test]
fn a_store_that_is_to_end_answers_what_was_asked_and_closes_under_its_clients() {
    let medium = drive();
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, Options::default()).await;
        let (client, requests) = ChunkClient::channel(16);
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let serving = store.clone();
        let served = rt.spawn(async move { serving.serve_until(requests, async { drop(ended.await) }).await });
        let id = ChunkId::from_u64(7);
        client.create(id, Stream::Data).await.unwrap();
        let mut asked = Vec::new();
        for number in 0..3 {
            let mut append = Box::pin(client.append(id, number * 4096, vec![vec![1; 4096].into()]));
            assert!(futures_util::poll!(append.as_mut()).is_pending());
            asked.push(append);
        }
        end.send(()).unwrap();
        for append in asked {
            append.await.unwrap();
        }
        in_time(&rt, "the end", served).await.unwrap().unwrap();
        assert!(client.is_closed());
        assert_eq!(client.read(id, 0, 1).await.unwrap_err().kind, ErrorKind::Stopped);
        drop(store);
        let (store, _) = open(&rt, &device, Options::default()).await;
        assert_eq!(store.stat(id).unwrap().size, 3 * 4096);
    });
}

/// CS-READ-5: however many wait for a drive, and whoever of them comes again, it has few reads under way.
#[test]
fn a_slow_drive_has_few_reads_under_way() {
    let medium = formatted(Geometry::hm_smr(Blocks(1024), 20, 0, 12));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, Options { landing: None, ..Options::default() }).await;
        let (client, requests) = ChunkClient::channel(16);
        let serving = store.clone();
        drop(rt.spawn(async move { serving.serve(requests).await }));
        let id = ChunkId::from_u64(7);
        store.create(id, Stream::Data).await.unwrap();
        append(&store, id, 0, 1 << 20).await.unwrap();
        let hang = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::Hang };
        device.set_faults(Faults::new([hang]));
        for round in 0..3 {
            let left: Vec<_> = (0..50).map(|_| client.read(id, 0, 1 << 20)).collect();
            let leaves = Box::pin(rt.sleep(Duration::from_millis(10)));
            let all = futures_util::future::join_all(left);
            assert!(matches!(futures_util::future::select(all, leaves).await, futures_util::future::Either::Right(_)));
            assert_eq!(device.hung(), 32, "round {round}");
        }
        let read = |length: u64| {
            let client = client.clone();
            rt.spawn(async move { client.read(id, 0, length).await })
        };
        let waiting: Vec<_> = (0..50).map(|number| read((1 << 20) - number)).collect();
        rt.sleep(Duration::from_millis(10)).await;
        assert_eq!(device.hung(), 32);
        device.set_faults(Faults::default());
        device.release_hung();
        for (number, waiting) in waiting.into_iter().enumerate() {
            let bytes = in_time(&rt, "a read", waiting).await.unwrap().unwrap();
            assert!(bytes == content(7, 0, (1 << 20) - number as u64), "read {number}");
        }
    });
}

/// CS-READ-2: a read takes long, and meanwhile its chunk is deleted and the drive needs every zone.
#[test]
fn a_zone_is_not_reset_under_a_read() {
    let medium = formatted(Geometry::hm_smr(Blocks(64), 16, 0, 12));
    Sim::new(1).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, Options { landing: None, ..Options::default() }).await;
        let id = ChunkId::from_u64(0);
        store.create(id, Stream::Data).await.unwrap();
        append(&store, id, 0, 200_000).await.unwrap();
        store.seal(id).await.unwrap();
        let zone = store.zones().into_iter().find(|zone| zone.live_blocks > 0).unwrap().zone;
        let resets = Rc::new(Cell::new(0));
        let seen = resets.clone();
        device.on_command(move |command, _| {
            let counts = command.kind == CommandKind::Reset && command.zone == Some(zone);
            seen.set(seen.get() + u32::from(counts));
        });
        let hang = FaultRule { trigger: Trigger::Rate(CommandKind::Read, 1.0), fault: Fault::Hang };
        device.set_faults(Faults::new([hang]));
        let reading = rt.spawn({
            let store = store.clone();
            async move { store.read(id, 0, 200_000).await }
        });
        rt.sleep(Duration::from_millis(1)).await;
        assert_eq!(device.hung(), 1);
        device.set_faults(Faults::default());
        store.delete(id).await.unwrap();
        for number in 1..60 {
            let id = ChunkId::from_u64(number);
            store.create(id, Stream::Data).await.unwrap();
            append(&store, id, 0, 200_000).await.unwrap();
            store.seal(id).await.unwrap();
            store.delete(id).await.unwrap();
        }
        assert!(store.counters().resets > 20, "{:?}", store.counters());
        assert_eq!(resets.get(), 0, "the zone was reset under the read");
        device.release_hung();
        let bytes = reading.await.unwrap().unwrap();
        assert!(bytes == content(0, 0, 200_000));
    });
}
