//! `shingle volume export`: volumes over NBD, in the foreground.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use shingle_base::ByteSize;
use shingle_server::{
    AttachVolume, Error, ErrorKind, Exports, Place, ServedVolumes, Stop, TlsFiles, VolumeExport, VolumeLayer,
    export_name, export_volumes,
};

use crate::failure::{Failure, Outcome, status};

const LONG: &str = "\
Prints an address (URI) for each volume and place once clients can connect, and serves until SIGINT, SIGTERM or SIGHUP: then \
requests under way are answered, and the volumes are closed. Any end, also that by SIGKILL, costs nothing that was \
acknowledged: writes with FUA, and all writes before a flush.

With --record, all that clients ask for is noted with its times in a block trace, which `shingle lab run stl-replay --trace FILE` \
and `block-replay` replay. A file that cannot be written ends the recording with a warning; the export goes on.

Without TLS there is no check of who a client is: listen on a Unix socket or on loopback then. Exit status: 1 a volume \
could not be served, 78 a name or certificate makes no sense.";

/// Serves volumes.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Export {
    /// The drives: zoned block devices, files of emulated ones, or names such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<PathBuf>,
    /// The export's name, for one drive [default: the drive's: `disk` for disk.shingle, `sdb` for /dev/sdb].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// TCP addresses to listen at [default: 127.0.0.1:10809, if there is no directory for a socket].
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Vec<SocketAddr>,
    /// Unix sockets to listen at [default: the first export's name with `.sock`, in RUNTIME_DIRECTORY or else in XDG_RUNTIME_DIR].
    #[arg(long, value_name = "FILE")]
    socket: Vec<PathBuf>,
    /// The server's chain of certificates, in PEM: connections over TCP have to use TLS then [default: none].
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, in PEM [default: none].
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Authorities of clients' certificates, in PEM: no other client gets in then [default: none].
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_clients: Option<PathBuf>,
    /// Block traces of what clients ask for, in new files: one for each drive, in the same order [default: none].
    #[arg(long, value_name = "FILE")]
    record: Vec<PathBuf>,
    #[command(flatten)]
    manner: Manner,
}

/// Options of everything that serves volumes.
#[derive(Args)]
pub(super) struct Manner {
    /// Let clients write nothing. (The drive is written to all the same, if an opening has something to finish.)
    #[arg(long)]
    read_only: bool,
    /// Go on where it cannot be known which sectors were written last: those may read as they were before.
    #[arg(long)]
    accept_loss: bool,
    /// The cleaner: builtin, tl1 (a cache in front of home zones) or tl2 (a log), with a policy behind a colon: tl1:min_valid, tl2:greedy.
    #[arg(long, value_name = "LAYER", default_value = "builtin")]
    layer: VolumeLayer,
    /// Memory of the map, above which extents are joined by copying. At least 64 B for each MiB of the volume are allowed.
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    map_memory: ByteSize,
    /// Level of the log: off, error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: String,
}

impl Export {
    pub(crate) fn run(self) -> Outcome {
        if self.name.is_some() && self.drives.len() > 1 {
            return Err(Failure::new("--name is for one drive; of several, each is exported by its own name"));
        }
        if !self.record.is_empty() && self.record.len() != self.drives.len() {
            let (drives, files) = (self.drives.len(), self.record.len());
            return Err(Failure::new(format!(
                "each drive has a trace of its own: {drives} drives, and {files} files of --record"
            )));
        }
        let records = self.record.into_iter().map(Some).chain(std::iter::repeat(None));
        let volume = |(drive, record): (PathBuf, _)| {
            let name = self.name.clone().unwrap_or_else(|| export_name(&drive));
            VolumeExport { record, ..VolumeExport::new(drive, name) }
        };
        let volumes: Vec<_> = self.drives.into_iter().zip(records).map(volume).collect();
        let mut places: Vec<_> = self.listen.into_iter().map(Place::Tcp).collect();
        places.extend(self.socket.into_iter().map(Place::Unix));
        if places.is_empty() {
            places.push(usual_place(volumes.first().map_or("", |volume| volume.name.as_str())));
        }
        let ready = |served: ServedVolumes, mut stop: Stop| async move {
            served.uris.iter().for_each(|uri| say!("{uri}"));
            stop.wanted().await;
        };
        let tls = match (self.tls_cert, self.tls_key) {
            (Some(cert), Some(key)) => Some(TlsFiles { cert, key, clients: self.tls_clients }),
            _ => None,
        };
        export_volumes(self.manner.exports(volumes, places, tls), ready).map_err(failure)
    }
}

impl Manner {
    /// Everything that is served.
    pub(super) fn exports(self, volumes: Vec<VolumeExport>, places: Vec<Place>, tls: Option<TlsFiles>) -> Exports {
        let (read_only, layer, map_bytes) = (self.read_only, self.layer, self.map_memory.0);
        let volumes =
            volumes.into_iter().map(|volume| VolumeExport { read_only, layer, map_bytes, ..volume }).collect();
        Exports { volumes, places, tls, accept_loss: self.accept_loss, log: self.log }
    }

    /// A volume that is a disk of the kernel.
    pub(super) fn attached(self, drive: PathBuf) -> AttachVolume {
        AttachVolume {
            drive,
            read_only: self.read_only,
            layer: self.layer,
            map_bytes: self.map_memory.0,
            accept_loss: self.accept_loss,
            log: self.log,
        }
    }
}

/// A setting that is wrong has a status of its own: the unit does not restart the server then.
pub(super) fn failure(error: Error) -> Failure {
    let status = match error.kind {
        ErrorKind::Config | ErrorKind::NewerVersion => status::CONFIG,
        _ => status::FAILED,
    };
    Failure::from(error).with_status(status)
}

/// The place where clients look first: a socket that only this user, or the service, can open; else loopback.
fn usual_place(name: &str) -> Place {
    let directory = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_dir());
    let file: String = name.chars().map(|c| if c.is_alphanumeric() || "-._".contains(c) { c } else { '_' }).collect();
    match directory("RUNTIME_DIRECTORY").or_else(|| directory("XDG_RUNTIME_DIR")) {
        Some(directory) => Place::Unix(directory.join(format!("{file}.sock"))),
        None => Place::Tcp(SocketAddr::from(([127, 0, 0, 1], 10809))),
    }
}
