//! Work on the index before the engine runs: on a thread, if it may block.

use std::sync::Arc;

use shingle_runtime::Runtime;
use shingle_store_api::StoreResult;

use crate::errors::{from_index, lost};
use crate::index::{Index, IndexResult};
use crate::indexer::Indexer;

/// Runs `work` on the indexer, where it may block.
pub(super) async fn with_indexer<T: Send + 'static>(
    runtime: &Runtime,
    index: &Arc<dyn Index>,
    mut indexer: Indexer,
    work: impl FnOnce(&mut Indexer) -> IndexResult<T> + Send + 'static,
) -> StoreResult<(Indexer, T)> {
    let run = move || {
        let result = work(&mut indexer);
        (indexer, result)
    };
    let (indexer, result) = if index.blocks() { runtime.blocking(run).await.map_err(lost)? } else { run() };
    Ok((indexer, result.map_err(from_index)?))
}

pub(super) async fn with_index<T: Send + 'static>(
    runtime: &Runtime,
    index: &Arc<dyn Index>,
    work: impl FnOnce(&Arc<dyn Index>) -> IndexResult<T> + Send + 'static,
) -> StoreResult<T> {
    if !index.blocks() {
        return work(index).map_err(from_index);
    }
    let index = index.clone();
    runtime.blocking(move || work(&index)).await.map_err(lost)?.map_err(from_index)
}
