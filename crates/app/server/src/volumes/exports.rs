//! Volumes to serve, and ways to them.

use std::path::{Path, PathBuf};

use shingle_nbd_server::{Tls, TlsUse};
use shingle_translation_layers::Layer;

use super::place::Place;
use crate::drive_path;
use crate::error::{Error, ErrorKind, Result};
use crate::inventory::DriveName;

/// Memory of a volume's map, if none is named.
pub(crate) const MAP_BYTES: u64 = 1 << 30;

/// A volume to serve.
#[derive(Clone, Debug)]
pub struct VolumeExport {
    /// Its drive: a path, or a name that stays.
    pub drive: PathBuf,
    /// The name that clients ask for.
    pub name: String,
    /// Clients can write nothing.
    pub read_only: bool,
    /// Its cleaner.
    pub layer: Layer,
    /// Memory of its map, above which extents are joined by copying.
    pub map_bytes: u64,
    /// A new file for a block trace of what clients ask for.
    pub record: Option<PathBuf>,
}

impl VolumeExport {
    /// A volume that can be written to, and cleans by itself.
    pub fn new(drive: PathBuf, name: String) -> Self {
        let layer = Layer::default();
        Self { drive, name, read_only: false, layer, map_bytes: MAP_BYTES, record: None }
    }
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

impl TlsFiles {
    /// Reads them.
    ///
    /// # Errors
    /// `Config` if they make no sense.
    pub(crate) fn read(&self) -> Result<Tls> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| Error::new(ErrorKind::Config, format!("{}: {error}", path.display())))
        };
        let clients = self.clients.as_deref().map(read).transpose()?;
        let (cert, key) = (read(&self.cert)?, read(&self.key)?);
        Tls::from_pem(&cert, &key, clients.as_deref(), TlsUse::RequiredOverTcp)
            .map_err(|error| Error::new(ErrorKind::Config, error.to_string()))
    }
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
    /// Goes on where sectors that were written last cannot be known: they may read as they were before.
    pub accept_loss: bool,
    /// Level of the log, or levels by module.
    pub log: String,
}

/// The usual name of the export of a drive or partition.
pub fn export_name(drive: &Path) -> String {
    if let (_, Some(name)) = drive_path::split(drive) {
        return name;
    }
    let own = match DriveName::of_path(drive) {
        Ok(DriveName::Path(path)) => path.file_stem().map(|stem| stem.to_string_lossy().into_owned()),
        Ok(name) => name.to_string().split_once(':').map(|(_, name)| name.to_owned()),
        Err(_) => None,
    };
    own.unwrap_or_else(|| "volume".to_owned())
}

/// True if an export of this name would be that of a snapshot of the volume: they are offered and withdrawn together.
pub(crate) fn is_snapshot_of(name: &str, volume: &str) -> bool {
    name.strip_prefix(volume).is_some_and(|rest| rest.starts_with('@'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_has_the_name_of_its_drive() {
        let names = [
            ("disk.shingle", "disk"),
            ("/dev/sdb", "sdb"),
            ("serial:ZL2", "ZL2"),
            ("/a/b c", "b c"),
            ("disk.shingle#vm1", "vm1"),
            ("serial:ZL2#vm1", "vm1"),
        ];
        names.iter().for_each(|(drive, name)| assert_eq!(export_name(Path::new(drive)), *name));
    }
}
