//! `shingle blue format`: a new store of objects.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use shingle_blue_store::{FormatOptions, Metadata, Store};
use shingle_rocksdb_keys::RocksKeys;
use shingle_zoned_linux::OpenOptions;

use super::opened::named;
use crate::confirm::confirm;
use crate::device;
use crate::failure::{Failure, Outcome};

/// The place of the metadata.
#[derive(Clone, Copy, Default, ValueEnum)]
enum Place {
    #[default]
    Log,
    Rocksdb,
}

#[derive(Args)]
pub(crate) struct Format {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Zones for metadata [default: a fiftieth of the drive's, and at least 21].
    #[arg(long, value_name = "COUNT")]
    metazones: Option<u32>,
    /// Writes of fewer bytes go to the metadata first [default: 65536 on a disk, 16384 on an SSD].
    #[arg(long, value_name = "BYTES")]
    small: Option<u32>,
    /// The place of names and all other metadata: a log, and all of them in memory; or RocksDB, for drives with many objects
    /// (needs libshingle_rocksdb.so, docs/rocksdb.md).
    #[arg(long, value_enum, value_name = "PLACE", default_value_t)]
    metadata: Place,
    /// Go on even if the drive holds a store, or a file system that is not mounted; its data is lost. Asks first.
    #[arg(long)]
    force: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl Format {
    pub(crate) fn run(self) -> Outcome {
        if let Place::Rocksdb = self.metadata {
            let keys = RocksKeys { cache_bytes: 0, file: None };
            keys.check().map_err(|error| Failure::new(error.to_string()))?;
        }
        shingle_runtime::real::run(|rt| async move {
            let open = OpenOptions { force: self.force, keep_open: false, alone: false };
            let device = device::open_with(&self.drive, &rt, open).await?;
            let drive = self.drive.display();
            if !self.force {
                device::refuse_shared(&self.drive, &device).await?;
            } else if let Some(data) = device::data_on(&device).await? {
                confirm(self.yes, &format!("{drive}: {data}: all that it holds will be lost"))?;
            }
            let metadata = match self.metadata {
                Place::Log => Metadata::Log,
                Place::Rocksdb => Metadata::RocksDb,
            };
            let (meta_zones, small_bytes) = (self.metazones, self.small);
            let options = FormatOptions { meta_zones, small_bytes, metadata, force: self.force, store: None };
            let store = Store::format(&rt, device, options).await.map_err(|error| named(&self.drive, &error))?;
            say!("{drive}: objects {store}");
            Ok(())
        })?
    }
}
