//! The pairs that were written since the checkpoint: those zones are read that were open then, or were opened since.

use futures_util::{StreamExt, stream};
use shingle_base::ZoneId;
use shingle_record::{Expect, Header, Pair, Scanned, ZoneScanner, read_block};
use shingle_runtime::{Runtime, Work};
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use shingle_zoned::{DeviceResult, ZoneInfo, ZoneState, report_patiently};

use super::load::{Known, Loaded};
use super::report::{RecoveryReport, Unknown};
use super::verdict::{Stretch, judge};
use crate::drive::{Drive, device_error};
use crate::write::is_copy;

/// Zones that a report asks for at once.
const REPORT_ZONES: u32 = 4096;

/// Scans of a zone's end that is not whole: reads may be spoilt on the way.
const LOOKS: u32 = 3;

/// A data zone as it was found.
pub(super) struct FoundZone {
    pub(super) info: ZoneInfo,
    /// Pairs behind those that the checkpoint has, in order: those that count.
    pub(super) pairs: Vec<Pair>,
    /// The block behind the last pair that counts.
    pub(super) end: u32,
    /// It ends with a whole pair, and can be written on.
    pub(super) clean: bool,
    /// Blocks that do not count lie between its pairs.
    pub(super) scarred: bool,
}

/// Finds the pairs of all data zones, several zones at a time.
pub(super) async fn scan(
    rt: &Runtime,
    drive: &Drive,
    loaded: &Loaded,
    depth: u32,
    report: &mut RecoveryReport,
) -> StoreResult<Vec<FoundZone>> {
    let infos = reports(drive).await?;
    let mut found = Vec::with_capacity(infos.len());
    let scans = infos.into_iter().map(|info| scan_zone(drive, info, loaded.zones.get(&info.zone).copied()));
    let mut scans = stream::iter(scans).buffered(depth as usize);
    while let Some(scanned) = scans.next().await {
        let (zone, mut told) = scanned.map_err(device_error)?;
        rt.worked(Work::Record, zone.pairs.len() as u64);
        report.zones_scanned += told.zones_scanned;
        report.blocks_read += told.blocks_read;
        report.torn.append(&mut told.torn);
        report.damaged.append(&mut told.damaged);
        report.unknown.append(&mut told.unknown);
        report.pairs += zone.pairs.len() as u64;
        report.writes += zone.pairs.iter().map(|pair| pair.names.len() as u64).sum::<u64>();
        found.push(zone);
    }
    Ok(found)
}

async fn reports(drive: &Drive) -> StoreResult<Vec<ZoneInfo>> {
    let zones = drive.layout.data_zones.clone();
    let mut infos = Vec::with_capacity(zones.len());
    let mut next = zones.start;
    while next < zones.end {
        let some = report_patiently(&drive.dev, ZoneId(next), REPORT_ZONES.min(zones.end - next)).await;
        let some = some.map_err(device_error)?;
        if some.is_empty() {
            return Err(StoreError::new(StoreErrorKind::Device, "the drive reports fewer zones than it has"));
        }
        next += some.len() as u32;
        infos.extend(some);
    }
    Ok(infos)
}

async fn scan_zone(drive: &Drive, info: ZoneInfo, known: Option<Known>) -> DeviceResult<(FoundZone, RecoveryReport)> {
    let mut report = RecoveryReport::default();
    let written = (info.written.0 as u32).min(drive.layout.shape.zone_blocks);
    let mut zone = FoundZone { info, pairs: Vec::new(), end: written, clean: false, scarred: false };
    let Some(known) = known else { return Ok((zone, report)) };
    let offline = info.state == ZoneState::Offline;
    if is_copy(known.stream) {
        // Copies that the journal does not name never were.
        zone.clean = !offline && known.end.is_none() && known.covered <= written;
        zone.end = known.end.unwrap_or(written);
        return Ok((zone, report));
    }
    // The journal ends a zone that failed before blocks that only a checkpoint makes sure of. (TL-LOSS-1)
    zone.end = known.end.unwrap_or(written).max(known.covered);
    let from = known.covered.max(1);
    let to = known.end.unwrap_or(written).min(if offline { 0 } else { written });
    if from < to {
        report.zones_scanned = 1;
        let stretches = look(drive, info.zone, &known, from..to, &mut report).await?;
        let subsets = drive.dev.geometry().volatile_cache;
        let judged = judge(info.zone, &stretches, known.end, subsets, &mut report);
        (zone.pairs, zone.clean, zone.scarred) = (judged.pairs, judged.clean, judged.scarred);
        zone.end = known.end.unwrap_or(judged.end).max(known.covered);
    } else {
        zone.clean = known.covered <= written;
    }
    zone.clean &= known.end.is_none() && !offline;
    // Blocks that were written, and are there no more.
    let sure = known.end.unwrap_or(if offline { drive.layout.shape.zone_blocks } else { 0 });
    if sure > to.max(from) {
        report.unknown.push(Unknown { zone: info.zone, from: to.max(from), to: sure, unreadable: offline });
    }
    Ok((zone, report))
}

/// Reads a zone's pairs: again, if it does not end with a whole one, as reads may be spoilt.
async fn look(
    drive: &Drive,
    zone: ZoneId,
    known: &Known,
    blocks: std::ops::Range<u32>,
    report: &mut RecoveryReport,
) -> DeviceResult<Vec<Stretch>> {
    let mut stretches = Vec::new();
    for _ in 0..LOOKS {
        let from = stretches.iter().find(|stretch| !matches!(stretch, Stretch::Whole(_))).map(Stretch::from);
        let from = if stretches.is_empty() { Some(blocks.start) } else { from };
        let Some(from) = from else { break };
        stretches.retain(|stretch: &Stretch| stretch.from() < from);
        let (dev, store) = (drive.dev.clone(), drive.store);
        let mut scanner = ZoneScanner::new(dev, store, known.epoch, zone, from, blocks.end);
        loop {
            let step = scanner.next().await?;
            let last = matches!(step, Scanned::Clean | Scanned::Torn { .. });
            add(drive, zone, known.epoch, step, blocks.end, &mut stretches).await?;
            if last {
                break;
            }
        }
        report.blocks_read += scanner.blocks_read;
    }
    Ok(stretches)
}

/// Adds a step of a scan.
async fn add(
    drive: &Drive,
    zone: ZoneId,
    epoch: u64,
    step: Scanned,
    end: u32,
    stretches: &mut Vec<Stretch>,
) -> DeviceResult<()> {
    match step {
        Scanned::Clean => {}
        Scanned::Record { header, bytes, intact, unreadable } => {
            let pair = pair_of(drive, &header, &bytes);
            let blocks = header.blocks().0 as u32;
            let from = header.place.block;
            stretches.push(match pair {
                Some(pair) if intact => Stretch::Whole(pair),
                Some(pair) => Stretch::Damaged { pair, blocks, unreadable },
                None => Stretch::Unknown { from, to: from + blocks, unreadable },
            });
        }
        Scanned::Gap { from, to, unreadable } => add_gap(drive, zone, epoch, from..to, unreadable, stretches).await?,
        Scanned::Torn { from, unreadable } => add_gap(drive, zone, epoch, from..end, unreadable, stretches).await?,
    }
    Ok(())
}

/// The pair that a record is, if its names can be believed and are of this volume.
fn pair_of(drive: &Drive, header: &Header, bytes: &[u8]) -> Option<Pair> {
    let pair = Pair::from_front(bytes, &Expect::place(&header.place)).ok()?;
    is_ours(drive, &pair).then_some(pair)
}

fn is_ours(drive: &Drive, pair: &Pair) -> bool {
    let end_of =
        |lba: u64, sectors: u32| lba.checked_add(u64::from(sectors)).is_some_and(|end| end <= drive.layout.sectors_max);
    pair.kind == crate::format::PAIR
        && pair.sector_shift == drive.layout.shape.sector_shift
        && pair.names.iter().all(|name| end_of(name.lba, name.sectors))
}

/// Blocks without headers: trailers tell of the pairs in them, from the last one backwards.
async fn add_gap(
    drive: &Drive,
    zone: ZoneId,
    epoch: u64,
    gap: std::ops::Range<u32>,
    unreadable: bool,
    stretches: &mut Vec<Stretch>,
) -> DeviceResult<()> {
    let (mut end, mut found) = (gap.end, Vec::new());
    while end > gap.start {
        let last = end - 1;
        let Some(block) = read_block(&drive.dev, drive.block(zone, last)).await? else { break };
        let expect = Expect::place(&drive.place(zone, epoch, last));
        let pair =
            Pair::from_back(&block, &expect).ok().filter(|pair| is_ours(drive, pair) && pair.place.block >= gap.start);
        let Some(pair) = pair else { break };
        let blocks = end - pair.place.block;
        end = pair.place.block;
        found.push(Stretch::Damaged { pair, blocks, unreadable });
    }
    if end > gap.start {
        stretches.push(Stretch::Unknown { from: gap.start, to: end, unreadable });
    }
    stretches.extend(found.into_iter().rev());
    Ok(())
}
