//! Filebench's loads of files on the modelled ext4: random writes, a stream, a file server, a mail server. (FSTL, section V, Table II.)
//!
//! Each is a loop of calls, as in the file of that name that comes with Filebench 1.4; `fileserver` can sync after each append, as the paper
//! modified it. Bytes that calls read and wrote count. An append is of 1 byte up to the mean that the configuration names, all with the same
//! chance, as Filebench draws it (as remembered).

mod set;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::try_join_all;
use shingle_runtime::{Instant, Runtime};

use self::set::FileSet;
use super::latency::Latency;
use super::throughput::Throughput;
use crate::baseline::ext4_files::{Ext4Files, FileId};
use crate::error::LabError;
use crate::rig::target::TargetError;

/// A loop of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Writes at random places of one file.
    RandomWrite,
    /// Overwrites one file from its beginning to its end, again and again.
    SingleStreamWrite,
    /// Creates, appends, reads, deletes.
    FileServer {
        /// Syncs after each append.
        fsync: bool,
    },
    /// Deletes, creates, appends, syncs, reads.
    VarMail,
}

/// A load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filebench {
    /// Its loop.
    pub calls: Calls,
    /// Threads that go through it.
    pub threads: u32,
    /// Files.
    pub files: u64,
    /// Bytes of a file; the mean, of several.
    pub file_bytes: u64,
    /// Bytes of a read or write, at most.
    pub io_bytes: u64,
    /// Bytes of an append, at most.
    pub append_bytes: u64,
    /// Time of the run.
    pub time: Duration,
}

/// The course of a run.
#[derive(Clone, Debug)]
pub struct Course {
    /// Bytes read and written.
    pub bytes: u64,
    /// Bytes written.
    pub written: u64,
    /// Calls that read, write or sync.
    pub calls: u64,
    /// Their times.
    pub times: Latency,
    /// The longest time in which a call was under way and none was answered.
    pub longest_stall: Duration,
    /// Bytes over time.
    pub throughput: Throughput,
}

struct Bench {
    load: Filebench,
    rt: Runtime,
    store: Ext4Files,
    set: FileSet,
    began: Cell<Instant>,
    /// The last answer.
    answered: Cell<Instant>,
    course: RefCell<Course>,
}

/// A load whose files were created and are on the drive.
pub struct Prepared(Rc<Bench>);

impl From<TargetError> for LabError {
    fn from(error: TargetError) -> Self {
        Self(error.to_string())
    }
}

impl Filebench {
    /// Creates the files, and makes them durable.
    ///
    /// # Errors
    /// That of the first call that failed, here and below.
    pub async fn prepare(self, rt: &Runtime, store: Ext4Files, seed: u64) -> Result<Prepared, LabError> {
        let set = FileSet::create(&store, self.files, (self.file_bytes, self.io_bytes.max(1 << 20)), seed).await?;
        store.sync().await?;
        let course = Course {
            bytes: 0,
            written: 0,
            calls: 0,
            times: Latency::default(),
            longest_stall: Duration::ZERO,
            throughput: Throughput::new(Duration::from_millis(100)),
        };
        let (began, answered, course) = (Cell::new(rt.now()), Cell::new(rt.now()), RefCell::new(course));
        Ok(Prepared(Rc::new(Bench { load: self, rt: rt.clone(), store, set, began, answered, course })))
    }
}

impl Prepared {
    /// Runs for the load's time.
    pub async fn run(self) -> Result<Course, LabError> {
        let bench = self.0;
        bench.began.set(bench.rt.now());
        try_join_all((0..bench.load.threads).map(|_| bench.thread())).await?;
        Ok(bench.course.borrow().clone())
    }
}

/// A call that counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Sync,
}

impl Bench {
    async fn thread(&self) -> Result<(), LabError> {
        let mut at = 0;
        while self.rt.now().since(self.began.get()) < self.load.time {
            match self.load.calls {
                Calls::RandomWrite => {
                    let place = self.set.below(self.load.file_bytes / self.load.io_bytes);
                    self.overwrite(place * self.load.io_bytes).await?;
                }
                Calls::SingleStreamWrite => {
                    self.overwrite(at).await?;
                    at += self.load.io_bytes;
                    if at + self.load.io_bytes > self.load.file_bytes {
                        at = 0;
                    }
                }
                Calls::FileServer { fsync } => self.serve(fsync).await?,
                Calls::VarMail => self.mail().await?,
            }
        }
        Ok(())
    }

    /// Notes a call that read or wrote so many bytes, unless it ended behind the time of the run.
    fn note(&self, kind: Kind, began: Instant, bytes: u64) {
        let (now, course) = (self.rt.now(), &mut *self.course.borrow_mut());
        let at = now.since(self.began.get());
        if at > self.load.time {
            return;
        }
        course.calls += 1;
        course.bytes += bytes;
        course.written += if kind == Kind::Write { bytes } else { 0 };
        course.times.note(now.since(began).as_nanos() as u64);
        let quiet_from = self.answered.replace(now).max(began);
        course.longest_stall = course.longest_stall.max(now.since(quiet_from));
        course.throughput.note(at, bytes);
    }

    /// Makes a call, and notes it.
    async fn call(&self, kind: Kind, call: impl Future<Output = Result<u64, LabError>>) -> Result<(), LabError> {
        let began = self.rt.now();
        self.note(kind, began, call.await?);
        Ok(())
    }

    async fn overwrite(&self, at: u64) -> Result<(), LabError> {
        let file = self.set.pick(&self.rt).await;
        let bytes = self.load.io_bytes;
        let write = async { Ok(self.store.write(file, at, bytes).await.map(|()| bytes)?) };
        let written = self.call(Kind::Write, write).await;
        self.set.give(file);
        written
    }

    async fn sync(&self, file: FileId) -> Result<(), LabError> {
        self.call(Kind::Sync, async { Ok(self.store.fsync(file).await.map(|()| 0)?) }).await
    }

    async fn serve(&self, fsync: bool) -> Result<(), LabError> {
        let (set, store) = (&self.set, &self.store);
        self.call(Kind::Write, set.make_one(store)).await?;
        let file = set.pick(&self.rt).await;
        store.look().await?;
        self.call(Kind::Write, set.append(store, file, self.load.append_bytes)).await?;
        if fsync {
            self.sync(file).await?;
        }
        set.give(file);
        self.read_one().await?;
        let file = set.pick(&self.rt).await;
        set.delete(store, file).await?;
        Ok(store.look().await?)
    }

    async fn mail(&self) -> Result<(), LabError> {
        let (set, store) = (&self.set, &self.store);
        let file = set.pick(&self.rt).await;
        set.delete(store, file).await?;
        let file = set.new_file(store).await?;
        self.call(Kind::Write, set.append(store, file, self.load.append_bytes)).await?;
        self.sync(file).await?;
        set.give(file);
        let file = set.pick(&self.rt).await;
        store.look().await?;
        self.call(Kind::Read, set.read(store, file)).await?;
        self.call(Kind::Write, set.append(store, file, self.load.append_bytes)).await?;
        self.sync(file).await?;
        set.give(file);
        self.read_one().await
    }

    async fn read_one(&self) -> Result<(), LabError> {
        let file = self.set.pick(&self.rt).await;
        self.store.look().await?;
        let read = self.call(Kind::Read, self.set.read(&self.store, file)).await;
        self.set.give(file);
        read
    }
}

#[cfg(test)]
mod tests {
    use shingle_sim::Sim;

    use super::*;
    use crate::baseline::ext4_files::Machine;
    use crate::rig::blocks::DriveBlocks;
    use crate::rig::host::Host;

    fn on_drive(calls: Calls, seed: u64) -> Course {
        let one = matches!(calls, Calls::RandomWrite | Calls::SingleStreamWrite);
        let load = Filebench {
            calls,
            threads: if one { 1 } else { 20 },
            files: if one { 1 } else { 100 },
            file_bytes: if one { 64 << 20 } else { 128 << 10 },
            io_bytes: if calls == Calls::RandomWrite { 8 << 10 } else { 1 << 20 },
            append_bytes: 16 << 10,
            time: Duration::from_secs(3),
        };
        Sim::new(seed).run(move |rt| async move {
            let profile = shingle_drive_model::Profile::named("st4000nc001").unwrap();
            let store = Rc::new(DriveBlocks::of_profile(&rt, &profile, Host::linux_6_10()).unwrap());
            let store = Ext4Files::format(&rt, store, Machine::fstl(256 << 20)).unwrap();
            load.prepare(&rt, store, seed).await.unwrap().run().await.unwrap()
        })
    }

    #[test]
    fn syncs_make_a_load_wait_for_the_drive_and_memory_does_not() {
        let served = on_drive(Calls::FileServer { fsync: false }, 1);
        let synced = on_drive(Calls::FileServer { fsync: true }, 1);
        assert!(served.bytes > 3 * synced.bytes, "{} and {} bytes", served.bytes, synced.bytes);
        let mail = on_drive(Calls::VarMail, 1);
        assert!(mail.times.summary().p99_ms > 5.0 && served.times.summary().p50_ms < 5.0);
        let longest = mail.times.summary().longest_ms;
        let stall = mail.longest_stall.as_secs_f64() * 1e3;
        assert!((1.0..=longest * 1.02).contains(&stall), "no stall is longer than a call: {stall} and {longest} ms");
        // Half of what is read and written is read: files of 128 KiB, written and read whole.
        assert!((0.4..0.6).contains(&(served.written as f64 / served.bytes as f64)));
    }

    #[test]
    fn one_file_is_overwritten_in_order_or_at_random() {
        let (random, stream) = (on_drive(Calls::RandomWrite, 1), on_drive(Calls::SingleStreamWrite, 1));
        assert_eq!(random.bytes, random.calls * 8192);
        assert_eq!((stream.bytes, stream.written), (stream.calls << 20, stream.bytes));
        assert!(stream.bytes > 2 * random.bytes, "{} and {} bytes", stream.bytes, random.bytes);
        assert_eq!(random.bytes, on_drive(Calls::RandomWrite, 1).bytes, "a seed decides all");
    }
}
