//! The stores of a server, and the one store that they are together.

use std::sync::Arc;

use shingle_object_store::ObjectStoreClient;
use shingle_placement::{Placement, Site};
use shingle_s3_gateway::GatewayMetrics;
use shingle_store_api::ObjectStore;
use tokio::sync::oneshot;

use crate::admin::{Watched, WatchedArray};
use crate::arrays::{self, Array};
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::drive::Drive;
use crate::error::{Error, ErrorKind, Result};
use crate::objects::{self, Objects};
use crate::opening::{self, Purpose};

/// What the store on the drives is called where there are arrays, too.
pub(crate) const CHUNKS: &str = "drives";

/// Everything that is open.
#[derive(Default)]
pub(crate) struct Engines {
    drives: Arc<Vec<Drive>>,
    objects: Option<(ObjectStoreClient, oneshot::Receiver<()>)>,
    arrays: Vec<Array>,
}

/// What front ends get.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The same, where it is several.
    pub(crate) placement: Option<Placement>,
}

impl Engines {
    /// Opens everything. What was opened stays in here also where it fails.
    ///
    /// # Errors
    /// As [`opening::open`] and [`arrays::start`].
    pub(crate) async fn open(&mut self, config: &Config, directory: &mut DataDir) -> Result<Opened> {
        let arrays = config.arrays()?;
        let mut drives = Vec::new();
        let opened = opening::open(config, directory, &mut drives, Purpose::Serve).await;
        self.drives = Arc::new(drives);
        if let Some(Objects { client, report, ended }) = opened? {
            objects::log_report(&report);
            self.objects = Some((client, ended));
        }
        for array in arrays {
            self.arrays.push(arrays::start(array, directory.path()).await?);
        }
        if let ([], Some((client, _))) = (self.arrays.as_slice(), &self.objects) {
            return Ok(Opened { store: Arc::new(client.clone()), placement: None });
        }
        let chunks = self.objects.iter().map(|(client, _)| Site {
            name: CHUNKS.to_owned(),
            class: None,
            store: Arc::new(client.clone()),
        });
        let arrays = self.arrays.iter().map(|array| Site {
            name: array.name.clone(),
            class: Some(array.class.clone()),
            store: Arc::new(array.client.clone()),
        });
        let placement = Placement::open(chunks.chain(arrays).collect()).await;
        let placement = placement.map_err(|error| Error::new(ErrorKind::Store, error.message))?;
        Ok(Opened { store: Arc::new(placement.clone()), placement: Some(placement) })
    }

    pub(crate) fn watched(&self, gateway: Arc<GatewayMetrics>) -> Watched {
        Watched {
            gateway,
            store: self.objects.as_ref().map(|(client, _)| client.clone()),
            drives: self.drives.clone(),
            arrays: self.arrays.iter().map(WatchedArray::of).collect(),
        }
    }

    /// Completes with what has ended by itself.
    pub(crate) async fn ended(&mut self) -> String {
        let objects = async {
            match &mut self.objects {
                Some((_, ended)) => drop(ended.await),
                None => std::future::pending().await,
            }
            "the object store".to_owned()
        };
        let arrays = self.arrays.iter_mut().map(|array| {
            Box::pin(async {
                let _ = (&mut array.ended).await;
                format!("array {}", array.name)
            })
        });
        let arrays: Vec<_> = arrays.collect();
        let arrays = async {
            if arrays.is_empty() {
                return std::future::pending().await;
            }
            futures_util::future::select_all(arrays).await.0
        };
        tokio::select! {
            which = objects => which,
            which = arrays => which,
        }
    }

    /// Closes everything in order. Others must have dropped their handles of the stores.
    pub(crate) async fn close(self) {
        let Self { drives, objects, arrays } = self;
        let close_arrays = arrays.into_iter().map(|Array { name, client, ended, .. }| async move {
            let closing = async {
                client.close().await;
                drop(client);
                let _ = ended.await;
            };
            if tokio::time::timeout(opening::CLOSE_PATIENCE, closing).await.is_err() {
                tracing::warn!(array = name, "the array did not close in time; its next start takes longer");
            }
        });
        let close_objects = async {
            if let Some((client, ended)) = objects {
                let closing = async {
                    client.close().await;
                    drop(client);
                    let _ = ended.await;
                };
                if tokio::time::timeout(opening::CLOSE_PATIENCE, closing).await.is_err() {
                    tracing::warn!("the object store did not close in time; the next start takes longer");
                    return;
                }
            }
            // Nobody else has a handle any more.
            opening::close_drives(Arc::into_inner(drives).unwrap_or_default()).await;
        };
        tokio::join!(close_objects, futures_util::future::join_all(close_arrays));
    }
}
