//! Appends: from a call to a durable record in a zone. (SMRstore, sections 5.1, 5.3 and 5.4.)

mod batch;
mod fail;
mod open;
mod placing;
pub(crate) mod pools;
mod resume;
mod starved;
pub(crate) mod turns;
mod write;
mod zone_writer;

pub(crate) use batch::{Batch, Framed};
pub(crate) use open::{OpenChunk, Pending, Resumption, Waiter};
pub(crate) use starved::Starved;
pub(crate) use zone_writer::ZoneWriter;
