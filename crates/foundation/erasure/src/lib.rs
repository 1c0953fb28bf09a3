//! Reed-Solomon codes over fragments: `k` data fragments and `m` parity fragments, of which any `k` give back all.
//!
//! **Owns** the bytes of parity fragments. They are stored on drives, so they must never change; golden bytes in
//! `tests/code.rs` hold them. **Knows nothing of** segments, zones, checksums: a fragment is bytes, and a damaged one
//! must not be given as present.
//!
//! The code is that of the crate `reed-solomon-simd` (symbols of 16 bits, Cantor's basis, the high rate or the low as the
//! crate's default chooses). Encoding is the crate's; reconstruction is a product with a matrix that is taken from the
//! crate's own encoder, in the crate's arithmetic: the crate's decoder spends a transform over all 65,536 field elements
//! on each call, which is far more than the slices of a degraded read take.
//!
//! # Invariants
//! - EC-1: any `data` of the fragments give back every other one. `tests/code.rs`, every pattern of losses.
//! - EC-2: columns of [`COLUMN`] bytes are independent: a range of all fragments that begins and ends at multiples of it is
//!   encoded and reconstructed as if it were the whole. `ranges_are_independent`.
//! - EC-3: with one parity fragment the parity is the exclusive or of the data: RAID-4. `one_parity_is_exclusive_or`.

mod code;
mod coder;
mod field;

pub use code::{Code, CodeError, WIDTH_MAX};
pub use coder::{COLUMN, Coder};
