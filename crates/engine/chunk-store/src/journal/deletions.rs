//! Deletions under way.
//!
//! **Owns** which chunks are hidden because somebody deletes them. **Knows nothing of** how a chunk is deleted.
//!
//! # Invariants
//! - CS-DEL-1: a chunk is hidden for a deletion only as long as that has a caller, until its entry has a place in the journal: then the
//!   chunk is gone. A deletion that is refused or given up before leaves the chunk as it was.
//!   `a_chunk_whose_deletion_was_refused_is_as_it_was`,
//!   `a_deletion_that_was_given_up_in_time_leaves_the_chunk_as_it_was`.
//! - CS-DEL-2: deletions of one id are behind one another: a caller hears that the chunk is not there only once that is durable.
//!   `nobody_hears_that_a_chunk_is_gone_before_that_is_durable`.

use std::collections::BTreeMap;

use shingle_base::ChunkId;
use tokio::sync::oneshot;

use crate::index::Handle;

/// The chunks that are being deleted.
#[derive(Debug, Default)]
pub(crate) struct Deletions {
    under_way: BTreeMap<ChunkId, UnderWay>,
}

/// A deletion without a result.
#[derive(Debug)]
struct UnderWay {
    /// The chunk, as long as it is in the index. Then another one may have its id, which nobody hides.
    hidden: Option<Handle>,
    /// Other callers, who wait for its end.
    behind: Vec<oneshot::Sender<()>>,
}

impl Deletions {
    /// True if callers do not see the chunk.
    pub(crate) fn hides(&self, id: ChunkId, handle: Handle) -> bool {
        self.under_way.get(&id).is_some_and(|deletion| deletion.hidden == Some(handle))
    }

    /// The end of the deletion of that id that is under way, if one is: then nothing is sent, and the wait is over.
    pub(super) fn end_of(&mut self, id: ChunkId) -> Option<oneshot::Receiver<()>> {
        let deletion = self.under_way.get_mut(&id)?;
        let (sender, ended) = oneshot::channel();
        deletion.behind.push(sender);
        Some(ended)
    }

    /// A deletion begins, and none of that id is under way.
    pub(super) fn begin(&mut self, id: ChunkId, handle: Handle) {
        self.under_way.insert(id, UnderWay { hidden: Some(handle), behind: Vec::new() });
    }

    /// The chunk is out of the index.
    pub(super) fn gone(&mut self, id: ChunkId) {
        if let Some(deletion) = self.under_way.get_mut(&id) {
            deletion.hidden = None;
        }
    }

    /// The deletion has ended. With it go the senders that others wait for.
    pub(super) fn end(&mut self, id: ChunkId) {
        self.under_way.remove(&id);
    }
}
