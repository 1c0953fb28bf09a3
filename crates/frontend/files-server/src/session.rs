//! A session: files and locks that one process has, on the owner's thread.
//!
//! # Invariants
//! - FS-ROOM-1: appends to a log are taken although there is no room, as their flushes may have returned before they come here. Reads see them,
//!   they are written once there is some, and the answer alone says that there was none.
//!   (`commits_that_had_no_room_are_there_for_those_who_open_the_log_next`)
//! - FS-HOLE-1: once an append of a handle was refused, all later ones are: nobody's bytes stand where those should.
//!   (`after_a_refused_append_all_are_refused`)

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, Shared, ready, select};
use shingle_runtime::Runtime;
use shingle_zone_files::{File, FileLock, FilesError, FilesErrorKind, FilesResult, ZoneFiles};
use tokio::sync::Notify;

use crate::tail::Tails;
use crate::wire::{About, Answer, Call, DATA_BYTES_MAX, Reply, Room, Then, create_options, lifetime_of};
use crate::writer::ON_THEIR_WAY;

/// Time for which flushed bytes gather before they are written: a page cache waits longer.
const GATHER: Duration = Duration::from_millis(10);
/// Bytes that a log takes although there is no room: more than a writer sends before it looks at an answer.
const WITHOUT_ROOM_MAX: usize = 2 * ON_THEIR_WAY as usize;
/// Most files and locks that one session has.
const HANDLES_MAX: usize = 1 << 20;

/// A write that several flushes wait for.
type Flushing = Shared<LocalBoxFuture<'static, FilesResult<()>>>;

/// An open file of a session.
struct Opened {
    file: Rc<File>,
    /// The write to come of what was flushed.
    flushing: Rc<RefCell<Option<Flushing>>>,
    /// The first refusal of an append: later bytes would stand in its place. (FS-HOLE-1)
    refused: RefCell<Option<FilesError>>,
    /// Bytes that it may take without room for them. (FS-ROOM-1)
    without_room: Cell<usize>,
}

impl Opened {
    fn new(file: File, log: bool) -> Self {
        let without_room = Cell::new(if log { WITHOUT_ROOM_MAX } else { 0 });
        Self { file: Rc::new(file), flushing: Rc::default(), refused: RefCell::default(), without_room }
    }

    fn take(&self, data: Bytes) -> FilesResult<()> {
        if let Some(error) = &*self.refused.borrow() {
            return Err(error.clone());
        }
        self.take_behind(data).inspect_err(|error| *self.refused.borrow_mut() = Some(error.clone()))
    }

    /// Takes bytes behind those before them. (FS-ROOM-1)
    fn take_behind(&self, data: Bytes) -> FilesResult<()> {
        let left = self.without_room.get().checked_sub(data.len());
        match (self.file.take(vec![data.clone()]), left) {
            (Err(error), Some(left)) if error.kind == FilesErrorKind::NoSpace => {
                self.without_room.set(left);
                self.file.take_or_wait(vec![data])
            }
            (taken, _) => taken,
        }
    }
}

/// Flushed bytes that gather.
#[derive(Default)]
struct Gathering {
    /// Writes to come.
    under_way: Cell<u32>,
    settled: Notify,
    /// None waits for more bytes any longer.
    ended: Cell<bool>,
    end: Notify,
}

/// Files and locks of one process.
pub(crate) struct Session {
    rt: Runtime,
    files: ZoneFiles,
    tails: Option<Arc<Tails>>,
    opened: RefCell<BTreeMap<u64, Rc<Opened>>>,
    locks: RefCell<BTreeMap<u64, FileLock>>,
    next: Cell<u64>,
    gathering: Rc<Gathering>,
}

fn invalid(text: &str) -> FilesError {
    FilesError::new(FilesErrorKind::Invalid, text)
}

/// An answer that is there at once.
fn at_once(answer: Answer) -> LocalBoxFuture<'static, Answer> {
    ready(answer).boxed_local()
}

fn done(result: FilesResult<()>) -> Answer {
    result.map(|()| Reply::Done)
}

impl Session {
    pub(crate) fn new(rt: &Runtime, files: &ZoneFiles, tails: Option<Arc<Tails>>) -> Rc<Self> {
        let (opened, locks) = (RefCell::default(), RefCell::default());
        let (rt, files, gathering) = (rt.clone(), files.clone(), Rc::default());
        Rc::new(Self { rt, files, tails, opened, locks, next: Cell::new(1), gathering })
    }

    /// Begins a call: appended bytes have their place, and closed handles are gone, when this returns. (FS-ORDER-1)
    pub(crate) fn begin(self: &Rc<Self>, call: Call, data: Bytes) -> LocalBoxFuture<'static, Answer> {
        match call {
            Call::Append { handle, then } => self.append(handle, data, then),
            Call::Close { handle } => {
                self.opened.borrow_mut().remove(&handle);
                at_once(Ok(Reply::Done))
            }
            Call::Unlock { lock } => {
                self.locks.borrow_mut().remove(&lock);
                at_once(Ok(Reply::Done))
            }
            Call::Expect { handle, bytes } => at_once(self.file(handle).map(|opened| {
                opened.file.expect(bytes);
                Reply::Done
            })),
            Call::SetLifetime { handle, lifetime } => at_once(self.file(handle).map(|opened| {
                opened.file.set_lifetime(lifetime_of(lifetime));
                Reply::Done
            })),
            Call::Info { handle } => at_once(self.about(handle).map(|about| Reply::Found(Some(about)))),
            Call::Read { handle, offset, length } => match self.file(handle) {
                Ok(opened) => {
                    let length = length.min(DATA_BYTES_MAX as u64);
                    async move { opened.file.read(offset, length).await.map(Reply::Data) }.boxed_local()
                }
                Err(error) => at_once(Err(error)),
            },
            call => {
                let session = self.clone();
                async move { session.name(call).await }.boxed_local()
            }
        }
    }

    /// A call on names, which takes its place in the journal.
    async fn name(self: Rc<Self>, call: Call) -> Answer {
        let files = &self.files;
        match call {
            Call::Create { path, kind, lifetime } => {
                let making = self.tails.as_deref().map(Tails::making);
                let created = files.create(&path, create_options(kind, lifetime)).await;
                if let Some(making) = making {
                    match &created {
                        Ok(file) => making.made(file.info()?.serial),
                        // The drive may have the file all the same.
                        Err(error) if matches!(error.kind, FilesErrorKind::Unavailable | FilesErrorKind::Device) => {
                            making.unsure();
                        }
                        Err(_) => {}
                    }
                }
                self.add(created?)
            }
            Call::Open { path } => self.add(files.open_file(&path)?),
            Call::Truncate { handle, size } => done(self.file(handle)?.file.truncate(size).await),
            Call::Stat { path } => Ok(Reply::Found(files.stat(&path)?.map(About::from))),
            Call::List { path } => {
                let entries = files.list(&path)?.into_iter();
                Ok(Reply::Entries(entries.map(|entry| (entry.name, entry.file.map(About::from))).collect()))
            }
            Call::Remove { path } => done(files.remove(&path).await),
            Call::Rename { from, to } => done(files.rename(&from, &to).await),
            Call::Link { from, to } => done(files.link(&from, &to).await),
            Call::MakeDir { path, all: false } => done(files.make_dir(&path).await),
            Call::MakeDir { path, all: true } => done(self.make_all(&path).await),
            Call::RemoveDir { path } => done(files.remove_dir(&path).await),
            Call::Lock { path } => {
                let (lock, id) = (files.lock(&path)?, self.number()?);
                self.locks.borrow_mut().insert(id, lock);
                Ok(Reply::Locked(id))
            }
            Call::Room => {
                files.running()?;
                Ok(Reply::Room(self.room()))
            }
            Call::Metrics => {
                let store = self.files.store().to_string();
                Ok(Reply::Metrics(self.files.stats().prometheus(&[("store", &store)])))
            }
            _ => Err(invalid("the call is not one on names")),
        }
    }

    /// Makes a directory, and those above it.
    async fn make_all(&self, path: &str) -> FilesResult<()> {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for end in ends {
            let above = &path[..end];
            if above.trim_matches('/').is_empty() {
                continue;
            }
            match self.files.stat(above) {
                Ok(None) => {}
                Ok(Some(_)) => {
                    let text = format!("`{}` is a file, not a directory", shingle_base::printable(above.as_bytes()));
                    return Err(FilesError::new(FilesErrorKind::NotDirectory, text));
                }
                Err(error) if error.kind == FilesErrorKind::NotFound => match self.files.make_dir(above).await {
                    // Another made it meanwhile.
                    Err(error) if error.kind == FilesErrorKind::Exists => {}
                    made => made?,
                },
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn append(self: &Rc<Self>, handle: u64, data: Bytes, then: Then) -> LocalBoxFuture<'static, Answer> {
        let opened = match self.file(handle) {
            Ok(opened) => opened,
            Err(error) => return at_once(Err(error)),
        };
        if let Err(error) = opened.take(data) {
            return at_once(Err(error));
        }
        match then {
            Then::Gather => {
                let pace = opened.file.pace();
                async move { done(pace.await) }.boxed_local()
            }
            Then::Flush => {
                let written = self.flush_soon(opened);
                async move { done(written.await) }.boxed_local()
            }
            Then::Sync => async move { done(opened.file.sync().await) }.boxed_local(),
        }
    }

    /// Has what was appended written in a moment, with what comes until then.
    fn flush_soon(&self, opened: Rc<Opened>) -> Flushing {
        let next = opened.flushing.borrow().clone();
        if let Some(next) = next {
            return next;
        }
        // It does not hold itself: if it never ends, the drive is let go all the same.
        let (rt, file, own) = (self.rt.clone(), opened.file.clone(), Rc::downgrade(&opened.flushing));
        let gathering = self.gathering.clone();
        let flushing = async move {
            if !gathering.ended.get() {
                let (ended, gathered) = (pin!(gathering.end.notified()), pin!(rt.sleep(GATHER)));
                // Either will do.
                let _ = select(ended, gathered).await;
            }
            // From here on bytes wait for the next one.
            if let Some(own) = own.upgrade() {
                own.take();
            }
            file.flush().await
        }
        .boxed_local()
        .shared();
        opened.flushing.replace(Some(flushing.clone()));
        let (driven, gathering) = (flushing.clone(), self.gathering.clone());
        gathering.under_way.update(|flushes| flushes + 1);
        self.rt.spawn_detached(async move {
            // Each who waits is told; this one writes also for those who have gone.
            let _ = driven.await;
            gathering.under_way.update(|flushes| flushes - 1);
            gathering.settled.notify_waiters();
        });
        flushing
    }

    /// The files have stopped.
    pub(crate) fn has_stopped(&self) -> bool {
        self.files.running().is_err()
    }

    /// Writes what was flushed, without a wait for more, and returns when that is done or has failed.
    pub(crate) async fn finish(&self) {
        self.gathering.ended.set(true);
        self.gathering.end.notify_waiters();
        loop {
            let settled = self.gathering.settled.notified();
            if self.gathering.under_way.get() == 0 {
                return;
            }
            settled.await;
        }
    }

    fn number(&self) -> FilesResult<u64> {
        if self.opened.borrow().len() + self.locks.borrow().len() >= HANDLES_MAX {
            return Err(invalid("too many files are open at once; close some"));
        }
        let id = self.next.get();
        self.next.set(id + 1);
        Ok(id)
    }

    fn add(&self, file: File) -> Answer {
        let (about, id) = (About::from(file.info()?), self.number()?);
        self.opened.borrow_mut().insert(id, Rc::new(Opened::new(file, about.log)));
        Ok(Reply::Opened(id, about))
    }

    fn file(&self, handle: u64) -> FilesResult<Rc<Opened>> {
        let found = self.opened.borrow().get(&handle).cloned();
        found.ok_or_else(|| invalid("the file was closed"))
    }

    fn about(&self, handle: u64) -> FilesResult<About> {
        Ok(About::from(self.file(handle)?.file.info()?))
    }

    fn room(&self) -> Room {
        let stats = self.files.stats();
        let block = shingle_base::Blocks(1).bytes();
        let counters = stats.counters;
        Room {
            store: self.files.store().0,
            capacity_bytes: stats.capacity_bytes,
            free_bytes: stats.free_bytes,
            written_bytes: counters.bytes_written,
            drive_bytes: (counters.blocks_written + counters.blocks_copied) * block,
        }
    }
}

#[cfg(test)]
mod tests {
    use shingle_base::Blocks;
    use shingle_zone_files::{FormatOptions, Options};
    use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

    use super::*;
    use crate::wire::{kind_number, lifetime_number};

    async fn create(session: &Rc<Session>, path: &str) -> u64 {
        let kind = kind_number(shingle_zone_files::FileKind::of_name(path));
        let lifetime = lifetime_number(shingle_zone_files::WriteLifetime::None);
        match session.begin(Call::Create { path: path.to_owned(), kind, lifetime }, Bytes::new()).await {
            Ok(Reply::Opened(handle, _)) => handle,
            _ => panic!("{path} is not made"),
        }
    }

    /// FS-HOLE-1: flushes have returned before their answers come, so more of them are under way when one is refused.
    #[test]
    fn after_a_refused_append_all_are_refused() {
        let ran = shingle_runtime::real::run(|rt| async move {
            let device: Rc<dyn ZonedDevice> = Rc::new(MemoryDevice::new(Geometry::hm_smr(Blocks(64), 30, 0, 8)));
            ZoneFiles::format(&rt, device.clone(), FormatOptions::default()).await.unwrap();
            let (files, _) = ZoneFiles::open(&rt, device, Options::default()).await.unwrap();
            let session = Session::new(&rt, &files, None);
            let (table, other) = (create(&session, "/1.sst").await, create(&session, "/2.sst").await);
            let append =
                |handle, then, byte: u8| session.begin(Call::Append { handle, then }, Bytes::from(vec![byte; 20_000]));
            while append(table, Then::Sync, 1).await.is_ok() {}
            let mut taken = 0;
            // The first that has no room waits for it; the next is refused.
            while append(other, Then::Flush, 2).await.is_ok() {
                taken += 1;
            }
            assert!(append(other, Then::Flush, 3).await.is_err());
            session.begin(Call::Close { handle: table }, Bytes::new()).await.unwrap();
            files.remove("/1.sst").await.unwrap();
            while files.open_file("/2.sst").unwrap().sync().await.is_err() {
                rt.sleep(GATHER).await;
            }
            assert!(append(other, Then::Flush, 4).await.is_err(), "there is room, and a hole");
            let bytes = files.open_file("/2.sst").unwrap().read(0, u64::MAX).await.unwrap();
            assert!(bytes.len() >= taken * 20_000 && bytes.iter().all(|byte| *byte == 2), "{} bytes", bytes.len());
            assert!(append(create(&session, "/3.log").await, Then::Sync, 4).await.is_ok());
        });
        ran.unwrap();
    }
}
