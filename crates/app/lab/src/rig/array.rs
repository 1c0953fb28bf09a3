//! Arrays of modelled drives, as SMORE's authors had them: six Ha10, five data fragments and one of parity, and only
//! every n-th zone. (SMORE, section V-A.)

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use shingle_array_store::{
    ArrayDrive, ArrayStore, BufferFiles, Error, FormatOptions, IndexPlace, Options, RecoveryReport,
};
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks, ZoneId};
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{Runtimes, Sim, SimDevice};
use shingle_zoned::{DeviceError, MemoryDevice, ZonedDevice};

use crate::context::Context;
use crate::error::LabError;
use crate::rig::drives::LabDrive;
use crate::rig::host::{Host, HostDevice};

/// The drive of SMORE's evaluation.
const PAPER_DRIVE: &str = "ha10";

/// Drives, all of one kind.
pub const DRIVES: usize = 6;

/// Data fragments.
pub const DATA: u8 = 5;

/// Fewest sets of an experiment: the sets that cleaning and snapshots keep free must not be most of them.
const SETS_MIN: u32 = 24;

/// Time of a command in phases whose time does not count. Not zero: a run that takes no time at all looks like one that
/// never ends.
const LITTLE: Duration = Duration::from_micros(1);

/// The mean rate at which one of its drives writes, in MB/s. (SMORE, section V-A.)
pub const PAPER_DRIVE_WRITE: f64 = 55.0;

/// The paper's read limit, in MB/s: five drives at their mean rate. (SMORE, Figure 5.)
pub const PAPER_READ_LIMIT: f64 = 590.0;

/// Parameters of an array.
#[derive(Clone, Debug)]
pub struct LabArray {
    /// Each of its drives.
    pub drive: LabDrive,
    /// Number of drives.
    pub drives: usize,
    /// Bytes of a full segment.
    pub segment_length: u32,
    /// Data and parity fragments.
    pub code: Code,
}

/// A running array, and its drives.
pub struct Rig {
    /// The array.
    pub store: ArrayStore,
    /// Its drives, in order.
    pub devices: Vec<Rc<SimDevice>>,
    /// Its parameters.
    pub array: LabArray,
}

pub(crate) fn lab_error(error: Error) -> LabError {
    LabError(error.to_string())
}

impl LabArray {
    /// Every `every`th zone of the paper's drives, or of the user's own in their place.
    ///
    /// # Errors
    /// The user's drive cannot carry the load.
    pub fn new(context: &Context, every: u32) -> Result<Self, LabError> {
        let drive = match &context.drive {
            Some(profile) => context.used(profile.clone()),
            None => context.profile(PAPER_DRIVE)?,
        };
        let drive = LabDrive::of(drive);
        context.on_host(Host::linux_6_10());
        let array = Self { drive: drive.every(every), drives: DRIVES, segment_length: 20 << 20, code: Self::code() };
        let name = &array.drive.profile.name;
        if !array.drive.profile.kind.is_zoned() {
            return Err(LabError(format!("the drive `{name}` has no zones, and an array is made of zones")));
        }
        if array.sets() < SETS_MIN {
            let zones = array.drive.geometry().zone_count;
            let why = format!("with one zone in {every} it has {zones} zones, and {SETS_MIN} sets are needed");
            return Err(LabError(format!("the drive `{name}` is too small for this experiment: {why}")));
        }
        Ok(array)
    }

    /// Bytes of objects and their markers that a set has room for.
    pub fn set_bytes(&self) -> u64 {
        self.drive.geometry().zone_capacity.bytes() * self.code.data() as u64
    }

    /// Its zone sets: two zones of each drive are for superblocks.
    pub fn sets(&self) -> u32 {
        let geometry = self.drive.geometry();
        let zones = geometry.zone_count.saturating_sub(geometry.conventional_zones + 2);
        (zones as usize * self.drives / self.code.width()) as u32
    }

    /// Sets of the same array with all its zones: the paper's 50 TB.
    pub fn sets_of_whole(&self) -> u32 {
        Self { drive: self.drive.clone().every(1), ..self.clone() }.sets()
    }

    /// The code of the paper's array.
    ///
    /// # Panics
    /// Never: the numbers are a code's.
    pub fn code() -> Code {
        let Ok(code) = Code::new(DATA, (DRIVES - DATA as usize) as u8) else { panic!("5+1 is a code") };
        code
    }

    /// Fresh drives, which keep all that an array must be able to read again.
    pub fn media(&self) -> Vec<MemoryDevice> {
        (0..self.drives).map(|_| self.medium()).collect()
    }

    fn medium(&self) -> MemoryDevice {
        MemoryDevice::metadata_only(self.drive.geometry(), shingle_record::keep_unless_hollow)
    }

    /// One more fresh drive, with its modelled times.
    pub fn another(&self, rt: &Runtime) -> ArrayDrive {
        let device = SimDevice::without_power_cuts(rt, self.medium());
        device.set_drive(self.drive.model(self.drives as u64));
        let name = format!("{} more", self.drive.profile.name);
        ArrayDrive { name, dev: HostDevice::new(Host::linux_6_10(), Rc::new(device)) }
    }

    /// Makes an array on fresh drives, which take no time until [`Rig::keep_time`].
    ///
    /// # Errors
    /// The array's error.
    pub async fn format(&self, rt: &Runtime, options: Options) -> Result<Rig, LabError> {
        self.format_with_buffer(rt, options, None).await
    }

    /// The same with a buffer for small objects.
    ///
    /// # Errors
    /// The array's error.
    pub async fn format_with_buffer(
        &self,
        rt: &Runtime,
        options: Options,
        buffer: Option<BufferFiles>,
    ) -> Result<Rig, LabError> {
        self.format_on(&rt.into(), options, buffer).await
    }

    /// The same by a program whose work may take time.
    ///
    /// # Errors
    /// The array's error.
    pub async fn format_on(
        &self,
        runtimes: &Runtimes,
        options: Options,
        buffer: Option<BufferFiles>,
    ) -> Result<Rig, LabError> {
        let (devices, drives) = self.power_on(runtimes, self.media());
        let rt = &runtimes.program;
        let format = FormatOptions { segment_length: self.segment_length, ..FormatOptions::new(self.code) };
        shingle_array_store::format(rt, &drives, &format).await.map_err(lab_error)?;
        let opened = ArrayStore::open_with_buffer(rt, &drives, &IndexPlace::Memory, options, buffer).await;
        Ok(Rig { store: opened.map_err(lab_error)?.0, devices, array: self.clone() })
    }

    /// Opens an array on these media, with the drives' modelled times. Returns the time it took, too.
    ///
    /// # Errors
    /// The array's error.
    pub async fn open(
        &self,
        rt: &Runtime,
        media: Vec<MemoryDevice>,
        options: Options,
    ) -> Result<(Rig, RecoveryReport, Duration), LabError> {
        self.open_on(&rt.into(), media, options).await
    }

    /// The same by a program whose work may take time.
    ///
    /// # Errors
    /// The array's error.
    pub async fn open_on(
        &self,
        runtimes: &Runtimes,
        media: Vec<MemoryDevice>,
        options: Options,
    ) -> Result<(Rig, RecoveryReport, Duration), LabError> {
        let (devices, drives) = self.power_on(runtimes, media);
        let rt = &runtimes.program;
        keep_time(&self.drive, &devices);
        let began = rt.now();
        let (store, report) = ArrayStore::open(rt, &drives, &IndexPlace::Memory, options).await.map_err(lab_error)?;
        Ok((Rig { store, devices, array: self.clone() }, report, rt.now().since(began)))
    }

    fn power_on(&self, runtimes: &Runtimes, media: Vec<MemoryDevice>) -> (Vec<Rc<SimDevice>>, Vec<ArrayDrive>) {
        let devices: Vec<Rc<SimDevice>> = media
            .into_iter()
            .map(|medium| Rc::new(SimDevice::without_power_cuts(&runtimes.hardware, medium)))
            .collect();
        devices.iter().for_each(|device| device.set_latency(LITTLE));
        let drive = |(number, device): (usize, &Rc<SimDevice>)| ArrayDrive {
            name: format!("{} {number}", self.drive.profile.name),
            dev: HostDevice::of_program(runtimes, Host::linux_6_10(), device.clone()),
        };
        let drives = devices.iter().enumerate().map(drive).collect();
        (devices, drives)
    }

    /// Bytes a second that `drives` of its drives write, or read, of the zones of the first `sets` sets, one after the
    /// other from end to end: the limit of any array on them.
    pub fn limit(&self, seed: u64, sets: u32, drives: f64, write: bool) -> f64 {
        let geometry = self.drive.geometry();
        let first = geometry.conventional_zones + 2;
        let zones = (first..geometry.zone_count.min(first + sets)).map(ZoneId).collect();
        self.limit_over(seed, zones, write) * drives
    }

    /// The same of one drive, over these zones.
    pub fn limit_over(&self, seed: u64, zones: Vec<ZoneId>, write: bool) -> f64 {
        let array = self.clone();
        Sim::new(seed).run(move |rt| async move {
            let device = array.drive.device(&rt, array.drive.blank());
            sequential(&rt, &device, zones.into(), write).await
        })
    }
}

/// Gives drives of a batch their modelled times.
fn keep_time(drive: &LabDrive, devices: &[Rc<SimDevice>]) {
    (0..).zip(devices).for_each(|(number, device)| device.set_drive(drive.model(number)));
}

/// Bytes a second of one drive, in commands of 1 MiB, sixteen at a time.
async fn sequential(rt: &Runtime, device: &Rc<SimDevice>, zones: Rc<[ZoneId]>, write: bool) -> f64 {
    const COMMAND: Blocks = Blocks(256);
    let geometry = device.geometry();
    let of_zone = geometry.zone_capacity.0 / COMMAND.0;
    let count = of_zone * zones.len() as u64;
    let zeros = AlignedBuf::zeroed(COMMAND).freeze();
    let next = Rc::new(Cell::new(0));
    let began = rt.now();
    let workers: Vec<_> = (0..16)
        .map(|_| {
            let (device, next, zeros, zones) = (device.clone(), next.clone(), zeros.clone(), zones.clone());
            rt.spawn(async move {
                while next.get() < count {
                    let number = next.replace(next.get() + 1);
                    let zone = zones[(number / of_zone) as usize];
                    let at = device.geometry().start_of(zone) + Blocks(number % of_zone * COMMAND.0);
                    if write {
                        device.write(at, vec![zeros.clone()]).await?;
                    } else {
                        device.touch(at, COMMAND).await;
                    }
                }
                Ok::<(), DeviceError>(())
            })
        })
        .collect();
    for worker in workers {
        let ended = worker.await;
        debug_assert!(matches!(ended, Ok(Ok(()))), "a healthy drive takes writes in order");
    }
    if geometry.volatile_cache && write {
        let flushed = device.flush().await;
        debug_assert!(flushed.is_ok(), "a healthy drive flushes");
    }
    (count * COMMAND.bytes()) as f64 / rt.now().since(began).as_secs_f64()
}

impl Rig {
    /// Gives the drives their modelled times from now on.
    pub fn keep_time(&self) {
        keep_time(&self.array.drive, &self.devices);
    }

    /// Gives the drives next to no time again.
    pub fn forget_time(&self) {
        self.devices.iter().for_each(|device| device.set_latency(LITTLE));
    }

    /// Waits until the array has no background work left.
    pub async fn settle(&self, rt: &Runtime) {
        // Longest pause of its background work.
        const PAUSE: Duration = Duration::from_secs(60);
        let mut before = None;
        while before != Some(self.written_bytes()) {
            before = Some(self.written_bytes());
            rt.sleep(PAUSE).await;
        }
    }

    /// Contents of the drives if the power fails between two commands.
    pub fn media(&self) -> Vec<MemoryDevice> {
        let image = |device: &Rc<SimDevice>| {
            let image = device.image();
            image.power_cycle();
            image
        };
        self.devices.iter().map(image).collect()
    }

    /// Bytes written to all drives.
    pub fn written_bytes(&self) -> u64 {
        let blocks: u64 = self.devices.iter().map(|device| device.counts().writes.1).sum();
        blocks * BLOCK_SIZE as u64
    }

    /// Bytes of data that its sets hold.
    ///
    /// # Errors
    /// The array is closed.
    pub fn capacity(&self) -> Result<u64, LabError> {
        Ok(self.store.stats().map_err(lab_error)?.capacity)
    }

    /// Share of its sets that hold data and can be cleaned.
    ///
    /// # Errors
    /// The array is closed.
    pub fn holding(&self) -> Result<f64, LabError> {
        let [empty, available, open, closed, indexed, index] = self.store.stats().map_err(lab_error)?.sets;
        Ok((closed + indexed) as f64 / (empty + available + open + closed + indexed + index) as f64)
    }
}
