//! The files of a drive, for commands.

use std::path::Path;

use shingle_base::printable;
use shingle_runtime::Runtime;
use shingle_zone_files::{FilesError, FilesErrorKind, Options, RecoveryReport, ZoneFiles};

use crate::device;
use crate::failure::{Failure, Outcome, status};

/// The files of a drive, for reading alone. With `anyhow` also those whose opening is refused for what cannot be read.
pub(super) async fn examined(drive: &Path, rt: &Runtime, anyhow: bool) -> Outcome<(ZoneFiles, RecoveryReport)> {
    let device = device::open(drive, rt).await?;
    let options = Options { accept_loss: anyhow, ..Options::default() };
    ZoneFiles::examine(rt, device, options).await.map_err(|error| named(drive, &error).not_run())
}

/// The files of a drive, to be changed.
pub(super) async fn opened(drive: &Path, rt: &Runtime, accept_loss: bool) -> Outcome<ZoneFiles> {
    let device = device::open(drive, rt).await?;
    let options = Options { accept_loss, ..Options::default() };
    let opened = ZoneFiles::open(rt, device, options).await;
    opened.map(|(files, _)| files).map_err(|error| named(drive, &error).not_run())
}

/// An error of a drive, with advice.
pub(super) fn named(drive: &Path, error: &FilesError) -> Failure {
    let advice = match error.kind {
        FilesErrorKind::Corrupt => " (`shingle files check` tells more)",
        _ => "",
    };
    Failure::new(format!("{}: {}{advice}", drive.display(), error.message))
}

/// An error of a path on a drive.
pub(super) fn about(path: &str, error: &FilesError) -> Failure {
    Failure::new(format!("`{}`: {}", printable(path.as_bytes()), error.message))
}

/// The places of logs of which the opening does not know what they held.
pub(super) fn unknown(report: &RecoveryReport) -> impl Iterator<Item = String> {
    report.unknown.iter().map(|(zone, blocks)| {
        let (from, to) = (blocks.start, blocks.end.saturating_sub(1));
        format!("{zone}: blocks {from} to {to} of the logs: what they held is not known")
    })
}

/// Says which places of logs the opening went on without, if any; the command then ends with the status for damage.
pub(super) fn told_of_loss(report: &RecoveryReport) -> Outcome {
    unknown(report).for_each(|place| note!("shingle: damaged: {place}"));
    if report.unknown.is_empty() { Ok(()) } else { Err(Failure::silent(status::DAMAGED)) }
}
