//! The queue of a ublk disk: requests that the kernel gives, and their answers.
//!
//! The queue belongs to the thread that made it, as the kernel wants it: there it lies beside the owner of the disk's data. A request's
//! data are copied by reads and writes of the server's node.
//!
//! **Owns** the ring, the shared memory of descriptors, and each request until it is answered. **Knows nothing of** the meaning of requests.
//!
//! # Invariants
//! - ZL-UB-2: a request is answered once: also one that is dropped, as failed. (`Request::drop`)
//! - ZL-UB-3: a descriptor is read only between its fetch and its answer, while the kernel leaves it alone.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::event::{EventfdFlags, eventfd};
use shingle_base::{AlignedBuf, Blocks};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::abi::{Answer, COMMIT_AND_FETCH, Descriptor, FETCH, data_at};
use super::command::UblkCommand;
use super::control::{DEPTH, Id};
use super::error::{UblkError, UblkErrorKind};

/// `IORING_ENTER_GETEVENTS`: run completions, so that their events are seen.
const GET_EVENTS: u32 = 1;
/// Bytes of the descriptors: whole pages.
const DESCRIPTORS_BYTES: usize = (DEPTH as usize * size_of::<Descriptor>()).next_multiple_of(4096);

/// Descriptors that the kernel writes.
struct Descriptors(NonNull<u8>);

impl Descriptors {
    fn map(file: &File) -> io::Result<Self> {
        // SAFETY: a new mapping, at an address of the kernel's choice, takes the place of nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                DESCRIPTORS_BYTES,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(start.cast()).map(Self).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// That of a request which was fetched and is not answered.
    fn get(&self, tag: u16) -> Descriptor {
        assert!(tag < DEPTH, "a tag of the queue");
        // SAFETY: the mapping has `DEPTH` descriptors behind each other and lives as long as `self`; it begins at a page, so each
        // is aligned. The kernel wrote this one before it completed the fetch and does not write it again before the answer
        // (ZL-UB-3); any bytes are a valid one.
        unsafe { self.0.cast::<Descriptor>().add(usize::from(tag)).read_volatile() }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: it is our mapping, of this length; no descriptor is borrowed from it.
        unsafe { libc::munmap(self.0.as_ptr().cast(), DESCRIPTORS_BYTES) };
    }
}

/// The ring with what wakes its reader. Fields are dropped in this order.
struct Ring {
    watch: AsyncFd<OwnedFd>,
    ring: IoUring,
}

impl Ring {
    fn new() -> io::Result<Self> {
        // Completions are seen only when this thread asks for them, as in the ring of drives (`crate::ring`).
        let deferred = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .build(u32::from(DEPTH));
        let ring = deferred.or_else(|_| IoUring::new(u32::from(DEPTH)))?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        ring.submitter().register_eventfd(event.as_raw_fd())?;
        // SAFETY: the descriptor is the watch's own, open until the watch has deregistered and dropped it, and nobody
        // exchanges it. The kernel's ring holds the event by itself.
        let watch = unsafe { AsyncFd::register_with_interest(event, Interest::READABLE) }?;
        Ok(Self { watch, ring })
    }

    /// Queues a command on the server's node.
    fn push(&mut self, file: &File, number: u32, answer: Answer) {
        let entry = opcode::UringCmd16::new(Fd(file.as_raw_fd()), number)
            .cmd(answer.to_bytes())
            .build()
            .user_data(u64::from(answer.tag));
        // SAFETY: the entry names no memory; the file is open for as long as the ring is there.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        // Each tag has one command at most that the kernel has not taken, and the ring has room for one of each.
        assert!(pushed.is_ok(), "the ring has room for a command of each tag");
    }

    /// True if the kernel is to be entered.
    fn owes(&mut self) -> bool {
        let submission = self.ring.submission();
        submission.taskrun() || submission.cq_overflow() || !submission.is_empty()
    }

    fn enter(&mut self) -> io::Result<()> {
        let queued = self.ring.submission().len() as u32;
        // SAFETY: without an argument the call reads and writes only the ring; its entries name no memory.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None) }?;
        Ok(())
    }
}

/// The queue of a disk, on the thread that serves it.
struct Queue {
    // The ring first: its commands hold the file's end.
    ring: RefCell<Ring>,
    descriptors: Descriptors,
    file: File,
    /// Tags whose requests were fetched and not given out.
    fetched: RefCell<VecDeque<u16>>,
    /// Tags for which the kernel may still give a request, or is owed an answer.
    live: Cell<u16>,
    reader: RefCell<Option<Waker>>,
}

/// Requests of a disk, one after the other.
pub struct UblkRequests(Rc<Queue>);

impl UblkRequests {
    /// Begins to fetch the disk's requests, on this thread, which serves them from now on.
    pub(super) fn begin(id: Id) -> Result<Self, UblkError> {
        let node = |error| UblkError::refused("the disk's node for its server", error);
        let file = File::options().read(true).write(true).open(id.server_node()).map_err(node)?;
        let descriptors = Descriptors::map(&file).map_err(|error| UblkError::refused("its shared memory", error))?;
        let mut ring = Ring::new().map_err(|error| UblkError::new(UblkErrorKind::NoRing(error)))?;
        for tag in 0..DEPTH {
            ring.push(&file, FETCH, Answer { queue: 0, tag, result: 0, appended: 0 });
        }
        // The disk can be started only once the kernel has all of them.
        ring.enter().map_err(|error| UblkError::refused("fetching requests", error))?;
        let (fetched, live) = (RefCell::default(), Cell::new(DEPTH));
        let ring = RefCell::new(ring);
        Ok(Self(Rc::new(Queue { ring, descriptors, file, fetched, live, reader: RefCell::default() })))
    }

    /// The next request; `None` once the disk was stopped and all are answered.
    pub async fn next(&mut self) -> Option<UblkRequest> {
        std::future::poll_fn(|context| self.0.poll_next(context)).await
    }
}

impl Queue {
    fn poll_next(self: &Rc<Self>, context: &mut Context<'_>) -> Poll<Option<UblkRequest>> {
        // Asked for before looking, so that no answer behind the look is missed.
        *self.reader.borrow_mut() = Some(context.waker().clone());
        loop {
            if let Some(tag) = self.fetched.borrow_mut().pop_front() {
                let command = UblkCommand::of(&self.descriptors.get(tag));
                return Poll::Ready(Some(UblkRequest { queue: self.clone(), tag, command, answered: false }));
            }
            if self.live.get() == 0 {
                return Poll::Ready(None);
            }
            let mut ring = self.ring.borrow_mut();
            // Forgets the readiness first: a completion from here on makes the event ready again.
            while let Poll::Ready(Ok(mut ready)) = ring.watch.poll_read_ready(context) {
                ready.clear_ready();
            }
            if ring.owes()
                && let Err(error) = ring.enter()
            {
                if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::EINTR)) {
                    tracing::error!(%error, "the kernel refuses to go on with the ring of a disk");
                    self.live.set(0);
                    return Poll::Ready(None);
                }
                context.waker().wake_by_ref();
            }
            if !self.collect(&mut ring) {
                return Poll::Pending;
            }
        }
    }

    /// Takes completions; `false`: there are none.
    fn collect(&self, ring: &mut Ring) -> bool {
        let mut some = false;
        for event in ring.ring.completion() {
            some = true;
            match (u16::try_from(event.user_data()), event.result()) {
                (Ok(tag), 0) if tag < DEPTH => self.fetched.borrow_mut().push_back(tag),
                (_, result) => {
                    // The disk is stopped: there are no more requests with this tag.
                    self.live.set(self.live.get().saturating_sub(1));
                    if result != -libc::ENODEV {
                        let error = io::Error::from_raw_os_error(-result);
                        tracing::error!(%error, "the kernel gives no more requests with a tag of a disk");
                    }
                }
            }
        }
        some
    }

    fn answer(&self, tag: u16, result: i32, appended: u64) {
        self.ring.borrow_mut().push(&self.file, COMMIT_AND_FETCH, Answer { queue: 0, tag, result, appended });
        if let Some(reader) = self.reader.borrow_mut().take() {
            reader.wake();
        }
    }
}

/// A request of the kernel. Dropped without an answer, it fails.
pub struct UblkRequest {
    queue: Rc<Queue>,
    tag: u16,
    command: UblkCommand,
    answered: bool,
}

impl UblkRequest {
    /// Its meaning.
    pub fn command(&self) -> UblkCommand {
        self.command
    }

    /// The data that it brings, in memory aligned to a block; empty if it brings none.
    ///
    /// # Errors
    /// The kernel does not give them.
    pub fn data(&self) -> io::Result<Bytes> {
        let length = self.command.bytes_in();
        if length == 0 {
            return Ok(Bytes::new());
        }
        let mut buffer = AlignedBuf::zeroed(Blocks::holding(length as u64));
        let wanted = buffer.get_mut(..length).ok_or(io::ErrorKind::InvalidData)?;
        self.queue.file.read_exact_at(wanted, data_at(self.tag))?;
        Ok(buffer.freeze().slice(..length))
    }

    /// Answers it with `data`, one piece behind the other.
    pub fn done_with(self, data: &[Bytes]) {
        let mut at = 0;
        for piece in data {
            if let Err(error) = self.queue.file.write_all_at(piece, data_at(self.tag) + at) {
                tracing::warn!(%error, "the kernel does not take the data of a request");
                return self.failed(libc::EIO);
            }
            at += piece.len() as u64;
        }
        // A report that is shorter than its memory is whole all the same; the kernel takes no more than all of it.
        let result = if self.command.is_report() { i32::MAX } else { at as i32 };
        self.end(result, 0);
    }

    /// Answers it: done.
    pub fn done(self) {
        let bytes = self.command.bytes_in() as i32;
        self.end(bytes, 0);
    }

    /// Answers an append: it landed at this sector.
    pub fn appended(self, sector: u64) {
        let bytes = self.command.bytes_in() as i32;
        self.end(bytes, sector);
    }

    /// Answers it: failed, with the system's number of an error.
    pub fn failed(self, errno: i32) {
        self.end(-errno.saturating_abs().max(1), 0);
    }

    fn end(mut self, result: i32, appended: u64) {
        self.answered = true;
        self.queue.answer(self.tag, result, appended);
    }
}

impl Drop for UblkRequest {
    fn drop(&mut self) {
        if !self.answered {
            self.queue.answer(self.tag, -libc::EIO, 0);
        }
    }
}
