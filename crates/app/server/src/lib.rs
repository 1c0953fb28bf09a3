//! The server: from a configuration to drives, engines and front ends, which meet here and nowhere else.
//!
//! Each drive is owned by a thread of its own, the object store by another, each array with all its drives by one; the S3 front end runs on tokio's threads and
//! reaches them over bounded queues.
//!
//! **Owns** the configuration, the data directory, the threads and the order of starting and stopping. **Knows nothing
//! of** formats, requests, or engines' insides.
//!
//! # Invariants
//! - SV-SRV-1: one server per data directory. (`a_data_directory_is_used_by_one_at_a_time`)
//! - SV-SRV-2: no drive is formatted that holds a store, or that this directory has ever used. (`startup.rs`)
//! - SV-SRV-3: the secret key is in one file that only its owner reads, and never in a log or on a terminal.
//! - SV-SRV-4: acknowledged writes do not depend on an orderly end: stopping only saves the next start some work.

mod asking;
mod config;
mod credentials;
mod data_dir;
mod disks;
pub mod drive_path;
mod engines;
mod error;
pub mod inventory;
mod offline;
mod reports;
mod server;
mod signals;
mod volumes;

pub use asking::{ArrayStanding, Running, Served};
pub use config::{
    ArrayConfig, BlueConfig, Config, DriveConfig, LimitsConfig, NbdConfig, Packing, Shape, VolumeConfig, read_toml,
};
pub use disks::{AttachDrive, attach_drive};
pub use engines::device::{Look, look_at_drive, open_drive, open_drive_in_time};
pub use error::{Error, ErrorKind};
pub use offline::loss::{GivenUp, Unread};
pub use offline::opened::{BlueCounted, Checked, Counted, Offline, Progress};
pub use offline::precheck::{Findings, look as precheck};
pub use offline::store::{Access, OfflineStore};
pub use reports::health::utc;
pub use reports::status::ask as ask_status;
pub use server::{Server, run, start_log};
pub use shingle_translation_layers::Layer as VolumeLayer;
pub use volumes::{
    AttachVolume, Exports, Place, Served as ServedVolumes, SnapshotLine, SnapshotWish, Stop, TlsFiles, VolumeExport,
    ask_for_snapshots, attach as attach_volume, export as export_volumes, export_name,
};
