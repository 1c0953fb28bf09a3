//! Reads. (SMRstore, sections 5.2 and 5.3.)

mod fetch;
mod fetched;

pub(crate) use fetch::Fetching;
pub use fetched::Fetched;
pub(crate) use fetched::{Raw, UNDER_WAY, Verifier};
