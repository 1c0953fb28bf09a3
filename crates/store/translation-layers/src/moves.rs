//! Emptying of a zone: all that lives in it is copied to the head of the log, at the pace that writers can bear.

use shingle_store_api::{StoreErrorKind, StoreResult};
use shingle_translation::{Control, ZoneName};

use crate::pace::Pace;

/// Copies all that lives in a zone to the head of the log. False if there was no room for all of it.
pub(crate) async fn move_zone(control: &Control, victim: ZoneName) -> StoreResult<bool> {
    let windows = control.living_in(victim).await?;
    let pace = Pace::begin(control, windows.iter().flatten().map(|extent| u64::from(extent.sectors)).sum());
    for window in windows {
        let ranges: Vec<_> = window.iter().map(|extent| extent.lba..extent.end()).collect();
        match control.copy(&ranges, Some(victim)).await {
            Err(error) if error.kind == StoreErrorKind::NoSpace => {
                drop(pace);
                // Zones that were emptied become free with a checkpoint.
                control.checkpoint().await?;
                return Ok(false);
            }
            copied => drop(copied?),
        }
    }
    Ok(true)
}
