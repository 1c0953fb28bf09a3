//! Histories under each layer, checked by a shadow, and what is found after the power failed.

use std::rc::Rc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use shingle_base::Blocks;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, Survival, seeds};
use shingle_store_api::BlockStore;
use shingle_store_testing::blocks::{BlockDriver, BlockShadow, Mix};
use shingle_translation::{Control, FormatOptions, Options, Volume, ZoneUse};
use shingle_translation_layers::{CachePolicy, LogPolicy, Tl1, Tl2, tl1, tl2};
use shingle_zoned::{Geometry, MemoryDevice};

type Layer = Box<dyn Fn(Runtime, Control) -> LocalBoxFuture<'static, ()>>;

fn tl1_with(policy: CachePolicy, sequential: Option<u32>) -> Layer {
    tl1_of(Tl1 { policy, sequential, ..FEW_ZONES })
}

/// A small cache, and a volume that is idle soon.
const FEW_ZONES: Tl1 = Tl1 {
    policy: CachePolicy::MinAssoc,
    cache_zones: 4,
    idle: Some(Duration::from_millis(50)),
    sequential: None,
    scratch: false,
};

fn tl1_of(options: Tl1) -> Layer {
    Box::new(move |rt, control| Box::pin(tl1(rt, control, options)))
}

fn tl2_with(policy: LogPolicy, young: Option<u32>) -> Layer {
    Box::new(move |rt, control| Box::pin(tl2(rt, control, Tl2 { policy, young })))
}

fn layers() -> Vec<Layer> {
    let first = CachePolicy::ALL.into_iter().flat_map(|policy| [tl1_with(policy, None), tl1_with(policy, Some(16))]);
    first
        .chain([tl1_of(Tl1 { scratch: true, ..FEW_ZONES })])
        .chain(LogPolicy::ALL.into_iter().flat_map(|policy| [tl2_with(policy, None), tl2_with(policy, Some(4))]))
        .collect()
}

async fn opened(rt: &Runtime, device: &SimDevice) -> Volume {
    let opened = Volume::open(rt, Rc::new(device.clone()), Options::default()).await;
    opened.expect("the volume opens").0
}

/// A history of many calls with pauses in which the volume is idle, then a power cut.
fn history(seed: u64, layer: Layer) {
    Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let geometry = Geometry::hm_smr(Blocks(random.between(40, 70)), random.between(30, 40) as u32, 0, 12);
        let device = SimDevice::new(&rt, &MemoryDevice::new(geometry.clone()));
        device.set_latency(Duration::from_micros(5));
        // Homes are fewer than zones.
        let size = geometry.zone_capacity.bytes() * u64::from(geometry.zone_count) / 2;
        let options = FormatOptions { size_bytes: Some(size), ..FormatOptions::default() };
        Volume::format(&rt, Rc::new(device.clone()), options).await.expect("the drive takes a volume");
        let volume = opened(&rt, &device).await;
        let shadow = BlockShadow::new(volume.size_bytes() / 4096, 4096).in_order_of_calls();
        let control = volume.control();
        rt.spawn_detached(layer(rt.clone(), control));
        let mix = Mix { access_bytes_max: 256 << 10, ..Mix::draw(&mut random) };
        let (store, shared) = (Rc::new(volume.clone()), shadow.clone());
        let mut driver = BlockDriver { rt: rt.clone(), store, shadow: shared, random, mix };
        for _ in 0..6 {
            driver.run_well(120).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
            rt.sleep(Duration::from_millis(driver.random.below(400))).await;
        }
        shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        let again = SimDevice::new(&rt, &device.crash_image_with(seed, Survival::Prefix));
        shadow.cut();
        let volume = opened(&rt, &again).await;
        shadow.verify(&volume).await.unwrap_or_else(|broken| panic!("seed {seed}, after a cut: {broken}"));
    });
}

#[test]
fn no_layer_loses_anything() {
    for seed in seeds(3) {
        for (at, layer) in layers().into_iter().enumerate() {
            history(seed * 100 + at as u64, layer);
        }
    }
}

/// Writes sectors one by one, in any order, and waits until the layer has emptied its cache.
async fn scattered_then_idle(rt: &Runtime, volume: &Volume, random: &mut Random) {
    let sectors = volume.size_bytes() / 4096;
    for _ in 0..sectors {
        let data = vec![vec![7u8; 4096].into()];
        volume
            .write(random.below(sectors) * 4096, data, shingle_store_api::Durability::Cached)
            .await
            .expect("it is written");
    }
    rt.sleep(Duration::from_secs(60)).await;
}

/// TLL-HOME-1, TLL-END-1.
#[test]
fn an_idle_volume_of_tl1_has_its_sectors_at_home() {
    for policy in CachePolicy::ALL {
        Sim::new(5).run(move |rt| async move {
            let mut random = Random::new(5);
            let device = SimDevice::new(&rt, &MemoryDevice::new(Geometry::hm_smr(Blocks(60), 40, 0, 12)));
            device.set_latency(Duration::from_micros(5));
            let options = FormatOptions { size_bytes: Some(60 * 4096 * 18), ..FormatOptions::default() };
            Volume::format(&rt, Rc::new(device.clone()), options).await.expect("the drive takes a volume");
            let volume = opened(&rt, &device).await;
            let control = volume.control();
            let ended = rt.spawn(tl1_with(policy, None)(rt.clone(), control.clone()));
            scattered_then_idle(&rt, &volume, &mut random).await;
            let cached = control.zones().into_iter().filter(|zone| zone.used == ZoneUse::Written && zone.live > 0);
            assert!(cached.count() <= 1, "{policy:?}: the cache is not empty");
            let home = control.shape().zone_sectors;
            let mut zones = std::collections::BTreeMap::new();
            let (extents, _) = control.extents(0, usize::MAX);
            for extent in extents {
                let zone = control.zone_of(extent.place);
                zones.entry(extent.lba / home).or_insert_with(Vec::new).push(zone);
            }
            for (home, mut of_home) in zones {
                of_home.dedup();
                // Some sectors may lie in the zone that is written.
                assert!(of_home.len() <= 3, "{policy:?}: home {home} lies in {of_home:?}");
            }
            volume.close().await.expect("it closes");
            ended.await.expect("the layer ends");
        });
    }
}
