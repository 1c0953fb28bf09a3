//! Examinations: one module for each question that the chapter's tests ask. (Dissertation, chapter 2.)

pub mod bands;
pub mod cache_location;
pub mod capacity;
pub mod cleaning;
pub mod drive_type;
pub mod empty;
pub mod journal;
pub mod mapping;
pub mod mechanics;
pub mod native;
pub mod pace;
pub mod rereads;
pub mod streaming;
pub mod surface;
pub mod torn;
pub mod turn;
