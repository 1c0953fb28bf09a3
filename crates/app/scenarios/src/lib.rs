//! Tests of the whole: layers, and the parsers of every byte on a drive. Also what these tests share with `fuzz/`.
//!
//! **Owns** one function for each parser, which gives it arbitrary bytes. **Knows nothing of** the bytes' meaning.
//!
//! # Invariants
//! - SC-PARSE-1: no bytes on a drive, of a request or of a configuration make a parser panic. (`parsers.rs`, `mutated`, `fuzz/`)
//! - SC-PARSE-2: no such bytes make a parser take much more memory than they are long. (`mutated`)

pub mod mutate;
pub mod parsers;
