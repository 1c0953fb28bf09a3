//! The objects of a server that is not running, as the server's one store: for commands that read, write and delete
//! single ones.

use std::sync::Arc;

use shingle_array_objects::{ArrayClient, ArrayEngine};
use shingle_placement::{Placement, Site};
use shingle_store_api::ObjectStore;
use tokio::sync::{oneshot, watch};

use crate::config::ArrayConfig;
use crate::engines::arrays;
use crate::engines::bucket_notes::BucketNotes;
use crate::engines::gate::Gate;
use crate::engines::keeper::CHUNKS;
use crate::error::{Error, ErrorKind, Result};
use crate::offline::opened::Offline;
use crate::reports::health::Health;

/// Purpose of opening the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read them: arrays are opened for reading only, and no file is made.
    Read,
    /// To change them: arrays are opened as a server opens them.
    Write,
}

/// The one store. [Close](OfflineStore::close) it before its [`Offline`].
pub struct OfflineStore {
    store: Placement,
    arrays: Vec<OpenArray>,
    absent: Vec<Error>,
}

/// An array that is open.
enum OpenArray {
    Reading(ArrayEngine),
    /// A client, and a receiver that completes when its owner has ended.
    Writing(ArrayClient, oneshot::Receiver<()>),
}

impl OpenArray {
    fn store(&self) -> Arc<dyn ObjectStore> {
        match self {
            Self::Reading(engine) => engine.client().into(),
            Self::Writing(client, _) => client.clone().into(),
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
        }
    }
}

impl Offline {
    /// All of it as one store. An array that does not open refuses its objects, and leaves the others to be used.
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
        let (mut arrays, mut absent) = (Vec::new(), Vec::new());
        for config in self.arrays() {
            let health = Health::new(&config.name, watch::Sender::default());
            let gate = Arc::new(Gate::new(health.clone(), Arc::default()));
            match self.open_to(config, access, &health).await {
                Ok(array) => {
                    gate.open(array.store());
                    open.push((sites.len(), array.store()));
                    arrays.push(array);
                }
                Err(error) => {
                    health.failed(&error);
                    absent.push(error);
                }
            }
            sites.push(Site { name: config.name.clone(), class: Some(config.class().to_owned()), store: gate });
        }
        if open.is_empty() {
            let none = || Error::new(ErrorKind::Config, "the configuration names neither drives nor arrays");
            return Err(absent.into_iter().next().unwrap_or_else(none));
        }
        let noted = sites.iter().map(|site| notes.of(&site.name)).collect();
        let store = Placement::begin(sites, noted, None);
        for (site, of) in open {
            if let Err(error) = store.learn(site, &*of).await {
                close_all(arrays).await;
                return Err(Error::new(ErrorKind::Store, error.message));
            }
        }
        Ok(OfflineStore { store, arrays, absent })
    }

    async fn open_to(&self, config: &ArrayConfig, access: Access, health: &Health) -> Result<OpenArray> {
        match access {
            Access::Read => {
                let array = self.open_array(config).await?;
                let options = shingle_array_objects::Options::default();
                let engine = ArrayEngine::open_to_read(self.runtime().clone(), array, options).await;
                let named = |error| Error::new(ErrorKind::Store, format!("array {}: {error}", config.name));
                Ok(OpenArray::Reading(engine.map_err(named)?))
            }
            Access::Write => {
                let mut config = config.clone();
                // No background scrub meanwhile.
                config.scrub_interval = None;
                let (array, ended) = arrays::start(config, self.data(), self.given(), health.clone()).await?;
                Ok(OpenArray::Writing(array.client, ended))
            }
        }
    }
}

async fn close_all(arrays: Vec<OpenArray>) {
    for array in arrays {
        array.close().await;
    }
}

impl OfflineStore {
    /// The store.
    pub fn store(&self) -> &dyn ObjectStore {
        &self.store
    }

    /// Reasons why arrays did not open.
    pub fn absent(&self) -> &[Error] {
        &self.absent
    }

    /// Closes the arrays in order.
    pub async fn close(self) {
        let Self { store, arrays, .. } = self;
        drop(store);
        close_all(arrays).await;
    }
}
