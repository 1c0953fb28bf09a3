//! Tests that need a state which no call brings about for sure.

mod going;
