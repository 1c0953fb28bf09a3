use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, seeds};
use shingle_store_api::{BlockStore, Durability, LocalStoreFuture};

use super::machine::PAGE;
use super::*;

/// A call that a store got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Write { at: u64, blocks: u64, durable: bool },
    Read { at: u64, blocks: u64 },
    Flush,
}

/// A store that takes a millisecond for each call, and remembers them when they are done.
struct Recorder {
    rt: Runtime,
    calls: RefCell<Vec<Call>>,
}

impl BlockStore for Recorder {
    fn size_bytes(&self) -> u64 {
        8 << 30
    }

    fn sector_bytes(&self) -> u64 {
        PAGE
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        Box::pin(async move {
            self.done(Call::Read { at: offset / PAGE, blocks: length / PAGE }).await?;
            Ok(Bytes::new())
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()> {
        let blocks = data.iter().map(|piece| piece.len() as u64).sum::<u64>() / PAGE;
        let call = Call::Write { at: offset / PAGE, blocks, durable: durability == Durability::Durable };
        self.done(call)
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        self.done(Call::Flush)
    }

    fn trim(&self, _: u64, _: u64) -> LocalStoreFuture<'_, ()> {
        unreachable!("no discards are sent")
    }
}

impl Recorder {
    fn done(&self, call: Call) -> LocalStoreFuture<'_, ()> {
        Box::pin(async move {
            self.rt.sleep(Duration::from_millis(1)).await;
            self.calls.borrow_mut().push(call);
            Ok(())
        })
    }

    fn taken(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.borrow_mut())
    }
}

fn on_recorder<F: Future<Output = ()> + 'static>(run: impl FnOnce(Runtime, Rc<Recorder>, Ext4Files) -> F + 'static) {
    Sim::new(1).run(move |rt| async move {
        let store = Rc::new(Recorder { rt: rt.clone(), calls: RefCell::default() });
        let files = Ext4Files::format(&rt, store.clone(), Machine::fstl(64 << 20)).unwrap();
        run(rt, store, files).await;
    });
}

impl Ext4Files {
    /// LAB-XF-1
    fn check(&self) {
        let files = self.0.files.borrow();
        let sum = |of: fn(&super::file::File) -> u64| files.values().map(of).sum::<u64>();
        assert_eq!(self.0.cache.dirty.get(), sum(|file| file.pages.dirty.len() as u64), "LAB-XF-1");
        assert!(self.0.cache.writing.get() >= sum(|file| file.pages.writing), "LAB-XF-1");
        let queued: Vec<_> = files.iter().filter(|(_, file)| !file.pages.dirty.is_empty()).map(|(id, _)| *id).collect();
        let mut found: Vec<_> = self.0.queue.borrow().iter().map(|(_, id)| *id).collect();
        found.sort_unstable();
        assert_eq!(found, queued, "a file is in the flusher's queue while it has dirty pages");
    }
}

/// LAB-XF-2: data first, then the journal's blocks, then a flush, then the durable record.
#[test]
fn fsync_writes_data_then_the_commit_in_their_order() {
    on_recorder(|rt, store, files| async move {
        let file = files.create().await.unwrap();
        files.write(file, 0, 10_000).await.unwrap();
        assert_eq!(store.taken(), [], "a write is in memory");
        files.fsync(file).await.unwrap();
        let calls = store.taken();
        let [data, sweep, Call::Flush, record] = calls[..] else { panic!("{calls:?}") };
        assert!(matches!(data, Call::Write { blocks: 3, durable: false, .. }), "{calls:?}");
        assert!(matches!(record, Call::Write { blocks: 1, durable: true, .. }), "{calls:?}");
        let (Call::Write { at: sweep, blocks, durable: false }, Call::Write { at: record, .. }) = (sweep, record)
        else {
            panic!("{calls:?}")
        };
        // A descriptor, inode, inode bitmap, name, block bitmap and group descriptor.
        assert_eq!((blocks, record), (6, sweep + blocks));
        // A file that is durable already costs a flush.
        files.fsync(file).await.unwrap();
        assert_eq!(store.taken(), [Call::Flush]);
        // Overwritten pages keep their places, and the times of the file commit.
        files.write(file, 0, 8192).await.unwrap();
        rt.sleep(Duration::from_secs(6)).await;
        let calls = store.taken();
        assert!(
            matches!(calls[..], [Call::Write { blocks: 2, .. }, Call::Flush, Call::Write { durable: true, .. }]),
            "{calls:?}"
        );
        files.fsync(file).await.unwrap();
        let calls = store.taken();
        assert!(
            matches!(calls[..], [Call::Write { blocks: 2, .. }, Call::Flush])
                && calls[0] == (Call::Write { at: place_of(data), blocks: 2, durable: false }),
            "{calls:?}"
        );
    });
}

fn place_of(call: Call) -> u64 {
    match call {
        Call::Write { at, .. } | Call::Read { at, .. } => at,
        Call::Flush => u64::MAX,
    }
}

#[test]
fn a_file_that_is_deleted_in_time_never_goes_to_the_drive() {
    on_recorder(|rt, store, files| async move {
        let file = files.create().await.unwrap();
        files.write(file, 0, 1 << 20).await.unwrap();
        rt.sleep(Duration::from_secs(12)).await;
        files.delete(file).await.unwrap();
        rt.sleep(Duration::from_secs(60)).await;
        let long = store.taken().into_iter().filter(|call| matches!(call, Call::Write { blocks: 16.., .. })).count();
        assert_eq!(long, 0, "metadata alone was written");
        // One that lives is written once it is 30 s old, in one I/O.
        let file = files.create().await.unwrap();
        files.write(file, 0, 1 << 20).await.unwrap();
        rt.sleep(Duration::from_secs(29)).await;
        let long =
            |calls: Vec<Call>| calls.into_iter().filter(|call| matches!(call, Call::Write { blocks: 256, .. })).count();
        assert_eq!(long(store.taken()), 0);
        rt.sleep(Duration::from_secs(7)).await;
        assert_eq!(long(store.taken()), 1);
        files.check();
    });
}

#[test]
fn writers_wait_while_too_much_is_dirty_and_reads_do_not() {
    on_recorder(|rt, store, files| async move {
        let file = files.create().await.unwrap();
        // Below the limit of a fifth of the memory nobody waits; behind it a page goes out for each that comes in.
        let began = rt.now();
        for piece in 0..48 {
            files.write(file, piece << 20, 1 << 20).await.unwrap();
            assert!(!files.0.cache.over_limit());
            files.check();
        }
        let written: u64 =
            store.taken().iter().map(|call| if let Call::Write { blocks, .. } = call { *blocks } else { 0 }).sum();
        assert!(written >= (48 - 13) * 256, "{written} blocks");
        assert!(rt.now().since(began) < Duration::from_secs(1), "the store takes 128 at once");
        let began = rt.now();
        assert_eq!(files.read(file, 0, 100 << 20).await.unwrap(), 48 << 20);
        assert!(rt.now().since(began) < Duration::from_millis(20));
    });
}

/// LAB-XF-1 and LAB-XF-2: whatever callers do at once, counts are right, and a file that was synced has been written as far as it goes.
#[test]
fn counts_are_right_under_any_calls() {
    for seed in seeds(5) {
        on_recorder(move |rt, store, files| async move {
            let mut random = Random::new(seed);
            let mut known: BTreeMap<FileId, u64> = BTreeMap::new();
            for _ in 0..400 {
                let some = known.keys().nth(random.below(known.len().max(1) as u64) as usize).copied();
                match (random.below(10), some) {
                    (0 | 1, _) | (_, None) => drop(known.insert(files.create().await.unwrap(), 0)),
                    (2, Some(file)) => {
                        files.delete(file).await.unwrap();
                        known.remove(&file);
                    }
                    (3, Some(file)) => {
                        files.fsync(file).await.unwrap();
                        let core = &files.0;
                        let state = core.files.borrow();
                        let pages = &state[&file].pages;
                        assert!(pages.dirty.is_empty() && pages.writing == 0, "LAB-XF-2, seed {seed}");
                        assert!(core.space.journal().running() > state[&file].changed_in, "LAB-XF-2, seed {seed}");
                    }
                    (4, _) => rt.sleep(Duration::from_millis(random.below(7000))).await,
                    (_, Some(file)) => {
                        let end = known.get_mut(&file).unwrap();
                        let (at, length) = (random.below(*end + 1), 1 + random.below(400_000));
                        files.write(file, at, length).await.unwrap();
                        *end = (*end).max(at + length);
                        assert_eq!(files.length(file), *end);
                    }
                }
                files.check();
            }
            files.sync().await.unwrap();
            assert_eq!((files.0.cache.dirty.get(), files.0.cache.writing.get()), (0, 0), "seed {seed}");
            assert!(files.commits() > 5 && store.taken().last() == Some(&Call::Flush));
        });
    }
}

#[test]
fn what_memory_has_no_room_for_is_read_from_the_drive() {
    on_recorder(|_, store, files| async move {
        let file = files.create().await.unwrap();
        for piece in 0..80 {
            files.write(file, piece << 20, 1 << 20).await.unwrap();
        }
        files.sync().await.unwrap();
        store.taken();
        // 64 MiB of memory: the last ones written are there, the first ones are not.
        assert_eq!(files.read(file, 20 << 20, 60 << 20).await.unwrap(), 60 << 20);
        assert_eq!(store.taken(), []);
        assert_eq!(files.read(file, 1, 10).await.unwrap(), 10);
        assert!(matches!(store.taken()[..], [Call::Read { blocks: 32, .. }]));
        files.read(file, 5 << 10, 10).await.unwrap();
        assert_eq!(store.taken(), [], "the rest of what was read ahead is there, too");
        files.read(file, 0, 4 << 20).await.unwrap();
        let read: u64 =
            store.taken().iter().map(|call| if let Call::Read { blocks, .. } = call { *blocks } else { 0 }).sum();
        assert_eq!(read, 1024 - 32);
    });
}
