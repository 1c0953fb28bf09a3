//! Python bindings: volumes in virtual time and on real drives, with controllers of translation layers written in Python.
//!
//! **Owns** the conversion between Python's values and the volume's. **Knows nothing of** policies.
//!
//! # Invariants
//! - PY-GEN-1: a policy is a generator, and each thing that it yields is one command; it gets the answer, or an exception that it may catch.
//! - PY-GEN-2: a policy that raises, returns or hangs costs the volume no data: it runs beside it, and the volume cleans by itself.

mod answer;
mod command;
mod export;
mod policy;
mod simulate;

use pyo3::prelude::*;

/// The compiled part of the package `shingle`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::command::Command;
    #[pymodule_export]
    use crate::export::{Export, create_drive, create_volume};
    #[pymodule_export]
    use crate::simulate::simulate;
}
