//! Contents of the drives of an array that was not closed in order. (SMORE, section IV.)

pub(crate) mod examine;
pub(crate) mod gather;
pub(crate) mod probe;
pub(crate) mod recover;
pub(crate) mod versions;
