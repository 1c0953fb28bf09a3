//! Tests of the whole: layers, and the parsers of every byte on a drive. Also what these tests share with `fuzz/`.
//!
//! **Owns** one function for each parser, which gives it arbitrary bytes. **Knows nothing of** what the bytes mean.
//!
//! # Invariants
//! - PARSE-1: no bytes on a drive make a parser panic. (`parsers.rs`, `fuzz/`)

pub mod parsers;
