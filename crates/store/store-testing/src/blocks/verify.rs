//! A look at every sector of a store, and the caller's word on calls that fail.

use std::ops::Range;

use shingle_store_api::{BlockStore, StoreError};

use super::calls::Failed;
use super::shadow::BlockShadow;

/// Bytes read at once.
const AT_ONCE: u64 = 1 << 20;

/// The caller's word on a call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It must not fail.
    Wrong,
    /// It may: a fault is known that explains it.
    Explained,
    /// The life is over, so that every call fails.
    Over,
}

/// Every call must go well.
pub(super) fn all_go_well(_: &StoreError) -> Verdict {
    Verdict::Wrong
}

impl BlockShadow {
    /// Reads all sectors and holds them against what they may have.
    ///
    /// # Errors
    /// A broken promise, or a read that failed.
    pub async fn verify(&self, store: &dyn BlockStore) -> Result<(), String> {
        self.verify_but(store, all_go_well).await.map(drop)
    }

    /// As [`verify`](Self::verify); returns the number of sectors that could not be read, each with an explanation. A read that
    /// fails is made again in halves, so that one bad sector hides no other.
    ///
    /// # Errors
    /// A broken promise, or a read that failed without an explanation.
    pub async fn verify_but(
        &self,
        store: &dyn BlockStore,
        judge: impl Fn(&StoreError) -> Verdict,
    ) -> Result<u64, String> {
        let expected = self.sectors() * self.sector_bytes();
        if (store.size_bytes(), store.sector_bytes()) != (expected, self.sector_bytes()) {
            return Err(format!("the store has {} bytes, and had {expected}", store.size_bytes()));
        }
        let step = (AT_ONCE / self.sector_bytes()).max(1);
        let mut left: Vec<Range<u64>> = Vec::new();
        let (mut next, mut unreadable) = (0, 0);
        loop {
            let sectors = left.pop().unwrap_or(next..(next + step).min(self.sectors()));
            if sectors.is_empty() {
                return Ok(unreadable);
            }
            next = next.max(sectors.end);
            let failed = match self.read(store, sectors.clone()).await {
                Ok(()) => continue,
                Err(failed) => failed,
            };
            let verdict = if let Failed::Refused(error) = &failed { judge(error) } else { Verdict::Wrong };
            let length = sectors.end - sectors.start;
            match verdict {
                Verdict::Wrong => return Err(format!("sectors {sectors:?}: {failed}")),
                Verdict::Over => return Ok(unreadable),
                Verdict::Explained if length == 1 => unreadable += 1,
                Verdict::Explained => {
                    let middle = sectors.start + length / 2;
                    left.extend([middle..sectors.end, sectors.start..middle]);
                }
            }
        }
    }
}
