//! `shingle volume attach|detach`: a volume as a disk of this machine.
//!
//! The kernel's NBD client makes `/dev/nbdN` of it. If the kernel has no such client, nbdfuse shows the export as a file, and a loop
//! device makes a disk of the file.

use std::path::{Path, PathBuf};

use clap::Args;
use shingle_server::{Place, ServedVolumes, Stop, VolumeExport, export_name, export_volumes};
use shingle_zoned_linux::System;

use super::disk::{Disk, by_client, by_fuse, detach, free_node};
use super::export::{Manner, failure};
use crate::failure::{Failure, Outcome};
use crate::scratch::Scratch;

const LONG: &str = "\
Serves the volume on a socket of its own, makes a disk of it, prints the disk's node, and stays until a signal, or until \
`shingle volume detach` takes the disk away. Needs root. Unmount file systems on it first.

The disk is that of the kernel's NBD client (its module nbd, and the program nbd-client). Where the kernel has none, it is a loop \
device over a file that nbdfuse shows.";

/// Makes a disk of a volume.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Attach {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The node to use, such as /dev/nbd1 [default: the first one that is free].
    #[arg(long, value_name = "NODE")]
    device: Option<PathBuf>,
    /// A block trace of what the kernel asks for, in a new file [default: none].
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    manner: Manner,
}

/// Takes a disk away.
#[derive(Args)]
pub(crate) struct Detach {
    /// The node that `shingle volume attach` printed.
    #[arg(value_name = "NODE")]
    device: PathBuf,
}

/// The maker of the disk.
enum Maker {
    /// The kernel's client, at this node.
    Client(PathBuf),
    Fuse,
}

impl Attach {
    pub(crate) fn run(self) -> Outcome {
        let scratch = Scratch::new(Path::new("/run"))?;
        let (socket, name) = (scratch.0.join("nbd.sock"), export_name(&self.drive));
        let volumes =
            vec![VolumeExport { drive: self.drive, name: name.clone(), read_only: false, record: self.record }];
        let exports = self.manner.exports(volumes, vec![Place::Unix(socket.clone())], None);
        let (device, mut result) = (self.device, Ok(()));
        let ready = async |served: ServedVolumes, mut stop: Stop| {
            let sector = served.sector_bytes.first().copied().unwrap_or(4096).to_string();
            let made = async {
                match maker(device).await? {
                    Maker::Client(node) => by_client(&node, &socket, &name, &sector).await,
                    Maker::Fuse => by_fuse(&scratch.0, &socket, &name, &sector).await,
                }
            };
            match made.await {
                Ok(disk) => stay(disk, &mut stop).await,
                Err(failure) => result = Err(failure),
            }
        };
        export_volumes(exports, ready).map_err(failure)?;
        result
    }
}

/// Stays until the disk is taken away, or a stop is wanted.
async fn stay(mut disk: Disk, stop: &mut Stop) {
    say!("{}", disk.node.display());
    tokio::select! {
        _ = disk.keeper.wait() => {}
        () = stop.wanted() => {}
    }
    disk.end().await;
}

/// The way to a disk that this machine has.
async fn maker(device: Option<PathBuf>) -> Outcome<Maker> {
    let node = match device {
        Some(node) => Some(node),
        None => free_node().await,
    };
    match node {
        Some(node) if has("nbd-client") => Ok(Maker::Client(node)),
        Some(_) => Err(Failure::new("nbd-client is not there: install it (apt install nbd-client)")),
        None if has("nbdfuse") => Ok(Maker::Fuse),
        None => Err(Failure::new(
            "this kernel has no NBD client (`modprobe nbd`), and without it nbdfuse and a loop device are needed: install nbdfuse \
             (apt install libnbd-bin). Programs that speak NBD need no disk: `shingle volume export`",
        )),
    }
}

fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).any(|folder| folder.join(program).exists())
}

impl Detach {
    pub(crate) fn run(self) -> Outcome {
        let node = self.device.display();
        if let Ok(drive) = System::host().describe(&self.device)
            && drive.in_use()
        {
            let mounts: Vec<_> = drive.mounts.iter().map(|at| at.display().to_string()).collect();
            let place = if mounts.is_empty() { "another device".to_owned() } else { mounts.join(", ") };
            return Err(Failure::new(format!("{node} is in use ({place}): unmount it first")));
        }
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        executor.block_on(detach(&self.device))
    }
}
