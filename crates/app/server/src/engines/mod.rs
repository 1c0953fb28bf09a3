//! Engines: each is opened, served and closed on its own, with the drives that it has.

pub(crate) mod arrays;
pub(crate) mod blues;
pub(crate) mod bucket_notes;
pub(crate) mod device;
pub(crate) mod drive;
pub(crate) mod gate;
pub(crate) mod keeper;
pub(crate) mod objects;
pub(crate) mod opening;
mod partition;
pub(crate) mod room;
pub(crate) mod scrub;
pub(crate) mod thread;
pub(crate) mod waiting;
pub(crate) mod whole;
