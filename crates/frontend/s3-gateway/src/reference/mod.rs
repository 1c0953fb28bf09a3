//! A store that needs no drive and remembers nothing, which shows the cost of the protocol alone.

mod discard;

pub use discard::DiscardStore;

use shingle_store_api::{StoreError, StoreErrorKind, StoreFuture};

fn ready<'a, T: Send + 'a>(result: Result<T, StoreError>) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

fn error(kind: StoreErrorKind, name: &str) -> StoreError {
    StoreError::new(kind, format!("{kind:?}: {name}"))
}
