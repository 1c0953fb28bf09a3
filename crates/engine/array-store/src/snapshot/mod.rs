//! Snapshots of the index. (SMORE, sections III-D and IV-A.)

pub(crate) mod newest;
pub(crate) mod take;
