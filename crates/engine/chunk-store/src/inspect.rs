//! Looking at a store that is not open: `check` and `dump`. Neither writes anything.

use std::rc::Rc;

use shingle_base::{BLOCK_SIZE, ChunkId, StoreId, ZoneId};
use shingle_record::LogRecord;
use shingle_runtime::Runtime;
use shingle_zoned::ZonedDevice;

use crate::config::Options;
use crate::drive::Layout;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::recovery::{Damage, RecoveryReport, log_config, read_identity, recover};
use crate::types::Stream;
use crate::types::ZoneStatus;

/// Bytes of a chunk read at once.
const READ_BYTES: u32 = 4 << 20;

/// Findings of a check. A check repairs nothing: opening a store repairs the effects of a power cut; damage beyond that
/// is lost here and has to come from another copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Chunks looked at.
    pub chunks: u64,
    /// Bytes read and verified.
    pub verified_bytes: u64,
    /// True if nothing is damaged.
    pub clean: bool,
    /// Report of the recovery.
    pub recovery: RecoveryReport,
    /// Everything that is lost or cannot be trusted, recovery's finds first.
    pub damage: Vec<Damage>,
}

/// Reads and verifies everything a store holds. `progress` hears of chunks done and chunks in all.
///
/// A store whose superblock or metadata log has lost something cannot be opened: that is what its report says then.
///
/// # Errors
/// As [`ChunkStore::open`](crate::ChunkStore::open), but for `Corrupt`: then nothing could be checked.
pub async fn check(rt: &Runtime, dev: Rc<dyn ZonedDevice>, mut progress: impl FnMut(u64, u64)) -> Result<CheckReport> {
    let (engine, recovery) = match recover(rt, dev, Options::default()).await {
        Err(error) if error.kind == ErrorKind::Corrupt => {
            let damage = vec![Damage { chunk: None, zone: None, what: error.to_string() }];
            return Ok(CheckReport { damage, ..CheckReport::default() });
        }
        other => other?,
    };
    let mut report = CheckReport { damage: recovery.damage.clone(), recovery, ..CheckReport::default() };
    let chunks: Vec<(ChunkId, u32)> =
        engine.state.borrow().chunks.after(None).map(|(_, chunk)| (chunk.id, chunk.size)).collect();
    for &(id, size) in &chunks {
        let mut at = 0;
        while at < size {
            let length = READ_BYTES.min(size - at);
            match engine.read(id, u64::from(at), u64::from(length)).await {
                Ok(bytes) => report.verified_bytes += bytes.len() as u64,
                Err(error) if error.kind == ErrorKind::Stopped => return Err(error),
                Err(error) => {
                    let zone = error.at.and_then(|at| engine.drive.geometry.zone_of(at));
                    let what = format!("bytes {at} to {}: {}", at + length, error.message);
                    report.damage.push(Damage { chunk: Some(id), zone, what });
                }
            }
            at += length;
        }
        report.chunks += 1;
        progress(report.chunks, chunks.len() as u64);
    }
    report.clean = report.damage.is_empty();
    Ok(report)
}

/// A data zone, as a dump shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneDump {
    /// Its number.
    pub zone: ZoneId,
    /// Its status.
    pub status: ZoneStatus,
    /// The stream of its records.
    pub stream: Stream,
    /// It took small appends of all streams.
    pub landing: bool,
    /// Its generation.
    pub epoch: u64,
    /// Bytes written, head included.
    pub written_bytes: u64,
    /// Bytes of records that live.
    pub live_bytes: u64,
}

/// A record, as a dump shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordDump {
    /// Offset of its data in the chunk.
    pub offset: u64,
    /// Bytes of data.
    pub length: u64,
    /// Its zone.
    pub zone: ZoneId,
    /// Its first block in the zone.
    pub block: u32,
}

/// A chunk, as a dump shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkDump {
    /// Its identity.
    pub id: ChunkId,
    /// Its stream.
    pub stream: Stream,
    /// Its size.
    pub size: u64,
    /// It is sealed.
    pub sealed: bool,
    /// The sequence number of its creation.
    pub birth: u64,
    /// Its records in order.
    pub records: Vec<RecordDump>,
}

/// Everything a store knows of itself.
#[derive(Clone, Debug)]
pub struct Dump {
    /// Its identity.
    pub store: StoreId,
    /// Division of the drive.
    pub layout: Layout,
    /// The records in its metazones, needed or not.
    pub log: Vec<LogRecord>,
    /// Data zones that were ever used.
    pub zones: Vec<ZoneDump>,
    /// Its chunks by id.
    pub chunks: Vec<ChunkDump>,
    /// Reason why there are no zones and chunks here: their list is lost.
    pub damage: Option<String>,
}

/// The identity of the store on a drive, and how many chunks it holds: to see whose it is before it is opened, which
/// writes to it.
///
/// # Errors
/// As [`ChunkStore::open`](crate::ChunkStore::open).
pub async fn identify(rt: &Runtime, dev: Rc<dyn ZonedDevice>) -> Result<(StoreId, u64)> {
    let (engine, report) = recover(rt, dev, Options::default()).await?;
    Ok((engine.store, report.chunks))
}

/// The identity of the store on a drive, from its superblock alone.
///
/// # Errors
/// `Format` if there is none that this version reads, `Corrupt`, `Device`.
pub async fn store_id(dev: Rc<dyn ZonedDevice>) -> Result<StoreId> {
    read_identity(&dev).await.map(|(store, _)| store)
}

/// A store's zones, without its chunks: small for a drive of any size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonesDump {
    /// Its identity.
    pub store: StoreId,
    /// Division of the drive.
    pub layout: Layout,
    /// Data zones that were ever used.
    pub zones: Vec<ZoneDump>,
}

/// Reads what a store knows of its zones.
///
/// # Errors
/// As [`ChunkStore::open`](crate::ChunkStore::open).
pub async fn zones(rt: &Runtime, dev: Rc<dyn ZonedDevice>) -> Result<ZonesDump> {
    let (store, layout) = read_identity(&dev).await?;
    let (engine, _) = recover(rt, dev, Options::default()).await?;
    Ok(ZonesDump { store, layout, zones: zone_dumps(&engine) })
}

fn zone_dumps(engine: &Engine) -> Vec<ZoneDump> {
    let state = engine.state.borrow();
    let bytes = |blocks: u32| u64::from(blocks) * BLOCK_SIZE as u64;
    let used = state.zones.iter().filter(|(_, zone)| zone.epoch != 0 || zone.status != ZoneStatus::Free);
    used.map(|(id, zone)| ZoneDump {
        zone: id,
        status: zone.status,
        stream: zone.stream,
        landing: zone.landing,
        epoch: zone.epoch,
        written_bytes: bytes(zone.written),
        live_bytes: bytes(zone.live),
    })
    .collect()
}

/// Reads what a store knows of itself.
///
/// # Errors
/// As [`ChunkStore::open`](crate::ChunkStore::open).
pub async fn dump(rt: &Runtime, dev: Rc<dyn ZonedDevice>) -> Result<Dump> {
    let (store, layout) = read_identity(&dev).await?;
    let log =
        shingle_record::dump(&dev, &log_config(store, &layout, Options::default().recovery_depth)).await.map_err(
            |error| Error::new(ErrorKind::Device, format!("the metazones could not be read: {error}")).caused_by(error),
        )?;
    let (engine, _) = match recover(rt, dev, Options::default()).await {
        Err(error) if error.kind == ErrorKind::Corrupt => {
            let damage = Some(error.to_string());
            return Ok(Dump { store, layout, log, zones: Vec::new(), chunks: Vec::new(), damage });
        }
        other => other?,
    };
    let zones = zone_dumps(&engine);
    let state = engine.state.borrow();
    let chunks = state
        .chunks
        .after(None)
        .map(|(_, chunk)| ChunkDump {
            id: chunk.id,
            stream: chunk.stream,
            size: u64::from(chunk.size),
            sealed: chunk.sealed,
            birth: chunk.birth,
            records: chunk
                .groups
                .iter()
                .flat_map(|group| group.records())
                .map(|record| RecordDump {
                    offset: u64::from(record.offset),
                    length: u64::from(record.length),
                    zone: record.zone,
                    block: record.block,
                })
                .collect(),
        })
        .collect();
    drop(state);
    Ok(Dump { store, layout, log, zones, chunks, damage: None })
}
