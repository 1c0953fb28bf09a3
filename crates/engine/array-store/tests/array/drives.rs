//! Drives that are lost, at rest and in the middle of things: nothing that was acknowledged is.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{Driver, Model, content, formatted, named, open, options, powered, shape};
use bytes::Bytes;
use shingle_array_store::{ArrayStore, ErrorKind, IndexPlace, Options};
use shingle_base::Blocks;
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_zoned::{MemoryDevice, ZonedDevice};

/// Runs a history on a fresh array; while it runs, `lost` drives fail at some command. Returns the media, and the
/// model.
fn history(seed: u64, lost: usize) -> (Vec<MemoryDevice>, Vec<bool>, Model) {
    let mut random = Random::new(seed);
    let media = formatted(&shape(&mut random));
    let options = options(&mut random);
    let callers = 1 + random.below(4);
    Sim::new(seed).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &devices, options).await;
        let mut dead = vec![false; devices.len()];
        for _ in 0..lost {
            let at = random.below(devices.len() as u64) as usize;
            dead[at] = true;
            devices[at].power_off_at(devices[at].counts().commands + random.below(400));
        }
        let model = Rc::new(RefCell::new(Model::default()));
        let drivers: Vec<_> = (0..callers)
            .map(|caller| Driver {
                rt: rt.clone(),
                store: store.clone(),
                model: model.clone(),
                random: Random::new(random.number()),
                caller,
                names: 6,
                size_max: 120_000,
                faulty: true,
            })
            .map(|driver| rt.spawn(driver.run(40)))
            .collect();
        for driver in drivers {
            driver.await.unwrap();
        }
        let mut found = model.borrow().clone();
        found.settle(&store, &format!("seed {seed}, {lost} drives lost")).await;
        let images = devices.iter().enumerate().map(|(at, device)| device.crash_image(seed + at as u64)).collect();
        (images, dead, found)
    })
}

/// AS-WRITE-1.
#[test]
fn drives_that_fail_in_the_middle_of_things_cost_nothing() {
    for seed in seeds(40) {
        let parity = shape(&mut Random::new(seed)).code.parity();
        let (images, dead, mut model) = history(seed, parity);
        // Opened without them, and with them back, old as they are.
        for back in [false, true] {
            let (images, dead) = (images.iter().map(MemoryDevice::snapshot).collect::<Vec<_>>(), dead.clone());
            let mut expected = model.clone();
            model = Sim::new(seed).run(move |rt| async move {
                let devices = powered(&rt, &images);
                let there =
                    devices.iter().zip(&dead).filter(|(_, dead)| back || !**dead).map(|(device, _)| device.clone());
                let there: Vec<SimDevice> = there.collect();
                let (store, report) = open(&rt, &there, Options::default()).await;
                let context = format!("seed {seed}, opened with {} of {} drives", there.len(), devices.len());
                assert_eq!(report.damage, Vec::<String>::new(), "{context}");
                expected.settle(&store, &context).await;
                expected
            });
        }
    }
}

#[test]
fn one_drive_more_than_parity_is_refused_in_words() {
    let mut random = Random::new(3);
    let shape = shape(&mut random);
    let media = formatted(&shape);
    Sim::new(1).run(move |rt| async move {
        let devices = powered(&rt, &media[media.len() - shape.code.data() + 1..]);
        let options = Options::default();
        let Err(error) = ArrayStore::open(&rt, &named(&devices), &IndexPlace::Memory, options).await else {
            panic!("opened with too few drives")
        };
        assert_eq!(error.kind, ErrorKind::Device);
        assert!(error.message.contains("missing"), "{error}");
    });
}

/// AS-READ-1.
#[test]
fn rotten_fragments_are_computed_from_the_others() {
    for seed in seeds(20) {
        let mut random = Random::new(seed);
        let shape = shape(&mut random);
        let media = formatted(&shape);
        Sim::new(seed).run(move |rt| async move {
            let devices = powered(&rt, &media);
            let (store, _) = open(&rt, &devices, Options { background: false, ..Options::default() }).await;
            let object = (seed, 70_000);
            store.put("o", content(object), Bytes::new()).await.unwrap();
            store.close().await.unwrap();
            let images: Vec<MemoryDevice> = devices.iter().map(SimDevice::image).collect();
            // As many drives as parity makes up for lose every block behind their superblocks.
            for image in images.iter().take(shape.code.parity()) {
                let geometry = image.geometry().clone();
                for zone in geometry.conventional_zones + 2..geometry.zone_count {
                    let info = image.zone(shingle_base::ZoneId(zone));
                    for block in 2..info.written.0 {
                        image.corrupt(info.start + Blocks(block), |bytes| bytes[100] ^= 1);
                    }
                }
            }
            let devices = powered(&rt, &images);
            let (store, _) = open(&rt, &devices, Options::default()).await;
            assert!(store.get("o").await.unwrap() == content(object), "seed {seed}");
            // One more is too many, and is said to be.
            let image = &images[shape.code.parity()];
            let geometry = image.geometry().clone();
            for zone in geometry.conventional_zones + 2..geometry.zone_count {
                let info = image.zone(shingle_base::ZoneId(zone));
                for block in 2..info.written.0 {
                    image.corrupt(info.start + Blocks(block), |bytes| bytes[100] ^= 1);
                }
            }
            let devices = powered(&rt, &images);
            // For writing it is opened only if that is accepted.
            let accepted = Options { accept_loss: true, ..Options::default() };
            let (store, report) = open(&rt, &devices, accepted).await;
            // AS-LOSS-1: it is remembered whenever something was told to be lost.
            assert_eq!(store.lost_before().unwrap().is_some(), !report.damage.is_empty(), "seed {seed}");
            match store.get("o").await {
                Err(error) => assert!(matches!(error.kind, ErrorKind::Corrupt | ErrorKind::NotFound), "{error}"),
                // With more drives than members, the one that was spoilt may hold nothing of it.
                Ok(bytes) => assert!(bytes == content(object)),
            }
        });
    }
}
