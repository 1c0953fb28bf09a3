//! The chunk store as a target of workloads.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{AlignedBuf, Blocks, ChunkId};
use shingle_chunk_store::{
    Allocation, ChunkStore, Error, ErrorKind, FormatOptions, Greedy, Landing, Options, Placement, RecoveryReport,
    Stream, ZoneStatus,
};
use shingle_runtime::Runtime;
use shingle_zoned::ZonedDevice;

use crate::error::LabError;
use crate::rig::target::{ChunkTarget, TargetError, TargetFuture, TargetState};

/// A configuration of the chunk store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// As SMRstore's paper describes it.
    Paper,
    /// The same, but one zone open for all chunks (CS-SMRstore-OneZone, section 6).
    OneZone,
    /// The paper's, with a choice of its placement strategies (section 6.3).
    Strategies(Placement),
    /// The project's own defaults.
    Ours,
    /// The same on a drive that does not say how fast it turns: appends land, and nobody knows where the platter is.
    Blind,
}

impl Setup {
    /// Name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "SMRstore (paper's configuration)",
            Self::OneZone => "SMRstore-OneZone",
            Self::Strategies(_) => "SMRstore (some strategies)",
            Self::Ours => "Shingle",
            Self::Blind => "Shingle (no rotational prediction)",
        }
    }

    /// Its options.
    pub fn options(self) -> Options {
        let ours = Options { hollow: true, ..Options::default() };
        let paper = Options {
            placement: Placement { allocation: Allocation::RoundRobin, ..ours.placement },
            writes_max: u32::MAX,
            landing: None,
            close_always: true,
            victims: Rc::new(Greedy),
            gc_idle_after: None,
            mark_every: None,
            recovery_depth: 1,
            scan_whole_zones: true,
            ..ours.clone()
        };
        match self {
            Self::Ours => ours,
            Self::Blind => {
                Options { landing: ours.landing.map(|landing| Landing { everywhere: true, ..landing }), ..ours }
            }
            Self::Paper => paper,
            Self::OneZone => {
                Options { placement: Placement { allocation: Allocation::OneZone, ..paper.placement }, ..paper }
            }
            Self::Strategies(placement) => Options { placement, ..paper },
        }
    }
}

/// A chunk store on a drive.
pub struct EngineTarget {
    store: ChunkStore,
    zeros: Bytes,
}

/// The longest append of any workload.
const APPEND_MAX: Blocks = Blocks(1024);

impl EngineTarget {
    /// Formats a drive and opens the store on it.
    ///
    /// # Errors
    /// The store's error.
    pub async fn format(rt: &Runtime, device: Rc<dyn ZonedDevice>, options: Options) -> Result<Self, LabError> {
        ChunkStore::format(rt, device.clone(), &FormatOptions::default()).await.map_err(lab_error)?;
        Ok(Self::open(rt, device, options).await?.0)
    }

    /// Opens the store on a drive.
    ///
    /// # Errors
    /// The store's error.
    pub async fn open(
        rt: &Runtime,
        device: Rc<dyn ZonedDevice>,
        options: Options,
    ) -> Result<(Self, RecoveryReport), LabError> {
        let (store, report) = ChunkStore::open(rt, device, options).await.map_err(lab_error)?;
        Ok((Self { store, zeros: AlignedBuf::zeroed(APPEND_MAX).freeze() }, report))
    }

    /// The store itself.
    pub fn store(&self) -> &ChunkStore {
        &self.store
    }
}

fn lab_error(error: Error) -> LabError {
    LabError(error.to_string())
}

fn target_error(error: Error) -> TargetError {
    match error.kind {
        ErrorKind::NoSpace => TargetError::NoSpace,
        _ => TargetError::Failed(error.to_string()),
    }
}

impl ChunkTarget for EngineTarget {
    fn create(&self, id: ChunkId, stream: Stream) -> TargetFuture<'_, ()> {
        Box::pin(async move { self.store.create(id, stream).await.map_err(target_error) })
    }

    fn append(&self, id: ChunkId, offset: u64, length: u32) -> TargetFuture<'_, ()> {
        let data = self.zeros.slice(..length as usize);
        let appended = self.store.append(id, offset, vec![data]);
        Box::pin(async move { appended.await.map(drop).map_err(target_error) })
    }

    fn read(&self, id: ChunkId, offset: u64, length: u32) -> TargetFuture<'_, ()> {
        Box::pin(async move { self.store.read(id, offset, u64::from(length)).await.map(drop).map_err(target_error) })
    }

    fn seal(&self, id: ChunkId) -> TargetFuture<'_, ()> {
        Box::pin(async move { self.store.seal(id).await.map(drop).map_err(target_error) })
    }

    fn delete(&self, id: ChunkId) -> TargetFuture<'_, ()> {
        Box::pin(async move { self.store.delete(id).await.map_err(target_error) })
    }

    fn state(&self) -> TargetState {
        let (counters, stat) = (self.store.counters(), self.store.store_stat());
        let mut state = TargetState {
            appended_bytes: counters.appended_bytes,
            written_bytes: counters.written_bytes + counters.gc_written_bytes,
            moved_bytes: counters.gc_written_bytes,
            gc_runs: counters.gc_zones,
            live_bytes: stat.live_bytes,
            capacity_bytes: stat.capacity_bytes,
            ..TargetState::default()
        };
        for zone in self.store.zones() {
            match zone.status {
                ZoneStatus::Free => state.free_zones += 1,
                ZoneStatus::Garbage => {
                    state.free_zones += 1;
                    state.utilisation.push(0.0);
                }
                ZoneStatus::Closed => {
                    let room = zone.capacity_blocks.max(1);
                    state.utilisation.push((f64::from(zone.live_blocks) / f64::from(room)) as f32);
                }
                _ => {}
            }
            if zone.live_blocks > 0 && zone.written_blocks > zone.live_blocks + 1 {
                state.dirty_zones += 1;
            }
        }
        state
    }
}
