//! The data directory of a server that does not run.

pub(crate) mod loss;
pub(crate) mod opened;
pub(crate) mod precheck;
pub(crate) mod store;
