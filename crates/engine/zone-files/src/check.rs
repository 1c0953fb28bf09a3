//! Whole verification, and a view of zones and files for people.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use shingle_base::{Blocks, ZoneId};

use crate::error::{FilesErrorKind, FilesResult};
use crate::files::ZoneFiles;
use crate::handle::FileInfo;
use crate::tree::{Child, ROOT};
use crate::write::{COPIES, LOGS, OWN};
use crate::zones::Status;

/// Bytes that a check reads at a time.
const STEP: u64 = 1 << 20;

/// Damage of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDamage {
    /// The first of its names.
    pub path: String,
    /// Bytes that cannot be read.
    pub bytes: Range<u64>,
    /// The reason, with the place on the drive.
    pub reason: String,
}

impl fmt::Display for FileDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = shingle_base::printable(self.path.as_bytes());
        write!(f, "`{path}`: bytes {} to {}: {}", self.bytes.start, self.bytes.end.saturating_sub(1), self.reason)
    }
}

/// A data zone with its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneDump {
    /// The zone.
    pub zone: ZoneId,
    /// Files that it is for: `logs`, `copies`, a lifetime, `one file`; or `free`, `dead`.
    pub use_of: &'static str,
    /// It is written to.
    pub open: bool,
    /// Its generation.
    pub epoch: u64,
    /// Blocks written.
    pub written: u32,
    /// Bytes of blocks that files need.
    pub live_bytes: u64,
    /// Paths of the files in it, and bytes of blocks of each.
    pub files: Vec<(String, u64)>,
}

/// Names of streams.
const USES: [&str; OWN + 1] = ["logs", "copies", "small files", "short", "medium", "long", "extreme", "one file"];

const _: () = assert!(LOGS == 0 && COPIES == 1);

impl ZoneFiles {
    /// All files with their first path, in the order of paths. A file without a name is not among them.
    pub fn walk(&self) -> Vec<(String, FileInfo)> {
        let mut files: BTreeMap<u64, String> = BTreeMap::new();
        let state = self.engine().state.borrow();
        let mut left = vec![(ROOT, String::new())];
        while let Some((dir, path)) = left.pop() {
            for (name, child) in state.tree.dir(dir).into_iter().flat_map(|dir| dir.entries.iter()) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                match *child {
                    Child::Dir(dir) => left.push((dir, path)),
                    Child::File(serial) => {
                        let first = files.entry(serial).or_insert_with(|| path.clone());
                        if path < *first {
                            *first = path;
                        }
                    }
                }
            }
        }
        drop(state);
        let with_info = |(serial, path)| self.engine().info(serial).map(|info| (path, info));
        let mut files: Vec<_> = files.into_iter().filter_map(with_info).collect();
        files.sort_by(|a, b| a.0.cmp(&b.0));
        files
    }

    /// Reads and verifies all bytes of all files, and returns the damage.
    ///
    /// # Errors
    /// `Unavailable` if the drive is gone.
    pub async fn check(&self) -> FilesResult<Vec<FileDamage>> {
        let mut damage: Vec<FileDamage> = Vec::new();
        for (path, info) in self.walk() {
            let Ok(file) = self.open_file(&path) else { continue };
            let mut at = 0;
            while at < info.size {
                let end = info.size.min(at + STEP);
                if file.read(at, end - at).await.is_ok() {
                    at = end;
                    continue;
                }
                // Slice by slice, to tell which.
                while at < end {
                    let next = end.min((at / 4096 + 1) * 4096);
                    match file.read(at, next - at).await {
                        Ok(_) => {}
                        Err(error) if error.kind == FilesErrorKind::Unavailable => return Err(error),
                        Err(error) => add(&mut damage, &path, at..next, error.message.as_ref()),
                    }
                    at = next;
                }
            }
        }
        Ok(damage)
    }

    /// The data zones and their uses, without the files in them: for a picture.
    pub fn zone_map(&self) -> Vec<ZoneDump> {
        self.zones_with(BTreeMap::new())
    }

    /// The data zones with what is in them.
    pub fn dump(&self) -> Vec<ZoneDump> {
        let mut held: BTreeMap<ZoneId, Vec<(String, u64)>> = BTreeMap::new();
        for (path, info) in self.walk() {
            let state = self.engine().state.borrow();
            let Some(node) = state.tree.file(info.serial) else { continue };
            for (zone, blocks) in node.extents.blocks_by_zone() {
                held.entry(zone).or_default().push((path.clone(), Blocks(blocks).bytes()));
            }
        }
        self.zones_with(held)
    }

    fn zones_with(&self, mut held: BTreeMap<ZoneId, Vec<(String, u64)>>) -> Vec<ZoneDump> {
        let state = self.engine().state.borrow();
        let zones = state.zones.iter().map(|(zone, entry)| ZoneDump {
            zone,
            use_of: match entry.status {
                Status::Free => "free",
                Status::Dead => "dead",
                Status::Open | Status::Closed => USES.get(usize::from(entry.stream)).copied().unwrap_or("unknown"),
            },
            open: entry.status == Status::Open,
            epoch: entry.epoch,
            written: entry.next,
            live_bytes: Blocks(entry.live).bytes(),
            files: held.remove(&zone).unwrap_or_default(),
        });
        zones.collect()
    }
}

/// Adds damaged bytes to those before them, if both are one.
fn add(damage: &mut Vec<FileDamage>, path: &str, bytes: Range<u64>, reason: &str) {
    match damage.last_mut() {
        Some(last) if last.path == path && last.bytes.end == bytes.start => last.bytes.end = bytes.end,
        _ => damage.push(FileDamage { path: path.to_owned(), bytes, reason: reason.to_owned() }),
    }
}
