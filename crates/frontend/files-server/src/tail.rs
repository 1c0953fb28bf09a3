//! Flushed ends of logs, in memory that outlives the process: a file on `/dev/shm`.
//!
//! A database that commits without a sync expects that its log survives the end of its process, if not that of the machine: elsewhere the
//! kernel's page cache has it. Here bytes that were flushed and are not written yet lie in a tail. The next owner of the drive appends
//! those that the log lacks.
//!
//! # Invariants
//! - FS-TAIL-1: a byte of a log is in its tail from the end of its flush until it is written.
//! - FS-TAIL-2: a tail is used only if nobody else has made a file on the drive since, and its log is the same file.
//! - FS-TAIL-3: whoever changes files takes the tails in first, and none is passed over as another user has it.
//!
//! A tail has two halves that are used in turn, so that one can be emptied while the other fills. Each has a head (magic, length of the
//! path, CRC-32C, path) and records (magic, length, offset in the log, CRC-32C, bytes), all little-endian. The records of both, by their
//! offsets, are one piece of the log.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Error, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use shingle_base::{StoreId, crc32c};

/// Memory of the system that a process leaves behind.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";
/// Start of the names of users' directories there.
const USERS: &str = "shingle-files-";
const HEAD_MAGIC: [u8; 4] = *b"ShT1";
const RECORD_MAGIC: [u8; 4] = *b"ShR1";
const HEAD: usize = 12;
const RECORD: usize = 20;
/// Bytes of a half.
const HALF_BYTES: u64 = 2 << 20;
/// Most bytes of a half that are read back.
const HALF_BYTES_MAX: u64 = 2 * HALF_BYTES;

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
}

/// The tails of a drive's logs.
pub(crate) struct Tails {
    directory: PathBuf,
    /// Highest number of a file that this process, or the one before it, made; the highest of all numbers while one is being made.
    newest: File,
    made: Mutex<Made>,
    /// Tails that this process made.
    count: AtomicU64,
}

#[derive(Default)]
struct Made {
    under_way: u32,
    newest: u64,
}

/// A file is being made. Its end is noted when this is dropped.
pub(crate) struct Making<'t> {
    tails: &'t Tails,
    /// Its number.
    pub(crate) serial: u64,
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
    halves: [Half; 2],
    current: usize,
    /// Bytes before this one may be missing here: until they are written, what follows them is of no use.
    gap: u64,
}

struct Half {
    path: PathBuf,
    file: File,
    /// Bytes of the head.
    head: u64,
    /// Bytes of it in use.
    at: u64,
    /// End in the log of what it has.
    end: u64,
}

/// The end of a log that a process left.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Number of the log's file.
    pub(crate) serial: u64,
    /// Its path when it was made.
    pub(crate) path: String,
    /// Offset in the log, and bytes, in the order of offsets.
    pub(crate) records: Vec<(u64, Vec<u8>)>,
}

impl Left {
    /// Bytes that a log of `size` bytes lacks.
    pub(crate) fn missing(&self, size: u64) -> Vec<u8> {
        let mut missing = Vec::new();
        for (offset, bytes) in &self.records {
            let end = size + missing.len() as u64;
            if *offset > end {
                break;
            }
            missing.extend_from_slice(bytes.get((end - offset) as usize..).unwrap_or_default());
        }
        missing
    }
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
        Ok(Self { directory, newest, made: Mutex::default(), count: AtomicU64::new(0) })
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
            Some(Self { directory, newest, made: Mutex::default(), count: AtomicU64::new(0) })
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
        // The last bytes of another writer of the log may be on their way.
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let half = |letter: char| Half::new(self.directory.join(format!("{serial:016x}-{number}{letter}")), path);
        Ok(Tail { halves: [half('a')?, half('b')?], current: 0, gap: 0 })
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
            File::open(&path)?.take(HALF_BYTES_MAX).read_to_end(&mut bytes)?;
            let Some((path, records)) = parse(&bytes) else { continue };
            match all.last_mut().filter(|last| last.serial == serial && last.path == path) {
                Some(last) => last.records.extend(records),
                None => all.push(Left { serial, path, records }),
            }
        }
        for left in &mut all {
            left.records.sort();
        }
        Ok(all)
    }

    /// The drive was closed in order: nothing of it stays in memory.
    pub(crate) fn end(&self) {
        let _ = fs::remove_file(self.directory.join("newest"));
        // It stays if a log's end was not written.
        let _ = fs::remove_dir(&self.directory);
    }

    /// Forgets all tails of processes that have ended.
    pub(crate) fn forget(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.file_name() != "newest" {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Half {
    fn new(path: PathBuf, log: &str) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let mut head = Vec::with_capacity(HEAD + log.len());
        head.extend(HEAD_MAGIC);
        head.extend((log.len() as u32).to_le_bytes());
        head.extend(crc32c(log.as_bytes()).to_le_bytes());
        head.extend(log.as_bytes());
        file.write_all_at(&head, 0)?;
        let head = head.len() as u64;
        Ok(Self { path, file, head, at: head, end: 0 })
    }

    fn add(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut record = Vec::with_capacity(RECORD + bytes.len());
        record.extend(RECORD_MAGIC);
        record.extend((bytes.len() as u32).to_le_bytes());
        record.extend(offset.to_le_bytes());
        record.extend(check(offset, bytes).to_le_bytes());
        record.extend(bytes);
        self.file.write_all_at(&record, self.at)?;
        self.at += record.len() as u64;
        self.end = offset + bytes.len() as u64;
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.at == self.head
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.at + (RECORD + bytes) as u64 <= HALF_BYTES
    }

    /// Empties it, if all it has is written.
    fn written(&mut self, end: u64) {
        if !self.is_empty() && self.end <= end && self.file.set_len(self.head).is_ok() {
            self.at = self.head;
        }
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
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
        if !self.halves[self.current].has_room(bytes.len()) {
            let other = 1 - self.current;
            if !self.halves[other].is_empty() || !self.halves[other].has_room(bytes.len()) {
                return false;
            }
            self.current = other;
        }
        // The memory may be full.
        self.halves[self.current].add(offset, bytes).is_ok()
    }

    /// All bytes of the log before `end` are written.
    pub(crate) fn written(&mut self, end: u64) {
        for half in &mut self.halves {
            half.written(end);
        }
    }
}

fn check(offset: u64, bytes: &[u8]) -> u32 {
    crc32c(bytes) ^ crc32c(&offset.to_le_bytes())
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

type Parsed = (String, Vec<(u64, Vec<u8>)>);

/// The path and the records of a half, up to the first that makes no sense.
fn parse(bytes: &[u8]) -> Option<Parsed> {
    let length = u32::from_le_bytes(number(bytes, 4)?) as usize;
    let path = bytes.get(HEAD..HEAD.checked_add(length)?)?;
    if number(bytes, 0)? != HEAD_MAGIC || u32::from_le_bytes(number(bytes, 8)?) != crc32c(path) {
        return None;
    }
    let path = std::str::from_utf8(path).ok()?.to_owned();
    let mut records = Vec::new();
    let mut rest = &bytes[HEAD + length..];
    while let Some((offset, found)) = record(rest) {
        records.push((offset, found.to_vec()));
        rest = &rest[RECORD + found.len()..];
    }
    Some((path, records))
}

fn record(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let length = u32::from_le_bytes(number(bytes, 4)?) as usize;
    let offset = u64::from_le_bytes(number(bytes, 8)?);
    let found = bytes.get(RECORD..RECORD.checked_add(length)?)?;
    let sound = number(bytes, 0)? == RECORD_MAGIC && u32::from_le_bytes(number(bytes, 16)?) == check(offset, found);
    (sound && offset.checked_add(length as u64).is_some()).then_some((offset, found))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        drop(tail);
        assert!(folder.tails().left().unwrap().is_empty());
    }

    /// FS-TAIL-1: nothing is kept behind bytes that are nowhere yet.
    #[test]
    fn what_did_not_fit_has_to_be_written_before_more_is_kept() {
        let folder = Folder::new("gap");
        let mut tail = folder.tails().tail(9, "/log").unwrap();
        assert!(tail.keep(0, 0, &log(100)));
        assert!(!tail.keep(0, 100, &log(HALF_BYTES)));
        let end = 100 + HALF_BYTES;
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
        let bytes = fs::read(&tail.halves[0].path).unwrap();
        for end in 0..bytes.len() {
            let found = parse(&bytes[..end]).map(|(_, records)| records.len());
            let expected = end.checked_sub(HEAD + 4).map(|rest| rest / (RECORD + 10));
            assert_eq!(found, expected, "{end} bytes");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            let records = parse(&changed).map_or(0, |(_, records)| records.len());
            assert!(records <= at.saturating_sub(HEAD + 4) / (RECORD + 10), "byte {at}");
        }
        std::mem::forget(tail);
        tails.begin(77);
        assert_eq!((folder.tails().newest(), tails.left().unwrap().len()), (77, 1));
        let (mut one, other) = (tails.making(), tails.making());
        one.serial = 90;
        drop(one);
        assert_eq!(folder.tails().newest(), u64::MAX);
        drop(other);
        assert_eq!(folder.tails().newest(), 90);
        tails.forget().unwrap();
        assert_eq!((folder.tails().newest(), tails.left().unwrap().len()), (90, 0));
        tails.end();
        assert!(!tails.directory.exists());
    }

    #[test]
    fn a_gap_ends_what_is_missing() {
        let records = vec![(10, vec![1; 10]), (20, vec![2; 5]), (30, vec![3; 5])];
        let left = Left { serial: 1, path: String::new(), records };
        assert_eq!(left.missing(9), b"");
        assert_eq!(left.missing(12), [vec![1; 8], vec![2; 5]].concat());
        assert_eq!(left.missing(25), b"");
        assert_eq!(left.missing(31), [3; 4]);
        assert_eq!(left.missing(99), b"");
    }
}
