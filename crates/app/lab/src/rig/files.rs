//! Files on a chunk target: the file contract of the modelled file systems, each of whose chunks is a file, and of the chunk store.
//!
//! **Owns** the names, in memory: what a folder costs is not modelled. **Knows nothing of** data: every read answers zeros.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::ChunkId;
use shingle_chunk_store::Stream;
use shingle_runtime::Runtime;
use shingle_store_api::{FileStore, LocalStoreFuture, StoreError, StoreErrorKind, StoreResult, StoredFile};
use tokio::sync::Notify;

use crate::rig::target::{ChunkTarget, TargetError};

/// Files on a chunk target.
pub struct ChunkFiles(Rc<Shared>);

struct Shared {
    rt: Runtime,
    target: Rc<dyn ChunkTarget>,
    names: RefCell<BTreeMap<String, Rc<File>>>,
    next: Cell<u64>,
}

/// A file; its chunk goes with the last handle, or, if it has a name, stays.
struct File {
    rt: Runtime,
    target: Rc<dyn ChunkTarget>,
    chunk: ChunkId,
    named: Cell<bool>,
    length: Cell<u64>,
    /// Appends that are under way.
    open: Cell<u32>,
    settled: Notify,
    /// An append failed: what follows it has no place.
    failed: RefCell<Option<TargetError>>,
}

impl ChunkFiles {
    /// No files yet. The target's chunks are this store's alone.
    pub fn new(rt: &Runtime, target: Rc<dyn ChunkTarget>) -> Self {
        Self(Rc::new(Shared { rt: rt.clone(), target, names: RefCell::default(), next: Cell::new(1) }))
    }
}

fn store_error(error: TargetError) -> StoreError {
    let kind = match error {
        TargetError::NoSpace => StoreErrorKind::NoSpace,
        TargetError::Failed(_) => StoreErrorKind::Device,
    };
    StoreError::new(kind, error.to_string())
}

impl Shared {
    fn named(&self, name: &str) -> StoreResult<Rc<File>> {
        let missing = || StoreError::new(StoreErrorKind::NoSuchKey, format!("there is no file `{name}`"));
        self.names.borrow().get(name).cloned().ok_or_else(missing)
    }

    /// Gives a file a name, in place of another one.
    fn name(&self, name: &str, file: Rc<File>) {
        if let Some(before) = self.names.borrow_mut().insert(name.to_owned(), file) {
            before.named.set(false);
        }
    }
}

impl FileStore for ChunkFiles {
    fn create(&self, name: &str) -> LocalStoreFuture<'_, Rc<dyn StoredFile>> {
        let name = name.to_owned();
        Box::pin(async move {
            let shared = &self.0;
            let chunk = ChunkId::from_u64(shared.next.replace(shared.next.get() + 1));
            shared.target.create(chunk, Stream::Data).await.map_err(store_error)?;
            let file = Rc::new(File {
                rt: shared.rt.clone(),
                target: shared.target.clone(),
                chunk,
                named: Cell::new(true),
                length: Cell::new(0),
                open: Cell::new(0),
                settled: Notify::new(),
                failed: RefCell::default(),
            });
            shared.name(&name, file.clone());
            Ok(file as Rc<dyn StoredFile>)
        })
    }

    fn open(&self, name: &str) -> LocalStoreFuture<'_, Rc<dyn StoredFile>> {
        let found = self.0.named(name);
        Box::pin(async move { Ok(found? as Rc<dyn StoredFile>) })
    }

    fn rename(&self, from: &str, to: &str) -> LocalStoreFuture<'_, ()> {
        let file = self.0.named(from);
        if let Ok(file) = &file
            && from != to
        {
            self.0.names.borrow_mut().remove(from);
            self.0.name(to, file.clone());
        }
        Box::pin(async move { file.map(drop) })
    }

    fn delete(&self, name: &str) -> LocalStoreFuture<'_, ()> {
        let file = self.0.named(name);
        if let Ok(file) = &file {
            file.named.set(false);
            self.0.names.borrow_mut().remove(name);
        }
        Box::pin(async move { file.map(drop) })
    }

    fn names(&self) -> LocalStoreFuture<'_, Vec<String>> {
        let names = self.0.names.borrow().keys().cloned().collect();
        Box::pin(async move { Ok(names) })
    }
}

impl StoredFile for File {
    fn length(&self) -> u64 {
        self.length.get()
    }

    fn append(&self, data: Vec<Bytes>) -> LocalStoreFuture<'_, ()> {
        let bytes: usize = data.iter().map(Bytes::len).sum();
        let Ok(length) = u32::try_from(bytes) else {
            let text = format!("an append of {bytes} bytes: cut it into parts of less than 4 GiB");
            return Box::pin(async move { Err(StoreError::new(StoreErrorKind::Invalid, text)) });
        };
        if length == 0 {
            return Box::pin(async { Ok(()) });
        }
        let offset = self.length.get();
        // The call takes its place now, before any other of this file.
        let appended = self.target.append(self.chunk, offset, length);
        self.length.set(offset + u64::from(length));
        self.open.set(self.open.get() + 1);
        Box::pin(async move {
            let appended = appended.await;
            self.open.set(self.open.get() - 1);
            if let Err(error) = &appended {
                self.failed.borrow_mut().get_or_insert_with(|| error.clone());
            }
            self.settled.notify_waiters();
            appended.map_err(store_error)
        })
    }

    /// A chunk's append is durable when it completes.
    fn sync(&self) -> LocalStoreFuture<'_, ()> {
        Box::pin(async move {
            while self.open.get() > 0 {
                self.settled.notified().await;
            }
            self.failed.borrow().clone().map_or(Ok(()), |error| Err(store_error(error)))
        })
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        let length = length.min(self.length.get().saturating_sub(offset)).min(u64::from(u32::MAX));
        Box::pin(async move {
            if length > 0 {
                self.target.read(self.chunk, offset, length as u32).await.map_err(store_error)?;
            }
            Ok(Bytes::from(vec![0; length as usize]))
        })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if !self.named.get() {
            let (target, chunk) = (self.target.clone(), self.chunk);
            // A chunk that stays costs room, and nobody waits to hear why.
            self.rt.spawn_detached(async move { drop(target.delete(chunk).await) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join;
    use shingle_sim::Sim;

    use super::*;
    use crate::baseline::ext4::{Ext4Options, Ext4Target};
    use crate::baseline::f2fs::{F2fsOptions, F2fsTarget};
    use crate::rig::drives::LabDrive;
    use crate::rig::host::{Host, HostDevice};

    type Files = (Rc<dyn ChunkTarget>, ChunkFiles);

    fn ext4(rt: &Runtime) -> Files {
        let drive = LabDrive::new("st16000nm001g").unwrap().first_zones(64);
        let device = HostDevice::new(Host::linux_6_10(), drive.device(rt, drive.blank()));
        let target: Rc<dyn ChunkTarget> = Rc::new(Ext4Target::format(rt, device, Ext4Options::default()).unwrap());
        (target.clone(), ChunkFiles::new(rt, target))
    }

    fn f2fs(rt: &Runtime) -> Files {
        let drive = LabDrive::new("st20000nm001j").unwrap().every(200);
        let device = HostDevice::new(Host::linux_4_19(), drive.device(rt, drive.blank()));
        let target: Rc<dyn ChunkTarget> = Rc::new(F2fsTarget::format(rt, device, F2fsOptions::default()).unwrap());
        (target.clone(), ChunkFiles::new(rt, target))
    }

    fn on_both<F: Future<Output = ()> + 'static>(test: impl Fn(Runtime, Files) -> F + Copy + 'static) {
        for files in [ext4, f2fs] {
            Sim::new(1).run(move |rt| async move { test(rt.clone(), files(&rt)).await });
        }
    }

    fn data() -> Vec<Bytes> {
        vec![Bytes::from(vec![0; 100_000]), Bytes::from(vec![0; 28_000])]
    }

    /// API-FIL-1: a sync ends no earlier than the appends before it, which wait for the drive.
    #[test]
    fn a_sync_waits_for_the_appends_before_it() {
        on_both(|rt, (_, files)| async move {
            let log = files.create("db/000001.log").await.unwrap();
            let began = rt.now();
            let (appended, synced) = join(log.append(data()), log.sync()).await;
            appended.and(synced).unwrap();
            assert!(rt.now().since(began) > Duration::from_micros(500), "{:?}", rt.now().since(began));
            assert_eq!((log.length(), log.read(100_000, 1 << 20).await.unwrap().len()), (128_000, 28_000));
            let settled = rt.now();
            log.sync().await.unwrap();
            assert_eq!(rt.now(), settled, "nothing is left to wait for");
        });
    }

    /// API-FIL-2
    #[test]
    fn a_file_without_a_name_is_there_until_its_last_handle_is_gone() {
        on_both(|rt, (target, files)| async move {
            let live = || target.state().live_bytes;
            let old = files.create("CURRENT").await.unwrap();
            old.append(data()).await.unwrap();
            let new = files.create("CURRENT.tmp").await.unwrap();
            new.append(data()).await.unwrap();
            let both = live();
            files.rename("CURRENT.tmp", "CURRENT").await.unwrap();
            assert_eq!(files.names().await.unwrap(), ["CURRENT"]);
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!((live(), old.read(0, 10).await.unwrap().len()), (both, 10));
            drop(old);
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!(live(), both / 2);
            files.delete("CURRENT").await.unwrap();
            for missing in [files.delete("CURRENT").await, files.rename("CURRENT", "x").await] {
                assert_eq!(missing.unwrap_err().kind, StoreErrorKind::NoSuchKey);
            }
            assert!(files.open("CURRENT").await.is_err());
            drop(new);
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!(live(), 0);
        });
    }
}
