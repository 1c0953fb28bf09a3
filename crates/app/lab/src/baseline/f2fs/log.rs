//! One of the six logs: the section that it fills, and the writes on their way there.
//!
//! In a sequential zone one command is outstanding (the zone write lock of mq-deadline), and bios that wait behind it
//! merge: the next command has up to 256 pages of any files. In a conventional zone every bio goes to the drive at
//! once.
//!
//! # Invariants
//! - LAB-FL-1: commands to a zone go out in the order in which their blocks were given out.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use shingle_base::ZoneId;
use shingle_runtime::Runtime;
use tokio::sync::oneshot;

use crate::baseline::disk::Disk;
use crate::rig::target::TargetError;

/// Pages of a bio, and of a command that bios merged into.
const COMMAND_MAX: u64 = 256;

struct Waiting {
    at: u64,
    blocks: u64,
    done: oneshot::Sender<Result<(), TargetError>>,
}

/// The end of a write, some time later.
pub(crate) type Written = oneshot::Receiver<Result<(), TargetError>>;

pub(crate) struct Log {
    rt: Runtime,
    disk: Rc<Disk>,
    /// The section that it fills.
    pub(crate) section: Cell<u32>,
    waiting: RefCell<VecDeque<Waiting>>,
    busy: Cell<bool>,
}

impl Log {
    pub(crate) fn new(rt: &Runtime, disk: Rc<Disk>, section: u32) -> Rc<Self> {
        let section = Cell::new(section);
        Rc::new(Self { rt: rt.clone(), disk, section, waiting: RefCell::default(), busy: Cell::new(false) })
    }

    /// Writes blocks that were given out last.
    pub(crate) fn write(self: &Rc<Self>, at: u64, blocks: u64) -> Written {
        let (done, written) = oneshot::channel();
        let geometry = self.disk.geometry();
        if geometry.is_conventional(ZoneId((at / geometry.zone_size.0) as u32)) {
            let disk = self.disk.clone();
            self.rt.spawn_detached(async move {
                // Nobody may wait for it.
                let _ = done.send(disk.write(at, blocks).await);
            });
            return written;
        }
        self.waiting.borrow_mut().push_back(Waiting { at, blocks, done });
        if !self.busy.replace(true) {
            let this = self.clone();
            self.rt.spawn_detached(async move {
                while let Some((at, blocks)) = this.next_command() {
                    let result = this.disk.write(at, blocks).await;
                    this.completed(blocks, &result);
                }
                this.busy.set(false);
            });
        }
        written
    }

    fn next_command(&self) -> Option<(u64, u64)> {
        let waiting = self.waiting.borrow();
        let first = waiting.front()?;
        let mut blocks = 0;
        for write in waiting.iter() {
            if write.at != first.at + blocks || blocks >= COMMAND_MAX {
                break;
            }
            blocks += write.blocks;
        }
        Some((first.at, blocks.min(COMMAND_MAX)))
    }

    fn completed(&self, mut blocks: u64, result: &Result<(), TargetError>) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(first) = waiting.front_mut().filter(|_| blocks > 0) {
            let part = blocks.min(first.blocks);
            (first.at, first.blocks, blocks) = (first.at + part, first.blocks - part, blocks - part);
            if (first.blocks == 0 || result.is_err())
                && let Some(first) = waiting.pop_front()
            {
                let _ = first.done.send(result.clone());
            }
        }
    }
}
