//! TL-CLOSE-2: nothing goes on after a close, whatever a controller does.

use std::time::Duration;

use shingle_base::Blocks;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Sim, Trigger, seeds};
use shingle_translation::{Event, Route};
use shingle_zoned::Geometry;

use crate::common::{format, open, put};

/// A copy of many batches, while the volume closes.
#[test]
fn copies_end_when_the_volume_closes() {
    for seed in seeds(6) {
        Sim::new(seed).run(move |rt| async move {
            let (device, _, _) = format(&rt, &Geometry::hm_smr(Blocks(4096), 40, 0, 8), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            let (sectors, control) = (16 << 10, volume.control());
            for lba in (0..sectors).step_by(512) {
                put(&volume, lba, 512, 1).await.unwrap();
            }
            // A run has a zone, which another route ends.
            control.route(Route::Sequential { sectors: 4, align: 0 });
            for run in 0..4 {
                put(&volume, run * 512, 512, 1).await.unwrap();
            }
            device.set_latency(Duration::from_millis(1));
            let sleeper = rt.clone();
            let copies = rt.spawn(async move {
                let mut ended = 0;
                loop {
                    let range = 0..sectors;
                    if !seed.is_multiple_of(2) {
                        // A refusal does not stop it.
                        drop(control.take().await);
                        ended += u64::from(control.copy_to_taken(std::slice::from_ref(&range), None).await.is_err());
                    } else {
                        ended += u64::from(control.copy(std::slice::from_ref(&range), None).await.is_err());
                    }
                    control.route([Route::Single, Route::Sequential { sectors: 4, align: 0 }][ended as usize % 2]);
                    drop(control.checkpoint().await);
                    sleeper.sleep(Duration::from_millis(1)).await;
                    if ended > 100 {
                        return control.wait(Duration::ZERO).await;
                    }
                }
            });
            rt.sleep(Duration::from_micros(17_300 * (seed + 1))).await;
            volume.close().await.unwrap();
            let commands = device.counts().commands;
            rt.sleep(Duration::from_secs(60)).await;
            assert_eq!(device.counts().commands, commands, "seed {seed}: commands after the close");
            assert_eq!(copies.await.unwrap(), Event::Closing);
        });
    }
}

/// A zone that is full is left while its stream writes in the next one; the drive takes long to tell of it.
#[test]
fn a_close_waits_for_the_ends_of_zones() {
    Sim::new(1).run(|rt| async move {
        let shape = Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(64), 40, 0, 8) };
        let (device, _, _) = format(&rt, &shape, 4096).await;
        let (volume, _) = open(&rt, &device).await.unwrap();
        let hang = FaultRule { trigger: Trigger::Rate(CommandKind::Report, 1.0), fault: Fault::Hang };
        device.set_faults(Faults::new([hang]));
        put(&volume, 0, 120, 1).await.unwrap();
        rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(device.hung(), 1);
        let closing = rt.spawn(volume.close());
        rt.sleep(Duration::from_secs(1)).await;
        device.set_faults(Faults::default());
        device.release_hung();
        closing.await.unwrap().unwrap();
        let commands = device.counts().commands;
        rt.sleep(Duration::from_secs(60)).await;
        assert_eq!(device.counts().commands, commands, "commands after the close");
    });
}
