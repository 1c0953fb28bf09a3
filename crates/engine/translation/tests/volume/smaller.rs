//! TL-SIZE-3: writes that come while the volume is made smaller.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use shingle_base::Blocks;
use shingle_runtime::Runtime;
use shingle_sim::{Sim, seeds};
use shingle_store_api::{BlockStore, StoreErrorKind};
use shingle_translation::{Route, Volume};
use shingle_zoned::Geometry;

use crate::common::{format, open, put};

const SMALL: u64 = 200;

/// Has writes under way all the time, so that they are held when the volume changes.
fn keep_busy(rt: &Runtime, volume: &Volume, over: &Rc<Cell<bool>>) {
    for lba in 0..3 {
        let (volume, over) = (volume.clone(), over.clone());
        rt.spawn_detached(async move {
            while !over.get() {
                put(&volume, lba * 20, 10, 1).await.expect("the volume has these sectors");
            }
        });
    }
}

#[test]
fn nothing_that_lay_behind_the_end_comes_back() {
    let (before, behind) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for seed in seeds(60) {
        let (before, behind) = (before.clone(), behind.clone());
        Sim::new(seed).run(move |rt| async move {
            let geometry = Geometry { volatile_cache: seed % 4 > 1, ..Geometry::hm_smr(Blocks(64), 40, 0, 12) };
            let (device, _, _) = format(&rt, &geometry, 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            let size = volume.size_bytes();
            let control = volume.control();
            if !seed.is_multiple_of(2) {
                control.route(Route::Sequential { sectors: 4, align: 0 });
            }
            device.set_latency(Duration::from_micros(500));
            let over = Rc::new(Cell::new(false));
            keep_busy(&rt, &volume, &over);
            rt.sleep(Duration::from_micros(1_700)).await;
            // Before the end, across it, and behind it; and one that overlaps all of them.
            let writes = [(SMALL - 30, 20), (SMALL - 5, 90), (SMALL + 100, 20), (SMALL + 200, 3), (SMALL - 5, 300)];
            let writes = writes.map(|(lba, sectors)| {
                let (volume, sleeper) = (volume.clone(), rt.clone());
                let pause = Duration::from_micros(100 * (seed / 4));
                rt.spawn(async move {
                    sleeper.sleep(pause).await;
                    (lba + sectors > SMALL, put(&volume, lba, sectors, 2).await)
                })
            });
            rt.sleep(Duration::from_micros(900)).await;
            volume.resize(SMALL * 4096).await.unwrap();
            for write in writes {
                let (is_behind, written) = write.await.unwrap();
                match written {
                    Ok(()) if is_behind => before.set(before.get() + 1),
                    Ok(()) => {}
                    Err(error) => {
                        assert!(is_behind && error.kind == StoreErrorKind::Invalid, "seed {seed}: {error}");
                        behind.set(behind.get() + 1);
                    }
                }
            }
            over.set(true);
            volume.resize(size).await.unwrap();
            let rest = volume.read(SMALL * 4096, size - SMALL * 4096).await.unwrap();
            assert!(rest.iter().all(|&byte| byte == 0), "seed {seed}: what lay behind the end is back");
            control.detach();
            volume.close().await.unwrap();
            let (volume, _) = open(&rt, &device).await.unwrap();
            let rest = volume.read(SMALL * 4096, size - SMALL * 4096).await.unwrap();
            assert!(rest.iter().all(|&byte| byte == 0), "seed {seed}: it is back after an opening");
        });
    }
    let (before, behind) = (before.get(), behind.get());
    assert!((before > 10 && behind > 10) || std::env::var_os("SHINGLE_SEED").is_some(), "{before} and {behind} writes");
}

/// A call that was made before the change, and begins after it.
#[test]
fn a_late_write_sees_the_new_end() {
    Sim::new(1).run(|rt| async move {
        let (device, _, _) = format(&rt, &Geometry::hm_smr(Blocks(64), 40, 0, 8), 4096).await;
        let (volume, _) = open(&rt, &device).await.unwrap();
        let size = volume.size_bytes();
        let late = volume.write_zeros((SMALL - 10) * 4096, 20 * 4096, shingle_store_api::Durability::Cached);
        volume.resize(SMALL * 4096).await.unwrap();
        assert_eq!(late.await.unwrap_err().kind, StoreErrorKind::Invalid);
        volume.resize(size).await.unwrap();
        volume.close().await.unwrap();
    });
}
