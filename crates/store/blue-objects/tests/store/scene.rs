//! Drives that outlive the simulations in which a store runs on them.

use std::rc::Rc;
use std::time::Duration;

use shingle_base::Blocks;
use shingle_blue_objects::{BlueClient, BlueEngine, Options, check};
use shingle_blue_store::kv::LogKvOptions;
use shingle_blue_store::{Compression, FormatOptions, Store};
use shingle_runtime::Runtime;
use shingle_runtime::memory::Memory;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_store_api::StoreResult;
use shingle_zoned::{Geometry, MemoryDevice};

/// Everything small, so that little data makes many segments and pieces.
pub(crate) fn options() -> Options {
    Options {
        queue_depth: 16,
        segment_bytes: 6000,
        memory: Memory::unbounded(),
        part_bytes_min: 1,
        compression: Compression::None,
        piece_bytes: 20_000,
        purge_pause: Duration::from_millis(10),
    }
}

/// The same of the store below.
pub(crate) fn blue_options() -> shingle_blue_store::Options {
    shingle_blue_store::Options {
        cache_bytes: 300_000,
        deferred_bytes: 40_000,
        waiting_bytes: 400_000,
        log: Rc::new(LogKvOptions { log_bytes: 60_000 }),
        ..shingle_blue_store::Options::default()
    }
}

/// A drive with few data zones: a disk, an SSD, or one with a cache that forgets.
pub(crate) fn geometry(seed: u64) -> Geometry {
    let mut random = Random::new(seed);
    let zones = 23 + random.between(12, 18) as u32;
    let blocks = Blocks(random.between(48, 90));
    match seed % 3 {
        0 => Geometry::hm_smr(blocks, zones, random.below(3) as u32, 12),
        1 => Geometry::zns(blocks, Blocks(blocks.0 - random.below(8)), zones, 9, 9),
        _ => Geometry { volatile_cache: true, ..Geometry::hm_smr(blocks, zones, 0, 12) },
    }
}

pub(crate) fn powered(rt: &Runtime, medium: &MemoryDevice) -> SimDevice {
    let device = SimDevice::new(rt, medium);
    device.set_latency(Duration::ZERO);
    device
}

/// A drive with an empty store, on which writes of less than 4 KiB are deferred.
pub(crate) async fn formatted(rt: &Runtime, geometry: &Geometry) -> SimDevice {
    let device = powered(rt, &MemoryDevice::new(geometry.clone()));
    let options = FormatOptions { small_bytes: Some(4 << 10), ..FormatOptions::default() };
    Store::format(rt, Rc::new(device.clone()), options).await.expect("the drive takes a store");
    device
}

/// A store that is open.
pub(crate) struct Scene {
    pub(crate) store: Store,
    pub(crate) engine: BlueEngine,
    pub(crate) client: BlueClient,
}

pub(crate) async fn open(rt: &Runtime, device: &SimDevice) -> StoreResult<Scene> {
    open_with(rt, device, options()).await
}

pub(crate) async fn open_with(rt: &Runtime, device: &SimDevice, options: Options) -> StoreResult<Scene> {
    let opened = Store::open(rt, Rc::new(device.clone()), blue_options()).await;
    let (store, _) = opened.map_err(shingle_blue_objects::from_blue)?;
    let engine = BlueEngine::open(rt.clone(), store.clone(), options).await?;
    let client = engine.client();
    Ok(Scene { store, engine, client })
}

/// Runs `test` with a store on a fresh drive.
pub(crate) fn with_store<F: Future<Output = ()> + 'static>(test: impl FnOnce(Runtime, Rc<Scene>) -> F + 'static) {
    Sim::new(1).run(move |rt| async move {
        let device = formatted(&rt, &geometry(3)).await;
        let scene = Rc::new(open(&rt, &device).await.unwrap());
        test(rt.clone(), scene.clone()).await;
        scene.client.close().await;
    });
}

/// Waits until nothing is on the drive that nobody needs, and everything that somebody does.
pub(crate) async fn assert_no_leftovers(rt: &Runtime, at: &Scene, what: &str) {
    let mut checked = None;
    for _ in 0..200 {
        rt.sleep(Duration::from_millis(5)).await;
        if at.client.figures().await.unwrap().purging > 0 {
            continue;
        }
        let found = check(&at.store, true, |_| ()).await.unwrap();
        if found.going == 0 {
            assert_eq!(found.findings, [], "{what}");
            assert_eq!(
                found.objects,
                at.client.figures().await.unwrap().objects,
                "{what}: objects are counted wrongly"
            );
            return;
        }
        checked = Some(found);
    }
    panic!("{what}: something stays that nobody needs: {checked:?}, {:?}", at.client.figures().await);
}
