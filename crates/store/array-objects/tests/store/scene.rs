//! Arrays of simulated drives that outlive the simulations in which a store runs on them.

use std::rc::Rc;
use std::time::Duration;

use shingle_array_objects::{ArrayClient, ArrayEngine, Options};
use shingle_array_store::{ArrayDrive, ArrayStore, FormatOptions, IndexPlace};
use shingle_base::Blocks;
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_runtime::memory::Memory;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_store_api::{ListRequest, ObjectStore};
use shingle_zoned::{Geometry, MemoryDevice};

/// Everything small, so that little data makes many blobs.
pub(crate) fn options() -> Options {
    Options {
        queue_depth: 16,
        whole_bytes_max: 3000,
        memory: Memory::unbounded(),
        writers_max: 3,
        writer_rate_min: 1000,
        writer_grace: Duration::from_secs(20),
        part_bytes_min: 1,
        purge_pause: Duration::from_millis(10),
    }
}

/// For three clients that may each send a part while another is on its way.
pub(crate) fn options_for_clients() -> Options {
    Options { writers_max: 6, ..options() }
}

pub(crate) fn array_options(random: &mut Random) -> shingle_array_store::Options {
    shingle_array_store::Options {
        turn_segments: 1 + random.below(4) as u32,
        available_sets: 3,
        in_flight: 1 + random.below(3) as usize,
        coalesce: random.chance(0.7),
        background: random.chance(0.5),
        snapshot_interval: Duration::from_millis(20),
        ..shingle_array_store::Options::default()
    }
}

pub(crate) fn named(devices: &[SimDevice]) -> Vec<ArrayDrive> {
    let drive =
        |(number, device): (usize, &SimDevice)| ArrayDrive { name: format!("d{number}"), dev: Rc::new(device.clone()) };
    devices.iter().enumerate().map(drive).collect()
}

pub(crate) fn powered(rt: &Runtime, media: &[MemoryDevice]) -> Vec<SimDevice> {
    media.iter().map(|medium| SimDevice::new(rt, medium)).collect()
}

/// Freshly formatted drives.
pub(crate) fn formatted(seed: u64) -> Vec<MemoryDevice> {
    Sim::new(1).run(move |rt| async move {
        let geometry = Geometry { volatile_cache: seed.is_multiple_of(2), ..Geometry::hm_smr(Blocks(48), 26, 0, 12) };
        let media: Vec<MemoryDevice> = (0..4).map(|_| MemoryDevice::new(geometry.clone())).collect();
        let devices = powered(&rt, &media);
        let options = FormatOptions { segment_length: 8_000, ..FormatOptions::new(Code::new(2, 1).unwrap()) };
        shingle_array_store::format(&rt, &named(&devices), &options).await.unwrap();
        devices.iter().map(SimDevice::image).collect()
    })
}

pub(crate) async fn open_array(rt: &Runtime, devices: &[SimDevice], random: &mut Random) -> ArrayStore {
    let opened = ArrayStore::open(rt, &named(devices), &IndexPlace::Memory, array_options(random)).await;
    let (array, report) = opened.unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    array
}

/// Opens a store on the devices.
pub(crate) async fn open(rt: &Runtime, devices: &[SimDevice], random: &mut Random) -> (ArrayEngine, ArrayClient) {
    open_with(rt, devices, random, options()).await
}

/// As [`open`], with [`options_for_clients`].
pub(crate) async fn open_for_clients(
    rt: &Runtime,
    devices: &[SimDevice],
    random: &mut Random,
) -> (ArrayEngine, ArrayClient) {
    open_with(rt, devices, random, options_for_clients()).await
}

async fn open_with(
    rt: &Runtime,
    devices: &[SimDevice],
    random: &mut Random,
    options: Options,
) -> (ArrayEngine, ArrayClient) {
    let array = open_array(rt, devices, random).await;
    let engine = ArrayEngine::open(rt.clone(), array, options).await.unwrap();
    let client = engine.client();
    (engine, client)
}

/// Runs `test` with a store on a fresh array.
pub(crate) fn with_store<F: Future<Output = ()> + 'static>(test: impl FnOnce(Runtime, ArrayClient) -> F + 'static) {
    let media = formatted(1);
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (engine, store) = open(&rt, &devices, &mut Random::new(1)).await;
        test(rt, store).await;
        engine.close().await.unwrap();
    });
}

/// Every object of every bucket.
pub(crate) async fn objects(store: &ArrayClient) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for bucket in store.list_buckets().await.unwrap() {
        let request = ListRequest { limit: usize::MAX, ..ListRequest::default() };
        let page = store.list(&bucket.name, request).await.unwrap();
        found.extend(page.objects.into_iter().map(|object| (bucket.name.clone(), object.key)));
    }
    found
}

/// Number of the array's objects that the store needs for its contents, and no more (AO-OBJ-4).
pub(crate) async fn array_objects_needed(store: &ArrayClient) -> u64 {
    let mut needed = 0;
    for bucket in store.list_buckets().await.unwrap() {
        needed += 1;
        for upload in store.list_uploads(&bucket.name, "", None, usize::MAX).await.unwrap().uploads {
            let parts = store.list_parts(&bucket.name, &upload.key, upload.id, 0, usize::MAX).await.unwrap().0;
            needed += 1 + parts.len() as u64;
        }
    }
    for (bucket, key) in objects(store).await {
        let info = store.head(&bucket, &key).await.unwrap();
        let blobs = match info.part_sizes.len() {
            0 => usize::from(info.size > options().whole_bytes_max as u64),
            parts => parts,
        };
        needed += 1 + blobs as u64;
    }
    needed
}

/// Waits until nothing is in the array that nobody needs.
pub(crate) async fn assert_no_leftovers(rt: &Runtime, store: &ArrayClient, what: &str) {
    let needed = array_objects_needed(store).await;
    let mut found = 0;
    for _ in 0..200 {
        rt.sleep(Duration::from_millis(5)).await;
        found = store.figures().await.unwrap().array.objects;
        if found == needed {
            return;
        }
    }
    panic!("{what}: the array holds {found} objects, and {needed} are needed");
}
