//! Other processes at the owner's socket.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::io::{self, Error, ErrorKind};
use std::os::unix::net::{SocketAddr, UnixListener as Bound};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use shingle_runtime::Runtime;
use shingle_zone_files::{FilesError, FilesErrorKind, ZoneFiles};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::frame::{CALL_BYTES_MAX, Head, LENGTHS, Lengths, parted};
use crate::local::Local;
use crate::session::Session;
use crate::tail::Tails;
use crate::wire::{Answer, Call, DATA_BYTES_MAX, VERSION};

/// Processes that are served at once.
const PROCESSES_MAX: usize = 128;
/// Calls of one process under way.
const CALLS_MAX: usize = 256;
/// Bytes of files in calls and answers of one process that are under way.
const CALL_DATA_MAX: usize = 64 << 20;
/// Time for a process to say its version.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pause after the system refused a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An answer on its way, with the place among the calls under way that it holds.
struct Reply {
    id: u64,
    answer: Answer,
    _places: [OwnedSemaphorePermit; 2],
}

/// Serves other processes, until the future is dropped.
///
/// # Errors
/// The socket cannot be had.
pub(crate) fn serve(
    rt: &Runtime,
    files: &ZoneFiles,
    tails: Option<Arc<Tails>>,
    local: Weak<Local>,
    address: &SocketAddr,
) -> io::Result<impl Future<Output = ()> + use<>> {
    let bound = Bound::bind_addr(address)?;
    bound.set_nonblocking(true)?;
    let listener = UnixListener::from_std(bound)?;
    let (rt, files) = (rt.clone(), files.clone());
    Ok(async move {
        let processes = Arc::new(Semaphore::new(PROCESSES_MAX));
        loop {
            let Ok(place) = processes.clone().acquire_owned().await else { return };
            match listener.accept().await {
                Ok(_) if files.running().is_err() => {
                    if let Some(local) = local.upgrade() {
                        local.look();
                    }
                }
                Ok((stream, _)) => {
                    let session = Session::new(&rt, &files, tails.clone());
                    let served = attend(rt.clone(), stream, session, local.clone());
                    rt.spawn_detached(async move {
                        if let Err(error) = served.await {
                            tracing::debug!(%error, "a process that used the files has gone");
                        }
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
    })
}

/// Serves those at the other end of a socket until they go: for an owner of files that keeps them itself.
///
/// # Errors
/// The socket cannot be had.
pub fn serve_socket(
    rt: &Runtime,
    files: &ZoneFiles,
    stream: std::os::unix::net::UnixStream,
) -> io::Result<impl Future<Output = ()> + use<>> {
    stream.set_nonblocking(true)?;
    let served = attend(rt.clone(), UnixStream::from_std(stream)?, Session::new(rt, files, None), Weak::new());
    Ok(async move {
        if let Err(error) = served.await {
            tracing::debug!(%error, "those who used the files have gone");
        }
    })
}

/// Serves one process until it goes. Its files and locks go with the session. (FS-END-1)
async fn attend(rt: Runtime, stream: UnixStream, session: Rc<Session>, local: Weak<Local>) -> io::Result<()> {
    let (peer, own) = (stream.peer_cred()?.uid(), rustix::process::geteuid().as_raw());
    let (mut reading, mut writing) = stream.into_split();
    if peer != own && peer != 0 {
        let refusal =
            Head::Answer(0, Err((0, "another user has the drive open: do it as that one, or as root".to_owned())));
        return tokio::time::timeout(PATIENCE, writing.write_all(&refusal.encode(0)?)).await?;
    }
    let hello = tokio::time::timeout(PATIENCE, next(&mut reading)).await??;
    writing.write_all(&Head::Hello(VERSION).encode(0)?).await?;
    if !matches!(hello, (Head::Hello(VERSION), _)) {
        return Err(Error::new(ErrorKind::InvalidData, "it speaks another version of the calls"));
    }
    let (replies, queue) = unbounded_channel();
    rt.spawn_detached(async move {
        // One that takes no answers has gone, which the next read tells.
        let _ = answer(writing, queue).await;
    });
    let (places, bytes) = (Arc::new(Semaphore::new(CALLS_MAX)), Arc::new(Semaphore::new(CALL_DATA_MAX)));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return Ok(()) };
        let (Head::Call(id, call), data) = next(&mut reading).await? else {
            return Err(Error::new(ErrorKind::InvalidData, "it sent no call"));
        };
        let asked = if let Call::Read { length, .. } = call { length.min(DATA_BYTES_MAX as u64) as u32 } else { 0 };
        let Ok(room) = bytes.clone().acquire_many_owned(asked.max(data.len() as u32)).await else { return Ok(()) };
        if let Some(local) = local.upgrade() {
            local.take_in();
        }
        let (begun, replies) = (session.begin(call, data), replies.clone());
        let (session, local) = (Rc::downgrade(&session), local.clone());
        rt.spawn_detached(async move {
            let reply = Reply { id, answer: begun.await, _places: [place, room] };
            let _ = replies.send(reply);
            let stopped = session.upgrade().is_some_and(|session| session.has_stopped());
            if let Some(local) = local.upgrade().filter(|_| stopped) {
                local.look();
            }
        });
    }
}

/// The answer in place of one that no frame can hold.
fn too_long(id: u64) -> Head {
    let error = FilesError::new(FilesErrorKind::Invalid, "the answer is too long: the directory has too many files");
    parted(id, Err(error)).0
}

async fn next(reading: &mut OwnedReadHalf) -> io::Result<(Head, Bytes)> {
    let mut lengths = [0; LENGTHS];
    reading.read_exact(&mut lengths).await?;
    let lengths = Lengths::decode(lengths, CALL_BYTES_MAX)?;
    let mut bytes = vec![0; lengths.head + lengths.data];
    reading.read_exact(&mut bytes).await?;
    let head = Head::decode(&bytes[..lengths.head])?;
    Ok((head, Bytes::from(bytes).slice(lengths.head..)))
}

async fn answer(mut writing: OwnedWriteHalf, mut queue: UnboundedReceiver<Reply>) -> io::Result<()> {
    while let Some(Reply { id, answer, _places }) = queue.recv().await {
        let (head, data) = parted(id, answer);
        let head = match head.encode(data.len()) {
            Ok(head) => head,
            // The others' answers follow.
            Err(_) => too_long(id).encode(0)?,
        };
        writing.write_all(&head).await?;
        writing.write_all(&data).await?;
    }
    Ok(())
}
