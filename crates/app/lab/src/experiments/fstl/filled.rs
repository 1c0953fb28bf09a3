//! Stores of which all that a load touches was written before it.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use shingle_base::{AlignedBuf, BLOCK_SIZE, Blocks};
use shingle_sim::Runtimes;
use shingle_store_api::{BlockStore, Durability};

use crate::error::LabError;
use crate::trace::io::{IoKind, Source};

/// Bytes of the pieces that are written before a replay.
const PIECE: u64 = 1 << 20;

/// Pieces outstanding then.
const FILLS: usize = 8;

/// Time between filling and replay, in which everybody tidies up.
const QUIET: Duration = Duration::from_secs(600);

/// Pieces that a trace touches.
pub(super) fn touched(source: &dyn Source, seed: u64) -> Result<BTreeSet<u64>, LabError> {
    let mut pieces = BTreeSet::new();
    for io in source.open(seed)? {
        let io = io?;
        if matches!(io.kind, IoKind::Read | IoKind::Write) {
            pieces.extend(io.offset / PIECE..(io.offset + io.length).div_ceil(PIECE));
        }
    }
    Ok(pieces)
}

/// Writes all pieces in order, so that no read is of a place that was never written, and lets the store come to rest.
pub(super) async fn fill(
    runtimes: &Runtimes,
    store: &Rc<dyn BlockStore>,
    pieces: BTreeSet<u64>,
) -> Result<(), LabError> {
    let zeros = AlignedBuf::zeroed(Blocks(PIECE / BLOCK_SIZE as u64)).freeze();
    let size = store.size_bytes();
    let write = |piece: u64| {
        let data: Bytes = zeros.slice(..PIECE.min(size - piece * PIECE) as usize);
        store.write(piece * PIECE, vec![data], Durability::Cached)
    };
    let failed = |error: shingle_store_api::StoreError| LabError(error.to_string());
    let inside = pieces.into_iter().filter(|piece| piece * PIECE < size);
    stream::iter(inside).map(write).buffered(FILLS).try_collect::<Vec<()>>().await.map_err(failed)?;
    store.flush().await.map_err(failed)?;
    runtimes.program.sleep(QUIET).await;
    Ok(())
}
