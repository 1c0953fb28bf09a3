//! Settings of volumes that a server has beside its objects.

use std::net::SocketAddr;
use std::path::PathBuf;

use shingle_translation_layers::Layer;

use super::values::{layer, size};
use crate::volumes::{MAP_BYTES, export_name};

/// A volume.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeConfig {
    /// Its drive or partition, as [`DriveConfig::path`](super::DriveConfig::path).
    pub drive: PathBuf,
    /// The name that clients ask for; that of the partition or drive if not given.
    pub(super) name: Option<String>,
    /// Clients can write nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Its cleaner: `builtin`, `tl1` or `tl2`, with a policy behind a colon.
    #[serde(default, deserialize_with = "layer")]
    pub layer: Layer,
    /// Memory of its map, above which extents are joined by copying.
    #[serde(default = "map_bytes", deserialize_with = "size")]
    pub map_memory: u64,
}

fn map_bytes() -> u64 {
    MAP_BYTES
}

/// Ways to the volumes.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NbdConfig {
    /// TCP addresses to listen at; 127.0.0.1:10809 if there is no socket either.
    pub listen: Vec<SocketAddr>,
    /// Files of Unix sockets to listen at. A relative path is relative to the data directory.
    pub sockets: Vec<PathBuf>,
    /// The chain of certificates, in PEM: connections over TCP have to use TLS then.
    pub tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM.
    pub tls_key: Option<PathBuf>,
    /// Authorities of clients' certificates, in PEM: no other client gets in then.
    pub tls_clients: Option<PathBuf>,
}

impl VolumeConfig {
    /// The name that clients ask for.
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| export_name(&self.drive))
    }
}
