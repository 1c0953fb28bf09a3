//! Disks of the kernel, and its module that makes them of programs.

use std::path::Path;
use std::process::{Command, Stdio};

use shingle_zoned_linux::{System, ublk_stop};

use crate::failure::{Failure, Outcome};

/// Has the kernel load its ublk driver, where that is a module that is not loaded. If that fails, the first use of it says so.
pub(crate) fn load_ublk() {
    if !Path::new("/dev/ublk-control").exists() {
        let _ = Command::new("modprobe").arg("ublk_drv").stdin(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// True for the node of a disk of ublk.
pub(crate) fn is_ublk(node: &Path) -> bool {
    node.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ublkb"))
}

/// Takes a disk of ublk away.
pub(crate) fn stop_ublk(node: &Path) -> Outcome {
    ublk_stop(node).map_err(|error| Failure::new(format!("{}: {error}", node.display())))
}

/// Refuses a disk that is mounted, or that other devices are made of.
pub(crate) fn refuse_used(device: &Path) -> Outcome {
    let node = device.display();
    if let Ok(drive) = System::host().describe(device)
        && drive.in_use()
    {
        let mounts: Vec<_> = drive.mounts.iter().map(|at| at.display().to_string()).collect();
        let place = if mounts.is_empty() { "another device".to_owned() } else { mounts.join(", ") };
        return Err(Failure::new(format!("{node} is in use ({place}): unmount it first")));
    }
    Ok(())
}
