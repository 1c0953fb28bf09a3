//! Missing drives: waiting for them at the start, and looking out for them later.
//!
//! # Invariants
//! - SV-WAIT-1: a missing drive is waited for, as long as the configuration says, before anything is done without it.

use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use shingle_runtime::Runtime;
use shingle_zoned_linux::System;

use crate::drive_path::holder;
use crate::error::Result;
use crate::inventory::{self, DriveName};
use crate::reports::health::Health;

/// Time between two looks for a drive that is waited for.
const LOOK: Duration = Duration::from_secs(1);
/// Time without an answer after which a drive that is being opened is named.
const LATE: Duration = Duration::from_mins(1);
/// Pause between looks while the server runs without it.
const LOOK_OUT: Duration = Duration::from_secs(10);

/// Finds the node of a drive, which may still be missing. `None`, or an error that says more: it did not come in time.
/// (SV-WAIT-1)
///
/// # Errors
/// As [`inventory::locate`].
pub(crate) async fn find(
    runtime: &Runtime,
    name: &DriveName,
    wait: Option<Duration>,
    health: &Health,
) -> Result<Option<PathBuf>> {
    let began = runtime.now();
    let mut told = false;
    let found = loop {
        let found = there(runtime, name).await;
        let left = wait.map_or(Duration::ZERO, |wait| wait.saturating_sub(runtime.now().since(began)));
        if matches!(found, Ok(Some(_))) || left.is_zero() {
            break found;
        }
        if !told {
            told = true;
            health.waits(&name.to_string(), true);
            tracing::warn!(engine = health.name(), drive = %name, wait_s = left.as_secs(), "the drive is not there: it is waited for");
        }
        pause(runtime, left).await;
    };
    if told {
        health.waits(&name.to_string(), false);
        match &found {
            Ok(Some(_)) => tracing::info!(engine = health.name(), drive = %name, "the drive has come"),
            _ => tracing::error!(engine = health.name(), drive = %name, "the drive did not come in time"),
        }
    }
    found
}

/// Completes when one of the missing drives is present again.
pub(crate) async fn look_out(
    runtime: Runtime,
    missing: Vec<(String, DriveName)>,
    health: Health,
    advice: &'static str,
) {
    let mut missing = missing;
    while !missing.is_empty() {
        runtime.sleep(LOOK_OUT).await;
        let mut still = Vec::new();
        for (label, name) in missing {
            if matches!(there(&runtime, &name).await, Ok(Some(_))) {
                tracing::warn!(
                    engine = health.name(),
                    drive = label,
                    "a drive that was missing is there again: {advice}"
                );
                health.is_back(&label, advice);
            } else {
                still.push((label, name));
            }
        }
        missing = still;
    }
}

/// Names a drive of which `work` waits for an answer for long.
pub(crate) async fn named_if_late<T>(
    runtime: &Runtime,
    health: &Health,
    drive: &str,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    match select(work.as_mut(), pin!(runtime.sleep(LATE))).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => {
            tracing::error!(engine = health.name(), drive, "the drive has not answered for a minute: it is waited for");
            health.waits(drive, true);
            let done = work.await;
            health.waits(drive, false);
            done
        }
    }
}

/// Waits until the next look for a drive that is waited for for so long.
pub(crate) async fn pause(runtime: &Runtime, left: Duration) {
    runtime.sleep(left.min(LOOK)).await;
}

async fn there(runtime: &Runtime, name: &DriveName) -> Result<Option<PathBuf>> {
    let node = inventory::locate(runtime, &System::host(), name).await?;
    Ok(holder(&node).exists().then_some(node))
}
