//! The identity of this build: its version, and a number of its sources (`build.rs` of the package).

/// Version and number, as `--version` shows them.
pub(crate) const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " (build ", env!("SHINGLE_BUILD"), ")");
