//! Volumes to serve, and ways to them.

use std::path::PathBuf;

use super::place::Place;

/// A volume to serve.
#[derive(Clone, Debug)]
pub struct VolumeExport {
    /// Its drive: a path, or a name that stays.
    pub drive: PathBuf,
    /// The name that clients ask for.
    pub name: String,
    /// A new file for a block trace of what clients ask for.
    pub record: Option<PathBuf>,
}

/// Files of TLS, all PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's chain of certificates.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Authorities of clients' certificates. With it, no other client gets in.
    pub clients: Option<PathBuf>,
}

/// Volumes to serve, and ways to them.
#[derive(Clone, Debug)]
pub struct Exports {
    /// The volumes, each under a name of its own.
    pub volumes: Vec<VolumeExport>,
    /// The places to listen at.
    pub places: Vec<Place>,
    /// Certificates. They are required over TCP then; a Unix socket is guarded by its file's permissions.
    pub tls: Option<TlsFiles>,
    /// Clients can write nothing.
    pub read_only: bool,
    /// Goes on where sectors that were written last cannot be known: they may read as they were before.
    pub accept_loss: bool,
    /// Level of the log, or levels by module.
    pub log: String,
}
