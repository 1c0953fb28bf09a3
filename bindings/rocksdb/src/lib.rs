//! Files of a zoned drive for C: `include/shingle/files.h`. The file system of RocksDB in `cpp/` stands on it.
//!
//! **Owns** the translation of calls, and which drives this process has open. **Knows nothing of** databases.
//!
//! # Invariants
//! - RK-ABI-1: no panic leaves a function: it becomes `SHINGLE_UNAVAILABLE`.
//! - RK-ABI-2: a pointer that a function gives away belongs to the caller, until the function that frees it takes it back.
//! - RK-DRIVE-1: a drive is open once in a process, however often it is asked for.

// Pointers come from C. Each function says what they must be; each block says why it may use them.
#[allow(unsafe_code)]
mod abi;
mod drives;
