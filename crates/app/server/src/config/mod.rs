//! The configuration, one TOML file. All mistakes in it are reported together, with their lines.

mod blue;
mod blues;
#[cfg(test)]
mod config_tests;
mod nbd;
mod reading;
mod validate;
mod values;
mod volumes;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use shingle_base::{BLOCK_SIZE, Blocks};
use shingle_runtime::memory::Memory;
use shingle_zoned::Geometry;

use crate::error::{Error, ErrorKind, Result};
use crate::inventory::DriveName;
use crate::reports::access_log::Destination;
pub use blue::{BlueConfig, Packing};
pub use nbd::{NbdConfig, VolumeConfig};
use reading::Read;
pub use reading::read_toml;
use values::{interval, maybe_size, size};

/// A server's configuration.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address for S3 clients.
    pub listen: SocketAddr,
    /// The data directory: index, keys, and notes about the drives.
    pub data: PathBuf,
    /// The region in the server's answers.
    pub region: String,
    /// If given, buckets are also found at `BUCKET.domain`.
    pub domain: Option<String>,
    /// Level of the log, or levels by module, such as `info,shingle_object_store=debug`.
    pub log: String,
    /// Destination of the access log: `off`, `log`, or a file, which is in the data directory if its path is not
    /// absolute.
    pub access_log: String,
    /// Address of `/livez`, `/readyz` and `/metrics`, without authentication; none if not given.
    pub admin: Option<SocketAddr>,
    /// Start although drives are missing: their objects give errors, the others work.
    pub allow_missing_drives: bool,
    /// Longest wait for missing drives at the start; none if `off`.
    #[serde(deserialize_with = "interval")]
    pub drive_wait: Option<Duration>,
    /// Memory for reading the index.
    #[serde(deserialize_with = "size")]
    pub index_cache: u64,
    /// The drives; two emulated ones in the data directory if there are none.
    #[serde(rename = "drive")]
    pub drives: Vec<DriveConfig>,
    /// Arrays, each of several drives of its own.
    #[serde(rename = "array")]
    pub arrays: Vec<ArrayConfig>,
    /// Blue stores, each on a drive of its own.
    #[serde(rename = "blue")]
    pub blues: Vec<BlueConfig>,
    /// Volumes that are served beside the objects.
    #[serde(rename = "volume")]
    pub volumes: Vec<VolumeConfig>,
    /// The ways to the volumes.
    pub nbd: NbdConfig,
    /// Limits for clients.
    pub limits: LimitsConfig,
}

/// An array that objects can be stored on: made by `shingle array format`.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayConfig {
    /// Name that buckets use as their location: letters, digits and dashes.
    pub name: String,
    /// Storage class of its objects; `STANDARD_IA` if not given.
    class: Option<String>,
    /// File written by `shingle array format`: names the drives, and maybe the index.
    pub file: Option<PathBuf>,
    /// The drives, by their names, instead of a file.
    #[serde(default)]
    pub drives: Vec<PathBuf>,
    /// File of the index, on flash; in the data directory if not given.
    pub index: Option<PathBuf>,
    /// The two files of the buffer of small objects, each on its own SSD; from the array's file if not given there, or
    /// none.
    pub buffer: Option<[PathBuf; 2]>,
    /// Longest time in seconds for an object in the buffer alone; 30 if neither this nor the array's file says.
    pub buffer_time_s: Option<u64>,
    /// Serve although drives are missing, as long as parity makes up for them. The array gives up the missing drives.
    #[serde(default = "yes")]
    pub degraded: bool,
    /// Rebuild rate limit in bytes/s; `None` = unlimited.
    #[serde(default, deserialize_with = "maybe_size")]
    pub rebuild_rate: Option<u64>,
    /// Interval in which all data is read and verified once, and damage is repaired; `off` = never.
    #[serde(default = "month", deserialize_with = "interval")]
    pub scrub_interval: Option<Duration>,
    /// Read rate limit of that in bytes/s; `None` = at most half of the time is spent reading.
    #[serde(default, deserialize_with = "maybe_size")]
    pub scrub_rate: Option<u64>,
}

fn yes() -> bool {
    true
}

fn month() -> Option<Duration> {
    Some(Duration::from_secs(30 * 24 * 60 * 60))
}

/// Contents of an array's file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ArrayFile {
    drives: Vec<PathBuf>,
    index: Option<PathBuf>,
    buffer: Option<[PathBuf; 2]>,
    buffer_time_s: Option<u64>,
}

/// A drive.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveConfig {
    /// Its name, as [`DriveName::of_path`] reads it: `serial:...`, `wwn:...`, `uuid:...`, a node, or the file that
    /// emulates it. A relative path is relative to the data directory.
    pub path: PathBuf,
    /// Shape of an emulated drive to make if it is missing; without one, a missing drive is an error.
    pub create: Option<Shape>,
}

/// The shape of an emulated drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shape {
    /// Bytes of a zone, a multiple of 4 KiB.
    #[serde(deserialize_with = "size")]
    pub zone_size: u64,
    /// Writable bytes of a zone; all of it if not given (ZNS drives have less).
    #[serde(deserialize_with = "maybe_size")]
    pub zone_capacity: Option<u64>,
    /// Number of zones.
    pub zones: u32,
    /// Number of conventional zones.
    pub conventional_zones: u32,
    /// The most zones that may be open at once.
    pub open_zones_max: u32,
    /// The most zones that may be active at once; no limit if not given.
    pub active_zones_max: Option<u32>,
}

/// Limits for clients.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Connections at a time; further ones wait.
    pub connections: usize,
    /// Seconds a connection may take to send a request's head, or be idle before one.
    pub head_timeout_s: u64,
    /// Seconds a connection may go without a byte in the direction that is due.
    pub stall_timeout_s: u64,
    /// Memory for bodies on their way: pieces of answers and of incoming objects, for all requests together.
    #[serde(deserialize_with = "size")]
    pub memory: u64,
    /// Lowest rate in bytes/s at which a client may take an answer, over `stall_timeout_s`; 0: any.
    #[serde(deserialize_with = "size")]
    pub reader_rate_min: u64,
    /// Lowest rate in bytes/s at which a client may send a body, over `stall_timeout_s`; 0: any.
    #[serde(deserialize_with = "size")]
    pub writer_rate_min: u64,
    /// Seconds that requests under way have to finish when the server stops.
    pub shutdown_grace_s: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9000)),
            data: PathBuf::from("shingle-data"),
            region: "us-east-1".to_owned(),
            domain: None,
            log: "info".to_owned(),
            access_log: "off".to_owned(),
            admin: None,
            allow_missing_drives: false,
            drive_wait: Some(Duration::from_secs(10)),
            index_cache: 64 << 20,
            drives: Vec::new(),
            arrays: Vec::new(),
            blues: Vec::new(),
            volumes: Vec::new(),
            nbd: NbdConfig::default(),
            limits: LimitsConfig::default(),
        }
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            connections: 1024,
            memory: 1 << 30,
            head_timeout_s: 60,
            stall_timeout_s: 60,
            reader_rate_min: 16 << 10,
            writer_rate_min: 16 << 10,
            shutdown_grace_s: 20,
        }
    }
}

impl Default for Shape {
    /// 64 GiB in 256 MiB zones, as HM-SMR drives have them. Space is taken only as it is written.
    fn default() -> Self {
        Self {
            zone_size: 256 << 20,
            zone_capacity: None,
            zones: 256,
            conventional_zones: 4,
            open_zones_max: 128,
            active_zones_max: None,
        }
    }
}

impl Shape {
    /// As the device contract has it.
    ///
    /// # Errors
    /// `Config` for a shape no drive can have.
    pub fn geometry(&self) -> Result<Geometry> {
        let wrong = |text: String| Error::new(ErrorKind::Config, text);
        let capacity = self.zone_capacity.unwrap_or(self.zone_size);
        for (name, bytes) in [("zone_size", self.zone_size), ("zone_capacity", capacity)] {
            if bytes % BLOCK_SIZE as u64 != 0 {
                return Err(wrong(format!("{name} is {bytes} bytes, which is no multiple of {BLOCK_SIZE}")));
            }
        }
        let blocks = |bytes: u64| Blocks(bytes / BLOCK_SIZE as u64);
        let mut geometry =
            Geometry::hm_smr(blocks(self.zone_size), self.zones, self.conventional_zones, self.open_zones_max);
        geometry.zone_capacity = blocks(capacity);
        geometry.active_zones_max = self.active_zones_max;
        geometry.volatile_cache = true;
        geometry.validate().map_err(|error| wrong(error.to_string()))?;
        Ok(geometry)
    }
}

impl Config {
    /// Reads a configuration file. A relative data directory is relative to the working directory.
    ///
    /// # Errors
    /// `Config`, with all mistakes; `System` if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::system(format_args!("the configuration {}", path.display()), error))?;
        Self::parse(&text).map_err(|error| Error::new(error.kind, in_file(path, &error.message)))
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// `Config`, with all mistakes, a line for each: unreadable settings with their places, then impossible ones.
    pub fn parse(text: &str) -> Result<Self> {
        let Read { mut wrong, rest } = reading::read::<Self>(text);
        wrong.extend(rest.iter().flat_map(Self::wrong));
        match rest {
            Some(config) if wrong.is_empty() => Ok(config),
            _ => Err(Error::new(ErrorKind::Config, wrong.join("\n"))),
        }
    }

    /// Destination of the access log, if there is one.
    pub(crate) fn access_log(&self) -> Option<Destination> {
        match self.access_log.as_str() {
            "off" => None,
            "log" => Some(Destination::Log),
            file => Some(Destination::File(self.data.join(file))),
        }
    }

    /// The budget of memory for bodies.
    pub(crate) fn memory(&self) -> Arc<Memory> {
        Memory::new(self.limits.memory, self.limits.connections)
    }

    /// The drives with absolute paths; names that are no paths stay as they are.
    pub(crate) fn drives(&self) -> Vec<DriveConfig> {
        // With arrays or blue stores, everything can live on those.
        if self.drives.is_empty() && self.arrays.is_empty() && self.blues.is_empty() {
            let drive = |number| DriveConfig {
                path: self.data.join(format!("drive-{number}.zoned")),
                create: Some(Shape::default()),
            };
            return vec![drive(0), drive(1)];
        }
        let found_at = |path: &Path| found_at(&self.data, path);
        self.drives.iter().map(|drive| DriveConfig { path: found_at(&drive.path), ..drive.clone() }).collect()
    }

    /// The arrays with absolute paths of their drives, those of their files included.
    ///
    /// # Errors
    /// `Config` if files make no sense or two arrays share a drive, a line for each; `System` if one cannot be read.
    pub(crate) fn arrays(&self) -> Result<Vec<ArrayConfig>> {
        let mut arrays: Vec<ArrayConfig> = Vec::new();
        let mut wrong = Vec::new();
        for array in &self.arrays {
            match self.array(array) {
                Ok(array) => {
                    wrong.extend(self.shared_drives(&array, &arrays));
                    arrays.push(array);
                }
                Err(error) if error.kind == ErrorKind::Config => wrong.push(error.message),
                Err(error) => return Err(error),
            }
        }
        if wrong.is_empty() { Ok(arrays) } else { Err(Error::new(ErrorKind::Config, wrong.join("\n"))) }
    }

    /// An array with the contents of its file.
    fn array(&self, array: &ArrayConfig) -> Result<ArrayConfig> {
        let mut array = array.clone();
        let Some(file) = array.file.as_deref().map(|file| self.data.join(file)) else {
            array.drives = array.drives.iter().map(|path| found_at(&self.data, path)).collect();
            array.index = array.index.map(|index| self.data.join(index));
            array.buffer = array.buffer.map(|files| files.map(|path| self.data.join(path)));
            return Ok(array);
        };
        let text = std::fs::read_to_string(&file).map_err(|error| Error::system(file.display(), error))?;
        let wrong = |why: String| Error::new(ErrorKind::Config, in_file(&file, &why));
        let said: ArrayFile = read_toml(&text).map_err(wrong)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        array.drives = said.drives.iter().map(|path| found_at(folder, path)).collect();
        let index = array.index.map(|index| self.data.join(index));
        array.index = index.or(said.index.map(|index| folder.join(index)));
        let buffer = array.buffer.map(|files| files.map(|path| self.data.join(path)));
        array.buffer = buffer.or(said.buffer.map(|files| files.map(|path| folder.join(path))));
        array.buffer_time_s = array.buffer_time_s.or(said.buffer_time_s);
        array.validate_drives().map_err(wrong)?;
        Ok(array)
    }

    /// Drives of an array that something before it has, too.
    fn shared_drives(&self, array: &ArrayConfig, before: &[ArrayConfig]) -> Vec<String> {
        let (alone, blues) = (self.drives(), self.blues());
        let volumes = self.exports().map(|exports| exports.volumes).unwrap_or_default();
        let shared = |drive: &PathBuf| {
            let with_another = before.iter().find(|other| other.drives.contains(drive));
            let other = match with_another {
                Some(other) => format!("array `{}`", other.name),
                None if alone.iter().any(|other| other.path == *drive) => "[[drive]]".to_owned(),
                None if blues.iter().any(|other| other.drive == *drive) => "[[blue]]".to_owned(),
                None if volumes.iter().any(|other| other.drive == *drive) => "[[volume]]".to_owned(),
                None => return None,
            };
            Some(format!("the drive {} is named for array `{}` and for {other}", drive.display(), array.name))
        };
        array.drives.iter().filter_map(shared).collect()
    }
}

/// A mistake in a file, with the file's name: before it, or above it if it has several lines.
fn in_file(file: &Path, wrong: &str) -> String {
    let between = if wrong.contains('\n') { '\n' } else { ' ' };
    format!("{}:{between}{wrong}", file.display())
}

/// Absolute path of a drive that a file in `folder` names.
fn found_at(folder: &Path, path: &Path) -> PathBuf {
    match DriveName::of_path(path) {
        Ok(DriveName::Path(path)) => folder.join(path),
        _ => path.to_owned(),
    }
}

impl ArrayConfig {
    /// Storage class of its objects.
    pub fn class(&self) -> &str {
        self.class.as_deref().unwrap_or("STANDARD_IA")
    }
}
