//! An ordinary drive or file, read and written directly, with the times of its commands.
//!
//! **Owns** the open node or file, and threads that keep commands outstanding. **Knows nothing of** zones, and of the meaning of what
//! lies on the drive: a writable one loses it.
//!
//! # Invariants
//! - ZL-DIR-1: nothing is written unless it was opened to be written, which takes a node or file from every other program of this project, and is
//!   refused while one has it, or the kernel uses the drive (mounts, swap, devices made of it).

use std::fs::{File, OpenOptions as FileOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks};

use crate::any::is_node;
use crate::device::{self, OpenOptions};
use crate::drive::{Drive, WriteCache, ZonedModel};
use crate::error::{OpenError, OpenErrorKind};
use crate::node::{self, Node};
use crate::signature;

/// Kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectOp {
    /// Reads blocks.
    Read,
    /// Writes blocks.
    Write,
    /// Makes all writes before it durable.
    Flush,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectCommand {
    /// Its kind.
    pub op: DirectOp,
    /// Its first block.
    pub at: u64,
    /// Its blocks.
    pub blocks: u64,
}

/// Times of a command, since the drive was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectTimes {
    /// Its submission.
    pub begun: Duration,
    /// Its completion.
    pub ended: Duration,
    /// The drive could not read the blocks.
    pub unreadable: bool,
}

enum Open {
    File(File),
    Node(Arc<Node>),
}

impl Open {
    fn file(&self) -> &File {
        match self {
            Self::File(file) => file,
            Self::Node(node) => node.file(),
        }
    }
}

/// An ordinary drive or file, open for direct reads and perhaps writes.
pub struct DirectDrive {
    open: Open,
    /// The kernel's description, of a block device.
    drive: Option<Drive>,
    blocks: u64,
    writable: bool,
    began: Instant,
    /// A buffer for each command that is outstanding.
    buffers: Vec<AlignedBuf>,
    /// Bytes of all writes, which no drive can shorten.
    written: AlignedBuf,
}

impl DirectDrive {
    /// Opens the ordinary block device or file at `path`; only to read it, unless `writable`.
    ///
    /// # Errors
    /// Nothing is there; a file system without direct access; `Zoned`, of a drive that shows its zones; to write, also a drive in use.
    pub fn open(path: &Path, writable: bool) -> Result<Self, OpenError> {
        let failed = |error| OpenError::from_io(error, path);
        let direct = |error: io::Error| match error.raw_os_error() {
            Some(libc::EINVAL) => OpenError::new(
                OpenErrorKind::Unsupported("this file system reads nothing directly: use a file on another".to_owned()),
                path,
            ),
            _ => failed(error),
        };
        let drive = if is_node(path) { Some(device::describe(path)?) } else { None };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if drive.is_none() && !metadata.is_file() {
            let what = "this is neither a block device nor a file".to_owned();
            return Err(OpenError::new(OpenErrorKind::Unsupported(what), path));
        }
        let open = match &drive {
            Some(drive) if drive.zoned != ZonedModel::None => return Err(OpenError::new(OpenErrorKind::Zoned, path)),
            Some(drive) if writable => {
                device::refuse_used(path, drive, OpenOptions { force: true, keep_open: false, alone: false })?;
                Open::Node(device::claim(path, drive)?)
            }
            _ => {
                let flags = libc::O_DIRECT;
                let file = FileOptions::new().read(true).write(writable).custom_flags(flags).open(path);
                let file = file.map_err(direct)?;
                if writable {
                    // It may be an emulated drive that somebody has open.
                    node::lock(&file, path)?;
                }
                Open::File(file)
            }
        };
        let blocks = drive.as_ref().map_or(metadata.len(), |drive| drive.size_bytes) / BLOCK_SIZE as u64;
        Ok(Self { open, drive, blocks, writable, began: now(), buffers: Vec::new(), written: noise(Blocks(1)) })
    }

    /// The kernel's description of a block device; `None` of a file.
    pub fn drive(&self) -> Option<&Drive> {
        self.drive.as_ref()
    }

    /// The mark of other software on it, if any is known.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn content(&self) -> io::Result<Option<&'static str>> {
        signature::on_ordinary(self.open.file(), self.blocks * BLOCK_SIZE as u64)
    }

    /// Whole blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// True if it was opened to be written.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// True if a write that has ended is durable: the kernel knows of no volatile cache.
    pub fn writes_through(&self) -> bool {
        self.drive.as_ref().is_some_and(|drive| drive.write_cache == Some(WriteCache::WriteThrough))
    }

    /// Time since it was opened.
    pub fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Leaves it alone for that long.
    #[expect(
        clippy::disallowed_methods,
        reason = "a drive is examined in real time, by a program that does nothing else"
    )]
    pub fn idle(&self, time: Duration) {
        std::thread::sleep(time);
    }

    /// Keeps `depth` commands outstanding until all are done; their times, in order.
    ///
    /// # Errors
    /// A command behind the end, a write to a drive opened to be read, or the drive is gone or refuses a write. A block that cannot be
    /// read is no error.
    pub fn run(&mut self, depth: usize, commands: &[DirectCommand]) -> io::Result<Vec<DirectTimes>> {
        let behind = |command: &DirectCommand| command.at.saturating_add(command.blocks) > self.blocks;
        if commands.iter().any(behind) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a command behind the drive's end"));
        }
        // ZL-DIR-1.
        if !self.writable && commands.iter().any(|command| command.op != DirectOp::Read) {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "a write to a drive that is only read"));
        }
        let most = Blocks(commands.iter().map(|command| command.blocks).max().unwrap_or(0).max(1));
        let threads = depth.clamp(1, commands.len().max(1));
        if self.written.blocks() < most {
            self.written = noise(most);
        }
        self.buffers.retain(|buffer| buffer.blocks() >= most);
        self.buffers.resize_with(self.buffers.len().max(threads), || AlignedBuf::zeroed(most));
        let next = AtomicUsize::new(0);
        let (file, written, began) = (self.open.file(), &self.written, self.began);
        let work = |buffer: &mut AlignedBuf| -> io::Result<Vec<(usize, DirectTimes)>> {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(command) = commands.get(number) else { return Ok(done) };
                done.push((number, take(file, began, command, buffer, written)?));
            }
        };
        let mut times = vec![DirectTimes::default(); commands.len()];
        let mut buffers = self.buffers.iter_mut().take(threads);
        let parts: Vec<io::Result<Vec<(usize, DirectTimes)>>> = if threads == 1 {
            buffers.next().map(work).into_iter().collect()
        } else {
            std::thread::scope(|scope| {
                let workers: Vec<_> = buffers.map(|buffer| scope.spawn(|| work(buffer))).collect();
                let lost = |_| Err(io::Error::other("a thread has ended early"));
                workers.into_iter().map(|worker| worker.join().unwrap_or_else(lost)).collect()
            })
        };
        for part in parts {
            for (number, taken) in part? {
                times[number] = taken;
            }
        }
        Ok(times)
    }
}

#[expect(clippy::disallowed_methods, reason = "a drive is examined in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Bytes that look random, from a fixed seed.
fn noise(length: Blocks) -> AlignedBuf {
    let mut buffer = AlignedBuf::zeroed(length);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for piece in buffer.chunks_exact_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        piece.copy_from_slice(&state.to_le_bytes());
    }
    buffer
}

/// Takes one command.
fn take(
    file: &File,
    began: Instant,
    command: &DirectCommand,
    buffer: &mut AlignedBuf,
    written: &AlignedBuf,
) -> io::Result<DirectTimes> {
    let (at, length) = (command.at * BLOCK_SIZE as u64, command.blocks as usize * BLOCK_SIZE);
    let begun = began.elapsed();
    let result = match command.op {
        DirectOp::Read => file.read_exact_at(&mut buffer[..length], at),
        DirectOp::Write => file.write_all_at(&written[..length], at),
        DirectOp::Flush => rustix::fs::fdatasync(file.as_fd()).map_err(io::Error::from),
    };
    let ended = began.elapsed();
    match result {
        Ok(()) => Ok(DirectTimes { begun, ended, unreadable: false }),
        Err(error) if command.op == DirectOp::Read && error.raw_os_error() == Some(libc::EIO) => {
            Ok(DirectTimes { begun, ended, unreadable: true })
        }
        Err(error) => Err(error),
    }
}
