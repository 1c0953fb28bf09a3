//! The kernel's description of a drive.

use std::path::PathBuf;

/// Requirement to write a drive's zones in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ZonedModel {
    /// An ordinary drive: it has no zones, or does not show them.
    None,
    /// Zones that should be written in order, but need not be. Kernels from 6.10 on show such drives as ordinary ones.
    HostAware,
    /// Zones that must be written in order.
    HostManaged,
}

impl ZonedModel {
    /// As the kernel writes it in `queue/zoned`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::HostAware => "host-aware",
            Self::HostManaged => "host-managed",
        }
    }
}

/// Caching of completed writes, which a power cut may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteCache {
    /// It may: only a flush makes it durable.
    WriteBack,
    /// It may not.
    WriteThrough,
}

/// A block device, or a partition of one. Attributes that the kernel does not have are `None` or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// Its name in the kernel, such as `sda`. May change from boot to boot; serial, WWN and UUID do not.
    pub name: String,
    /// Its node, such as `/dev/sda`.
    pub node: PathBuf,
    /// Stable names in `/dev/disk/by-id` that lead to it, in order.
    pub by_id: Vec<PathBuf>,
    /// Its major and minor device number.
    pub number: (u32, u32),
    /// For a partition, the number it has on its drive. Queue and identity are then those of the drive.
    pub partition: Option<u32>,
    /// The maker's name for the model.
    pub model: Option<String>,
    /// The maker; absent for ATA and NVMe drives, whose model names it.
    pub vendor: Option<String>,
    /// The serial number.
    pub serial: Option<String>,
    /// The world-wide name, such as `naa.5000c500a1b2c3d4` or `eui.0025385b71b0d1e2`.
    pub wwn: Option<String>,
    /// An NVMe namespace's UUID.
    pub uuid: Option<String>,
    /// Requirement to write its zones in order.
    pub zoned: ZonedModel,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// The smallest read or write, in bytes.
    pub logical_block_bytes: u32,
    /// The smallest write that needs no read first, in bytes.
    pub physical_block_bytes: u32,
    /// Bytes from one zone to the next.
    pub zone_size_bytes: Option<u64>,
    /// The number of zones, a smaller last one included.
    pub zone_count: Option<u32>,
    /// The most zones that may be open at once. `None`: no limit.
    pub max_open_zones: Option<u32>,
    /// The most zones that may be open or closed at once. `None`: no limit.
    pub max_active_zones: Option<u32>,
    /// The longest zone append, in bytes. `None`: the kernel appends nothing there.
    pub zone_append_max_bytes: Option<u64>,
    /// The longest command that the kernel sends in one piece, in bytes.
    pub transfer_max_bytes: Option<u64>,
    /// The most separate pieces of memory in such a command.
    pub segments_max: Option<u32>,
    /// The I/O scheduler in use, such as `mq-deadline` or `none`.
    pub scheduler: Option<String>,
    /// The I/O schedulers that could be used, the one in use included.
    pub schedulers: Vec<String>,
    /// Caching of completed writes, which a power cut may lose.
    pub write_cache: Option<WriteCache>,
    /// Requests that wait in the kernel's queue at most.
    pub nr_requests: Option<u32>,
    /// It is a disk that turns.
    pub rotational: bool,
    /// Its medium can be taken out.
    pub removable: bool,
    /// The kernel refuses writes to it.
    pub read_only: bool,
    /// Names of its partitions, in order.
    pub partitions: Vec<String>,
    /// Names of the devices made of it or of one of its partitions (device mapper, RAID), in order.
    pub holders: Vec<String>,
    /// It joins several paths to one drive (dm-multipath): maker, model, serial number and world-wide name are then the
    /// paths'.
    pub multipath: bool,
    /// Mount points of it or of its partitions; swap space counts, as `[swap]`.
    pub mounts: Vec<PathBuf>,
}

impl Drive {
    /// True if the kernel or another program uses it, as far as can be seen from outside: mounted, partitioned, or part
    /// of another device.
    pub fn in_use(&self) -> bool {
        !(self.partitions.is_empty() && self.holders.is_empty() && self.mounts.is_empty())
    }
}
