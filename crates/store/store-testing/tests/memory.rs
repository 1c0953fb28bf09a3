//! The store in memory keeps the contract.

use std::sync::Arc;

use futures_util::FutureExt;
use shingle_store_testing::MemoryStore;
use shingle_store_testing::contract::Case;

shingle_store_testing::contract_tests!(|case: Case| {
    case(Arc::new(MemoryStore::new(1 << 30))).now_or_never().expect("nothing in memory waits");
});
