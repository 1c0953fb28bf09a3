//! The contract of an object store, as cases that each begin with a store that is empty.

mod buckets;
mod listing;
mod objects;
mod uploads;

use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use shingle_store_api::{ObjectStore, StoreErrorKind, StoreResult};

pub use buckets::*;
pub use listing::*;
pub use objects::*;
pub use uploads::*;

/// A case, run on an empty store.
pub type Case = fn(Arc<dyn ObjectStore>) -> LocalBoxFuture<'static, ()>;

/// A test for each case of the contract; the expression is a function that takes a [`Case`](crate::contract::Case) and runs it on an
/// empty store.
#[macro_export]
macro_rules! contract_tests {
    ($run:expr) => {
        $crate::contract_tests!($run;
            a_bucket_is_there_from_its_creation_to_its_deletion
            a_bucket_that_holds_something_is_not_deleted
            names_and_metadata_that_are_too_long_are_refused
            a_put_into_a_bucket_that_was_deleted_meanwhile_is_refused
            a_bucket_that_is_deleted_while_puts_come_stays_or_takes_none_of_them
            a_put_that_began_in_an_earlier_bucket_of_that_name_counts_from_its_commit
            an_object_is_what_was_put_last
            a_reader_reads_its_version_whatever_becomes_of_the_object
            reads_outside_an_object_are_refused
            conditions_hold_of_the_version_that_is_replaced
            of_conditional_writers_that_race_exactly_one_wins
            a_put_that_began_before_a_deletion_and_was_committed_after_it_is_there
            a_writer_that_is_dropped_leaves_nothing_behind
            pages_of_a_listing_show_what_a_look_at_every_key_shows
            a_listing_has_all_but_the_sizes_of_parts
            parts_become_an_object_in_their_order
            parts_are_replaced_and_those_that_are_not_named_go
            a_completion_names_parts_that_there_are_in_order_and_large_enough
            of_a_part_that_is_sent_twice_the_one_acknowledged_last_counts
            an_upload_is_of_one_key_and_ends_once
            conditions_hold_of_completions
            numbers_of_parts_go_from_1_to_10000
            parts_are_listed_by_number_in_pages
            uploads_are_listed_by_key_then_id_in_pages
        );
    };
    ($run:expr; $($case:ident)*) => {
        $(#[test]
        fn $case() {
            $run((|store| Box::pin($crate::contract::$case(store))) as $crate::contract::Case);
        })*
    };
}

/// The kind of error that a call must have failed with.
fn refused<T>(result: StoreResult<T>) -> StoreErrorKind {
    match result {
        Ok(_) => panic!("a call that must be refused was not"),
        Err(error) => error.kind,
    }
}
