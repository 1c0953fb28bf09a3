//! Reads, writes and flushes of one file through io_uring.
//!
//! **Owns** the ring, and the memory of every operation from when it is given until its completion was seen. **Knows
//! nothing of** zones: its caller chooses the operations that may be under way together.
//!
//! # Invariants
//! - ZL-RG-1: memory that the kernel was told of is neither freed nor shared before the kernel has said that the operation
//!   is done; not by a dropped future, not by dropping the ring.
//! - ZL-RG-2: a transfer that the kernel cut short goes on where it stopped: an operation completes whole, or fails.

use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use bytes::Bytes;
use io_uring::squeue::Entry;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, opcode};
use rustix::event::{EventfdFlags, eventfd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::buffer::{Pool, ReadBuffer};

/// Operations that the kernel has at a time; further ones wait here.
const DEPTH: u32 = 256;
/// Operations given to the kernel at a time: the drive begins with these while the next are being prepared. Random reads
/// of a file at depth 32 are a twentieth faster than all at once; one by one costs a call each.
const BATCH: u32 = 8;
/// The most pieces the kernel gathers in one operation.
const GATHER_MAX: usize = 1024;
/// The most bytes given to the kernel in one operation; it takes up to 2 GiB less a page.
pub(crate) const TRANSFER_MAX: usize = 1 << 30;
/// Tries of an operation that the kernel had no room for.
const TRIES: u8 = 100;
/// `IORING_ENTER_GETEVENTS`: run completions, so that their events are seen.
const GET_EVENTS: u32 = 1;

/// An operation, with its memory.
pub(crate) enum Io {
    Read(ReadBuffer),
    /// The pieces, and the most bytes that may be given to the kernel at a time.
    Write(Vec<Bytes>, usize),
    Flush,
    /// Begins to bring that many bytes from the page cache to the medium; the medium gets them at any later time.
    Destage(usize),
}

struct Operation<T> {
    io: Io,
    /// Byte of the file where it begins.
    at: u64,
    done: usize,
    total: usize,
    tries: u8,
    /// Pieces as the kernel reads them, while it has the operation.
    pieces: Vec<libc::iovec>,
    /// `None`: abandoned.
    tag: Option<T>,
}

/// An operation that is done: for a read, with its bytes.
pub(crate) struct Completed<T> {
    pub(crate) tag: T,
    pub(crate) result: io::Result<Bytes>,
}

/// A ring, and operations tagged `T`.
pub(crate) struct Ring<T> {
    ring: IoUring,
    file: Arc<dyn AsFd>,
    pool: Arc<Pool>,
    /// The kernel took the pool: an ordinary user's limit on locked memory may forbid it.
    registered: bool,
    operations: Vec<Option<Operation<T>>>,
    free: Vec<usize>,
    /// Operations that the kernel does not have yet.
    queue: VecDeque<usize>,
    /// Operations that the kernel has, or may have.
    in_flight: u32,
    /// The kernel refused the ring: nothing more is given to it.
    abandoned: bool,
    /// The kernel ties the ring to the thread that made it.
    thread: PhantomData<*const ()>,
}

impl<T> Ring<T> {
    /// A ring for `file`.
    ///
    /// # Errors
    /// The kernel has no io_uring, or forbids it.
    pub(crate) fn new(file: Arc<dyn AsFd>) -> io::Result<Self> {
        // Completions are seen only when this thread asks for them: no interrupts, and many at a time. Kernels before
        // 6.1 and 5.19 cannot do this; it only costs speed.
        let deferred = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .build(DEPTH);
        let cooperative = |_| IoUring::builder().setup_coop_taskrun().setup_taskrun_flag().build(DEPTH);
        let ring = deferred.or_else(cooperative).or_else(|_| IoUring::new(DEPTH))?;
        let pool = Pool::new();
        let (start, length) = pool.area();
        let area = libc::iovec { iov_base: start.cast(), iov_len: length };
        // SAFETY: the area is the pool's memory, which `self.pool` keeps for as long as the ring is there (the ring is
        // declared, and so dropped, first; and pages that the kernel has registered stay its own until it lets go).
        let registered = unsafe { ring.submitter().register_buffers(&[area]) }.is_ok();
        Ok(Self {
            ring,
            file,
            pool,
            registered,
            operations: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            in_flight: 0,
            abandoned: false,
            thread: PhantomData,
        })
    }

    /// File descriptor that becomes ready, anew each time, when something is done. An eventfd, since polling the ring's
    /// own descriptor does not wake for deferred completions on kernels after 6.1.
    pub(crate) fn watch(&self) -> io::Result<AsyncFd<OwnedFd>> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        self.ring.submitter().register_eventfd(event.as_raw_fd())?;
        // SAFETY: the descriptor is the watch's own, open until the watch has deregistered and dropped it, and nobody
        // exchanges it. The kernel's ring holds the event by itself.
        Ok(unsafe { AsyncFd::register_with_interest(event, Interest::READABLE) }?)
    }

    /// Operations that were pushed and are not completed.
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> usize {
        self.operations.iter().flatten().count()
    }

    /// A buffer for a read of `length` bytes.
    pub(crate) fn read_buffer(&self, length: usize) -> ReadBuffer {
        ReadBuffer::new(&self.pool, length)
    }

    /// Queues an operation that begins at byte `at` of the file. A ring that was abandoned gives its tag back.
    pub(crate) fn push(&mut self, io: Io, at: u64, tag: T) -> Option<T> {
        if self.abandoned {
            return Some(tag);
        }
        let total = match &io {
            Io::Read(buffer) => buffer.len(),
            Io::Write(data, _) => data.iter().map(Bytes::len).sum(),
            Io::Flush | Io::Destage(_) => 0,
        };
        let operation = Some(Operation { io, at, done: 0, total, tries: 0, pieces: Vec::new(), tag: Some(tag) });
        let key = match self.free.pop() {
            Some(key) => {
                self.operations[key] = operation;
                key
            }
            None => {
                self.operations.push(operation);
                self.operations.len() - 1
            }
        };
        self.queue.push_back(key);
        None
    }

    /// True if a [`turn`](Self::turn) has something to do.
    pub(crate) fn ready(&mut self) -> bool {
        if self.abandoned {
            return false;
        }
        let submission = self.ring.submission();
        let owed = submission.taskrun() || submission.cq_overflow() || !submission.is_empty();
        drop(submission);
        owed || !self.ring.completion().is_empty() || self.has_room()
    }

    /// Gives the kernel the queued operations, as far as there is room, and collects those that are done. Does not
    /// wait.
    ///
    /// # Errors
    /// The kernel refuses to go on; nothing was lost, and its operations go on.
    pub(crate) fn turn(&mut self, out: &mut Vec<Completed<T>>) -> io::Result<()> {
        loop {
            self.submit();
            let entered = self.enter(0);
            self.collect(out);
            match entered {
                Ok(()) if self.has_room() => {}
                // No memory just now, or too many uncollected completions: the next turn tries again.
                Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::EINTR)) => {
                    return Err(error);
                }
                _ => return Ok(()),
            }
        }
    }

    /// True if something is queued that the kernel may have now.
    fn has_room(&self) -> bool {
        !self.queue.is_empty() && self.in_flight < DEPTH
    }

    /// Gives up a ring with which the kernel refuses to go on, and returns the tags of all operations. The memory of
    /// the kernel's operations stays with them (ZL-RG-1).
    pub(crate) fn abandon(&mut self) -> Vec<T> {
        self.abandoned = true;
        let tags = self.operations.iter_mut().flatten().filter_map(|operation| operation.tag.take()).collect();
        for key in self.queue.drain(..) {
            // The kernel never had these, or has said that it is done with them.
            if self.operations.get_mut(key).and_then(Option::take).is_some() {
                self.free.push(key);
            }
        }
        tags
    }

    /// Waits until the kernel has no operation of this ring. Queued operations stay queued.
    fn drain(&mut self, out: &mut Vec<Completed<T>>) -> io::Result<()> {
        let queue = std::mem::take(&mut self.queue);
        while self.in_flight > 0 {
            match self.enter(1) {
                Err(error) if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::EINTR)) => {
                    return Err(error);
                }
                _ => self.collect(out),
            }
            // An operation that was cut short does not go on: it fails when its tag is dropped.
            self.queue.clear();
        }
        self.queue = queue;
        Ok(())
    }

    /// Ends the ring: waits for the kernel's operations, and returns their results.
    pub(crate) fn close(mut self) -> Vec<Completed<T>> {
        let mut out = Vec::new();
        // An error here shows again in `drop`, which keeps to ZL-RG-1.
        let _ = self.drain(&mut out);
        out
    }

    /// From now on the kernel refuses the ring, until the descriptor that this returns is put back.
    #[cfg(test)]
    pub(crate) fn sever(&self) -> OwnedFd {
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: the descriptor is the ring's, open for as long as `self` is.
        let own = unsafe { std::os::fd::BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        let kept = own.try_clone_to_owned().unwrap();
        // SAFETY: both are open; the test wants the ring's number to mean another file.
        assert!(unsafe { libc::dup2(null.as_raw_fd(), own.as_raw_fd()) } >= 0);
        kept
    }

    fn enter(&mut self, wait_for: u32) -> io::Result<()> {
        let queued = self.ring.submission().len() as u32;
        // SAFETY: without an argument the call reads and writes only the ring. The entries it takes over were pushed in
        // `submit`, which says why their memory is valid.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, wait_for, GET_EVENTS, None) }?;
        Ok(())
    }

    fn submit(&mut self) {
        let mut room = BATCH;
        while self.in_flight < DEPTH
            && room > 0
            && let Some(key) = self.queue.pop_front()
        {
            room -= 1;
            let Some(operation) = self.operations.get_mut(key).and_then(Option::as_mut) else { continue };
            let fd = Fd(self.file.as_fd().as_raw_fd());
            let entry = operation.entry(fd, &self.pool, self.registered).user_data(key as u64);
            // SAFETY: the entry points to the operation's buffer or pieces and to `operation.pieces`, all on the heap,
            // where they stay until the operation is taken from `operations`: in `collect`, when the kernel has said that
            // it is done with them, or never (ZL-RG-1, `drop`). A read's buffer is its own (ZL-BF-1); what is written is shared
            // bytes that nobody changes. The file is open: `self.file` holds it.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            if pushed.is_err() {
                // There are as many entries as may be in flight, but the kernel may not have taken the last ones.
                self.queue.push_front(key);
                break;
            }
            self.in_flight += 1;
        }
    }

    fn collect(&mut self, out: &mut Vec<Completed<T>>) {
        let Self { ring, operations, free, queue, in_flight, .. } = self;
        for event in ring.completion() {
            *in_flight -= 1;
            let key = event.user_data() as usize;
            let Some(place) = operations.get_mut(key) else { continue };
            let Some(operation) = place.as_mut() else { continue };
            let Some(result) = operation.step(event.result()) else {
                queue.push_front(key);
                continue;
            };
            if let Some(Operation { io, tag, .. }) = place.take() {
                free.push(key);
                out.extend(tag.map(|tag| Completed { tag, result: result.map(|()| io.finish()) }));
            }
        }
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        let mut out = Vec::new();
        if self.drain(&mut out).is_err() {
            // The kernel does not say which memory it still has: it must never be used again.
            std::mem::forget(std::mem::take(&mut self.operations));
            std::mem::forget(self.pool.clone());
        }
    }
}

impl Io {
    /// Bytes of the read, once the operation is done and whole.
    fn finish(self) -> Bytes {
        match self {
            // SAFETY: the kernel has said that the operation is done, and the buffer is given to no other: it is moved.
            Self::Read(buffer) => unsafe { buffer.freeze() },
            Self::Write(..) | Self::Flush | Self::Destage(_) => Bytes::new(),
        }
    }
}

impl<T> Operation<T> {
    /// Rest of the operation, for the kernel. The entry points into `self`'s memory on the heap.
    fn entry(&mut self, fd: Fd, pool: &Pool, registered: bool) -> Entry {
        let at = self.at + self.done as u64;
        match &self.io {
            Io::Flush => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
            Io::Destage(length) => {
                let length = (*length).min(TRANSFER_MAX) as u32;
                opcode::SyncFileRange::new(fd, length).offset(at).flags(libc::SYNC_FILE_RANGE_WRITE).build()
            }
            Io::Read(buffer) => {
                let start = buffer.start().wrapping_add(self.done);
                let length = (self.total - self.done).min(TRANSFER_MAX) as u32;
                if registered && buffer.pooled() {
                    opcode::ReadFixed::new(fd, start, length, 0).offset(at).build()
                } else {
                    opcode::Read::new(fd, start, length).offset(at).build()
                }
            }
            Io::Write(data, limit) => {
                self.pieces = gather(data, self.done, *limit);
                match self.pieces[..] {
                    [piece] => {
                        let start = piece.iov_base.cast::<u8>().cast_const();
                        let length = piece.iov_len as u32;
                        if registered && data.len() == 1 && data.iter().all(|bytes| pool.holds(bytes)) {
                            opcode::WriteFixed::new(fd, start, length, 0).offset(at).build()
                        } else {
                            opcode::Write::new(fd, start, length).offset(at).build()
                        }
                    }
                    ref pieces => opcode::Writev::new(fd, pieces.as_ptr(), pieces.len() as u32).offset(at).build(),
                }
            }
        }
    }

    /// Takes in the kernel's answer; `None`: the operation goes on.
    fn step(&mut self, answer: i32) -> Option<io::Result<()>> {
        if answer < 0 {
            let again = matches!(-answer, libc::EAGAIN | libc::EINTR) && self.tries < TRIES;
            self.tries += u8::from(again);
            return (!again).then(|| Err(io::Error::from_raw_os_error(-answer)));
        }
        self.done += answer as usize;
        match self.done >= self.total {
            true => Some(Ok(())),
            // Nothing more comes: the drive ends before the range does.
            false if answer == 0 => Some(Err(io::Error::from_raw_os_error(libc::EIO))),
            false => None,
        }
    }
}

/// Pieces behind the first `done` bytes, up to `limit` bytes.
fn gather(data: &[Bytes], done: usize, limit: usize) -> Vec<libc::iovec> {
    let (mut skip, mut room) = (done, limit);
    let mut pieces = Vec::with_capacity(data.len().min(GATHER_MAX));
    for piece in data {
        let Some(rest) = piece.get(skip..).filter(|rest| !rest.is_empty()) else {
            skip -= piece.len();
            continue;
        };
        skip = 0;
        let rest = &rest[..rest.len().min(room)];
        if rest.is_empty() || pieces.len() == GATHER_MAX {
            break;
        }
        room -= rest.len();
        pieces.push(libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() });
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(data: &[Bytes], done: usize, limit: usize) -> Vec<(usize, usize)> {
        let offset = |piece: &libc::iovec| {
            let at = piece.iov_base as usize;
            let found = data.iter().position(|bytes| bytes.as_ptr_range().contains(&(at as *const u8))).unwrap();
            (found, at - data[found].as_ptr() as usize, piece.iov_len)
        };
        gather(data, done, limit).iter().map(offset).map(|(found, from, length)| (found * 10 + from, length)).collect()
    }

    /// ZL-RG-2.
    #[test]
    fn what_is_left_of_a_write_is_gathered() {
        let data = [Bytes::from(vec![1; 8]), Bytes::from(vec![2; 4]), Bytes::from(vec![3; 8])];
        assert_eq!(lengths(&data, 0, 100), [(0, 8), (10, 4), (20, 8)]);
        assert_eq!(lengths(&data, 0, 10), [(0, 8), (10, 2)]);
        assert_eq!(lengths(&data, 8, 4), [(10, 4)]);
        assert_eq!(lengths(&data, 10, 100), [(12, 2), (20, 8)]);
        assert_eq!(lengths(&data, 19, 100), [(27, 1)]);
        assert_eq!(lengths(&data, 20, 100), []);
        let many: Vec<Bytes> = (0..2000).map(|_| Bytes::from(vec![0; 2])).collect();
        assert_eq!((gather(&many, 0, 1 << 20).len(), gather(&many, 2 * 1024, 1 << 20).len()), (1024, 976));
    }

    #[test]
    fn an_abandoned_ring_gives_back_its_tags_and_leaves_the_kernel_its_memory() {
        use std::io::Write;
        let (file, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut ring = Ring::new(Arc::new(file)).unwrap();
        let mut done = Vec::new();
        let buffer = ring.read_buffer(4096);
        let start = buffer.start() as usize;
        assert_eq!(ring.push(Io::Read(buffer), 0, 1), None);
        ring.turn(&mut done).unwrap();
        let kept = ring.sever();
        let buffer = ring.read_buffer(4096);
        assert_eq!(ring.push(Io::Read(buffer), 0, 2), None);
        assert!(ring.turn(&mut done).is_err() && done.is_empty());
        assert_eq!(ring.abandon(), [1, 2]);
        assert_eq!(ring.push(Io::Flush, 0, 3), Some(3));
        assert!(!ring.ready() && ring.abandon().is_empty());
        let others: Vec<ReadBuffer> = (0..400).map(|_| ring.read_buffer(4096)).collect();
        assert!(others.iter().all(|other| other.start() as usize != start), "ZL-RG-1");
        // SAFETY: both are open, and the ring's number gets its own file back.
        assert!(unsafe { libc::dup2(kept.as_raw_fd(), ring.ring.as_raw_fd()) } >= 0);
        other.write_all(&[7; 8192]).unwrap();
        assert!(ring.close().is_empty(), "nobody wants to know any more");
    }
}
