//! `shingle volume snapshot`: states of a volume that stay.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use shingle_runtime::Runtime;
use shingle_server::{ErrorKind, SnapshotLine, SnapshotWish, ask_for_snapshots, open_drive, utc};
use shingle_translation::{Options, Volume as Store};
use shingle_zoned_linux::OpenOptions;

use super::opened::named;
use crate::confirm::confirm;
use crate::device;
use crate::failure::{Failure, Outcome};
use crate::output::{print_columns, size};

pub(crate) const ABOUT: &str = "\
Keep a volume as it is now, and read that later.

A snapshot takes no room and no time; what is changed afterwards is kept for it. It holds what had been written: have a file system \
sync or freeze first (`fsfreeze`), else it is as after a power cut. All these commands work while the volume is exported or attached, as the user \
that serves it. Each snapshot is an export that can only be read, VOLUME@SNAPSHOT.";

/// Commands on snapshots.
#[derive(Subcommand)]
pub(crate) enum Snapshot {
    /// Take one: `shingle volume snapshot take disk.shingle before-upgrade`
    Take(Take),
    /// List them, the oldest first.
    Ls(List),
    /// Remove one for good. Asks first.
    Rm(Remove),
}

#[derive(Args)]
pub(crate) struct Take {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The snapshot's name: letters, digits, dots, hyphens and underscores.
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Args)]
pub(crate) struct List {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Remove {
    /// The drive: a zoned block device, the file of an emulated one, or a name such as serial:ZL2XXXXX.
    #[arg(value_name = "DRIVE")]
    drive: PathBuf,
    /// The snapshot's name.
    #[arg(value_name = "NAME")]
    name: String,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl Snapshot {
    pub(crate) fn run(self) -> Outcome {
        shingle_runtime::real::run(|rt| async move {
            match self {
                Self::Take(Take { drive, name }) => {
                    grant(&rt, &drive, SnapshotWish::Take(name.clone())).await?;
                    say!("{}: snapshot {name} is taken", drive.display());
                }
                Self::Ls(List { drive, json: false }) => tell(&grant(&rt, &drive, SnapshotWish::List).await?)?,
                Self::Ls(List { drive, json: true }) => {
                    say!("{}", json!({ "snapshots": grant(&rt, &drive, SnapshotWish::List).await? }));
                }
                Self::Rm(Remove { drive, name, yes }) => {
                    confirm(yes, &format!("{}: snapshot {name} will be gone for good", drive.display()))?;
                    grant(&rt, &drive, SnapshotWish::Remove(name.clone())).await?;
                    say!("{}: snapshot {name} is removed", drive.display());
                }
            }
            Ok(())
        })?
    }
}

/// Has it done by the process that serves the volume, or here if none does. Returns all snapshots.
async fn grant(rt: &Runtime, drive: &Path, wish: SnapshotWish) -> Outcome<Vec<SnapshotLine>> {
    // Only of a drive that is in use: the name of the socket could be anybody's before.
    let node = device::find(drive, rt).await?;
    let opened = open_drive(&node, rt, OpenOptions::default());
    if matches!(&opened, Err(error) if error.kind == ErrorKind::InUse)
        && let Some(snapshots) = ask_for_snapshots(&node, &wish)?
    {
        return Ok(snapshots);
    }
    let device = opened.map_err(|error| Failure::from(error).not_run())?;
    let failed = |error| named(drive, &error);
    let volume = match &wish {
        SnapshotWish::List => Store::examine(rt, device, Options::default()).await,
        SnapshotWish::Take(_) | SnapshotWish::Remove(_) => Store::open(rt, device, Options::default()).await,
    };
    let (volume, _) = volume.map_err(|error| failed(error).not_run())?;
    match &wish {
        SnapshotWish::List => return Ok(volume.snapshots().into_iter().map(SnapshotLine::from).collect()),
        SnapshotWish::Take(name) => volume.take_snapshot(name).await.map_err(failed)?,
        SnapshotWish::Remove(name) => volume.remove_snapshot(name).await.map_err(failed)?,
    }
    let snapshots = volume.snapshots().into_iter().map(SnapshotLine::from).collect();
    volume.close().await.map_err(failed)?;
    Ok(snapshots)
}

fn tell(snapshots: &[SnapshotLine]) -> Outcome {
    let row = |line: &SnapshotLine| {
        [line.name.clone(), utc(line.taken / 1_000_000_000), size(line.size_bytes), size(line.kept_bytes)]
    };
    let head = ["SNAPSHOT", "TAKEN", "SIZE", "KEEPS"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(snapshots.iter().map(row)).collect();
    print_columns(&rows, 2..4)
}
