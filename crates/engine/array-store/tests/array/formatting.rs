//! A format that is cut short, or that meets faults: the drives hold an array that works, or can be formatted again; no part of what
//! they held before shows in it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use shingle_array_store::{ArrayStore, ErrorKind, FormatOptions, IndexPlace, Options, format};
use shingle_base::{Blocks, StoreId, ZoneId};
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Medium, Random, Sim, SimDevice, Survival, Trigger, seeds};
use shingle_zoned::{Geometry, MemoryDevice};

use crate::common::{ArrayShape, content, formatted, named, open, options, powered, shape};

/// Drives of a closed array that has objects.
fn used(shape: &ArrayShape, seed: u64) -> Vec<Medium> {
    let media = formatted(shape);
    Sim::new(seed).run(move |rt| async move {
        let devices = powered(&rt, &media);
        let (store, _) = open(&rt, &devices, options(&mut Random::new(seed))).await;
        for number in 0..6 {
            store.put(old(number), content((number, 20_000)), Bytes::new()).await.unwrap();
        }
        store.snapshot().await.unwrap();
        store.close().await.unwrap();
        devices.iter().map(|device| Medium::from(&device.image())).collect()
    })
}

fn old(number: u64) -> String {
    format!("old{number}")
}

fn resumed(rt: &Runtime, media: Vec<Medium>) -> Vec<SimDevice> {
    media.into_iter().map(|medium| SimDevice::resume(rt, medium)).collect()
}

async fn format_anew(rt: &Runtime, devices: &[SimDevice], shape: &ArrayShape) -> shingle_array_store::Result<StoreId> {
    let options = FormatOptions { segment_length: shape.segment_length, ..FormatOptions::new(shape.code) };
    format(rt, &named(devices), &options).await
}

/// All bytes of an object; `None` if it is not there.
async fn read(store: &ArrayStore, name: &str) -> shingle_array_store::Result<Option<Vec<u8>>> {
    let reader = match store.open_object(name.to_owned()) {
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
        reader => reader?,
    };
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < reader.object().size {
        bytes.extend_from_slice(&reader.read(bytes.len() as u64, u64::MAX).await?);
    }
    Ok(Some(bytes))
}

/// Nothing of the former array is there, and the new one works.
async fn is_new(store: &ArrayStore, context: &str) {
    for number in 0..6 {
        assert_eq!(read(store, &old(number)).await.unwrap(), None, "{context}: {} is back", old(number));
    }
    let bytes = content((77, 30_000));
    store.put("new".to_owned(), bytes.clone(), Bytes::new()).await.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(read(store, "new").await.unwrap().unwrap() == bytes, "{context}");
}

/// The power fails, or the process is killed, at each command of a format and of the opening behind it.
#[test]
fn a_cut_inside_format_or_the_first_opening_leaves_drives_that_can_be_used() {
    let (mut inside, mut behind) = (0, 0);
    for seed in seeds(6) {
        let shape = shape(&mut Random::new(seed));
        let media = used(&shape, seed);
        let (cuts, formatted_after) = cuts(seed, &shape, media);
        inside += formatted_after;
        behind += cuts.len() - formatted_after;
        for (number, media) in cuts.into_iter().enumerate() {
            let (shape, context) =
                (shape.clone(), format!("seed {seed}, cut at command {number} of {formatted_after}"));
            Sim::new(seed + number as u64).run(move |rt| async move {
                let devices = resumed(&rt, media);
                let drives = named(&devices);
                let opened = async |options| match ArrayStore::open(&rt, &drives, &IndexPlace::Memory, options).await {
                    Ok((store, report)) => {
                        assert_eq!(report.damage, Vec::<String>::new(), "{context}");
                        store
                    }
                    Err(error) => panic!("{context}: {error}"),
                };
                let options = options(&mut Random::new(seed));
                if number >= formatted_after {
                    // The format had ended: what it says is durable.
                    return is_new(&opened(options).await, &context).await;
                }
                // The former array, as far as it can be read; the new one, or neither.
                if let Ok((store, _)) = ArrayStore::open(&rt, &drives, &IndexPlace::Memory, options.clone()).await {
                    for number in 0..6 {
                        if let Ok(Some(bytes)) = read(&store, &old(number)).await {
                            assert!(bytes == content((number, 20_000)), "{context}: {}", old(number));
                        }
                    }
                    // Of half an array it may fail.
                    let _ = store.close().await;
                }
                format_anew(&rt, &devices, &shape).await.unwrap_or_else(|error| panic!("{context}: {error}"));
                is_new(&opened(options).await, &context).await;
            });
        }
    }
    let one = std::env::var_os("SHINGLE_SEED").is_some();
    assert!(one || inside > 50 && behind > 50, "{inside} inside, {behind} behind");
}

/// The drives as cuts at most commands leave them; and how many of them came before the format had ended.
fn cuts(seed: u64, shape: &ArrayShape, media: Vec<Medium>) -> (Vec<Vec<Medium>>, usize) {
    let shape = shape.clone();
    Sim::new(seed).run(move |rt| async move {
        let devices = resumed(&rt, media);
        let found = Rc::new(RefCell::new(Vec::new()));
        let random = Rc::new(RefCell::new(Random::new(seed * 13)));
        for device in &devices {
            let (all, found, random) = (devices.clone(), found.clone(), random.clone());
            device.on_command(move |command, _| {
                let mut random = random.borrow_mut();
                if !random.chance(0.6) {
                    return;
                }
                let end = random.below(3);
                let left = |(at, device): (usize, &SimDevice)| match end {
                    0 => device.kill(),
                    1 => Medium::from(&device.crash_image_with(seed + command.number + at as u64, Survival::Prefix)),
                    _ => Medium::from(&device.crash_image_with(seed + command.number + at as u64, Survival::AnySubset)),
                };
                found.borrow_mut().push(all.iter().enumerate().map(left).collect());
            });
        }
        format_anew(&rt, &devices, &shape).await.unwrap();
        let formatted_after = found.borrow().len();
        let (store, _) = open(&rt, &devices, options(&mut Random::new(seed))).await;
        store.put("first".to_owned(), content((1, 5_000)), Bytes::new()).await.unwrap();
        devices.iter().for_each(|device| device.on_command(|_, _| {}));
        (found.take(), formatted_after)
    })
}

/// Commands of a format fail, zones turn read-only or offline: it says so and can be done again, or the array works.
#[test]
fn a_format_that_meets_faults_says_so_or_makes_an_array_that_works() {
    let (worked, failed) = (Cell::new(0), Cell::new(0));
    for seed in seeds(60) {
        let shape = shape(&mut Random::new(seed));
        let media = used(&shape, seed);
        let made = Sim::new(seed).run(move |rt| async move {
            let random = &mut Random::new(seed * 7);
            let devices = resumed(&rt, media);
            let faults =
                [Fault::ReadError, Fault::WriteError, Fault::ZoneReadOnly, Fault::ZoneOffline, Fault::CommandError];
            for device in &devices {
                let rules = (0..random.below(3)).map(|_| {
                    let kind = [CommandKind::Write, CommandKind::Reset, CommandKind::Read][random.below(3) as usize];
                    let trigger = Trigger::Nth(kind, random.below(4));
                    FaultRule { trigger, fault: faults[random.below(faults.len() as u64) as usize] }
                });
                device.set_faults(Faults::new(rules.collect::<Vec<_>>()));
            }
            let made = format_anew(&rt, &devices, &shape).await;
            devices.iter().for_each(|device| device.set_faults(Faults::default()));
            let context = format!("seed {seed}");
            if let Err(error) = &made {
                assert!(matches!(error.kind, ErrorKind::Device | ErrorKind::Invalid), "{context}: {error}");
                match format_anew(&rt, &devices, &shape).await {
                    // The zone is dead.
                    Err(error) if error.to_string().contains("would hold superblocks") => return false,
                    again => drop(again.unwrap_or_else(|error| panic!("{context}: {error}"))),
                }
            }
            let (store, report) = open(&rt, &devices, options(&mut Random::new(seed))).await;
            assert_eq!(report.damage, Vec::<String>::new(), "{context}");
            is_new(&store, &context).await;
            made.is_ok()
        });
        let count = if made { &worked } else { &failed };
        count.set(count.get() + 1);
    }
    let one = std::env::var_os("SHINGLE_SEED").is_some();
    assert!(one || worked.get() > 5 && failed.get() > 5, "{} worked, {} failed", worked.get(), failed.get());
}

/// A drive is lost inside of a format: that says so, and does not leave an array without that drive.
#[test]
fn a_format_that_loses_a_drive_says_so() {
    let mut lost = 0;
    let shape = few_drives();
    for after in 0..20 {
        let media = used(&shape, 1);
        let shape = shape.clone();
        lost += Sim::new(after).run(move |rt| async move {
            let devices = resumed(&rt, media);
            devices[0].power_off_at(after);
            let made = format_anew(&rt, &devices, &shape).await;
            assert_eq!(made.is_err(), devices[0].is_gone(), "lost after {after} commands");
            u64::from(made.is_err())
        });
    }
    assert!(lost > 3 && lost < 20, "{lost}");
}

fn few_drives() -> ArrayShape {
    let drives = vec![Geometry::hm_smr(Blocks(60), 14, 0, 12); 3];
    ArrayShape { code: Code::new(2, 1).unwrap(), segment_length: 20_000, drives }
}

/// AS-SB-6: drives of an array are formatted as another, and a host that writes in place loses power in its first opening: of a drive's newest
/// superblocks nothing was written, and in their places are those of the array before.
#[test]
fn superblocks_of_a_former_array_tell_nothing() {
    let shape = few_drives();
    let media = formatted(&shape);
    // Other random numbers: else the arrays had the same id.
    Sim::new(7).run(move |rt| async move {
        let opened = |devices: &[SimDevice]| {
            let (rt, devices) = (rt.clone(), devices.to_vec());
            async move { open(&rt, &devices, Options { background: false, ..Options::default() }).await }
        };
        let devices = powered(&rt, &media);
        drop(opened(&devices).await);
        let former = devices[0].image();
        format_anew(&rt, &devices, &shape).await.unwrap();
        let begun = devices[0].image().zone(ZoneId(0)).written;
        drop(opened(&devices).await);
        let images: Vec<MemoryDevice> = devices.iter().map(SimDevice::image).collect();
        let zone = images[0].zone(ZoneId(0));
        assert!(begun < zone.written && former.zone(ZoneId(0)).written == zone.written, "the case is not met");
        for at in (begun.0..zone.written.0).map(|block| zone.start + Blocks(block)) {
            let bytes = former.read_now(at, Blocks(1)).unwrap();
            images[0].corrupt(at, |block| block.copy_from_slice(&bytes));
        }
        let (store, report) = opened(&powered(&rt, &images)).await;
        assert_eq!((report.damage, report.missing_drives), (vec![], vec![]));
        is_new(&store, "torn").await;
    });
}
