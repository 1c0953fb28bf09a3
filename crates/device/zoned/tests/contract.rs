//! Every backend of this crate against the contract, and against a model over random histories.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_runtime::{LocalBoxFuture, Runtime, real};
use shingle_zoned::contract_suite::{Backend, check, random};
use shingle_zoned::{CreateOptions, FileDevice, Geometry, MemoryDevice, Share, ZoneRange, ZoneState, ZonedDevice};

struct Memory;

impl Backend for Memory {
    type Device = MemoryDevice;

    fn make<'a>(&'a self, geometry: &'a Geometry) -> LocalBoxFuture<'a, Option<MemoryDevice>> {
        Box::pin(async { Some(MemoryDevice::new(geometry.clone())) })
    }

    /// A snapshot goes on as the device would have.
    fn reopen(&self, device: MemoryDevice) -> LocalBoxFuture<'_, Option<MemoryDevice>> {
        Box::pin(async move { Some(device.snapshot()) })
    }

    fn reopens_exactly(&self) -> bool {
        true
    }

    fn degrade(&self, device: &MemoryDevice, zone: ZoneId, state: ZoneState) -> bool {
        device.set_state(zone, state);
        true
    }
}

/// A file in a directory of its own, which goes with it.
struct Files {
    runtime: Runtime,
    directory: PathBuf,
    made: Cell<u32>,
}

impl Files {
    fn new(runtime: &Runtime, name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("shingle-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Self { runtime: runtime.clone(), directory, made: Cell::new(0) }
    }

    fn path(&self) -> PathBuf {
        self.directory.join(format!("drive-{}", self.made.get()))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Backend for Files {
    type Device = FileDevice;

    fn make<'a>(&'a self, geometry: &'a Geometry) -> LocalBoxFuture<'a, Option<FileDevice>> {
        Box::pin(async {
            self.made.set(self.made.get() + 1);
            FileDevice::create(&self.path(), geometry, CreateOptions::default()).unwrap();
            Some(FileDevice::open(&self.path(), &self.runtime).unwrap())
        })
    }

    fn reopen(&self, device: FileDevice) -> LocalBoxFuture<'_, Option<FileDevice>> {
        Box::pin(async move {
            drop(device);
            Some(FileDevice::open(&self.path(), &self.runtime).unwrap())
        })
    }

    fn reopens_exactly(&self) -> bool {
        true
    }

    fn degrade(&self, device: &FileDevice, zone: ZoneId, state: ZoneState) -> bool {
        device.set_state(zone, state).is_ok()
    }
}

/// The last zones of a larger device of another backend, with a part of its limits.
struct Views<B>(B);

/// A view, and the device under it.
struct View<D> {
    view: ZoneRange,
    under: Rc<D>,
}

const BEFORE: u32 = 3;

impl<D: ZonedDevice> ZonedDevice for View<D> {
    fn geometry(&self) -> &Geometry {
        self.view.geometry()
    }
    fn report(&self, first: ZoneId, count: u32) -> shingle_zoned::DeviceFuture<'_, Vec<shingle_zoned::ZoneInfo>> {
        self.view.report(first, count)
    }
    fn read(
        &self,
        at: shingle_base::Lba,
        length: shingle_base::Blocks,
    ) -> shingle_zoned::DeviceFuture<'_, bytes::Bytes> {
        self.view.read(at, length)
    }
    fn write(&self, at: shingle_base::Lba, data: Vec<bytes::Bytes>) -> shingle_zoned::DeviceFuture<'_, ()> {
        self.view.write(at, data)
    }
    fn append(&self, zone: ZoneId, data: Vec<bytes::Bytes>) -> shingle_zoned::DeviceFuture<'_, shingle_base::Lba> {
        self.view.append(zone, data)
    }
    fn manage(&self, zone: ZoneId, op: shingle_zoned::ZoneOp) -> shingle_zoned::DeviceFuture<'_, ()> {
        self.view.manage(zone, op)
    }
    fn flush(&self) -> shingle_zoned::DeviceFuture<'_, ()> {
        self.view.flush()
    }
}

impl<B: Backend> Views<B>
where
    B::Device: 'static,
{
    async fn view(under: B::Device, geometry: &Geometry) -> View<B::Device> {
        let under = Rc::new(under);
        let share = Share { open_zones_max: geometry.open_zones_max, active_zones_max: geometry.active_zones_max };
        let view = ZoneRange::new(under.clone(), ZoneId(BEFORE), geometry.zone_count, share).await.unwrap();
        View { view, under }
    }
}

impl<B: Backend> Backend for Views<B>
where
    B::Device: 'static,
{
    type Device = View<B::Device>;

    fn make<'a>(&'a self, geometry: &'a Geometry) -> LocalBoxFuture<'a, Option<Self::Device>> {
        Box::pin(async {
            let whole = Geometry {
                zone_count: geometry.zone_count + BEFORE + 2,
                conventional_zones: geometry.conventional_zones + BEFORE,
                open_zones_max: geometry.open_zones_max.map(|limit| limit + 2),
                active_zones_max: geometry.active_zones_max.map(|limit| limit + 3),
                ..geometry.clone()
            };
            let under = self.0.make(&whole).await?;
            Some(Self::view(under, geometry).await)
        })
    }

    fn reopen(&self, device: Self::Device) -> LocalBoxFuture<'_, Option<Self::Device>> {
        Box::pin(async move {
            let geometry = device.view.geometry().clone();
            let View { view, under } = device;
            drop(view);
            let under = self.0.reopen(Rc::into_inner(under)?).await?;
            Some(Self::view(under, &geometry).await)
        })
    }

    fn reopens_exactly(&self) -> bool {
        self.0.reopens_exactly()
    }

    fn degrade(&self, device: &Self::Device, zone: ZoneId, state: ZoneState) -> bool {
        self.0.degrade(&device.under, ZoneId(zone.0 + BEFORE), state)
    }
}

/// Nine rule cases, an append limit and reopening; 20 commands in states, 4 writes, a close, 10 failed zones; 5 limits.
const CASES: usize = 10 + 2 + 20 + 4 + 1 + 10 + 5;

/// ZD-DEV-1.
#[test]
fn memory_keeps_the_contract() {
    real::run(|_| async {
        assert_eq!(check(&Memory).await, CASES);
    })
    .unwrap();
}

#[test]
fn files_keep_the_contract() {
    real::run(|runtime| async move {
        assert_eq!(check(&Files::new(&runtime, "contract")).await, CASES);
    })
    .unwrap();
}

#[test]
fn views_of_memory_keep_the_contract() {
    real::run(|_| async {
        assert_eq!(check(&Views(Memory)).await, CASES);
    })
    .unwrap();
}

#[test]
fn views_of_files_keep_the_contract() {
    real::run(|runtime| async move {
        assert_eq!(check(&Views(Files::new(&runtime, "view-contract"))).await, CASES);
    })
    .unwrap();
}

#[test]
fn views_of_views_keep_the_contract() {
    real::run(|_| async {
        assert_eq!(check(&Views(Views(Memory))).await, CASES);
    })
    .unwrap();
}

/// ZD-ZM-1, ZD-ZM-2, ZD-ZM-3.
#[test]
fn memory_is_as_the_model_over_random_histories() {
    real::run(|_| async {
        for seed in 1..=60 {
            random(&Memory, seed, 1000).await;
            random(&Views(Memory), seed, 500).await;
        }
    })
    .unwrap();
}

#[test]
fn files_are_as_the_model_over_random_histories() {
    real::run(|runtime| async move {
        for seed in 1..=12 {
            random(&Files::new(&runtime, "random"), seed, 400).await;
            random(&Views(Files::new(&runtime, "view-random")), seed, 200).await;
        }
    })
    .unwrap();
}
