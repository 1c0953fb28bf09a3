//! From formatting through opening to the end of an array.

pub(crate) mod close;
pub(crate) mod create;
pub(crate) mod opening;
pub(crate) mod state;
