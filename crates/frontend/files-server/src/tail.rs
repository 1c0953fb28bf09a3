//! Flushed ends of logs, in memory that outlives the process: a file on `/dev/shm`.
//!
//! A database that commits without a sync expects that its log survives the end of its process, if not that of the machine: elsewhere the
//! kernel's page cache has it. Here bytes that were flushed and are not written yet lie in a tail. The next owner of the drive appends
//! those that the log lacks.
//!
//! # Invariants
//! - FS-TAIL-1: a byte of a log is in its tail from the end of its flush until it is written, also where that fails and its writer goes.
//! - FS-TAIL-2: a tail is used only if nobody else has made a file on the drive since, and its log is the same file.
//! - FS-TAIL-3: whoever changes files takes the tails in first, and none is passed over as another user has it.
//!
//! A tail has two halves (`half`) that are used in turn, so that one can be emptied while the other fills. The records of both, by their
//! offsets, are one piece of the log.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use shingle_base::StoreId;

use crate::half::{HALF_BYTES_MAX, Half, parse};
use crate::left::Left;

/// Memory of the system that a process leaves behind.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";
/// Start of the names of users' directories there.
const USERS: &str = "shingle-files-";

/// The place of a log's flushed bytes until they are written.
pub(crate) enum Keeping {
    /// They are with the owner, which is another process; or the file is no log.
    Owner,
    /// They are in a tail.
    Tail(Tail),
    /// There is no memory for a tail: a flush waits until they are written.
    Drive,
}

impl Keeping {
    /// Keeps bytes that are flushed, all those before `written` being on the drive. False if they have to be written first.
    pub(crate) fn keep(&mut self, written: u64, offset: u64, bytes: &[u8]) -> bool {
        match self {
            Self::Owner => true,
            Self::Tail(tail) => {
                tail.written(written);
                tail.keep(written, offset, bytes)
            }
            Self::Drive => false,
        }
    }

    /// The log's writer goes, with all its bytes before `written` on the drive.
    pub(crate) fn end(&mut self, written: u64) {
        if let Self::Tail(tail) = self {
            tail.written(written);
        }
    }
}

/// The tails of a drive's logs.
pub(crate) struct Tails {
    directory: PathBuf,
    /// Highest number of a file that this process, or the one before it, made; the highest of all numbers while one is being made.
    newest: File,
    made: Mutex<Made>,
    /// Files of tails whose bytes the files have, and could not write yet.
    carried: Mutex<Vec<PathBuf>>,
}

#[derive(Default)]
struct Made {
    under_way: u32,
    newest: u64,
}

/// A file is being made. Its end is noted when this is dropped.
pub(crate) struct Making<'t> {
    tails: &'t Tails,
    serial: u64,
}

impl Making<'_> {
    /// It was made, with this number.
    pub(crate) fn made(mut self, serial: u64) {
        self.serial = serial;
    }

    /// It may have been made, or not: no file is a sign of others any more.
    pub(crate) fn unsure(self) {
        std::mem::forget(self);
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.tails.note(|made| {
            made.under_way -= 1;
            made.newest = made.newest.max(self.serial);
        });
    }
}

/// The tail of one log.
pub(crate) struct Tail {
    /// Names of the halves, but for the letter at the end.
    name: PathBuf,
    /// Path of the log.
    log: String,
    /// One, or two once the first was full.
    halves: Vec<Half>,
    current: usize,
    /// Bytes before this one may be missing here: until they are written, what follows them is of no use.
    gap: u64,
}

impl Tails {
    /// The tails of a store, in memory that only this user can read.
    pub(crate) fn below(memory: &Path, store: StoreId) -> io::Result<Self> {
        let user = rustix::process::geteuid().as_raw();
        let all = memory.join(format!("{USERS}{user}"));
        let directory = all.join(store.to_string());
        for path in [&all, &directory] {
            match DirBuilder::new().mode(0o700).create(path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            let found = fs::symlink_metadata(path)?;
            if !found.is_dir() || found.uid() != user || found.mode() & 0o077 != 0 {
                return Err(Error::new(ErrorKind::PermissionDenied, format!("{} belongs to others", path.display())));
            }
        }
        let newest = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join("newest"))?;
        Ok(Self { directory, newest, made: Mutex::default(), carried: Mutex::default() })
    }

    /// Tails of the store that other users have, as far as this one may look: all, if it is root.
    pub(crate) fn of_others(memory: &Path, store: StoreId) -> Vec<Self> {
        let own = format!("{USERS}{}", rustix::process::geteuid().as_raw());
        let users = fs::read_dir(memory).into_iter().flatten().flatten();
        let others = users.filter(|user| {
            let name = user.file_name();
            name.to_str().is_some_and(|name| name.starts_with(USERS) && name != own)
        });
        let found = others.filter_map(|user| {
            let directory = user.path().join(store.to_string());
            let newest = File::open(directory.join("newest")).ok()?;
            Some(Self { directory, newest, made: Mutex::default(), carried: Mutex::default() })
        });
        found.collect()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Highest number of a file that a process which used these tails made.
    pub(crate) fn newest(&self) -> u64 {
        let mut bytes = [0; 8];
        self.newest.read_exact_at(&mut bytes, 0).map_or(0, |()| u64::from_le_bytes(bytes))
    }

    /// Says that this process makes a file: from now on none is a sign that another used the drive.
    pub(crate) fn making(&self) -> Making<'_> {
        self.note(|made| made.under_way += 1);
        Making { tails: self, serial: 0 }
    }

    /// Says which file is the newest at the opening.
    pub(crate) fn begin(&self, newest: u64) {
        self.note(|made| made.newest = newest);
    }

    fn note(&self, change: impl FnOnce(&mut Made)) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut made);
        let newest = if made.under_way > 0 { u64::MAX } else { made.newest };
        if let Err(error) = self.newest.write_all_at(&newest.to_le_bytes(), 0) {
            tracing::debug!(%error, "tails of logs will not be used");
        }
    }

    /// A new tail for a log.
    pub(crate) fn tail(&self, serial: u64, path: &str) -> io::Result<Tail> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // No other tail has its name, whichever process made it: writers of an earlier owner may live on, and remove theirs at any time.
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let name = self.directory.join(format!("{serial:016x}-{process}-{number}"));
        let mut tail = Tail { name, log: path.to_owned(), halves: Vec::new(), current: 0, gap: 0 };
        tail.grow()?;
        Ok(tail)
    }

    /// Ends of logs that processes left which have ended. Parts that make no sense are left out: a tail may end anywhere.
    pub(crate) fn left(&self) -> io::Result<Vec<Left>> {
        let mut all: Vec<Left> = Vec::new();
        let mut paths: Vec<PathBuf> = fs::read_dir(&self.directory)?.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let serial = name.strip_suffix(['a', 'b']).and_then(|name| name.split('-').next());
            let Some(serial) = serial.and_then(|digits| u64::from_str_radix(digits, 16).ok()) else { continue };
            let mut bytes = Vec::new();
            match File::open(&path) {
                Ok(file) => file.take(HALF_BYTES_MAX).read_to_end(&mut bytes)?,
                // A writer of an earlier owner removes its own at any time.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let Some((log, records)) = parse(&bytes)? else { continue };
            match all.last_mut().filter(|last| last.serial == serial && last.path == log) {
                Some(last) => {
                    last.records.extend(records);
                    last.files.push(path);
                }
                None => all.push(Left { serial, path: log, records, files: vec![path] }),
            }
        }
        for left in &mut all {
            left.records.sort();
        }
        Ok(all)
    }

    /// The files have what a log lacks, and could not write it yet: its tail stays until they are closed in order.
    pub(crate) fn carry(&self, left: &Left) {
        self.carried().extend(left.files.iter().cloned());
    }

    pub(crate) fn carries(&self) -> bool {
        !self.carried().is_empty()
    }

    fn carried(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.carried.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The drive was closed in order: nothing of it stays in memory but ends of logs that it never had.
    pub(crate) fn end(&self) {
        for file in self.carried().drain(..) {
            let _ = fs::remove_file(file);
        }
        if self.left().is_ok_and(|left| left.is_empty()) {
            let _ = fs::remove_file(self.directory.join("newest"));
            let _ = fs::remove_dir(&self.directory);
        }
    }

    /// Forgets all tails of processes that have ended, but for those that are carried on.
    pub(crate) fn forget(&self) -> io::Result<()> {
        let carried = self.carried();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_name() == "newest" || carried.contains(&entry.path()) {
                continue;
            }
            match fs::remove_file(entry.path()) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl Tail {
    /// Keeps bytes of the log, of which those before `written` are on the drive. False if these have to be written first.
    pub(crate) fn keep(&mut self, written: u64, offset: u64, bytes: &[u8]) -> bool {
        let kept = self.gap <= written && self.add(offset, bytes);
        if !kept {
            self.gap = offset + bytes.len() as u64;
        }
        kept
    }

    fn add(&mut self, offset: u64, bytes: &[u8]) -> bool {
        if self.halves[self.current].add(offset, bytes) {
            return true;
        }
        let other = 1 - self.current;
        // The memory may be full.
        let fills = if other == self.halves.len() { self.grow().is_ok() } else { self.halves[other].is_empty() };
        let added = fills && self.halves[other].add(offset, bytes);
        if added {
            self.current = other;
        }
        added
    }

    fn grow(&mut self) -> io::Result<()> {
        let mut path = self.name.clone().into_os_string();
        path.push(if self.halves.is_empty() { "a" } else { "b" });
        self.halves.push(Half::new(path.into(), &self.log)?);
        Ok(())
    }

    /// All bytes of the log before `end` are written.
    pub(crate) fn written(&mut self, end: u64) {
        for half in &mut self.halves {
            half.written(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::half::HALF_BYTES;

    /// A folder of the test, which goes with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("shingle-tails-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn tails(&self) -> Tails {
            Tails::below(&self.0, StoreId(7)).unwrap()
        }

        fn only_half(&self) -> PathBuf {
            let entries = fs::read_dir(&self.tails().directory).unwrap().flatten();
            let halves: Vec<_> = entries.filter(|entry| entry.file_name() != "newest").collect();
            assert_eq!(halves.len(), 1);
            halves[0].path()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn log(length: u64) -> Vec<u8> {
        (0..length).map(|at| (at / 3) as u8).collect()
    }

    /// FS-TAIL-1: whatever was written when the process ended, the rest is there.
    #[test]
    fn what_is_not_written_is_in_the_tail() {
        let folder = Folder::new("rest");
        let all = log(16 << 20);
        let (mut offset, mut written) = (0_usize, 0_u64);
        let mut tail = folder.tails().tail(9, "/db/000009.log").unwrap();
        let mut piece = 1;
        while offset + piece < all.len() {
            let end = offset + piece;
            if !tail.keep(written, offset as u64, &all[offset..end]) {
                // Both halves are full: the log is written as far as this.
                written = end as u64;
                tail.written(written);
            } else if offset % 997 == 0 {
                written = (written + 300_000).min(offset as u64);
                tail.written(written);
            }
            offset += piece;
            piece = (piece * 7 + 13) % 9000 + 1;
            if offset % 50 == 0 {
                let left = &folder.tails().left().unwrap()[0];
                assert_eq!((left.serial, left.path.as_str()), (9, "/db/000009.log"));
                for size in [written, (written + offset as u64) / 2, offset as u64] {
                    assert!(left.missing(size) == all[size as usize..offset], "of {size} of {offset} bytes");
                }
            }
        }
        tail.written(offset as u64);
        drop(tail);
        assert!(folder.tails().left().unwrap().is_empty());
    }

    /// FS-TAIL-1: nothing is kept behind bytes that are nowhere yet.
    #[test]
    fn what_did_not_fit_has_to_be_written_before_more_is_kept() {
        let folder = Folder::new("gap");
        let mut tail = folder.tails().tail(9, "/log").unwrap();
        assert!(tail.keep(0, 0, &log(100)));
        assert!(!tail.keep(0, 100, &log(HALF_BYTES as u64)));
        let end = 100 + HALF_BYTES as u64;
        assert!(!tail.keep(100, end, &log(10)));
        assert!(!tail.keep(end, end + 10, &log(10)));
        assert!(tail.keep(end + 20, end + 20, &log(10)));
        assert_eq!(folder.tails().left().unwrap()[0].missing(end + 20), log(10));
    }

    #[test]
    fn what_processes_left_can_be_cut_anywhere() {
        let folder = Folder::new("cut");
        let tails = folder.tails();
        let mut tail = tails.tail(1, "/log").unwrap();
        for piece in 0..5 {
            assert!(tail.keep(0, piece * 10, &log(50)[piece as usize * 10..][..10]));
        }
        let bytes = fs::read(folder.only_half()).unwrap();
        let (head, record) = (20 + 4, 20 + 10);
        for end in 0..head + 6 * record {
            let found = parse(&bytes[..end]).unwrap().map(|(_, records)| records.len());
            let expected = end.checked_sub(head).map(|rest| (rest / record).min(5));
            assert_eq!(found, expected, "{end} bytes");
        }
        for at in 0..head + 5 * record {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            // A magic number of another version is refused.
            let records = parse(&changed).map_or(0, |half| half.map_or(0, |(_, records)| records.len()));
            assert!(records <= at.saturating_sub(head) / record, "byte {at}");
        }
        std::mem::forget(tail);
        tails.begin(77);
        assert_eq!((folder.tails().newest(), tails.left().unwrap().len()), (77, 1));
        let (one, other) = (tails.making(), tails.making());
        one.made(90);
        assert_eq!(folder.tails().newest(), u64::MAX);
        drop(other);
        assert_eq!(folder.tails().newest(), 90);
        tails.forget().unwrap();
        assert_eq!((folder.tails().newest(), tails.left().unwrap().len()), (90, 0));
        tails.end();
        assert!(!tails.directory.exists());
    }

    /// A half that is emptied has nothing of before, wherever its new records end.
    #[test]
    fn records_of_before_do_not_come_back() {
        let folder = Folder::new("emptied");
        let mut tail = folder.tails().tail(9, "/log").unwrap();
        for at in 0..100 {
            assert!(tail.keep(at * 10, at * 10, &[1; 10]));
        }
        // Cut, and written anew.
        tail.written(1000);
        assert!(tail.keep(500, 500, &[2; 10]) && tail.keep(500, 510, &[2; 10]));
        assert_eq!(folder.tails().left().unwrap()[0].missing(500), [2; 20]);
    }

    /// FS-TAIL-1: the tail of a writer that goes stays, unless all of it is written.
    #[test]
    fn a_tail_goes_only_if_it_is_written() {
        let folder = Folder::new("goes");
        let mut keeping = Keeping::Tail(folder.tails().tail(9, "/log").unwrap());
        assert!(keeping.keep(0, 0, b"written") && keeping.keep(7, 7, b"missing"));
        keeping.end(7);
        drop(keeping);
        assert_eq!(folder.tails().left().unwrap()[0].missing(7), b"missing");
    }

    /// FS-TAIL-1: a writer of an owner that has ended goes when it likes, also behind the next owner's.
    #[test]
    fn a_tail_that_goes_takes_no_other_with_it() {
        let folder = Folder::new("other");
        let old = folder.tails().tail(9, "/log").unwrap();
        folder.tails().forget().unwrap();
        let mut new = folder.tails().tail(9, "/log").unwrap();
        assert!(new.keep(0, 0, b"flushed"));
        drop(old);
        assert_eq!(folder.tails().left().unwrap()[0].missing(0), b"flushed");
    }

    #[test]
    fn tails_of_another_version_are_refused() {
        let folder = Folder::new("version");
        let earlier = [&b"ShT1\x04\0\0\0\0\0\0\0/log"[..], &[0; 30]].concat();
        fs::write(folder.tails().directory.join(format!("{:016x}-0a", 1)), earlier).unwrap();
        assert!(folder.tails().left().unwrap_err().to_string().contains("another version"));
    }
}
