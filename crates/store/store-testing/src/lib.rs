//! The contract of `store-api` as tests that every store runs, and a store in memory that keeps it with the least code. For tests only.
//!
//! A store runs the suite with one line of [`contract_tests!`](crate::contract_tests); each case begins with a fresh store.
//! The store must take parts of any size but none.

pub mod contract;
mod memory;

pub use memory::MemoryStore;
