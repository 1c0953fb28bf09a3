//! Taking drives for an array: all of them, and only if their contents may be lost.

use std::path::PathBuf;

use clap::Args;
use shingle_array_store::ArrayDrive;
use shingle_runtime::Runtime;
use shingle_zoned_linux::OpenOptions;

use super::place::{Found, find_drives};
use crate::confirm::confirm;
use crate::device;
use crate::failure::{Failure, Outcome};

/// Permission to lose data.
#[derive(Args, Clone, Copy)]
pub(super) struct Consent {
    /// Do not ask, even if a drive holds data, which is lost.
    #[arg(long)]
    yes: bool,
    /// As --yes, and also if a drive holds a partition table or a file system that is not mounted.
    #[arg(long)]
    force: bool,
}

/// Opens drives for an array. Asks first if they hold data.
///
/// # Errors
/// One of them is missing, or must not be written over. Nothing was changed.
pub(super) async fn take_drives(names: &[PathBuf], rt: &Runtime, consent: Consent) -> Outcome<Vec<ArrayDrive>> {
    let open = OpenOptions { force: consent.force, keep_open: false, alone: false };
    let Found { drives, away, broken } = find_drives(names, rt, open).await?;
    if let Some((_, failure)) = broken.into_iter().next() {
        return Err(failure);
    }
    if !away.is_empty() {
        return Err(Failure::new(format!("there is no drive {}", away.join(", "))).not_run());
    }
    let mut held = String::new();
    for drive in &drives {
        if let Some(what) = device::data_on(&drive.dev).await? {
            held += &format!("\n  {}: {what}", drive.name);
        }
    }
    if !held.is_empty() {
        confirm(consent.yes || consent.force, &format!("The data on these drives will be lost:{held}"))?;
    }
    Ok(drives)
}
