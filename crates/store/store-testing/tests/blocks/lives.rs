//! A raw drive of conventional zones as a block store, through chains of lives: the way in which engines' crash tests use histories.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::FutureExt;
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, Lba};
use shingle_runtime::Runtime;
use shingle_sim::lives::{End, Harm, Life};
use shingle_sim::{Medium, Random, Sim, SimDevice, Survival, seeds};
use shingle_store_api::{BlockStore, Durability, LocalStoreFuture, StoreError, StoreErrorKind, StoreResult, accessed};
use shingle_store_testing::blocks::{BlockDriver, BlockShadow, Met, Mix, Verdict};
use shingle_zoned::{DeviceError, Geometry, MemoryDevice, ZonedDevice};

const BLOCK: u64 = BLOCK_SIZE as u64;

const ZONE: u64 = 128;

const ZONES: u32 = 8;

/// The drive. A command is of one zone.
#[derive(Clone)]
struct Raw {
    rt: Runtime,
    device: SimDevice,
    /// Durable writes stay in the drive's cache.
    broken: bool,
}

fn failed(error: DeviceError) -> StoreError {
    StoreError::caused(StoreErrorKind::Device, "the drive failed", error)
}

impl Raw {
    /// Flushes the cache of a process that was killed, so that nothing that is read is lost later.
    async fn open(rt: &Runtime, device: &SimDevice, broken: bool) -> StoreResult<Rc<Self>> {
        device.flush().await.map_err(failed)?;
        Ok(Rc::new(Self { rt: rt.clone(), device: device.clone(), broken }))
    }

    /// Blocks of an access, zone by zone.
    fn parts(&self, offset: u64, length: u64) -> StoreResult<Vec<(Lba, Blocks)>> {
        let range = accessed(self, offset, length)?;
        let (mut at, end) = (range.start / BLOCK, range.end / BLOCK);
        let mut parts = Vec::new();
        while at < end {
            let length = (ZONE - at % ZONE).min(end - at);
            parts.push((Lba(at), Blocks(length)));
            at += length;
        }
        Ok(parts)
    }

    fn task<T: 'static>(&self, call: impl Future<Output = StoreResult<T>> + 'static) -> LocalStoreFuture<'static, T> {
        let task = self.rt.spawn(call);
        async move { task.await.expect("the simulation goes on") }.boxed_local()
    }
}

impl BlockStore for Raw {
    fn size_bytes(&self) -> u64 {
        u64::from(ZONES) * ZONE * BLOCK
    }

    fn sector_bytes(&self) -> u64 {
        BLOCK
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        let (raw, parts) = (self.clone(), self.parts(offset, length));
        self.task(async move {
            let mut bytes = Vec::new();
            for (at, length) in parts? {
                bytes.push(raw.device.read(at, length).await.map_err(failed)?);
            }
            Ok(bytes.concat().into())
        })
    }

    fn write(&self, offset: u64, data: Vec<Bytes>, durability: Durability) -> LocalStoreFuture<'_, ()> {
        let (raw, mut data) = (self.clone(), Bytes::from(data.concat()));
        let parts = self.parts(offset, data.len() as u64);
        self.task(async move {
            for (at, length) in parts? {
                let mut aligned = AlignedBuf::zeroed(length);
                aligned.copy_from_slice(&data.split_to(length.0 as usize * BLOCK_SIZE));
                raw.device.write(at, vec![aligned.freeze()]).await.map_err(failed)?;
            }
            match durability {
                Durability::Durable if !raw.broken => raw.device.flush().await.map_err(failed),
                _ => Ok(()),
            }
        })
    }

    fn flush(&self) -> LocalStoreFuture<'_, ()> {
        async { self.device.flush().await.map_err(failed) }.boxed_local()
    }

    fn trim(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, ()> {
        std::future::ready(accessed(self, offset, length).map(drop)).boxed_local()
    }
}

/// One life. The drive writes blocks as wholes: a torn block is none of the contract's.
fn life_of(random: &mut Random) -> Life {
    let life = Life::draw_up_to(Harm::Passing, random, &(0..ZONES), ZONES, 500);
    let end = if life.end == End::Kill { End::Kill } else { End::PowerCut(Survival::AnySubset) };
    Life { end, ..life }
}

fn chain(seed: u64, broken: bool) -> Result<Vec<Met>, String> {
    let mut random = Random::new(seed);
    let geometry = Geometry { volatile_cache: true, ..Geometry::hm_smr(Blocks(ZONE), ZONES, ZONES, 4) };
    let shadow = BlockShadow::new(u64::from(ZONES) * ZONE, BLOCK);
    let mut medium = Medium::from(&MemoryDevice::new(geometry));
    let mut met = Vec::new();
    for number in 0..6 {
        let (life, mix) = (life_of(&mut random), Mix { zeros: 0, ..Mix::draw(&mut random) });
        let (given, seen, drawn) = (life.clone(), shadow.clone(), Random::new(random.number()));
        let lived = Sim::new(seed * 100 + number).run(move |rt| async move {
            let device = given.begin(&rt, medium);
            let over = || device.is_gone();
            let judge = |error: &StoreError| match error.kind {
                _ if over() => Verdict::Over,
                // A raw drive hides no failure.
                StoreErrorKind::Device => Verdict::Explained,
                _ => Verdict::Wrong,
            };
            let mut met = Met::default();
            match Raw::open(&rt, &device, broken).await {
                Ok(store) => {
                    seen.verify_but(&*store, judge).await?;
                    let mut driver = BlockDriver { rt, store, shadow: seen, random: drawn, mix };
                    met = driver.run(400, judge).await?;
                }
                Err(error) if over() => drop(error),
                Err(error) => return Err(format!("the drive does not open: {error}")),
            }
            Ok((given.end(&device, seed * 31 + number), met))
        });
        let lived = lived.map_err(|broken| format!("life {number}, {:?}: {broken}", life.end))?;
        medium = lived.0;
        met.push(lived.1);
        shadow.cut();
    }
    Ok(met)
}

#[test]
fn a_raw_drive_keeps_the_contract_through_chains_of_lives() {
    let (mut done, mut over) = (0, 0);
    for seed in seeds(30) {
        let met = chain(seed, false).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        done += met.iter().map(|life| life.done).sum::<u64>();
        over += met.iter().filter(|life| life.over).count();
    }
    let one = std::env::var_os("SHINGLE_SEED").is_some();
    assert!(one || done > 10_000 && over > 60, "{done} calls, {over} lives that the power ended");
}

#[test]
fn durable_writes_that_stay_in_the_cache_are_found() {
    assert!((1..=20).any(|seed| chain(seed, true).is_err()));
}
