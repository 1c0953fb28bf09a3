//! Objects: put, read, deleted, and what is known of them meanwhile. (SMORE, section III-F.)

pub(crate) mod delete;
pub(crate) mod deleting;
pub(crate) mod get;
mod in_mind;
pub(crate) mod loss;
pub(crate) mod naming;
pub(crate) mod own_names;
pub(crate) mod progress;
pub(crate) mod put;
pub(crate) mod share;
pub(crate) mod sharing;
pub(crate) mod unsure;
