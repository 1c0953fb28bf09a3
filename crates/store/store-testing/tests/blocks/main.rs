//! Stores of blocks for tests, and the shadow: sound stores are taken, and broken ones are not.

mod contract;
mod disk;
mod lives;
mod shadow;
