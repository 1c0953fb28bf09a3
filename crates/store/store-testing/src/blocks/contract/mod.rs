//! The contract of a block store, as cases that each begin with a store that was never written.

mod access;
mod concurrent;
mod unmapped;

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use shingle_runtime::Runtime;
use shingle_store_api::{BlockStore, StoreErrorKind, StoreResult};

pub use access::*;
pub use concurrent::*;
pub use unmapped::*;

use super::BlockShadow;

/// A case, run on a fresh store with its runtime.
pub type BlockCase = fn(Runtime, Rc<dyn BlockStore>) -> LocalBoxFuture<'static, ()>;

/// Bytes that a store for the suite must have at least.
pub const BYTES_MIN: u64 = 12 << 20;

/// Sizes of sectors that the suite runs with.
pub const SECTOR_SIZES: [u64; 2] = [512, 4096];

/// A test for each case of the contract of block stores. The expression is a function that takes a
/// [`BlockCase`](crate::blocks::contract::BlockCase) and bytes of a sector, and runs the case on a fresh store of at least
/// [`BYTES_MIN`](crate::blocks::contract::BYTES_MIN).
#[macro_export]
macro_rules! block_contract_tests {
    ($run:expr) => {
        $crate::block_contract_tests!($run;
            accesses_that_are_not_of_whole_sectors_inside_are_refused
            sectors_that_were_never_written_read_as_zeros
            both_ends_of_a_store_can_be_written
            a_write_is_of_all_its_pieces
            of_writes_that_follow_each_other_the_last_is_read
            sectors_written_one_by_one_are_read_together
            large_writes_are_read_in_any_pieces
            a_flush_is_answered_whatever_was_written
            trimmed_sectors_read_as_before_or_as_zeros_until_they_are_written
            zeros_are_read_where_zeros_were_written
            mapped_runs_cover_an_access_from_its_start
            all_runs_are_found_by_going_on_where_an_answer_ended
            writes_to_places_apart_do_not_meet
            of_writes_that_overlap_in_time_each_sector_has_one
            zeros_and_trims_that_overlap_writes_leave_whole_sectors
            a_change_whose_future_is_dropped_happens
            reads_and_flushes_may_be_dropped
            random_histories_agree_with_the_shadow
        );
    };
    ($run:expr; $($case:ident)*) => {
        $(#[test]
        fn $case() {
            for sector_bytes in $crate::blocks::contract::SECTOR_SIZES {
                let case: $crate::blocks::contract::BlockCase =
                    |rt, store| Box::pin($crate::blocks::contract::$case(rt, store));
                $run(case, sector_bytes);
            }
        })*
    };
}

/// A shadow of a store that was never written.
fn shadow_of(store: &dyn BlockStore) -> BlockShadow {
    let (size, sector) = (store.size_bytes(), store.sector_bytes());
    assert!(SECTOR_SIZES.contains(&sector), "sectors of {sector} bytes");
    assert!(size >= BYTES_MIN && size.is_multiple_of(sector), "a store of {size} bytes, in sectors of {sector}");
    BlockShadow::new(size / sector, sector)
}

/// The kind of error that a call must have failed with.
fn refused<T>(result: StoreResult<T>) -> StoreErrorKind {
    match result {
        Ok(_) => panic!("a call that must be refused was not"),
        Err(error) => error.kind,
    }
}
