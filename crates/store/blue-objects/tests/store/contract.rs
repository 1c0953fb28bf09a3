//! A blue store keeps the contract of stores, and keeps nothing that nobody needs (BO-OBJ-4).

use std::sync::Arc;

use shingle_store_testing::contract::Case;

use crate::scene::{assert_no_leftovers, with_store};

shingle_store_testing::contract_tests!(|case: Case| with_store(move |rt, at| async move {
    case(Arc::new(at.client.clone())).await;
    assert_no_leftovers(&rt, &at, "after a case of the contract").await;
}));
