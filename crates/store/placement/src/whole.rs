//! Calls with an end: changes that take several steps, done to theirs (PL-PLC-5), and questions to sites that may be silent.

#![expect(
    clippy::disallowed_methods,
    reason = "this lives with the front ends, on tokio's threads, outside simulations"
)]

use std::future::Future;
use std::time::Duration;

use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};

/// Does `work` in a task of its own. Without it, a caller that goes away (a connection that breaks off drops its
/// request) would drop the key's turn and all later steps, while the stores finish the step under way.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = StoreResult<T>> + Send + 'static,
) -> StoreResult<T> {
    let lost = |_| StoreError::new(StoreErrorKind::Unavailable, "the server stopped before this was done");
    tokio::spawn(work).await.unwrap_or_else(|error| Err(lost(error)))
}

/// Longest time to wait for a site whose answer can be done without.
const PATIENCE: Duration = Duration::from_secs(5);

/// The answer of a site that can be done without.
///
/// # Errors
/// The site's; `Unavailable` if it is silent.
pub(crate) async fn if_soon<T>(answer: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    let silent = |_| StoreError::new(StoreErrorKind::Unavailable, "the store does not answer");
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|late| Err(silent(late)))
}
