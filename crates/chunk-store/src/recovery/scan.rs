//! Step 4: the data zones that checkpoint and marks do not cover.

use std::collections::BTreeMap;
use std::rc::Rc;

use shingle_base::{Blocks, ChunkId, StoreId, ZoneId};
use shingle_record::{DataInfo, ZoneScanner, read_zone_head};
use shingle_zoned::{DeviceError, DeviceErrorKind, ZoneInfo, ZoneState, ZonedDevice};

use crate::format::{RecordKind, ZoneEntry, zone_use};
use crate::index::Located;
use crate::recovery::chunks::{Found, Loading};
use crate::recovery::report::{Damage, RecoveryReport, StepReport};
use crate::types::Stream;
use crate::zones::ZoneStatus;

/// A data zone as recovery found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundZone {
    pub(crate) zone: ZoneId,
    pub(crate) status: ZoneStatus,
    pub(crate) stream: Stream,
    pub(crate) landing: bool,
    pub(crate) epoch: u64,
    pub(crate) written: u32,
    pub(crate) indexed_to: u32,
    /// Where the scan began, or would have.
    pub(crate) marked_to: u32,
    pub(crate) last_write: u64,
    /// Everything up to the write pointer is records, and the drive takes more: it can go back into a pool.
    pub(crate) reusable: bool,
    /// The drive counts it against its limits.
    pub(crate) active: bool,
}

/// What the scan knows before it begins.
pub(crate) struct ScanContext<'a> {
    pub(crate) dev: &'a Rc<dyn ZonedDevice>,
    pub(crate) store: StoreId,
    /// The checkpoint's zone table, brought up to date by marks.
    pub(crate) entries: &'a BTreeMap<ZoneId, ZoneEntry>,
    /// Lives that are over, from the journal.
    pub(crate) ended: &'a BTreeMap<ZoneId, u64>,
    /// Lives that marks call closed.
    pub(crate) closed: &'a BTreeMap<ZoneId, u64>,
    /// Scans begin at the heads of zones.
    pub(crate) whole: bool,
    /// Zones scanned at once.
    pub(crate) depth: u32,
}

/// Blocks read at once where several zones are read, so that a visit is worth its seek: most tails are no longer.
const WINDOW: u32 = 1024;

/// What a scan of one zone found.
pub(crate) struct ZoneScan {
    found: FoundZone,
    records: Vec<(ChunkId, Found)>,
    /// Only what the scan adds.
    step: StepReport,
    torn: u64,
    damage: Vec<Damage>,
}

impl ZoneScan {
    /// Enters it into the chunks and the report.
    pub(crate) fn tell(self, loading: &mut Loading, report: &mut RecoveryReport) -> FoundZone {
        for (id, record) in self.records {
            loading.found(id, record);
        }
        report.scan.zones += self.step.zones;
        report.scan.read_bytes += self.step.read_bytes;
        report.scan.found += self.step.found;
        report.torn += self.torn;
        report.damage.extend(self.damage);
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
            reusable: false,
            active: info.state.is_active(),
        };
        let (records, damage) = (Vec::new(), Vec::new());
        let mut scan = ZoneScan { found, records, step: StepReport::default(), torn: 0, damage };
        match info.state {
            ZoneState::Offline => {
                scan.found.status = ZoneStatus::Offline;
                return Ok(scan);
            }
            ZoneState::Empty => {
                scan.found.status = ZoneStatus::Free;
                return Ok(scan);
            }
            _ => {}
        }
        // Not so a garbage zone: its reset may have been journaled in front of the checkpoint and done behind it.
        let closed = known.filter(|entry| entry.status == ZoneStatus::Closed && entry.indexed_to >= entry.written);
        if let Some(entry) = closed {
            (scan.found.status, scan.found.written) = (ZoneStatus::Closed, entry.written);
        } else {
            self.open_zone(&info, known, ended, &mut scan).await?;
            // ZONE-1: a later recovery may trust that it ends where it was said to.
            let closed = known.is_some_and(|entry| entry.status == ZoneStatus::Closed)
                || self.closed.get(&zone) == Some(&scan.found.epoch);
            scan.found.reusable &= !closed;
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
        let head = match self.dev.read(info.start, Blocks(1)).await {
            Ok(bytes) => read_zone_head(&bytes, Some(self.store), info.zone).ok(),
            Err(error) if matches!(error.kind, DeviceErrorKind::Gone) => return Err(error),
            Err(_) => None,
        };
        let what = head.and_then(|head| zone_use(head.kind));
        let from = match (head, what, known) {
            (Some(head), Some((stream, landing)), known) if head.epoch > ended => {
                let same = known.filter(|entry| entry.epoch == head.epoch);
                (scan.found.epoch, scan.found.stream, scan.found.landing) = (head.epoch, stream, landing);
                same.map_or(1, |entry| entry.indexed_to.max(1))
            }
            // The head went bad, but the checkpoint knows the zone.
            (None, _, Some(entry)) => entry.indexed_to.max(1),
            // An earlier life that is over, or a head that was torn while the zone was opened.
            _ => return Ok(()),
        };
        scan.found.marked_to = from;
        self.records(info, if self.whole { 1 } else { from }, scan).await
    }

    async fn records(&self, info: &ZoneInfo, from: u32, scan: &mut ZoneScan) -> Result<(), DeviceError> {
        use shingle_record::Scanned;
        let zone = info.zone;
        let written = info.written.0 as u32;
        let found = &mut scan.found;
        found.status = ZoneStatus::Closed;
        found.last_write = found.last_write.max(found.epoch);
        let mut scanner = ZoneScanner::new(self.dev.clone(), self.store, found.epoch, zone, from, written);
        if self.depth > 1 {
            scanner = scanner.reading(WINDOW);
        }
        // A record whose payload is bad is torn if it is the last, and damaged if another follows.
        let mut bad: Option<(DataInfo, u32)> = None;
        loop {
            let scanned = scanner.next().await?;
            if let (Some((info, _)), Scanned::Record { .. } | Scanned::Gap { .. }) = (bad, &scanned) {
                let what = format!("a record at offset {} fails its check", info.offset);
                scan.damage.push(Damage { chunk: Some(info.chunk), zone: Some(zone), what });
                bad = None;
            }
            match scanned {
                Scanned::Record { header, intact, .. } if header.kind == RecordKind::Data.record_type() => {
                    scan.step.found += 1;
                    found.last_write = found.last_write.max(header.sequence);
                    let info = DataInfo::decode(&header.info);
                    let block = header.place.block;
                    if intact {
                        let record = Located { zone, block, offset: info.offset, length: header.length };
                        if record.offset.checked_add(record.length).is_some() && record.length > 0 {
                            let sequence = header.sequence;
                            scan.records.push((info.chunk, Found { record, sequence, landed: found.landing }));
                        }
                        found.indexed_to = block + header.blocks().0 as u32;
                    } else {
                        bad = Some((info, block));
                    }
                }
                Scanned::Record { .. } => {}
                Scanned::Gap { from, to } => {
                    let what = format!("blocks {from} to {to} hold no record, but later ones do");
                    scan.damage.push(Damage { chunk: None, zone: Some(zone), what });
                }
                Scanned::Torn { .. } => {
                    scan.torn += 1;
                    break;
                }
                Scanned::Clean => {
                    scan.torn += u64::from(bad.is_some());
                    let room = u64::from(written) < info.capacity.0;
                    found.reusable = bad.is_none() && room && info.state != ZoneState::Full;
                    break;
                }
            }
        }
        found.indexed_to = found.indexed_to.max(from);
        scan.step.read_bytes += Blocks(scanner.blocks_read).bytes();
        Ok(())
    }
}
