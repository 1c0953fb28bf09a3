//! The access log: a JSON line for each request, in a file or in the server's log.
//!
//! A thread of its own writes it, so that requests never wait for a disk. If the thread falls behind, lines are dropped
//! and counted, and the count is a line of the log.
//!
//! # Invariants
//! - SV-ALOG-1: the file is opened anew by [`AccessWriter::reopen`] and begins where the last one ended: no line is lost between the two.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use shingle_s3_gateway::{Access, AccessLog, RequestIds};

use crate::error::{Error, Result};
use crate::reports::health::utc_ms;

/// Lines that wait to be written.
const LINES_MAX: usize = 16 << 10;
/// Pause between tries to open a file that could not be written.
const RETRY: Duration = Duration::from_secs(5);

/// Destination of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Standard error, beside the log.
    Log,
    File(PathBuf),
}

enum Message {
    Line(Box<Access>),
    Reopen,
}

/// The way to the thread that writes. It ends with the last of its kind.
#[derive(Debug)]
pub(crate) struct AccessWriter {
    lines: SyncSender<Message>,
    dropped: AtomicU64,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Message")
    }
}

/// The access log, and the ids of its lines, for changes that do not come through the gateway.
#[derive(Clone)]
pub(crate) struct AccessNotes {
    pub(crate) log: Arc<AccessWriter>,
    pub(crate) ids: RequestIds,
}

/// A line as it is written.
#[derive(serde::Serialize)]
struct Line<'a> {
    time: String,
    id: &'a str,
    peer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<&'a str>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    received_bytes: u64,
    sent_bytes: u64,
    whole: bool,
    seconds: f64,
    /// Lines dropped before this one.
    #[serde(skip_serializing_if = "is_zero")]
    lines_lost: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl AccessWriter {
    /// Starts the thread. The file is made if it is not there, for its owner alone.
    ///
    /// # Errors
    /// `System` if the file cannot be opened, or there is no thread.
    pub(crate) fn start(place: Destination) -> Result<Self> {
        let mut sink = Sink::open(&place)?;
        let (lines, waiting) = sync_channel(LINES_MAX);
        let write = move || sink.write_all(&place, &waiting);
        let spawned = std::thread::Builder::new().name("access-log".to_owned()).spawn(write);
        spawned.map_err(|error| Error::system("no thread for the access log", error))?;
        Ok(Self { lines, dropped: AtomicU64::new(0) })
    }

    /// Opens the file anew, behind all lines so far: it may have been renamed. (SV-ALOG-1)
    pub(crate) fn reopen(&self) {
        if self.lines.try_send(Message::Reopen).is_err() {
            tracing::warn!("the access log is behind and was not opened anew: try again");
        }
    }
}

impl AccessLog for AccessWriter {
    fn note(&self, access: Access) {
        if self.lines.try_send(Message::Line(Box::new(access))).is_err() && self.dropped.fetch_add(1, Relaxed) == 0 {
            tracing::warn!("the access log cannot be written fast enough: lines are lost");
        }
    }
}

/// Destination that lines are written to.
enum Sink {
    Log,
    File(File),
    /// The file could not be opened or written.
    Gone,
}

impl Sink {
    fn open(place: &Destination) -> Result<Self> {
        match place {
            Destination::Log => Ok(Self::Log),
            Destination::File(path) => {
                let opened =
                    open(path).map_err(|error| Error::system(format_args!("the access log {}", path.display()), error));
                opened.map(Self::File)
            }
        }
    }

    fn write_all(&mut self, place: &Destination, waiting: &Receiver<Message>) {
        let (mut text, mut lost) = (Vec::new(), 0);
        loop {
            let message = match waiting.recv_timeout(RETRY) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => {
                    self.again(place);
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // All waiting lines are written at once.
            for message in std::iter::once(message).chain(waiting.try_iter()) {
                match message {
                    Message::Line(access) => add_line(&mut text, &access, std::mem::take(&mut lost)),
                    Message::Reopen => {
                        lost += self.flush(&mut text);
                        *self = Self::Gone;
                        self.again(place);
                    }
                }
            }
            lost += self.flush(&mut text);
        }
    }

    fn again(&mut self, place: &Destination) {
        if matches!(self, Self::Gone) {
            match Self::open(place) {
                Ok(sink) => *self = sink,
                Err(error) => tracing::warn!("{error}"),
            }
        }
    }

    /// Writes the lines; returns the number lost.
    fn flush(&mut self, text: &mut Vec<u8>) -> u64 {
        let written = match self {
            Self::Log => io::stderr().write_all(text),
            Self::File(file) => file.write_all(text),
            Self::Gone => Err(io::Error::other("not open")),
        };
        let lines = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        text.clear();
        match written {
            Ok(()) => 0,
            Err(error) => {
                if !matches!(self, Self::Gone) {
                    tracing::warn!("the access log cannot be written, and is tried again: {error}");
                    *self = Self::Gone;
                }
                lines
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

fn add_line(text: &mut Vec<u8>, access: &Access, lines_lost: u64) {
    let since = access.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let line = Line {
        time: utc_ms(since),
        id: &access.id,
        peer: access.peer.to_string(),
        key_id: access.key_id.as_deref(),
        method: access.method.as_str(),
        operation: access.operation.as_deref(),
        bucket: access.bucket.as_deref(),
        key: access.key.as_deref(),
        path: access.path.as_deref(),
        status: access.status,
        error: access.error.as_deref(),
        received_bytes: access.received_bytes,
        sent_bytes: access.sent_bytes,
        whole: access.whole,
        seconds: (access.took.as_secs_f64() * 1e6).round() / 1e6,
        lines_lost,
    };
    // Memory takes all; no map has keys that are no text.
    if serde_json::to_writer(&mut *text, &line).is_ok() {
        text.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use shingle_s3_gateway::Peer;

    use super::*;

    fn access(id: usize) -> Access {
        let peer = Peer::Address([127, 0, 0, 1].into());
        let begun = Access::begun(SystemTime::UNIX_EPOCH, id.to_string(), peer, hyper::Method::GET);
        Access { status: 200, whole: true, ..begun }
    }

    /// SV-ALOG-1: the file is renamed while lines come, as logrotate does it.
    #[expect(clippy::disallowed_methods, reason = "the log is written by a thread, outside simulations")]
    #[test]
    fn a_renamed_file_and_the_new_one_have_all_lines_together() {
        let folder = std::env::temp_dir().join(format!("shingle-access-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let (present, older) = (folder.join("log"), folder.join("log.1"));
        let writer = AccessWriter::start(Destination::File(present.clone())).unwrap();
        let lines = |path: &Path| -> Vec<usize> {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let id = |line: &str| line.split("\"id\":\"").nth(1)?.split('"').next()?.parse().ok();
            text.lines().map(|line| id(line).unwrap()).collect()
        };
        (0..500).for_each(|id| writer.note(access(id)));
        std::fs::rename(&present, &older).unwrap();
        (500..1000).for_each(|id| writer.note(access(id)));
        writer.reopen();
        (1000..1500).for_each(|id| writer.note(access(id)));
        let began = std::time::Instant::now();
        while lines(&present).last() != Some(&1499) {
            assert!(began.elapsed() < Duration::from_secs(20), "the last line does not come");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(lines(&older), (0..1000).collect::<Vec<_>>());
        assert_eq!(lines(&present), (1000..1500).collect::<Vec<_>>());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
