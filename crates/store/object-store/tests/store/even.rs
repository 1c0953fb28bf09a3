//! Fill level of each drive: equal ones alike, others in proportion to their size, for any puts and any number of
//! clients.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shingle_base::Blocks;
use shingle_chunk_store::{ChunkClient, ChunkStore, FormatOptions};
use shingle_object_store::{Drive, MemoryIndex, ObjectEngine, ObjectStoreClient, Options};
use shingle_runtime::Runtime;
use shingle_sim::{Sim, SimDevice};
use shingle_store_api::{Commit, CompletedPart, ObjectStore};
use shingle_zoned::{Geometry, MemoryDevice};

const BUCKET: &str = "bucket";
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;
/// The longest that a drive takes for a command.
const LATENCY: Duration = Duration::from_millis(5);
/// Zones of 64 MiB: 16 GiB.
const ZONES: u32 = 256;

/// A drive, and what it can hold.
struct Place {
    device: Rc<SimDevice>,
    capacity: f64,
}

/// A store of the server's own options, on drives of so many zones that keep no data.
async fn open(rt: &Runtime, zones: &[u32]) -> (ObjectEngine, ObjectStoreClient, Vec<Place>) {
    let (mut drives, mut places) = (Vec::new(), Vec::new());
    for &zones in zones {
        let geometry = Geometry::hm_smr(Blocks(16_384), zones, 0, 128);
        let medium = MemoryDevice::metadata_only(geometry, shingle_record::keep_metadata);
        let device = Rc::new(SimDevice::without_power_cuts(rt, medium));
        ChunkStore::format(rt, device.clone(), &FormatOptions::default()).await.unwrap();
        let options = shingle_chunk_store::Options { hollow: true, ..shingle_chunk_store::Options::default() };
        let (chunks, _) = ChunkStore::open(rt, device.clone(), options).await.unwrap();
        device.set_latency(LATENCY);
        let store = chunks.id();
        let (client, requests) = ChunkClient::channel(256);
        drop(rt.spawn(async move { chunks.serve(requests).await }));
        let capacity = client.store_stat().await.unwrap().capacity_bytes as f64;
        drives.push(Drive { client, store, hides: false });
        places.push(Place { device, capacity });
    }
    let index = Arc::new(MemoryIndex::new());
    let (engine, _) = ObjectEngine::open(rt.clone(), drives, index, Options::default(), None).await.unwrap();
    let store = engine.client();
    store.create_bucket(BUCKET).await.unwrap();
    (engine, store, places)
}

/// Puts `bytes` in objects of `size`, by so many clients at once.
async fn fill(rt: &Runtime, store: &ObjectStoreClient, size: usize, bytes: usize, clients: usize) {
    let client = |client: usize| {
        let store = store.clone();
        rt.spawn(async move {
            let data = Bytes::from(vec![0; size]);
            for number in (client..bytes / size).step_by(clients) {
                let mut writer = store.begin_put(BUCKET, &format!("{size}-{number}")).await.unwrap();
                writer.write(data.clone()).await.unwrap();
                writer.commit(Commit::default()).await.unwrap();
            }
        })
    };
    for client in (0..clients).map(client).collect::<Vec<_>>() {
        client.await.unwrap();
    }
}

/// Each drive's part of what was written, over its part of all space.
fn parts(places: &[Place]) -> Vec<f64> {
    let written: Vec<f64> = places.iter().map(|place| place.device.counts().writes.1 as f64).collect();
    let (all_written, space): (f64, f64) = (written.iter().sum(), places.iter().map(|place| place.capacity).sum());
    places.iter().zip(written).map(|(place, written)| written / all_written / (place.capacity / space)).collect()
}

/// Result of [`parts`].
fn measure(seed: u64, zones: &[u32], size: usize, bytes: usize, clients: usize) -> Vec<f64> {
    let zones = zones.to_vec();
    Sim::new(seed).run(move |rt| async move {
        let (engine, store, places) = open(&rt, &zones).await;
        fill(&rt, &store, size, bytes, clients).await;
        let parts = parts(&places);
        engine.close().await;
        parts
    })
}

/// OS-EVEN-1: of equal drives none has more than 1.1 times the mean, and of others none more than 1.1 times its part.
#[test]
fn drives_fill_in_proportion_to_their_size() {
    let cases: [&[u32]; 4] = [&[ZONES; 2], &[ZONES; 4], &[ZONES, ZONES / 2, ZONES / 4], &[ZONES / 4, ZONES]];
    // So many that the objects of one drive which are under way at once are little of all it has.
    let loads = [(4 * KIB, 128 * MIB), (MIB, 8 * GIB), (8 * MIB, 4 * GIB)];
    for (seed, zones) in (1..).zip(cases) {
        for (size, bytes) in loads {
            for clients in [1, 16] {
                let parts = measure(seed, zones, size, bytes, clients);
                let context =
                    format!("drives of {zones:?} zones, {bytes} bytes in objects of {size}, {clients} clients");
                assert!(parts.iter().all(|part| (0.9..1.1).contains(part)), "{context}: {parts:.2?}");
            }
        }
    }
}

/// OS-EVEN-1: parts of one upload, and segments of one object, are written to all drives. Appends that are under way at once
/// make a lead of a few segments: of 256 segments that is little.
#[test]
fn one_upload_is_on_all_drives() {
    for (seed, clients) in (1..=8).flat_map(|seed| [(seed, 1), (seed, 4)]) {
        Sim::new(seed).run(move |rt| async move {
            let (engine, store, places) = open(&rt, &[ZONES; 4]).await;
            let id = store.begin_upload(BUCKET, "k", Default::default()).await.unwrap().id;
            let (data, mut under_way, mut parts_there) = (Bytes::from(vec![0; 16 * MIB]), Vec::new(), Vec::new());
            for number in 1..=64 {
                let (store, data) = (store.clone(), data.clone());
                under_way.push(rt.spawn(async move {
                    let mut writer = store.begin_part(BUCKET, "k", id, number).await.unwrap();
                    writer.write(data).await.unwrap();
                    writer.commit(Commit { etag: number.to_string(), ..Commit::default() }).await.unwrap();
                }));
                parts_there.push(CompletedPart { number, etag: number.to_string() });
                if under_way.len() == clients {
                    under_way.remove(0).await.unwrap();
                }
            }
            for part in under_way {
                part.await.unwrap();
            }
            store.complete_upload(BUCKET, "k", id, parts_there, Commit::default()).await.unwrap();
            let parts = parts(&places);
            assert!(parts.iter().all(|part| (0.8..1.2).contains(part)), "seed {seed}, {clients} at once: {parts:.2?}");
            engine.close().await;
        });
    }
}
