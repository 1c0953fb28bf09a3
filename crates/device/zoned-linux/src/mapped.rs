//! Memory that outlives the process: a file on a file system in memory, mapped.
//!
//! A store to it takes no call of the kernel, and is there for whoever opens the file next, also if the process is killed behind it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, compiler_fence};

use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The memory of a file that this process made.
#[derive(Debug)]
pub struct MappedFile {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is this value's alone in the process, and is changed by `&mut self` only.
unsafe impl Send for MappedFile {}
// SAFETY: nothing can be done by `&self`.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Makes a file of `length` zeros that this user alone can read. Its memory is the file's from now on: no store finds it full.
    ///
    /// # Errors
    /// The system's: `AlreadyExists`, `StorageFull`, `InvalidInput` if `length` is zero.
    pub fn create(path: &Path, length: usize) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let mapped = fallocate(&file, FallocateFlags::empty(), 0, length as u64).and_then(|()| {
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
            // SAFETY: a new mapping, at a place that the kernel chooses, is no other memory of the process. Only this user can open the
            // file, and no program of this project makes such a file shorter, which would take pages away under the mapping.
            unsafe { mmap(std::ptr::null_mut(), length, access, flags, &file, 0) }
        });
        let start = mapped.ok().and_then(|start| NonNull::new(start.cast()));
        start.map(|start| Self { start, length }).ok_or_else(|| {
            let _ = std::fs::remove_file(path);
            mapped.map_or_else(io::Error::from, |_| io::Error::other("the memory has no address"))
        })
    }

    /// Bytes of the memory.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Stores bytes. If the process is killed, all stores of earlier calls are there, and any part of this one.
    ///
    /// # Panics
    /// If the memory ends before they do: a bug of the caller.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at.checked_add(bytes.len()).is_some_and(|end| end <= self.length), "a store behind the memory's end");
        // SAFETY: the range lies in the mapping (above), and no reference to the mapping exists that `bytes` could overlap with.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len()) };
        // Stores of one call stay before those of the next.
        compiler_fence(Ordering::SeqCst);
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, and is not used again.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_in_the_file() {
        let path = std::env::temp_dir().join(format!("shingle-mapped-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut memory = MappedFile::create(&path, 10_000).unwrap();
        assert_eq!(memory.length(), 10_000);
        memory.write(0, b"first");
        memory.write(9_996, b"last");
        let found = std::fs::read(&path).unwrap();
        assert!(found.len() == 10_000 && found.starts_with(b"first\0") && found.ends_with(b"\0last"));
        assert_eq!(MappedFile::create(&path, 1).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        drop(memory);
        assert!(std::fs::read(&path).unwrap().ends_with(b"last"));
        std::fs::remove_file(&path).unwrap();
        assert!(MappedFile::create(&path, 0).is_err() && !path.exists());
    }

    #[test]
    #[should_panic(expected = "behind the memory's end")]
    fn no_store_leaves_the_memory() {
        let path = std::env::temp_dir().join(format!("shingle-mapped-end-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut memory = MappedFile::create(&path, 4096).unwrap();
        std::fs::remove_file(&path).unwrap();
        memory.write(4090, b"too long");
    }
}
