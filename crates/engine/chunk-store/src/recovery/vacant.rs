//! Zones that are in use, and the refusal to format a drive that somebody may need.
//!
//! # Invariants
//! - CS-FMT-1: without force, no zone is reset that holds anything but the log of a format that was cut short, zones for superblock and metadata
//!   included. (`a_drive_with_data_in_any_zone_is_not_formatted`)

use std::rc::Rc;

use shingle_base::{Blocks, ZoneId};
use shingle_record::{SuperblockError, read_superblock, read_zone_head};
use shingle_zoned::{ZoneInfo, ZoneState, ZonedDevice, report_patiently};

use crate::drive::Layout;
use crate::error::{Error, ErrorKind, Result, read_error};
use crate::recovery::identity::META_ZONE_KIND;

/// Zones asked for at once.
const REPORT_ZONES: u32 = 8192;

/// The most blocks of a log whose first write a power cut has torn, head and all.
const TORN_MAX: Blocks = Blocks(16);

const FORCE: &str = "force the format (`shingle chunk format --force`)";

/// Refuses a drive that holds a store, or data of any kind. (CS-FMT-1)
pub(super) async fn check_vacant(dev: &Rc<dyn ZonedDevice>, layout: &Layout) -> Result<()> {
    let (kind, holds, cause) = match read_superblock(dev, layout.superzone).await {
        Ok(found) => (ErrorKind::Format, format!("the drive already holds store {}", found.store), None),
        Err(SuperblockError::NewerVersion(_)) => {
            (ErrorKind::Format, "the drive holds a store of a newer version".to_owned(), None)
        }
        Err(SuperblockError::NotFormatted) => return check_zones(dev, layout).await,
        Err(error @ SuperblockError::Device(_)) => {
            (ErrorKind::Device, format!("{error}: the drive may hold a store"), Some(error))
        }
        Err(error) => (ErrorKind::Format, format!("the drive holds a store, but {error}"), Some(error)),
    };
    let refusal = Error::new(kind, format!("{holds}; to lose it, {FORCE}"));
    Err(match cause {
        Some(cause) => refusal.caused_by(cause),
        None => refusal,
    })
}

async fn check_zones(dev: &Rc<dyn ZonedDevice>, layout: &Layout) -> Result<()> {
    let is_written = |zone: &ZoneInfo| zone.written > Blocks::ZERO;
    let first = layout.superzone.0;
    let mut metazones = report_patiently(dev, ZoneId(first), layout.metazones.end - first).await.map_err(read_error)?;
    // No reset reaches those that failed.
    metazones.retain(|zone| is_written(zone) && !matches!(zone.state, ZoneState::ReadOnly | ZoneState::Offline));
    let (mut logs, mut torn, mut used) = (0, 0, 0);
    for zone in metazones.iter().filter(|zone| zone.zone != layout.superzone) {
        if is_log(dev, zone).await? {
            logs += 1;
        } else if zone.written <= TORN_MAX {
            torn += 1;
        } else {
            used += 1;
        }
    }
    // A format begins one zone of its log after the other, and writes the superblock when that is durable.
    if torn > 1 {
        used += torn;
    }
    if logs == 0 && metazones.iter().any(|zone| zone.zone == layout.superzone) {
        used += 1;
    }
    used += data_zones(dev, layout).await?.iter().flatten().filter(|zone| is_written(zone)).count();
    if used > 0 {
        let text = format!("the drive holds no store, but {used} of its zones hold data; if nobody needs it, {FORCE}");
        return Err(Error::new(ErrorKind::Format, text));
    }
    Ok(())
}

/// True if a zone begins as those of a chunk store's metadata log do, whichever store's it was.
async fn is_log(dev: &Rc<dyn ZonedDevice>, zone: &ZoneInfo) -> Result<bool> {
    let head = dev.read(zone.start, Blocks(1)).await.map_err(read_error)?;
    Ok(read_zone_head(&head, None, zone.zone).is_ok_and(|head| head.kind == META_ZONE_KIND))
}

/// The drive's report of the data zones, a piece at a time.
pub(super) async fn data_zones(dev: &Rc<dyn ZonedDevice>, layout: &Layout) -> Result<Vec<Vec<ZoneInfo>>> {
    let mut pieces = Vec::new();
    let mut next = layout.data_zones.start;
    while next < layout.data_zones.end {
        let count = REPORT_ZONES.min(layout.data_zones.end - next);
        let infos = report_patiently(dev, ZoneId(next), count).await.map_err(read_error)?;
        if infos.is_empty() {
            return Err(Error::new(ErrorKind::Device, "the drive reports fewer zones than it has"));
        }
        next += infos.len() as u32;
        pieces.push(infos);
    }
    Ok(pieces)
}
