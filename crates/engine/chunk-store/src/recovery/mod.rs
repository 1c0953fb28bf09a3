//! Formatting and opening a store: the four steps of SMRstore, section 5.6.
//!
//! 1. Find the newest complete checkpoint: the metadata log reads the heads of the metazones.
//! 2. Load it: zone table, chunks and their records.
//! 3. Replay the journal that follows its start: create, seal, delete, reset, progress marks.
//! 4. Scan the data zones from where the checkpoint's index and the marks end, and complete the chunks with what is
//!    found.
//!
//! # Invariants
//! - CS-REC-1: a record counts only if its zone's generation is the present one, its chunk exists and was created before
//!   it.
//! - CS-REC-2: of several records of one range any will do (CS-APP-4, CS-GC-2); the one the index had is kept, else the newest,
//!   one that has only landed last. Of records of different ranges those are taken that reach farthest.
//! - CS-REC-3: bytes that were durable and are not found leave a hole: what lies behind it is kept, the hole is reported,
//!   and reads of it fail. A chunk may be shorter than it was, if its end cannot be read: what a later opening can read
//!   again is there again, unless the chunk was gone on with (CS-APP-5).
//! - CS-REC-4: a zone's generation is known from checkpoint and journal, even if its head is lost. An unreadable zone is
//!   neither torn nor free: it is reported, it is not reset (CS-ZONE-4), and no number that it may have is given out
//!   again.
//! - CS-REC-5: a missing record was lost if it was durable once, and else was never acknowledged. It was durable if a
//!   later record of its zone says so (`durable`), if a later record of its chunk lies elsewhere, or if the chunk was
//!   sealed or indexed past it. If the device loses writes from their ends only, any later record says so.
//! - CS-REC-8: an opening that could not read all decides nothing for good. A torn record with some of what nothing else
//!   has is passed over while there may be a better one, and its zone is kept and looked at again (CS-ZONE-4). A record
//!   that cannot be read may be torn, too: where another may be better, the zones of both are kept, and a later opening
//!   chooses anew, whichever is in the index (`of_records_that_cannot_be_read_a_later_opening_chooses_again`). The zone of a
//!   record that is taken out of the index is looked at by each opening until a checkpoint has the new choice. `hidden`
//!   in the report tells the caller that a later opening may see more.
//!   `a_torn_record_is_judged_by_the_opening_that_can_read_all`.
//! - CS-REC-9: an opening that accepts a loss judges as any other does, and is the last to look at what it could not read: once it has
//!   answered, the zone table says that the index has all of those zones, also after a power cut. A chunk then ends, or has a hole, where
//!   that opening found it to, and its zones are reset when nothing in them lives. Cut before that, it has decided nothing;
//!   cut after it, it has told nobody, so that its caller had better look first. It accepts the places that its caller names: if it cannot read
//!   any other, it is an opening that accepts nothing.
//!   `an_accepted_loss_is_looked_for_by_no_later_opening`, `a_place_that_nobody_named_keeps_all_of_a_loss_from_being_accepted`,
//!   `no_zone_is_reset_before_the_acceptance_of_its_loss_is_durable`.
//! - CS-REC-6: what recovery found is durable before anybody hears of it.
//! - CS-REC-7: zones that need no look are not read: closed ones of which the index has all, and those that the zone table
//!   calls garbage and has all of. The latter hold nothing: whatever lived there when the table was taken is in journal
//!   or checkpoint as deleted or moved, and nothing that was acknowledged was written there since, for that takes an
//!   opening of the zone, which is durable in the journal first and enters the table anew (CS-REC-4). Numbers in such a
//!   zone are below that of the checkpoint's end, but for that of a head whose entry was lost: its generation holds
//!   nothing. `an_opening_reads_no_zone_that_is_garbage_or_was_finished_early`.

mod build;
mod chunks;
mod complete;
mod found;
mod identity;
mod report;
mod scan;
mod vacant;

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::StreamExt;
use futures_util::stream;
use shingle_base::{Blocks, StoreId, ZoneId};
use shingle_record::{MetaLog, MetaLogError, Recovered, SequenceSource, SuperblockPlace};
use shingle_runtime::{Runtime, Work};
use shingle_zoned::{Geometry, ZoneOp, ZoneState, ZonedDevice};

pub use report::{Damage, RecoveryReport, StepReport};

pub(crate) use identity::{log_config, read_identity};

use identity::{Identity, check_limits, check_table_fits, identity};
use vacant::{check_vacant, data_zones};

use crate::config::{FormatOptions, Options};
use crate::drive::{Gate, Layout};
use crate::engine::{Engine, Parts};
use crate::error::{Error, ErrorKind, Result, read_error};
use crate::format::{CheckpointPart, ENGINE, JournalEntry, Mark, Superblock, VERSION, ZoneEntry};
use crate::recovery::chunks::Loading;
use crate::recovery::scan::{FoundZone, ScanContext};
use crate::store::ChunkStore;
use crate::types::{Stream, Unread, ZoneStatus};

/// More than the records that are ever written between two journal entries: by so much numbers are raised above the
/// largest that was found where records may be hidden, so that none of theirs is given out again (CS-REC-1).
const HIDDEN_MAX: u64 = 1 << 32;

impl ChunkStore {
    /// The layout that a format gives to a drive of this shape.
    ///
    /// # Errors
    /// `Format` if it is too small, or has limits with which no store works.
    pub fn layout_of(geometry: &Geometry, options: &FormatOptions) -> Result<Layout> {
        check_limits(geometry)?;
        let metazones = options.metazones.unwrap_or_else(|| Layout::default_metazones(geometry));
        let layout = Layout::new(geometry, metazones)?;
        check_table_fits(geometry, &layout)?;
        Ok(layout)
    }

    /// Makes an empty store on a drive: superblock, and an empty checkpoint. All old data is lost. Durable when it
    /// returns.
    ///
    /// # Errors
    /// `Format` if the drive is too small, or holds a store or data of any kind and [`FormatOptions::force`] is not set;
    /// `Device`, also if too few of the zones for metadata can be written to; `Stopped` if the drive is gone.
    pub async fn format(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: &FormatOptions) -> Result<StoreId> {
        let geometry = dev.geometry().clone();
        let layout = Self::layout_of(&geometry, options)?;
        let metazones = layout.metazones.len() as u32;
        if !options.force {
            check_vacant(&dev, &layout).await?;
        }
        give_up_open_zones(&dev, &layout).await?;
        let store = options.store.unwrap_or_else(|| StoreId(rt.random()));
        // Data zones that an earlier store left are garbage to this one: their records carry another store's id.
        let superblock = shingle_record::Superblock {
            store,
            engine: ENGINE,
            version: VERSION,
            formatted: rt.unix_time(),
            payload: Superblock { zone_size: geometry.zone_size.0, zone_count: geometry.zone_count, metazones }
                .encode()
                .into(),
        };
        let config = log_config(store, &layout, 1);
        let place = SuperblockPlace::prepare(&dev, layout.superzone).await.map_err(read_error)?;
        let log = MetaLog::format(rt, &dev, config, SequenceSource::default()).await.map_err(log_error)?;
        if log.needs_checkpoint() {
            // It would stop at its first changes.
            let text = "too few of the zones for metadata can be written to; format with more of them (`--metazones`), or replace the drive";
            return Err(Error::new(ErrorKind::Device, text));
        }
        // Last, so that a format that was cut short leaves no store.
        place.write(&superblock).await.map_err(read_error)?;
        Ok(store)
    }

    /// Opens the store on a drive and starts its background work.
    ///
    /// # Errors
    /// `Format` if the drive holds no store, another engine's, or one of another version; `Corrupt` if superblock or
    /// metadata log are damaged; `Device`. With [`Options::accept_loss`] also `NoSpace`, if the metazones have no room for a
    /// checkpoint.
    pub async fn open(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: Options) -> Result<(Self, RecoveryReport)> {
        let (engine, report) = recover(rt, dev, options).await?;
        if let Err(error) = engine.settle(report.accepted).await {
            engine.drive.gate.shut().await;
            return Err(error);
        }
        engine.start();
        Ok((Self { engine }, report))
    }
}

/// The four steps. Writes nothing: the store does not work until it is started.
pub(crate) async fn recover(
    rt: &Runtime,
    dev: Rc<dyn ZonedDevice>,
    options: Options,
) -> Result<(Rc<Engine>, RecoveryReport)> {
    check_limits(dev.geometry())?;
    let gate = Rc::new(Gate::new(dev));
    let dev: Rc<dyn ZonedDevice> = gate.clone();
    let Identity { store, layout, bad_copies } = identity(&dev).await?;
    let sequence = SequenceSource::default();
    let mut report = RecoveryReport::default();
    let bad_copy =
        |block| bad_block(layout.superzone, block, "this copy of the superblock is bad; the other one is good");
    report.mended.extend(bad_copies.into_iter().map(bad_copy));
    let depth = options.recovery_depth.max(1);
    let opened = MetaLog::open(rt, &dev, log_config(store, &layout, depth), sequence.clone()).await;
    let (log, recovered) = opened.map_err(log_error)?;
    report_log(&mut report, &recovered);
    if options.read_all_heads {
        read_all_heads(rt, &dev, &layout, depth, &mut report).await?;
    }
    let whole = options.scan_whole_zones;
    let Loaded { mut loading, entries, ended, closed } =
        load(recovered, &layout, dev.geometry(), whole, rt, &mut report)?;
    let began = rt.now();
    let context = ScanContext { dev: &dev, store, entries: &entries, ended: &ended, closed: &closed, whole, depth };
    let mut zones = scan(&context, &layout, rt, &mut loading, &mut report).await?;
    report.hidden |= loading.unread;
    let shown = |place: &Unread| options.accept_loss.iter().any(|shown| shown.has(place));
    let accepts = !options.accept_loss.is_empty() && report.unread.iter().all(shown);
    // Nothing will be read later: a record that is torn for good need make room for nothing.
    loading.unread &= !accepts;
    let chunks = loading.finish(&mut report.damage);
    report.hidden |= chunks.hidden;
    for zone in &mut zones {
        chunks.undecided.get(&zone.zone).into_iter().flatten().for_each(|record| zone.hold(record));
    }
    sequence.raise(zones.iter().map(|zone| zone.last_write.max(zone.epoch)).max().unwrap_or(0));
    if report.hidden {
        sequence.raise(sequence.last() + HIDDEN_MAX);
    }
    if accepts {
        zones.iter_mut().for_each(FoundZone::accept_loss);
        (report.accepted, report.hidden) = (report.hidden, false);
    }
    report.chunks = chunks.table.len() as u64;
    let (state, destinations) =
        build::state(chunks, zones, dev.geometry(), &layout, &options, sequence.last(), &mut report.damage);
    report.scan.time = rt.now().since(began);
    let engine =
        Engine::new(Parts { rt: rt.clone(), gate, options, store, layout, sequence, log, state, destinations });
    Ok((engine, report))
}

impl Engine {
    /// Makes durable what recovery found. Until then nobody works with it: if this fails, or the power does, nothing is decided.
    async fn settle(self: &Rc<Self>, accepted: bool) -> Result<()> {
        // After a kill, not of the power, it may still be in a cache, and was acknowledged to nobody (CS-REC-6).
        self.drive
            .flush
            .flush()
            .await
            .map_err(|error| Error::new(ErrorKind::Device, error.to_string()).caused_by(error))?;
        self.release_left_open().await.map_err(read_error)?;
        if accepted {
            // From now on it is settled: the zone table says that all of those zones is known (CS-REC-9).
            self.checkpoint().await?;
        }
        Ok(())
    }

    /// Starts the background tasks.
    fn start(self: &Rc<Self>) {
        self.rt.spawn(self.clone().keep_zones());
        self.rt.spawn(self.clone().refuse_while_stalled());
        if self.state.borrow().landing.is_some() {
            self.rt.spawn(self.clone().move_tails());
        }
        if self.options.background {
            self.rt.spawn(self.clone().gc_task());
            self.rt.spawn(self.clone().checkpoint_task());
            self.rt.spawn(self.clone().mark_task());
        }
    }
}

fn bad_block(zone: ZoneId, block: u32, what: &str) -> Damage {
    Damage { chunk: None, zone: Some(zone), what: format!("block {block}: {what}") }
}

fn log_error(error: MetaLogError) -> Error {
    let kind = match error {
        MetaLogError::Damaged { .. } | MetaLogError::NoCheckpoint => ErrorKind::Corrupt,
        _ => ErrorKind::Device,
    };
    Error::new(kind, error.to_string()).caused_by(error)
}

fn report_log(report: &mut RecoveryReport, recovered: &Recovered) {
    report.find.time = recovered.find_time;
    report.find.zones = recovered.zones;
    report.find.read_bytes = Blocks(recovered.find_blocks).bytes();
    report.find.found = 1;
    report.load.time = recovered.load_time;
    report.load.read_bytes = Blocks(recovered.load_blocks).bytes();
    report.load.found = recovered.parts.len() as u64;
    let mended = recovered.mended.iter();
    let what = "this block of the metadata log is bad; the others of its write make up for it";
    report.mended.extend(mended.map(|&(zone, block)| bad_block(zone, block, what)));
    report.checkpoint_bytes = recovered.parts.iter().map(|part| part.len() as u64).sum();
}

/// Reads the head of every data zone that holds anything, for what it costs.
async fn read_all_heads(
    rt: &Runtime,
    dev: &Rc<dyn ZonedDevice>,
    layout: &Layout,
    depth: u32,
    report: &mut RecoveryReport,
) -> Result<()> {
    let began = rt.now();
    for infos in data_zones(dev, layout).await? {
        let written = infos.into_iter().filter(|info| info.written > Blocks::ZERO && info.state != ZoneState::Offline);
        let mut heads = stream::iter(written).map(|info| dev.read(info.start, Blocks(1))).buffered(depth as usize);
        while heads.next().await.is_some() {
            report.find.zones += 1;
            report.find.read_bytes += Blocks(1).bytes();
        }
    }
    report.find.time += rt.now().since(began);
    Ok(())
}

/// Has the drive give up the data zones that whoever used it before left open: they count against its limits.
async fn give_up_open_zones(dev: &Rc<dyn ZonedDevice>, layout: &Layout) -> Result<()> {
    let geometry = dev.geometry();
    let op = if geometry.active_zones_max.is_some() { ZoneOp::Finish } else { ZoneOp::Close };
    for info in data_zones(dev, layout).await?.into_iter().flatten() {
        let held = if op == ZoneOp::Finish { info.state.is_active() } else { info.state.is_open() };
        if held && geometry.open_zones_max.or(geometry.active_zones_max).is_some() {
            dev.manage(info.zone, op).await.map_err(read_error)?;
        }
    }
    Ok(())
}

/// Contents of checkpoint and journal.
struct Loaded {
    loading: Loading,
    /// The checkpoint's zone table, brought up to date by marks.
    entries: BTreeMap<ZoneId, ZoneEntry>,
    /// Generations that are over.
    ended: BTreeMap<ZoneId, u64>,
    /// Generations that a mark calls closed.
    closed: BTreeMap<ZoneId, u64>,
}

/// Steps 2 and 3: the checkpoint's chunks and zones, brought up to date by the journal.
fn load(
    recovered: Recovered,
    layout: &Layout,
    geometry: &Geometry,
    ignore_marks: bool,
    rt: &Runtime,
    report: &mut RecoveryReport,
) -> Result<Loaded> {
    let senseless = |what| Error::new(ErrorKind::Corrupt, format!("a {what} in the metadata log makes no sense"));
    let began = rt.now();
    let mut journal = Vec::with_capacity(recovered.journal.len());
    let mut ended = BTreeMap::<ZoneId, u64>::new();
    for entry in &recovered.journal {
        let decoded = JournalEntry::decode(&entry.bytes).ok_or_else(|| senseless("journal entry"))?;
        if let JournalEntry::Reset { zone, epoch } = decoded {
            let last = ended.entry(zone).or_default();
            *last = epoch.max(*last);
        }
        if let JournalEntry::Open { zone, .. } = decoded
            && !layout.is_data(zone)
        {
            return Err(senseless("opening of a zone"));
        }
        if let JournalEntry::Mark(mark) = &decoded
            && (!layout.is_data(mark.zone) || u64::from(mark.to) > geometry.zone_capacity.0)
        {
            return Err(senseless("progress mark"));
        }
        journal.push((decoded, entry.sequence));
    }
    rt.worked(Work::Record, journal.len() as u64);
    report.replay.time = rt.now().since(began);
    report.replay.found = journal.len() as u64;
    let began = rt.now();
    let mut loading = Loading::default();
    let mut entries = BTreeMap::new();
    let mut closed = BTreeMap::new();
    for part in recovered.parts {
        match CheckpointPart::decode(&part).ok_or_else(|| senseless("checkpoint part"))? {
            CheckpointPart::Zones(zones) => {
                rt.worked(Work::Entry, zones.len() as u64);
                entries.extend(zones.into_iter().map(|entry| (entry.zone, entry)));
            }
            CheckpointPart::Chunks(chunks) => {
                rt.worked(Work::Entry, chunks.len() as u64);
                rt.worked(Work::Extent, chunks.iter().map(|chunk| chunk.runs.len() as u64).sum());
                for chunk in chunks {
                    loading.load(chunk, &ended, |zone| layout.is_data(zone));
                }
            }
        }
    }
    report.load.time += rt.now().since(began);
    let began = rt.now();
    for (entry, sequence) in journal {
        if let JournalEntry::Mark(mark) = &entry {
            report.marks.0 += 1;
            if ended.get(&mark.zone).is_some_and(|&last| mark.epoch <= last) {
                continue;
            }
            if mark.closed {
                closed.insert(mark.zone, mark.epoch);
            }
            if ignore_marks {
                continue;
            }
            rt.worked(Work::Record, mark.records());
            report.marks.1 += cover(&mut entries, mark);
        }
        if let &JournalEntry::Open { zone, epoch, stream, landing } = &entry {
            note_opened(&mut entries, ZoneEntry { landing, ..opened(zone, epoch, stream) });
        }
        loading.replay(entry, sequence);
    }
    report.replay.time += rt.now().since(began);
    Ok(Loaded { loading, entries, ended, closed })
}

/// A zone of which a generation began.
fn opened(zone: ZoneId, epoch: u64, stream: Stream) -> ZoneEntry {
    let status = ZoneStatus::Activated;
    ZoneEntry { zone, status, stream, landing: false, epoch, written: 1, indexed_to: 1 }
}

/// Enters a generation of a zone into the zone table, unless that knows of it or of a later one (CS-REC-4).
fn note_opened(entries: &mut BTreeMap<ZoneId, ZoneEntry>, opened: ZoneEntry) -> &mut ZoneEntry {
    let entry = entries.entry(opened.zone).or_insert(opened);
    if entry.epoch < opened.epoch {
        *entry = opened;
    }
    entry
}

/// Enters a mark of a generation that is not over into the zone table: how far its zone need not be scanned (CS-MARK-3).
/// Returns by how many blocks that is farther.
fn cover(entries: &mut BTreeMap<ZoneId, ZoneEntry>, mark: &Mark) -> u64 {
    let entry = note_opened(entries, opened(mark.zone, mark.epoch, mark.stream));
    // The table may be younger than the mark, and say more.
    let adjoins = mark.from <= entry.indexed_to && entry.epoch == mark.epoch;
    if !adjoins {
        return 0;
    }
    let farther = mark.to.saturating_sub(entry.indexed_to);
    entry.indexed_to += farther;
    entry.written = entry.written.max(entry.indexed_to);
    if mark.closed {
        (entry.status, entry.written) = (ZoneStatus::Closed, entry.indexed_to);
    } else if farther > 0 {
        // It is younger than the table.
        entry.status = ZoneStatus::Activated;
    }
    u64::from(farther)
}

/// Step 4, over all data zones: several at once, in their order.
async fn scan(
    context: &ScanContext<'_>,
    layout: &Layout,
    rt: &Runtime,
    loading: &mut Loading,
    report: &mut RecoveryReport,
) -> Result<Vec<FoundZone>> {
    let mut found = Vec::with_capacity(layout.data_zones.len());
    let infos = data_zones(context.dev, layout).await?.into_iter().flatten();
    let at_once = context.depth.min(scan::SCANS_MAX);
    let mut scans = stream::iter(infos).map(|info| context.zone(info)).buffered(at_once as usize);
    while let Some(scan) = scans.next().await {
        let scan = scan.map_err(read_error)?;
        rt.worked(Work::Record, scan.records());
        found.push(scan.tell(loading, report));
    }
    Ok(found)
}
