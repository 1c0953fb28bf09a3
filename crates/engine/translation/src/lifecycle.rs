//! The end of a volume's life, and what it tells of its sectors.

use std::rc::Rc;

use shingle_store_api::{MappedRun, StoreResult};

use crate::engine::{Engine, Keeping};
use crate::write::{COPIES, WRITES};

impl Engine {
    pub(crate) async fn close(self: &Rc<Self>) -> StoreResult<()> {
        self.closing.set(true);
        self.idle(WRITES).await;
        if self.keeping.get() == Keeping::Works {
            self.keeping.set(Keeping::Ends);
            self.wakes.keeper.notify_one();
            self.wakes.ended.notified().await;
        }
        self.idle(COPIES).await;
        self.state.borrow().running()?;
        Ok(self.checkpoint().await?)
    }

    /// Waits until a stream has nothing to write.
    async fn idle(&self, stream: u8) {
        loop {
            let idle = self.wakes.idle.notified();
            if self.state.borrow().frontiers[usize::from(stream)].is_idle() {
                return;
            }
            idle.await;
        }
    }

    /// Runs of sectors that have a place, and that have none.
    pub(crate) fn mapped(&self, lba: u64, sectors: u64, runs_max: usize) -> Vec<MappedRun> {
        let (shape, end) = (self.drive.layout.shape, lba + sectors);
        let mut runs: Vec<MappedRun> = Vec::new();
        let mut add = |from: u64, to: u64, mapped: bool| {
            let (offset, length) = (shape.bytes(from), shape.bytes(to - from));
            match runs.last_mut() {
                _ if length == 0 => {}
                Some(run) if run.mapped == mapped => run.length += length,
                _ => runs.push(MappedRun { offset, length, mapped }),
            }
            runs.len() > runs_max
        };
        let state = self.state.borrow();
        let mut at = lba;
        while at < end {
            let next = state.map.next(at).map(|extent| extent.part(&(at..end), shape.stride()));
            let Some(extent) = next.filter(|extent| extent.sectors > 0) else { break };
            if add(at, extent.lba, false) || add(extent.lba, extent.end(), true) {
                break;
            }
            at = extent.end();
        }
        if at < end {
            add(at, end, false);
        }
        runs.truncate(runs_max);
        runs
    }
}
