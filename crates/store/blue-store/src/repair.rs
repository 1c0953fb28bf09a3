//! Repair: objects whose metadata make no sense are taken away, with all that belonged to them.
//!
//! Nothing tells which blocks such an object had. So it is told by what the others have: all other objects are loaded, and blocks, shared
//! blobs, deferred writes and keys that none of them has belonged to those that go. That is why all of them go at once, and why a repair ends
//! the store: the next opening loads what is left.
//!
//! # Invariants
//! - BLU-MEND-1: a repair takes nothing from an object that can be used, and a check behind it finds nothing that a repair can mend. If
//!   something could not be read, or an object is to stay, nothing has changed.

use std::rc::Rc;

use crate::check::Seen;
use crate::engine::Engine;
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::ids::ObjectId;
use crate::keeper::Ending;

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Objects whose metadata made no sense, and that are gone.
    pub removed: Vec<ObjectId>,
    /// Keys of the metadata that were changed.
    pub keys: u64,
}

impl Engine {
    /// Takes all objects away whose metadata make no sense, and closes the store. (BLU-MEND-1)
    pub(crate) async fn repair(self: &Rc<Self>, may_go: impl Fn(&ObjectId) -> bool) -> BlueResult<Repaired> {
        self.writable()?;
        self.closing.set(true);
        let _ending = Ending(self.clone());
        let drained = self.drained().await;
        // From here on nothing changes but what this does.
        self.end_keeper().await;
        let repaired = match drained {
            Ok(()) => self.mend(may_go).await,
            Err(error) => Err(error),
        };
        let closed = self.end_metadata().await;
        *self.end.borrow_mut() = Some(closed.clone());
        let repaired = repaired?;
        closed.map(|()| repaired)
    }

    async fn mend(&self, may_go: impl Fn(&ObjectId) -> bool) -> BlueResult<Repaired> {
        let mut seen = Seen::default();
        self.check_metadata(&mut seen).await?;
        if let Some(failed) = seen.failed {
            return Err(failed);
        }
        if let Some(id) = seen.unusable.iter().find(|id| !may_go(id)) {
            let text = format!("the metadata of object {id} are damaged, and others need it: nothing was changed");
            return Err(BlueError::new(BlueErrorKind::Corrupt, text));
        }
        let keys = seen.mend.changes.len() as u64;
        if keys > 0 {
            self.kv.write(seen.mend).await?;
        }
        Ok(Repaired { removed: seen.unusable, keys })
    }
}
