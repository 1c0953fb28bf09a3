//! Systems that take blocks in any order: a drive that does so by itself, or a translation layer in the host on a zoned drive.
//!
//! A translation layer of this project is a [`Volume`] and a function that [attaches](Attach) its controller; without one, the volume
//! cleans by itself.

use std::rc::Rc;

use shingle_drive_model::{Drive, Jitter, Motion, Profile};
use shingle_runtime::Runtime;
use shingle_sim::{Runtimes, Sim, SimDevice};
use shingle_store_api::BlockStore;
use shingle_translation::{FormatOptions, Options, Volume};

use crate::baseline::dm_zoned::DmZoned;
use crate::baseline::zdm::Zdm;
use crate::context::BATCH;
use crate::error::LabError;
use crate::rig::blocks::DriveBlocks;
use crate::rig::drives::LabDrive;
use crate::rig::host::{Host, HostDevice};

/// Attaches a controller to a fresh volume: it starts a task on the runtime, which works until the volume closes.
pub type Attach = Rc<dyn Fn(&Runtime, &Volume)>;

/// A kind of system.
#[derive(Clone)]
enum Kind {
    /// The drive itself.
    Drive,
    /// A volume, with a controller or alone: it cleans by itself then, greedily.
    Volume(Option<Attach>),
    /// A page-mapped layer with a cached map.
    Zdm,
    /// Buffer zones.
    DmZoned,
}

/// A system of a name that says how it maps blocks.
#[derive(Clone)]
pub struct System {
    /// Its name in figures.
    pub name: String,
    profile: Profile,
    kind: Kind,
    /// Memory of a volume's map. (TL-MEM-1)
    map_bytes: Option<u64>,
}

impl System {
    fn new(name: &str, profile: Profile, kind: Kind) -> Self {
        Self { name: name.to_owned(), profile, kind, map_bytes: None }
    }

    /// The same, whose volume's map has a limit.
    #[must_use]
    pub fn with_map_of(self, bytes: u64) -> Self {
        Self { map_bytes: Some(bytes), ..self }
    }

    /// A drive that takes blocks in any order.
    pub fn drive(name: &str, profile: Profile) -> Self {
        Self::new(name, profile, Kind::Drive)
    }

    /// A volume on a zoned drive, without a controller.
    pub fn volume(name: &str, profile: Profile) -> Self {
        Self::new(name, profile, Kind::Volume(None))
    }

    /// A volume on a zoned drive, with a controller.
    pub fn layer(name: &str, profile: Profile, attach: impl Fn(&Runtime, &Volume) + 'static) -> Self {
        Self::new(name, profile, Kind::Volume(Some(Rc::new(attach))))
    }

    /// A page-mapped layer on a zoned drive.
    pub fn zdm(name: &str, profile: Profile) -> Self {
        Self::new(name, profile, Kind::Zdm)
    }

    /// A layer with buffer zones on a zoned drive.
    pub fn dm_zoned(name: &str, profile: Profile) -> Self {
        Self::new(name, profile, Kind::DmZoned)
    }

    /// Bytes that it has.
    ///
    /// # Errors
    /// It cannot be made on its drive.
    pub fn size_bytes(&self) -> Result<u64, LabError> {
        if let Kind::Drive = self.kind {
            return Ok(Drive::new(&self.profile, 1).blocks() * 4096);
        }
        let system = self.clone();
        Sim::new(1).run(move |rt| async move {
            let opened = system.open(&Runtimes::from(&rt), Host::linux_6_10(), 1, false).await?;
            Ok(opened.store.size_bytes())
        })
    }

    /// A fresh one on a fresh drive of the batch behind a host, with the drive's volatile cache on or off.
    ///
    /// # Errors
    /// It cannot be made on its drive.
    pub async fn open(
        &self,
        runtimes: &Runtimes,
        host: Host,
        seed: u64,
        write_cache: bool,
    ) -> Result<Opened, LabError> {
        let mut profile = self.profile.clone();
        profile.jitter = profile.jitter.or(Some(BATCH)).map(|jitter| Jitter { seed, ..jitter });
        if let Kind::Drive = self.kind {
            let blocks = Rc::new(DriveBlocks::of_profile(&runtimes.hardware, &profile, host)?);
            // A drive that has no such cache has none on.
            let _ = blocks.set_write_cache(write_cache);
            return Ok(Opened { store: blocks.clone(), under: Under::Drive(blocks) });
        }
        profile.cache.write_cache = write_cache;
        let drive = LabDrive::of(profile);
        let medium = if let Kind::Volume(_) = self.kind { drive.medium() } else { drive.blank() };
        let device: Rc<SimDevice> = drive.device(&runtimes.hardware, medium);
        let device = HostDevice::of_program(runtimes, host, device);
        let rt = &runtimes.program;
        let failed = |error: shingle_store_api::StoreError| LabError(format!("{}: {error}", self.name));
        let store: Rc<dyn BlockStore> = match &self.kind {
            Kind::Volume(attach) => {
                let options = Options { map_bytes: self.map_bytes, ..Options::default() };
                Volume::format(rt, device.clone(), FormatOptions::default()).await.map_err(failed)?;
                let (volume, _) = Volume::open(rt, device.clone(), options).await.map_err(failed)?;
                if let Some(attach) = attach {
                    attach(rt, &volume);
                }
                return Ok(Opened { store: Rc::new(volume.clone()), under: Under::Zones(device, Some(volume)) });
            }
            Kind::Zdm => Rc::new(Zdm::format(rt, device.clone()).map_err(failed)?),
            Kind::DmZoned | Kind::Drive => Rc::new(DmZoned::format(rt, device.clone()).map_err(failed)?),
        };
        Ok(Opened { store, under: Under::Zones(device, None) })
    }
}

/// A system that was opened.
pub struct Opened {
    /// Its blocks.
    pub store: Rc<dyn BlockStore>,
    under: Under,
}

/// A system's drive.
enum Under {
    Drive(Rc<DriveBlocks>),
    Zones(Rc<HostDevice>, Option<Volume>),
}

impl Opened {
    /// Blocks that were written to the medium so far; `None` of a drive that does not translate.
    pub fn media_blocks(&self) -> Option<u64> {
        match &self.under {
            Under::Drive(drive) => drive.written().map(|written| written.media),
            Under::Zones(device, _) => Some(device.written_blocks()),
        }
    }

    /// The volume, if it is one.
    pub fn volume(&self) -> Option<&Volume> {
        match &self.under {
            Under::Zones(_, volume) => volume.as_ref(),
            Under::Drive(_) => None,
        }
    }

    /// Records the motions of the arm of a drive that translates, from now on or no more.
    pub fn watch_arm(&self, on: bool) {
        if let Under::Drive(drive) = &self.under {
            drive.watch_arm(on);
        }
    }

    /// Motions recorded since the last call.
    pub fn take_motions(&self) -> Vec<Motion> {
        match &self.under {
            Under::Drive(drive) => drive.take_motions(),
            Under::Zones(..) => Vec::new(),
        }
    }
}
