//! `shingle drive attach|detach`: an emulated drive as a zoned disk of this machine.

use std::path::PathBuf;

use clap::Args;
use shingle_server::{AttachDrive, attach_drive};

use crate::failure::{Failure, Outcome, status};
use crate::kernel::{load_ublk, refuse_used, stop_ublk};

const LONG: &str = "\
Makes a zoned block device of the drive, such as /dev/ublkb0, by the kernel's ublk driver, prints its node, and serves it until a \
signal, or until `shingle drive detach`. All that works on zoned disks works on it: blkzone, fio, F2FS, btrfs. Needs root \
and Linux 6.6 or newer. Unmount file systems on it before the end.

At the end in order the kernel first writes what it holds for the disk. After any other end, that by SIGKILL too, the drive is as \
those commands left it that were done; start again then. Exit status: 1 the disk could not be made, 78 the drive can be none.";

/// Makes a zoned disk of a drive.
#[derive(Args)]
#[command(after_long_help = LONG)]
pub(crate) struct Attach {
    /// The drive: the file of an emulated one, the ordinary block device that it is on, or a partition of one (DRIVE#NAME).
    #[arg(value_name = "DRIVE")]
    path: PathBuf,
    /// Take no writes, and no commands that change zones.
    #[arg(long)]
    read_only: bool,
    /// Level of the log: off, error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: String,
}

/// Takes a disk away.
#[derive(Args)]
pub(crate) struct Detach {
    /// The node that `shingle drive attach` printed.
    #[arg(value_name = "NODE")]
    device: PathBuf,
}

impl Attach {
    pub(crate) fn run(self) -> Outcome {
        load_ublk();
        let wanted = AttachDrive { drive: self.path, read_only: self.read_only, log: self.log };
        attach_drive(wanted, |node| say!("{}", node.display())).map_err(|error| {
            let code = match error.kind {
                shingle_server::ErrorKind::Config | shingle_server::ErrorKind::NewerVersion => status::CONFIG,
                _ => status::FAILED,
            };
            Failure::from(error).with_status(code)
        })
    }
}

impl Detach {
    pub(crate) fn run(self) -> Outcome {
        refuse_used(&self.device)?;
        stop_ublk(&self.device)
    }
}
