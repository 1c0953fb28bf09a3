//! The engines of a server, each kept open on its own, and the one store made of them.
//!
//! # Invariants
//! - SV-KEEPER-1: an engine that does not open, or stops, leaves the others serving. It is opened again after a while if
//!   that can help.

#![expect(clippy::disallowed_methods, reason = "a front end lives on tokio's threads and clock, outside simulations")]

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shingle_array_store::Condition;
use shingle_object_store::ObjectStoreClient;
use shingle_placement::{Placement, Site};
use shingle_runtime::memory::Memory;
use shingle_store_api::ObjectStore;
use tokio::sync::{Mutex as AsyncMutex, oneshot, watch};
use tokio::task::JoinSet;

use crate::config::{ArrayConfig, BlueConfig, Config};
use crate::data_dir::DataDir;
use crate::engines::arrays::{self, Array, Given};
use crate::engines::blues::{self, Blue};
use crate::engines::bucket_notes::BucketNotes;
use crate::engines::drive::{Drive, DriveView};
use crate::engines::gate::Gate;
use crate::engines::objects::{self, Objects};
use crate::engines::opening::{self, Purpose};
use crate::error::{Error, ErrorKind, Result};
use crate::reports::damage::Damage;
use crate::reports::health::{Health, PATIENCE, State};

/// Name of the store on the drives, if there are arrays, too.
pub(crate) const CHUNKS: &str = "drives";
/// Time until an engine that failed is opened again.
const REOPEN: Duration = Duration::from_secs(30);

/// An engine for observers.
pub(crate) struct Engine {
    pub(crate) health: Health,
    pub(crate) kind: Kind,
    /// Held while a task checks it. (SV-ASK-3)
    pub(crate) checking: Arc<AsyncMutex<()>>,
    pub(crate) damage: Arc<Damage>,
    watched: Mutex<Option<Watched>>,
}

/// Kind of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The store on drives that belong to no other engine.
    Drives,
    Array,
    Blue,
}

/// The parts of an open engine that figures come from.
#[derive(Clone)]
pub(crate) enum Watched {
    Objects(ObjectStoreClient, Vec<DriveView>),
    Array(Arc<Array>),
    Blue(Arc<Blue>),
}

impl Engine {
    /// Sources of figures, while it is open.
    pub(crate) fn watched(&self) -> Option<Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// State of an open array that answers.
    pub(crate) async fn condition(&self, sets: bool) -> Option<Condition> {
        let Some(Watched::Array(array)) = self.watched() else { return None };
        tokio::time::timeout(PATIENCE, array.client.condition(sets)).await.ok()?.ok()
    }

    fn watch(&self, watched: Option<Watched>) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = watched;
    }
}

/// All engines of a server.
pub(crate) struct Engines {
    all: Vec<Arc<Engine>>,
    store: Arc<dyn ObjectStore>,
    keepers: JoinSet<()>,
    stop: watch::Sender<bool>,
    changed: watch::Receiver<()>,
    /// Locked until the last owner has ended.
    _directory: Arc<AsyncMutex<DataDir>>,
}

impl Engines {
    /// Begins to open everything. The store is there at once: engines that are not open refuse.
    ///
    /// # Errors
    /// As [`Config::arrays`].
    pub(crate) fn begin(config: &Config, directory: DataDir, memory: &Arc<Memory>) -> Result<Self> {
        let (change, changed) = watch::channel(());
        let (stop, stopped) = watch::channel(false);
        let data = directory.path().to_owned();
        let directory = Arc::new(AsyncMutex::new(directory));
        let mut plans = Vec::new();
        if !config.drives().is_empty() {
            plans.push((
                CHUNKS.to_owned(),
                None,
                Plan::Objects(Box::new(config.clone()), directory.clone(), memory.clone()),
            ));
        }
        for array in config.arrays()? {
            let class = Some(array.class().to_owned());
            let given = Given { wait: config.drive_wait, memory: memory.clone(), damage: Arc::default() };
            plans.push((array.name.clone(), class, Plan::Array(Box::new(array), data.clone(), given)));
        }
        for blue in config.blues() {
            let class = Some(blue.class().to_owned());
            let given = blues::Given { wait: config.drive_wait, memory: memory.clone() };
            plans.push((blue.name.clone(), class, Plan::Blue(Box::new(blue), given)));
        }
        let mut sites = Vec::new();
        let (mut all, mut gates) = (Vec::new(), Vec::new());
        for (name, class, plan) in &plans {
            let health = Health::new(name, change.clone());
            let damage = match plan {
                Plan::Array(_, _, given) => given.damage.clone(),
                Plan::Objects(..) | Plan::Blue(..) => Arc::<Damage>::default(),
            };
            let gate = Arc::new(Gate::new(health.clone(), damage.clone()));
            sites.push(Site { name: name.clone(), class: class.clone(), store: gate.clone() });
            gates.push(gate);
            let kind = plan.kind();
            let (checking, watched) = (Arc::default(), Mutex::default());
            all.push(Arc::new(Engine { health, kind, checking, damage, watched }));
        }
        let (store, together): (Arc<dyn ObjectStore>, _) = match (plans.as_slice(), gates.as_slice()) {
            ([(_, None, _)], [gate]) => (gate.clone(), None),
            _ => {
                let notes = Arc::new(BucketNotes::read(&data));
                let noted = sites.iter().map(|site| notes.of(&site.name)).collect();
                let placement = Placement::begin(sites, noted, Some(notes.clone()));
                let unknown = AtomicUsize::new(plans.len());
                (Arc::new(placement.clone()), Some(Arc::new(Together { placement, notes, unknown })))
            }
        };
        let mut keepers = JoinSet::new();
        for (site, ((_, _, plan), (engine, gate))) in plans.into_iter().zip(all.iter().zip(gates)).enumerate() {
            let keeper =
                Keeper { site, plan, engine: engine.clone(), gate, together: together.clone(), learned: false };
            keepers.spawn(keeper.keep(stopped.clone()));
        }
        Ok(Self { all, store, keepers, stop, changed, _directory: directory })
    }

    /// The store for front ends.
    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        self.store.clone()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Engine>> {
        self.all.clone()
    }

    /// Completes once each engine has opened or failed.
    ///
    /// # Errors
    /// The first one's, if all of them failed.
    pub(crate) async fn settled(&mut self) -> Result<()> {
        loop {
            self.changed.borrow_and_update();
            let mut states = self.all.iter().map(|engine| engine.health.state());
            if !states.any(|state| matches!(state, State::Opening(_))) {
                return self.failure().map_or(Ok(()), Err);
            }
            // A sender lives in each engine.
            let _ = self.changed.changed().await;
        }
    }

    /// Completes when all engines have failed, with the first one's error.
    pub(crate) async fn failed(&mut self) -> Error {
        loop {
            self.changed.borrow_and_update();
            if let Some(error) = self.failure() {
                return error;
            }
            let _ = self.changed.changed().await;
        }
    }

    fn failure(&self) -> Option<Error> {
        let errors = self.all.iter().map(|engine| match engine.health.state() {
            State::Failed(kind, message) => Some(Error::new(kind, message)),
            State::Opening(_) | State::Serving => None,
        });
        errors.collect::<Option<Vec<_>>>()?.into_iter().next()
    }

    /// Closes everything in order. Engines that are still opening are left as a power cut would leave them.
    pub(crate) async fn close(self) {
        let Self { mut keepers, stop, _directory, .. } = self;
        stop.send_replace(true);
        while keepers.join_next().await.is_some() {}
    }
}

/// The one store made of several engines.
struct Together {
    placement: Placement,
    notes: Arc<BucketNotes>,
    /// Engines that were not open yet.
    unknown: AtomicUsize,
}

/// Parts that an engine is opened from.
enum Plan {
    Objects(Box<Config>, Arc<AsyncMutex<DataDir>>, Arc<Memory>),
    Array(Box<ArrayConfig>, PathBuf, Given),
    Blue(Box<BlueConfig>, blues::Given),
}

impl Plan {
    fn kind(&self) -> Kind {
        match self {
            Self::Objects(..) => Kind::Drives,
            Self::Array(..) => Kind::Array,
            Self::Blue(..) => Kind::Blue,
        }
    }
}

/// An open engine.
struct Running {
    client: Client,
    /// Completes when its owner has ended; `None` when that is known.
    ended: Option<oneshot::Receiver<()>>,
    /// Its drives, if they have owners of their own.
    drives: Vec<Drive>,
}

enum Client {
    Objects(ObjectStoreClient),
    Array(Arc<Array>),
    Blue(Arc<Blue>),
}

/// Keeps an engine open. (SV-KEEPER-1)
struct Keeper {
    site: usize,
    plan: Plan,
    engine: Arc<Engine>,
    gate: Arc<Gate>,
    together: Option<Arc<Together>>,
    learned: bool,
}

impl Keeper {
    async fn keep(mut self, mut stopped: watch::Receiver<bool>) {
        let engine = self.engine.clone();
        let name = engine.health.name();
        loop {
            let opened = tokio::select! {
                opened = self.open() => opened,
                () = until(&mut stopped) => return,
            };
            let error = match opened {
                Err(error) => error,
                Ok(mut running) => {
                    engine.watch(Some(running.watched()));
                    self.gate.open(running.store());
                    engine.health.serving();
                    tracing::info!(engine = name, "serving");
                    let stops = tokio::select! {
                        () = running.ended() => false,
                        () = until(&mut stopped) => true,
                    };
                    self.gate.shut();
                    engine.watch(None);
                    if stops {
                        return running.close(name).await;
                    }
                    let error = Error::new(ErrorKind::Store, format!("{name} has stopped; see the log for why"));
                    engine.health.failed(&error);
                    running.close(name).await;
                    error
                }
            };
            let again = !matches!(error.kind, ErrorKind::Config | ErrorKind::NewerVersion);
            tracing::error!(engine = name, again, "the engine does not serve: {error}");
            engine.health.failed(&error);
            let rest = async {
                if again {
                    tokio::time::sleep(REOPEN).await;
                } else {
                    std::future::pending().await
                }
            };
            tokio::select! {
                () = rest => {}
                () = until(&mut stopped) => return,
            }
            engine.health.opening(format!("opening again after it failed: {error}"));
        }
    }

    /// Opens the engine, and checks that its buckets are no other's.
    async fn open(&mut self) -> Result<Running> {
        let health = self.engine.health.clone();
        let running = match &mut self.plan {
            Plan::Objects(config, directory, memory) => {
                let mut drives = Vec::new();
                let mut directory = directory.lock().await;
                match opening::open(config, &mut directory, &mut drives, &Purpose::Serve, memory.clone(), &health).await
                {
                    Ok(Some(Objects { client, report, ended })) => {
                        objects::log_report(&report);
                        Running { client: Client::Objects(client), ended: Some(ended), drives }
                    }
                    Ok(None) => return Err(Error::new(ErrorKind::Config, "there are no drives")),
                    Err(error) => {
                        opening::close_drives(drives).await;
                        return Err(error);
                    }
                }
            }
            Plan::Array(config, data, given) => {
                let (array, ended) = arrays::start((**config).clone(), data, given.clone(), health.clone()).await?;
                Running { client: Client::Array(Arc::new(array)), ended: Some(ended), drives: Vec::new() }
            }
            Plan::Blue(config, given) => {
                let (blue, ended) = blues::start((**config).clone(), given.clone(), health.clone()).await?;
                Running { client: Client::Blue(Arc::new(blue)), ended: Some(ended), drives: Vec::new() }
            }
        };
        match self.join(&running).await {
            Ok(()) => Ok(running),
            Err(error) => {
                running.close(health.name()).await;
                Err(error)
            }
        }
    }

    async fn join(&mut self, running: &Running) -> Result<()> {
        let Some(together) = self.together.clone() else { return Ok(()) };
        let found = together.placement.learn(self.site, &*running.store()).await;
        let found = found.map_err(|error| Error::new(ErrorKind::Store, error.message))?;
        together.notes.set(self.engine.health.name(), &found);
        if !std::mem::replace(&mut self.learned, true) && together.unknown.fetch_sub(1, Ordering::Relaxed) == 1 {
            tokio::spawn(tidy(together.placement.clone()));
        }
        Ok(())
    }
}

/// Completes when it is time to stop.
async fn until(stopped: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// Removes second copies that a power cut left in another storage class.
async fn tidy(placement: Placement) {
    match placement.tidy().await {
        Ok(0) => {}
        Ok(objects) => tracing::info!(objects, "older versions in other storage classes were removed"),
        Err(error) => tracing::warn!(%error, "older versions in other storage classes stay until the next start"),
    }
}

impl Running {
    fn store(&self) -> Arc<dyn ObjectStore> {
        match &self.client {
            Client::Objects(client) => Arc::new(client.clone()),
            Client::Array(array) => Arc::new(array.client.clone()),
            Client::Blue(blue) => Arc::new(blue.client.clone()),
        }
    }

    fn watched(&self) -> Watched {
        match &self.client {
            Client::Objects(client) => Watched::Objects(client.clone(), self.drives.iter().map(Drive::view).collect()),
            Client::Array(array) => Watched::Array(array.clone()),
            Client::Blue(blue) => Watched::Blue(blue.clone()),
        }
    }

    /// Completes when it has ended by itself.
    async fn ended(&mut self) {
        if let Some(ended) = &mut self.ended {
            // A sender that is gone means the same.
            let _ = ended.await;
        }
        self.ended = None;
    }

    /// Closes it in order, even if it has ended by itself.
    async fn close(self, name: &str) {
        let Self { client, ended, drives } = self;
        let closing = async {
            client.close().await;
            if let Some(ended) = ended {
                let _ = ended.await;
            }
        };
        let late = async {
            let began = tokio::time::Instant::now();
            // Asked beside the close: an engine that is silent about it has no more time for that.
            let patience = opening::close_patience(client.objects().await);
            tokio::time::sleep_until(began + patience).await;
        };
        tokio::select! {
            biased;
            () = late => {
                tracing::warn!(engine = name, "the engine did not close in time; its next start takes longer");
                return;
            }
            () = closing => {}
        }
        opening::close_drives(drives).await;
    }
}

impl Client {
    /// Number of its objects, if it answers soon.
    async fn objects(&self) -> u64 {
        let asking = async {
            match self {
                Self::Objects(client) => client.usage().await.ok().map(|usage| usage.objects),
                Self::Array(array) => array.client.figures().await.ok().map(|figures| figures.objects),
                Self::Blue(blue) => blue.client.figures().await.ok().map(|figures| figures.objects),
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.ok().flatten().unwrap_or(0)
    }

    async fn close(&self) {
        match self {
            Self::Objects(client) => client.close().await,
            Self::Array(array) => array.client.close().await,
            Self::Blue(blue) => blue.client.close().await,
        }
    }
}
