//! A volume as a disk of the kernel by ublk: its requests are served on the thread of the volume's owner.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures_util::future::{Either, select};
use shingle_nbd_server::{About, Options as ServerOptions, Server};
use shingle_translation::Options;
use shingle_translation_layers::Layer;
use shingle_ublk_server::{Disk, StoreDisk};
use shingle_zoned_linux::{UblkError, ublk_check};
use tokio::sync::oneshot;

use super::owner::{Core, Owner};
use super::serving::{STOP_PATIENCE, live};
use super::snapshots::{Subject, answering};
use crate::disks::of_ublk;
use crate::error::{Error, ErrorKind, Result};
use crate::reports::notify::Manager;
use crate::signals::Signals;

/// A volume that is to be a disk of the kernel.
#[derive(Clone, Debug)]
pub struct AttachVolume {
    /// Its drive: a path, or a name that stays.
    pub drive: PathBuf,
    /// The disk takes no writes.
    pub read_only: bool,
    /// Its cleaner.
    pub layer: Layer,
    /// Memory of its map, above which extents are joined by copying.
    pub map_bytes: u64,
    /// Goes on where sectors that were written last cannot be known: they may read as they were before.
    pub accept_loss: bool,
    /// Level of the log, or levels by module.
    pub log: String,
}

/// The disk, as the owner's thread tells of it.
struct Attached {
    /// The disk's node, or the reason why there is none.
    made: oneshot::Receiver<std::result::Result<PathBuf, UblkError>>,
    /// The result of its end.
    ended: oneshot::Receiver<std::result::Result<(), UblkError>>,
    /// Sent or dropped, the disk is to end.
    end: oneshot::Sender<()>,
}

pub(super) fn run(wanted: AttachVolume, ready: impl FnOnce(&Path)) -> Result<()> {
    let executor = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::system("no executor", error))?;
    executor.block_on(serve(wanted, ready))
}

async fn serve(wanted: AttachVolume, ready: impl FnOnce(&Path)) -> Result<()> {
    let manager = Manager::from_environment();
    let mut signals = Signals::new()?;
    // Before the drive is touched.
    ublk_check(false).map_err(of_ublk)?;
    let (accept_loss, map_bytes) = (wanted.accept_loss, Some(wanted.map_bytes));
    let options = Options { accept_loss, map_bytes, ..Options::default() };
    let owner = tokio::select! {
        owner = Owner::start(wanted.drive.clone(), options, wanted.layer) => owner?,
        // As safe as any other end: an opening that is cut off is done again.
        () = signals.any() => return Ok(()),
    };
    let result = serve_owned(&owner, &wanted, ready, &manager, &mut signals).await;
    tokio::select! {
        // The first error says more.
        closed = owner.close() => result.and(closed),
        () = signals.any() => result,
    }
}

/// Serves the volume of an owner to the end of the disk.
async fn serve_owned(
    owner: &Owner,
    wanted: &AttachVolume,
    ready: impl FnOnce(&Path),
    manager: &Manager,
    signals: &mut Signals,
) -> Result<()> {
    let in_drive = |error: UblkError| {
        let error = of_ublk(error);
        Error::new(error.kind, format!("{}: {}", owner.called, error.message))
    };
    let gone = || Error::new(ErrorKind::Store, format!("{}: the volume's thread is gone", owner.called));
    let Attached { made, mut ended, end } = attach(owner, wanted.read_only).await.ok_or_else(gone)?;
    let node = made.await.map_err(|_| gone())?.map_err(in_drive)?;
    ready(&node);
    manager.ready();
    manager.status(&node.display().to_string());
    let desks = [owner.desk.clone()];
    let over = tokio::select! {
        over = &mut ended => Some(over),
        () = signals.any() => None,
        () = live(manager, &desks) => None,
        () = snapshots(owner, wanted.read_only) => None,
    };
    manager.stopping(STOP_PATIENCE);
    tracing::info!("stopping; a second signal stops at once");
    // The owner may be gone.
    let _ = end.send(());
    let over = match over {
        Some(over) => over,
        None => tokio::select! {
            over = ended => over,
            () = signals.any() => return Ok(()),
        },
    };
    over.map_err(|_| gone())?.map_err(in_drive)
}

/// Has the owner's thread make and serve the disk; `None`: it is gone.
async fn attach(owner: &Owner, read_only: bool) -> Option<Attached> {
    let (tell, made) = oneshot::channel();
    let (end, wanted) = oneshot::channel::<()>();
    let (rotational, called) = (owner.rotational, owner.called.clone());
    let work = move |core: Rc<Core>| async move {
        let backend = Rc::new(StoreDisk::new(core.clone(), Core::store, rotational, read_only));
        let disk = match Disk::begin(core.runtime(), backend, called).await {
            Ok(disk) => disk,
            Err(error) => {
                let _ = tell.send(Err(error));
                return Ok(());
            }
        };
        // If nobody is told any more, nobody has the other end of `wanted`, either.
        let _ = tell.send(Ok(disk.node()));
        if let Either::Left(_) = select(wanted, Box::pin(disk.ended())).await {
            tracing::debug!("the disk is to end");
        }
        disk.end().await
    };
    let ended = owner.desk.begin(work).await.ok()?;
    Some(Attached { made, ended, end })
}

/// Answers commands about snapshots of the volume, which nobody serves here. Never completes.
async fn snapshots(owner: &Owner, read_only: bool) {
    let about = About { read_only, ..About::new(owner.called.clone()) };
    let subject = Subject { desk: owner.desk.clone(), server: Server::new(ServerOptions::default()), about };
    match answering(&owner.node, subject) {
        Ok(answers) => answers.await,
        // Another user may have the name: that must not keep the volume from being served.
        Err(error) => {
            tracing::warn!("{}: commands cannot ask for snapshots while it is attached: {error}", owner.called);
            std::future::pending().await
        }
    }
}
