//! Zones of logs: the records behind the checkpoint, and a verdict on blocks that are none.

use shingle_base::{Blocks, ZoneId};
use shingle_record::{DataInfo, Form, Header, Scanned, ZoneScanner};
use shingle_zoned::{ZoneInfo, ZoneState};

use super::load::{Known, Loaded};
use super::report::RecoveryReport;
use crate::drive::Drive;
use crate::error::FilesResult;
use crate::extent::Extent;
use crate::format::{DATA, Owner};

/// A record of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogRecord {
    pub(super) number: u64,
    pub(super) serial: u64,
    pub(super) extent: Extent,
}

/// A zone of logs, as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogZone {
    pub(super) zone: ZoneId,
    /// The block behind the last that counts.
    pub(super) end: u32,
    /// All blocks up to the write pointer are records that count.
    pub(super) clean: bool,
}

/// Blocks that are no whole record.
struct Suspect {
    from: u32,
    to: u32,
    /// The record that its header tells.
    record: Option<LogRecord>,
    unreadable: bool,
}

/// Scans the zones of logs, the oldest first.
pub(super) async fn scan(
    drive: &Drive,
    loaded: &Loaded,
    infos: &[ZoneInfo],
    report: &mut RecoveryReport,
) -> FilesResult<(Vec<LogRecord>, Vec<LogZone>)> {
    let mut logs: Vec<(ZoneId, Known)> = loaded.zones.iter().map(|(zone, known)| (*zone, *known)).collect();
    logs.retain(|(_, known)| known.is_of_logs());
    logs.sort_by_key(|(_, known)| known.epoch);
    let (mut records, mut zones) = (Vec::new(), Vec::new());
    for (zone, known) in logs {
        let Some(info) = infos.iter().find(|info| info.zone == zone) else { continue };
        zones.push(scan_zone(drive, zone, &known, info, &mut records, report).await?);
    }
    Ok((records, zones))
}

async fn scan_zone(
    drive: &Drive,
    zone: ZoneId,
    known: &Known,
    info: &ZoneInfo,
    records: &mut Vec<LogRecord>,
    report: &mut RecoveryReport,
) -> FilesResult<LogZone> {
    if info.state == ZoneState::Offline {
        let end = known.end.unwrap_or(drive.layout.zone_blocks);
        if known.covered < end {
            report.unreadable = true;
            report.unknown.push((zone, known.covered..end));
        }
        return Ok(LogZone { zone, end: known.covered.max(known.end.unwrap_or(0)), clean: false });
    }
    let (written, volatile) = (info.written.0 as u32, drive.geometry.volatile_cache);
    let to = known.end.unwrap_or(drive.layout.zone_blocks).min(written);
    // Blocks before this one were durable.
    let mut durable = known.end.unwrap_or(0).max(known.covered);
    let (mut found, mut suspects) = (Vec::new(), Vec::new());
    let mut scanner = ZoneScanner::new(drive.dev.clone(), drive.store, known.epoch, zone, known.covered, to);
    let mut next = known.covered;
    loop {
        match scanner.next().await? {
            Scanned::Record { header, intact, unreadable, .. } => {
                let from = next;
                next += header.blocks().0 as u32;
                let record = record_of(&header, known.epoch);
                if record.is_some() {
                    // Without a volatile cache nothing is there before which something is missing. (ZD-DEV-3)
                    let told = if volatile { DataInfo::decode(&header.info).durable.min(from) } else { from };
                    durable = durable.max(told);
                }
                match record.filter(|_| intact) {
                    Some(record) => found.push(record),
                    None => suspects.push(Suspect { from, to: next, record, unreadable }),
                }
            }
            Scanned::Gap { from, to, unreadable } => {
                suspects.push(Suspect { from, to, record: None, unreadable });
                next = to;
            }
            Scanned::Torn { from, unreadable } => {
                suspects.push(Suspect { from, to, record: None, unreadable });
                break;
            }
            Scanned::Clean => break,
        }
    }
    // A zone that was finished by the drive reads as zeros behind its records.
    let mut end = known.end.unwrap_or(to).max(known.covered);
    let mut clean = known.end.is_none();
    if known.end.is_some_and(|end| end > written) {
        suspects.push(Suspect { from: written.max(known.covered), to: end, record: None, unreadable: false });
    }
    for suspect in suspects {
        let Suspect { from, to, record, unreadable } = suspect;
        if from < durable {
            // ZF-REC-3.
            match record {
                Some(record) => {
                    report.damaged.push((zone, from, record.serial));
                    found.push(record);
                }
                None => {
                    report.unreadable |= unreadable;
                    report.unknown.push((zone, from..to.min(durable).max(from + 1)));
                }
            }
        } else {
            // ZF-REC-2.
            if unreadable {
                report.unreadable = true;
                report.unknown.push((zone, from..to));
            }
            report.torn.push((zone, from));
            found.retain(|record| record.extent.block < from);
            (end, clean) = (from, false);
            break;
        }
    }
    report.records += found.len() as u64;
    records.extend(found);
    Ok(LogZone { zone, end, clean })
}

/// The record that a header tells; `None` if no log's.
fn record_of(header: &Header, epoch: u64) -> Option<LogRecord> {
    if header.kind != DATA || header.form != Form::Sliced || header.length == 0 {
        return None;
    }
    let info = DataInfo::decode(&header.info);
    let owner = Owner::decode(&info.chunk);
    let offset = owner.high.checked_mul(1 << 32)?.checked_add(u64::from(info.offset))?;
    let extent = Extent::of_record(offset, header.length, header.place.zone, header.place.block);
    let sense = owner.epoch == epoch && extent.makes_sense(u32::MAX) && Blocks(extent.blocks()) == header.blocks();
    sense.then_some(LogRecord { number: header.sequence, serial: owner.serial, extent })
}
