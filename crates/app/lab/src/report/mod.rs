//! Reports: rows with verdicts, figures, their files, and the page of all.

pub mod assumed;
mod dashes;
mod draw;
mod escape;
pub mod figure;
pub mod files;
pub mod grid;
pub(crate) mod joined;
pub mod number;
pub mod page;
mod picture;
pub mod row;
mod span;
pub(crate) mod times;
