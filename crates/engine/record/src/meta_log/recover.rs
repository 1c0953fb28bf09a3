//! Opening a log: find the newest complete checkpoint, read from its start. (SMRstore, section 5.6, steps 1 to 3.)
//!
//! A metazone that cannot be read might hold the newest records. So the end of the found records has to prove that
//! there is nothing newer (RC-LOG-6): the zone that is written last either is not full, and then no other was begun after
//! it, or its link names the next one.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use futures_util::stream;
use shingle_base::ZoneId;
use shingle_base::wire::COUNTER_END;
use shingle_runtime::Runtime;
use shingle_zoned::{ZoneInfo, ZoneOp, ZoneState, ZonedDevice, report_patiently};
use tokio::sync::Notify;

use crate::meta_log::error::MetaLogError;
use crate::meta_log::format::{END, EndMark, JOURNAL, LINK, Link, PART, WRITE_BLOCKS_MAX, parse_journal};
use crate::meta_log::log::{Active, LogInner, LogState, MetaLog, MetaStatus};
use crate::meta_log::opening::{MetaLogConfig, Recovered};
use crate::meta_log::reader::{Generation, LogEntry, Step, ZoneReader};
use crate::sequence::SequenceSource;
use crate::zone_head::ZONE_HEAD;

/// Blocks read at once: a checkpoint is long, and read from end to end.
const WINDOW: u32 = 1024;

/// A metazone as it was found.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) info: ZoneInfo,
    pub(super) generation: Generation,
}

impl Found {
    /// True if nothing more can be written to it: it is full, or was left because a write to it failed.
    fn is_shut(&self) -> bool {
        matches!(self.info.state, ZoneState::Full | ZoneState::ReadOnly | ZoneState::Offline)
    }
}

/// End of a zone's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With a whole write, behind which the next one can go.
    Whole,
    /// With a write that a power cut tore, or that lacks its parity block.
    Torn,
    /// With blocks that are lost.
    Damaged,
    /// With a link to the next zone.
    Linked(Link),
}

/// A metazone's records, as read.
pub(super) struct ZoneRecords {
    zone: ZoneId,
    epoch: u64,
    pub(super) records: Vec<LogEntry>,
    end: End,
    /// Blocks that their write's other blocks made up for, and parity blocks that are bad; with the write's last position.
    pub(super) mended: Vec<(u32, u64)>,
    /// Starts of writes that cannot be made whole.
    pub(super) lost: Vec<u32>,
    /// Records before this position were durable once.
    durable: u64,
    blocks_read: u64,
}

impl ZoneRecords {
    /// False if all that is in it is its first write, which was torn. It is reset before the log goes on (RC-LOG-9), and tells nothing
    /// afterwards, so it must tell nothing before either: a record that it left out would come back.
    fn was_begun(&self) -> bool {
        !self.records.is_empty() || self.end != End::Torn
    }
}

/// Continuation of the log after it was opened.
#[derive(Default)]
struct Tail {
    active: Option<Active>,
    /// The zone that the newest zone's link names, if it was not begun.
    linked: Option<usize>,
    /// The newest zone, if it can neither go on nor be linked.
    unlinked: Option<usize>,
    /// Zones behind the last one that is needed (RC-LOG-9), the newest last.
    unneeded: Vec<usize>,
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
            let report = report_patiently(dev, ZoneId(zone), 1).await?;
            let usable = |info: &ZoneInfo| !matches!(info.state, ZoneState::ReadOnly | ZoneState::Offline);
            if report.first().is_some_and(usable) {
                dev.manage(ZoneId(zone), ZoneOp::Reset).await?;
            }
        }
        let zones = vec![MetaStatus::Free { epoch: 0 }; config.zones.len()];
        let log = Self::with(rt, dev, config, sequence, zones, Tail::default(), 0);
        let checkpoint = Box::pin(async { log.begin_checkpoint().await?.finish().await });
        // A format does not wait for room on a file system: it fails.
        match select(checkpoint, Box::pin(log.stalled())).await {
            Either::Left((written, _)) => written?,
            Either::Right(_) => {
                log.inner.state.borrow_mut().stopped = true;
                return Err(log.inner.host_full().into());
            }
        }
        Ok(log)
    }

    /// Opens a log (RC-LOG-2). New records get sequence numbers from `sequence`, which is raised above all numbers found.
    /// Writes nothing; the found records are made durable before the first new one is written.
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
        let found = find_generations(dev, &config, &mut recovered.find_blocks).await?;
        recovered.zones = found.iter().filter(|found| found.info.written.0 > 0).count() as u64;
        recovered.find_time = rt.now().since(began);
        let loading = rt.now();
        let Scanned { zones: scanned, end, checkpoint } = scan(dev, &config, &found, &mut recovered).await?;
        let before_unneeded = before_unneeded(&scanned, &found, &config);
        let newest = scanned.last().map(|newest| (newest.zone, newest.epoch, newest.end));
        let journal_blocks = scanned.iter().map(|zone| journal_blocks(zone, checkpoint)).sum();
        // All of the log is looked at before any of it is given up: some of the missing records may be needed.
        let mut position = replay(scanned, &end, checkpoint, &mut recovered)?;
        let mut end_of_log = match newest {
            Some((zone, epoch, ending)) => tail(&found, &config, zone, epoch, ending, position, Vec::new())?,
            None => Tail::default(),
        };
        // Without the zones behind it a zone may prove less: another that cannot be read may then be the next. The log goes on behind them.
        if let Some(Kept { zone, epoch, end, last, unneeded }) = before_unneeded
            && let Ok(before) = tail(&found, &config, zone, epoch, end, last, unneeded)
        {
            (position, end_of_log) = (last, before);
        }
        let tail = end_of_log;
        sequence.raise(recovered.sequence);
        let mut zones: Vec<MetaStatus> = found.iter().map(|found| status(found, &end)).collect();
        for &slot in &tail.unneeded {
            zones[slot] = MetaStatus::Free { epoch: 0 };
        }
        let log = Self::with(rt, dev, config, sequence, zones, tail, position);
        {
            let mut state = log.inner.state.borrow_mut();
            state.journal_blocks = journal_blocks;
            // One block's loss was made good from the others; a second loss would be final. A checkpoint makes it good.
            state.wanted_after = (!recovered.mended.is_empty()).then_some(position + 1);
        }
        recovered.load_time = rt.now().since(loading);
        Ok((log, recovered))
    }

    fn with(
        rt: &Runtime,
        dev: &Rc<dyn ZonedDevice>,
        config: MetaLogConfig,
        sequence: SequenceSource,
        zones: Vec<MetaStatus>,
        tail: Tail,
        position: u64,
    ) -> Self {
        let state = LogState {
            zones,
            active: tail.active,
            linked: tail.linked,
            unlinked: tail.unlinked,
            unneeded: tail.unneeded,
            settled: false,
            queue: VecDeque::new(),
            writing: false,
            stopped: false,
            stalled: false,
            position,
            written: position,
            starts: Vec::new(),
            journal_blocks: 0,
            wanted_after: None,
        };
        let capacity = dev.geometry().zone_capacity.0 as u32;
        let (rt, dev, state) = (rt.clone(), dev.clone(), RefCell::new(state));
        let stall = Notify::new();
        Self { inner: Rc::new(LogInner { rt, dev, config, sequence, capacity, state, stall }) }
    }
}

/// Step 1: the generation of each metazone.
pub(super) async fn find_generations(
    dev: &Rc<dyn ZonedDevice>,
    config: &MetaLogConfig,
    blocks_read: &mut u64,
) -> Result<Vec<Found>, MetaLogError> {
    let report = report_patiently(dev, ZoneId(config.zones.start), config.zones.len() as u32).await?;
    if report.len() < config.zones.len() {
        let position = 0;
        return Err(MetaLogError::Damaged { zone: Some(ZoneId(config.zones.start + report.len() as u32)), position });
    }
    let look = |info: ZoneInfo| async move {
        if info.state == ZoneState::Offline {
            return Ok((Found { info, generation: Generation::Unknown }, 0));
        }
        let mut reader = ZoneReader::new(dev, config.store, info.zone, info.written.0 as u32, 1);
        let generation = reader.generation().await?;
        Ok::<_, MetaLogError>((Found { info, generation }, reader.blocks_read))
    };
    let mut looks = stream::iter(report).map(look).buffered(config.read_depth.max(1) as usize);
    let mut all = Vec::with_capacity(config.zones.len());
    while let Some(look) = looks.next().await {
        let (found, blocks) = look?;
        *blocks_read += blocks;
        all.push(found);
    }
    Ok(all)
}

/// The zones from the newest complete checkpoint's start on, and that checkpoint's end.
struct Scanned {
    /// By epoch.
    zones: Vec<ZoneRecords>,
    end: EndMark,
    /// The position of its start.
    checkpoint: u64,
}

/// Reads zones from the newest back until the start of a complete checkpoint is there.
async fn scan(
    dev: &Rc<dyn ZonedDevice>,
    config: &MetaLogConfig,
    found: &[Found],
    recovered: &mut Recovered,
) -> Result<Scanned, MetaLogError> {
    let live = |found: &Found| match found.generation {
        Generation::Known { epoch, first } => Some((epoch, first, found.info)),
        _ => None,
    };
    let mut generations: Vec<(u64, Option<u64>, ZoneInfo)> = found.iter().filter_map(live).collect();
    generations.sort_unstable_by_key(|&(epoch, ..)| epoch);
    let mut zones: Vec<ZoneRecords> = Vec::new();
    let mut end: Option<(EndMark, u64)> = None;
    // First position of a younger zone: records of an older one from there on do not count (RC-LOG-5).
    let mut limit = u64::MAX;
    for (epoch, first, info) in generations.into_iter().rev() {
        let mut zone = read_zone(dev, config, &info, epoch).await?;
        recovered.sequence = recovered.sequence.max(epoch);
        recovered.load_blocks += zone.blocks_read;
        let counts = zone.mended.iter().filter(|&&(_, position)| position < limit);
        recovered.mended.extend(counts.map(|&(block, _)| (info.zone, block)));
        for record in &zone.records {
            recovered.sequence = recovered.sequence.max(record.header.sequence);
        }
        zone.records.retain(|record| record.info.position < limit);
        zone.durable = zone.durable.min(limit);
        if zone.was_begun() {
            let positions = zone.records.iter().map(|record| record.info.position);
            limit = limit.min(first.or(positions.min()).unwrap_or(u64::MAX));
        }
        if end.is_none()
            && let Some(last) = zone.records.iter().rev().find(|record| record.header.kind == END)
        {
            let damaged = MetaLogError::Damaged { zone: Some(info.zone), position: last.info.position };
            end = Some((EndMark::decode(&last.payload).ok_or(damaged)?, last.info.checkpoint));
        }
        zones.push(zone);
        if end.is_some_and(|(end, _)| epoch <= end.start_epoch) {
            break;
        }
    }
    zones.reverse();
    match end {
        Some((end, checkpoint)) => Ok(Scanned { zones, end, checkpoint }),
        // A checkpoint may be in the zone that cannot be read.
        None => match found.iter().find(|found| found.generation == Generation::Unknown) {
            Some(unknown) => Err(MetaLogError::Damaged { zone: Some(unknown.info.zone), position: 0 }),
            None => Err(MetaLogError::NoCheckpoint),
        },
    }
}

/// The last zone that is needed, and those behind it, which are not.
struct Kept {
    zone: ZoneId,
    epoch: u64,
    end: End,
    /// The position of its last record.
    last: u64,
    unneeded: Vec<usize>,
}

/// Finds zones at the log's end that hold neither journal nor the end of a checkpoint: left by a power cut from a
/// checkpoint that was never complete, or from a write that does not count. They are to be reset before the log goes
/// on, the newest first, so that at each step the rest are the log's end (RC-LOG-9). `None` if there are none, or they
/// hide blocks that are lost.
fn before_unneeded(zones: &[ZoneRecords], found: &[Found], config: &MetaLogConfig) -> Option<Kept> {
    let is_needed = |zone: &ZoneRecords| zone.records.iter().any(|record| matches!(record.header.kind, JOURNAL | END));
    let slot = |zone: &ZoneRecords| (zone.zone.0 - config.zones.start) as usize;
    let is_sound = |zone: &ZoneRecords| {
        let resettable = |found: &Found| !matches!(found.info.state, ZoneState::ReadOnly | ZoneState::Offline);
        let torn_at_most = zone.lost.len() <= 1 && zone.end != End::Damaged;
        torn_at_most && found.get(slot(zone)).is_some_and(resettable)
    };
    let (kept, behind) = zones.split_at(zones.iter().rposition(is_needed)? + 1);
    let before = kept.last()?;
    let leads_on = matches!(before.end, End::Linked(_)) || found.get(slot(before)).is_some_and(Found::is_shut);
    if behind.is_empty() || !leads_on || !behind.iter().all(is_sound) {
        return None;
    }
    let last = kept.iter().flat_map(|zone| &zone.records).map(|record| record.info.position).max()?;
    let unneeded = behind.iter().map(slot).collect();
    Some(Kept { zone: before.zone, epoch: before.epoch, end: before.end, last, unneeded })
}

/// Reads one zone from end to end.
pub(super) async fn read_zone(
    dev: &Rc<dyn ZonedDevice>,
    config: &MetaLogConfig,
    info: &ZoneInfo,
    epoch: u64,
) -> Result<ZoneRecords, MetaLogError> {
    let written = info.written.0 as u32;
    let mut reader = ZoneReader::new(dev, config.store, info.zone, written, WINDOW).of_generation(epoch);
    let (mut records, mut mended, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    let mut end = End::Whole;
    loop {
        match reader.step().await? {
            Step::Write { records: more, mended: block, closed } => {
                let position = more.last().map_or(0, |record| record.info.position);
                mended.extend(block.map(|block| (block, position)));
                let link = more.iter().find(|record| record.header.kind == LINK);
                end = match link.and_then(|link| Link::decode(&link.payload)) {
                    Some(link) => End::Linked(link),
                    None if closed => End::Whole,
                    None => End::Torn,
                };
                records.extend(more.into_iter().filter(|record| record.header.kind != ZONE_HEAD));
                if matches!(end, End::Linked(_)) {
                    break;
                }
            }
            Step::Lost { from, to, unreadable } => {
                lost.push(from);
                // A power cut spoils one write, and it does not make blocks unreadable. The number of written blocks of
                // a full zone is not known.
                let longer = to - from > WRITE_BLOCKS_MAX + 1 && info.state != ZoneState::Full;
                end = if unreadable || longer || end == End::Damaged { End::Damaged } else { End::Torn };
            }
            Step::End => break,
        }
    }
    let (durable, blocks_read) = (reader.durable(), reader.blocks_read);
    Ok(ZoneRecords { zone: info.zone, epoch, records, end, mended, lost, durable, blocks_read })
}

/// Blocks of journal behind a position.
fn journal_blocks(zone: &ZoneRecords, position: u64) -> u64 {
    let journal = |record: &&LogEntry| record.header.kind == JOURNAL && record.info.position > position;
    zone.records.iter().filter(journal).map(|record| record.header.blocks().0).sum()
}

/// Steps 2 and 3: takes parts and journal entries from the checkpoint's start on. Returns the last position.
fn replay(
    zones: Vec<ZoneRecords>,
    end: &EndMark,
    checkpoint: u64,
    recovered: &mut Recovered,
) -> Result<u64, MetaLogError> {
    let mut last = checkpoint.min(COUNTER_END).saturating_sub(1);
    let mut parts = 0;
    let mut pieces: Vec<Bytes> = Vec::new();
    for zone in zones {
        for record in zone.records {
            let (kind, position) = (record.header.kind, record.info.position);
            if kind == LINK || position <= last {
                continue;
            }
            if position != last + 1 || position >= COUNTER_END {
                return Err(MetaLogError::Damaged { zone: Some(zone.zone), position: last + 1 });
            }
            last = position;
            if kind == PART && record.info.checkpoint == checkpoint {
                parts += 1;
                pieces.push(record.payload);
                if !record.info.more {
                    recovered.parts.push(join(std::mem::take(&mut pieces)));
                }
            } else if kind == JOURNAL {
                let damaged = MetaLogError::Damaged { zone: Some(zone.zone), position };
                recovered.journal.extend(parse_journal(&record.payload).ok_or(damaged)?);
            }
        }
        // The write with this header may be torn; earlier records, perhaps in a zone that is lost, were not.
        if zone.durable > last + 1 {
            return Err(MetaLogError::Damaged { zone: None, position: last + 1 });
        }
    }
    if parts != end.parts || !pieces.is_empty() {
        return Err(MetaLogError::Damaged { zone: None, position: last + 1 });
    }
    for entry in &recovered.journal {
        recovered.sequence = recovered.sequence.max(entry.sequence);
    }
    Ok(last)
}

fn join(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        1 => pieces.remove(0),
        _ => Bytes::from(pieces.concat()),
    }
}

/// Proves that nothing newer than `newest` was written (RC-LOG-6), and returns the continuation of the log.
fn tail(
    found: &[Found],
    config: &MetaLogConfig,
    newest: ZoneId,
    epoch: u64,
    end: End,
    last: u64,
    unneeded: Vec<usize>,
) -> Result<Tail, MetaLogError> {
    let damaged = |zone| MetaLogError::Damaged { zone: Some(zone), position: last + 1 };
    let slot = |zone: ZoneId| zone.0.checked_sub(config.zones.start).map(|slot| slot as usize);
    let slot_of = |zone| slot(zone).and_then(|slot| Some((slot, found.get(slot)?))).ok_or_else(|| damaged(zone));
    let (slot, zone) = slot_of(newest)?;
    let (left, tail) = match end {
        End::Damaged => return Err(damaged(newest)),
        End::Linked(link) => {
            let (slot, next) = slot_of(link.zone)?;
            // Unneeded zones are reset before the log goes on (RC-LOG-9).
            let shut = next.is_shut() && !unneeded.contains(&slot);
            let longer = next.info.written.0 > u64::from(WRITE_BLOCKS_MAX) + 1 && !next.is_shut();
            if next.generation == Generation::Unknown || next.generation == Generation::Blank && longer {
                return Err(damaged(link.zone));
            }
            let linked = (!shut).then_some(slot);
            // A read-only zone is not reset in its turn: the one that it leads to may have been used, and reset since.
            let kept = zone.info.state == ZoneState::ReadOnly;
            (shut || kept, Tail { linked, ..Tail::default() })
        }
        _ if zone.is_shut() => (true, Tail::default()),
        End::Whole => {
            let active = Active { slot, epoch, next: zone.info.written.0 as u32 };
            (false, Tail { active: Some(active), ..Tail::default() })
        }
        End::Torn => (false, Tail { unlinked: Some(slot), ..Tail::default() }),
    };
    match found.iter().find(|found| found.generation == Generation::Unknown) {
        // A zone that was left without a link: the next one may be this.
        Some(unknown) if left => Err(damaged(unknown.info.zone)),
        _ => Ok(Tail { unneeded, ..tail }),
    }
}

/// Status of a metazone from now on (RC-LOG-3).
fn status(found: &Found, end: &EndMark) -> MetaStatus {
    match (found.info.state, found.generation) {
        (ZoneState::ReadOnly | ZoneState::Offline, _) => MetaStatus::Bad,
        (_, Generation::Known { epoch, .. }) if epoch >= end.start_epoch => MetaStatus::Live { epoch },
        (_, Generation::Known { epoch, .. }) => MetaStatus::Free { epoch },
        _ => MetaStatus::Free { epoch: 0 },
    }
}
