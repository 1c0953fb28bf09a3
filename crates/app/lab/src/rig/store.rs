//! Every store that experiments compare, each on its own drive. The kernel between both is a parameter of the experiment.

use std::rc::Rc;

use shingle_runtime::Runtime;
use shingle_sim::SimDevice;

use crate::baseline::ext4::{Ext4Options, Ext4Target};
use crate::baseline::f2fs::{F2fsOptions, F2fsTarget};
use crate::context::Context;
use crate::error::LabError;
use crate::rig::drives::LabDrive;
use crate::rig::engine::{EngineTarget, Setup};
use crate::rig::host::{Host, HostDevice};
use crate::rig::target::{ChunkTarget, TargetError};

/// A store in one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// The chunk store.
    Engine(Setup),
    /// A chunkserver on ext4.
    Ext4(Ext4Options),
    /// The same on the conventional twin of the shingled drive.
    Ext4OnTwin(Ext4Options),
    /// A chunkserver on F2FS.
    F2fs(F2fsOptions),
}

impl Store {
    /// Name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Engine(setup) => setup.name(),
            Self::Ext4(_) => "CS-Ext4 (on CMR)",
            Self::Ext4OnTwin(_) => "CS-Ext4 (on the conventional twin)",
            Self::F2fs(options) if options.sequential => "CS-F2FS (past the conventional zones)",
            Self::F2fs(_) => "CS-F2FS",
        }
    }

    /// A drive of SMRstore's evaluation, or the twin of one: conventional for ext4, host-managed for the others (Table 2), or the user's
    /// own in place of the latter. File systems get the first 6 TB, the size of the paper's F2FS; the chunk store,
    /// which spreads over no more than it uses, the first 6,000 zones.
    ///
    /// # Errors
    /// The user's drive cannot carry the load.
    pub fn drive(self, context: &Context) -> Result<LabDrive, LabError> {
        match self {
            Self::Engine(setup) => context.with_options(self.name(), &setup.options()),
            Self::Ext4(options) | Self::Ext4OnTwin(options) => context.with_options(self.name(), &options),
            Self::F2fs(options) => context.with_options(self.name(), &options),
        }
        Ok(match self {
            Self::Engine(Setup::Blind) => LabDrive::shingled(context)?.first_zones(6_000).of_unknown_speed(),
            Self::Engine(_) => LabDrive::shingled(context)?.first_zones(6_000),
            Self::Ext4(_) => LabDrive::of(context.profile("st16000nm001g")?).first_zones(22_352),
            Self::Ext4OnTwin(_) => LabDrive::twin_of_shingled(context)?.first_zones(22_352),
            Self::F2fs(_) => LabDrive::shingled(context)?.first_zones(22_352),
        })
    }

    /// The kernel that it ran on in the paper; of the project's own, one of today.
    pub fn host(self) -> Host {
        let own = matches!(self, Self::Engine(Setup::Ours | Setup::Blind));
        if own { Host::linux_6_10() } else { Host::linux_4_19() }
    }

    /// A fresh store on a fresh drive behind a kernel, and the drive.
    ///
    /// # Errors
    /// The store's error.
    pub async fn format(
        self,
        rt: &Runtime,
        drive: &LabDrive,
        host: Host,
    ) -> Result<(Rc<dyn ChunkTarget>, Rc<SimDevice>), LabError> {
        let medium = if matches!(self, Self::Engine(_)) { drive.medium() } else { drive.blank() };
        let device = drive.device(rt, medium);
        let host = HostDevice::new(host, device.clone());
        let (name, conventional) = (&drive.profile.name, drive.geometry().conventional_zones);
        let failed = |error: TargetError| {
            let what = "the experiments recovery, memory and space run without file systems";
            LabError(format!("{error} (drive `{name}` has {conventional} conventional zones here; {what})"))
        };
        let target: Rc<dyn ChunkTarget> = match self {
            Self::Engine(setup) => Rc::new(EngineTarget::format(rt, host, setup.options()).await?),
            Self::Ext4(options) | Self::Ext4OnTwin(options) => {
                Rc::new(Ext4Target::format(rt, host, options).map_err(failed)?)
            }
            Self::F2fs(options) => Rc::new(F2fsTarget::format(rt, host, options).map_err(failed)?),
        };
        Ok((target, device))
    }
}
