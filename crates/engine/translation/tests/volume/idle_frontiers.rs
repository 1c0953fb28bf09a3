//! TL-SIZE-1 with many frontiers: zones that nobody writes any more give their room back.

use std::time::Duration;

use shingle_base::Blocks;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_store_api::BlockStore;
use shingle_translation::{Route, Volume};
use shingle_zoned::Geometry;

use crate::common::{largest, open, put};

const RUN: u64 = 55;

/// Runs at four frontiers, and copies at two, that nearly fill their zones. Returns their sectors.
async fn fill_frontiers(rt: &Runtime, volume: &Volume) -> Vec<u64> {
    let control = volume.control();
    control.route(Route::Sequential { sectors: 16, align: 0 });
    let first = |run: u64| 200 * (run + 1);
    let taken = first(5)..first(5) + RUN;
    while control.take().await.is_err() {
        control.reclaim();
        rt.sleep(Duration::from_secs(1)).await;
    }
    control.copy_to_taken(std::slice::from_ref(&taken), None).await.expect("there is room");
    let copied = first(4)..first(4) + RUN;
    while control.copy(std::slice::from_ref(&copied), None).await.is_err() {
        control.reclaim();
        rt.sleep(Duration::from_secs(1)).await;
    }
    for (from, to) in [(0, 16), (16, 32), (32, 48), (48, RUN)] {
        for run in 0..4 {
            put(volume, first(run) + from, to - from, 1).await.expect("a run goes on");
        }
    }
    control.detach();
    (0..6).flat_map(|run| first(run)..first(run) + RUN).collect()
}

/// All that six idle frontiers hold is written again elsewhere, and then random sectors. `ends`: how the life of the frontiers ends.
fn overwrite(seed: u64, ends: impl AsyncFnOnce(&Runtime, SimDevice, Volume) -> Volume + 'static) {
    Sim::new(seed).run(move |rt| async move {
        let mut random = Random::new(seed);
        let (device, volume) = largest(&rt, &Geometry::hm_smr(Blocks(64), 66, 0, 12)).await;
        let sectors = volume.size_bytes() / 4096;
        let mut shuffled: Vec<u64> = (0..sectors).collect();
        for at in (1..shuffled.len()).rev() {
            shuffled.swap(at, random.below(at as u64 + 1) as usize);
        }
        for lba in shuffled {
            put(&volume, lba, 1, 1).await.expect("it is filled");
        }
        let mut victims = fill_frontiers(&rt, &volume).await;
        for at in (1..victims.len()).rev() {
            victims.swap(at, random.below(at as u64 + 1) as usize);
        }
        let volume = ends(&rt, device, volume).await;
        let random = (0..3 * sectors).map(|_| random.below(sectors));
        for (number, lba) in victims.into_iter().chain(random).enumerate() {
            let written = put(&volume, lba, 1, number as u8).await;
            written.unwrap_or_else(|error| panic!("seed {seed}, write {number}: {error}, {:?}", volume.stats()));
        }
        volume.close().await.expect("it closes");
    });
}

/// The volume is opened without the controller that had so many frontiers.
#[test]
fn frontiers_of_an_earlier_life_hold_up_no_writer() {
    for seed in seeds(3) {
        overwrite(seed, async |rt, device, volume| {
            volume.close().await.expect("it closes");
            open(rt, &device).await.expect("it opens").0
        });
    }
}

/// The controller is gone, and its route stays.
#[test]
fn idle_frontiers_hold_up_no_writer() {
    for seed in seeds(3) {
        overwrite(seed, async |_, _, volume| volume);
    }
}
