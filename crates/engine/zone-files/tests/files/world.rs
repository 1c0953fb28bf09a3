//! The files as they have to be: names, bytes, and how many of them are durable.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use shingle_zone_files::{FileKind, FilesError, ZoneFiles};

/// A file of the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    /// Shared by all worlds that have them: a history keeps thousands.
    pub(crate) bytes: Rc<Vec<u8>>,
    /// So many of them are durable at least.
    pub(crate) synced: usize,
    pub(crate) kind: FileKind,
}

/// Names and files.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) dirs: BTreeSet<String>,
    /// File of each path.
    pub(crate) names: BTreeMap<String, u64>,
    pub(crate) files: BTreeMap<u64, Model>,
}

/// Worlds that a drive may hold: as it was before the change that is under way, or as it is after it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worlds {
    pub(crate) now: World,
    pub(crate) next: Option<World>,
}

/// The names on a drive.
struct Seen {
    dirs: BTreeSet<String>,
    /// Number and size of the file of each path.
    files: BTreeMap<String, (u64, u64)>,
}

fn look(files: &ZoneFiles) -> Seen {
    let (mut seen, mut left) = (Seen { dirs: BTreeSet::new(), files: BTreeMap::new() }, vec![String::new()]);
    while let Some(dir) = left.pop() {
        for entry in files.list(&dir).expect("a directory is listed") {
            let path = if dir.is_empty() { entry.name } else { format!("{dir}/{}", entry.name) };
            match entry.file {
                Some(info) => drop(seen.files.insert(path, (info.serial, info.size))),
                None => {
                    seen.dirs.insert(path.clone());
                    left.push(path);
                }
            }
        }
    }
    seen
}

impl World {
    /// Holds a drive's files against these. `explains` tells of an error of a read whether the drive's faults explain it.
    async fn verify(&self, files: &ZoneFiles, explains: &dyn Fn(&FilesError) -> bool) -> Result<Self, String> {
        let seen = look(files);
        if seen.dirs != self.dirs {
            return Err(format!("directories {:?}, not {:?}", seen.dirs, self.dirs));
        }
        let names: Vec<_> = seen.files.keys().collect();
        if !names.iter().copied().eq(self.names.keys()) {
            return Err(format!("names {names:?}, not {:?}", self.names.keys().collect::<Vec<_>>()));
        }
        let mut rebased = self.clone();
        let mut serials = BTreeMap::new();
        for (path, id) in &self.names {
            let (serial, size) = seen.files[path];
            if *serials.entry(*id).or_insert(serial) != serial {
                return Err(format!("`{path}` is another file than its links"));
            }
            let model = &self.files[id];
            let size = size as usize;
            if size < model.synced || size > model.bytes.len() {
                let (synced, appended) = (model.synced, model.bytes.len());
                return Err(format!(
                    "`{path}` ({:?}) has {size} bytes, {synced} were synced and {appended} appended",
                    model.kind
                ));
            }
            let file = files.open_file(path).map_err(|error| format!("`{path}`: {error}"))?;
            match file.read(0, size as u64 + 10).await {
                Ok(read) if read[..] == model.bytes[..size] => {}
                Ok(read) => {
                    let differs = read.iter().zip(model.bytes.iter()).position(|(a, b)| a != b);
                    return Err(format!(
                        "`{path}` ({:?}): {} bytes of {size}, wrong at {differs:?}",
                        model.kind,
                        read.len()
                    ));
                }
                Err(error) if explains(&error) => {}
                Err(error) => return Err(format!("`{path}`: {error}")),
            }
            let model = rebased.files.get_mut(id).expect("it has a model");
            Rc::make_mut(&mut model.bytes).truncate(size);
            model.synced = size;
        }
        let used: BTreeSet<u64> = self.names.values().copied().collect();
        rebased.files.retain(|id, _| used.contains(id));
        Ok(rebased)
    }
}

impl Worlds {
    /// Logs may have lost their ends.
    pub(crate) fn unsync_logs(&mut self) {
        let worlds = std::iter::once(&mut self.now).chain(&mut self.next);
        let logs = worlds.flat_map(|world| world.files.values_mut()).filter(|model| model.kind == FileKind::Wal);
        logs.for_each(|log| log.synced = 0);
    }

    /// Holds the files of a drive against both worlds, and goes on from the one that they are.
    pub(crate) async fn verify(
        &mut self,
        files: &ZoneFiles,
        explains: impl Fn(&FilesError) -> bool,
    ) -> Result<(), String> {
        let mut wrong = match self.now.verify(files, &explains).await {
            Ok(world) => {
                *self = Self { now: world, next: None };
                return Ok(());
            }
            Err(wrong) => wrong,
        };
        if let Some(next) = &self.next {
            match next.verify(files, &explains).await {
                Ok(world) => {
                    *self = Self { now: world, next: None };
                    return Ok(());
                }
                Err(other) => wrong = format!("before the change: {wrong}; after it: {other}"),
            }
        }
        Err(wrong)
    }
}
