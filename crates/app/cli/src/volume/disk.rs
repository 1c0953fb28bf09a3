//! Disks of the kernel that NBD exports are made to, by the programs nbd-client and nbdfuse.

#![expect(clippy::disallowed_methods, reason = "programs are waited for in real time")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use crate::failure::{Failure, Outcome};
use crate::scratch::Scratch;

/// Time for a program to show the disk.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// The socket of a volume that is attached, in its scratch directory.
pub(super) const SOCKET: &str = "nbd.sock";

/// A disk, and the program that keeps it: it ends when the disk is taken away.
pub(super) struct Disk {
    pub(super) node: PathBuf,
    pub(super) keeper: Child,
    /// The file that the disk is made of, if it is a loop device.
    pub(super) file: Option<PathBuf>,
}

/// The first node of the kernel's NBD client that nobody uses; `None` if the kernel has none.
pub(super) async fn free_node() -> Option<PathBuf> {
    // It may be there already, or be no module.
    let _ = quiet("modprobe").arg("nbd").stderr(Stdio::null()).status().await;
    let free = |number: &usize| {
        let system = PathBuf::from(format!("/sys/block/nbd{number}"));
        system.exists() && !system.join("pid").exists() && !system.join("backend").exists()
    };
    (0..256).find(free).map(|number| PathBuf::from(format!("/dev/nbd{number}")))
}

/// A disk by the kernel's client.
///
/// # Errors
/// Its words.
pub(super) async fn by_client(node: &Path, socket: &Path, name: &str, sector_bytes: &str) -> Outcome<Disk> {
    // By ioctl and in the foreground, so that its end is that of the disk.
    let mut client = quiet("nbd-client");
    client.args(["-nonetlink", "-nofork", "-b", sector_bytes, "-N", name, "-unix"]).arg(socket).arg(node);
    let mut keeper = client.spawn().map_err(|error| Failure::new(format!("nbd-client: {error}")))?;
    let size = Path::new("/sys/block").join(node.file_name().unwrap_or_default()).join("size");
    let there = || std::fs::read_to_string(&size).is_ok_and(|text| text.trim() != "0");
    shown(&mut keeper, there, &format!("nbd-client made no disk at {}", node.display())).await?;
    Ok(Disk { node: node.to_owned(), keeper, file: None })
}

/// A disk by nbdfuse and a loop device, with a file in `folder`.
///
/// # Errors
/// Words of the programs.
pub(super) async fn by_fuse(folder: &Path, socket: &Path, name: &str, sector_bytes: &str) -> Outcome<Disk> {
    let mount = folder.join("disk");
    std::fs::create_dir(&mount)?;
    let file = mount.join("volume");
    let uri = format!("nbd+unix:///{name}?socket={}", socket.display());
    let mut keeper =
        quiet("nbdfuse").arg(&file).arg(uri).spawn().map_err(|error| Failure::new(format!("nbdfuse: {error}")))?;
    shown(&mut keeper, || file.exists(), "nbdfuse showed no file").await?;
    let made = Command::new("losetup")
        .args(["--find", "--show", "--direct-io=on", "--sector-size", sector_bytes])
        .arg(&file)
        .output();
    let made = made.await.map_err(|error| Failure::new(format!("losetup: {error}")))?;
    if !made.status.success() {
        take_away(&mut keeper, None, Some(&file)).await;
        return Err(Failure::new(format!("losetup: {}", String::from_utf8_lossy(&made.stderr).trim())));
    }
    let node = PathBuf::from(String::from_utf8_lossy(&made.stdout).trim());
    Ok(Disk { node, keeper, file: Some(file) })
}

impl Disk {
    /// Takes the disk away, and waits for the end of what kept it.
    pub(super) async fn end(mut self) {
        take_away(&mut self.keeper, Some(&self.node), self.file.as_deref()).await;
    }
}

async fn take_away(keeper: &mut Child, node: Option<&Path>, file: Option<&Path>) {
    if let Some(node) = node {
        // It may have been taken away already.
        let _ = detach(node).await;
    }
    if let Some(file) = file {
        let _ = hide(file).await;
    }
    if tokio::time::timeout(PATIENCE, keeper.wait()).await.is_err() {
        let _ = keeper.kill().await;
    }
}

/// Takes the disk at `node` away, if it is one of ours.
///
/// # Errors
/// Words of the program; the disk is none of ours, and stays.
pub(super) async fn detach(node: &Path) -> Outcome {
    let name = node.file_name().unwrap_or_default();
    let system = Path::new("/sys/block").join(name);
    let not_ours = || Failure::new(format!("{}: no disk that `shingle volume attach` made", node.display()));
    if name.to_string_lossy().starts_with("loop") {
        let file = std::fs::read_to_string(system.join("loop/backing_file")).unwrap_or_default();
        let file = Some(Path::new(file.trim())).filter(|file| is_shown_by_fuse(file)).ok_or_else(not_ours)?;
        done(Command::new("losetup").arg("-d").arg(node)).await?;
        return hide(file).await;
    }
    let client = std::fs::read_to_string(system.join("pid")).unwrap_or_default();
    let words = std::fs::read_to_string(format!("/proc/{}/cmdline", client.trim())).unwrap_or_default();
    if !words.split('\0').any(|word| is_socket(Path::new(word))) {
        return Err(not_ours());
    }
    done(Command::new("nbd-client").arg("-d").arg(node)).await
}

/// True for a file that [`by_fuse`] showed.
fn is_shown_by_fuse(file: &Path) -> bool {
    file.ends_with("disk/volume") && file.parent().and_then(Path::parent).is_some_and(Scratch::is_one)
}

/// True for the socket that the kernel's client was given.
fn is_socket(path: &Path) -> bool {
    path.ends_with(SOCKET) && path.parent().is_some_and(Scratch::is_one)
}

/// Ends nbdfuse's file system around `file`, and nbdfuse with it.
async fn hide(file: &Path) -> Outcome {
    done(Command::new("umount").arg(file.parent().unwrap_or(file))).await
}

/// Runs a program to its end.
async fn done(command: &mut Command) -> Outcome {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output().await;
    let done = done.map_err(|error| Failure::new(format!("{program}: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    Err(Failure::new(format!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim())))
}

/// Waits until something is there, as long as the program lives.
async fn shown(keeper: &mut Child, there: impl Fn() -> bool, failed: &str) -> Outcome {
    let looks = PATIENCE.as_millis() / PAUSE.as_millis();
    for _ in 0..looks {
        if there() {
            return Ok(());
        }
        if keeper.try_wait()?.is_some() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let _ = keeper.kill().await;
    Err(Failure::new(failed))
}

/// A program whose output nobody reads, and that no signal of the terminal ends before the disk is taken away.
fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).kill_on_drop(true);
    command
}
