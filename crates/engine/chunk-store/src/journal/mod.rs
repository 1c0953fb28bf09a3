//! The journal: changes that are durable once their entries are, checkpoints and marks that keep it short, and its room.
//! (SMRstore, sections 5.2 and 5.6.)

mod changes;
mod checkpoint;
mod deletions;
mod entry;
mod log_room;
mod marks;
mod resumed;
mod room;
mod unmarked;

pub(crate) use deletions::Deletions;
pub(crate) use log_room::LogRoom;
pub(crate) use resumed::{Continuation, Resumed};
pub(crate) use room::groups_bytes;
pub(crate) use unmarked::Unmarked;
