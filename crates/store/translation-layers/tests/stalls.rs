//! Waits of writers while a volume on a modelled disk is cleaned. (TL-STEP-1, TL-PACE-1)

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use shingle_base::Blocks;
use shingle_drive_model::{Drive, Profile};
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_store_api::{BlockStore, Durability};
use shingle_translation::{FormatOptions, Options, Volume};
use shingle_translation_layers::Layer;
use shingle_zoned::{Geometry, MemoryDevice};

/// MiB of a zone: a quarter of the drive's own, so that many are cleaned soon.
const ZONE_MIB: u32 = 64;

/// Zones, spread over the whole drive.
const ZONES: u32 = 60;
const EVERY: u32 = 1000;

/// Bytes of a random write.
const WRITE: u64 = 64 << 10;

/// The longest that a write may wait while cleaning keeps up.
const LONGEST: Duration = Duration::from_millis(250);

/// A volume that fills six tenths of a drive without a volatile cache.
async fn made(rt: &Runtime, layer: &str) -> Volume {
    let mut profile = Profile::named("st20000nm001j").expect("there is such a drive");
    profile.shape.zones *= profile.shape.zone_mib / ZONE_MIB;
    profile.shape.zone_mib = ZONE_MIB;
    let zone = Blocks(u64::from(ZONE_MIB) * 256);
    let geometry = Geometry { keeps_payload: false, ..Geometry::hm_smr(zone, ZONES, 0, 128) };
    let size = zone.bytes() * u64::from(ZONES) * 6 / 10;
    let medium = MemoryDevice::metadata_only(geometry, shingle_record::keep_metadata);
    let device = SimDevice::without_power_cuts(rt, medium);
    device.set_drive(Drive::new(&profile, EVERY));
    let device = Rc::new(device);
    let options = FormatOptions { size_bytes: Some(size), ..FormatOptions::default() };
    Volume::format(rt, device.clone(), options).await.expect("the drive takes a volume");
    let (volume, _) = Volume::open(rt, device, Options::default()).await.expect("the volume opens");
    layer.parse::<Layer>().expect("there is such a layer").begin(rt, &volume);
    volume
}

async fn write(volume: &Volume, at: u64, bytes: u64) {
    let data = vec![Bytes::from(vec![0; bytes as usize])];
    volume.write(at, data, Durability::Cached).await.expect("it is written");
}

/// Writes all in order, and then half as much at random, four at a time: by then the layer has to clean.
async fn used(volume: &Volume, random: &mut Random) {
    let mib = 1 << 20;
    stream::iter(0..volume.size_bytes() / mib).map(|at| write(volume, at * mib, mib)).buffered(8).count().await;
    let pieces = volume.size_bytes() / WRITE;
    let places: Vec<u64> = (0..pieces / 2).map(|_| random.below(pieces) * WRITE).collect();
    stream::iter(places).map(|at| write(volume, at, WRITE)).buffer_unordered(4).count().await;
}

/// Random writes at a rate, whether or not those before were written: the longest time that one took from when it was due.
async fn longest(rt: &Runtime, volume: &Volume, random: &mut Random, writes: u64, bytes_s: u64) -> Duration {
    let (pieces, mean) = (volume.size_bytes() / WRITE, WRITE * 1_000_000_000 / bytes_s);
    let (mut due, mut all, longest) = (rt.now(), Vec::new(), Rc::new(Cell::new(Duration::ZERO)));
    for _ in 0..writes {
        due = due + Duration::from_nanos(random.between(1, 2 * mean));
        rt.sleep(due.since(rt.now())).await;
        let (at, volume, rt_of_write, longest) =
            (random.below(pieces) * WRITE, volume.clone(), rt.clone(), longest.clone());
        all.push(rt.spawn(async move {
            write(&volume, at, WRITE).await;
            longest.set(longest.get().max(rt_of_write.now().since(due)));
        }));
    }
    for one in all {
        one.await.expect("it ends");
    }
    longest.get()
}

/// TL-STEP-1, TL-PACE-1: at rates of half to two thirds of what each layer can bear for ever.
#[test]
fn no_write_waits_long_while_a_volume_is_cleaned() {
    for seed in seeds(1) {
        for (layer, mb_s) in [("builtin", 4), ("builtin", 11), ("tl2", 4), ("tl2", 11), ("tl1", 2), ("tl1", 5)] {
            Sim::new(seed).run(move |rt| async move {
                let mut random = Random::new(seed);
                let volume = made(&rt, layer).await;
                used(&volume, &mut random).await;
                let before = volume.stats().counters;
                let longest = longest(&rt, &volume, &mut random, 8_000, mb_s * 1_000_000).await;
                let after = volume.stats().counters;
                let what = format!("seed {seed}, {layer}, {mb_s} MB/s");
                assert!(after.freed - before.freed > 12, "{what}: few zones were cleaned: {after:?}");
                assert!(longest <= LONGEST, "{what}: a write waited {longest:?}");
            });
        }
    }
}
