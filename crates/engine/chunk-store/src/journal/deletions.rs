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
use std::rc::Rc;

use shingle_base::ChunkId;
use tokio::sync::oneshot;

use crate::drive::host_full;
use crate::engine::Engine;
use crate::error::Result;
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
}

/// One deletion. It ends when this is dropped.
pub(super) struct Deletion {
    engine: Rc<Engine>,
    id: ChunkId,
    pub(super) handle: Handle,
    pub(super) birth: u64,
}

impl Deletion {
    /// Hides a chunk that callers see, once the deletion before it has ended (CS-DEL-2).
    pub(super) async fn begin(engine: &Rc<Engine>, id: ChunkId) -> Result<Self> {
        loop {
            let ended = {
                let state = &mut *engine.state.borrow_mut();
                state.running()?;
                let Some(before) = state.deletions.under_way.get_mut(&id) else {
                    let (handle, chunk) = state.chunk(id)?;
                    let birth = chunk.birth;
                    let hides = UnderWay { hidden: Some(handle), behind: Vec::new() };
                    state.deletions.under_way.insert(id, hides);
                    return Ok(Self { engine: engine.clone(), id, handle, birth });
                };
                let (sender, ended) = oneshot::channel();
                before.behind.push(sender);
                ended
            };
            // Its caller hears how it ended; here it only matters that it did.
            drop(engine.unless_stalled(ended).await.map_err(|_| host_full().of(id))?);
        }
    }

    /// The chunk is out of the index.
    pub(super) fn gone(&self, deletions: &mut Deletions) {
        if let Some(deletion) = deletions.under_way.get_mut(&self.id) {
            deletion.hidden = None;
        }
    }
}

impl Drop for Deletion {
    fn drop(&mut self) {
        // With it go the senders that the others wait for.
        self.engine.state.borrow_mut().deletions.under_way.remove(&self.id);
        // Zones of the chunk may be garbage now.
        self.engine.wakes.keeper.notify_one();
    }
}
