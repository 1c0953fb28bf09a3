//! The index's file on flash, which nobody syncs, and the mark beside it that says it was left clean.
//!
//! The mark, in the file `NAME.clean`, little-endian:
//!
//! | at | size | field        | meaning                                                       |
//! |---:|-----:|--------------|---------------------------------------------------------------|
//! |  0 |    8 | `magic`      | `SHGAIX02`; the digits are the format version                  |
//! |  8 |    8 | `array`      | the array's id: another array's index is not taken             |
//! | 16 |    8 | `generation` | given by the engine: an index of another moment is not taken   |
//! | 24 |    8 | `length`     | bytes of the index's file                                      |
//! | 32 |    8 | `objects`    | names with a complete version                                  |
//! | 40 |    4 | `file_crc`   | CRC-32C of the index's file                                    |
//! | 44 |    4 | `crc`        | CRC-32C of bytes 0..44                                         |
//!
//! A mark of version 01, which named no array, is no mark: the index is built anew.
//!
//! The whole file is checked before the library sees any of it: it may panic on garbage.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use redb::StorageBackend;
use rustix::fs::OFlags;
use shingle_base::{Crc, StoreId, crc32c};

use super::error::{IndexError, IndexResult};

/// Identity and generation of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) array: StoreId,
    pub(crate) generation: u64,
}

const MAGIC: [u8; 8] = *b"SHGAIX02";
const MARK_LENGTH: usize = 48;
const READ_AT_ONCE: usize = 1 << 20;

/// The file, locked as long as this lives.
pub(super) struct IndexFile {
    path: PathBuf,
    file: File,
}

/// The file as the library uses it. The library's syncs do nothing: after an unclean stop the file is not read.
#[derive(Debug)]
pub(super) struct Unsynced(File);

#[derive(Debug, PartialEq, Eq)]
struct Mark {
    array: u64,
    generation: u64,
    length: u64,
    objects: u64,
    file_crc: u32,
}

impl IndexFile {
    /// The file, empty, without a mark.
    pub(super) fn create(path: &Path) -> IndexResult<(Self, Unsynced)> {
        let failed = |what| move |source| IndexError::file(what, path, source);
        let opened = options().create(true).open(path).map_err(failed("cannot be created"))?;
        let file = Self::lock(path, opened)?;
        file.remove_mark()?;
        file.file.set_permissions(PermissionsExt::from_mode(0o600)).map_err(failed("cannot be kept to its owner"))?;
        file.file.set_len(0).map_err(failed("cannot be emptied"))?;
        let backend = file.backend()?;
        Ok((file, backend))
    }

    /// The file and the number of objects, if it is whole and marked so; its mark is removed.
    pub(super) fn open_clean(path: &Path, of: Moment) -> IndexResult<Option<(Self, Unsynced, u64)>> {
        let own = |mark: &Mark| mark.array == of.array.0 && mark.generation == of.generation;
        let Some(mark) = read_mark(&mark_path(path)).filter(own) else { return Ok(None) };
        let Ok(opened) = options().open(path) else { return Ok(None) };
        let file = Self::lock(path, opened)?;
        // Gone before anything is believed: whatever comes later, this file counts as clean no more.
        file.remove_mark()?;
        match checksum(&file.file) {
            Ok(found) if found == (mark.length, mark.file_crc) => {
                let backend = file.backend()?;
                Ok(Some((file, backend, mark.objects)))
            }
            _ => Ok(None),
        }
    }

    fn lock(path: &Path, file: File) -> IndexResult<Self> {
        let failed = |what| move |source| IndexError::file(what, path, source);
        let metadata = file.metadata().map_err(failed("cannot be looked at"))?;
        if !metadata.is_file() {
            return Err(IndexError::file("cannot be used", path, io::Error::other("it is no plain file")));
        }
        match file.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), file }),
            Err(TryLockError::WouldBlock) => {
                Err(IndexError::file("cannot be used", path, io::Error::other("another process has it open")))
            }
            Err(TryLockError::Error(source)) => Err(IndexError::file("cannot be locked", path, source)),
        }
    }

    fn backend(&self) -> IndexResult<Unsynced> {
        self.file
            .try_clone()
            .map(Unsynced)
            .map_err(|source| IndexError::file("cannot be opened twice", &self.path, source))
    }

    fn remove_mark(&self) -> IndexResult<()> {
        let mark = mark_path(&self.path);
        let removed = match std::fs::remove_file(&mark) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => Err(error),
            Ok(()) => sync_directory(&mark),
        };
        removed.map_err(|source| IndexError::file("cannot lose its mark", &self.path, source))
    }

    /// Syncs the file, then says that it is clean.
    pub(super) fn mark_clean(self, of: Moment, objects: u64) -> IndexResult<()> {
        let failed = |what| {
            let path = &self.path;
            move |source| IndexError::file(what, path, source)
        };
        self.file.sync_all().map_err(failed("cannot be synced"))?;
        let (length, file_crc) = checksum(&self.file).map_err(failed("cannot be read again"))?;
        let mark = Mark { array: of.array.0, generation: of.generation, length, objects, file_crc };
        self.remove_mark()?;
        write_mark(&mark_path(&self.path), &mark).map_err(failed("cannot be marked clean"))
    }
}

impl StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    // Non-blocking: a FIFO put in its place must not hold up the engine.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    options.read(true).write(true).mode(0o600).custom_flags(flags);
    options
}

fn mark_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".clean");
    name.into()
}

/// Length and CRC-32C of the file.
fn checksum(file: &File) -> io::Result<(u64, u32)> {
    let (mut length, mut crc, mut buffer) = (0, Crc::new(), vec![0; READ_AT_ONCE]);
    loop {
        match file.read_at(&mut buffer, length) {
            Ok(0) => return Ok((length, crc.value())),
            Ok(read) => {
                crc = crc.update(&buffer[..read]);
                length += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn write_mark(path: &Path, mark: &Mark) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(MARK_LENGTH);
    bytes.extend(MAGIC);
    for number in [mark.array, mark.generation, mark.length, mark.objects] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(mark.file_crc.to_le_bytes());
    bytes.extend(crc32c(&bytes).to_le_bytes());
    // A mark cut short by a power cut fails its checksum.
    let file = options().create_new(true).open(path)?;
    file.write_all_at(&bytes, 0)?;
    file.sync_all()?;
    sync_directory(path)
}

/// The mark, if there is a good one.
fn read_mark(path: &Path) -> Option<Mark> {
    let mut bytes = Vec::with_capacity(MARK_LENGTH + 1);
    let file = options().open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(())?;
    file.take(MARK_LENGTH as u64 + 1).read_to_end(&mut bytes).ok()?;
    let bytes: [u8; MARK_LENGTH] = bytes.try_into().ok()?;
    let (checked, crc) = bytes.split_last_chunk()?;
    let (magic, numbers) = checked.split_first_chunk()?;
    let (numbers, file_crc) = numbers.split_last_chunk()?;
    if *magic != MAGIC || crc32c(checked) != u32::from_le_bytes(*crc) {
        return None;
    }
    let (numbers, _) = numbers.as_chunks();
    let [array, generation, length, objects] = *numbers else { return None };
    Some(Mark {
        array: u64::from_le_bytes(array),
        generation: u64::from_le_bytes(generation),
        length: u64::from_le_bytes(length),
        objects: u64::from_le_bytes(objects),
        file_crc: u32::from_le_bytes(*file_crc),
    })
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
