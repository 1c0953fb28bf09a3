//! Step 4: the data zones that checkpoint and marks do not cover.

use std::collections::BTreeMap;
use std::rc::Rc;

use shingle_base::{Blocks, ChunkId, StoreId, ZoneId};
use shingle_record::{
    DataInfo, Header, SLICE_SIZE, Scanned, SlicePlan, ZoneScanner, read_block, read_zone_head, slices,
};
use shingle_zoned::{DeviceError, ZoneInfo, ZoneState, ZonedDevice};

use crate::format::{RecordKind, ZoneEntry, zone_use};
use crate::index::Located;
use crate::recovery::chunks::Loading;
use crate::recovery::found::{Found, Trust};
use crate::recovery::report::{Damage, RecoveryReport, StepReport};
use crate::types::{Stream, Unread, ZoneStatus};

/// A data zone as recovery found it.
#[derive(Clone, Debug)]
pub(crate) struct FoundZone {
    pub(crate) zone: ZoneId,
    pub(crate) status: ZoneStatus,
    pub(crate) stream: Stream,
    pub(crate) landing: bool,
    pub(crate) epoch: u64,
    pub(crate) written: u32,
    pub(crate) indexed_to: u32,
    /// Block at which the scan began, or would have.
    pub(crate) marked_to: u32,
    pub(crate) last_write: u64,
    /// Everything up to the write pointer is records, and the drive takes more: it can go back into a pool.
    pub(crate) reusable: bool,
    /// Blocks that a later opening has to look at, in stretches: they could not be read, or not be judged (CS-ZONE-4).
    pub(crate) undecided: Vec<(u32, u32)>,
    /// It is offline, with records that were acknowledged (CS-ZONE-5).
    pub(crate) lost: bool,
    /// The drive counts it against its limits.
    pub(crate) active: bool,
}

impl FoundZone {
    /// A later opening has to look at a record (CS-REC-8).
    pub(crate) fn hold(&mut self, record: &Located) {
        self.indexed_to = self.indexed_to.min(record.block);
        self.marked_to = self.marked_to.min(record.block);
        self.undecided.push((record.block, record.block + record.blocks().0 as u32));
    }

    /// No later opening looks at it for what this one could not read (CS-REC-9).
    pub(crate) fn accept_loss(&mut self) {
        self.undecided.clear();
        self.lost = false;
        if self.status.is_ended() {
            self.indexed_to = self.indexed_to.max(self.written);
        }
    }

    fn unread(&self, from: u32, to: u32) -> Unread {
        Unread { zone: self.zone, epoch: self.epoch, from, to }
    }

    /// CS-ZONE-4.
    pub(crate) fn is_suspect(&self) -> bool {
        !self.undecided.is_empty()
    }

    /// Stretches of blocks behind the first that are undecided, and without any such (CS-MARK-3).
    pub(crate) fn behind(&self) -> Vec<(u32, u32)> {
        between(self.undecided.clone(), self.written)
    }
}

/// Blocks between stretches, which may overlap, and from the last of them to `end`.
fn between(mut stretches: Vec<(u32, u32)>, end: u32) -> Vec<(u32, u32)> {
    stretches.sort_unstable();
    let begins = stretches.iter().scan(0, |reached, &(_, to)| {
        *reached = to.max(*reached);
        Some(*reached)
    });
    let ends = stretches.iter().skip(1).map(|&(from, _)| from).chain([end]);
    begins.zip(ends).filter(|(from, to)| from < to).collect()
}

/// Inputs of the scan.
pub(crate) struct ScanContext<'a> {
    pub(crate) dev: &'a Rc<dyn ZonedDevice>,
    pub(crate) store: StoreId,
    /// The checkpoint's zone table, brought up to date by marks.
    pub(crate) entries: &'a BTreeMap<ZoneId, ZoneEntry>,
    /// Generations that are over, from the journal.
    pub(crate) ended: &'a BTreeMap<ZoneId, u64>,
    /// Generations that marks call closed.
    pub(crate) closed: &'a BTreeMap<ZoneId, u64>,
    /// Scans begin at the heads of zones.
    pub(crate) whole: bool,
    /// Zones scanned at once.
    pub(crate) depth: u32,
}

/// Blocks read at once where several zones are read, so that a visit is worth its seek: most tails are no longer.
const WINDOW: u32 = 1024;

/// Zones scanned at once, at most. Each holds two windows: 32 MiB a drive, where all drives of a server open at once. More are
/// no faster: windows of so many blocks keep the drive busy.
pub(crate) const SCANS_MAX: u32 = 4;

/// Findings of a scan of one zone.
pub(crate) struct ZoneScan {
    found: FoundZone,
    records: Vec<(ChunkId, Found)>,
    /// Only what the scan adds.
    step: StepReport,
    torn: bool,
    /// Blocks of it could not be read, in which there may be records.
    hides: bool,
    /// These, and blocks of records that were found.
    unread: Vec<Unread>,
    damage: Vec<Damage>,
}

impl ZoneScan {
    /// Records that were found.
    pub(crate) fn records(&self) -> u64 {
        self.step.found
    }

    /// Enters it into the chunks and the report.
    pub(crate) fn tell(self, loading: &mut Loading, report: &mut RecoveryReport) -> FoundZone {
        for (id, record) in self.records {
            loading.found(id, record);
        }
        report.scan.zones += self.step.zones;
        report.scan.read_bytes += self.step.read_bytes;
        report.scan.found += self.step.found;
        report.torn.extend(self.torn.then_some(self.found.zone));
        report.damage.extend(self.damage);
        report.unread.extend(self.unread);
        loading.unread |= self.hides;
        report.hidden |= self.found.lost;
        self.found
    }
}

impl ScanContext<'_> {
    /// Looks at one data zone and, unless checkpoint and marks cover it, scans it.
    ///
    /// # Errors
    /// Only if the device is gone.
    pub(crate) async fn zone(&self, info: ZoneInfo) -> Result<ZoneScan, DeviceError> {
        let zone = info.zone;
        let ended = self.ended.get(&zone).copied().unwrap_or(0);
        let entry = self.entries.get(&zone).copied();
        let known = entry.filter(|entry| entry.status != ZoneStatus::Free && entry.epoch > ended);
        let indexed_to = known.map_or(0, |entry| entry.indexed_to);
        let found = FoundZone {
            zone,
            status: ZoneStatus::Garbage,
            stream: known.map_or(Stream::Data, |entry| entry.stream),
            landing: known.is_some_and(|entry| entry.landing),
            epoch: entry.map_or(0, |entry| entry.epoch).max(ended),
            written: info.written.0 as u32,
            indexed_to,
            marked_to: indexed_to,
            last_write: known.map_or(0, |entry| entry.epoch),
            reusable: true,
            undecided: Vec::new(),
            lost: false,
            active: info.state.is_active(),
        };
        let (records, damage) = (Vec::new(), Vec::new());
        let (step, unread) = (StepReport::default(), Vec::new());
        let mut scan = ZoneScan { found, records, step, torn: false, hides: false, unread, damage };
        match info.state {
            ZoneState::Offline => {
                (scan.found.status, scan.found.reusable) = (ZoneStatus::Offline, false);
                // CS-ZONE-5.
                let covered = |entry: &ZoneEntry| entry.status == ZoneStatus::Garbage || entry.is_whole();
                if let Some(entry) = known.filter(|entry| !covered(entry)) {
                    (scan.found.lost, scan.found.written) = (true, entry.written.max(indexed_to + 1));
                    scan.unread.push(scan.found.unread(indexed_to, scan.found.written));
                    let what = format!("the zone is offline, and records behind block {indexed_to} are lost");
                    scan.damage.push(Damage { chunk: None, zone: Some(zone), what });
                }
                return Ok(scan);
            }
            ZoneState::Empty => {
                (scan.found.status, scan.found.reusable) = (ZoneStatus::Free, false);
                return Ok(scan);
            }
            _ => {}
        }
        if let Some(entry) = known.or(entry).filter(|entry| is_settled(entry, ended)) {
            let garbage = entry.status == ZoneStatus::Garbage;
            scan.found.status = if garbage { ZoneStatus::Garbage } else { ZoneStatus::Closed };
            (scan.found.written, scan.found.indexed_to) = (entry.written, entry.indexed_to);
            scan.found.reusable = false;
        } else {
            self.open_zone(&info, known, ended, &mut scan).await?;
            // CS-ZONE-1: a later recovery may trust that it ends where it was said to.
            let closed = known.is_some_and(|entry| entry.status == ZoneStatus::Closed)
                || self.closed.get(&zone) == Some(&scan.found.epoch);
            scan.found.reusable &= !closed;
            // If every block up to the last record was read, blocks that are not in the index are dead, rotten, or the
            // unused end of a zone that was finished early (CS-ZONE-3): no later opening has to look there.
            if scan.found.status == ZoneStatus::Closed && !scan.found.is_suspect() {
                scan.found.indexed_to = scan.found.indexed_to.max(scan.found.written);
            }
        }
        if info.state == ZoneState::ReadOnly {
            (scan.found.status, scan.found.reusable) = (ZoneStatus::ReadOnly, false);
        }
        Ok(scan)
    }

    /// A zone that was open, or opened, since the checkpoint began.
    async fn open_zone(
        &self,
        info: &ZoneInfo,
        known: Option<ZoneEntry>,
        ended: u64,
        scan: &mut ZoneScan,
    ) -> Result<(), DeviceError> {
        scan.step.zones += 1;
        scan.step.read_bytes += Blocks(1).bytes();
        let block = read_block(self.dev, info.start).await?;
        let unreadable = block.is_none();
        let head = block.and_then(|bytes| read_zone_head(&bytes, Some(self.store), info.zone).ok());
        let head = head.and_then(|head| Some((head, zone_use(head.kind)?)));
        let from = match (head, known) {
            (Some((head, (stream, landing))), known) if head.epoch > ended => {
                let same = known.filter(|entry| entry.epoch == head.epoch);
                (scan.found.epoch, scan.found.stream, scan.found.landing) = (head.epoch, stream, landing);
                // A generation that the journal does not know of has nothing that was acknowledged: it is not to have
                // any.
                scan.found.reusable = same.is_some();
                same.map_or(1, |entry| entry.indexed_to.max(1))
            }
            // The head went bad, but checkpoint or journal know the zone (CS-REC-4).
            (None, Some(entry)) => entry.indexed_to.max(1),
            // An earlier generation that is over, another store's, or a head that was torn while the zone was opened.
            _ => {
                // Nothing in it was acknowledged, or it was and is over: no later opening has to look (CS-REC-7).
                (scan.found.indexed_to, scan.found.marked_to) = (scan.found.written, scan.found.written);
                scan.found.reusable = false;
                return Ok(());
            }
        };
        scan.found.marked_to = from;
        let bad_head = head.is_none().then_some(unreadable);
        self.records(info, if self.whole { 1 } else { from }, bad_head, scan).await
    }

    /// Reads the records of a zone, and says how far each can be trusted.
    async fn records(
        &self,
        info: &ZoneInfo,
        from: u32,
        bad_head: Option<bool>,
        scan: &mut ZoneScan,
    ) -> Result<(), DeviceError> {
        let written = info.written.0 as u32;
        let found = &mut scan.found;
        found.status = ZoneStatus::Closed;
        found.last_write = found.last_write.max(found.epoch);
        found.indexed_to = found.indexed_to.max(from);
        let mut scanner = ZoneScanner::new(self.dev.clone(), self.store, found.epoch, info.zone, from, written);
        if self.depth > 1 {
            scanner = scanner.reading(WINDOW);
        }
        let mut parts = Vec::new();
        // Blocks before this one were durable once. A scan of whole zones meets tears that earlier recoveries passed:
        // there only the records tell.
        let mut durable = if self.whole { 0 } else { found.indexed_to };
        // Durable end according to the records alone: the index may have records of a zone whose head was torn, from an
        // opening that took them in.
        let mut said = 0;
        let clean = loop {
            match scanner.next().await? {
                Scanned::Record { header, bytes, intact, .. } => {
                    if header.kind == RecordKind::Data.record_type() {
                        said = said.max(DataInfo::decode(&header.info).durable);
                    }
                    let unreadable =
                        |from, to| scanner.is_unreadable(header.place.block + from, header.place.block + to);
                    let bad = if intact { None } else { bad_bytes(&header, &bytes, unreadable) };
                    parts.push(Part::Record { header, bad });
                }
                Scanned::Gap { from, to, unreadable } => parts.push(Part::Gap { from, to, unreadable, last: false }),
                Scanned::Torn { from, unreadable } => {
                    parts.push(Part::Gap { from, to: written, unreadable, last: true });
                    break false;
                }
                Scanned::Clean => break true,
            }
        };
        durable = durable.max(said);
        scan.step.read_bytes += Blocks(scanner.blocks_read).bytes();
        let room = u64::from(written) < info.capacity.0;
        scan.found.reusable &= clean && room && bad_head.is_none() && info.state != ZoneState::Full;
        if let Some(unreadable) = bad_head.filter(|&unreadable| said > 1 || unreadable && durable > 1) {
            let what = format!("its head {}; what lies behind it was found all the same", bad(unreadable));
            scan.damage.push(Damage { chunk: None, zone: Some(info.zone), what });
        }
        self.judge(parts, durable, scan);
        Ok(())
    }

    /// Takes in what was read of a zone that was durable up to block `durable` (CS-REC-5).
    fn judge(&self, parts: Vec<Part>, durable: u32, scan: &mut ZoneScan) {
        // True if blocks of one write that was not flushed can be lost before others that are there.
        let subsets = self.dev.geometry().volatile_cache;
        let found = &mut scan.found;
        let mut torn = false;
        let count = parts.len();
        for (at, part) in parts.into_iter().enumerate() {
            let last = at + 1 == count;
            match part {
                Part::Gap { from, to, unreadable, last } => {
                    found.reusable = false;
                    if !unreadable && from >= durable && (last || subsets) {
                        torn = true;
                        continue;
                    }
                    if unreadable {
                        // Looked at again by the next recovery: whatever lies there is neither in the index nor dead
                        // (CS-ZONE-3).
                        found.indexed_to = found.indexed_to.min(from);
                        found.undecided.push((from, to));
                        scan.hides = true;
                        scan.unread.push(found.unread(from, to));
                    }
                    let what = format!("blocks {from} to {to} {}, and records in them are lost", bad(unreadable));
                    scan.damage.push(Damage { chunk: None, zone: Some(found.zone), what });
                }
                Part::Record { header, bad } if header.kind == RecordKind::Data.record_type() => {
                    scan.step.found += 1;
                    found.last_write = found.last_write.max(header.sequence);
                    let info = DataInfo::decode(&header.info);
                    let block = header.place.block;
                    let unreadable = bad.is_some_and(|(_, unreadable)| unreadable);
                    if let Some((bytes, true)) = bad {
                        let (from, to) = blocks_of(&header, info.offset, bytes);
                        scan.unread.push(found.unread(from, to));
                    }
                    // One behind a tear may have been whole when an earlier opening took it in.
                    let proven = block < durable || unreadable || !torn && !last && !subsets;
                    let trust = match (bad, torn) {
                        (None, false) => Trust::Sure,
                        (None, true) => Trust::Behind,
                        (Some(_), _) if proven => Trust::Sure,
                        (Some(_), _) => {
                            torn = true;
                            Trust::Torn
                        }
                    };
                    found.reusable &= bad.is_none();
                    let bad = bad.map(|(bytes, _)| bytes);
                    let record = Located { zone: found.zone, block, offset: info.offset, length: header.length };
                    if record.offset.checked_add(record.length).is_some() && record.length > 0 {
                        let (sequence, landed) = (header.sequence, found.landing);
                        scan.records.push((info.chunk, Found { record, sequence, landed, trust, bad, unreadable }));
                    }
                    if !found.is_suspect() {
                        found.indexed_to = found.indexed_to.max(block + header.blocks().0 as u32);
                    }
                }
                Part::Record { .. } => {}
            }
        }
        scan.torn = torn;
    }
}

/// True if a zone, of which generations up to `ended` are over, holds nothing beyond the zone table (CS-REC-7).
///
/// The zone may have been reset, and even opened, behind the table. Of an opening the journal knows, and the entry is
/// of that generation; or nothing in it was acknowledged, and the zone is garbage either way.
fn is_settled(entry: &ZoneEntry, ended: u64) -> bool {
    let garbage = entry.status == ZoneStatus::Garbage && entry.indexed_to >= entry.written;
    garbage && entry.epoch >= ended || entry.is_whole() && entry.epoch > ended
}

/// Contents of a zone, in order.
enum Part {
    /// A record; the bytes of its data that fail their checks, and whether that is because they could not be read.
    Record { header: Header, bad: Option<((u32, u32), bool)> },
    /// Blocks without a record; `last` if none follows.
    Gap { from: u32, to: u32, unreadable: bool, last: bool },
}

fn bad(unreadable: bool) -> &'static str {
    if unreadable { "cannot be read" } else { "fails its check" }
}

/// The first and last bytes of a record, from its chunk's start, that lie in slices that fail their checks, and whether
/// all of these have blocks that could not be read; `None` if all slices are good.
fn bad_bytes(header: &Header, bytes: &[u8], is_unreadable: impl Fn(u32, u32) -> bool) -> Option<((u32, u32), bool)> {
    let info = DataInfo::decode(&header.info);
    let plan = SlicePlan::new(header.length, 0, header.length);
    let mut range: Option<(u32, u32)> = None;
    let mut unreadable = true;
    let mut at = 0;
    for slice in slices(&plan, bytes, info.chunk, info.offset) {
        let end = header.length.min(at + SLICE_SIZE as u32);
        if slice.is_err() {
            let first = range.map_or(at, |(first, _)| first);
            range = Some((first, end));
            let blocks = SlicePlan::new(header.length, at, end - at);
            let from = blocks.first_block().0 as u32;
            unreadable &= is_unreadable(from, from + blocks.blocks().0 as u32);
        }
        at = end;
    }
    let (first, end) = range?;
    Some(((info.offset.saturating_add(first), info.offset.saturating_add(end)), unreadable))
}

/// The blocks of a zone that have bytes `from` to `to` of a record's chunk, where the record begins at `offset`.
fn blocks_of(header: &Header, offset: u32, (from, to): (u32, u32)) -> (u32, u32) {
    let plan = SlicePlan::new(header.length, from.saturating_sub(offset), to.saturating_sub(from));
    let first = header.place.block + plan.first_block().0 as u32;
    (first, first + plan.blocks().0 as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CS-MARK-3: no stretch has a block that is undecided.
    #[test]
    fn what_lies_between_stretches_has_none_of_their_blocks() {
        assert_eq!(between(vec![], 30), []);
        assert_eq!(between(vec![(5, 8)], 30), [(8, 30)]);
        assert_eq!(between(vec![(20, 30), (5, 8), (8, 10)], 30), [(10, 20)]);
        assert_eq!(between(vec![(5, 20), (8, 10), (5, 20)], 30), [(20, 30)]);
    }
}
