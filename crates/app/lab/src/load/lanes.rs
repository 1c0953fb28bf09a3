//! The steps of a [`Script`](super::script::Script) on a chunk store: lanes run beside each other, each with its next step as
//! soon as its last one is acknowledged.

use std::cell::Cell;
use std::rc::Rc;

use shingle_base::ChunkId;
use shingle_runtime::{Runtime, Task};
use tokio::sync::mpsc;

use super::script::{Script, Step, Streams};
use crate::error::LabError;
use crate::rig::target::{ChunkTarget, TargetError};

/// Steps that wait for a lane: lanes do not run far apart.
const LANE_QUEUE: usize = 4;

/// Event of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Bytes acknowledged so far; at every `every` bytes, and at the end.
    Appended(u64),
    /// Deletion begins, with that many bytes acknowledged.
    Full(u64),
}

/// Runs the load. `tell` is called at each `every` bytes.
///
/// # Errors
/// The first call that failed.
pub async fn run(
    rt: &Runtime,
    target: Rc<dyn ChunkTarget>,
    streams: &Streams,
    seed: u64,
    every: u64,
    tell: Rc<dyn Fn(Moment)>,
) -> Result<(), LabError> {
    let script = Script::new(streams, seed);
    let acknowledged = Rc::new(Cell::new(0));
    let mut lanes = Vec::new();
    let mut tasks: Vec<Task<Result<(), TargetError>>> = Vec::new();
    for _ in 0..script.lanes() {
        let (give, steps) = mpsc::channel(LANE_QUEUE);
        let lane = Lane { target: target.clone(), acknowledged: acknowledged.clone(), every, tell: tell.clone() };
        lanes.push(give);
        tasks.push(rt.spawn(lane.run(steps)));
    }
    let mut full = false;
    for step in script {
        if matches!(step, Step::Delete { .. }) && !full {
            full = true;
            tell(Moment::Full(acknowledged.get()));
        }
        // A lane that is gone says why below.
        let Some(lane) = lanes.get(step.lane()) else { continue };
        if lane.send(step).await.is_err() {
            break;
        }
    }
    drop(lanes);
    for task in tasks {
        match task.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(LabError(error.to_string())),
            Err(lost) => return Err(LabError(lost.to_string())),
        }
    }
    tell(Moment::Appended(acknowledged.get()));
    Ok(())
}

struct Lane {
    target: Rc<dyn ChunkTarget>,
    acknowledged: Rc<Cell<u64>>,
    every: u64,
    tell: Rc<dyn Fn(Moment)>,
}

impl Lane {
    async fn run(self, mut steps: mpsc::Receiver<Step>) -> Result<(), TargetError> {
        while let Some(step) = steps.recv().await {
            match step {
                Step::Append { chunk, stream, offset, bytes, last, .. } => {
                    let id = ChunkId::from_u64(chunk);
                    if offset == 0 {
                        self.target.create(id, stream).await?;
                    }
                    self.target.append(id, offset, bytes).await?;
                    let before = self.acknowledged.replace(self.acknowledged.get() + u64::from(bytes));
                    if self.acknowledged.get() / self.every > before / self.every {
                        (self.tell)(Moment::Appended(self.acknowledged.get()));
                    }
                    if last {
                        self.target.seal(id).await?;
                    }
                }
                Step::Delete { chunk, .. } => self.target.delete(ChunkId::from_u64(chunk)).await?,
            }
        }
        Ok(())
    }
}
