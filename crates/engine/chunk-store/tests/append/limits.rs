//! Limits on open and active zones: whatever the store does, no command ever fails for them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::common::{Driver, Model};
use bytes::Bytes;
use shingle_base::{Blocks, Lba, StoreId, ZoneId};
use shingle_chunk_store::{ChunkStore, FormatOptions, Landing, Options, Placement, PoolSizes};
use shingle_sim::{CommandKind, Fault, FaultRule, Faults, Random, Sim, SimDevice, Trigger, seeds};
use shingle_zoned::{DeviceError, DeviceFuture, Geometry, MemoryDevice, Violation, ZoneInfo, ZoneOp, ZonedDevice};

/// A device that counts commands which fail for a limit.
#[derive(Clone)]
struct Counting {
    inner: SimDevice,
    refused: Rc<Cell<u32>>,
}

impl Counting {
    fn count<T>(&self, result: Result<T, DeviceError>) -> Result<T, DeviceError> {
        if let Err(error) = &result
            && matches!(error.violation(), Some(Violation::TooManyOpen { .. } | Violation::TooManyActive { .. }))
        {
            self.refused.set(self.refused.get() + 1);
        }
        result
    }
}

impl ZonedDevice for Counting {
    fn geometry(&self) -> &Geometry {
        self.inner.geometry()
    }

    fn report(&self, first: ZoneId, count: u32) -> DeviceFuture<'_, Vec<ZoneInfo>> {
        self.inner.report(first, count)
    }

    fn read(&self, at: Lba, length: Blocks) -> DeviceFuture<'_, Bytes> {
        self.inner.read(at, length)
    }

    fn write(&self, at: Lba, data: Vec<Bytes>) -> DeviceFuture<'_, ()> {
        Box::pin(async move { self.count(self.inner.write(at, data).await) })
    }

    fn append(&self, zone: ZoneId, data: Vec<Bytes>) -> DeviceFuture<'_, Lba> {
        Box::pin(async move { self.count(self.inner.append(zone, data).await) })
    }

    fn manage(&self, zone: ZoneId, op: ZoneOp) -> DeviceFuture<'_, ()> {
        Box::pin(async move { self.count(self.inner.manage(zone, op).await) })
    }

    fn flush(&self) -> DeviceFuture<'_, ()> {
        self.inner.flush()
    }
}

/// End of a life of the store.
#[derive(Clone, Copy)]
enum End {
    Orderly,
    PowerCut,
    /// Zones that the drive has open stay open.
    Killed,
}

fn options(random: &mut Random, landing: bool) -> Options {
    let landing = landing.then(|| Landing {
        append_max: 9000,
        budget: 30_000,
        zones: 1 + random.below(4) as u32,
        idle: Duration::from_millis(5),
        everywhere: true,
    });
    Options {
        placement: Placement { separate_streams: random.chance(0.7), ..Placement::default() },
        pools: if random.chance(0.5) { PoolSizes::default() } else { PoolSizes { gc: 2, data: 2, meta: 1 } },
        small_chunk: Blocks(24),
        record_max: 32 << 10,
        batch_max: 64 << 10,
        gc_start: 0.4,
        gc_idle_after: Some(Duration::from_millis(1)),
        checkpoint_every: Duration::from_millis(20),
        landing,
        ..Options::default()
    }
}

/// A few lives of a store on a drive with those limits, on which of commands that open, close and finish the share
/// `failing` fails. Returns how many zones GC emptied.
fn lives(seed: u64, open: Option<u32>, active: Option<u32>, landing: bool, failing: f64) -> u64 {
    let context = format!("seed {seed}, open {open:?}, active {active:?}, landing {landing}, failing {failing}");
    let geometry =
        Geometry { open_zones_max: open, active_zones_max: active, ..Geometry::zns(Blocks(64), Blocks(60), 44, 0, 0) };
    let mut random = Random::new(seed);
    let mut medium = MemoryDevice::new(geometry);
    let refused = Rc::new(Cell::new(0));
    let mut model = Model::default();
    let mut emptied = 0;
    for life in 0..6 {
        let options = options(&mut random, landing);
        let end = [End::Orderly, End::PowerCut, End::Killed][random.below(3) as usize];
        let (refused, context) = (refused.clone(), context.clone());
        (medium, model, random, emptied) = Sim::new(seed * 100 + life).run(move |rt| async move {
            let device = SimDevice::new(&rt, &medium);
            let counting = Rc::new(Counting { inner: device.clone(), refused });
            if life % 3 == 0 {
                // Over what the store before left open.
                let format = FormatOptions { store: Some(StoreId(life)), force: true, ..FormatOptions::default() };
                ChunkStore::format(&rt, counting.clone(), &format).await.unwrap();
                model = Model::default();
            }
            let (store, report) = ChunkStore::open(&rt, counting, options).await.unwrap();
            assert_eq!(report.damage, [], "{context}");
            model.settle(&store, &context).await;
            let trigger = Trigger::Rate(CommandKind::Manage, failing);
            device.set_faults(Faults::new([FaultRule { trigger, fault: Fault::CommandError }]));
            let (model, random) = (Rc::new(RefCell::new(model)), Rc::new(RefCell::new(random)));
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    let (model, random) = (model.clone(), random.clone());
                    let driver =
                        Driver { rt: rt.clone(), store: store.clone(), model, random, ids: 40, faults: failing > 0.0 };
                    rt.spawn(async move { driver.run(70).await })
                })
                .collect();
            if matches!(end, End::Orderly) {
                for task in tasks {
                    task.await.unwrap();
                }
                store.close().await.unwrap();
            } else {
                rt.sleep(Duration::from_millis(60)).await;
            }
            let medium = match end {
                End::PowerCut => device.crash_image(seed),
                End::Orderly | End::Killed => device.image(),
            };
            let (model, random) = (model.borrow().clone(), random.borrow().clone());
            (medium, model, random, emptied + store.counters().gc_zones)
        });
    }
    assert_eq!(refused.get(), 0, "{context}: CS-LEASE-1");
    emptied
}

/// CS-LEASE-1 and CS-LEASE-2, from the smallest drive that `format` accepts.
#[test]
fn no_command_fails_for_a_limit_on_open_or_active_zones() {
    let mut emptied = 0;
    for seed in seeds(1) {
        for limit in 7..=20 {
            for (open, active) in
                [(Some(limit), None), (None, Some(limit)), (Some(limit), Some(limit)), (Some(limit), Some(limit + 3))]
            {
                for landing in [false, true] {
                    emptied += lives(seed + u64::from(limit), open, active, landing, 0.0);
                }
            }
        }
    }
    assert!(emptied > 100, "GC emptied only {emptied} zones");
}

/// CS-LEASE-2: what the drive does not give up goes on counting, and is tried again.
#[test]
fn limits_are_held_where_zones_cannot_be_given_up() {
    let mut emptied = 0;
    for seed in seeds(2) {
        for limit in 7..=12 {
            for landing in [false, true] {
                emptied += lives(seed + u64::from(limit), Some(limit), None, landing, 0.2);
            }
        }
    }
    assert!(emptied > 10, "GC emptied only {emptied} zones");
}

#[test]
fn a_drive_with_fewer_open_zones_is_refused() {
    for (open, active) in [(Some(6), None), (None, Some(6)), (Some(6), Some(20))] {
        let geometry =
            Geometry { open_zones_max: open, active_zones_max: active, ..Geometry::hm_smr(Blocks(64), 40, 0, 9) };
        Sim::new(1).run(move |rt| async move {
            let device = Rc::new(SimDevice::new(&rt, &MemoryDevice::new(geometry)));
            let error = ChunkStore::format(&rt, device, &FormatOptions::default()).await.unwrap_err();
            assert!(error.to_string().contains("too few open or active zones"), "{error}");
        });
    }
}
