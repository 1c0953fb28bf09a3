use std::time::Duration;

use shingle_sim::{CommandKind, Random, Sim, seeds};

use super::*;
use crate::rig::drives::LabDrive;
use crate::rig::host::{Host, HostDevice};

impl F2fsTarget {
    /// LAB-FF-1 and LAB-FS-3: owners name disjoint blocks, and sections count just these as valid.
    fn check(&self) {
        let (files, sections) = (self.shared.files.borrow(), self.shared.sections.borrow());
        let mut named = Vec::new();
        let mut live = 0;
        for file in files.slots.iter().flatten() {
            let mut next = 0;
            for &(first, piece) in file.extents() {
                assert_eq!(first, next, "a file has a gap");
                next += piece.blocks;
                named.push(piece);
            }
            assert_eq!(next, file.frame.blocks());
            live += u64::from(next);
            named.extend(file.nodes.values().filter_map(|node| node.at));
        }
        assert_eq!(live, self.shared.counters.get().live_blocks);
        named.sort_by_key(|piece| (piece.section, piece.offset));
        for pair in named.windows(2) {
            let apart = pair[0].section < pair[1].section || pair[0].offset + pair[0].blocks <= pair[1].offset;
            assert!(apart, "LAB-FF-1: {pair:?}");
        }
        let mut valid = vec![0; sections.all.len()];
        for piece in &named {
            valid[piece.section as usize] += piece.blocks;
        }
        for (number, section) in sections.all.iter().enumerate() {
            assert_eq!(section.valid, valid[number], "LAB-FS-3: section {number}, {:?}", section.state);
        }
        assert_eq!(sections.valid, valid.iter().map(|&blocks| u64::from(blocks)).sum::<u64>());
    }
}

/// A drive of 60 zones, four of them conventional, with no head to wait for.
fn run_with<F: Future<Output = ()> + 'static>(
    seed: u64,
    options: F2fsOptions,
    run: impl FnOnce(Runtime, Rc<F2fsTarget>) -> F + 'static,
) {
    Sim::new(seed).run(move |rt| async move {
        let drive = LabDrive::new("st20000nm001j").unwrap().every(200).first_zones(60);
        let device = drive.device(&rt, drive.blank());
        device.set_latency(Duration::from_micros(10));
        let device = HostDevice::new(Host::linux_4_19(), device);
        let target = Rc::new(F2fsTarget::format(&rt, device, options).unwrap());
        run(rt, target).await;
    });
}

/// Fills to `share`, then deletes and writes at random until `turns` times the capacity was written; returns the state.
async fn churn(seed: u64, target: &Rc<F2fsTarget>, share: f64, turns: f64) -> TargetState {
    let mut random = Random::new(seed);
    let mut open: Vec<(ChunkId, u64)> = Vec::new();
    let mut sealed: Vec<(ChunkId, u64)> = Vec::new();
    let (mut number, capacity) = (0, target.state().capacity_bytes);
    while (target.state().appended_bytes as f64) < turns * capacity as f64 {
        while target.state().live_bytes as f64 > share * capacity as f64 {
            let (id, length) = sealed.swap_remove(random.below(sealed.len() as u64) as usize);
            target.read(id, 0, (length as u32).min(1 << 20)).await.unwrap();
            target.delete(id).await.unwrap();
        }
        if open.len() < 16 {
            number += 1;
            target.create(ChunkId::from_u64(number), Stream::Gc).await.unwrap();
            open.push((ChunkId::from_u64(number), 0));
        }
        let at = random.below(open.len() as u64) as usize;
        target.append(open[at].0, open[at].1, 1 << 20).await.unwrap();
        open[at].1 += 1 << 20;
        if open[at].1 >= 40 << 20 {
            let (id, length) = open.swap_remove(at);
            target.seal(id).await.unwrap();
            sealed.push((id, length));
        }
        assert!(target.state().free_zones > 0, "LAB-FG-1");
    }
    for &(id, length) in &sealed {
        for at in (0..length).step_by(1 << 20) {
            target.read(id, at, 1 << 20).await.unwrap();
        }
    }
    target.state()
}

/// LAB-FF-1, LAB-FF-2 and LAB-FF-3 under foreground cleaning, also on a nearly full drive: the device refuses a read of a zone that was
/// reset.
#[test]
fn cleaning_loses_nothing() {
    for seed in seeds(1) {
        for (share, turns) in [(0.8, 2.0), (0.96, 1.5)] {
            let options = F2fsOptions { background: false, ..F2fsOptions::default() };
            run_with(seed, options, move |_, target| async move {
                let state = churn(seed, &target, share, turns).await;
                target.check();
                assert!(target.foreground_cleanings() > 20, "seed {seed}: {state:?}");
                assert!(state.moved_bytes > 0 && state.written_bytes > state.appended_bytes + state.moved_bytes);
            });
        }
    }
}

/// Appends of many sizes to many files at once, with deletions under them.
#[test]
fn files_grow_and_go_at_once() {
    for seed in seeds(3) {
        let options = F2fsOptions { hints: true, synced: seed % 2 == 0, ..F2fsOptions::default() };
        run_with(seed, options, move |rt, target| async move {
            let workers: Vec<_> = (0..12)
                .map(|worker| {
                    let (target, mut random) = (target.clone(), Random::new(seed * 100 + worker));
                    rt.spawn(async move {
                        for step in 0..40 {
                            let id = ChunkId::from_u64(worker * 1000 + step);
                            target.create(id, Stream::ALL[(worker % 3) as usize]).await.unwrap();
                            let mut offset = 0;
                            for _ in 0..random.between(1, 40) {
                                let length = random.between(1, 1 << 20) as u32;
                                target.append(id, offset, length).await.unwrap();
                                target.read(id, offset, length).await.unwrap();
                                offset += u64::from(length);
                            }
                            if random.chance(0.7) {
                                target.delete(id).await.unwrap();
                            }
                        }
                    })
                })
                .collect();
            for worker in workers {
                worker.await.unwrap();
            }
            rt.sleep(Duration::from_secs(61)).await;
            target.check();
            assert!(target.checkpoints() > 0);
        });
    }
}

/// LAB-FC-1.
#[test]
fn no_block_is_given_out_while_a_checkpoint_is_written() {
    run_with(1, F2fsOptions::default(), |rt, target| async move {
        let id = ChunkId::from_u64(1);
        target.create(id, Stream::Gc).await.unwrap();
        target.append(id, 0, 1 << 20).await.unwrap();
        let given_out = |target: &F2fsTarget| -> u32 {
            target.shared.sections.borrow().all.iter().map(|section| section.next).sum()
        };
        let checkpoints = target.checkpoints();
        let shared = target.shared.clone();
        let writing = rt.spawn(async move { shared.checkpoint().await });
        rt.yield_now().await;
        // Blocks of its own nodes included.
        let (begun, mut looks) = (given_out(&target), 0);
        let appending = rt.spawn({
            let target = target.clone();
            async move { target.append(id, 1 << 20, 1 << 20).await }
        });
        while target.checkpoints() == checkpoints {
            assert_eq!(given_out(&target), begun, "LAB-FC-1");
            looks += 1;
            rt.sleep(Duration::from_micros(1)).await;
        }
        writing.await.unwrap().unwrap();
        appending.await.unwrap().unwrap();
        assert!(looks > 5 && given_out(&target) > begun);
    });
}

/// LAB-FC-2: a checkpoint ends with a pack of four blocks and one behind them. Nothing else in the conventional zones is
/// written before its resets.
#[test]
fn a_zone_is_reset_behind_the_checkpoint_that_lets_it_go() {
    Sim::new(1).run(|rt| async move {
        let drive = LabDrive::new("st20000nm001j").unwrap().every(200).first_zones(60);
        let device = drive.device(&rt, drive.blank());
        device.set_latency(Duration::from_micros(10));
        let conventional = device.geometry().conventional_zones;
        let (resets, mut last) = (Rc::new(Cell::new(0)), [0, 0]);
        let seen = resets.clone();
        device.on_command(move |command, _| match (command.kind, command.zone) {
            (CommandKind::Write, Some(zone)) if zone.0 < conventional => last = [last[1], command.blocks.0],
            (CommandKind::Reset, _) => {
                assert_eq!(last, [4, 1], "LAB-FC-2");
                seen.set(seen.get() + 1);
            }
            _ => {}
        });
        let device = HostDevice::new(Host::linux_4_19(), device);
        let options = F2fsOptions { background: false, ..F2fsOptions::default() };
        let target = Rc::new(F2fsTarget::format(&rt, device, options).unwrap());
        churn(1, &target, 0.8, 1.5).await;
        assert!(resets.get() > 20, "{} resets", resets.get());
    });
}

/// An idle drive is cleaned in the background, a section at a time.
#[test]
fn an_idle_drive_is_cleaned() {
    run_with(1, F2fsOptions::default(), |rt, target| async move {
        churn(1, &target, 0.5, 0.9).await;
        let before = target.state();
        assert!(before.dirty_zones > 3, "{before:?}");
        rt.sleep(Duration::from_secs(600)).await;
        let after = target.state();
        assert!(after.gc_runs > before.gc_runs && after.live_bytes == before.live_bytes, "{after:?}");
        target.check();
    });
}

/// LAB-FL-1: small appends that wait for one zone go out together.
#[test]
fn bios_merge_behind_the_zone_lock() {
    run_with(1, F2fsOptions { synced: false, sequential: true, ..F2fsOptions::default() }, |rt, target| async move {
        let device = target.shared.disk.geometry().clone();
        let workers: Vec<_> = (0..16)
            .map(|number| {
                let target = target.clone();
                rt.spawn(async move {
                    target.create(ChunkId::from_u64(number), Stream::Gc).await.unwrap();
                    for step in 0..100 {
                        target.append(ChunkId::from_u64(number), step * 4048, 4048).await.unwrap();
                    }
                })
            })
            .collect();
        let began = rt.now();
        for worker in workers {
            worker.await.unwrap();
        }
        // 1600 commands of 5 us in the mean, one at a time, would take 8 ms; 15 share one here.
        assert!(rt.now().since(began) < Duration::from_millis(3), "{:?}", rt.now().since(began));
        assert!(device.conventional_zones < device.zone_count);
        target.check();
    });
}
