//! The objects of a server that is not running: for commands that look after them.

use shingle_object_store::{CheckReport, Depth, ObjectStats, ObjectStoreClient, OpenReport};
use shingle_store_api::{ListRequest, ObjectInfo, ObjectStore};
use tokio::sync::watch;

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::drive::Drive;
use crate::engines::CHUNKS;
use crate::error::{Error, ErrorKind, Result};
use crate::health::Health;
use crate::objects::Objects;
use crate::opening::{self, Purpose};

/// The objects of a data directory, without a front end. The directory is locked while this exists.
pub struct Offline {
    client: ObjectStoreClient,
    report: OpenReport,
    drives: Vec<Drive>,
    ended: tokio::sync::oneshot::Receiver<()>,
    _directory: DataDir,
}

impl Offline {
    /// Opens drives and objects, and makes neither. With `rebuild` the index is made again from the drives: `Some(true)` begins with the
    /// newest backup of it, `Some(false)` reads everything.
    ///
    /// # Errors
    /// As [`Server::start`](crate::Server::start), but for those of the network.
    pub async fn open(config: &Config, rebuild: Option<bool>) -> Result<Self> {
        let mut directory = DataDir::existing(&config.data)?;
        let mut drives = Vec::new();
        // Nobody asks how far it is.
        let health = Health::new(CHUNKS, watch::Sender::default());
        match opening::open(config, &mut directory, &mut drives, Purpose::Inspect { rebuild }, &health).await {
            Ok(Some(Objects { client, report, ended })) => {
                Ok(Self { client, report, drives, ended, _directory: directory })
            }
            Ok(None) => Err(Error::new(
                ErrorKind::Config,
                "the configuration names arrays only, which `shingle array` looks after",
            )),
            Err(error) => {
                opening::close_drives(drives).await;
                Err(error)
            }
        }
    }

    /// What opening found.
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// Compares index and drives; with `full`, reads and verifies every byte.
    ///
    /// # Errors
    /// `Store` if the check could not run. Damage is no error; it is in the report.
    pub async fn check(&self, full: bool) -> Result<CheckReport> {
        let depth = if full { Depth::Full } else { Depth::Quick };
        self.client.check(depth).await.map_err(failed)
    }

    /// Collects all garbage there is; returns the bytes of files deleted.
    ///
    /// # Errors
    /// `Store` if there is no room for copies, or a drive fails.
    pub async fn collect_garbage(&self) -> Result<u64> {
        self.client.collect_garbage().await.map_err(failed)
    }

    /// Counters and sizes.
    ///
    /// # Errors
    /// `Store` if the store has stopped.
    pub async fn stats(&self) -> Result<ObjectStats> {
        self.client.stats().await.map_err(failed)
    }

    /// Every object: its bucket, and what is known of it.
    ///
    /// # Errors
    /// `Store` if the index fails.
    pub async fn list(&self, prefix: &str, mut found: impl FnMut(&str, &ObjectInfo)) -> Result<()> {
        for bucket in self.client.list_buckets().await.map_err(failed)? {
            let mut after = None;
            loop {
                let request = ListRequest { prefix: prefix.to_owned(), delimiter: None, after, limit: 1000 };
                let page = self.client.list(&bucket.name, request).await.map_err(failed)?;
                page.objects.iter().for_each(|object| found(&bucket.name, object));
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Closes objects and drives in order.
    pub async fn close(self) {
        let Self { client, drives, ended, .. } = self;
        client.close().await;
        drop(client);
        let _ = ended.await;
        for drive in drives {
            let _ = drive.ended.await;
        }
    }
}

fn failed(error: shingle_store_api::StoreError) -> Error {
    Error::new(ErrorKind::Store, error.message)
}
