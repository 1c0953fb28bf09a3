//! The contracts of `store-api` as tests that every store runs, and stores in memory that keep them with the least code. For tests only.
//!
//! A store of objects runs its suite with one line of [`contract_tests!`](crate::contract_tests), a store of blocks with one of
//! [`block_contract_tests!`](crate::block_contract_tests); each case begins with a fresh store. A store of objects must take parts
//! of any size but none. Crash tests of block stores drive [histories](blocks::BlockDriver) that a [shadow](blocks::BlockShadow) checks.

pub mod blocks;
pub mod contract;
mod memory;

pub use memory::MemoryStore;
