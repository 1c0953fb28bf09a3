//! Volumes that a configuration names: what is to be served, and mistakes.

use std::net::{Ipv4Addr, SocketAddr};

use super::nbd::{NbdConfig, VolumeConfig};
use super::{Config, found_at};
use crate::inventory::DriveName;
use crate::volumes::{Exports, Place, TlsFiles, VolumeExport, is_snapshot_of};

/// The port of NBD.
const PORT: u16 = 10809;

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
            read_only: volume.read_only,
            layer: volume.layer,
            map_bytes: volume.map_memory,
            ..VolumeExport::new(found_at(&self.data, &volume.drive), volume.name())
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
            if let Some(other) = self.volumes.iter().find(|other| is_snapshot_of(&volume.name(), &other.name())) {
                wrong.push(format!(
                    "the volume `{}` is called as a snapshot of `{}` would be: give it another `name`",
                    volume.name(),
                    other.name()
                ));
            }
            let in_blue = self.blues.iter().any(|blue| blue.drive == volume.drive);
            let in_array = self.arrays.iter().any(|array| array.drives.contains(&volume.drive));
            if in_array || in_blue || self.drives.iter().any(|other| other.path == volume.drive) {
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
