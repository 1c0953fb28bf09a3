//! Directories and files: names, and what each file is made of. Changed by operations alone, while the engine runs and when it opens.
//!
//! # Invariants
//! - ZF-TREE-1: a file has as many names as its `links` says; one without names is in no directory, and lives for its handles alone.
//! - ZF-TREE-2: the directories are one tree below the root.
//! - ZF-TREE-3: what is known by a path is known by its parts, so that paths which lead to one file are one. A `..` is no part of any.
//! - ZF-TREE-4: no entry of the journal has a name that no opening takes.

use std::collections::{BTreeMap, BTreeSet};

use shingle_runtime::UnixTime;

use crate::config::{FileKind, WriteLifetime};
use crate::error::{FilesError, FilesErrorKind, FilesResult, shown};
use crate::extent::{Extent, Extents};
use crate::format::{NAME_MAX, Op};
use crate::paged::PagedMap;

/// Number of the root directory.
pub(crate) const ROOT: u64 = 1;

/// Bytes of metadata that a file or directory takes in a checkpoint, beside names and extents.
const NODE_BYTES: u64 = 64;

/// Bytes that an extent takes in a checkpoint at most.
const EXTENT_BYTES: u64 = 24;

/// A name's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Child {
    Dir(u64),
    File(u64),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Dir {
    pub(crate) parent: u64,
    pub(crate) entries: PagedMap<String, Child>,
}

/// A file's metadata.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kind: FileKind,
    pub(crate) lifetime: WriteLifetime,
    pub(crate) created: UnixTime,
    pub(crate) modified: UnixTime,
    /// Names that it has. (ZF-TREE-1)
    pub(crate) links: u32,
    pub(crate) extents: Extents,
}

/// All directories and files. A copy costs little, and stays as it is. (ZF-PAGE-2)
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    dirs: PagedMap<u64, Dir>,
    files: PagedMap<u64, Node>,
    /// Bytes of all names, with their entries' other fields.
    name_bytes: u64,
}

impl Default for Tree {
    fn default() -> Self {
        let mut dirs = PagedMap::default();
        dirs.insert(ROOT, Dir { parent: ROOT, entries: PagedMap::default() });
        Self { dirs, files: PagedMap::default(), name_bytes: 0 }
    }
}

/// An operation that does not fit the tree: a bug, or metadata that make no sense.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit;

fn name_bytes(name: &str) -> u64 {
    name.len() as u64 + NODE_BYTES / 2
}

impl Tree {
    pub(crate) fn file(&self, serial: u64) -> Option<&Node> {
        self.files.get(&serial)
    }

    pub(crate) fn file_mut(&mut self, serial: u64) -> Option<&mut Node> {
        self.files.get_mut(&serial)
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (u64, &Node)> {
        self.files.iter().map(|(serial, node)| (*serial, node))
    }

    /// Gives `each` the extents of files from number `from` on, of as many files as have about `most` extents, one at least. Returns the
    /// number at which the next ones begin; `None` at the end.
    pub(crate) fn some_extents(&self, from: u64, most: usize, mut each: impl FnMut(u64, &Extent)) -> Option<u64> {
        let mut seen = 0;
        for (serial, node) in self.files.from(&from) {
            if seen >= most {
                return Some(*serial);
            }
            // A file without extents takes its time, too.
            seen += 1 + node.extents.len();
            node.extents.iter().for_each(|extent| each(*serial, extent));
        }
        None
    }

    pub(crate) fn dir(&self, serial: u64) -> Option<&Dir> {
        self.dirs.get(&serial)
    }

    pub(crate) fn remove_file(&mut self, serial: u64) -> Option<Node> {
        self.files.remove(&serial)
    }

    /// Files and directories, but for the root.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.files.len() as u64, self.dirs.len() as u64 - 1)
    }

    /// Bytes of a checkpoint of all this at most, with `extents` extents.
    pub(crate) fn checkpoint_bytes(&self, extents: u64) -> u64 {
        let nodes = (self.files.len() + self.dirs.len()) as u64;
        nodes * NODE_BYTES + self.name_bytes + extents * EXTENT_BYTES
    }

    /// The owner of a path, from the root.
    pub(crate) fn find(&self, path: &str) -> FilesResult<Child> {
        let mut at = Child::Dir(ROOT);
        for name in parts(path) {
            let Child::Dir(dir) = at else { return Err(not_a_directory(path)) };
            let entry = self.dirs.get(&dir).and_then(|dir| dir.entries.get(name));
            at = *entry.ok_or_else(|| FilesError::not_found(path))?;
        }
        Ok(at)
    }

    /// The directory of a path, and its last part.
    pub(crate) fn place<'p>(&self, path: &'p str) -> FilesResult<(u64, &'p str)> {
        let trimmed = path.trim_end_matches('/');
        let (dir, name) = trimmed.rsplit_once('/').unwrap_or(("", trimmed));
        if name == "." || name == ".." {
            return Err(no_name(path));
        }
        let name = checked_name(name)?;
        match self.find(dir)? {
            Child::Dir(parent) => Ok((parent, name)),
            Child::File(_) => Err(not_a_directory(path)),
        }
    }

    pub(crate) fn entry(&self, parent: u64, name: &str) -> Option<Child> {
        self.dirs.get(&parent)?.entries.get(name).copied()
    }

    /// True if `dir` is `other`, or lies below it.
    pub(crate) fn is_below(&self, dir: u64, other: u64) -> bool {
        let mut at = dir;
        // A tree has no circle, and metadata that make one are refused; the count bounds it all the same.
        for _ in 0..=self.dirs.len() {
            if at == other {
                return true;
            }
            match self.dirs.get(&at) {
                Some(above) if at != ROOT => at = above.parent,
                _ => return false,
            }
        }
        true
    }

    /// Happens to the tree. Returns the file that lost a name.
    pub(crate) fn apply(&mut self, op: &Op) -> Result<Option<u64>, Misfit> {
        match op {
            Op::MakeDir { serial, parent, name } => {
                if self.dirs.has(serial) || self.files.has(serial) {
                    return Err(Misfit);
                }
                self.enter(*parent, name, Child::Dir(*serial))?;
                self.dirs.insert(*serial, Dir { parent: *parent, entries: PagedMap::default() });
                Ok(None)
            }
            Op::Create { serial, parent, name, kind, lifetime, time } => {
                if self.dirs.has(serial) || self.files.has(serial) {
                    return Err(Misfit);
                }
                let lost = self.vacate(*parent, name)?;
                self.enter(*parent, name, Child::File(*serial))?;
                let (kind, lifetime, extents) = (*kind, *lifetime, Extents::default());
                let node = Node { kind, lifetime, created: *time, modified: *time, links: 1, extents };
                self.files.insert(*serial, node);
                Ok(lost)
            }
            Op::Link { serial, parent, name } => {
                if self.entry(*parent, name).is_some() {
                    return Err(Misfit);
                }
                let node = self.files.get_mut(serial).ok_or(Misfit)?;
                node.links = node.links.checked_add(1).ok_or(Misfit)?;
                self.enter(*parent, name, Child::File(*serial))?;
                Ok(None)
            }
            Op::Unlink { parent, name } => match self.entry(*parent, name) {
                Some(Child::File(_)) => self.vacate(*parent, name),
                _ => Err(Misfit),
            },
            Op::RemoveDir { parent, name } => match self.entry(*parent, name) {
                Some(Child::Dir(_)) => self.vacate(*parent, name),
                _ => Err(Misfit),
            },
            Op::Rename { parent, name, to_parent, to_name } => self.rename(*parent, name, *to_parent, to_name),
            Op::Place { serial, time, extents } => {
                let node = self.files.get_mut(serial).ok_or(Misfit)?;
                node.modified = *time;
                node.extents.place(extents).map_err(|_| Misfit)?;
                Ok(None)
            }
            Op::Truncate { serial, time, size } => {
                let node = self.files.get_mut(serial).ok_or(Misfit)?;
                node.modified = *time;
                node.extents.truncate(*size);
                Ok(None)
            }
            Op::Modified { serial, time } => {
                self.files.get_mut(serial).ok_or(Misfit)?.modified = *time;
                Ok(None)
            }
            Op::Open { .. } | Op::Covered { .. } | Op::Closed { .. } | Op::Reset { .. } => Ok(None),
        }
    }

    fn enter(&mut self, parent: u64, name: &str, child: Child) -> Result<(), Misfit> {
        let dir = self.dirs.get_mut(&parent).ok_or(Misfit)?;
        if dir.entries.insert(name.to_owned(), child).is_some() {
            return Err(Misfit);
        }
        self.name_bytes += name_bytes(name);
        Ok(())
    }

    /// Takes a name off its owner, if it has one: a file, or an empty directory, which is gone then.
    fn vacate(&mut self, parent: u64, name: &str) -> Result<Option<u64>, Misfit> {
        let Some(child) = self.entry(parent, name) else { return Ok(None) };
        let lost = match child {
            Child::File(serial) => {
                let node = self.files.get_mut(&serial).ok_or(Misfit)?;
                node.links = node.links.checked_sub(1).ok_or(Misfit)?;
                Some(serial)
            }
            Child::Dir(serial) => {
                if !self.dirs.get(&serial).ok_or(Misfit)?.entries.is_empty() {
                    return Err(Misfit);
                }
                self.dirs.remove(&serial);
                None
            }
        };
        self.dirs.get_mut(&parent).ok_or(Misfit)?.entries.remove(name);
        self.name_bytes -= name_bytes(name);
        Ok(lost)
    }

    fn rename(&mut self, parent: u64, name: &str, to_parent: u64, to_name: &str) -> Result<Option<u64>, Misfit> {
        let child = self.entry(parent, name).ok_or(Misfit)?;
        if (parent, name) == (to_parent, to_name) {
            return Ok(None);
        }
        // ZF-TREE-2.
        if matches!(child, Child::Dir(dir) if self.is_below(to_parent, dir)) {
            return Err(Misfit);
        }
        let lost = self.vacate(to_parent, to_name)?;
        self.dirs.get_mut(&parent).ok_or(Misfit)?.entries.remove(name);
        self.name_bytes -= name_bytes(name);
        self.enter(to_parent, to_name, child)?;
        if let Child::Dir(dir) = child {
            self.dirs.get_mut(&dir).ok_or(Misfit)?.parent = to_parent;
        }
        Ok(lost)
    }

    /// Operations that make all this, for a checkpoint: what has no name is left out. Each is made when it is asked for.
    pub(crate) fn ops(&self) -> impl Iterator<Item = Op> {
        let (mut left, mut names) = (vec![ROOT], None);
        // Each directory comes before its entries.
        let entries = std::iter::from_fn(move || {
            loop {
                if let Some((parent, entries)) = &mut names {
                    let entries: &mut Box<dyn Iterator<Item = (&String, &Child)>> = entries;
                    if let Some((name, child)) = entries.next() {
                        left.extend(if let Child::Dir(dir) = child { Some(*dir) } else { None });
                        return Some((*parent, name, *child));
                    }
                }
                let parent = left.pop()?;
                names = self.dirs.get(&parent).map(|dir| (parent, Box::new(dir.entries.iter()) as Box<_>));
            }
        });
        // Files that have several names, and one of them already.
        let mut made = BTreeSet::new();
        entries.flat_map(move |(parent, name, child)| self.ops_of_name(parent, name, child, &mut made))
    }

    fn ops_of_name(&self, parent: u64, name: &str, child: Child, made: &mut BTreeSet<u64>) -> Vec<Op> {
        let name = name.to_owned();
        let serial = match child {
            Child::Dir(serial) => return vec![Op::MakeDir { serial, parent, name }],
            Child::File(serial) => serial,
        };
        let Some(node) = self.files.get(&serial) else { return Vec::new() };
        if node.links > 1 && !made.insert(serial) {
            return vec![Op::Link { serial, parent, name }];
        }
        let (kind, lifetime, time) = (node.kind, node.lifetime, node.created);
        let mut ops = vec![Op::Create { serial, parent, name, kind, lifetime, time }];
        ops.push(Op::Modified { serial, time: node.modified });
        let extents: Vec<Extent> = node.extents.iter().copied().collect();
        // Several operations, so that none is longer than a part of a checkpoint.
        for some in extents.chunks(EXTENTS_MAX) {
            ops.push(Op::Place { serial, time: node.modified, extents: some.to_vec() });
        }
        ops
    }

    /// ZF-TREE-1, by a count of all names.
    pub(crate) fn links_agree(&self) -> bool {
        let mut counted = BTreeMap::<u64, u32>::new();
        for (_, child) in self.dirs.iter().flat_map(|(_, dir)| dir.entries.iter()) {
            if let Child::File(serial) = child {
                *counted.entry(*serial).or_default() += 1;
            }
        }
        self.files.iter().all(|(serial, node)| counted.get(serial).copied().unwrap_or(0) == node.links)
    }
}

/// Extents of an operation at most.
pub(crate) const EXTENTS_MAX: usize = 100;

/// Names of a path. (ZF-TREE-3)
pub(crate) fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

/// A name that an entry of the journal may have. (ZF-TREE-4)
pub(crate) fn checked_name(name: &str) -> FilesResult<&str> {
    let takes = (1..=NAME_MAX).contains(&name.len()) && !name.contains('\0');
    if takes { Ok(name) } else { Err(no_name(name)) }
}

fn no_name(path: &str) -> FilesError {
    let text = format!("`{}` is no name of a file: it has 1 to {NAME_MAX} bytes", shown(path));
    FilesError::new(FilesErrorKind::Invalid, text)
}

fn not_a_directory(path: &str) -> FilesError {
    let text = format!("a part of `{}` is a file, not a directory", shown(path));
    FilesError::new(FilesErrorKind::NotDirectory, text)
}

#[cfg(test)]
mod tests;
