//! State of an open kernel drive: its ring, its zones as the state machine has them, their lanes and places.
//!
//! **Owns** that state. **Knows nothing of** the way of a command through it (`command`), nor of failures (`fail`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;

use shingle_base::{Lba, ZoneId};
use shingle_runtime::Runtime;
use shingle_zoned::lanes::{Lanes, Settled};
use shingle_zoned::{DeviceError, DeviceErrorKind, DeviceResult, Flushes, Geometry, Machine, ZoneState};
use tokio::sync::oneshot;

use crate::device::work::Work;
use crate::driver::Seat;
use crate::gate::Gate;
use crate::node::Node;

pub(super) struct Shared {
    pub(super) runtime: Runtime,
    pub(super) geometry: Geometry,
    pub(super) state: RefCell<State>,
    pub(super) seat: Seat<Work>,
    /// `None` once the device is dropped.
    pub(super) node: RefCell<Option<Arc<Node>>>,
    /// The most bytes of a write that the kernel is given at a time.
    pub(super) write_max: usize,
    /// The kernel no longer has the drive, or a flush of it failed.
    pub(super) gone: Cell<bool>,
    pub(super) flushes: Flushes,
}

pub(super) struct State {
    /// State of the zones after all commands that have started.
    pub(super) machine: Machine,
    pub(super) lanes: Lanes,
    /// `None`: the drive has no limits.
    pub(super) gate: Option<Gate>,
    /// Zones whose state is uncertain since a command failed.
    pub(super) stale: BTreeSet<ZoneId>,
}

impl Shared {
    /// State of an existing zone after the commands that have started.
    pub(super) fn settled(&self, zone: ZoneId) -> Settled {
        self.state.borrow().machine.info(zone).into()
    }

    pub(super) fn error(&self, kind: DeviceErrorKind, at: Lba) -> DeviceError {
        DeviceError::new(kind, at, self.geometry.zone_of(at))
    }

    pub(super) fn begin(&self, at: Lba) -> DeviceResult<()> {
        if self.gone.get() { Err(self.error(DeviceErrorKind::Gone, at)) } else { Ok(()) }
    }

    /// Drops the senders of commands that wait for their turn or place, with lanes and gate: they will not go.
    pub(super) fn let_go(&self) {
        let waiting = {
            let state = &mut *self.state.borrow_mut();
            (std::mem::take(&mut state.lanes), state.gate.take())
        };
        drop(waiting);
    }

    /// The node, unless the device was dropped.
    pub(super) fn node(&self) -> Option<Arc<Node>> {
        self.node.borrow().clone()
    }

    /// Waits for the answer to a command.
    pub(super) async fn answer<T>(&self, at: Lba, receiver: oneshot::Receiver<DeviceResult<T>>) -> DeviceResult<T> {
        receiver.await.unwrap_or_else(|_| Err(self.error(DeviceErrorKind::Gone, at)))
    }
}

impl State {
    /// A command on `zone` is done and the zone's state is certain.
    pub(super) fn settle(&mut self, zone: ZoneId, settled: Settled) {
        self.lanes.settle(zone, settled);
        self.release(zone, settled.state);
    }

    /// A failed command may have kept a place that others were promised.
    pub(super) fn refuse_excess(&mut self) {
        if let Some(gate) = &mut self.gate {
            let machine = &self.machine;
            gate.refuse_excess(machine.active_zones(), |zone| machine.info(zone).state.is_active());
        }
    }

    /// The drive's places are again what `state` says.
    pub(super) fn release(&mut self, zone: ZoneId, state: ZoneState) {
        if let Some(gate) = &mut self.gate {
            gate.leave(zone, state);
        }
    }
}
