use std::collections::BTreeSet;
use std::rc::Rc;

use shingle_sim::{Random, Sim, seeds};

use super::*;
use crate::rig::drives::LabDrive;
use crate::rig::host::{Host, HostDevice};

impl Ext4Target {
    /// LAB-EX-1 and LAB-EX-2: blocks of files, set aside and free make up the drive, and none is two of these.
    fn check(&self) {
        let state = self.state.borrow();
        let mut runs: Vec<Run> = self.space.shared.borrow().into_iter().collect();
        for file in state.files.values() {
            let mut next = 0;
            for &(first, run) in &file.extents.list {
                assert_eq!(first, next, "LAB-EX-1");
                next += run.blocks as u32;
            }
            assert!(next >= file.frame.blocks());
            runs.extend(file.extents.list.iter().map(|extent| extent.1).chain(file.extents.window));
            runs.extend(file.extents.leaves.iter().map(|&at| Run { at, blocks: 1 }));
        }
        runs.sort_by_key(|run| run.at);
        assert!(runs.windows(2).all(|pair| pair[0].end() <= pair[1].at), "LAB-EX-1: files share a block");
        let used: u64 = runs.iter().map(|run| run.blocks).sum();
        let free = self.space.allocator.borrow().free_blocks();
        assert_eq!(used + free + self.space.journal.pending_blocks(), self.capacity, "LAB-EX-2");
    }
}

fn on_drive<F: Future<Output = ()> + 'static>(seed: u64, run: impl FnOnce(Runtime, Rc<Ext4Target>) -> F + 'static) {
    run_with(seed, Ext4Options::default(), run);
}

fn run_with<F: Future<Output = ()> + 'static>(
    seed: u64,
    options: Ext4Options,
    run: impl FnOnce(Runtime, Rc<Ext4Target>) -> F + 'static,
) {
    Sim::new(seed).run(move |rt| async move {
        let drive = LabDrive::new("st16000nm001g").unwrap().first_zones(6);
        let device = HostDevice::new(Host::linux_4_19(), drive.device(&rt, drive.blank()));
        let target = Rc::new(Ext4Target::format(&rt, device, options).unwrap());
        run(rt, target).await;
    });
}

/// LAB-EX-1 and LAB-EX-2, through creations, appends of all sizes, seals and deletions, until the drive has been full.
#[test]
fn no_block_is_lost_or_shared() {
    for seed in seeds(4) {
        on_drive(seed, move |rt, target| async move {
            let mut random = Random::new(seed);
            let mut open: Vec<(ChunkId, u64)> = Vec::new();
            let mut full = false;
            for number in 0..4_000 {
                if open.len() < 20 {
                    let id = ChunkId::from_u64(number);
                    target.create(id, Stream::Gc).await.unwrap();
                    open.push((id, 0));
                }
                let at = random.below(open.len() as u64) as usize;
                let length = if random.chance(0.3) { random.between(1, 50_000) as u32 } else { 1 << 20 };
                let (id, offset) = open[at];
                match target.append(id, offset, length).await {
                    Ok(()) => {
                        open[at].1 += u64::from(length);
                        target.read(id, offset, length).await.unwrap();
                    }
                    Err(TargetError::NoSpace) => {
                        full = true;
                        for _ in 0..open.len() / 2 {
                            target.delete(open.swap_remove(0).0).await.unwrap();
                        }
                        rt.sleep(std::time::Duration::from_secs(6)).await;
                    }
                    Err(error) => panic!("{error}"),
                }
                if random.chance(0.01) && !open.is_empty() {
                    let (id, _) = open.swap_remove(random.below(open.len() as u64) as usize);
                    target.seal(id).await.unwrap();
                    target.check();
                    if random.chance(0.5) {
                        target.delete(id).await.unwrap();
                    }
                }
            }
            target.check();
            assert!(full, "seed {seed}: the drive was never full");
        });
    }
}

/// LAB-EJ-1: appends that wait at once share commits; a lone one takes one commit.
#[test]
fn commits_are_shared() {
    on_drive(1, |rt, target| async move {
        target.create(ChunkId::from_u64(0), Stream::Gc).await.unwrap();
        target.append(ChunkId::from_u64(0), 0, 4096).await.unwrap();
        assert_eq!(target.commits(), 1);
        let workers: Vec<_> = (1..=16)
            .map(|number| {
                let target = target.clone();
                rt.spawn(async move {
                    let id = ChunkId::from_u64(number);
                    target.create(id, Stream::Gc).await.unwrap();
                    for step in 0..10 {
                        target.append(id, step << 20, 1 << 20).await.unwrap();
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
        assert!((11..=100).contains(&target.commits()), "{} commits", target.commits());
    });
}

/// LAB-EJ-2: deleted blocks are free only once the deletion has committed.
#[test]
fn deleted_blocks_wait_for_the_commit() {
    on_drive(1, |rt, target| async move {
        let id = ChunkId::from_u64(1);
        let before = target.space.allocator.borrow().free_blocks();
        target.create(id, Stream::Gc).await.unwrap();
        target.append(id, 0, 1 << 20).await.unwrap();
        target.delete(id).await.unwrap();
        assert!(target.space.allocator.borrow().free_blocks() < before);
        rt.sleep(std::time::Duration::from_secs(6)).await;
        assert_eq!(target.space.allocator.borrow().free_blocks(), before);
        assert_eq!(target.state().live_bytes, 0);
    });
}

/// LAB-EJ-3.
#[test]
fn a_block_that_changes_again_is_not_written_to_its_place() {
    on_drive(1, |_, target| async move {
        let journal = &target.space.journal;
        for block in [7, 8] {
            journal.change(block);
        }
        journal.commit().await.unwrap();
        journal.change(8);
        let (seven, eight) = (BTreeSet::from([7]), BTreeSet::from([8]));
        assert_eq!(journal.settled(), seven);
        journal.commit().await.unwrap();
        assert_eq!(journal.settled(), eight);
    });
}

/// A file that has its blocks beforehand grows without the journal.
#[test]
fn a_preallocated_append_commits_nothing() {
    let options =
        Ext4Options { durability: Durability::Preallocated, preallocated_bytes: 64 << 20, ..Ext4Options::default() };
    run_with(1, options, |rt, target| async move {
        let id = ChunkId::from_u64(1);
        target.create(id, Stream::Gc).await.unwrap();
        rt.sleep(std::time::Duration::from_secs(6)).await;
        let commits = target.commits();
        for step in 0..63 {
            target.append(id, step << 20, 1 << 20).await.unwrap();
        }
        rt.sleep(std::time::Duration::from_secs(6)).await;
        assert_eq!(target.commits(), commits);
    });
}
