//! Opening a large array after an unclean stop: cost in time of drives, processor and memory.
//!
//! The array is in use: 60 drives of 20 TB in 10+2, all of their zones but a few in sets that are full. Objects are the
//! paper's mix (its mean is 240 MB), in segments of 20 MiB, one part each: a set holds 128. Of the written bytes 82 %
//! live: 80 % of the array. The newest snapshot has all of that. Behind it lie the sets that were closed since: as many
//! as two hours, the time between snapshots, fill at 4 GB/s, the load of SMRstore's 60 drives. The power fails while
//! objects are put.
//!
//! All of this is laid down, not written ([`ArrayStore::lay_down`]); a smaller array has fewer zones, and as large a share of each.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use shingle_array_store::{
    ArrayDrive, ArrayStore, DriveId, Error, FormatOptions, IndexPlace, Laid, Load, Options, RecoveryReport, format,
};
use shingle_drive_model::Drive;
use shingle_erasure::Code;
use shingle_runtime::Runtime;
use shingle_sim::{Random, Sim, SimDevice};
use shingle_zoned::MemoryDevice;

use crate::error::LabError;
use crate::load::objects::Sizes;
use crate::rig::array::lab_error;
use crate::rig::drives::LabDrive;

/// The project's own 20 TB drive.
const DRIVE: &str = "hc650";

/// Drives of the array.
pub const DRIVES: usize = 60;

/// Live objects of a hundred.
const LIVE_PERCENT: u64 = 82;

/// Sets that two hours at 4 GB/s fill: 28.8 TB, 2.68 GB each.
const TAIL: usize = 10_700;

/// Sets that hold nothing: a share of all.
const FREE: usize = 50;

/// Objects that are put when the power fails.
const UNDER_WAY: u64 = 12;

/// The array, with every n-th zone.
#[derive(Clone, Debug)]
pub struct Large {
    drive: LabDrive,
    segment_length: u32,
    /// Factor by which objects are larger than the paper's.
    larger: u64,
}

/// Contents of its drives.
pub struct Image {
    media: Vec<MemoryDevice>,
    /// Sets that were laid down, and their contents.
    pub sets: usize,
    /// Objects and parts.
    pub laid: Laid,
}

/// Result of an opening.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Recovery's own report.
    pub report: RecoveryReport,
    /// Sets of the array.
    pub sets: usize,
    /// Bytes that live.
    pub live: u64,
    /// Time that the drives took.
    pub drives: Duration,
    /// Commands of the drive that got the most, and blocks that it read.
    pub commands: u64,
    /// The blocks of the one that read the most.
    pub blocks: u64,
}

impl Large {
    /// With every `every`th zone.
    ///
    /// # Errors
    /// There is no such drive.
    pub fn new(every: u32) -> Result<Self, LabError> {
        Ok(Self { drive: LabDrive::new(DRIVE)?.every(every), segment_length: 20 << 20, larger: 1 })
    }

    /// With few parts and objects for each set: then their cost does not hide that of sets.
    #[must_use]
    pub fn with_few_parts(self) -> Self {
        Self { segment_length: 1 << 30, larger: 8, ..self }
    }

    fn code() -> Result<Code, LabError> {
        Code::new(10, 2).map_err(|error| LabError(error.to_string()))
    }

    /// Lays an array down, and cuts the power while objects are put.
    ///
    /// # Errors
    /// The array's error.
    pub fn image(&self, seed: u64) -> Result<Image, LabError> {
        let large = self.clone();
        Sim::new(seed).run(move |rt| async move { large.lay_down(&rt, seed).await })
    }

    async fn lay_down(&self, rt: &Runtime, seed: u64) -> Result<Image, LabError> {
        let geometry = self.drive.geometry();
        let medium = || Rc::new(MemoryDevice::metadata_only(geometry.clone(), shingle_record::keep_unless_hollow));
        let media: Vec<Rc<MemoryDevice>> = (0..DRIVES).map(|_| medium()).collect();
        let drive =
            |(number, dev): (usize, &Rc<MemoryDevice>)| ArrayDrive { name: number.to_string(), dev: dev.clone() };
        let drives: Vec<ArrayDrive> = media.iter().enumerate().map(drive).collect();
        let format_options = FormatOptions { segment_length: self.segment_length, ..FormatOptions::new(Self::code()?) };
        format(rt, &drives, &format_options).await.map_err(lab_error)?;
        let options = Options { background: false, ..Options::default() };
        let (store, _) = ArrayStore::open(rt, &drives, &IndexPlace::Memory, options).await.map_err(lab_error)?;
        let mut random = Random::new(seed);
        let [empty, ..] = store.stats().map_err(lab_error)?.sets;
        let tail = TAIL / self.drive.every as usize;
        let sets = empty - empty / FREE;
        let mut size = || self.larger * Sizes::Mix.draw(&mut random);
        let put_pointer = |drive: DriveId, zone, blocks| {
            if let Some(medium) = media.get(usize::from(drive.0)) {
                medium.truncate_zone(zone, blocks);
            }
        };
        let load =
            Load { covered: sets - tail, tail, live_percent: LIVE_PERCENT, size: &mut size, put_pointer: &put_pointer };
        let laid = store.lay_down(load).await.map_err(lab_error)?;
        let puts: Vec<_> = (0..UNDER_WAY).map(|number| put_some(&store, number)).collect();
        for put in join_all(puts).await {
            put.map_err(lab_error)?;
        }
        drop(store);
        let media = media.iter().map(|medium| medium.snapshot()).collect::<Vec<_>>();
        media.iter().for_each(MemoryDevice::power_cycle);
        Ok(Image { media, sets, laid })
    }

    /// Opens the array on modelled drives. `probe` is called at each command, before it takes effect.
    ///
    /// # Errors
    /// As [`ArrayStore::open`].
    pub fn open(&self, image: &Image, place: IndexPlace, probe: Rc<dyn Fn()>) -> Result<Opening, LabError> {
        self.open_without(image, &[], place, probe)
    }

    /// The same without some drives.
    ///
    /// # Errors
    /// As [`ArrayStore::open`].
    pub fn open_without(
        &self,
        image: &Image,
        dead: &[usize],
        place: IndexPlace,
        probe: Rc<dyn Fn()>,
    ) -> Result<Opening, LabError> {
        let there = image.media.iter().enumerate().filter(|(number, _)| !dead.contains(number));
        let media: Vec<MemoryDevice> = there.map(|(_, medium)| medium.snapshot()).collect();
        let drive = Drive::new(&self.drive.profile, self.drive.every);
        let opening = Sim::new(2).run(move |rt| async move {
            let devices: Vec<SimDevice> =
                media.into_iter().map(|medium| SimDevice::without_power_cuts(&rt, medium)).collect();
            for device in &devices {
                let probe = probe.clone();
                device.set_drive(drive.clone());
                device.on_command(move |_, _| probe());
            }
            let named = |(number, device): (usize, &SimDevice)| ArrayDrive {
                name: number.to_string(),
                dev: Rc::new(device.clone()),
            };
            let drives: Vec<ArrayDrive> = devices.iter().enumerate().map(named).collect();
            let options = Options { background: false, ..Options::default() };
            let began = rt.now();
            let (store, report) = ArrayStore::open(&rt, &drives, &place, options).await?;
            let took = rt.now().since(began);
            probe();
            let counts: Vec<_> = devices.iter().map(SimDevice::counts).collect();
            let stats = store.stats()?;
            Ok(Opening {
                report,
                sets: stats.sets.iter().sum(),
                live: stats.live,
                drives: took,
                commands: counts.iter().map(|counts| counts.commands).max().unwrap_or(0),
                blocks: counts.iter().map(|counts| counts.reads.1).max().unwrap_or(0),
            })
        });
        opening.map_err(|error: Error| lab_error(error))
    }
}

/// Puts an object, and begins another.
async fn put_some(store: &ArrayStore, number: u64) -> shingle_array_store::Result<()> {
    let data = Bytes::from_static(&[0; 1 << 20]);
    store.put(format!("under-way/{number}"), data.clone(), Bytes::new()).await?;
    let mut put = store.begin_put(format!("half/{number}"))?;
    for _ in 0..40 {
        put.write(data.clone()).await?;
    }
    Ok(())
}
