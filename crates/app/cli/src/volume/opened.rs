//! The volume of a drive, for commands that look at it.

use std::path::Path;

use shingle_runtime::Runtime;
use shingle_store_api::{StoreError, StoreErrorKind};
use shingle_translation::{Options, RecoveryReport, Volume as Store};

use crate::device;
use crate::failure::{Failure, Outcome};

/// The volume of a drive, for reading alone. With `anyhow` also one whose opening is refused for what cannot be read.
pub(super) async fn examined(drive: &Path, rt: &Runtime, anyhow: bool) -> Outcome<(Store, RecoveryReport)> {
    let device = device::open(drive, rt).await?;
    let options = Options { accept_loss: anyhow, ..Options::default() };
    Store::examine(rt, device, options).await.map_err(|error| named(drive, &error).not_run())
}

/// Of a drive, with advice.
pub(super) fn named(drive: &Path, error: &StoreError) -> Failure {
    let advice = match error.kind {
        StoreErrorKind::Corrupt => " (`shingle volume check` tells more)",
        _ => "",
    };
    Failure::new(format!("{}: {}{advice}", drive.display(), error.message))
}
