//! Finding drives: the kernel's descriptions under `/sys`.
//!
//! **Owns** the reading of sysfs and of the tables of mounts and swap space. Opens no drive and needs no privilege.
//! **Knows nothing of** zones' states: only the drive itself has these.
//!
//! A drive may vanish while it is looked at: attributes that cannot be read are absent, never an error, but for the
//! drive asked for.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::drive::{Drive, WriteCache, ZonedModel};

/// Unit of sizes in sysfs, for drives of any block size.
const SECTOR_BYTES: u64 = 512;

/// Directories to look in: [`System::host`] for this machine; tests make trees of their own.
#[derive(Clone, Debug)]
pub struct System {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/dev`.
    pub dev: PathBuf,
    /// `/proc/self/mountinfo`.
    pub mountinfo: PathBuf,
    /// `/proc/swaps`.
    pub swaps: PathBuf,
    /// `/run/udev/data`: serial numbers that the kernel does not tell, if udev runs.
    pub udev: PathBuf,
}

impl System {
    /// This machine.
    pub fn host() -> Self {
        Self {
            sys: "/sys".into(),
            dev: "/dev".into(),
            mountinfo: "/proc/self/mountinfo".into(),
            swaps: "/proc/swaps".into(),
            udev: "/run/udev/data".into(),
        }
    }

    /// A machine whose whole tree (`sys`, `dev`, `proc`, `run`) lies under `root`.
    pub fn under(root: &Path) -> Self {
        Self {
            sys: root.join("sys"),
            dev: root.join("dev"),
            mountinfo: root.join("proc/self/mountinfo"),
            swaps: root.join("proc/swaps"),
            udev: root.join("run/udev/data"),
        }
    }

    /// All drives of any size, by name; no partitions, and no paths that the kernel hides behind another device.
    ///
    /// # Errors
    /// There is no `/sys/block`, or it cannot be read.
    pub fn discover(&self) -> io::Result<Vec<Drive>> {
        let block = self.sys.join("block");
        let mut names = Vec::new();
        for entry in fs::read_dir(&block)? {
            names.push(entry?.path());
        }
        names.sort_by_cached_key(|path| natural(&name_of(path)));
        let uses = self.uses();
        let drives = names.iter().filter_map(|path| self.read(path, &uses).ok());
        Ok(drives.filter(|drive| drive.size_bytes > 0 && !self.hidden(&drive.name)).collect())
    }

    /// The drive or partition whose node is at `path`, by whatever name or link.
    ///
    /// # Errors
    /// Nothing there, no block device, or one that sysfs does not know; the text says which.
    pub fn describe(&self, path: &Path) -> io::Result<Drive> {
        let metadata = fs::metadata(path)?;
        if !metadata.file_type().is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a block device"));
        }
        let number = metadata.rdev();
        self.describe_number((rustix::fs::major(number), rustix::fs::minor(number)))
    }

    /// The drive or partition with this device number.
    ///
    /// # Errors
    /// Sysfs knows of none.
    pub fn describe_number(&self, (major, minor): (u32, u32)) -> io::Result<Drive> {
        let link = self.sys.join(format!("dev/block/{major}:{minor}"));
        let directory = fs::canonicalize(link)?;
        self.read(&directory, &self.uses())
    }

    fn hidden(&self, name: &str) -> bool {
        flag(&self.sys.join("block").join(name), "hidden")
    }

    /// Reads the directory of a drive or partition.
    fn read(&self, directory: &Path, uses: &[Use]) -> io::Result<Drive> {
        let name = name_of(directory);
        let number = device_number(directory)
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{name}: no block device in sysfs")))?;
        // A partition's directory lies in that of its drive, once links are followed.
        let partition = number_in(directory, "partition");
        let whole = match partition {
            Some(_) => fs::canonicalize(directory)?.parent().map(Path::to_owned).unwrap_or_default(),
            None => directory.to_owned(),
        };
        let queue = whole.join("queue");
        // A device that joins paths has no attributes of the drive; each of the paths has them.
        let multipath = text(&whole, "dm/uuid").is_some_and(|uuid| uuid.starts_with("mpath-"));
        let said_by = if multipath { first_path(&whole).unwrap_or_else(|| whole.clone()) } else { whole.clone() };
        let device = said_by.join("device");
        let udev = self.udev_of(device_number(&said_by).filter(|_| multipath).unwrap_or(number));
        let parts = if partition.is_some() { Vec::new() } else { partitions(directory) };
        let mut holders = names_in(&directory.join("holders"));
        let mut numbers = vec![number];
        for part in &parts {
            holders.extend(names_in(&part.join("holders")));
            numbers.extend(device_number(part));
        }
        // The kernel writes `!` where a name has a slash (`cciss!c0d0`).
        let node_of = |name: &str| self.dev.join(name.replace('!', "/"));
        let mut nodes = vec![node_of(&name)];
        nodes.extend(parts.iter().map(|part| node_of(&name_of(part))));
        let in_use = |used: &&Use| numbers.contains(&used.number) || nodes.contains(&used.source);
        let mut mounts: Vec<PathBuf> = uses.iter().filter(in_use).map(|used| used.target.clone()).collect();
        holders.sort();
        holders.dedup();
        mounts.sort();
        mounts.dedup();
        let (scheduler, schedulers) = schedulers(&queue);
        let zone_size_bytes = sectors(&queue, "chunk_sectors");
        let zoned = match text(&queue, "zoned").as_deref() {
            Some("host-managed") => ZonedModel::HostManaged,
            Some("host-aware") => ZonedModel::HostAware,
            _ => ZonedModel::None,
        };
        let is_zoned = zoned != ZonedModel::None;
        let from_udev = |key: &str| udev.iter().find_map(|line| line.strip_prefix(key)).map(str::to_owned);
        Ok(Drive {
            node: node_of(&name),
            by_id: self.by_id(&node_of(&name)),
            number,
            partition,
            model: text(&device, "model"),
            // libata calls all makers `ATA`.
            vendor: text(&device, "vendor").filter(|vendor| vendor != "ATA" && !vendor.starts_with("0x")),
            serial: serial(&said_by, &device).or_else(|| from_udev("E:ID_SERIAL_SHORT=")),
            wwn: text(&said_by, "wwid").or_else(|| text(&device, "wwid")).or_else(|| from_udev("E:ID_WWN=")),
            uuid: text(&whole, "uuid").filter(|uuid| uuid.chars().any(|digit| !matches!(digit, '0' | '-'))),
            zoned,
            size_bytes: sectors(directory, "size").unwrap_or(0),
            logical_block_bytes: number_in(&queue, "logical_block_size").unwrap_or(SECTOR_BYTES as u32),
            physical_block_bytes: number_in(&queue, "physical_block_size").unwrap_or(SECTOR_BYTES as u32),
            zone_size_bytes: zone_size_bytes.filter(|_| is_zoned),
            zone_count: number_in(&queue, "nr_zones").filter(|_| is_zoned),
            max_open_zones: number_in(&queue, "max_open_zones").filter(|&limit| limit > 0),
            max_active_zones: number_in(&queue, "max_active_zones").filter(|&limit| limit > 0),
            zone_append_max_bytes: number_in(&queue, "zone_append_max_bytes").filter(|&limit| limit > 0),
            transfer_max_bytes: number_in::<u64>(&queue, "max_sectors_kb").and_then(|kib| kib.checked_mul(1024)),
            segments_max: number_in(&queue, "max_segments"),
            scheduler,
            schedulers,
            write_cache: match text(&queue, "write_cache").as_deref() {
                Some("write back") => Some(WriteCache::WriteBack),
                Some("write through") => Some(WriteCache::WriteThrough),
                _ => None,
            },
            nr_requests: number_in(&queue, "nr_requests"),
            rotational: flag(&queue, "rotational"),
            removable: flag(&whole, "removable"),
            read_only: flag(directory, "ro"),
            partitions: parts.iter().map(|part| name_of(part)).collect(),
            holders,
            multipath,
            mounts,
            name,
        })
    }

    /// All that is mounted or swapped to.
    fn uses(&self) -> Vec<Use> {
        let mounts = fs::read_to_string(&self.mountinfo).unwrap_or_default();
        let swaps = fs::read_to_string(&self.swaps).unwrap_or_default();
        let swapped = swaps.lines().skip(1).filter_map(|line| {
            let source = unescape(line.split_whitespace().next()?);
            Some(Use { number: (0, 0), source: source.into(), target: "[swap]".into() })
        });
        mounts.lines().filter_map(mount).chain(swapped).map(|used| self.resolved(used)).collect()
    }

    /// A mount may name its device by a link (`/dev/disk/by-uuid/...`).
    fn resolved(&self, used: Use) -> Use {
        let source = if used.source.starts_with(&self.dev) { fs::canonicalize(&used.source).ok() } else { None };
        Use { source: source.unwrap_or(used.source), ..used }
    }

    fn by_id(&self, node: &Path) -> Vec<PathBuf> {
        let Ok(node) = fs::canonicalize(node) else { return Vec::new() };
        let Ok(entries) = fs::read_dir(self.dev.join("disk/by-id")) else { return Vec::new() };
        let links = entries.flatten().map(|entry| entry.path());
        let mut links: Vec<PathBuf> =
            links.filter(|link| fs::canonicalize(link).is_ok_and(|target| target == node)).collect();
        links.sort();
        links
    }

    fn udev_of(&self, (major, minor): (u32, u32)) -> Vec<String> {
        let text = fs::read_to_string(self.udev.join(format!("b{major}:{minor}"))).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// A mount, or swap space.
struct Use {
    number: (u32, u32),
    /// Source of the mount: some file systems (btrfs) show a device number of their own.
    source: PathBuf,
    target: PathBuf,
}

/// A line of `mountinfo`: `36 35 98:0 /root /target options - type source options`, see proc(5).
fn mount(line: &str) -> Option<Use> {
    let (first, last) = line.split_once(" - ")?;
    let mut first = first.split(' ').skip(2);
    let number = parse_number(first.next()?)?;
    let target = unescape(first.nth(1)?);
    let source = unescape(last.split(' ').nth(1)?);
    Some(Use { number, source: source.into(), target: target.into() })
}

/// Blanks and backslashes are written as three octal digits.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let digits = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match digits.filter(u8::is_ascii) {
            Some(byte) => {
                out.push(char::from(byte));
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out + rest
}

/// `8:16`.
fn parse_number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn device_number(directory: &Path) -> Option<(u32, u32)> {
    parse_number(&text(directory, "dev")?)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// An attribute; `None` where it is absent or empty.
fn text(directory: &Path, attribute: &str) -> Option<String> {
    printable(&fs::read(directory.join(attribute)).ok()?)
}

/// Bytes as text without blanks at its ends; `None` if there is none. Model and serial number are the drive's own
/// words, which the kernel hands on as they are: a control character becomes a question mark.
fn printable(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
    let plain = |letter: char| if letter.is_control() { '?' } else { letter };
    (!text.is_empty()).then(|| text.chars().map(plain).collect())
}

fn number_in<T: std::str::FromStr>(directory: &Path, attribute: &str) -> Option<T> {
    text(directory, attribute)?.parse().ok()
}

fn sectors(directory: &Path, attribute: &str) -> Option<u64> {
    number_in::<u64>(directory, attribute)?.checked_mul(SECTOR_BYTES)
}

fn flag(directory: &Path, attribute: &str) -> bool {
    number_in::<u32>(directory, attribute).is_some_and(|value| value != 0)
}

/// `none [mq-deadline] kyber`: the one in brackets is in use.
fn schedulers(queue: &Path) -> (Option<String>, Vec<String>) {
    let list = text(queue, "scheduler").unwrap_or_default();
    let mut used = None;
    let names = list.split_whitespace().map(|name| match name.strip_prefix('[') {
        Some(name) => {
            let name = name.trim_end_matches(']').to_owned();
            used = Some(name.clone());
            name
        }
        None => name.to_owned(),
    });
    let names = names.collect();
    (used, names)
}

/// NVMe and virtio drives have a serial number in sysfs; that of a SCSI or ATA drive is in page 0x80 of its product
/// data, behind a head of four bytes.
fn serial(whole: &Path, device: &Path) -> Option<String> {
    let page = || printable(fs::read(device.join("vpd_pg80")).ok()?.get(4..)?);
    text(device, "serial").or_else(|| text(whole, "serial")).or_else(page)
}

/// The directory of the first of the drives that a multipath device joins.
fn first_path(whole: &Path) -> Option<PathBuf> {
    let mut names = names_in(&whole.join("slaves"));
    names.sort_by_cached_key(|name| natural(name));
    fs::canonicalize(whole.join("slaves").join(names.first()?)).ok()
}

/// Directories of a drive's partitions, in order.
fn partitions(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut parts: Vec<PathBuf> = paths.filter(|path| path.join("partition").exists()).collect();
    parts.sort_by_cached_key(|path| natural(&name_of(path)));
    parts
}

fn names_in(directory: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Sorts drives of a kind together, `sda10` behind `sda9`, and `sdaa` behind `sdz`.
fn natural(name: &str) -> Vec<(usize, String)> {
    let mut runs: Vec<(usize, String)> = vec![(0, name.chars().take(2).collect())];
    let mut digits = None;
    for letter in name.chars() {
        if digits != Some(letter.is_ascii_digit()) {
            runs.push((0, String::new()));
            digits = Some(letter.is_ascii_digit());
        }
        if let Some((length, run)) = runs.last_mut() {
            *length += 1;
            run.push(letter);
        }
    }
    runs
}

#[cfg(test)]
mod tests;
