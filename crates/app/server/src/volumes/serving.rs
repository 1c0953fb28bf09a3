//! The order of starting and stopping the export of volumes.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use shingle_nbd_server::{About, Export, Listener, Options as ServerOptions, Recording, Server, Tls};
use shingle_runtime::owner::Desk;
use shingle_translation::Options;
use tokio::sync::oneshot;

use super::exports::{Exports, TlsFiles, VolumeExport, is_snapshot_of};
use super::owner::{Core, Owner};
use super::place::Place;
use super::snapshots::{Subject, answering};
use crate::error::{Error, ErrorKind, Result};
use crate::reports::notify::Manager;
use crate::signals::Signals;

/// Longest time for an orderly end: requests under way, and a checkpoint of the largest map.
pub(super) const STOP_PATIENCE: Duration = Duration::from_mins(5);
/// Pause between two signs of life to the service manager, and two looks for owners that are gone.
const LIFE_PAUSE: Duration = Duration::from_secs(1);

/// Answers to commands about a volume: never ends by itself.
pub(super) type Answers = BoxFuture<'static, ()>;

/// Volumes that are served.
#[derive(Clone, Debug)]
pub struct Served {
    /// Addresses for clients: those of the first volume, then those of the next.
    pub uris: Vec<String>,
    /// Bytes of a sector of each volume.
    pub sector_bytes: Vec<u64>,
}

/// The wish of a person, or of the service manager, that the export ends.
pub struct Stop(Signals);

impl Stop {
    /// Completes with SIGINT, SIGTERM or SIGHUP.
    pub async fn wanted(&mut self) {
        self.0.any().await;
    }
}

pub(super) fn run<F: Future<Output = ()>>(exports: Exports, ready: impl FnOnce(Served, Stop) -> F) -> Result<()> {
    let executor = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::system("no threads for the front end", error))?;
    let result = executor.block_on(serve(exports, ready));
    executor.shutdown_background();
    result
}

async fn serve<F: Future<Output = ()>>(exports: Exports, ready: impl FnOnce(Served, Stop) -> F) -> Result<()> {
    let manager = Manager::from_environment();
    let mut signals = Signals::new()?;
    check_names(&exports)?;
    let tls = exports.tls.as_ref().map(TlsFiles::read).transpose()?;
    let mut owners = Vec::new();
    let begun = tokio::select! {
        begun = begin(&exports, tls, &mut owners) => begun,
        () = signals.any() => return close(owners).await,
    };
    let Begun { server, listeners, recordings, served, answers } = match begun {
        Ok(begun) => begun,
        Err(error) => {
            // Its error says more than theirs.
            let _ = close(owners).await;
            return Err(error);
        }
    };
    manager.ready();
    manager.status(&served.uris.join(", "));
    let desks: Vec<_> = owners.iter().map(|owner| owner.desk.clone()).collect();
    let stop = async {
        tokio::select! {
            () = ready(served, Stop(signals)) => {}
            () = live(&manager, &desks) => {}
            () = answered(answers) => {}
        }
        drop(desks);
        manager.stopping(STOP_PATIENCE);
        tracing::info!("stopping; a second signal stops at once");
        Signals::new()
    };
    let (tell, told) = oneshot::channel();
    let ended = server.serve(listeners, stop.map(|again| drop(tell.send(again)))).await;
    let mut again = told.await.map_err(|error| Error::system("the front end", error))??;
    drop(server);
    join_all(recordings.into_iter().map(Recording::finish)).await;
    if ended.cut > 0 {
        tracing::warn!(connections = ended.cut, "requests that took too long to finish were cut off");
    }
    tokio::select! {
        closed = close(owners) => closed,
        () = again.any() => Ok(()),
    }
}

pub(super) fn check_names(exports: &Exports) -> Result<()> {
    let mut names = BTreeSet::new();
    for volume in &exports.volumes {
        if !names.insert(&volume.name) {
            let words = format!(
                "two exports have the name `{}`: rename a drive's file, or serve them apart with `--name`",
                volume.name
            );
            return Err(Error::new(ErrorKind::Config, words));
        }
        if let Some(other) = exports.volumes.iter().find(|other| is_snapshot_of(&volume.name, &other.name)) {
            let words = format!(
                "the export `{}` is called as a snapshot of `{}` would be: rename a drive's file, or serve them apart with `--name`",
                volume.name, other.name
            );
            return Err(Error::new(ErrorKind::Config, words));
        }
    }
    Ok(())
}

/// Everything that is needed for serving.
struct Begun {
    server: Server,
    listeners: Vec<Listener>,
    recordings: Vec<Recording>,
    served: Served,
    answers: Vec<Answers>,
}

/// Opens all volumes and listens everywhere. (SV-VOL-2)
async fn begin(exports: &Exports, tls: Option<Tls>, owners: &mut Vec<Owner>) -> Result<Begun> {
    let with_tls = tls.is_some();
    let server = Server::new(ServerOptions { tls, ..ServerOptions::default() });
    let (mut answers, mut opened): (Vec<Answers>, _) = (Vec::new(), Vec::new());
    for volume in &exports.volumes {
        let (accept_loss, map_bytes) = (exports.accept_loss, Some(volume.map_bytes));
        let options = Options { accept_loss, map_bytes, ..Options::default() };
        let owner = Owner::start(volume.drive.clone(), options, volume.layer).await?;
        let offered = offer(&owner, volume, &server).await;
        owners.push(owner);
        let (export, answering) = offered?;
        opened.push(export);
        answers.push(answering);
    }
    let mut places = exports.places.clone();
    let mut listeners = Vec::new();
    for place in &mut places {
        listeners.push(place.listen().await?);
    }
    // Last, so that a start that fails leaves no empty traces.
    let mut recordings = Vec::new();
    for (mut export, volume) in opened.into_iter().zip(&exports.volumes) {
        if let Some(file) = &volume.record {
            let refused = |error| Error::new(ErrorKind::Config, format!("the trace {}: {error}", file.display()));
            let (recorded, recording) = export.recorded(file).map_err(refused)?;
            recordings.push(recording);
            export = recorded;
        }
        let refused = |error| Error::new(ErrorKind::Config, format!("the export `{}`: {error}", volume.name));
        server.add(export).map_err(refused)?;
    }
    let uris = exports.volumes.iter().flat_map(|volume| places.iter().map(|place| uri(place, &volume.name, with_tls)));
    let sector_bytes = owners.iter().map(|owner| owner.sector_bytes).collect();
    let served = Served { uris: uris.collect(), sector_bytes };
    Ok(Begun { server, listeners, recordings, served, answers })
}

/// The export of a volume, which the server does not have yet; exports of its snapshots, which it has from now on; and answers to
/// commands about it.
pub(super) async fn offer(owner: &Owner, volume: &VolumeExport, server: &Server) -> Result<(Export, Answers)> {
    let about = About {
        description: format!("volume on {}", owner.called),
        read_only: volume.read_only,
        // They are names without data.
        fast_zeros: true,
        rotational: owner.rotational,
        ..About::new(volume.name.clone())
    };
    let (desk, called) = (owner.desk.clone(), &owner.called);
    let subject = Subject { desk: desk.clone(), server: server.clone(), about: about.clone() };
    let export = Export::of(desk, Core::store, about).await;
    let export = export.map_err(|error| Error::new(ErrorKind::Config, format!("{called}: {error}")))?;
    subject.offer_all().await.map_err(|words| Error::new(ErrorKind::Store, format!("{called}: {words}")))?;
    let answers = match answering(&owner.node, subject) {
        Ok(answering) => answering.boxed(),
        // Another user may have the name: that must not keep the volume from being served.
        Err(error) => {
            tracing::warn!("{called}: commands cannot ask for snapshots while it is served: {error}");
            std::future::pending().boxed()
        }
    };
    Ok((export, answers))
}

/// The address of an export at a place.
pub(super) fn uri(place: &Place, name: &str, with_tls: bool) -> String {
    place.uri(name, with_tls && matches!(place, Place::Tcp(_)))
}

/// Tells the service manager again and again that the front end lives. Completes if an owner is gone: another start may help.
pub(super) async fn live(manager: &Manager, desks: &[Desk<Core>]) {
    while !desks.iter().any(Desk::is_closed) {
        manager.alive();
        tokio::time::sleep(LIFE_PAUSE).await;
    }
}

/// Answers commands. Never completes.
async fn answered(answers: Vec<Answers>) {
    join_all(answers).await;
    std::future::pending().await
}

/// Closes the volumes side by side; with the first error.
async fn close(owners: Vec<Owner>) -> Result<()> {
    let closed = join_all(owners.into_iter().map(Owner::close)).await;
    closed.into_iter().collect()
}
