//! Changes that take several steps, done to their end. (PL-PLC-5)

#![expect(
    clippy::disallowed_methods,
    reason = "this lives with the front ends, on tokio's threads, outside simulations"
)]

use std::future::Future;

use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

/// Does `work` in a task of its own. Without it, a caller that goes away (a connection that breaks off drops its
/// request) would drop the key's turn and all later steps, while the stores finish the step under way.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = StoreResult<T>> + Send + 'static,
) -> StoreResult<T> {
    let lost = |_| StoreError::new(StoreErrorKind::Unavailable, "the server stopped before this was done");
    tokio::spawn(work).await.unwrap_or_else(|error| Err(lost(error)))
}
