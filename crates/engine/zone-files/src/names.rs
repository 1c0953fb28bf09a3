//! Names: making, linking, moving and removing them. Each call is one entry of the journal, durable when the call returns.

use std::rc::Rc;

use shingle_runtime::UnixTime;

use crate::config::CreateOptions;
use crate::engine::{After, Engine};
use crate::error::{FilesError, FilesErrorKind, FilesResult, shown};
use crate::format::Op;
use crate::state::State;
use crate::tree::{Child, Tree, checked_name};

/// Bytes that a name may add to a checkpoint.
const NAME_BYTES: u64 = 512;

fn taken(path: &str) -> FilesError {
    FilesError::new(FilesErrorKind::Exists, format!("`{}` exists", shown(path)))
}

fn is_directory(path: &str) -> FilesError {
    FilesError::new(FilesErrorKind::IsDirectory, format!("`{}` is a directory", shown(path)))
}

fn invalid(text: &str) -> FilesError {
    FilesError::new(FilesErrorKind::Invalid, text)
}

/// A place for a name: a path, or a name in the root directory, in which a `/` is a letter like any other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'p> {
    Path(&'p str),
    Flat(&'p str),
}

impl<'p> Place<'p> {
    pub(crate) fn in_tree(self, tree: &Tree) -> FilesResult<(u64, &'p str)> {
        match self {
            Self::Path(path) => tree.place(path),
            Self::Flat(name) => Ok((crate::tree::ROOT, checked_name(name)?)),
        }
    }

    pub(crate) fn text(self) -> &'p str {
        let (Self::Path(text) | Self::Flat(text)) = self;
        text
    }

    /// The file at a place.
    pub(crate) fn file(self, tree: &Tree) -> FilesResult<u64> {
        let found = match self {
            Self::Path(path) => tree.find(path)?,
            Self::Flat(name) => tree.entry(crate::tree::ROOT, name).ok_or_else(|| FilesError::not_found(name))?,
        };
        match found {
            Child::File(serial) => Ok(serial),
            Child::Dir(_) => Err(is_directory(self.text())),
        }
    }
}

impl Engine {
    /// Operations in one step: they are decided on, happen to the tree, and take their place in the journal.
    async fn change(
        self: &Rc<Self>,
        decide: impl FnOnce(&Self, &mut State) -> FilesResult<Vec<Op>>,
    ) -> FilesResult<u64> {
        self.writable()?;
        self.journal_room().await?;
        self.writable()?;
        let (ops, after) = {
            let mut state = self.state.borrow_mut();
            let ops = decide(self, &mut state)?;
            let mut after = After::default();
            for op in &ops {
                let lost = state.tree.apply(op).map_err(|_| invalid("the names do not allow this"))?;
                if let Some(serial) = lost {
                    state.active_mut(serial).unlinking += 1;
                    after.unlinked = Some(serial);
                }
            }
            (ops, after)
        };
        Ok(if ops.is_empty() { 0 } else { self.journal(&ops, after) })
    }

    /// Makes a file, in place of one that has the name. Returns its number, with a handle counted, and that of the entry.
    pub(crate) async fn create(self: &Rc<Self>, at: Place<'_>, options: &CreateOptions) -> FilesResult<(u64, u64)> {
        let (serial, time) = (self.sequence.next(), self.rt.unix_time());
        let CreateOptions { kind, lifetime, expected_bytes, exclusive } = *options;
        let entry = self
            .change(|engine, state| {
                let (parent, name) = at.in_tree(&state.tree)?;
                match state.tree.entry(parent, name) {
                    Some(Child::Dir(_)) => return Err(is_directory(at.text())),
                    Some(Child::File(_)) if exclusive => return Err(taken(at.text())),
                    _ => {}
                }
                engine.metadata_room(state, NAME_BYTES, 1)?;
                Ok(vec![Op::Create { serial, parent, name: name.to_owned(), kind, lifetime, time }])
            })
            .await?;
        let mut state = self.state.borrow_mut();
        let active = state.active_mut(serial);
        active.opens += 1;
        active.expected = expected_bytes;
        active.entry = entry;
        Ok((serial, entry))
    }

    pub(crate) async fn make_dir(self: &Rc<Self>, path: &str) -> FilesResult<()> {
        let serial = self.sequence.next();
        let entry = self
            .change(|engine, state| {
                let (parent, name) = state.tree.place(path)?;
                if state.tree.entry(parent, name).is_some() {
                    return Err(taken(path));
                }
                engine.metadata_room(state, NAME_BYTES, 0)?;
                Ok(vec![Op::MakeDir { serial, parent, name: name.to_owned() }])
            })
            .await?;
        self.journaled(entry).await
    }

    pub(crate) async fn remove_dir(self: &Rc<Self>, path: &str) -> FilesResult<()> {
        let entry = self
            .change(|_, state| {
                let (parent, name) = state.tree.place(path)?;
                match state.tree.entry(parent, name) {
                    None => Err(FilesError::not_found(path)),
                    Some(Child::File(_)) => {
                        let text = format!("`{}` is a file, not a directory", shown(path));
                        Err(FilesError::new(FilesErrorKind::NotDirectory, text))
                    }
                    Some(Child::Dir(dir)) => {
                        refuse_entries(&state.tree, dir, path)?;
                        Ok(vec![Op::RemoveDir { parent, name: name.to_owned() }])
                    }
                }
            })
            .await?;
        self.journaled(entry).await
    }

    /// Takes a name off a file.
    pub(crate) async fn unlink(self: &Rc<Self>, at: Place<'_>) -> FilesResult<()> {
        let entry = self
            .change(|_, state| {
                let (parent, name) = at.in_tree(&state.tree)?;
                match state.tree.entry(parent, name) {
                    None => Err(FilesError::not_found(at.text())),
                    Some(Child::Dir(_)) => Err(is_directory(at.text())),
                    Some(Child::File(_)) => Ok(vec![Op::Unlink { parent, name: name.to_owned() }]),
                }
            })
            .await?;
        self.journaled(entry).await
    }

    /// Gives a file one more name.
    pub(crate) async fn link(self: &Rc<Self>, from: &str, to: &str) -> FilesResult<()> {
        let entry = self
            .change(|engine, state| {
                let serial = Place::Path(from).file(&state.tree)?;
                let (parent, name) = state.tree.place(to)?;
                if state.tree.entry(parent, name).is_some() {
                    return Err(taken(to));
                }
                engine.metadata_room(state, NAME_BYTES, 0)?;
                Ok(vec![Op::Link { serial, parent, name: name.to_owned() }])
            })
            .await?;
        self.journaled(entry).await
    }

    /// Gives a file or directory another name; a file or empty directory that has it is removed in the same step.
    pub(crate) async fn rename(self: &Rc<Self>, from: Place<'_>, to: Place<'_>) -> FilesResult<()> {
        let entry = self
            .change(|engine, state| {
                let (parent, name) = from.in_tree(&state.tree)?;
                let (to_parent, to_name) = to.in_tree(&state.tree)?;
                let moved = state.tree.entry(parent, name).ok_or_else(|| FilesError::not_found(from.text()))?;
                let replaced = state.tree.entry(to_parent, to_name);
                match (moved, replaced) {
                    (Child::File(_), Some(Child::Dir(_))) => return Err(is_directory(to.text())),
                    (Child::Dir(_), Some(Child::File(_))) => {
                        let text = format!("`{}` is a file, not a directory", shown(to.text()));
                        return Err(FilesError::new(FilesErrorKind::NotDirectory, text));
                    }
                    (Child::Dir(dir), _) if (parent, name) != (to_parent, to_name) => {
                        if state.tree.is_below(to_parent, dir) {
                            return Err(invalid("a directory cannot be moved below itself"));
                        }
                        if let Some(Child::Dir(replaced)) = replaced {
                            refuse_entries(&state.tree, replaced, to.text())?;
                        }
                    }
                    _ => {}
                }
                // Both are names of one file: nothing happens, as elsewhere.
                if replaced == Some(moved) {
                    return Ok(Vec::new());
                }
                engine.metadata_room(state, NAME_BYTES, 0)?;
                let (name, to_name) = (name.to_owned(), to_name.to_owned());
                Ok(vec![Op::Rename { parent, name, to_parent, to_name }])
            })
            .await?;
        self.journaled(entry).await
    }

    /// Sets the time of a file's last change.
    pub(crate) async fn set_modified(self: &Rc<Self>, path: &str, time: UnixTime) -> FilesResult<()> {
        let entry = self
            .change(|_, state| {
                let serial = Place::Path(path).file(&state.tree)?;
                Ok(vec![Op::Modified { serial, time }])
            })
            .await?;
        self.journaled(entry).await
    }

    /// Cuts a file's end.
    pub(crate) async fn truncate(self: &Rc<Self>, serial: u64, size: u64) -> FilesResult<()> {
        loop {
            self.writable()?;
            self.write_out(serial).await?;
            self.journal_room().await?;
            self.writable()?;
            let (op, after) = {
                let mut state = self.state.borrow_mut();
                let waiting = state.active.get(&serial).map_or(0, |active| active.waiting());
                let now = state.size(serial);
                if size > now {
                    return Err(invalid("a file can be cut, but not made longer, by a truncation"));
                }
                if waiting > 0 {
                    // Appends came meanwhile.
                    continue;
                }
                if size == now {
                    return Ok(());
                }
                let time = self.rt.unix_time();
                let Some(node) = state.tree.file_mut(serial) else { return Err(FilesError::closed()) };
                node.modified = time;
                let named = node.links > 0;
                let (before, extents) = (node.extents.blocks_by_zone(), node.extents.len() as u64);
                node.extents.truncate(size);
                let (mut freed, left) = (before, node.extents.blocks_by_zone());
                let fewer = extents - node.extents.len() as u64;
                state.extents -= fewer;
                for (zone, blocks) in left {
                    freed.entry(zone).and_modify(|freed| *freed -= blocks);
                }
                let freed = freed.into_iter().filter(|(_, blocks)| *blocks > 0).collect();
                let active = state.active_mut(serial);
                active.journaled = active.journaled.min(size);
                // Also of bytes that were never synced: a checkpoint may have them.
                let op = named.then_some(Op::Truncate { serial, time, size });
                (op, After { freed, unlinked: None })
            };
            let Some(op) = op else {
                // Nobody will look for a file without a name.
                self.state.borrow_mut().free(after.freed);
                self.keeper.wake();
                return Ok(());
            };
            let entry = self.journal(&[op], after);
            self.state.borrow_mut().active_mut(serial).entry = entry;
            return self.journaled(entry).await;
        }
    }
}

fn refuse_entries(tree: &Tree, dir: u64, path: &str) -> FilesResult<()> {
    if tree.dir(dir).is_none_or(|dir| dir.entries.is_empty()) {
        return Ok(());
    }
    Err(FilesError::new(FilesErrorKind::NotEmpty, format!("`{}` is not empty", shown(path))))
}
