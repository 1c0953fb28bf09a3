//! The calls of the owner's own process, on the owner's thread.

use std::rc::Rc;
use std::sync::Arc;

use shingle_runtime::Runtime;

use crate::outbox::{Job, Outbox};
use crate::session::Session;

/// The calls of this process, on the owner's thread.
pub(crate) struct Local {
    rt: Runtime,
    calls: Arc<Outbox>,
    session: Rc<Session>,
}

impl Local {
    pub(crate) fn new(rt: &Runtime, calls: Arc<Outbox>, session: Rc<Session>) -> Self {
        Self { rt: rt.clone(), calls, session }
    }

    /// Begins all calls that this process has handed in. (FS-ORDER-2)
    pub(crate) fn take_in(&self) {
        self.begin(self.calls.take());
    }

    /// Begins calls, in their order.
    pub(crate) fn begin(&self, jobs: impl IntoIterator<Item = Job>) {
        for mut job in jobs {
            let data = job.take_data();
            let answer = self.session.begin(job.call.clone(), data);
            self.rt.spawn_detached(async move { job.answer(answer.await) });
        }
    }

    /// Others have seen that the files have stopped: the owner is to let go of the drive. (FS-END-2)
    pub(crate) fn look(&self) {
        self.calls.look();
    }

    /// Writes what was flushed, at once.
    pub(crate) async fn finish(&self) {
        self.session.finish().await;
    }
}
