//! Opening a log: find the newest complete checkpoint, read from its start. (SMRstore, section 5.6, steps 1 to 3.)

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use shingle_base::{Blocks, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::{ZoneInfo, ZoneOp, ZoneState, ZonedDevice};

use crate::frame::{HEADER_SIZE, Header};
use crate::meta_log::format::{END, JOURNAL, LogInfo, PART, START, parse_journal};
use crate::meta_log::log::{LogInner, LogState, MetaLog, MetaStatus};
use crate::meta_log::{MetaLogConfig, MetaLogError, Recovered};
use crate::scan::{Scanned, ZoneScanner};
use crate::sequence::SequenceSource;
use crate::zone_head::read_zone_head;

/// Blocks read at once: a checkpoint is long, and read from end to end.
const WINDOW: u32 = 1024;

/// A metazone's records, as scanned.
struct ZoneRecords {
    zone: ZoneId,
    epoch: u64,
    records: Vec<(Header, LogInfo, Bytes)>,
    /// Where it can go on, if it can.
    next: Option<u32>,
}

/// One record of the log, for dumps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Its zone.
    pub zone: ZoneId,
    /// Its first block in the zone.
    pub block: u32,
    /// Its position in the log.
    pub position: u64,
    /// What it is.
    pub kind: &'static str,
    /// Bytes of payload.
    pub length: u32,
    /// The journal entries, if it holds any.
    pub entries: Vec<crate::meta_log::Entry>,
}

impl MetaLog {
    /// Resets the log's zones and writes an empty checkpoint. Durable when it returns.
    ///
    /// # Errors
    /// The device's; `Full` if too few of the zones can be written.
    pub async fn format(
        rt: &Runtime,
        dev: &Rc<dyn ZonedDevice>,
        config: MetaLogConfig,
        sequence: SequenceSource,
    ) -> Result<Self, MetaLogError> {
        for zone in config.zones.clone() {
            let report = dev.report(ZoneId(zone), 1).await?;
            let usable = |info: &ZoneInfo| !matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline);
            if report.first().is_some_and(usable) {
                dev.manage(ZoneId(zone), ZoneOp::Reset).await?;
            }
        }
        let zones = vec![MetaStatus::Free; config.zones.len()];
        let log = Self::with(rt, dev, config, sequence, zones, None, 0);
        log.begin_checkpoint().await?.finish().await?;
        Ok(log)
    }

    /// Opens a log (LOG-2). New records get sequence numbers from `sequence`, which is raised above all that is found.
    ///
    /// # Errors
    /// `NoCheckpoint`, `Damaged`, or the device's.
    pub async fn open(
        rt: &Runtime,
        dev: &Rc<dyn ZonedDevice>,
        config: MetaLogConfig,
        sequence: SequenceSource,
    ) -> Result<(Self, Recovered), MetaLogError> {
        let began = rt.now();
        let mut recovered = Recovered::default();
        let (mut zones, heads) = read_heads(dev, &config, &mut recovered).await?;
        recovered.find_time = rt.now().since(began);
        let loading = rt.now();
        let mut scanned: Vec<ZoneRecords> = Vec::new();
        let mut end = None;
        for &(epoch, zone, written) in heads.iter().rev() {
            let records = read_zone(dev, &config, zone, epoch, written, &mut recovered.load_blocks).await?;
            recovered.sequence = recovered.sequence.max(epoch);
            let last = records.records.iter().rev().find(|(header, ..)| header.kind == END).map(|(_, info, _)| *info);
            end = end.or(last);
            scanned.push(records);
            if end.is_some_and(|end: LogInfo| epoch <= end.start_epoch) {
                break;
            }
        }
        let end = end.ok_or(MetaLogError::NoCheckpoint)?;
        scanned.reverse();
        let active = scanned.last().and_then(|newest| {
            let slot = (newest.zone.0 - config.zones.start) as usize;
            Some((slot, newest.epoch, newest.next?))
        });
        let position = replay(scanned, &end, &mut recovered)?;
        for slot in &mut zones {
            if let MetaStatus::Live { epoch } = *slot
                && epoch < end.start_epoch
            {
                *slot = MetaStatus::Free;
            }
        }
        sequence.raise(recovered.sequence);
        let log = Self::with(rt, dev, config, sequence, zones, active, position);
        recovered.load_time = rt.now().since(loading);
        Ok((log, recovered))
    }

    fn with(
        rt: &Runtime,
        dev: &Rc<dyn ZonedDevice>,
        config: MetaLogConfig,
        sequence: SequenceSource,
        zones: Vec<MetaStatus>,
        active: Option<(usize, u64, u32)>,
        position: u64,
    ) -> Self {
        let state = LogState {
            zones,
            active,
            queue: VecDeque::new(),
            writing: false,
            stopped: false,
            position,
            starts: Vec::new(),
            journal_blocks: 0,
        };
        let capacity = dev.geometry().zone_capacity.0 as u32;
        let (rt, dev, state) = (rt.clone(), dev.clone(), RefCell::new(state));
        Self { inner: Rc::new(LogInner { rt, dev, config, sequence, capacity, state }) }
    }
}

/// Step 1: the heads of all metazones that hold anything: epoch, zone, blocks written, by epoch.
async fn read_heads(
    dev: &Rc<dyn ZonedDevice>,
    config: &MetaLogConfig,
    recovered: &mut Recovered,
) -> Result<(Vec<MetaStatus>, Vec<(u64, ZoneId, u32)>), MetaLogError> {
    let report = dev.report(ZoneId(config.zones.start), config.zones.len() as u32).await?;
    let head = |info: ZoneInfo| async move {
        let written = info.written > Blocks::ZERO && info.state != ZoneState::Offline;
        let bytes = if written { dev.read(info.start, Blocks(1)).await.ok() } else { None };
        // A head that cannot be read is that of a zone whose opening was cut short; if it was more, a position is
        // missing, which is noticed.
        let head = bytes.and_then(|bytes| read_zone_head(&bytes, Some(config.store), info.zone).ok());
        (info, written, head)
    };
    let mut found = stream::iter(report).map(head).buffered(config.read_depth.max(1) as usize);
    let (mut zones, mut heads) = (Vec::new(), Vec::new());
    while let Some((info, written, head)) = found.next().await {
        recovered.zones += u64::from(written);
        recovered.find_blocks += u64::from(written);
        let mut status = match info.state {
            ZoneState::ReadOnly | ZoneState::Offline => MetaStatus::Bad,
            _ => MetaStatus::Free,
        };
        if let Some(head) = head {
            heads.push((head.epoch, info.zone, info.written.0 as u32));
            if status == MetaStatus::Free {
                status = MetaStatus::Live { epoch: head.epoch };
            }
        }
        zones.push(status);
    }
    heads.sort_unstable();
    Ok((zones, heads))
}

async fn read_zone(
    dev: &Rc<dyn ZonedDevice>,
    config: &MetaLogConfig,
    zone: ZoneId,
    epoch: u64,
    written: u32,
    blocks_read: &mut u64,
) -> Result<ZoneRecords, MetaLogError> {
    let mut scanner = ZoneScanner::new(dev.clone(), config.store, epoch, zone, 1, written).reading(WINDOW);
    let mut records = Vec::new();
    let mut next = Some(written).filter(|&written| u64::from(written) < dev.geometry().zone_capacity.0);
    loop {
        match scanner.next().await? {
            Scanned::Record { header, bytes, intact: true, .. }
                if matches!(header.kind, JOURNAL | START | PART | END) =>
            {
                let payload = bytes.slice(HEADER_SIZE..HEADER_SIZE + header.length as usize);
                records.push((header, LogInfo::decode(&header.info), payload));
            }
            // Whether something is lost, positions tell.
            Scanned::Record { .. } | Scanned::Gap { .. } => next = None,
            Scanned::Torn { .. } => {
                next = None;
                break;
            }
            Scanned::Clean => break,
        }
    }
    *blocks_read += scanner.blocks_read;
    Ok(ZoneRecords { zone, epoch, records, next })
}

/// Steps 2 and 3: takes parts and journal entries from the checkpoint's start on. Returns the last position.
fn replay(scanned: Vec<ZoneRecords>, end: &LogInfo, recovered: &mut Recovered) -> Result<u64, MetaLogError> {
    // A record that was written a second time elsewhere has its old position; the first copy counts.
    let mut last = end.checkpoint.saturating_sub(1);
    let mut beyond = None;
    for zone in scanned {
        for (header, info, payload) in zone.records {
            recovered.sequence = recovered.sequence.max(header.sequence);
            if info.position != last + 1 {
                if info.position > last {
                    beyond = beyond.max(Some(info.position));
                }
                continue;
            }
            last = info.position;
            if header.kind == PART && info.checkpoint == end.checkpoint {
                recovered.parts.push(payload);
            } else if header.kind == JOURNAL {
                let damaged = MetaLogError::Damaged { zone: Some(zone.zone), position: info.position };
                recovered.journal.extend(parse_journal(&payload).ok_or(damaged)?);
            }
        }
    }
    if beyond.is_some_and(|position| position > last) || recovered.parts.len() as u64 != end.parts {
        return Err(MetaLogError::Damaged { zone: None, position: last + 1 });
    }
    for entry in &recovered.journal {
        recovered.sequence = recovered.sequence.max(entry.sequence);
    }
    Ok(last)
}

/// All records in the log's zones, needed or not, by zone and block.
///
/// # Errors
/// The device's.
pub async fn dump(dev: &Rc<dyn ZonedDevice>, config: &MetaLogConfig) -> Result<Vec<LogRecord>, MetaLogError> {
    let (_, heads) = read_heads(dev, config, &mut Recovered::default()).await?;
    let mut all = Vec::new();
    for (epoch, zone, written) in heads {
        let records = read_zone(dev, config, zone, epoch, written, &mut 0).await?;
        for (header, info, payload) in records.records {
            let kind = match header.kind {
                JOURNAL => "journal",
                START => "checkpoint start",
                PART => "checkpoint part",
                _ => "checkpoint end",
            };
            let entries = if header.kind == JOURNAL { parse_journal(&payload).unwrap_or_default() } else { Vec::new() };
            let (block, position) = (header.place.block, info.position);
            all.push(LogRecord { zone, block, position, kind, length: header.length, entries });
        }
    }
    Ok(all)
}
