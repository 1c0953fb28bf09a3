//! fio's nbd engine, as the client of both servers.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::bench::device::fio;
use crate::failure::{Failure, Outcome};

/// Requests that wait at a time.
const DEPTH: u64 = 32;

/// A load.
pub(super) struct Load {
    /// fio's name of the pattern.
    pub(super) pattern: &'static str,
    pub(super) block_bytes: u64,
    /// Bytes that are moved.
    pub(super) bytes: u64,
}

impl Load {
    /// Bytes a second of the export behind a socket, of which `size` bytes are used.
    pub(super) fn run(&self, socket: &Path, size: u64, scratch: &Path) -> Outcome<f64> {
        let mut command = Command::new("fio");
        command.args(["--name=volume", "--ioengine=nbd", "--output-format=json", "--norandommap", "--randrepeat=0"]);
        command.arg(format!("--uri=nbd+unix:///?socket={}", socket.display()));
        command.arg(format!("--aux-path={}", scratch.display()));
        let numbers = [("bs", self.block_bytes), ("iodepth", DEPTH), ("size", size), ("io_size", self.bytes)];
        command.args(numbers.map(|(name, value)| format!("--{name}={value}")));
        command.arg(format!("--rw={}", self.pattern));
        let done = command.stdin(Stdio::null()).output()?;
        if !done.status.success() {
            return Err(Failure::new(format!("fio: {}", String::from_utf8_lossy(&done.stderr).trim())));
        }
        fio::rate(&done.stdout, self.pattern).ok_or_else(|| Failure::new("fio's answer makes no sense"))
    }
}
