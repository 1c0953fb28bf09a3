//! The store as a whole.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::StoreId;
use shingle_runtime::Runtime;
use shingle_zone_kit::Status;
use shingle_zoned::ZonedDevice;

use crate::check::{Damage, ZoneDump};
use crate::engine::Engine;
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::format::key;
use crate::hints::Hints;
use crate::ids::{CollectionId, CollectionInfo, ObjectId};
use crate::kv::Order;
use crate::open::{self, OpenReport};
use crate::options::{FormatOptions, Options};
use crate::repair::Repaired;
use crate::sequence::Collection;
use crate::state::RESERVE;
use crate::stats::BlueStats;
use crate::transaction::Transaction;
use crate::txn::Shards;

/// An object, as [`Store::stat`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Bytes.
    pub size: u64,
    /// Hints for what is written.
    pub hints: Hints,
    /// Attributes by name.
    pub attributes: Vec<(Vec<u8>, Bytes)>,
}

/// An object backend on a zoned drive. A cheap handle; stays on the thread of its runtime. (Dissertation, sections 4.4 and 5.7.)
#[derive(Clone)]
pub struct Store {
    engine: Rc<Engine>,
}

impl Store {
    /// Makes an empty store on a drive. Durable when it returns.
    ///
    /// # Errors
    /// `Invalid` if the drive is too small, or holds a store or data and `force` is not given; `Device`.
    pub async fn format(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: FormatOptions) -> BlueResult<StoreId> {
        open::format(rt, dev, options).await
    }

    /// Opens the store on a drive, and starts its background work.
    ///
    /// # Errors
    /// `Invalid` if the drive holds no store, or one of another version; `Corrupt` if metadata are damaged; `Device`, `Unavailable`.
    pub async fn open(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: Options) -> BlueResult<(Self, OpenReport)> {
        let (engine, report) = open::open(rt, dev, options, false).await?;
        rt.spawn_detached(engine.clone().keep());
        Ok((Self { engine }, report))
    }

    /// Opens the store for reading alone: changes are refused, and nothing is written to the drive.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn examine(rt: &Runtime, dev: Rc<dyn ZonedDevice>, options: Options) -> BlueResult<(Self, OpenReport)> {
        let (engine, report) = open::open(rt, dev, options, true).await?;
        Ok((Self { engine }, report))
    }

    /// Identity of the store on a drive, from its superblock alone.
    ///
    /// # Errors
    /// `Invalid` if the drive holds no store, or one of another version; `Corrupt`, `Device`.
    pub async fn identify(dev: &Rc<dyn ZonedDevice>) -> BlueResult<StoreId> {
        open::identify(dev).await
    }

    /// The store's identity.
    pub fn id(&self) -> StoreId {
        self.engine.drive.store
    }

    /// Zones of the drive that hold data; those before hold superblock and metadata.
    pub fn data_zones(&self) -> Range<u32> {
        self.engine.drive.layout.data_zones.clone()
    }

    /// Collections, in order.
    pub fn collections(&self) -> Vec<CollectionInfo> {
        self.engine.state.borrow().collections.values().map(|one| one.info.get()).collect()
    }

    /// Makes an empty collection, durably. It goes on if the future is dropped, and so do the next three calls (BLU-DROP-1).
    ///
    /// # Errors
    /// `Exists` if another one has objects of its hashes, `Invalid`, `NoSpace`.
    pub async fn create_collection(&self, info: CollectionInfo) -> BlueResult<()> {
        let engine = self.engine.clone();
        self.engine.to_its_end(async move { engine.create_collection(info).await }).await
    }

    /// Removes an empty collection, durably.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` if it has objects.
    pub async fn remove_collection(&self, id: CollectionId) -> BlueResult<()> {
        let engine = self.engine.clone();
        self.engine.to_its_end(async move { engine.remove_collection(id).await }).await
    }

    /// Splits a collection by more bits of the hash, durably and without moving an object: it keeps those whose further bits are zero, and
    /// for each other value of them there is a new collection. Returns all of them. (Section 4.4.1.)
    ///
    /// # Errors
    /// `NotFound`; `Invalid` for fewer bits than it has, or too many.
    pub async fn split(&self, id: CollectionId, bits: u8) -> BlueResult<Vec<CollectionInfo>> {
        let engine = self.engine.clone();
        self.engine.to_its_end(async move { engine.split(id, bits).await }).await
    }

    /// Merges all collections whose hashes end with the lowest `bits` bits of `id` into one, durably and without moving an object.
    ///
    /// # Errors
    /// `NotFound` if there is no such collection; `Invalid` for more bits than it has.
    pub async fn merge(&self, id: CollectionId, bits: u8) -> BlueResult<CollectionInfo> {
        let engine = self.engine.clone();
        self.engine.to_its_end(async move { engine.merge(id, bits).await }).await
    }

    fn of(&self, id: CollectionId) -> BlueResult<Rc<Collection>> {
        let found = self.engine.state.borrow().collections.get(&id).cloned();
        found.ok_or_else(|| BlueError::new(BlueErrorKind::NotFound, format!("there is no collection {id}")))
    }

    /// Has a transaction happen as a whole. It takes its place behind those of its collection that were submitted before, in the step of
    /// the call, also if the future is dropped; one that [may pass](Transaction::may_pass) does not wait for room for others. Durable when
    /// the future completes; other calls may see its effects before.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `NoSpace`, `Invalid`: nothing of it has happened. `ReadOnly`. `Unavailable`: the store has stopped, and after
    /// the next opening all of it has happened, or nothing.
    pub fn submit(&self, id: CollectionId, transaction: Transaction) -> impl Future<Output = BlueResult<()>> + use<> {
        let taken = self.engine.writable().and_then(|()| self.of(id));
        let running = taken.map(|collection| self.engine.run(&collection, transaction));
        async move { running?.await }
    }

    /// Reads `length` bytes of an object at `offset`; fewer at its end.
    ///
    /// # Errors
    /// `NotFound`; `Corrupt` if bytes are damaged; `Device`.
    pub async fn read(&self, id: &ObjectId, offset: u64, length: u64) -> BlueResult<Bytes> {
        self.engine.read(id, offset, length).await
    }

    /// Ranges of an object that were written, in order and joined; the others are zeros.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`, `Device`.
    pub async fn read_extents(&self, id: &ObjectId) -> BlueResult<Vec<Range<u64>>> {
        let object = self.engine.object(id, Shards::All).await?;
        let state = object.state.borrow();
        if state.head.is_none() {
            return Err(missing(id));
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for extent in state.shards.values().flat_map(|slot| slot.extents.iter()) {
            let (start, end) = (u64::from(extent.at), u64::from(extent.end()));
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        Ok(ranges)
    }

    /// An object's size, hints and attributes.
    ///
    /// # Errors
    /// `NotFound`, `Corrupt`, `Device`.
    pub async fn stat(&self, id: &ObjectId) -> BlueResult<ObjectInfo> {
        let object = self.engine.object(id, Shards::Some(0..0)).await?;
        let state = object.state.borrow();
        let head = state.head.as_ref().ok_or_else(|| missing(id))?;
        let attributes = head.attributes.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(ObjectInfo { size: u64::from(head.size), hints: head.hints, attributes })
    }

    /// An attribute; `None` if the object has none of that name.
    ///
    /// # Errors
    /// `NotFound` without the object; `Corrupt`, `Device`.
    pub async fn attribute(&self, id: &ObjectId, name: &[u8]) -> BlueResult<Option<Bytes>> {
        let object = self.engine.object(id, Shards::Some(0..0)).await?;
        let state = object.state.borrow();
        Ok(state.head.as_ref().ok_or_else(|| missing(id))?.attributes.get(name).cloned())
    }

    /// A value of an object's omap; `None` if it has no such key.
    ///
    /// # Errors
    /// `NotFound` without the object; `Corrupt`, `Device`.
    pub async fn omap_get(&self, id: &ObjectId, name: &[u8]) -> BlueResult<Option<Bytes>> {
        let number = self.number_of(id).await?;
        Ok(self.engine.kv.get(&key::omap(number, name)).await?)
    }

    /// Keys of an object's omap from `from` on, with their values: up to `limit` of them, fewer only at the end.
    ///
    /// # Errors
    /// `NotFound` without the object; `Corrupt`, `Device`.
    pub async fn omap_list(&self, id: &ObjectId, from: &[u8], limit: usize) -> BlueResult<Vec<(Vec<u8>, Bytes)>> {
        let number = self.number_of(id).await?;
        let range = key::omap(number, from).into()..key::omap_of(number).1.into();
        let pairs = self.engine.kv.scan(range, Order::Forward, limit).await?;
        let name = |(key, value): (Bytes, Bytes)| Some((key::parse_omap(&key)?.1.to_vec(), value));
        Ok(pairs.into_iter().filter_map(name).collect())
    }

    async fn number_of(&self, id: &ObjectId) -> BlueResult<u64> {
        let object = self.engine.object(id, Shards::Some(0..0)).await?;
        let state = object.state.borrow();
        state.head.as_ref().map(|head| head.number).ok_or_else(|| missing(id))
    }

    /// Objects of a collection in order of hashes, with their bits reversed, from `from` on: up to `limit` of them, fewer only at the end.
    /// Sees transactions that have completed.
    ///
    /// # Errors
    /// `NotFound` without the collection; `Corrupt`, `Device`.
    pub async fn list(&self, id: CollectionId, from: Option<&ObjectId>, limit: usize) -> BlueResult<Vec<ObjectId>> {
        let (first, end) = key::objects_of(&self.of(id)?.info.get());
        let first = from.map_or(first.clone(), |from| key::object(from).max(first));
        let pairs = self.engine.kv.scan(first.into()..end.into(), Order::Forward, limit).await?;
        let id = |key: &Bytes| key::parse_object(key).ok_or_else(|| BlueError::senseless("key of an object"));
        pairs.iter().map(|(key, _)| id(key)).collect()
    }

    /// Writes deferred bytes to zones now. They were durable before. It goes on if the future is dropped.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`, `Unavailable`.
    pub async fn flush_deferred(&self) -> BlueResult<()> {
        self.engine.writable()?;
        let engine = self.engine.clone();
        self.engine.to_its_end(async move { engine.flush_deferred().await }).await
    }

    /// Holds the metadata against each other; with `deep`, also reads all data, which alone shows damage of the drive. Transactions wait while the
    /// metadata are checked.
    ///
    /// # Errors
    /// `Corrupt` or `Device` if metadata cannot be read at all.
    pub async fn check(&self, deep: bool) -> BlueResult<Vec<Damage>> {
        self.check_with(deep, |_, _| ()).await
    }

    /// The same, and tells how many bytes of data were read, and of how many.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub async fn check_with(&self, deep: bool, progress: impl FnMut(u64, u64)) -> BlueResult<Vec<Damage>> {
        self.engine.check(deep, progress).await
    }

    /// Takes away all objects whose metadata are damaged, with the blocks that belonged to them, and makes counts and lists of the metadata
    /// those of all others; then closes the store. `may_go` says whether an object may be lost.
    ///
    /// # Errors
    /// `Corrupt` if the metadata cannot be read at all, or an object that is damaged may not go; `Device`: nothing has changed.
    /// `Unavailable`, `ReadOnly`.
    pub async fn repair(self, may_go: impl Fn(&ObjectId) -> bool) -> BlueResult<Repaired> {
        self.engine.repair(may_go).await
    }

    /// Data zones, in order.
    pub fn dump(&self) -> Vec<ZoneDump> {
        self.engine.dump()
    }

    /// All keys of the metadata and their values, from `from` on, in words: up to `limit` lines.
    ///
    /// # Errors
    /// `Corrupt`, `Device`.
    pub async fn dump_metadata(&self, from: &[u8], limit: usize) -> BlueResult<Vec<(Bytes, String)>> {
        self.engine.dump_metadata(from, limit).await
    }

    /// The store in numbers.
    pub fn stats(&self) -> BlueStats {
        let state = self.engine.state.borrow();
        let zone_blocks = self.engine.drive.layout.zone_blocks;
        let bytes = |blocks: u64| blocks * shingle_base::BLOCK_SIZE as u64;
        let zones = || state.zones.iter().map(|(_, zone)| zone);
        let stale =
            zones().filter(|zone| zone.is_used()).map(|zone| u64::from(zone.next).saturating_sub(zone.live)).sum();
        BlueStats {
            counters: state.counters,
            collections: state.collections.len() as u64,
            capacity_bytes: bytes(zones().count() as u64 * u64::from(zone_blocks)),
            reserved_bytes: bytes(u64::from(RESERVE) * u64::from(zone_blocks)),
            live_bytes: bytes(state.zones.live()),
            stale_bytes: bytes(stale),
            deferred_bytes: state.deferred_bytes,
            room_bytes: bytes(state.room(zone_blocks)),
            metadata_room_bytes: self.engine.kv.room(),
            zones: zones().count() as u32,
            zones_free: state.zones.free(),
            zones_broken: zones().filter(|zone| zone.broken || zone.status == Status::Dead).count() as u32,
            data_hits: state.data.hits,
            data_misses: state.data.misses,
            object_hits: state.objects.hits,
            object_misses: state.objects.misses,
            cache_bytes: state.data.weight() + state.objects.weight(),
        }
    }

    /// Takes no more transactions, has deferred bytes written to zones, and makes all durable. It goes on if the future is dropped; a second
    /// call waits for the same end.
    ///
    /// # Errors
    /// `Unavailable` if the store has stopped; `Device` or `Corrupt` if deferred bytes could not be gathered, or the metadata not be closed. No
    /// completed transaction is lost.
    pub async fn close(self) -> BlueResult<()> {
        self.engine.close().await
    }
}

fn missing(id: &ObjectId) -> BlueError {
    BlueError::new(BlueErrorKind::NotFound, format!("there is no object {id}"))
}
