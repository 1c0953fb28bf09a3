//! Rigs: stores on modelled drives behind a kernel, ready for a load.

pub mod array;
pub mod blocks;
pub mod calls;
pub mod drives;
pub mod engine;
pub mod files;
pub mod host;
pub mod opening;
pub mod processor;
pub mod scaling;
pub(crate) mod server;
pub mod ssd;
pub mod store;
pub mod system;
pub mod target;
pub mod twin;
