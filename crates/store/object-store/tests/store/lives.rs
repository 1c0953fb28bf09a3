//! Chains of lives of objects on zones, under all faults that cost no bytes: what was acknowledged is there, and nothing else is.

use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_object_store::{Index, MemoryIndex, ObjectStoreClient};
use shingle_runtime::Runtime;
use shingle_sim::clients::{BUCKET, Failure};
use shingle_sim::lives::{Harm, Life};
use shingle_sim::{Crowd, Medium, Random, Sim, SimDevice, Survival, seeds};
use shingle_store_api::{ObjectStore, StoreErrorKind};
use shingle_zoned::ZonedDevice;

use crate::zones::{SIZES, formatted, object_options, open, try_open};

/// Superblock and metazones of a chunk store lie in front; `record` has their own lives.
pub(crate) const META_ZONES: u32 = 7;

/// Opens the store, verifies everything, and works until the life ends, or a drive is gone: from then on calls may fail.
async fn live(rt: Runtime, devices: Vec<SimDevice>, index: MemoryIndex, crowd: Crowd, what: String) {
    let explained = |error: Option<StoreErrorKind>| {
        use StoreErrorKind::{Device, Unavailable};
        matches!(error, Some(Device | Unavailable)) && devices.iter().any(SimDevice::is_gone)
    };
    let judge = |failure: &Failure| assert!(explained(failure.error), "{what}: {failure}");
    let (engine, store, report) = match try_open(&rt, &devices, index, object_options(true)).await {
        Ok(opened) => opened,
        Err(error) => return assert!(devices.iter().any(SimDevice::is_gone), "{what}: {error}"),
    };
    assert_eq!(report.damage, Vec::new(), "{what}");
    if let Err(failure) = crowd.try_verify(&store).await {
        return judge(&failure);
    }
    count(&store).await;
    let upkeep = store.clone();
    let kept = rt.spawn(async move {
        upkeep.collect_garbage().await?;
        upkeep.persist_index().await?;
        upkeep.back_up_index().await
    });
    crowd.try_work(&rt, &store, 25).await.iter().for_each(judge);
    if let Err(error) = kept.await.unwrap() {
        assert!(explained(Some(error.kind)), "{what}: {error}");
    }
    count(&store).await;
    engine.close().await;
}

/// OS-FIL-4: asked for its sums, the store compares them with a walk over its files.
pub(crate) async fn count(store: &ObjectStoreClient) {
    let (stats, usage) = (store.stats().await.unwrap(), store.usage().await.unwrap());
    assert_eq!((stats.objects, stats.object_bytes), (usage.objects, usage.live_bytes));
    assert!(stats.live_bytes >= stats.object_bytes, "{stats:?}");
}

/// Fate of the index between two lives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It stays, loses its last batches, or is lost.
    Crashes,
    /// An operator puts a copy of an earlier life in its place, too.
    Restored,
}

/// Lives in which a drive lost a flush.
fn chain(seed: u64, fate: Fate) -> u32 {
    let mut lost = 0;
    let mut random = Random::new(seed);
    let mut copies: Vec<MemoryIndex> = Vec::new();
    let mut media: Vec<Medium> = formatted(seed, 1 + seed % 2).iter().map(Medium::from).collect();
    let geometry = media[0].image().geometry().clone();
    let data = META_ZONES..geometry.zone_count;
    let mut index = MemoryIndex::new();
    let crowd = Crowd::new(seed, 3, 8, SIZES);
    let begun = index.clone();
    media = Sim::new(seed).run(move |rt| async move {
        let devices: Vec<SimDevice> = media.into_iter().map(|medium| SimDevice::resume(&rt, medium)).collect();
        let (engine, store, _) = open(&rt, &devices, begun, object_options(false)).await;
        store.create_bucket(BUCKET).await.unwrap();
        engine.close().await;
        devices.iter().map(SimDevice::kill).collect()
    });
    for number in 0..5 {
        let drawn: Vec<Life> = (0..media.len())
            .map(|_| Life::draw_up_to(Harm::None, &mut random, &data, geometry.zone_count, 1))
            .collect();
        let killed = random.chance(0.4);
        let last = Duration::from_micros(random.below(500_000));
        let what = format!("seed {seed}, life {number}, killed {killed} after {last:?}");
        let (moved, known, drawn_cut) = (index.clone(), crowd.clone(), random.number());
        let gone;
        (media, index, gone) = Sim::new(seed * 100 + number).run(move |rt| async move {
            let begin = |(medium, life): (Medium, &Life)| {
                let device = life.begin(&rt, medium);
                device.power_off_at(u64::MAX);
                device
            };
            let devices: Vec<SimDevice> = media.into_iter().zip(&drawn).map(begin).collect();
            let life = rt.spawn(live(rt.clone(), devices.clone(), moved.clone(), known.clone(), what));
            if let Either::Left((life, _)) = select(Box::pin(life), Box::pin(rt.sleep(last))).await {
                life.unwrap();
            }
            // All of it in this one moment.
            known.freeze();
            let leave = |device: &SimDevice| match killed {
                true => device.kill(),
                false => {
                    let drawn = if drawn_cut.is_multiple_of(4) { Survival::Prefix } else { Survival::AnySubset };
                    Medium::from(&device.crash_image_with(drawn_cut, drawn.on(device.geometry())))
                }
            };
            let gone = devices.iter().any(SimDevice::is_gone);
            (devices.iter().map(leave).collect(), moved.fork(), gone)
        });
        lost += u32::from(gone);
        match random.below(4) {
            0 => index.clear().unwrap(),
            1 if !killed => index.crash(random.below(index.unpersisted() as u64 + 1) as usize),
            _ => {}
        }
        if fate == Fate::Restored {
            let earlier = random.below(2 * (copies.len() as u64 + 1)) as usize;
            copies.push(index.fork());
            index = copies.get(earlier).unwrap_or(&index).fork();
        }
    }
    lost
}

#[test]
fn what_was_acknowledged_is_there_through_chains_of_lives() {
    let lost: u32 = seeds(150).map(|seed| chain(seed, Fate::Crashes)).sum();
    // Of one seed alone it is not expected.
    assert!(lost > 5 || std::env::var_os("SHINGLE_SEED").is_some(), "{lost} lost flushes");
}

/// OS-INX-1, OS-REC-2: a copy of the index from an earlier time finds what was written since, forgets what was deleted, and is
/// not believed where it needs what is gone.
#[test]
fn an_older_copy_of_the_index_is_as_good_as_the_newest() {
    for seed in seeds(20) {
        chain(seed, Fate::Restored);
    }
}
