//! The object store keeps the contract of stores, and its index agrees with its drives.

use std::sync::Arc;

use shingle_object_store::Depth;
use shingle_store_testing::contract::Case;

use crate::recovery::with_store;
use crate::world::World;

shingle_store_testing::contract_tests!(|case: Case| {
    let world = World::new(1, 2, 16 << 20, 40 << 10);
    with_store(&world, move |store, _| async move {
        case(Arc::new(store.clone())).await;
        assert_eq!(store.check(Depth::Full).await.unwrap().damage, Vec::new());
    });
});
