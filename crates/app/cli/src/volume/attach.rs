//! `shingle volume attach|detach`: a volume as a disk of this machine.
//!
//! The kernel's ublk driver makes `/dev/ublkbN` of it, without a socket in between. If the kernel has none, its NBD client makes
//! `/dev/nbdN`. If it has no such client either, nbdfuse shows the export as a file, and a loop device makes a disk of the file.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use shingle_server::{Place, ServedVolumes, Stop, VolumeExport, attach_volume, export_name, export_volumes};
use shingle_zoned_linux::ublk_check;

use super::disk::{Disk, SOCKET, by_client, by_fuse, detach, free_node};
use super::export::{Manner, failure};
use crate::failure::{Failure, Outcome};
use crate::kernel::{is_ublk, load_ublk, refuse_used, stop_ublk};
use crate::scratch::Scratch;

const LONG: &str = "\
Makes a disk of the volume, prints the disk's node, and serves it until a signal, or until `shingle volume detach` takes the disk \
away. Needs root. Unmount file systems on it first.

The disk is that of the kernel's ublk driver (its module ublk_drv, Linux 6.5 and newer). Where the kernel has none, and for --device \
and --record, the volume is served on a socket of its own, and the disk is that of the kernel's NBD client (its module nbd, and the \
program nbd-client), or else a loop device over a file that nbdfuse shows.";

/// Makes a disk of a volume.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Attach {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The way to the disk [default: ublk if the kernel has it].
    #[arg(long, value_name = "WAY")]
    by: Option<Way>,
    /// The node of NBD to use, such as /dev/nbd1 [default: the first one that is free].
    #[arg(long, value_name = "NODE")]
    device: Option<PathBuf>,
    /// A block trace of what the kernel asks for, in a new file [default: none].
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    manner: Manner,
}

/// A way to a disk.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// The kernel's ublk driver.
    Ublk,
    /// The kernel's NBD client, or nbdfuse and a loop device.
    Nbd,
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
        match self.way()? {
            Way::Ublk => {
                let wanted = self.manner.attached(self.drive);
                attach_volume(wanted, |node| say!("{}", node.display())).map_err(failure)
            }
            Way::Nbd => self.by_nbd(),
        }
    }

    /// The way that was asked for, or the best one that this machine has.
    fn way(&self) -> Outcome<Way> {
        let for_nbd = self.device.is_some() || self.record.is_some();
        match self.by {
            Some(Way::Ublk) if for_nbd => {
                Err(Failure::new("--device and --record are for a disk by NBD: leave `--by ublk` out"))
            }
            Some(Way::Nbd) => Ok(Way::Nbd),
            None if for_nbd => Ok(Way::Nbd),
            asked => {
                load_ublk();
                match ublk_check(false) {
                    // Everything else goes wrong by the other way, too, and is said.
                    Err(error) if asked.is_none() && error.is_lack() => Ok(Way::Nbd),
                    _ => Ok(Way::Ublk),
                }
            }
        }
    }

    fn by_nbd(self) -> Outcome {
        let scratch = Scratch::new(Path::new("/run"))?;
        let (socket, name) = (scratch.0.join(SOCKET), export_name(&self.drive));
        let volumes = vec![VolumeExport { record: self.record, ..VolumeExport::new(self.drive, name.clone()) }];
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
        refuse_used(&self.device)?;
        if is_ublk(&self.device) {
            return stop_ublk(&self.device);
        }
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        executor.block_on(detach(&self.device))
    }
}
