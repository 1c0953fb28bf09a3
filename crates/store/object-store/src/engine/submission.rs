//! Commands on their way to the task that changes the index.

use shingle_store_api::StoreResult;
use tokio::sync::oneshot;

use crate::indexer::{Command, Effect};
use crate::records::Position;

/// The way back: effects of the commands, once the index has them.
pub(super) type Reply = oneshot::Sender<StoreResult<Vec<Effect>>>;

/// Commands that go into one group, after all that were submitted before.
pub(crate) struct Submission {
    pub(super) commands: Vec<Command>,
    /// Reserved places whose entries these commands bring into the index.
    pub(super) settles: Vec<(u64, Position)>,
    pub(super) reply: Reply,
}
