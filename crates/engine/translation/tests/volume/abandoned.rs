//! TL-CKPT-4: callers that go away while a checkpoint is written.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_base::Blocks;
use shingle_sim::{Sim, seeds};
use shingle_store_api::BlockStore;
use shingle_zoned::Geometry;

use crate::common::{format, open, put};

#[test]
fn a_checkpoint_that_nobody_waits_for_holds_up_nobody() {
    for seed in seeds(20) {
        Sim::new(seed).run(move |rt| async move {
            let (device, _, _) = format(&rt, &Geometry::hm_smr(Blocks(64), 40, 0, 8), 4096).await;
            let (volume, _) = open(&rt, &device).await.unwrap();
            for lba in 0..40 {
                put(&volume, lba * 3, 2, 1).await.unwrap();
            }
            device.set_latency(Duration::from_micros(500));
            // Not a moment at which a command ends.
            drop(select(pin!(volume.checkpoint()), pin!(rt.sleep(Duration::from_micros(130 * seed + 7)))).await);
            let change = async {
                match seed % 3 {
                    0 => volume.take_snapshot("a").await,
                    1 => volume.remove_snapshot("none").await.map_or(Ok(()), |()| panic!("there is none")),
                    _ => volume.resize(volume.size_bytes() / 2).await,
                }
            };
            match select(pin!(change), pin!(rt.sleep(Duration::from_secs(60)))).await {
                Either::Left((changed, _)) => drop(changed),
                Either::Right(_) => panic!("seed {seed}: it waits for a checkpoint that nobody writes"),
            }
            volume.close().await.unwrap();
        });
    }
}
