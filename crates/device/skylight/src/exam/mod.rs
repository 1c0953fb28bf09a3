//! Examinations: one module for each question that the chapter's tests ask. (Dissertation, chapter 2.)

pub mod cache_location;
pub mod cleaning;
pub mod drive_type;
pub mod native;
pub mod turn;
