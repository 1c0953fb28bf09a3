//! Drives, then objects on them: what belongs together is opened, anything else is refused.
//!
//! **Owns** SRV-2, with `drive`.

use std::path::Path;
use std::time::Duration;

use shingle_object_store::{Drive as ObjectDrive, Options as ObjectOptions};

use crate::config::Config;
use crate::data_dir::{DataDir, KnownDrive};
use crate::drive::{self, Drive};
use crate::error::{Error, ErrorKind, Result};
use crate::objects::{self, Objects, Setup};

/// How long the object store, then each drive, gets to close in order. Past it the process ends all the same, which is
/// as safe as a power cut.
pub(crate) const CLOSE_PATIENCE: Duration = Duration::from_secs(20);

/// What a data directory is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To serve requests.
    Serve,
    /// To look after the objects: nothing goes on in the background, which a check would take for damage. With `rebuild`
    /// the index is made again from the drives: `Some(true)` begins with its newest backup.
    Inspect { rebuild: Option<bool> },
}

impl Purpose {
    fn options(self, config: &Config) -> ObjectOptions {
        let mut options =
            ObjectOptions { allow_missing_drives: config.allow_missing_drives, ..ObjectOptions::default() };
        let background = self == Self::Serve;
        (options.gc.enabled, options.backup.enabled) = (background, background);
        options
    }

    fn rebuild(self) -> Option<bool> {
        match self {
            Self::Serve => None,
            Self::Inspect { rebuild } => rebuild,
        }
    }
}

/// Opens the drives, which are left in `drives` also where it fails, and the object store on them; `None` where there are none.
///
/// # Errors
/// `Drive`, `NewerVersion`, `InUse`, `Store`, `System`.
pub(crate) async fn open(
    config: &Config,
    directory: &mut DataDir,
    drives: &mut Vec<Drive>,
    purpose: Purpose,
) -> Result<Option<Objects>> {
    start_drives(config, directory, drives).await?;
    if drives.is_empty() {
        // Everything lives on arrays.
        return Ok(None);
    }
    let known: Vec<_> =
        drives.iter().map(|drive| KnownDrive { store: drive.store, path: drive.path.clone() }).collect();
    let object_drives = drives.iter_mut().filter_map(|drive| {
        let client = drive.client.take()?;
        Some(ObjectDrive { client, store: drive.store, hides: drive.hides })
    });
    let known_drives = directory.drives().iter().map(|known| known.store).collect();
    let setup = Setup {
        index: directory.path().join("index"),
        index_cache_bytes: config.index_cache,
        drives: object_drives.collect(),
        options: ObjectOptions { known_drives, ..purpose.options(config) },
        rebuild: purpose.rebuild(),
    };
    let objects = objects::start(setup).await?;
    if let Err(error) = directory.note_drives(&known) {
        objects.client.close().await;
        return Err(error);
    }
    Ok(Some(objects))
}

/// Waits until the drives' owners have ended, which they do when their last client is gone.
pub(crate) async fn close_drives(drives: Vec<Drive>) {
    for Drive { client, ended, path, .. } in drives {
        drop(client);
        if tokio::time::timeout(CLOSE_PATIENCE, ended).await.is_err() {
            tracing::warn!(drive = %path.display(), "the drive did not close in time; its next start takes longer");
        }
    }
}

/// Starts the drives' owners, one after the other, and sees that they belong together.
async fn start_drives(config: &Config, directory: &DataDir, drives: &mut Vec<Drive>) -> Result<()> {
    let known = directory.drives();
    for (number, drive) in config.drives().into_iter().enumerate() {
        let expected = known.iter().find(|known| same_path(&known.path, &drive.path)).map(|known| known.store);
        let ours = known.iter().map(|known| known.store).collect();
        let drive = drive::start(drive, number, expected, ours).await.map_err(|error| missing(error, known))?;
        let copy = drives.iter().find(|other| other.store == drive.store).map(|other| {
            let (path, other) = (drive.path.display(), other.path.display());
            Error::new(ErrorKind::Drive, format!("{path} and {other} are copies of one drive: name only one of them"))
        });
        // Kept in any case: whoever called closes what was opened.
        drives.push(drive);
        if let Some(error) = copy {
            return Err(error);
        }
    }
    let absent: Vec<_> = known.iter().filter(|known| !drives.iter().any(|drive| drive.store == known.store)).collect();
    if !absent.is_empty() && !config.allow_missing_drives {
        let names: Vec<_> =
            absent.iter().map(|known| format!("{} (store {})", known.path.display(), known.store)).collect();
        return Err(Error::new(
            ErrorKind::Drive,
            format!(
                "objects of {} lie on drives that are not there: {}. Name them in the configuration, or set \
                 allow_missing_drives = true to go on without the objects on them",
                directory.path().display(),
                names.join(", ")
            ),
        ));
    }
    Ok(())
}

fn missing(mut error: Error, known: &[KnownDrive]) -> Error {
    if error.kind == ErrorKind::Drive && !known.is_empty() && error.message.contains("no such file") {
        error.message += "; this data directory has used it, so it is not made anew: bring it back";
    }
    error
}

/// Whether two paths, of which neither need be there, name the same file.
fn same_path(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or(path.to_owned());
    whole(a) == whole(b)
}
