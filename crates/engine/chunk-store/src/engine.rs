//! An open store: its parts together. Each part owns its state; operations on several of them are in modules of their own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use shingle_base::StoreId;
use shingle_record::{MetaLog, SequenceSource};
use shingle_runtime::Runtime;
use tokio::sync::{Mutex, Semaphore};

use crate::config::Options;
use crate::drive::{Drive, Gate, HostRoom, Layout, payload};
use crate::gc::{Collector, Destinations};
use crate::journal::LogRoom;
use crate::read::{UNDER_WAY, Verifier};
use crate::state::StoreState;
use crate::wakes::Wakes;

/// An open store.
pub(crate) struct Engine {
    pub(crate) rt: Runtime,
    pub(crate) options: Options,
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    pub(crate) drive: Drive,
    /// Room of the file system that holds the drive, if it is an emulated one.
    pub(crate) host: HostRoom,
    pub(crate) verifier: Verifier,
    /// Bytes of reads that may begin. (CS-READ-5)
    pub(crate) reads: Semaphore,
    pub(crate) sequence: SequenceSource,
    pub(crate) log: MetaLog,
    pub(crate) log_room: LogRoom,
    /// One checkpoint is written at a time.
    pub(crate) checkpointing: Mutex<()>,
    /// All that changes in the steps of one call: chunks, zones, appends.
    pub(crate) state: RefCell<StoreState>,
    pub(crate) collector: Collector,
    pub(crate) wakes: Wakes,
    pub(crate) closing: Cell<bool>,
    /// It is done with its drive (CS-CLOSE-1).
    pub(crate) closed: Cell<bool>,
}

/// Parts of a new [`Engine`], made by recovery.
pub(crate) struct Parts {
    pub(crate) rt: Runtime,
    pub(crate) gate: Rc<Gate>,
    pub(crate) options: Options,
    pub(crate) store: StoreId,
    pub(crate) layout: Layout,
    pub(crate) sequence: SequenceSource,
    pub(crate) log: MetaLog,
    pub(crate) state: StoreState,
    pub(crate) destinations: Destinations,
}

impl Engine {
    pub(crate) fn new(parts: Parts) -> Rc<Self> {
        let Parts { rt, gate, options, store, layout, sequence, log, state, destinations } = parts;
        let drive = Drive::new(gate);
        Rc::new(Self {
            verifier: Verifier::new(payload::of(&options, &drive.geometry)),
            collector: Collector::new(options.gc_latency_factor, sequence.last(), destinations),
            host: HostRoom::default(),
            log_room: LogRoom::default(),
            reads: Semaphore::new(UNDER_WAY),
            checkpointing: Mutex::new(()),
            state: RefCell::new(state),
            wakes: Wakes::default(),
            closing: Cell::new(false),
            closed: Cell::new(false),
            drive,
            rt,
            options,
            store,
            layout,
            sequence,
            log,
        })
    }
}
