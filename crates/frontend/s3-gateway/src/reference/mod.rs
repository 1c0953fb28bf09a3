//! Two stores that need no drive: one that remembers everything, for tests, and one that remembers nothing, which shows
//! the cost of the protocol alone.

mod discard;
mod memory;
mod memory_uploads;

pub use discard::DiscardStore;
pub use memory::MemoryStore;

use shingle_store_api::{StoreError, StoreErrorKind, StoreFuture};

fn ready<'a, T: Send + 'a>(result: Result<T, StoreError>) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

fn error(kind: StoreErrorKind, name: &str) -> StoreError {
    StoreError::new(kind, format!("{kind:?}: {name}"))
}
