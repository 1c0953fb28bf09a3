//! Reading, writing and punching holes in the file that holds a drive.

use std::fs::{File, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;

use bytes::Bytes;
use rustix::fs::FallocateFlags;
use shingle_base::{AlignedBuf, Blocks};

use crate::error::DeviceErrorKind;
use crate::file::error::{FileDeviceError, FileDeviceErrorKind};

/// The most pieces the operating system takes in one call.
const GATHER_MAX: usize = 1024;

/// Writes the pieces one behind the other from byte `at`.
pub(crate) fn write_all(file: &File, mut at: u64, data: &[Bytes]) -> io::Result<()> {
    if let [piece] = data {
        return file.write_all_at(piece, at);
    }
    let mut slices: Vec<IoSlice<'_>> = data.iter().map(|piece| IoSlice::new(piece)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match rustix::io::pwritev(file, &left[..left.len().min(GATHER_MAX)], at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                at += written as u64;
                IoSlice::advance_slices(&mut left, written);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Reads `length` blocks from byte `at`.
pub(crate) fn read(file: &File, at: u64, length: Blocks) -> io::Result<Bytes> {
    let mut buffer = AlignedBuf::zeroed(length);
    file.read_exact_at(&mut buffer, at)?;
    Ok(buffer.freeze())
}

/// Gives the space of `length` bytes from `at` back to the file system; they then read as zeros.
pub(crate) fn punch(file: &File, at: u64, length: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, length)?)
}

/// A file that nobody else has open as a drive.
pub(crate) struct Claimed(File);

impl std::ops::Deref for Claimed {
    type Target = File;
    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        // Closing the file would not do: a child process that another thread is just starting still has it, and the
        // lock with it, until it becomes another program.
        let _ = self.0.unlock();
    }
}

/// Sees that `file` is an ordinary file that nobody else has open as a drive.
pub(crate) fn claim(file: File, path: &Path) -> Result<Claimed, FileDeviceError> {
    let metadata = file.metadata().map_err(|error| FileDeviceError::from_io(error, path))?;
    if !metadata.is_file() {
        return Err(FileDeviceError::new(FileDeviceErrorKind::NotADrive, path));
    }
    match file.try_lock() {
        Ok(()) => Ok(Claimed(file)),
        Err(TryLockError::WouldBlock) => Err(FileDeviceError::new(FileDeviceErrorKind::InUse, path)),
        Err(TryLockError::Error(error)) => Err(FileDeviceError::from_io(error, path)),
    }
}

/// What a failed write or read of the file means for the drive.
pub(crate) fn device_error(error: io::Error, writing: bool) -> DeviceErrorKind {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge | io::ErrorKind::QuotaExceeded => {
            let text = format!("the file system that holds the drive has no room for more: {error}");
            DeviceErrorKind::System(io::Error::new(error.kind(), text))
        }
        io::ErrorKind::UnexpectedEof => DeviceErrorKind::ReadFailed,
        _ if error.raw_os_error() != Some(rustix::io::Errno::IO.raw_os_error()) => DeviceErrorKind::System(error),
        _ if writing => DeviceErrorKind::WriteFailed,
        _ => DeviceErrorKind::ReadFailed,
    }
}
