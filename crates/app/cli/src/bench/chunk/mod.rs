//! The chunk store, over memory devices.

pub(crate) mod append;
pub(super) mod gc;
pub(super) mod read;
