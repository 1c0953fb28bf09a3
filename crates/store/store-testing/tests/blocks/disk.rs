//! A disk with a volatile cache in virtual time, that can be broken in many ways: the shadow must see each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::ready;
use shingle_runtime::Runtime;
use shingle_sim::Random;
use shingle_store_api::{BlockStore, Durability, LocalStoreFuture, MappedRun, StoreResult, accessed};

/// Longest time of a step of a command.
const STEP_NS: u64 = 100_000;

/// A way in which a disk breaks the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Durable writes stay in the cache.
    DurableIsCached,
    /// A flush does nothing.
    FlushDoesNothing,
    /// A flush forgets few sectors.
    FlushForgetsSome,
    /// Reads at times show the bytes before the last ones.
    ShowsOlder,
    /// A write is acknowledged before it is visible.
    AnswersEarly,
    /// Few sectors are half written.
    TearsSectors,
    /// Sectors in the cache may be half written when the power fails.
    TearsInCuts,
    /// Few writes go to the sector behind theirs.
    Misplaces,
    /// The last of overlapping writes for readers is not the last on the medium.
    OrdersTwice,
    /// A flush writes the cache back in the wrong order.
    FlushesBackwards,
    /// A trim happens after it was answered, whatever was written since.
    TrimsLate,
    /// Zeros are not written at the end of their range.
    ZerosEndEarly,
    /// Sectors with data are called unmapped at times.
    CallsDataUnmapped,
    /// Trimmed sectors have their bytes at times. The contract allows that.
    TrimsComeAndGo,
    /// Calls stop when they are dropped. No reader can tell that from slowness.
    StopsWhenDropped,
}

/// Bytes of a sector; none are zeros.
type Value = Option<Bytes>;

/// A sector in the cache.
#[derive(Clone)]
struct Cached {
    sector: u64,
    order: u64,
    value: Value,
}

/// The medium and the cache.
#[derive(Clone, Default)]
pub(crate) struct Contents {
    live: BTreeMap<u64, Bytes>,
    before: BTreeMap<u64, Value>,
    trimmed: BTreeMap<u64, Value>,
    cache: Vec<Cached>,
    /// With the order of the write.
    durable: BTreeMap<u64, (u64, Value)>,
    order: u64,
}

impl Contents {
    fn apply(&mut self, sector: u64, value: Value) -> u64 {
        self.order += 1;
        let old = match &value {
            Some(bytes) => self.live.insert(sector, bytes.clone()),
            None => self.live.remove(&sector),
        };
        self.before.insert(sector, old);
        self.trimmed.remove(&sector);
        self.cache.push(Cached { sector, order: self.order, value });
        self.order
    }

    fn commit(&mut self, cached: Cached, defect: Option<Defect>) {
        let newer = self.durable.get(&cached.sector).is_some_and(|(order, _)| *order > cached.order);
        if !newer || matches!(defect, Some(Defect::OrdersTwice | Defect::FlushesBackwards)) {
            self.durable.insert(cached.sector, (cached.order, cached.value));
        }
    }

    /// The power fails: of the sectors in the cache any subset is on the medium.
    pub(crate) fn power_cut(&mut self, random: &mut Random, defect: Option<Defect>) {
        let survives = [0.0, 0.2, 0.8, 1.0][random.below(4) as usize];
        for mut cached in std::mem::take(&mut self.cache) {
            if !random.chance(survives) {
                continue;
            }
            if defect == Some(Defect::TearsInCuts) && random.chance(0.3) {
                let old = self.durable.get(&cached.sector).and_then(|(_, value)| value.clone());
                cached.value = torn(old, cached.value);
            }
            self.commit(cached, None);
        }
        let durable = self.durable.iter();
        self.live = durable.filter_map(|(sector, (_, value))| Some((*sector, value.clone()?))).collect();
        self.before.clear();
        self.trimmed.clear();
    }
}

/// The first half of the new bytes, the second of the old.
fn torn(old: Value, new: Value) -> Value {
    let size = old.as_ref().or(new.as_ref())?.len();
    let bytes = |value: Value| value.unwrap_or_else(|| vec![0; size].into());
    Some([&bytes(new)[..size / 2], &bytes(old)[size / 2..]].concat().into())
}

/// The disk. A cheap handle.
#[derive(Clone)]
pub(crate) struct Disk(Rc<Inner>);

struct Inner {
    rt: Runtime,
    sectors: u64,
    sector_bytes: u64,
    contents: Rc<RefCell<Contents>>,
    random: RefCell<Random>,
    defect: Option<Defect>,
}

impl Disk {
    pub(crate) fn new(rt: &Runtime, size: (u64, u64), contents: Rc<RefCell<Contents>>, defect: Option<Defect>) -> Self {
        let random = RefCell::new(Random::new(rt.random()));
        let (sectors, sector_bytes) = size;
        Self(Rc::new(Inner { rt: rt.clone(), sectors, sector_bytes, contents, random, defect }))
    }

    fn has(&self, defect: Defect) -> bool {
        self.0.defect == Some(defect)
    }

    fn fails(&self, defect: Defect, share: f64) -> bool {
        self.has(defect) && self.0.random.borrow_mut().chance(share)
    }

    async fn step(&self) {
        let time = self.0.random.borrow_mut().between(0, STEP_NS);
        self.0.rt.sleep(Duration::from_nanos(time)).await;
    }

    /// Does a call as a task, so that it goes on when its future is dropped.
    fn task<T: 'static>(&self, call: impl Future<Output = StoreResult<T>> + 'static) -> LocalStoreFuture<'static, T> {
        if self.has(Defect::StopsWhenDropped) {
            return call.boxed_local();
        }
        let task = self.0.rt.spawn(call);
        async move { task.await.expect("the simulation goes on") }.boxed_local()
    }

    /// Puts sectors into the cache in two steps, and on the medium if they are to be durable.
    async fn change(self, mut values: Vec<(u64, Value)>, durable: bool) {
        self.step().await;
        if self.fails(Defect::Misplaces, 0.02) {
            values.iter_mut().for_each(|(sector, _)| *sector = (*sector + 1).min(self.0.sectors - 1));
        }
        let middle = self.0.random.borrow_mut().between(0, values.len() as u64) as usize;
        let mut orders = Vec::new();
        for half in [&values[..middle], &values[middle..]] {
            for (sector, value) in half {
                let contents = &mut *self.0.contents.borrow_mut();
                let tears = self.fails(Defect::TearsSectors, 0.002);
                let value = if tears { torn(contents.live.get(sector).cloned(), value.clone()) } else { value.clone() };
                let order = contents.apply(*sector, value.clone());
                orders.push(Cached { sector: *sector, order, value });
            }
            self.step().await;
        }
        if durable && !self.has(Defect::DurableIsCached) {
            self.step().await;
            let contents = &mut *self.0.contents.borrow_mut();
            orders.into_iter().for_each(|cached| contents.commit(cached, self.0.defect));
        }
    }

    fn values(&self, offset: u64, length: u64, data: Option<Bytes>) -> StoreResult<Vec<(u64, Value)>> {
        let range = accessed(self, offset, length)?;
        let size = self.0.sector_bytes as usize;
        let piece = |at: usize| data.as_ref().map(|data| data.slice(at * size..(at + 1) * size));
        Ok((range.start / size as u64..range.end / size as u64).zip((0..).map(piece)).collect())
    }

    fn write_values(&self, values: StoreResult<Vec<(u64, Value)>>, durable: bool) -> LocalStoreFuture<'_, ()> {
        let disk = self.clone();
        self.task(async move {
            let (values, early) = (values?, disk.fails(Defect::AnswersEarly, 0.1));
            let change = disk.clone().change(values, durable);
            if early {
                disk.0.rt.spawn_detached(change);
            } else {
                change.await;
            }
            Ok(())
        })
    }
}

impl BlockStore for Disk {
    fn size_bytes(&self) -> u64 {
        self.0.sectors * self.0.sector_bytes
    }

    fn sector_bytes(&self) -> u64 {
        self.0.sector_bytes
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        let (disk, values) = (self.clone(), self.values(offset, length, None));
        self.task(async move {
            let sectors = values?;
            let mut bytes = Vec::with_capacity(length as usize);
            let middle = disk.0.random.borrow_mut().between(0, sectors.len() as u64) as usize;
            for half in [&sectors[..middle], &sectors[middle..]] {
                disk.step().await;
                let contents = disk.0.contents.borrow();
                for (sector, _) in half {
                    let mut value = contents.live.get(sector).cloned();
                    if disk.fails(Defect::ShowsOlder, 0.02) {
                        value = contents.before.get(sector).cloned().unwrap_or(value);
                    }
                    if disk.fails(Defect::TrimsComeAndGo, 0.5) {
                        value = contents.trimmed.get(sector).cloned().unwrap_or(value);
                    }
                    bytes.extend_from_slice(&value.unwrap_or_else(|| vec![0; disk.0.sector_bytes as usize].into()));
                }
            }
            disk.step().await;
            Ok(bytes.into())
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()> {
        let data = Bytes::from(data.concat());
        let values = self.values(offset, data.len() as u64, Some(data.clone()));
        self.write_values(values, durability == Durability::Durable)
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        let disk = self.clone();
        let until = self.0.contents.borrow().order;
        self.task(async move {
            disk.step().await;
            if disk.has(Defect::FlushDoesNothing) {
                return Ok(());
            }
            let contents = &mut *disk.0.contents.borrow_mut();
            let (mut now, later): (Vec<Cached>, Vec<Cached>) =
                std::mem::take(&mut contents.cache).into_iter().partition(|one| one.order <= until);
            contents.cache = later;
            if disk.has(Defect::FlushesBackwards) {
                now.reverse();
            }
            for cached in now {
                if !disk.fails(Defect::FlushForgetsSome, 0.02) {
                    contents.commit(cached, disk.0.defect);
                }
            }
            Ok(())
        })
    }

    fn trim(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, ()> {
        let (disk, values) = (self.clone(), self.values(offset, length, None));
        self.task(async move {
            let mut values = values?;
            // Some sectors stay as they are.
            values.retain(|_| disk.0.random.borrow_mut().chance(0.8));
            let trim = {
                let disk = disk.clone();
                async move {
                    let olds: Vec<_> = {
                        let contents = disk.0.contents.borrow();
                        values.iter().map(|(sector, _)| (*sector, contents.live.get(sector).cloned())).collect()
                    };
                    if disk.has(Defect::TrimsComeAndGo) {
                        let contents = &mut *disk.0.contents.borrow_mut();
                        for (sector, old) in olds {
                            contents.apply(sector, None);
                            contents.trimmed.insert(sector, old);
                        }
                        return;
                    }
                    disk.change(values, false).await;
                }
            };
            if disk.fails(Defect::TrimsLate, 0.3) {
                disk.0.rt.spawn_detached(trim);
            } else {
                trim.await;
            }
            Ok(())
        })
    }

    fn write_zeros(&self, offset: u64, length: u64, durability: Durability) -> LocalStoreFuture<'_, ()> {
        let mut values = self.values(offset, length, None);
        if let Ok(values) = &mut values
            && self.fails(Defect::ZerosEndEarly, 0.3)
        {
            values.pop();
        }
        self.write_values(values, durability == Durability::Durable)
    }

    fn mapped(&self, offset: u64, length: u64, _runs_max: usize) -> LocalStoreFuture<'_, Vec<MappedRun>> {
        let run = self.values(offset, length, None).map(|values| {
            let contents = self.0.contents.borrow();
            let sectors = values.into_iter().map(|(sector, _)| sector);
            let mapped = sectors.into_iter().any(|sector| contents.live.contains_key(&sector));
            vec![MappedRun { offset, length, mapped: mapped && !self.fails(Defect::CallsDataUnmapped, 0.3) }]
        });
        ready(run).boxed_local()
    }
}
