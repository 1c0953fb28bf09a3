//! A volume: sectors that can be written in any order, on a zoned drive.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::ready;
use shingle_base::StoreId;
use shingle_record::{InUse, MetaLog, NameKind, SequenceSource, SuperblockPlace, check_unused};
use shingle_runtime::Runtime;
use shingle_store_api::{
    BlockStore, Durability, LocalStoreFuture, MappedRun, StoreError, StoreErrorKind, StoreResult, accessed,
};
use shingle_zone_kit::give_up_active;
use shingle_zoned::ZonedDevice;

use crate::config::{FormatOptions, Options};
use crate::control::Control;
use crate::drive::device_error;
use crate::engine::Engine;
use crate::format::{ENGINE, VERSION};
use crate::identity::{Identity, identity, log_config, log_error};
use crate::layout::Layout;
use crate::recovery::{RecoveryReport, find};
use crate::snapshot::{SnapshotInfo, SnapshotView};
use crate::stats::VolumeStats;

/// A volume by its superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identified {
    /// Its identity.
    pub store: StoreId,
    /// Its size when it was made.
    pub size_bytes: u64,
    /// Bytes of a sector.
    pub sector_bytes: u64,
}

/// An open volume. A cheap handle; stays on the thread of its runtime.
///
/// Writes are durable when they complete if the drive has no volatile cache, else with the next flush.
#[derive(Clone)]
pub struct Volume {
    engine: Rc<Engine>,
}

impl Volume {
    /// Makes a volume on a drive. Durable when it returns.
    ///
    /// # Errors
    /// `Invalid` if the drive is too small, or holds a store or data and `force` is not given; `Device`.
    pub async fn format(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: FormatOptions) -> StoreResult<StoreId> {
        let geometry = dev.geometry().clone();
        let (layout, block) = Layout::choose(&geometry, &options)?;
        if !options.force {
            refuse_used(&dev, &layout).await?;
        }
        give_up_active(&dev, &layout.data_zones).await.map_err(device_error)?;
        let store = options.store.unwrap_or_else(|| StoreId(rt.random()));
        let superblock = shingle_record::Superblock {
            store,
            engine: ENGINE,
            version: VERSION,
            formatted: rt.unix_time(),
            payload: block.encode().into(),
        };
        let config = log_config(store, &layout, 1);
        let place = SuperblockPlace::prepare(&dev, layout.superzone).await.map_err(device_error)?;
        let log = MetaLog::format(rt, &dev, config, SequenceSource::default()).await.map_err(log_error)?;
        if log.needs_checkpoint() {
            let text = "too few of the zones for metadata can be written to; make the volume with more of them (`--metazones`)";
            return Err(StoreError::new(StoreErrorKind::Device, text));
        }
        // Last, so that a format that was cut short leaves no volume.
        place.write(&superblock).await.map_err(device_error)?;
        Ok(store)
    }

    /// Opens the volume on a drive, and starts its background work.
    ///
    /// # Errors
    /// `Invalid` if the drive holds no volume, or one of another version; `Corrupt` or `Unavailable` if metadata are damaged or
    /// cannot be read; `Device`.
    pub async fn open(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: Options) -> StoreResult<(Self, RecoveryReport)> {
        let (engine, report) = find(rt, dev, options).await?.start().await?;
        Ok((Self { engine }, report))
    }

    /// The findings of an opening, without one: writes nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn inspect(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: Options) -> StoreResult<RecoveryReport> {
        find(rt, dev, options).await.map(|found| found.report)
    }

    /// Opens the volume for reading alone: writes are refused, and nothing is written to the drive.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn examine(
        rt: &Runtime,
        dev: Rc<dyn ZonedDevice>,
        options: Options,
    ) -> StoreResult<(Self, RecoveryReport)> {
        let (engine, report) = find(rt, dev, options).await?.examined();
        Ok((Self { engine }, report))
    }

    /// Identity and sizes of the volume on a drive, from its superblock alone.
    ///
    /// # Errors
    /// `Invalid` if the drive holds no volume, or one of another version; `Corrupt`, `Device`.
    pub async fn identify(dev: &Rc<dyn ZonedDevice>) -> StoreResult<Identified> {
        let Identity { store, layout, .. } = identity(dev).await?;
        let shape = layout.shape;
        Ok(Identified { store, size_bytes: shape.bytes(layout.sectors), sector_bytes: shape.bytes(1) })
    }

    /// Completes once the volume has stopped, after a failure that leaves its drive unknown. Changes fail from then on; another opening
    /// finds what was durable.
    pub fn stopped(&self) -> impl Future<Output = ()> + use<> {
        let engine = self.engine.clone();
        async move {
            let stops = engine.wakes.stopped.notified();
            if engine.state.borrow().stopped.is_none() {
                stops.await;
            }
        }
    }

    /// Writes a checkpoint: the next opening reads what was written since.
    ///
    /// # Errors
    /// `Unavailable` once the volume has stopped, `Device`.
    pub async fn checkpoint(&self) -> StoreResult<()> {
        Ok(self.engine.checkpoint().await?)
    }

    /// Takes no more writes, finishes those under way, and writes a checkpoint.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub async fn close(self) -> StoreResult<()> {
        self.engine.close().await
    }

    /// The volume's identity.
    pub fn store(&self) -> StoreId {
        self.engine.drive.store
    }

    /// The drive's zones that hold its data; those before hold metadata.
    pub fn data_zones(&self) -> Range<u32> {
        self.engine.drive.layout.data_zones.clone()
    }

    /// Its counters, and its contents in numbers.
    pub fn stats(&self) -> VolumeStats {
        self.engine.stats()
    }

    /// Takes a snapshot: the volume as it is, with all writes that have been answered. Durable when it returns, and it waits for the longest
    /// write that is under way and for two flushes. Others wait meanwhile.
    ///
    /// # Errors
    /// `Invalid` if the name is taken or is none; `NoSpace` if writes that wait may have no room beside it; `Unavailable` once the volume has
    /// stopped; `Device`, also if writes were lost with a zone and no flush has told so yet.
    pub async fn take_snapshot(&self, name: &str) -> StoreResult<()> {
        self.engine.take_snapshot(name).await
    }

    /// Removes a snapshot for good. Sectors that it alone kept become room.
    ///
    /// # Errors
    /// `Invalid` if there is no snapshot of that name; `Unavailable` once the volume has stopped; `Device`.
    pub async fn remove_snapshot(&self, name: &str) -> StoreResult<()> {
        self.engine.remove_snapshot(name).await
    }

    /// Snapshots, the oldest first.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        self.engine.snapshots()
    }

    /// A snapshot, as a disk that can be read.
    ///
    /// # Errors
    /// `Invalid` if there is no snapshot of that name.
    pub fn at_snapshot(&self, name: &str) -> StoreResult<SnapshotView> {
        SnapshotView::new(&self.engine, name)
    }

    /// Changes the size. Sectors behind a smaller one are gone, but for snapshots. Durable when it returns.
    ///
    /// # Errors
    /// `Invalid` if the drive has no room for such a volume; `Unavailable` once the volume has stopped; `Device`.
    pub async fn resize(&self, bytes: u64) -> StoreResult<()> {
        self.engine.resize(bytes).await
    }

    /// The largest size that [`resize`](Self::resize) takes.
    pub fn size_max_bytes(&self) -> u64 {
        self.engine.size_max_bytes()
    }

    /// A handle for a controller, which takes the place of the volume's own cleaner.
    pub fn control(&self) -> Control {
        Control::attach(&self.engine)
    }

    /// The sectors of an access.
    fn sectors(&self, offset: u64, length: u64) -> StoreResult<(u64, u64)> {
        let bytes = accessed(self, offset, length)?;
        self.engine.last_call.set(self.engine.rt.now());
        let shift = self.engine.drive.layout.shape.sector_shift;
        Ok((bytes.start >> shift, (bytes.end - bytes.start) >> shift))
    }

    async fn change(
        &self,
        sectors: StoreResult<(u64, u64)>,
        kind: NameKind,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> StoreResult<()> {
        let (lba, sectors) = sectors?;
        self.engine.write(lba, sectors, kind, data).await?;
        if durability == Durability::Durable {
            self.engine.flush_for_caller().await?;
        }
        Ok(())
    }
}

async fn refuse_used(dev: &Rc<dyn ZonedDevice>, layout: &Layout) -> StoreResult<()> {
    check_unused(dev, layout.superzone).await.map_err(|error| match error {
        InUse::Device(error) => device_error(error),
        InUse::Holds(words) => {
            let next = "if nobody needs it, force the creation (`shingle volume create --force`)";
            StoreError::new(StoreErrorKind::Invalid, format!("the drive holds {words}; {next}"))
        }
    })
}

impl BlockStore for Volume {
    fn size_bytes(&self) -> u64 {
        self.engine.drive.layout.shape.bytes(self.engine.state.borrow().sectors)
    }

    fn sector_bytes(&self) -> u64 {
        1 << self.engine.drive.layout.shape.sector_shift
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        let sectors = self.sectors(offset, length);
        async move {
            let (lba, sectors) = sectors?;
            self.engine.read(None, lba, sectors).await
        }
        .boxed_local()
    }

    fn read_pieces(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Vec<Bytes>> {
        let sectors = self.sectors(offset, length);
        async move {
            let (lba, sectors) = sectors?;
            self.engine.read_pieces(None, lba, sectors).await
        }
        .boxed_local()
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()> {
        let sectors = self.sectors(offset, data.iter().map(|piece| piece.len() as u64).sum());
        self.change(sectors, NameKind::Data, data, durability).boxed_local()
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        async move { Ok(self.engine.flush_for_caller().await?) }.boxed_local()
    }

    fn trim(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, ()> {
        let sectors = self.sectors(offset, length);
        self.change(sectors, NameKind::Discarded, Vec::new(), Durability::Cached).boxed_local()
    }

    fn write_zeros(&self, offset: u64, length: u64, durability: Durability) -> LocalStoreFuture<'_, ()> {
        let sectors = self.sectors(offset, length);
        self.change(sectors, NameKind::Zeros, Vec::new(), durability).boxed_local()
    }

    fn mapped(&self, offset: u64, length: u64, runs_max: usize) -> LocalStoreFuture<'_, Vec<MappedRun>> {
        let runs =
            self.sectors(offset, length).and_then(|(lba, sectors)| self.engine.mapped(None, lba, sectors, runs_max));
        ready(runs).boxed_local()
    }
}
