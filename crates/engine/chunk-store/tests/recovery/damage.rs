//! A corrupted or truncated drive: opening it, reading it and checking it give errors or right bytes, never a panic and
//! never wrong bytes.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::{Driver, Model, formatted, geometry, open, options};
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_chunk_store::{ChunkStore, ErrorKind, METAZONES_MIN, Options, check, dump};
use shingle_sim::{Random, Sim, SimDevice, seeds};
use shingle_zoned::{MemoryDevice, ZonedDevice};

/// A drive with a history, and what was put there.
fn used_drive(seed: u64) -> (MemoryDevice, Model, Random) {
    let mut random = Random::new(seed);
    let medium = formatted(geometry(&mut random));
    let options = options(&mut random);
    Sim::new(seed).run(move |rt| async move {
        let device = SimDevice::new(&rt, &medium);
        let (store, _) = open(&rt, &device, options).await;
        let (model, random) = (Rc::new(RefCell::new(Model::default())), Rc::new(RefCell::new(random)));
        let driver = Driver {
            rt: rt.clone(),
            store: store.clone(),
            model: model.clone(),
            random: random.clone(),
            ids: 8,
            faults: false,
        };
        driver.run(60).await;
        store.close().await.unwrap();
        let model = model.borrow().clone();
        let random = random.borrow().clone();
        (device.image(), model, random)
    })
}

/// Spoils a few blocks, or cuts a zone short. Returns whether it cut a metazone: what the journal then lacks cannot be told
/// from what was never written, and a chunk that was deleted and created again may be what it was before.
fn spoil(image: &MemoryDevice, random: &mut Random) -> bool {
    let geometry = image.geometry().clone();
    let metazones = geometry.conventional_zones + 1..geometry.conventional_zones + 1 + METAZONES_MIN;
    let mut cut = false;
    for _ in 0..1 + random.below(6) {
        let zone = ZoneId(random.below(u64::from(geometry.zone_count)) as u32);
        let written = image.zone(zone).written;
        if written == Blocks::ZERO {
            continue;
        }
        if random.chance(0.2) && written < geometry.zone_capacity {
            image.truncate_zone(zone, Blocks(random.below(written.0)));
            cut |= metazones.contains(&zone.0);
            continue;
        }
        let at = geometry.start_of(zone) + Blocks(random.below(written.0));
        let other = Lba(random.below(geometry.blocks().0));
        match random.below(4) {
            0 => image.corrupt(at, |block| block.fill(0)),
            1 => {
                let garbage = random.bytes(4096);
                image.corrupt(at, |block| block.copy_from_slice(&garbage));
            }
            2 => {
                let bit = random.below(4096 * 8);
                image.corrupt(at, |block| block[(bit / 8) as usize] ^= 1 << (bit % 8));
            }
            // A block of another place, or zeros if nothing was written there.
            _ => {
                let mut copy = vec![0; 4096];
                image.corrupt(other, |block| copy.copy_from_slice(block));
                image.corrupt(at, |block| block.copy_from_slice(&copy));
            }
        }
    }
    cut
}

/// Spoils more blocks next to each other than one write's parity makes up for.
fn spoil_a_write_of_the_log(image: &MemoryDevice) {
    let geometry = image.geometry().clone();
    let first = geometry.conventional_zones + 1;
    let metazones = (first..first + METAZONES_MIN).map(ZoneId);
    for zone in metazones.filter(|&zone| image.zone(zone).written > Blocks(6)) {
        // In front of the end of the checkpoint that closing made.
        for back in 3..6 {
            let block = image.zone(zone).written - Blocks(back);
            image.corrupt(geometry.start_of(zone) + block, |bytes| bytes.fill(0xEE));
        }
    }
}

/// CS-CHUNK-3.
#[test]
fn damaged_drives_give_errors_and_never_wrong_bytes() {
    let (mut opened, mut refused) = (0, 0);
    // In 1434 the end of the journal goes, and an earlier chunk comes back.
    for seed in seeds(400).chain([1434]) {
        let (image, model, mut random) = used_drive(seed);
        let cut = spoil(&image, &mut random);
        if seed % 8 == 0 {
            spoil_a_write_of_the_log(&image);
        }
        let ok = Sim::new(seed).run(move |rt| async move {
            let device = SimDevice::new(&rt, &image);
            // Neither writes anything; both must end.
            let _ = check(&rt, Rc::new(device.clone()), |_, _| {}).await;
            let _ = dump(&rt, Rc::new(device.clone())).await;
            let store = match ChunkStore::open(&rt, Rc::new(device.clone()), Options::default()).await {
                Ok((store, _)) => store,
                Err(error) => {
                    let known = matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Format | ErrorKind::Device);
                    assert!(known, "seed {seed}: {error}");
                    return false;
                }
            };
            for (&id, chunk) in &model.chunks {
                let Ok(stat) = store.stat(id) else { continue };
                let size = stat.size.min(chunk.acked);
                for at in (0..size).step_by(5000) {
                    let length = (size - at).min(5000);
                    match store.read(id, at, length).await {
                        Ok(bytes) => {
                            assert!(cut || bytes == chunk.bytes(at, length), "seed {seed}: {id} at {at}")
                        }
                        Err(error) => {
                            let known = matches!(error.kind, ErrorKind::Corrupt | ErrorKind::Device);
                            assert!(known, "seed {seed}: {error}");
                        }
                    }
                }
            }
            true
        });
        opened += u64::from(ok);
        refused += u64::from(!ok);
    }
    let both = opened > 50 && refused > 5;
    assert!(both || std::env::var_os("SHINGLE_SEED").is_some(), "{opened} drives opened, {refused} were refused");
}

/// A checkpoint of another version would be read as nonsense: the store is refused, and not changed.
#[test]
fn a_store_of_another_version_is_refused_and_named() {
    for (version, word) in [(1, "1"), (4, "4"), (u32::MAX, "newer")] {
        let image = formatted(geometry(&mut Random::new(1)));
        Sim::new(1).run(move |rt| async move {
            let device: Rc<dyn ZonedDevice> = Rc::new(SimDevice::new(&rt, &image));
            let zone = ZoneId(device.geometry().conventional_zones);
            let found = shingle_record::read_superblock(&device, zone).await.unwrap();
            let other = shingle_record::Superblock { version, ..found };
            shingle_record::write_superblock(&device, zone, &other).await.unwrap();
            let error = ChunkStore::open(&rt, device, Options::default()).await.err().unwrap();
            assert_eq!(error.kind, ErrorKind::Format);
            assert!(error.message.contains(word) && error.message.contains(&version.to_string()), "{error}");
        });
    }
}
