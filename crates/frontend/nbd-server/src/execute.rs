//! Orders, done on the thread of the store's owner.

use bytes::Bytes;
use futures_util::future::try_join_all;
use shingle_store_api::{BlockStore, StoreResult};

use crate::edges::{Edges, read, widened};
use crate::reply::{Content, Outcome, Piece, Run};
use crate::request::{Order, Span};

/// A shorter hole is read as data: a chunk and a second read cost more than its zeros.
const HOLE_BYTES_MIN: u64 = 32 << 10;
/// Runs of a read: what lies behind them is read as data.
const READ_RUNS_MAX: usize = 64;
/// Runs in the state of blocks: clients ask on from there.
const STATUS_RUNS_MAX: usize = 4096;

/// Does `order`, with its data.
pub(crate) async fn execute(store: &dyn BlockStore, edges: &Edges, order: Order, data: Vec<Bytes>) -> Outcome {
    match order {
        Order::Read { span, holes } => return Ok(Content::Read(read_pieces(store, span, holes).await?)),
        Order::Status { span, one } => {
            let found = runs(store, span, if one { 1 } else { STATUS_RUNS_MAX }).await?;
            return Ok(Content::Status(found));
        }
        Order::Write { span, durability } => edges.write(store, span, data, durability).await?,
        Order::Zero { span, durability, filled } => edges.zero(store, span, durability, filled).await?,
        Order::Trim { span, durability } => edges.trim(store, span, durability).await?,
        Order::Flush => store.flush().await?,
    }
    Ok(Content::Done)
}

async fn read_pieces(store: &dyn BlockStore, span: Span, holes: bool) -> StoreResult<Vec<Piece>> {
    let whole = vec![Run { span, mapped: true }];
    let parts = if holes && span.length >= HOLE_BYTES_MIN {
        // If the store cannot tell, the read itself finds out.
        runs(store, span, READ_RUNS_MAX).await.map_or(whole, |found| worthwhile(span, &found))
    } else {
        whole
    };
    let read_one = |run: Run| async move {
        let data = if run.mapped { Some(read(store, run.span).await?) } else { None };
        StoreResult::Ok(Piece { span: run.span, data })
    };
    try_join_all(parts.into_iter().map(read_one)).await
}

/// The parts of a read: long holes, and everything else as data.
fn worthwhile(span: Span, found: &[Run]) -> Vec<Run> {
    let mut parts = Vec::new();
    for run in found {
        push(&mut parts, Run { mapped: run.mapped || run.span.length < HOLE_BYTES_MIN, ..*run });
    }
    let told = found.last().map_or(span.offset, |last| last.span.end());
    if told < span.end() {
        push(&mut parts, Run { span: Span::between(told, span.end()), mapped: true });
    }
    parts
}

/// The states of a span's bytes from its start, at least one.
async fn runs(store: &dyn BlockStore, span: Span, most: usize) -> StoreResult<Vec<Run>> {
    let wide = widened(span, store.sector_bytes());
    let mut found = Vec::new();
    for run in store.mapped(wide.offset, wide.length, most).await?.into_iter().take(most) {
        let at = found.last().map_or(span.offset, |last: &Run| last.span.end());
        let end = run.offset.saturating_add(run.length).min(span.end());
        // One that does not go on from the last tells nothing.
        if run.offset > at || end <= at {
            break;
        }
        push(&mut found, Run { span: Span::between(at, end), mapped: run.mapped });
    }
    if found.is_empty() {
        found.push(Run { span, mapped: true });
    }
    Ok(found)
}

/// Appends a run, or makes the last one longer if it is in the same state.
fn push(runs: &mut Vec<Run>, next: Run) {
    match runs.last_mut() {
        Some(last) if last.mapped == next.mapped => last.span.length += next.span.length,
        _ => runs.push(next),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_holes_are_read_with_the_data_around_them() {
        let run = |from: u64, to: u64, mapped| Run { span: Span::between(from << 10, to << 10), mapped };
        let found = [run(0, 16, false), run(16, 20, true), run(20, 60, false), run(60, 61, true), run(61, 70, false)];
        let parts = worthwhile(Span::between(0, 100 << 10), &found);
        assert_eq!(parts, [run(0, 20, true), run(20, 60, false), run(60, 100, true)]);
        assert_eq!(worthwhile(Span::between(0, 100 << 10), &[]), [run(0, 100, true)]);
        assert_eq!(worthwhile(Span::between(0, 100 << 10), &[run(0, 100, false)]), [run(0, 100, false)]);
    }
}
