//! Control of the kernel's ublk disks: adding, starting, stopping, deleting.
//!
//! **Owns** the calls, one at a time, each through a ring of its own: they are few. **Knows nothing of** requests.
//!
//! # Invariants
//! - ZL-UB-1: only disks that carry our mark are stopped or deleted. (`only_the_dead_with_our_mark_are_removed`)

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};

use super::abi::{
    ADD, ANY_ID, ControlCommand, DEAD, DELETE, DELETE_LATER, GET_FEATURES, GET_INFO, IOCTL_NUMBERS, Info, NO_QUEUE,
    Parameters, SET_PARAMETERS, START, STOP, USER_COPY, ZONED,
};
use super::error::{UblkError, UblkErrorKind};
use super::shape::{UBLK_TRANSFER_MAX, UblkShape};

/// The driver's node.
const NODE: &str = "/dev/ublk-control";
/// Mark of our disks, in the bits that the driver keeps for servers.
const OWN: u64 = u64::from_be_bytes(*b"shingle1");
/// Requests that the kernel gives us at a time.
pub(super) const DEPTH: u16 = 64;

/// Looks at a disk whose process was killed, and the pause between them: a second together.
const SWEEP_TRIES: u32 = 20;
const SWEEP_PAUSE: Duration = Duration::from_millis(50);

/// Number of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(pub(super) u32);

impl Id {
    /// The disk's node.
    pub(super) fn node(self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkb{}", self.0))
    }

    /// The node by which its server serves it.
    pub(super) fn server_node(self) -> PathBuf {
        PathBuf::from(format!("/dev/ublkc{}", self.0))
    }

    /// The disk whose node has this name.
    pub(super) fn of_node(node: &Path) -> Option<Self> {
        number_behind(node.file_name()?.to_str()?, "ublkb")
    }
}

fn number_behind(name: &str, before: &str) -> Option<Id> {
    let digits = name.strip_prefix(before)?;
    let canonical = digits == "0" || !digits.starts_with('0');
    digits.parse().ok().filter(|_| canonical && digits.bytes().all(|byte| byte.is_ascii_digit())).map(Id)
}

/// The driver, opened.
pub(super) struct Control(File);

impl Control {
    /// # Errors
    /// `NoDriver`, `Permission`, `System`.
    pub(super) fn open() -> Result<Self, UblkError> {
        let opened = File::options().read(true).write(true).open(NODE);
        opened.map(Self).map_err(|error| match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::NotFound, _) | (_, Some(libc::ENODEV | libc::ENXIO)) => {
                UblkError::new(UblkErrorKind::NoDriver)
            }
            _ => UblkError::refused("its node /dev/ublk-control", error),
        })
    }

    /// Checks that the driver can do all that a disk, or a zoned one, needs.
    ///
    /// # Errors
    /// `TooOld`, `NoRing`, `System`.
    pub(super) fn check(&self, zoned: bool) -> Result<(), UblkError> {
        let ring = IoUring::<squeue::Entry128, cqueue::Entry>::builder().build(2);
        ring.map_err(|error| UblkError::new(UblkErrorKind::NoRing(error)))?;
        let mut features = 0_u64;
        // SAFETY: the command writes 8 bytes, and `features` is that many, all of whose values are valid.
        let asked = unsafe { self.send(GET_FEATURES, Id(ANY_ID), 0, &raw mut features) };
        match asked.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) => judge(features, zoned),
            // Drivers before 6.5 have no such question.
            Err((Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENODEV), _)) => judge(0, zoned),
            Err((_, error)) => Err(UblkError::refused("its features", error)),
        }
    }

    /// Adds a disk, which nobody sees yet.
    ///
    /// # Errors
    /// `Permission`, `System`.
    pub(super) fn add(&self, zoned: bool) -> Result<Id, UblkError> {
        let mut info = Info {
            queues: 1,
            depth: DEPTH,
            transfer_max: UBLK_TRANSFER_MAX,
            id: ANY_ID,
            process: std::process::id() as i32,
            features: IOCTL_NUMBERS | USER_COPY | if zoned { ZONED } else { 0 },
            own: OWN,
            ..Info::default()
        };
        let wanted = info.features;
        // SAFETY: the command reads and writes a `ublksrv_ctrl_dev_info`, which `Info` is, of plain integers.
        unsafe { self.send(ADD, Id(ANY_ID), 0, &raw mut info) }
            .map_err(|error| UblkError::refused("adding a disk", error))?;
        let id = Id(info.id);
        if info.features & wanted != wanted || info.depth != DEPTH || info.transfer_max < UBLK_TRANSFER_MAX {
            // It was not seen by anybody.
            let _ = self.delete(id);
            let lacks = "feature that it said it has";
            return Err(UblkError::new(UblkErrorKind::TooOld { lacks, since: "6.6" }));
        }
        Ok(id)
    }

    /// Tells the kernel of the disk's shape.
    ///
    /// # Errors
    /// `Shape`, `System`.
    pub(super) fn describe(&self, id: Id, shape: &UblkShape) -> Result<(), UblkError> {
        let mut all: Parameters = shape.parameters().map_err(|why| UblkError::new(UblkErrorKind::Shape(why)))?;
        // SAFETY: the command reads as many bytes of a `ublk_params` as its first field says: those of `Parameters`.
        let told = unsafe { self.send(SET_PARAMETERS, id, 0, &raw mut all) };
        told.map(drop).map_err(|error| UblkError::refused("the shape of the disk", error))
    }

    /// Makes the disk's node. Its requests must be served meanwhile, by this process.
    ///
    /// # Errors
    /// `System`.
    pub(super) fn start(&self, id: Id) -> Result<(), UblkError> {
        self.plain(START, id, u64::from(std::process::id()))
            .map_err(|error| UblkError::refused("starting the disk", error))
    }

    /// Takes the disk's node away, once what was written to it has been served. Returns at once where it is not started.
    ///
    /// # Errors
    /// `System`.
    pub(super) fn stop(&self, id: Id) -> Result<(), UblkError> {
        self.plain(STOP, id, 0).map_err(|error| UblkError::refused("stopping the disk", error))
    }

    /// Deletes the disk. Its server's node must be closed. One that is still mounted is deleted once it is not any more.
    ///
    /// # Errors
    /// `System`.
    pub(super) fn delete(&self, id: Id) -> Result<(), UblkError> {
        let deleted = match self.plain(DELETE_LATER, id, 0) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => self.plain(DELETE, id, 0),
            done => done,
        };
        match deleted {
            // Another process has taken it for a leftover.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(()),
            other => other.map_err(|error| UblkError::refused("deleting the disk", error)),
        }
    }

    /// The disk's state; `None`: there is none, or it is another server's.
    ///
    /// # Errors
    /// `Permission`, `System`.
    pub(super) fn info(&self, id: Id) -> Result<Option<Info>, UblkError> {
        let mut info = Info::default();
        // SAFETY: the command writes a `ublksrv_ctrl_dev_info`, which `Info` is, of plain integers.
        match unsafe { self.send(GET_INFO, id, 0, &raw mut info) } {
            Ok(_) => Ok(Some(info).filter(is_ours)),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(UblkError::refused("the state of a disk", error)),
        }
    }

    /// Deletes disks that processes of ours left when they were killed. Another process may do the same.
    #[expect(clippy::disallowed_methods, reason = "it blocks its caller, as all commands here do")]
    pub(super) fn sweep(&self) {
        // A process has no program any more once it is killed, even if nobody has asked for its end.
        let lives = |process| std::fs::read_link(format!("/proc/{process}/exe")).is_ok();
        let nodes = std::fs::read_dir("/dev").into_iter().flatten().flatten();
        for id in nodes.filter_map(|node| number_behind(node.file_name().to_str()?, "ublkc")) {
            for _ in 0..SWEEP_TRIES {
                let Ok(Some(info)) = self.info(id) else { break };
                match Standing::of(&info, lives) {
                    Standing::Served => break,
                    Standing::Ending => std::thread::sleep(SWEEP_PAUSE),
                    Standing::Left => {
                        if let Err(error) = self.delete(id) {
                            tracing::warn!("a disk that a killed process left: {error}");
                        }
                        break;
                    }
                }
            }
        }
    }

    /// A command without memory.
    fn plain(&self, number: u32, id: Id, data: u64) -> io::Result<()> {
        // SAFETY: the command names no memory.
        unsafe { self.send::<()>(number, id, data, std::ptr::null_mut()) }.map(drop)
    }

    /// Sends a command, and waits for its answer.
    ///
    /// # Safety
    /// `memory` is null, or points to a `T` that the command may read and write as the driver does, for which all bytes that the
    /// driver writes are valid.
    unsafe fn send<T>(&self, number: u32, id: Id, data: u64, memory: *mut T) -> io::Result<i32> {
        let mut ring: IoUring<squeue::Entry128, cqueue::Entry> = IoUring::builder().build(2)?;
        let length = if memory.is_null() { 0 } else { size_of::<T>() as u16 };
        let command = ControlCommand {
            id: id.0,
            queue: NO_QUEUE,
            length,
            address: memory as u64,
            data,
            path_length: 0,
            padding: 0,
            reserved: 0,
        };
        let entry = opcode::UringCmd80::new(Fd(self.0.as_raw_fd()), number).cmd(command.to_bytes()).build();
        // SAFETY: the entry names `memory`, which the caller lends until this function returns; and it returns once the kernel
        // has answered the command, or has not taken it. The file is open through the call.
        unsafe { ring.submission().push(&entry) }.map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))?;
        loop {
            match ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It may have the command already: the memory is its own until the answer.
                Err(error) if ring.submission().is_empty() && ring.completion().is_empty() => {
                    tracing::warn!(%error, "the answer of the ublk driver is waited for again");
                    std::thread::yield_now();
                }
                Err(error) => return Err(error),
            }
            if let Some(event) = ring.completion().next() {
                let result = event.result();
                return if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result) };
            }
        }
    }
}

/// True for a disk with our mark.
fn is_ours(info: &Info) -> bool {
    info.own == OWN
}

/// A driver with these features can serve a disk, or a zoned one.
fn judge(features: u64, zoned: bool) -> Result<(), UblkError> {
    let old = |lacks, since| Err(UblkError::new(UblkErrorKind::TooOld { lacks, since }));
    if features & USER_COPY == 0 {
        return old("copies by its server", "6.5");
    }
    if zoned && features & ZONED == 0 {
        return old("zoned disks", "6.6");
    }
    Ok(())
}

/// The standing of a disk with our mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// A process serves it, or is about to.
    Served,
    /// Its process seems to be gone, and the kernel has not noticed. That may take a moment; or the process is one of another
    /// namespace, which cannot be seen from here: so nothing is done until the kernel says that it is gone.
    Ending,
    /// Its process is gone.
    Left,
}

impl Standing {
    fn of(info: &Info, lives: impl FnOnce(i32) -> bool) -> Self {
        match (info.process > 0 && lives(info.process), info.state) {
            (true, _) => Self::Served,
            (false, DEAD) => Self::Left,
            (false, _) => Self::Ending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ZL-UB-1: those without it are not even looked at (`Control::info`).
    #[test]
    fn only_the_dead_with_our_mark_are_removed() {
        let of =
            |state, process| Standing::of(&Info { own: OWN, state, process, ..Info::default() }, |alive| alive == 77);
        assert_eq!((of(DEAD, -1), of(DEAD, 78)), (Standing::Left, Standing::Left));
        assert_eq!(of(DEAD, 77), Standing::Served, "it is about to start");
        assert_eq!(of(1, 77), Standing::Served);
        assert_eq!((of(1, 78), of(2, -1)), (Standing::Ending, Standing::Ending));
        assert!(is_ours(&Info { own: OWN, ..Info::default() }) && !is_ours(&Info::default()));
    }

    #[test]
    fn disks_have_numbers_in_their_names() {
        let of = |name: &str| Id::of_node(Path::new(name)).map(|id| id.0);
        assert_eq!((of("/dev/ublkb0"), of("/dev/ublkb12"), of("ublkb7")), (Some(0), Some(12), Some(7)));
        for other in ["/dev/ublkc0", "/dev/ublkb", "/dev/ublkb01", "/dev/ublkb0p1", "/dev/ublkb+1", "/dev/sda"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(Id(3).node(), Path::new("/dev/ublkb3"));
    }

    #[test]
    fn old_drivers_are_told_by_their_features() {
        assert!(judge(USER_COPY | ZONED, true).is_ok() && judge(USER_COPY, false).is_ok());
        let why = |features, zoned| judge(features, zoned).unwrap_err();
        assert!(why(USER_COPY, true).to_string().contains("zoned disks") && why(USER_COPY, true).is_lack());
        assert!(why(0, false).to_string().contains("Linux 6.5"));
    }
}
