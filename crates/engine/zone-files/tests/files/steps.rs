//! ZF-JOURNAL-3: no step of a checkpoint grows with the number of files; and a checkpoint is of one moment all the same.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{join, join_all};
use shingle_base::Blocks;
use shingle_record::keep_metadata;
use shingle_sim::{Sim, SimDevice, Survival, seeds};
use shingle_zone_files::{CreateOptions, FileKind, FormatOptions, Options, ZoneFiles};
use shingle_zoned::{Geometry, MemoryDevice};

use crate::common::{format, open};

/// The longest time for which a checkpoint of so many files keeps others from running, on the processor's clock.
#[allow(clippy::disallowed_methods, reason = "a measurement of the processor, which no simulation has")]
fn longest_step(count: u64) -> Duration {
    Sim::new(1).run(move |rt| async move {
        let memory = MemoryDevice::metadata_only(Geometry::hm_smr(Blocks(4096), 1000, 0, 12), keep_metadata);
        let device = Rc::new(SimDevice::without_power_cuts(&rt, memory));
        device.set_latency(Duration::ZERO);
        ZoneFiles::format(&rt, device.clone(), FormatOptions { metazones: Some(60), ..FormatOptions::default() })
            .await
            .unwrap();
        let (files, _) = ZoneFiles::open(&rt, device, Options::default()).await.unwrap();
        let options = CreateOptions { kind: FileKind::Sst, ..CreateOptions::default() };
        let mut number = 0;
        while number < count {
            let made = (number..count.min(number + 500)).map(|number| {
                let files = files.clone();
                async move {
                    let file = files.create(&format!("{number:06}.sst"), options).await.unwrap();
                    file.append(vec![Bytes::from_static(&[7; 3000])]).await.unwrap();
                    file.sync().await.unwrap();
                }
            });
            number += join_all(made).await.len() as u64;
        }
        let (ended, longest) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(Duration::ZERO)));
        let (over, most, ticking) = (ended.clone(), longest.clone(), rt.clone());
        let ticker = rt.spawn(async move {
            while !over.get() {
                let began = Instant::now();
                ticking.yield_now().await;
                most.set(most.get().max(began.elapsed()));
            }
        });
        rt.yield_now().await;
        files.checkpoint().await.unwrap();
        ended.set(true);
        ticker.await.unwrap();
        longest.get()
    })
}

/// Run it in a release build: `cargo test --release -p shingle-zone-files -- --ignored --nocapture longest_step`.
#[test]
#[ignore = "a measurement"]
fn longest_step_of_a_checkpoint() {
    for count in [2_000, 20_000, 200_000] {
        println!("{count} files: {:?}", longest_step(count));
    }
}

/// Change `number` of names, on a set of them and on files.
fn change(names: &mut BTreeSet<String>, number: u64) -> (Option<String>, Option<String>) {
    // Anywhere among the names, so that the checkpoint has not come to some of them yet, and has left others behind.
    let gone = names.iter().nth((number * 37) as usize % names.len()).cloned().expect("there are names");
    let made = format!("{}/n{number:04}", ["a", "b", "c"][(number % 3) as usize]);
    match number % 4 {
        0 => {
            names.remove(&gone);
            (Some(gone), None)
        }
        1 => {
            names.insert(made.clone());
            (None, Some(made))
        }
        _ => {
            names.remove(&gone);
            names.insert(made.clone());
            (Some(gone), Some(made))
        }
    }
}

/// ZF-PAGE-2, ZF-JOURNAL-1: names change while a checkpoint of many parts is written, and the power fails at every command.
#[test]
fn a_checkpoint_is_of_one_moment() {
    let mut cuts = 0;
    for seed in seeds(4) {
        let (names, moments) = Sim::new(seed).run(move |rt| async move {
            let device = format(&rt, &Geometry::hm_smr(Blocks(64), 60, 0, 12)).await;
            let (files, _) = open(&rt, &device).await.unwrap();
            let mut names = BTreeSet::new();
            for dir in ["a", "b", "c"] {
                files.make_dir(dir).await.unwrap();
            }
            for number in 0..400 {
                let name = format!("{}/f{:0120}", ["a", "b", "c"][number % 3], number * 7919 % 400);
                drop(files.create(&name, CreateOptions::default()).await.unwrap());
                names.insert(name);
            }
            files.checkpoint().await.unwrap();
            let (done, moments) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(Vec::new())));
            let (count, kept) = (done.clone(), moments.clone());
            device.on_command(move |command, device| {
                let image = device.crash_image_with(command.number, Survival::Prefix);
                kept.borrow_mut().push((image, count.get()));
            });
            let model = names.clone();
            let changes = async {
                for number in 0..60 {
                    match change(&mut names, number) {
                        (Some(gone), Some(made)) => files.rename(&gone, &made).await.unwrap(),
                        (Some(gone), None) => files.remove(&gone).await.unwrap(),
                        (_, made) => drop(files.create(&made.unwrap(), CreateOptions::default()).await.unwrap()),
                    }
                    done.set(number + 1);
                }
            };
            let checkpoints = async {
                for _ in 0..3 {
                    files.checkpoint().await.unwrap();
                }
            };
            join(changes, checkpoints).await;
            device.on_command(|_, _| {});
            assert!(files.stats().counters.checkpoints >= 4);
            (model, moments.take())
        });
        cuts += moments.len();
        for (image, done) in moments {
            let mut model = names.clone();
            for number in 0..done {
                change(&mut model, number);
            }
            Sim::new(seed).run(move |rt| async move {
                let (files, _) = open(&rt, &SimDevice::new(&rt, &image)).await.unwrap();
                let found: BTreeSet<String> = files.walk().into_iter().map(|(path, _)| path).collect();
                let before = model.clone();
                change(&mut model, done);
                assert!(found == before || found == model, "seed {seed}, after {done} changes");
            });
        }
    }
    assert!(cuts > 100 || std::env::var_os("SHINGLE_SEED").is_some(), "only {cuts} cuts");
}
