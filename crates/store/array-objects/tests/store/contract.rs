//! A store on an array keeps the contract of stores, and keeps nothing that nobody needs (AO-OBJ-4).

use std::sync::Arc;

use shingle_store_testing::contract::Case;

use crate::scene::{assert_no_leftovers, with_store};

shingle_store_testing::contract_tests!(|case: Case| with_store(move |rt, store| async move {
    case(Arc::new(store.clone())).await;
    assert_no_leftovers(&rt, &store, "after a case of the contract").await;
}));
