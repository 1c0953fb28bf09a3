//! Settings of volumes that a server has beside its objects.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::{Config, found_at};
use crate::inventory::DriveName;
use crate::volumes::{Exports, Place, TlsFiles, VolumeExport, export_name};

/// The port of NBD.
const PORT: u16 = 10809;

/// A volume.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeConfig {
    /// Its drive or partition, as [`DriveConfig::path`](super::DriveConfig::path).
    pub drive: PathBuf,
    /// The name that clients ask for; that of the partition or drive if not given.
    name: Option<String>,
    /// Clients can write nothing.
    #[serde(default)]
    pub read_only: bool,
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

impl Config {
    /// The volumes to serve, and the ways to them; `None` if there are none.
    pub(crate) fn exports(&self) -> Option<Exports> {
        if self.volumes.is_empty() {
            return None;
        }
        let NbdConfig { listen, sockets, tls_cert, tls_key, tls_clients } = self.nbd.clone();
        let mut places: Vec<_> = listen.into_iter().map(Place::Tcp).collect();
        places.extend(sockets.into_iter().map(|path| Place::Unix(self.data.join(path))));
        if places.is_empty() {
            places.push(Place::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))));
        }
        let tls = tls_cert.zip(tls_key).map(|(cert, key)| TlsFiles { cert, key, clients: tls_clients });
        let volume = |volume: &VolumeConfig| VolumeExport {
            drive: found_at(&self.data, &volume.drive),
            name: volume.name(),
            read_only: volume.read_only,
            record: None,
        };
        let volumes = self.volumes.iter().map(volume).collect();
        Some(Exports { volumes, places, tls, accept_loss: false, log: self.log.clone() })
    }

    pub(super) fn find_wrong_volumes(&self, wrong: &mut Vec<String>) {
        for (index, volume) in self.volumes.iter().enumerate() {
            let (drive, before) = (volume.drive.display(), &self.volumes[..index]);
            if let Err(error) = DriveName::of_path(&volume.drive) {
                wrong.push(format!("the drive {drive} is impossible: {error}"));
            }
            if before.iter().any(|other| other.drive == volume.drive) {
                wrong.push(format!("the drive {drive} is named for two volumes"));
            } else if before.iter().any(|other| other.name() == volume.name()) {
                wrong.push(format!("two volumes are called `{}`: give one another `name`", volume.name()));
            }
            let in_array = self.arrays.iter().any(|array| array.drives.contains(&volume.drive));
            if in_array || self.drives.iter().any(|other| other.path == volume.drive) {
                wrong.push(format!(
                    "the drive {drive} is named for a volume and for objects: divide it (`shingle drive partition`)"
                ));
            }
        }
        if self.nbd.tls_cert.is_some() != self.nbd.tls_key.is_some() {
            wrong.push("nbd.tls_cert and nbd.tls_key go together".to_owned());
        } else if self.nbd.tls_clients.is_some() && self.nbd.tls_cert.is_none() {
            wrong.push("nbd.tls_clients needs nbd.tls_cert and nbd.tls_key".to_owned());
        }
    }
}
