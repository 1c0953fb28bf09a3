//! Work to do when the ring has done its part of a command.

use bytes::Bytes;
use shingle_base::{Blocks, Lba, ZoneId};
use shingle_zoned::DeviceResult;
use shingle_zoned::lanes::{Kind, Settled};
use tokio::sync::oneshot;

/// A command that the ring has a part of.
pub(super) enum Work {
    Read(Read),
    Write(Write),
    Flush(Answer<()>),
}

pub(super) type Answer<T> = oneshot::Sender<DeviceResult<T>>;
pub(super) type Answered<T> = oneshot::Receiver<DeviceResult<T>>;

pub(super) struct Read {
    pub(super) zone: ZoneId,
    pub(super) kind: Kind,
    pub(super) at: Lba,
    pub(super) length: Blocks,
    pub(super) answer: Answer<Bytes>,
}

pub(super) struct Write {
    pub(super) zone: ZoneId,
    pub(super) epoch: u32,
    pub(super) at: Lba,
    /// State of the zone once it is done.
    pub(super) after: Settled,
    pub(super) answer: Answer<Lba>,
}
