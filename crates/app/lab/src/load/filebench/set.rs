//! A set of files, of which threads pick some: none is picked by two at once.

use std::cell::RefCell;
use std::time::Duration;

use shingle_runtime::Runtime;
use shingle_sim::Random;

use crate::baseline::ext4_files::{Ext4Files, FileId};
use crate::error::LabError;

/// Sizes of files in thousandths of the mean, all with the same chance: quantiles of a gamma distribution of shape 1.5, which is Filebench's
/// default. A table, so that all machines draw the same.
const GAMMA: [u64; 32] = [
    52, 113, 163, 210, 255, 299, 342, 385, 429, 474, 519, 565, 613, 663, 714, 767, 823, 882, 944, 1010, 1080, 1157,
    1240, 1331, 1432, 1547, 1679, 1836, 2031, 2288, 2673, 3485,
];

/// Time until somebody looks again for a file, where all are picked.
const LOOK: Duration = Duration::from_millis(1);

/// Files, and names for more.
pub(super) struct FileSet {
    idle: RefCell<Vec<FileId>>,
    free_names: RefCell<u64>,
    random: RefCell<Random>,
    mean_bytes: u64,
    piece_bytes: u64,
}

impl FileSet {
    /// A set with names for so many files, of which a fifth does not exist yet (`prealloc=80`); a single one does.
    pub(super) async fn create(
        store: &Ext4Files,
        names: u64,
        (mean_bytes, piece_bytes): (u64, u64),
        seed: u64,
    ) -> Result<Self, LabError> {
        let set = Self {
            idle: RefCell::default(),
            free_names: RefCell::new(names),
            random: RefCell::new(Random::new(seed)),
            mean_bytes,
            piece_bytes,
        };
        for _ in 0..names - names / 5 {
            let bytes = if names == 1 { mean_bytes } else { set.size() };
            set.make(store, bytes).await?;
        }
        Ok(set)
    }

    fn size(&self) -> u64 {
        let drawn = self.below(GAMMA.len() as u64) as usize;
        (self.mean_bytes * GAMMA[drawn] / 1000).max(1)
    }

    /// A number below `most`.
    pub(super) fn below(&self, most: u64) -> u64 {
        self.random.borrow_mut().below(most)
    }

    /// Creates a file, and writes it. Returns its bytes; 0 if there is no name for it.
    pub(super) async fn make_one(&self, store: &Ext4Files) -> Result<u64, LabError> {
        let bytes = self.size();
        if *self.free_names.borrow() == 0 { Ok(0) } else { self.make(store, bytes).await }
    }

    async fn make(&self, store: &Ext4Files, bytes: u64) -> Result<u64, LabError> {
        let file = self.new_file(store).await?;
        for at in (0..bytes).step_by(self.piece_bytes as usize) {
            store.write(file, at, self.piece_bytes.min(bytes - at)).await?;
        }
        self.give(file);
        Ok(bytes)
    }

    /// Creates an empty file, which nobody else picks before it is given back.
    pub(super) async fn new_file(&self, store: &Ext4Files) -> Result<FileId, LabError> {
        let free = *self.free_names.borrow();
        *self.free_names.borrow_mut() = free.saturating_sub(1);
        Ok(store.create().await?)
    }

    /// Picks a file.
    pub(super) async fn pick(&self, rt: &Runtime) -> FileId {
        loop {
            let idle = self.idle.borrow().len();
            if idle > 0 {
                let picked = self.below(idle as u64) as usize;
                return self.idle.borrow_mut().swap_remove(picked);
            }
            rt.sleep(LOOK).await;
        }
    }

    /// Gives a file back.
    pub(super) fn give(&self, file: FileId) {
        self.idle.borrow_mut().push(file);
    }

    /// Deletes a file that was picked.
    pub(super) async fn delete(&self, store: &Ext4Files, file: FileId) -> Result<(), LabError> {
        store.delete(file).await?;
        *self.free_names.borrow_mut() += 1;
        Ok(())
    }

    /// Reads a file that was picked, and returns its bytes.
    pub(super) async fn read(&self, store: &Ext4Files, file: FileId) -> Result<u64, LabError> {
        let mut at = 0;
        loop {
            let read = store.read(file, at, self.piece_bytes).await?;
            at += read;
            if read < self.piece_bytes {
                return Ok(at);
            }
        }
    }

    /// Appends up to so many bytes, and returns how many.
    pub(super) async fn append(&self, store: &Ext4Files, file: FileId, most: u64) -> Result<u64, LabError> {
        let bytes = 1 + self.below(most);
        store.write(file, store.length(file), bytes).await?;
        Ok(bytes)
    }
}
