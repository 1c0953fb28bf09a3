//! Changes that take several steps, done to their end. (PLC-5)

#![expect(
    clippy::disallowed_methods,
    reason = "this lives with the front ends, on tokio's threads, outside simulations"
)]

use std::future::Future;

use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

/// Does `work`, in a task of its own: who asked for it may go away (a connection that breaks off drops its request), and the
/// stores would go on with the step under way while nobody holds the key's turn any more, and nobody takes the next step.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = StoreResult<T>> + Send + 'static,
) -> StoreResult<T> {
    let lost = |_| StoreError::new(StoreErrorKind::Unavailable, "the server stopped before this was done");
    tokio::spawn(work).await.unwrap_or_else(|error| Err(lost(error)))
}
