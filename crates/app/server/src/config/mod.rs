//! What can be set, in one TOML file. All that is wrong with it is told at once, with its lines.

#[cfg(test)]
mod config_tests;
mod reading;
mod validate;
mod values;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use shingle_base::{BLOCK_SIZE, Blocks};
use shingle_runtime::memory::Memory;
use shingle_zoned::Geometry;

use crate::access_log::Place;
use crate::error::{Error, ErrorKind, Result};
use crate::inventory::DriveName;
use reading::Read;
pub use reading::read_toml;
use values::{interval, maybe_size, size};

/// A server's configuration.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where S3 clients connect.
    pub listen: SocketAddr,
    /// The data directory: index, keys, and what is known of the drives.
    pub data: PathBuf,
    /// The region the server says it is in.
    pub region: String,
    /// Where given, buckets are also found at `BUCKET.domain`.
    pub domain: Option<String>,
    /// What is logged: a level, or levels by module, such as `info,shingle_object_store=debug`.
    pub log: String,
    /// Where a line for each request is written: `off`, `log`, or a file, which is in the data directory if its path is not absolute.
    pub access_log: String,
    /// Where `/livez`, `/readyz` and `/metrics` are served, without authentication; nowhere if not given.
    pub admin: Option<SocketAddr>,
    /// Start although drives are missing: their objects give errors, the others work.
    pub allow_missing_drives: bool,
    /// So long drives are waited for that are not there at the start; not at all if `off`.
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
    /// Limits on what clients may do.
    pub limits: LimitsConfig,
}

/// An array that objects can be stored on: made by `shingle array format`.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayConfig {
    /// What buckets ask for it by, as their location: letters, digits and dashes.
    pub name: String,
    /// The storage class that objects ask for it by; `STANDARD_IA` if not given.
    class: Option<String>,
    /// The file that `shingle array format` wrote: names the drives, and maybe the index.
    pub file: Option<PathBuf>,
    /// The drives, by their names, instead of a file.
    #[serde(default)]
    pub drives: Vec<PathBuf>,
    /// Where the index is kept, on flash; in the data directory if not given.
    pub index: Option<PathBuf>,
    /// The two files of the buffer of small objects, each on its own SSD; those that the array's file names if not given,
    /// or none.
    pub buffer: Option<[PathBuf; 2]>,
    /// Seconds that an object may be in the buffer alone; 30 if neither this nor the array's file says.
    pub buffer_time_s: Option<u64>,
    /// Serve although drives are missing, as long as parity makes up for them. They are not used again as they are.
    #[serde(default = "yes")]
    pub degraded: bool,
    /// Bytes a second that may be written to rebuild what was on a lost drive; as many as can be if not given.
    #[serde(default, deserialize_with = "maybe_size")]
    pub rebuild_rate: Option<u64>,
    /// Everything is read and verified once in this time, and what is damaged is written anew; never if `off`.
    #[serde(default = "month", deserialize_with = "interval")]
    pub scrub_interval: Option<Duration>,
    /// Bytes a second that may be read for that; half of the time at most if not given.
    #[serde(default, deserialize_with = "maybe_size")]
    pub scrub_rate: Option<u64>,
}

fn yes() -> bool {
    true
}

fn month() -> Option<Duration> {
    Some(Duration::from_secs(30 * 24 * 60 * 60))
}

/// What an array's file says.
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
    /// emulates it. A path that is not absolute is looked for in the data directory.
    pub path: PathBuf,
    /// The shape it is made with if it is not there; without one, a drive that is not there is an error.
    pub create: Option<Shape>,
}

/// The shape of an emulated drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shape {
    /// Bytes of a zone, a multiple of 4 KiB.
    #[serde(deserialize_with = "size")]
    pub zone_size: u64,
    /// Bytes of a zone that can be written; all of it if not given (ZNS drives have less).
    #[serde(deserialize_with = "maybe_size")]
    pub zone_capacity: Option<u64>,
    /// Number of zones.
    pub zones: u32,
    /// How many of them are conventional.
    pub conventional_zones: u32,
    /// The most zones that may be open at once.
    pub open_zones_max: u32,
    /// The most zones that may be active at once; no limit if not given.
    pub active_zones_max: Option<u32>,
}

/// Limits on what clients may do.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// Connections at a time; further ones wait.
    pub connections: usize,
    /// Seconds a connection may take to send a request's head, or be idle before one.
    pub head_timeout_s: u64,
    /// Seconds a connection may go without a byte in the direction that is due.
    pub stall_timeout_s: u64,
    /// Memory for bodies on their way: pieces of answers and of objects that are still coming, for all requests together.
    #[serde(deserialize_with = "size")]
    pub memory: u64,
    /// Bytes a second that a client has to take of an answer, over `stall_timeout_s`; 0: any.
    #[serde(deserialize_with = "size")]
    pub reader_rate_min: u64,
    /// Bytes a second that a client has to send of a body, over `stall_timeout_s`; 0: any.
    #[serde(deserialize_with = "size")]
    pub writer_rate_min: u64,
    /// Seconds that requests under way get to finish when the server stops.
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
    /// As the device contract writes it.
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
    /// Reads a configuration file. A data directory that is not absolute is taken from the directory of the process.
    ///
    /// # Errors
    /// `Config`, with all that is wrong; `System` if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::system(format_args!("the configuration {}", path.display()), error))?;
        Self::parse(&text).map_err(|error| Error::new(error.kind, in_file(path, &error.message)))
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// `Config`, with all that is wrong, a line for each: what cannot be read with its place, then settings that cannot be.
    pub fn parse(text: &str) -> Result<Self> {
        let Read { mut wrong, rest } = reading::read::<Self>(text);
        wrong.extend(rest.iter().flat_map(Self::wrong));
        match rest {
            Some(config) if wrong.is_empty() => Ok(config),
            _ => Err(Error::new(ErrorKind::Config, wrong.join("\n"))),
        }
    }

    /// Where a line for each request goes, if anywhere.
    pub(crate) fn access_log(&self) -> Option<Place> {
        match self.access_log.as_str() {
            "off" => None,
            "log" => Some(Place::Log),
            file => Some(Place::File(self.data.join(file))),
        }
    }

    /// The budget of memory for bodies.
    pub(crate) fn memory(&self) -> Arc<Memory> {
        Memory::new(self.limits.memory, self.limits.connections)
    }

    /// The drives with the paths they are found at; names that are no paths stay what they are.
    pub(crate) fn drives(&self) -> Vec<DriveConfig> {
        // With arrays, everything can live on those.
        if self.drives.is_empty() && self.arrays.is_empty() {
            let drive = |number| DriveConfig {
                path: self.data.join(format!("drive-{number}.zoned")),
                create: Some(Shape::default()),
            };
            return vec![drive(0), drive(1)];
        }
        let found_at = |path: &Path| found_at(&self.data, path);
        self.drives.iter().map(|drive| DriveConfig { path: found_at(&drive.path), ..drive.clone() }).collect()
    }

    /// The arrays with their drives at the paths they are found at, those of their files included.
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

    /// An array with what its file says.
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
        let alone = self.drives();
        let shared = |drive: &PathBuf| {
            let with_another = before.iter().find(|other| other.drives.contains(drive));
            let other = match with_another {
                Some(other) => format!("array `{}`", other.name),
                None if alone.iter().any(|other| other.path == *drive) => "[[drive]]".to_owned(),
                None => return None,
            };
            Some(format!("the drive {} is named for array `{}` and for {other}", drive.display(), array.name))
        };
        array.drives.iter().filter_map(shared).collect()
    }
}

/// What is wrong with a file, with its name: before it, or above it where it is more than a line.
fn in_file(file: &Path, wrong: &str) -> String {
    let between = if wrong.contains('\n') { '\n' } else { ' ' };
    format!("{}:{between}{wrong}", file.display())
}

/// Where a drive is found that a file in `folder` names.
fn found_at(folder: &Path, path: &Path) -> PathBuf {
    match DriveName::of_path(path) {
        Ok(DriveName::Path(path)) => folder.join(path),
        _ => path.to_owned(),
    }
}

impl ArrayConfig {
    /// The storage class of what is stored there.
    pub fn class(&self) -> &str {
        self.class.as_deref().unwrap_or("STANDARD_IA")
    }
}
