//! Volumes of a server beside its engines: each is kept open on its own.
//!
//! # Invariants
//! - SV-VOL-4: a volume that does not open, or stops, leaves the other volumes and the objects served. It is opened again after a
//!   while. (`test_partitions.py`)

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::time::Duration;

use shingle_nbd_server::{Listener, Options as ServerOptions, Server};
use shingle_translation::Options;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::exports::{Exports, TlsFiles, VolumeExport, is_snapshot_of};
use super::owner::Owner;
use super::serving::{check_names, offer, uri};
use crate::error::Result;
use crate::reports::health::{Health, State};

/// Time until a volume that failed is opened again.
const REOPEN: Duration = Duration::from_secs(30);
/// Pause between two looks for an owner that is gone.
const LOOK: Duration = Duration::from_secs(1);

/// A volume for observers.
#[derive(Clone)]
pub(crate) struct Standing {
    pub(crate) health: Health,
    /// Addresses for clients.
    pub(crate) uris: Vec<String>,
}

/// The volumes of a server.
pub(crate) struct Volumes {
    standings: Vec<Standing>,
    keepers: JoinSet<()>,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
    stop_serving: oneshot::Sender<()>,
}

impl Volumes {
    /// Listens, and begins to open all volumes: clients find each once it is open.
    ///
    /// # Errors
    /// `Config` for certificates or names that make no sense, `InUse` for a place of somebody else's, `System`.
    pub(crate) async fn begin(exports: &Exports) -> Result<Self> {
        check_names(exports)?;
        let tls = exports.tls.as_ref().map(TlsFiles::read).transpose()?;
        let with_tls = tls.is_some();
        let mut places = exports.places.clone();
        let mut listeners: Vec<Listener> = Vec::new();
        for place in &mut places {
            listeners.push(place.listen().await?);
        }
        let server = Server::new(ServerOptions { tls, ..ServerOptions::default() });
        let (stop, stopped) = watch::channel(false);
        let (mut standings, mut keepers) = (Vec::new(), JoinSet::new());
        for volume in &exports.volumes {
            let uris = places.iter().map(|place| uri(place, &volume.name, with_tls)).collect();
            let health = Health::new(&format!("volume {}", volume.name), watch::channel(()).0);
            standings.push(Standing { health: health.clone(), uris });
            let keeper = Keeper { volume: volume.clone(), server: server.clone(), health };
            keepers.spawn(keeper.keep(stopped.clone()));
        }
        let (stop_serving, asked) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            // A sender that is gone means the same.
            let ended = server.serve(listeners, async move { drop(asked.await) }).await;
            if ended.cut > 0 {
                tracing::warn!(
                    connections = ended.cut,
                    "requests of volumes that took too long to finish were cut off"
                );
            }
        });
        Ok(Self { standings, keepers, stop, serving, stop_serving })
    }

    pub(crate) fn standings(&self) -> Vec<Standing> {
        self.standings.clone()
    }

    /// Takes no more requests, answers those under way for as long as the front end's grace, and closes the volumes (SV-VOL-1). Those have
    /// a time of their own: one request that hangs leaves all of it to the other volumes. True if all were closed.
    pub(crate) async fn stop(self, patience: Duration) -> bool {
        let Self { mut keepers, stop, serving, stop_serving, .. } = self;
        let _ = stop_serving.send(());
        let _ = serving.await;
        stop.send_replace(true);
        let closing = async { while keepers.join_next().await.is_some() {} };
        tokio::time::timeout(patience, closing).await.is_ok()
    }
}

struct Keeper {
    volume: VolumeExport,
    server: Server,
    health: Health,
}

impl Keeper {
    /// Keeps the volume open until a stop is wanted.
    async fn keep(self, mut stopped: watch::Receiver<bool>) {
        loop {
            self.once(stopped.clone()).await;
            let wanted = async { stopped.wait_for(|stop| *stop).await.is_ok() };
            if tokio::time::timeout(REOPEN, wanted).await.is_ok() {
                return;
            }
        }
    }

    /// Opens the volume, and serves it until a stop is wanted or it is gone.
    async fn once(&self, mut stopped: watch::Receiver<bool>) {
        let options = Options { map_bytes: Some(self.volume.map_bytes), ..Options::default() };
        let owner = match Owner::start(self.volume.drive.clone(), options, self.volume.layer).await {
            Ok(owner) => owner,
            Err(error) => return self.failed(&error),
        };
        let desk = owner.desk.clone();
        let offered = async {
            let (export, answers) = offer(&owner, &self.volume, &self.server).await?;
            self.server.add(export).map_err(|error| crate::error::Error::system(&self.volume.name, error))?;
            Ok(answers)
        };
        match offered.await {
            Ok(answers) => {
                self.health.serving();
                tracing::info!(volume = self.volume.name, drive = owner.called, "the volume is served");
                let gone = async {
                    while !desk.is_closed() {
                        tokio::time::sleep(LOOK).await;
                    }
                };
                tokio::select! {
                    _ = stopped.wait_for(|stop| *stop) => self.health.opening("closing"),
                    () = gone => self.health.opening("its thread ended; it is opened again"),
                    () = answers => {}
                }
            }
            Err(error) => self.failed(&error),
        }
        drop(desk);
        let own = &self.volume.name;
        self.server.remove_all(|name| name == own || is_snapshot_of(name, own));
        if let Err(error) = owner.close().await {
            tracing::error!("{error}");
        }
    }

    fn failed(&self, error: &crate::error::Error) {
        // Once, and not at each try.
        if self.health.state() != State::Failed(error.kind, error.message.clone()) {
            tracing::error!(volume = self.volume.name, "the volume is not served: {error}");
        }
        self.health.failed(error);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_hangs_leaves_the_other_volumes_their_time_to_close() {
        let (stop, stopped) = watch::channel(false);
        let (stop_serving, asked) = oneshot::channel::<()>();
        let grace = Duration::from_secs(20);
        let serving = tokio::spawn(async move {
            drop(asked.await);
            tokio::time::sleep(grace).await;
        });
        let closed = Arc::new(AtomicBool::new(false));
        let mut keepers = JoinSet::new();
        for hangs in [true, false] {
            let (mut stopped, closed) = (stopped.clone(), closed.clone());
            keepers.spawn(async move {
                drop(stopped.wait_for(|stop| *stop).await);
                tokio::time::sleep(if hangs { Duration::MAX } else { Duration::from_secs(5) }).await;
                closed.store(true, Relaxed);
            });
        }
        let volumes = Volumes { standings: Vec::new(), keepers, stop, serving, stop_serving };
        let began = tokio::time::Instant::now();
        assert!(!volumes.stop(grace).await, "one hangs");
        assert!(closed.load(Relaxed), "the other was not closed");
        assert!(began.elapsed() <= 2 * grace + Duration::from_millis(10), "{:?}", began.elapsed());
    }
}
