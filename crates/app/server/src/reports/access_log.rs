//! The access log: a JSON line for each request, in a file or in the server's log.
//!
//! A thread of its own writes it, so that requests never wait for a disk. If the thread falls behind, lines are dropped
//! and counted, and the count is a line of the log.
//!
//! # Invariants
//! - SV-ALOG-1: the file is opened anew by [`AccessWriter::reopen`] and begins where the last one ended: no line is lost between the two.
//! - SV-ALOG-3: each line that is lost, for want of room or because it could not be written, is counted once in `lines_lost` of a later line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::Access as Mode;
use shingle_s3_gateway::{Access, AccessLog, RequestIds};

use crate::error::{Error, Result};
use crate::reports::health::utc_ms;

/// Lines that wait to be written.
const LINES_MAX: usize = 16 << 10;
/// Pause between tries to open a file that could not be written.
const RETRY: Duration = if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(5) };

/// Destination of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Standard error, beside the log.
    Log,
    File(PathBuf),
}

impl Destination {
    /// Finds out by looking if lines could be written there by a server on the data directory `data`, which it makes.
    ///
    /// # Errors
    /// `System`.
    pub(crate) fn check(&self, data: &Path) -> Result<()> {
        let Self::File(path) = self else { return Ok(()) };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let looked = match std::fs::metadata(path) {
            Ok(file) if file.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
            Ok(_) => may(path, Mode::WRITE_OK),
            Err(_) if folder == data && !folder.exists() => Ok(()),
            Err(_) => may(folder, Mode::WRITE_OK | Mode::EXEC_OK),
        };
        looked.map_err(|error| Error::system(format_args!("the access log {}", path.display()), error))
    }
}

fn may(path: &Path, mode: Mode) -> io::Result<()> {
    Ok(rustix::fs::access(path, mode)?)
}

enum Message {
    Line(Box<Access>),
    Reopen,
}

/// The way to the thread that writes. It ends with the last of its kind.
#[derive(Debug)]
pub(crate) struct AccessWriter {
    lines: SyncSender<Message>,
    /// Lines for which there was no room since the last one that was written.
    dropped: Arc<AtomicU64>,
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
        let sink = Sink::open(&place)?;
        let (lines, waiting) = sync_channel(LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let (batch, lost) = (Batch::default(), 0);
        let mut pen = Pen { place, sink, tried: now(), batch, lost, dropped: dropped.clone() };
        let spawned = std::thread::Builder::new().name("access-log".to_owned()).spawn(move || pen.write_all(&waiting));
        spawned.map_err(|error| Error::system("no thread for the access log", error))?;
        Ok(Self { lines, dropped })
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

/// Lines that are written together.
#[derive(Default)]
struct Batch {
    text: Vec<u8>,
    /// Lines lost before the first of them, which says so.
    lost: u64,
}

/// The thread that writes.
struct Pen {
    place: Destination,
    sink: Sink,
    /// Last try to open the file.
    tried: Instant,
    batch: Batch,
    /// Lines lost that no written line has counted.
    lost: u64,
    /// Lines for which there was no room on the way here.
    dropped: Arc<AtomicU64>,
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
}

impl Pen {
    fn write_all(&mut self, waiting: &Receiver<Message>) {
        loop {
            let message = match waiting.recv_timeout(RETRY) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => {
                    self.again();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            // All waiting lines are written at once.
            for message in std::iter::once(message).chain(waiting.try_iter()) {
                match message {
                    Message::Line(access) => self.add(&access),
                    Message::Reopen => {
                        self.flush();
                        self.sink = Sink::Gone;
                        self.open();
                    }
                }
            }
            self.flush();
        }
    }

    fn add(&mut self, access: &Access) {
        if self.batch.text.is_empty() {
            self.batch.lost = std::mem::take(&mut self.lost) + self.dropped.swap(0, Relaxed);
            add_line(&mut self.batch.text, access, self.batch.lost);
        } else {
            add_line(&mut self.batch.text, access, 0);
        }
    }

    /// Tries again to open a file that is gone, now and then.
    fn again(&mut self) {
        if matches!(self.sink, Sink::Gone) && self.tried.elapsed() >= RETRY {
            self.open();
        }
    }

    fn open(&mut self) {
        self.tried = now();
        match Sink::open(&self.place) {
            Ok(sink) => self.sink = sink,
            Err(error) => tracing::warn!("{error}"),
        }
    }

    /// Writes the batch; lines that could not be written are counted by the next one that is.
    fn flush(&mut self) {
        self.again();
        let Batch { text, lost } = std::mem::take(&mut self.batch);
        let (written, result) = match &mut self.sink {
            Sink::Log => write(&mut io::stderr(), &text),
            Sink::File(file) => write(file, &text),
            Sink::Gone => (0, Err(io::Error::other("not open"))),
        };
        let Err(error) = result else { return };
        let (done, rest) = text.split_at_checked(written).unwrap_or((&text, &[]));
        self.lost += lines_in(rest) + if lines_in(done) > 0 { 0 } else { lost };
        if !matches!(self.sink, Sink::Gone) {
            tracing::warn!("the access log cannot be written, and is tried again: {error}");
            // A torn line ends when the file is opened again.
            self.sink = Sink::Gone;
            self.tried = now();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the log is written by a thread, outside simulations")]
fn now() -> Instant {
    Instant::now()
}

fn lines_in(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Writes all of `text`, and tells how much of it was written.
fn write(sink: &mut impl Write, text: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while let Some(rest) = text.get(written..).filter(|rest| !rest.is_empty()) {
        match sink.write(rest) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

/// Opens the file for lines behind those it has. A line that was torn by a failed write, or by the end of a process, is ended: the next one
/// does not continue it.
fn open(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().append(true).create(true).mode(0o640).open(path)?;
    if file.metadata()?.is_file() && is_torn(path).unwrap_or(false) {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

fn is_torn(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
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

    /// A writer in which there is room for so many bytes.
    struct Full(Vec<u8>, usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.1 - self.0.len());
            self.0.extend(&bytes[..count]);
            if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_was_written_of_lines_is_known() {
        for room in 0..12 {
            let mut full = Full(Vec::new(), room);
            let (written, result) = write(&mut full, b"one\ntwo\n");
            assert_eq!((written, result.is_ok()), (room.min(8), room >= 8));
            assert_eq!(full.0, b"one\ntwo\n"[..written]);
        }
    }

    /// SV-ALOG-3: the file's folder goes away and comes back while lines come.
    #[expect(clippy::disallowed_methods, reason = "the log is written by a thread, outside simulations")]
    #[test]
    fn lines_appear_again_by_themselves_and_count_the_lost_ones() {
        let folder = std::env::temp_dir().join(format!("shingle-access-gone-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("log");
        std::fs::write(&path, "torn").unwrap();
        let writer = AccessWriter::start(Destination::File(path.clone())).unwrap();
        writer.note(access(0));
        let text = || std::fs::read_to_string(&path).unwrap_or_default();
        let began = std::time::Instant::now();
        let wait = || {
            assert!(began.elapsed() < Duration::from_secs(20), "no line comes");
            std::thread::sleep(Duration::from_millis(20));
        };
        while !text().ends_with("}\n") {
            wait();
        }
        assert!(text().starts_with("torn\n{"), "{}", text());
        std::fs::remove_dir_all(&folder).unwrap();
        writer.reopen();
        let mut noted = 0;
        // Never without a line for as long as the pause between two tries.
        while text().is_empty() {
            wait();
            noted += 1;
            writer.note(access(noted));
            if noted == 20 {
                std::fs::create_dir_all(&folder).unwrap();
            }
        }
        drop(writer);
        let lost = |line: &str| {
            line.split("\"lines_lost\":").nth(1).map_or(0, |rest| rest.trim_end_matches('}').parse().unwrap())
        };
        let accounted = || text().lines().map(|line| 1 + lost(line)).sum::<usize>();
        while accounted() < noted {
            wait();
        }
        assert_eq!(accounted(), noted);
        std::fs::remove_dir_all(&folder).unwrap();
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
