//! Drives that come and go, and what was on them: rebuild, scrub, repair. (SMORE, section III-G.)

pub(crate) mod membership;
pub(crate) mod readmit;
pub(crate) mod reads;
pub(crate) mod rebuild;
pub(crate) mod replace;
pub(crate) mod rows;
pub(crate) mod scrub;
pub(crate) mod told;
pub(crate) mod touched;
pub(crate) mod waiting;
