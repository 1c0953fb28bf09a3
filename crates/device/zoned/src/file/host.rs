//! Reading, writing and punching holes in the file that holds a drive.
//!
//! The file may be the node of an ordinary block device: its length is fixed, its blocks hold old bytes before the
//! first write, and a hole can be punched only if the device takes such a command.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use bytes::Bytes;
use rustix::fs::FallocateFlags;
use shingle_base::{AlignedBuf, Blocks};

use crate::error::DeviceErrorKind;
use crate::file::error::{FileDeviceError, FileDeviceErrorKind};

/// The most pieces the operating system takes in one call.
const GATHER_MAX: usize = 1024;

/// Bytes that are read at a time where there are no holes.
const CLEAR_STEP: usize = 1 << 20;

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

/// Makes `length` bytes from `at` read as zeros; where the device cannot do it by itself the kernel writes them.
pub(crate) fn zero(file: &File, at: u64, length: u64) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, at, length)?)
}

/// Makes `length` bytes from `at` read as zeros, by a hole where there are holes: elsewhere they are read, and those that are no zeros are
/// written over.
pub(crate) fn clear(file: &File, at: u64, length: u64) -> io::Result<()> {
    if punch(file, at, length).is_ok() { Ok(()) } else { write_zeros(file, at, length) }
}

fn write_zeros(file: &File, at: u64, length: u64) -> io::Result<()> {
    let mut bytes = vec![0; CLEAR_STEP];
    let zeros = vec![0; CLEAR_STEP];
    let mut done = 0;
    while done < length {
        let step = (length - done).min(CLEAR_STEP as u64) as usize;
        let (Some(bytes), Some(zeros)) = (bytes.get_mut(..step), zeros.get(..step)) else { break };
        if file.read_exact_at(bytes, at + done).is_err() || bytes != zeros {
            file.write_all_at(zeros, at + done)?;
        }
        done += step as u64;
    }
    Ok(())
}

/// A file that is open as a drive only here.
pub(crate) struct Claimed {
    file: File,
    /// The length of a block device.
    fixed: Option<u64>,
}

impl std::ops::Deref for Claimed {
    type Target = File;
    fn deref(&self) -> &File {
        &self.file
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        // Closing the file would not do: a child process that another thread is just starting still has it, and the
        // lock with it, until it becomes another program.
        let _ = self.file.unlock();
    }
}

impl Claimed {
    /// True if this is a block device.
    pub(crate) fn is_node(&self) -> bool {
        self.fixed.is_some()
    }

    /// The length in bytes.
    pub(crate) fn length(&self) -> io::Result<u64> {
        match self.fixed {
            Some(length) => Ok(length),
            None => Ok(self.file.metadata()?.len()),
        }
    }

    /// Makes the file as long as this; a block device stays as it is.
    pub(crate) fn resize(&self, length: u64) -> io::Result<()> {
        if self.is_node() { Ok(()) } else { self.file.set_len(length) }
    }
}

/// Options for opening an existing file or node: a node so that neither another program nor the kernel (for a mount)
/// can have it too.
pub(crate) fn existing(path: &Path) -> OpenOptions {
    let mut open = OpenOptions::new();
    open.read(true).write(true);
    if is_node(path) {
        open.custom_flags(rustix::fs::OFlags::EXCL.bits() as i32);
    }
    open
}

/// True if this names a block device.
pub(crate) fn is_node(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Checks that `file` is an ordinary file or a block device, and claims it as a drive.
pub(crate) fn claim(file: File, path: &Path) -> Result<Claimed, FileDeviceError> {
    let failed = |error| FileDeviceError::from_io(error, path);
    let kind = file.metadata().map_err(failed)?.file_type();
    let fixed = match () {
        () if kind.is_file() => None,
        () if kind.is_block_device() => Some((&file).seek(SeekFrom::End(0)).map_err(failed)?),
        () if kind.is_dir() => return Err(FileDeviceError::new(FileDeviceErrorKind::Directory, path)),
        () => return Err(FileDeviceError::new(FileDeviceErrorKind::NotADrive, path)),
    };
    match file.try_lock() {
        Ok(()) => Ok(Claimed { file, fixed }),
        Err(TryLockError::WouldBlock) => Err(FileDeviceError::new(FileDeviceErrorKind::InUse, path)),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Meaning of a failed write or read of the file for the drive.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleared_bytes_are_zeros_and_no_others() {
        for clear in [clear, write_zeros] {
            check(clear);
        }
    }

    fn check(clear: impl Fn(&File, u64, u64) -> io::Result<()>) {
        let path = std::env::temp_dir().join(format!("shingle-clear-{}", std::process::id()));
        std::fs::write(&path, vec![7; 3 * CLEAR_STEP]).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        clear(&file, 4096, 2 * CLEAR_STEP as u64).unwrap();
        let left = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let cleared = 4096..4096 + 2 * CLEAR_STEP;
        assert!(left[..4096].iter().all(|&byte| byte == 7));
        assert!(left[cleared.clone()].iter().all(|&byte| byte == 0));
        assert!(left[cleared.end..3 * CLEAR_STEP].iter().all(|&byte| byte == 7));
    }
}
