//! Files of a drive, for any thread. Calls block.

use std::sync::Arc;

use shingle_zone_files::{FileKind, FilesError, FilesErrorKind, WriteLifetime};

use crate::cache::Caching;
use crate::client::{Client, Tailing};
use crate::link::Link;
use crate::reader::Reader;
use crate::wire::{About, Call, Reply, Room, kind_number, lifetime_number, out_of_place};
use crate::writer::Writer;

/// Longest path.
const PATH_BYTES_MAX: usize = 4096;

/// Files of a drive, for any thread: a cheap handle. If this process owns the drive, it is closed with the last of them.
#[derive(Clone)]
pub struct Files(Client);

/// An entry of a directory: its name, and its file unless it is a directory.
pub type DirEntry = (String, Option<About>);

/// A lock on a path, until it is dropped or its process ends.
pub struct Lock {
    client: Client,
    id: u64,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Waits, so that the next who locks finds it free.
        let _ = self.client.call(Call::Unlock { lock: self.id });
    }
}

impl Files {
    pub(crate) fn new(link: Arc<dyn Link>, caching: Caching, tails: Tailing) -> Self {
        Self(Client::new(link, caching, tails))
    }

    /// Makes an empty file, in place of one that has the name. Its name is durable when the call returns.
    ///
    /// # Errors
    /// `NotFound` without its directory, `IsDirectory`, `NoSpace`, `Invalid`, `Unavailable`.
    pub fn create(&self, path: &str, kind: FileKind, lifetime: WriteLifetime) -> Result<Writer, FilesError> {
        let call = Call::Create { path: checked(path)?, kind: kind_number(kind), lifetime: lifetime_number(lifetime) };
        let (handle, about) = self.opened(call)?;
        Ok(Writer::new(&self.0, handle, about, path))
    }

    /// Opens a file to go on at its end.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Unavailable`.
    pub fn append_to(&self, path: &str) -> Result<Writer, FilesError> {
        let (handle, about) = self.opened(Call::Open { path: checked(path)? })?;
        Ok(Writer::new(&self.0, handle, about, path))
    }

    /// Opens a file to be read.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Unavailable`.
    pub fn open(&self, path: &str) -> Result<Reader, FilesError> {
        let (handle, about) = self.opened(Call::Open { path: checked(path)? })?;
        Ok(Reader::new(&self.0, handle, about))
    }

    /// A file by its path; `None` for a directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Unavailable`.
    pub fn stat(&self, path: &str) -> Result<Option<About>, FilesError> {
        match self.0.call(Call::Stat { path: checked(path)? })? {
            Reply::Found(found) => Ok(found),
            _ => Err(out_of_place()),
        }
    }

    /// Entries of a directory, by name.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Unavailable`.
    pub fn list(&self, path: &str) -> Result<Vec<DirEntry>, FilesError> {
        match self.0.call(Call::List { path: checked(path)? })? {
            Reply::Entries(entries) => Ok(entries),
            _ => Err(out_of_place()),
        }
    }

    /// Removes a file's name, durably.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Unavailable`.
    pub fn remove(&self, path: &str) -> Result<(), FilesError> {
        let path = checked(path)?;
        let caches = FileKind::of_name(&path) == FileKind::Sst && self.0.cache().holds_any();
        let table = if caches { self.stat(&path).ok().flatten() } else { None };
        self.0.done(Call::Remove { path })?;
        if let Some(about) = table.filter(|about| about.table) {
            self.0.cache().removed(about.serial, about.size);
        }
        Ok(())
    }

    /// Gives a file or directory another name, durably. A file that has it is removed in the same step.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `NotDirectory`, `NotEmpty`, `Unavailable`.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), FilesError> {
        self.0.done(Call::Rename { from: checked(from)?, to: checked(to)? })
    }

    /// Gives a file one more name, durably.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `IsDirectory`, `NoSpace`, `Unavailable`.
    pub fn link(&self, from: &str, to: &str) -> Result<(), FilesError> {
        self.0.done(Call::Link { from: checked(from)?, to: checked(to)? })
    }

    /// Makes a directory, durably.
    ///
    /// # Errors
    /// `NotFound` without the directory above, `Exists`, `NoSpace`, `Unavailable`.
    pub fn make_dir(&self, path: &str) -> Result<(), FilesError> {
        self.0.done(Call::MakeDir { path: checked(path)?, all: false })
    }

    /// Makes a directory and those above it, as far as they are not there.
    ///
    /// # Errors
    /// `NotDirectory`, `NoSpace`, `Unavailable`.
    pub fn make_dir_all(&self, path: &str) -> Result<(), FilesError> {
        self.0.done(Call::MakeDir { path: checked(path)?, all: true })
    }

    /// Removes an empty directory, durably.
    ///
    /// # Errors
    /// `NotFound`, `NotEmpty`, `NotDirectory`, `Unavailable`.
    pub fn remove_dir(&self, path: &str) -> Result<(), FilesError> {
        self.0.done(Call::RemoveDir { path: checked(path)? })
    }

    /// Locks a path against other processes, and others of this one.
    ///
    /// # Errors
    /// `Locked`, `Unavailable`.
    pub fn lock(&self, path: &str) -> Result<Lock, FilesError> {
        match self.0.call(Call::Lock { path: checked(path)? })? {
            Reply::Locked(id) => Ok(Lock { client: self.0.clone(), id }),
            _ => Err(out_of_place()),
        }
    }

    /// Room of the drive.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn room(&self) -> Result<Room, FilesError> {
        match self.0.call(Call::Room)? {
            Reply::Room(room) => Ok(room),
            _ => Err(out_of_place()),
        }
    }

    /// Figures of the drive's files since they were opened, in the Prometheus text format.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn metrics(&self) -> Result<String, FilesError> {
        match self.0.call(Call::Metrics)? {
            Reply::Metrics(text) => Ok(text),
            _ => Err(out_of_place()),
        }
    }

    fn opened(&self, call: Call) -> Result<(u64, About), FilesError> {
        match self.0.call(call)? {
            Reply::Opened(handle, about) => Ok((handle, about)),
            _ => Err(out_of_place()),
        }
    }
}

/// A path for a call.
fn checked(path: &str) -> Result<String, FilesError> {
    if path.len() > PATH_BYTES_MAX {
        let text = format!("a path has at most {PATH_BYTES_MAX} bytes");
        return Err(FilesError::new(FilesErrorKind::Invalid, text));
    }
    Ok(path.to_owned())
}
