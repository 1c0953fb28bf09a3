//! Looking at arrays: without opening them, and whether all that they hold is whole.

pub(crate) mod check;
pub(crate) mod condition;
pub(crate) mod gentle;
pub(crate) mod unopened;
