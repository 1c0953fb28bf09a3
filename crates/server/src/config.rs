//! What can be set, in one TOML file. An unknown or ill-typed field is an error that names its line.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error as _};
use shingle_base::{BLOCK_SIZE, Blocks, ByteSize};
use shingle_runtime::memory::Memory;
use shingle_zoned::Geometry;

use crate::access_log::Place;
use crate::engines::CHUNKS;
use crate::error::{Error, ErrorKind, Result};
use crate::inventory::DriveName;
use crate::server::log_levels;

/// The least memory for bodies, by connection: with less, pieces would be too small to be worth their handling.
const CONNECTION_BYTES_MIN: u64 = 128 << 10;

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
    /// `Config`, with the line; `System` if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::system(format_args!("the configuration {}", path.display()), error))?;
        Self::parse(&text).map_err(|error| Error::new(error.kind, format!("{}: {}", path.display(), error.message)))
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// `Config`, with the line.
    pub fn parse(text: &str) -> Result<Self> {
        let config: Self =
            toml::from_str(text).map_err(|error| Error::new(ErrorKind::Config, error.to_string().trim_end()))?;
        config.validate()?;
        Ok(config)
    }

    /// Says at once all that is wrong.
    fn validate(&self) -> Result<()> {
        let mut wrong = Vec::new();
        self.find_wrong_drives(&mut wrong);
        self.find_wrong_arrays(&mut wrong);
        if self.region.is_empty() || !self.region.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
            wrong.push(format!("region `{}` is none: letters, digits and dashes", self.region));
        }
        if self.access_log.is_empty() {
            wrong.push("access_log is empty: write off, log, or a file".to_owned());
        }
        wrong.extend(log_levels(&self.log).err().map(|error| error.message));
        if self.limits.connections == 0 {
            wrong.push("limits.connections is 0, which lets nobody in".to_owned());
        }
        let least = (self.limits.connections as u64).saturating_mul(CONNECTION_BYTES_MIN);
        if self.limits.memory < least {
            wrong.push(format!(
                "limits.memory is {}, too little for {} connections: {} at least, or fewer connections",
                ByteSize(self.limits.memory),
                self.limits.connections,
                ByteSize(least)
            ));
        }
        if wrong.is_empty() { Ok(()) } else { Err(Error::new(ErrorKind::Config, wrong.join("\n"))) }
    }

    fn find_wrong_drives(&self, wrong: &mut Vec<String>) {
        for (index, drive) in self.drives.iter().enumerate() {
            if self.drives.iter().take(index).any(|other| other.path == drive.path) {
                wrong.push(format!("the drive {} is named twice", drive.path.display()));
            }
            match DriveName::of_path(&drive.path) {
                Err(error) => wrong.push(format!("the drive {} cannot be: {error}", drive.path.display())),
                Ok(DriveName::Path(_)) => {}
                Ok(name) if drive.create.is_some() => {
                    wrong.push(format!("the drive {name} cannot be made: only emulated drives are, by their files"));
                }
                Ok(_) => {}
            }
            if let Some(Err(error)) = drive.create.as_ref().map(Shape::geometry) {
                wrong.push(format!("the drive {} cannot be made: {error}", drive.path.display()));
            }
        }
    }

    fn find_wrong_arrays(&self, wrong: &mut Vec<String>) {
        for (index, array) in self.arrays.iter().enumerate() {
            wrong.extend(array.validate().err().map(|why| format!("array `{}`: {why}", array.name)));
            if array.name == self.region {
                wrong
                    .push(format!("array `{}` has the region's name: a bucket's location would mean both", array.name));
            }
            for other in self.arrays.iter().take(index) {
                if other.name == array.name {
                    wrong.push(format!("two arrays are called `{}`", array.name));
                }
                if other.class() == array.class() {
                    let (one, two, class) = (&other.name, &array.name, array.class());
                    wrong.push(format!(
                        "the arrays `{one}` and `{two}` have the same class, {class}: give each its own"
                    ));
                }
            }
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
    /// `Config` if a file makes no sense or two arrays share a drive; `System` if one cannot be read.
    pub(crate) fn arrays(&self) -> Result<Vec<ArrayConfig>> {
        let mut arrays: Vec<ArrayConfig> = Vec::new();
        for array in &self.arrays {
            let mut array = array.clone();
            match array.file.as_deref().map(|file| self.data.join(file)) {
                None => {
                    array.drives = array.drives.iter().map(|path| found_at(&self.data, path)).collect();
                    array.index = array.index.map(|index| self.data.join(index));
                    array.buffer = array.buffer.map(|files| files.map(|path| self.data.join(path)));
                }
                Some(file) => {
                    let text = std::fs::read_to_string(&file).map_err(|error| Error::system(file.display(), error))?;
                    let wrong = |error: &dyn std::fmt::Display| {
                        Error::new(ErrorKind::Config, format!("{}: {error}", file.display()))
                    };
                    let said: ArrayFile = toml::from_str(&text).map_err(|error| wrong(&error))?;
                    let folder = file.parent().unwrap_or(Path::new(""));
                    array.drives = said.drives.iter().map(|path| found_at(folder, path)).collect();
                    let index = array.index.map(|index| self.data.join(index));
                    array.index = index.or(said.index.map(|index| folder.join(index)));
                    let buffer = array.buffer.map(|files| files.map(|path| self.data.join(path)));
                    array.buffer = buffer.or(said.buffer.map(|files| files.map(|path| folder.join(path))));
                    array.buffer_time_s = array.buffer_time_s.or(said.buffer_time_s);
                    array.validate_drives().map_err(|error| wrong(&error))?;
                }
            }
            for drive in &array.drives {
                let with_another = arrays.iter().find(|other| other.drives.contains(drive));
                let alone = self.drives().iter().any(|other| other.path == *drive);
                if alone || with_another.is_some() {
                    let other = with_another.map_or("[[drive]]".to_owned(), |other| format!("array `{}`", other.name));
                    let (drive, name) = (drive.display(), &array.name);
                    let message = format!("the drive {drive} is named for array `{name}` and for {other}");
                    return Err(Error::new(ErrorKind::Config, message));
                }
            }
            arrays.push(array);
        }
        Ok(arrays)
    }
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

    fn validate(&self) -> std::result::Result<(), String> {
        let plain = |c: u8| c.is_ascii_alphanumeric() || c == b'-';
        if self.name.is_empty() || self.name.len() > 32 || !self.name.bytes().all(plain) {
            return Err("a name has 1 to 32 letters, digits and dashes".to_owned());
        }
        if self.name == CHUNKS {
            return Err(format!("`{CHUNKS}` is the name of what the [[drive]]s are together"));
        }
        let class = self.class();
        let plain = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
        if class.is_empty() || class.len() > 32 || !class.bytes().all(plain) {
            return Err(format!("class `{class}` is none: 1 to 32 capital letters, digits and underscores"));
        }
        if matches!(class, "STANDARD" | "GLACIER" | "DEEP_ARCHIVE") {
            return Err(format!(
                "the class cannot be {class}: STANDARD is what has no class, and clients do not read the others before \
                 they were restored, which is not needed here; STANDARD_IA and GLACIER_IR are read at once"
            ));
        }
        match (&self.file, self.drives.is_empty()) {
            (Some(_), false) => Err("name its file or its drives, not both".to_owned()),
            (None, true) => Err("name its file, which `shingle array format` wrote, or its drives".to_owned()),
            (Some(_), true) => Ok(()),
            (None, false) => self.validate_drives(),
        }
    }

    fn validate_drives(&self) -> std::result::Result<(), String> {
        if self.drives.is_empty() {
            return Err("it names no drives".to_owned());
        }
        for (index, drive) in self.drives.iter().enumerate() {
            if self.drives.iter().take(index).any(|other| other == drive) {
                return Err(format!("the drive {} is named twice", drive.display()));
            }
            DriveName::of_path(drive).map_err(|error| format!("the drive {} cannot be: {error}", drive.display()))?;
        }
        Ok(())
    }
}

/// A number of bytes, or text such as `256 MiB`.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<u64, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Size {
        Bytes(u64),
        Text(String),
    }
    match Size::deserialize(deserializer)? {
        Size::Bytes(bytes) => Ok(bytes),
        Size::Text(text) => text.parse::<ByteSize>().map(|size| size.0).map_err(D::Error::custom),
    }
}

fn maybe_size<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<u64>, D::Error> {
    size(deserializer).map(Some)
}

/// A time such as `30 days`, or `off`.
fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bad = || D::Error::custom(format!("`{text}` is no time: write `30 days`, `12 hours`, or `off`"));
    let trimmed = text.trim();
    if trimmed == "off" {
        return Ok(None);
    }
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let (number, unit) = trimmed.split_at(digits);
    let seconds = match unit.trim().trim_end_matches('s') {
        "" if unit.trim() == "s" => 1,
        "sec" | "second" => 1,
        "min" | "minute" => 60,
        "h" | "hour" => 60 * 60,
        "d" | "day" => 24 * 60 * 60,
        "week" => 7 * 24 * 60 * 60,
        _ => return Err(bad()),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    // What is longer than a life is a mistake, and no clock goes so far.
    let seconds = seconds.filter(|seconds| (1..=100 * 365 * 24 * 60 * 60).contains(seconds)).ok_or_else(bad)?;
    Ok(Some(Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let text = "log = \"verbose\"\nregion = \"a b\"\n[[drive]]\npath = \"uuid:12\"\n[[array]]\nname = \"a\"";
        let said = Config::parse(text).unwrap_err().message;
        for word in ["verbose", "region", "identifier", "name its file"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert_eq!(said.lines().count(), 4);
    }

    #[test]
    fn levels_of_the_log_are_known_words() {
        for text in ["info", "off", "WARN", "info,shingle_object_store=debug", "error, s3s=trace"] {
            assert!(Config::parse(&format!("log = \"{text}\"")).is_ok(), "{text}");
        }
    }

    #[test]
    fn everything_can_be_left_out() {
        let config = Config::parse("").unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:9000");
        assert!(config.admin.is_none());
        let drives = config.drives();
        assert_eq!(drives.len(), 2);
        assert_eq!(drives[0].path, Path::new("shingle-data/drive-0.zoned"));
        assert!(Shape::default().geometry().is_ok());
    }

    #[test]
    fn everything_can_be_set() {
        let text = r#"
            listen = "[::1]:9000"
            data = "/srv/shingle"
            region = "eu-test-1"
            domain = "s3.test"
            log = "debug"
            access_log = "access.jsonl"
            admin = "127.0.0.1:9001"
            allow_missing_drives = true
            drive_wait = "2 min"
            index_cache = 1048576
            [[drive]]
            path = "a.zoned"
            [[drive]]
            path = "/mnt/b.zoned"
            create = { zone_size = "64 MiB", zone_capacity = "48 MiB", zones = 32, conventional_zones = 0, open_zones_max = 14, active_zones_max = 14 }
            [limits]
            connections = 8
            memory = "64 MiB"
            head_timeout_s = 1
            stall_timeout_s = 2
            reader_rate_min = "4 KiB"
            writer_rate_min = 0
            shutdown_grace_s = 3
        "#;
        let config = Config::parse(text).unwrap();
        let drives = config.drives();
        assert_eq!(drives[0].path, Path::new("/srv/shingle/a.zoned"));
        assert_eq!(drives[1].path, Path::new("/mnt/b.zoned"));
        let geometry = drives[1].create.unwrap().geometry().unwrap();
        assert_eq!(geometry.zone_capacity.bytes(), 48 << 20);
        assert_eq!(geometry.active_zones_max, Some(14));
        assert_eq!(config.access_log(), Some(Place::File("/srv/shingle/access.jsonl".into())));
        assert_eq!(config.drive_wait, Some(Duration::from_secs(120)));
        assert_eq!((config.limits.reader_rate_min, config.limits.writer_rate_min), (4096, 0));
        assert_eq!((config.limits.memory, config.memory().share()), (64 << 20, 1364 << 10));
    }

    #[test]
    fn names_of_drives_are_not_looked_for_in_the_data_directory() {
        let config = Config::parse("[[drive]]\npath = \"serial:Z1\"\n[[drive]]\npath = \"./serial:Z1\"").unwrap();
        let drives = config.drives();
        assert_eq!(drives[0].path, Path::new("serial:Z1"));
        assert_eq!(drives[1].path, Path::new("shingle-data/./serial:Z1"));
    }

    #[test]
    fn with_arrays_no_drives_are_made_and_no_drive_is_in_two_places() {
        let config = Config::parse("[[array]]\nname = \"shelf\"\ndrives = [\"x\", \"serial:Z1\"]").unwrap();
        assert!(config.drives().is_empty());
        let arrays = config.arrays().unwrap();
        assert_eq!(arrays[0].drives, [Path::new("shingle-data/x"), Path::new("serial:Z1")]);
        assert_eq!((arrays[0].class(), arrays[0].degraded, arrays[0].rebuild_rate), ("STANDARD_IA", true, None));
        let rate = "[[array]]\nname = \"shelf\"\ndrives = [\"x\"]\nrebuild_rate = \"50 MiB\"";
        assert_eq!(Config::parse(rate).unwrap().arrays().unwrap()[0].rebuild_rate, Some(50 << 20));
        let scrub = |text: &str| {
            let text = format!("[[array]]\nname = \"shelf\"\ndrives = [\"x\"]\n{text}");
            Config::parse(&text).map(|config| config.arrays[0].scrub_interval.map(|time| time.as_secs()))
        };
        assert_eq!(scrub("").unwrap(), Some(30 * 24 * 3600));
        for (text, seconds) in
            [("90 days", 90 * 24 * 3600), ("1 day", 86_400), ("12h", 43_200), ("2 s", 2), ("1week", 604_800)]
        {
            assert_eq!(scrub(&format!("scrub_interval = \"{text}\"")).unwrap(), Some(seconds), "{text}");
        }
        assert_eq!(scrub("scrub_interval = \"off\"").unwrap(), None);
        for wrong in ["", "30", "days", "0 days", "-1 day", "3 months", "1000000 days", "99999999999999999999 s"] {
            assert!(
                scrub(&format!("scrub_interval = \"{wrong}\"")).unwrap_err().message.contains("no time"),
                "{wrong}"
            );
        }
        let shared = "[[drive]]\npath = \"x\"\n[[array]]\nname = \"shelf\"\ndrives = [\"x\"]";
        assert!(Config::parse(shared).unwrap().arrays().unwrap_err().message.contains("[[drive]]"));
        let shared =
            "[[array]]\nname = \"a\"\ndrives = [\"x\"]\n[[array]]\nname = \"b\"\nclass = \"B\"\ndrives = [\"x\"]";
        assert!(Config::parse(shared).unwrap().arrays().unwrap_err().message.contains("array `a`"));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let cases = [
            ("listen = \"127.0.0.1:9000\"\nlisten_port = 1", "line 2", "listen_port"),
            ("\n\nlisten = \"nowhere\"", "line 3", "socket address"),
            ("index_cache = \"12 parsecs\"", "line 1", "12 parsecs"),
            ("[[drive]]\npath = \"x\"\ncreate = { zones = 4, colour = 1 }", "line 3", "colour"),
            ("[limits]\nconnections = \"many\"", "line 2", "many"),
            ("listen = ", "line 1", ""),
        ];
        for (text, line, word) in cases {
            let error = Config::parse(text).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Config);
            assert!(error.message.contains(line) && error.message.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let cases = [
            ("[[drive]]\npath = \"x\"\n[[drive]]\npath = \"x\"", "twice"),
            ("[[drive]]\npath = \"x\"\ncreate = { zone_size = 5000 }", "multiple"),
            ("[[drive]]\npath = \"x\"\ncreate = { zones = 2, conventional_zones = 3 }", "more conventional"),
            ("[[drive]]\npath = \"uuid:12\"", "identifier"),
            ("[[drive]]\npath = \"serial:\"", "without a serial"),
            ("[[drive]]\npath = \"serial:Z1\"\ncreate = { zones = 64 }", "only emulated"),
            ("region = \"a b\"", "region"),
            ("limits = { connections = 0 }", "nobody"),
            ("limits = { memory = \"16 MiB\" }", "too little for 1024 connections: 128 MiB"),
            ("log = \"verbose\"", "`verbose` is no level"),
            ("log = \"info,shingle_server=loud\"", "`loud` is no level"),
            ("log = \"\"", "no level"),
            ("log = \"3\"", "no level"),
            ("log = \"=info\"", "no name"),
            ("access_log = \"\"", "access_log"),
            ("[[array]]\nname = \"a b\"\ndrives = [\"x\"]", "letters"),
            ("[[array]]\nname = \"a\"", "name its file"),
            ("[[array]]\nname = \"a\"\nfile = \"f\"\ndrives = [\"x\"]", "not both"),
            ("[[array]]\nname = \"a\"\ndrives = [\"x\", \"x\"]", "twice"),
            ("[[array]]\nname = \"us-east-1\"\ndrives = [\"x\"]", "region"),
            ("[[array]]\nname = \"a\"\nclass = \"GLACIER\"\ndrives = [\"x\"]", "GLACIER_IR"),
            ("[[array]]\nname = \"a\"\nclass = \"cold\"\ndrives = [\"x\"]", "capital"),
            ("[[array]]\nname = \"a\"\ndrives = [\"x\"]\n[[array]]\nname = \"a\"\ndrives = [\"y\"]", "two arrays"),
            ("[[array]]\nname = \"a\"\ndrives = [\"x\"]\n[[array]]\nname = \"b\"\ndrives = [\"y\"]", "same class"),
        ];
        for (text, word) in cases {
            let error = Config::parse(text).unwrap_err();
            assert!(error.message.contains(word), "{text}: {error}");
        }
    }
}
