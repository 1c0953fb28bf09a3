//! Snapshots of volumes that are served: commands ask for them at a socket without a file, whose name is that of the drive. A snapshot is
//! an export that can only be read, `VOLUME@SNAPSHOT`.
//!
//! # Invariants
//! - SV-VOL-3: only the user that serves, and root, may ask. Only root, the drive's owner, the user who asks, or a process that can write to
//!   the drive is believed. (`test_volume.py`)

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::fs::MetadataExt;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{SocketAddr, UnixListener as Bound, UnixStream as Asking};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use shingle_nbd_server::{About, Export, Server};
use shingle_runtime::owner::Desk;
use shingle_translation::SnapshotInfo;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::owner::{Core, SnapshotCore};
use crate::drive_path::split;
use crate::error::{Error, ErrorKind, Result};

/// Bytes of a question.
const QUESTION_BYTES_MAX: u64 = 4096;
/// Time for a question to come, after which its client is given up.
const QUESTION_PATIENCE: Duration = Duration::from_secs(5);
/// Time for the answer: a snapshot waits for a checkpoint of the largest map.
const ANSWER_PATIENCE: Duration = Duration::from_mins(5);
/// Bytes of an answer: as many as the most snapshots take.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// Pause after the system refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A wish of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotWish {
    /// Take one of this name.
    Take(String),
    /// Remove that of this name.
    Remove(String),
    /// List all.
    List,
}

/// A snapshot, as commands show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotLine {
    /// Its name.
    pub name: String,
    /// Nanoseconds since 1970 when it was taken.
    pub taken: u64,
    /// Size of the volume then.
    pub size_bytes: u64,
    /// Bytes that it keeps for itself and older ones.
    pub kept_bytes: u64,
}

impl From<SnapshotInfo> for SnapshotLine {
    fn from(info: SnapshotInfo) -> Self {
        let SnapshotInfo { name, taken, size_bytes, kept_bytes } = info;
        Self { name, taken: taken.nanos, size_bytes, kept_bytes }
    }
}

type Answer = std::result::Result<Vec<SnapshotLine>, String>;

/// The name of a drive's socket.
fn address(drive: &Path) -> io::Result<SocketAddr> {
    let (holder, partition) = split(drive);
    let found = std::fs::metadata(holder)?;
    let mut own = if found.file_type().is_block_device() {
        format!("shingle-volume/block-{}", found.st_rdev())
    } else {
        format!("shingle-volume/file-{}-{}", found.st_dev(), found.st_ino())
    };
    if let Some(name) = partition {
        own += "#";
        own += &name;
    }
    SocketAddr::from_abstract_name(own)
}

/// Asks the process that serves the volume on a drive; `None` if none does.
///
/// # Errors
/// `Denied`, `Store` with its words, `System`.
pub fn ask(drive: &Path, wish: &SnapshotWish) -> Result<Option<Vec<SnapshotLine>>> {
    let failed = |error: io::Error| Error::system(drive.display(), &error);
    let Ok(mut stream) = Asking::connect_addr(&address(drive).map_err(failed)?) else { return Ok(None) };
    refuse_stranger(drive, &stream)?;
    stream.set_read_timeout(Some(ANSWER_PATIENCE)).map_err(failed)?;
    let mut question = serde_json::to_string(wish).map_err(|error| failed(error.into()))?;
    question.push('\n');
    stream.write_all(question.as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_BYTES_MAX)).read_line(&mut line).map_err(failed)?;
    let answer: Answer = serde_json::from_str(&line).map_err(|error| {
        failed(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("the process that serves it gave no answer: {error}"),
        ))
    })?;
    answer.map(Some).map_err(|words| Error::new(ErrorKind::Store, format!("{}: {words}", drive.display())))
}

/// Refuses to believe a process that may have the name of the socket, as anybody can, and not the drive.
fn refuse_stranger(drive: &Path, stream: &Asking) -> Result<()> {
    let failed = |error: io::Error| Error::system(drive.display(), &error);
    let peer = socket_peercred(stream).map_err(|error| failed(error.into()))?;
    let found = std::fs::metadata(split(drive).0).map_err(failed)?;
    let uid = peer.uid.as_raw();
    if [0, geteuid().as_raw(), found.st_uid()].contains(&uid) || writes_to(peer.pid.as_raw_nonzero().get(), &found) {
        return Ok(());
    }
    let words = "answers for it, who is neither root, nor its owner, nor this user: it is not asked";
    Err(Error::new(ErrorKind::Denied, format!("{}: user {uid} {words}", drive.display())))
}

/// True if a process has the file or block device open for writing, as far as this user may know.
fn writes_to(process: i32, drive: &Metadata) -> bool {
    let identity = |file: &Metadata| match file.file_type().is_block_device() {
        true => (0, file.st_rdev()),
        false => (file.st_dev(), file.st_ino()),
    };
    let flags = |number: &OsStr| {
        let about = Path::new("/proc").join(process.to_string()).join("fdinfo").join(number);
        let about = std::fs::read_to_string(about).ok()?;
        i32::from_str_radix(about.lines().find_map(|line| line.strip_prefix("flags:"))?.trim(), 8).ok()
    };
    let Ok(open) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    open.flatten().any(|entry| {
        let is_it = std::fs::metadata(entry.path()).is_ok_and(|file| identity(&file) == identity(drive));
        // Access modes: 0 reads, 1 and 2 write.
        is_it && flags(&entry.file_name()).is_some_and(|flags| flags & 3 != 0)
    })
}

/// A volume that is served, as the answers need it.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) desk: Desk<Core>,
    pub(super) server: Server,
    /// Description of the volume's export.
    pub(super) about: About,
}

/// Answers questions about the volume on a drive, until the future is dropped.
///
/// # Errors
/// The socket cannot be had.
pub(super) fn answering(drive: &Path, subject: Subject) -> io::Result<impl Future<Output = ()> + use<>> {
    let bound = Bound::bind_addr(&address(drive)?)?;
    bound.set_nonblocking(true)?;
    let listener = UnixListener::from_std(bound)?;
    Ok(async move {
        loop {
            // One after the other: they are few, and each is bounded in time.
            match listener.accept().await {
                Ok((stream, _)) => {
                    let done = answer(stream, &subject).await;
                    if let Err(error) = done {
                        tracing::debug!("a question about snapshots was not answered: {error}");
                    }
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    })
}

async fn answer(mut stream: UnixStream, subject: &Subject) -> io::Result<()> {
    let (peer, own) = (stream.peer_cred()?.uid(), rustix::process::geteuid().as_raw());
    let answer = if peer == own || peer == 0 {
        let mut line = Vec::new();
        let (reading, _) = stream.split();
        let mut reading = tokio::io::BufReader::new(reading.take(QUESTION_BYTES_MAX));
        tokio::time::timeout(QUESTION_PATIENCE, reading.read_until(b'\n', &mut line)).await??;
        match serde_json::from_slice(&line) {
            Ok(wish) => subject.grant(wish).await,
            Err(error) => Err(format!("the question makes no sense: {error}")),
        }
    } else {
        Err("another user serves it: ask as that one, or as root".to_owned())
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    tokio::time::timeout(QUESTION_PATIENCE, stream.write_all(&line)).await?
}

impl Subject {
    fn name_of(&self, snapshot: &str) -> String {
        format!("{}@{snapshot}", self.about.name)
    }

    async fn grant(&self, wish: SnapshotWish) -> Answer {
        match wish {
            SnapshotWish::Take(name) => {
                let named = name.clone();
                self.on_volume(async move |core| core.volume().take_snapshot(&named).await).await?;
                self.offer(&name).await?;
            }
            SnapshotWish::Remove(name) => {
                let export = self.name_of(&name);
                self.on_volume(async move |core| core.volume().remove_snapshot(&name).await).await?;
                self.server.remove(&export);
            }
            SnapshotWish::List => {}
        }
        self.list().await
    }

    async fn list(&self) -> Answer {
        let all = self.on_volume(async |core| Ok(core.volume().snapshots())).await?;
        Ok(all.into_iter().map(SnapshotLine::from).collect())
    }

    /// Offers all snapshots that there are.
    pub(super) async fn offer_all(&self) -> std::result::Result<(), String> {
        for snapshot in self.list().await? {
            self.offer(&snapshot.name).await?;
        }
        Ok(())
    }

    /// Offers an export of a snapshot.
    async fn offer(&self, snapshot: &str) -> std::result::Result<(), String> {
        let (name, found) = (self.name_of(snapshot), snapshot.to_owned());
        let about = About {
            name: name.clone(),
            description: format!("{}, snapshot {snapshot}", self.about.description),
            read_only: true,
            ..self.about.clone()
        };
        let desk = self.on_volume(async move |core| core.snapshot(&found)).await?;
        let export = Export::of(desk, SnapshotCore::store, about).await.map_err(|error| error.to_string())?;
        self.server.add(export).map_err(|error| error.to_string())
    }

    /// Has something done by the volume's owner.
    async fn on_volume<T, F>(&self, work: impl FnOnce(Rc<Core>) -> F + Send + 'static) -> std::result::Result<T, String>
    where
        T: Send + 'static,
        F: Future<Output = shingle_store_api::StoreResult<T>> + 'static,
    {
        let done = self.desk.call(work).await;
        done.map_err(|gone| gone.to_string())?.map_err(|error| error.message)
    }
}
