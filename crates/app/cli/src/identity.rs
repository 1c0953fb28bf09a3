//! The identity of this build: its version, and a number of its sources (`build.rs` of the package).

use shingle_lab::inputs::Program;

/// Version and number, as `--version` shows them.
pub(crate) const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " (build ", env!("SHINGLE_BUILD"), ")");

/// The commit of its sources, with `+` behind it if there were changes beside it; nothing if they were in no repository.
const COMMIT: &str = env!("SHINGLE_COMMIT");

/// The identity, as results of the lab carry it.
pub(crate) fn program() -> Program {
    let commit = (!COMMIT.is_empty()).then(|| COMMIT.to_owned());
    Program { commit, build: Some(env!("SHINGLE_BUILD").to_owned()) }
}
