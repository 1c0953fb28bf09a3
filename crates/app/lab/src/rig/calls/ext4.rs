//! Recorded calls on a modelled ext4 with its page cache.

use std::cell::RefCell;
use std::collections::BTreeMap;

use shingle_runtime::LocalBoxFuture;

use crate::baseline::ext4_files::{Ext4Files, FileId};
use crate::calls::record::{Call, FileNumber, Kind, Recording};
use crate::calls::target::Files;
use crate::error::LabError;

/// A file system for the files of a recording.
pub struct Ext4Calls {
    files: Ext4Files,
    known: RefCell<BTreeMap<FileNumber, FileId>>,
}

impl Ext4Calls {
    /// No files yet.
    pub fn new(files: Ext4Files) -> Self {
        Self { files, known: RefCell::default() }
    }

    fn of(&self, call: &Call) -> Result<FileId, LabError> {
        let found = self.known.borrow().get(&call.file).copied();
        found.ok_or_else(|| LabError(format!("file {} of the recording is gone", call.file)))
    }

    async fn remove(&self, file: FileNumber) -> Result<(), LabError> {
        let id = self.known.borrow_mut().remove(&file);
        if let Some(id) = id {
            self.files.delete(id).await?;
        }
        Ok(())
    }

    async fn call(&self, call: &Call) -> Result<(), LabError> {
        match call.kind {
            Kind::Was(bytes) => {
                let id = self.files.create().await?;
                self.files.write(id, 0, bytes).await?;
                self.known.borrow_mut().insert(call.file, id);
            }
            Kind::Create => {
                let id = self.files.create().await?;
                self.known.borrow_mut().insert(call.file, id);
            }
            Kind::Append(bytes) => {
                let id = self.of(call)?;
                self.files.write(id, self.files.length(id), bytes).await?;
            }
            Kind::Sync => self.files.fsync(self.of(call)?).await?,
            Kind::RangeSync => self.files.write_back(self.of(call)?).await?,
            Kind::Read { offset, length } => drop(self.files.read(self.of(call)?, offset, length).await?),
            Kind::Rename => self.files.rename(self.of(call)?).await?,
            Kind::Delete => self.remove(call.file).await?,
            Kind::SyncNames => self.files.sync_names().await?,
            Kind::Open => self.files.look().await?,
            Kind::Close | Kind::Lifetime(_) | Kind::Expect(_) => {}
        }
        match call.replaces {
            Some(replaced) => self.remove(replaced).await,
            None => Ok(()),
        }
    }
}

impl Files for Ext4Calls {
    fn perform<'a>(&'a self, _: &'a Recording, call: &'a Call) -> LocalBoxFuture<'a, Result<(), LabError>> {
        Box::pin(self.call(call))
    }
}
