//! The file contract of `store-api`, for loads: names in one directory, in which a `/` is a letter like any other.
//!
//! **Owns** the translation of calls. **Knows nothing of** the loads.

use std::rc::Rc;

use bytes::Bytes;
use shingle_store_api::{FileStore, LocalStoreFuture, StoredFile};

use crate::config::{CreateOptions, FileKind};
use crate::files::ZoneFiles;
use crate::handle::File;
use crate::names::Place;
use crate::tree::ROOT;

impl FileStore for ZoneFiles {
    fn create(&self, name: &str) -> LocalStoreFuture<'_, Rc<dyn StoredFile>> {
        let name = name.to_owned();
        Box::pin(async move {
            let options = CreateOptions { kind: FileKind::of_name(&name), ..CreateOptions::default() };
            Ok(Rc::new(self.create_at(Place::Flat(&name), &options).await?) as Rc<dyn StoredFile>)
        })
    }

    fn open(&self, name: &str) -> LocalStoreFuture<'_, Rc<dyn StoredFile>> {
        let opened = self.open_at(Place::Flat(name));
        Box::pin(async move { Ok(Rc::new(opened?) as Rc<dyn StoredFile>) })
    }

    fn rename(&self, from: &str, to: &str) -> LocalStoreFuture<'_, ()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        Box::pin(async move { Ok(self.engine().rename(Place::Flat(&from), Place::Flat(&to)).await?) })
    }

    fn delete(&self, name: &str) -> LocalStoreFuture<'_, ()> {
        let name = name.to_owned();
        Box::pin(async move { Ok(self.engine().unlink(Place::Flat(&name)).await?) })
    }

    fn names(&self) -> LocalStoreFuture<'_, Vec<String>> {
        let state = self.engine().state.borrow();
        let names = state.tree.dir(ROOT).map(|dir| dir.entries.iter().map(|(name, _)| name.clone()).collect());
        Box::pin(async move { Ok(names.unwrap_or_default()) })
    }
}

impl StoredFile for File {
    fn length(&self) -> u64 {
        self.size()
    }

    fn append(&self, data: Vec<Bytes>) -> LocalStoreFuture<'_, ()> {
        let appended = Self::append(self, data);
        Box::pin(async move { Ok(appended.await?) })
    }

    fn sync(&self) -> LocalStoreFuture<'_, ()> {
        Box::pin(async move { Ok(Self::sync(self).await?) })
    }

    fn read(&self, offset: u64, length: u64) -> LocalStoreFuture<'_, Bytes> {
        Box::pin(async move { Ok(Self::read(self, offset, length).await?) })
    }
}
