//! The contract of block stores, kept through the protocol: a client is as good a store as the one behind the server.

use std::rc::Rc;

use shingle_nbd_server::{About, Options};
use shingle_runtime::real;
use shingle_store_testing::blocks::contract::BlockCase;

use crate::harness::Harness;
use crate::remote::Remote;

/// Runs a case with sectors of these sizes: the client's, and the store's.
fn run_on(case: BlockCase, client_bytes: u64, store_bytes: u64, told: bool) {
    real::run(|rt| async move {
        let harness = Harness::new(About::new("disk"), store_bytes, Options::default()).await;
        let client = if told { harness.attached().await } else { harness.untold().await };
        case(rt.clone(), Rc::new(Remote::new(&rt, client, client_bytes))).await;
    })
    .unwrap();
}

mod by_structured_replies {
    use super::*;

    fn run(case: BlockCase, sector_bytes: u64) {
        run_on(case, sector_bytes, sector_bytes, true);
    }

    shingle_store_testing::block_contract_tests!(run);
}

/// With sectors of another size than the store's, so that parts of sectors are written.
mod by_the_byte {
    use super::*;

    fn run(case: BlockCase, sector_bytes: u64) {
        run_on(case, sector_bytes, 4096, false);
    }

    shingle_store_testing::block_contract_tests!(run;
        sectors_that_were_never_written_read_as_zeros
        both_ends_of_a_store_can_be_written
        a_write_is_of_all_its_pieces
        of_writes_that_follow_each_other_the_last_is_read
        sectors_written_one_by_one_are_read_together
        large_writes_are_read_in_any_pieces
        trimmed_sectors_read_as_before_or_as_zeros_until_they_are_written
        zeros_are_read_where_zeros_were_written
        mapped_runs_cover_an_access_from_its_start
        writes_to_places_apart_do_not_meet
        of_writes_that_overlap_in_time_each_sector_has_one
        zeros_and_trims_that_overlap_writes_leave_whole_sectors
        a_change_whose_future_is_dropped_happens
        reads_and_flushes_may_be_dropped
        random_histories_agree_with_the_shadow
    );
}
