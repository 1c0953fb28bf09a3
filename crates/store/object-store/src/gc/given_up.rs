//! Emptying the files of which something cannot be read, once that loss is accepted (OS-REC-5).

use std::rc::Rc;

use shingle_store_api::StoreResult;

use super::{Claim, Effort};
use crate::engine::Core;
use crate::files::LogFile;

/// Result of emptying the files of which something was given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emptied {
    /// Files that were rewritten and deleted.
    pub files: u64,
    /// Files that stay: the index has objects in them whose bytes cannot be read. Deleting those objects, and accepting the loss again,
    /// empties them.
    pub kept: Vec<u64>,
}

impl Core {
    /// Rewrites what can be read of the files that were given up, and deletes them.
    pub(crate) async fn empty_given_up(self: &Rc<Self>) -> StoreResult<Emptied> {
        let collector = self.new_collector();
        let emptied = self.empty_given_up_as(collector).await;
        self.close_files_of(collector).await;
        emptied
    }

    async fn empty_given_up_as(self: &Rc<Self>, collector: u64) -> StoreResult<Emptied> {
        let given_up = |file: &LogFile| file.given_up && !file.collecting;
        let files: Vec<u64> =
            self.files.borrow().iter().filter(|(_, file)| given_up(file)).map(|(number, _)| number).collect();
        let mut emptied = Emptied::default();
        for number in files {
            // No await in between (OS-GC-4).
            if !self.files.borrow().get(number).is_some_and(given_up) {
                continue;
            }
            let claim = Claim::new(self, number, collector);
            self.collect(&claim, Effort::Full).await?;
            match self.files.borrow().get(number) {
                // One that readers have pinned goes when they are done.
                Some(file) if !file.record.dropping => emptied.kept.push(number),
                _ => emptied.files += 1,
            }
        }
        Ok(emptied)
    }
}
