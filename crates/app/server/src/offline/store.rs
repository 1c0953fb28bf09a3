//! The objects of a server that is not running, as the server's one store: for commands that read, write and delete
//! single ones.

use std::sync::Arc;

use shingle_array_objects::{ArrayClient, ArrayEngine};
use shingle_blue_objects::{BlueClient, BlueEngine};
use shingle_placement::{Placement, Site};
use shingle_store_api::ObjectStore;
use tokio::sync::{oneshot, watch};

use crate::config::{ArrayConfig, BlueConfig};
use crate::engines::bucket_notes::BucketNotes;
use crate::engines::gate::Gate;
use crate::engines::keeper::CHUNKS;
use crate::engines::{arrays, blues};
use crate::error::{Error, ErrorKind, Result};
use crate::offline::opened::Offline;
use crate::reports::health::Health;

/// Purpose of opening the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read them: arrays and blue stores are opened for reading only, and no file is made.
    Read,
    /// To change them: arrays and blue stores are opened as a server opens them.
    Write,
}

/// The one store. [Close](OfflineStore::close) it before its [`Offline`].
pub struct OfflineStore {
    store: Placement,
    engines: Vec<OpenEngine>,
    absent: Vec<Error>,
}

/// An array or blue store that is open.
enum OpenEngine {
    Reading(ArrayEngine),
    /// A client, and a receiver that completes when its owner has ended.
    Writing(ArrayClient, oneshot::Receiver<()>),
    /// The same of a blue store.
    ReadingBlue(BlueEngine),
    WritingBlue(BlueClient, oneshot::Receiver<()>),
}

impl OpenEngine {
    fn store(&self) -> Arc<dyn ObjectStore> {
        match self {
            Self::Reading(engine) => engine.client().into(),
            Self::Writing(client, _) => client.clone().into(),
            Self::ReadingBlue(engine) => engine.client().into(),
            Self::WritingBlue(client, _) => client.clone().into(),
        }
    }

    async fn close(self) {
        match self {
            Self::Reading(engine) => {
                // Nothing was written.
                let _ = engine.close().await;
            }
            Self::Writing(client, ended) => {
                client.close().await;
                // A sender that is gone means the same.
                let _ = ended.await;
            }
            Self::ReadingBlue(engine) => {
                let _ = engine.close().await;
            }
            Self::WritingBlue(client, ended) => {
                client.close().await;
                let _ = ended.await;
            }
        }
    }
}

impl Offline {
    /// All of it as one store. An array or blue store that does not open refuses its objects, and leaves the others to be used.
    ///
    /// # Errors
    /// As [`Offline::open`], if nothing opens; `Store` if two engines have buckets of one name.
    pub async fn store(&self, access: Access) -> Result<OfflineStore> {
        let notes = BucketNotes::read(self.data());
        let (mut sites, mut open) = (Vec::new(), Vec::new());
        if let Some(client) = self.client() {
            let store: Arc<dyn ObjectStore> = Arc::new(client.clone());
            open.push((sites.len(), store.clone()));
            sites.push(Site { name: CHUNKS.to_owned(), class: None, store });
        }
        let (mut engines, mut absent) = (Vec::new(), Vec::new());
        for plan in self.arrays().iter().map(Plan::Array).chain(self.blues().iter().map(Plan::Blue)) {
            let (name, class) = plan.names();
            let health = Health::new(name, watch::Sender::default());
            let gate = Arc::new(Gate::new(health.clone(), Arc::default()));
            match self.open_to(plan, access, &health).await {
                Ok(engine) => {
                    gate.open(engine.store());
                    open.push((sites.len(), engine.store()));
                    engines.push(engine);
                }
                Err(error) => {
                    health.failed(&error);
                    absent.push(error);
                }
            }
            sites.push(Site { name: name.to_owned(), class: Some(class.to_owned()), store: gate });
        }
        if open.is_empty() {
            let none = || Error::new(ErrorKind::Config, "the configuration names no drives");
            return Err(absent.into_iter().next().unwrap_or_else(none));
        }
        let noted = sites.iter().map(|site| notes.of(&site.name)).collect();
        let store = Placement::begin(sites, noted, None);
        for (site, of) in open {
            if let Err(error) = store.learn(site, &*of).await {
                close_all(engines).await;
                return Err(Error::new(ErrorKind::Store, error.message));
            }
        }
        Ok(OfflineStore { store, engines, absent })
    }

    async fn open_to(&self, plan: Plan<'_>, access: Access, health: &Health) -> Result<OpenEngine> {
        match (plan, access) {
            (Plan::Array(config), Access::Read) => {
                let array = self.open_array(config).await?;
                let options = shingle_array_objects::Options::default();
                let engine = ArrayEngine::open_to_read(self.runtime().clone(), array, options).await;
                let named = |error| Error::new(ErrorKind::Store, format!("array {}: {error}", config.name));
                Ok(OpenEngine::Reading(engine.map_err(named)?))
            }
            (Plan::Array(config), Access::Write) => {
                let mut config = config.clone();
                // No background scrub meanwhile.
                config.scrub_interval = None;
                let (array, ended) = arrays::start(config, self.data(), self.given(), health.clone()).await?;
                Ok(OpenEngine::Writing(array.client, ended))
            }
            (Plan::Blue(config), Access::Read) => Ok(OpenEngine::ReadingBlue(self.open_blue(config).await?.1)),
            (Plan::Blue(config), Access::Write) => {
                let (blue, ended) = blues::start(config.clone(), self.given_blue(), health.clone()).await?;
                Ok(OpenEngine::WritingBlue(blue.client, ended))
            }
        }
    }
}

/// An engine to be opened.
#[derive(Clone, Copy)]
enum Plan<'a> {
    Array(&'a ArrayConfig),
    Blue(&'a BlueConfig),
}

impl<'a> Plan<'a> {
    /// Its name, and the class of its objects.
    fn names(self) -> (&'a str, &'a str) {
        match self {
            Self::Array(config) => (&config.name, config.class()),
            Self::Blue(config) => (&config.name, config.class()),
        }
    }
}

async fn close_all(engines: Vec<OpenEngine>) {
    for engine in engines {
        engine.close().await;
    }
}

impl OfflineStore {
    /// The store.
    pub fn store(&self) -> &dyn ObjectStore {
        &self.store
    }

    /// Reasons why arrays or blue stores did not open.
    pub fn absent(&self) -> &[Error] {
        &self.absent
    }

    /// Closes the arrays and blue stores in order.
    pub async fn close(self) {
        let Self { store, engines, .. } = self;
        drop(store);
        close_all(engines).await;
    }
}
