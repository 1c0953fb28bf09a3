//! Access by the byte to stores of sectors, for clients that were not told of sectors, or do not care.
//!
//! A write that ends inside a sector reads it, and writes it back with its own bytes put in. A write that was answered in between
//! would be undone; so writes of less than sectors are done alone, and those of whole sectors beside each other. (NBD-EDGE-1) Long zeros are
//! many writes, each by itself. (NBD-EDGE-2)

use bytes::Bytes;
use shingle_store_api::{BlockStore, Durability, StoreError, StoreErrorKind, StoreResult};
use tokio::sync::RwLock;

use crate::request::Span;

/// Zeros that are written at once where they are to take their room.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// The writes of an export, on whatever connections.
#[derive(Default)]
pub(crate) struct Edges(RwLock<()>);

/// The sectors that a span touches.
pub(crate) fn widened(span: Span, sector: u64) -> Span {
    Span::between(span.offset / sector * sector, span.end().div_ceil(sector).saturating_mul(sector))
}

/// The sectors that a span has all of.
fn narrowed(span: Span, sector: u64) -> Option<Span> {
    let (first, end) = (span.offset.div_ceil(sector).saturating_mul(sector), span.end() / sector * sector);
    (first < end).then(|| Span::between(first, end))
}

/// The bytes of a span, as pieces that follow each other.
pub(crate) async fn read(store: &dyn BlockStore, span: Span) -> StoreResult<Vec<Bytes>> {
    let wide = widened(span, store.sector_bytes());
    let pieces = store.read_pieces(wide.offset, wide.length).await?;
    let length: usize = pieces.iter().map(Bytes::len).sum();
    if length as u64 != wide.length {
        let words = format!("{length} bytes were read at {}, and not {}", wide.offset, wide.length);
        return Err(StoreError::new(StoreErrorKind::Device, words));
    }
    Ok(within(pieces, (span.offset - wide.offset) as usize, span.length as usize))
}

/// The bytes of pieces from `first` on, so many.
fn within(pieces: Vec<Bytes>, first: usize, length: usize) -> Vec<Bytes> {
    let (mut skip, mut left) = (first, length);
    let mut part = |piece: Bytes| {
        let from = skip.min(piece.len());
        let to = (from + left).min(piece.len());
        skip -= from;
        left -= to - from;
        piece.slice(from..to)
    };
    pieces.into_iter().map(&mut part).filter(|piece| !piece.is_empty()).collect()
}

impl Edges {
    pub(crate) async fn write(
        &self,
        store: &dyn BlockStore,
        span: Span,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> StoreResult<()> {
        if widened(span, store.sector_bytes()) == span {
            let _beside = self.0.read().await;
            return store.write(span.offset, data, durability).await;
        }
        let _alone = self.0.write().await;
        patch(store, span, data, durability).await
    }

    /// `filled`: as data, so that they take their room.
    pub(crate) async fn zero(
        &self,
        store: &dyn BlockStore,
        span: Span,
        durability: Durability,
        filled: bool,
    ) -> StoreResult<()> {
        let Some(inner) = narrowed(span, store.sector_bytes()) else {
            return self.write(store, span, zeros(span), durability).await;
        };
        let (before, after) = (Span::between(span.offset, inner.offset), Span::between(inner.end(), span.end()));
        if before.length > 0 {
            self.write(store, before, zeros(before), durability).await?;
        }
        self.zero_sectors(store, inner, durability, filled).await?;
        if after.length > 0 {
            self.write(store, after, zeros(after), durability).await?;
        }
        Ok(())
    }

    /// Each piece has its turn by itself: one that waits to be alone waits for no more than that (NBD-EDGE-2).
    async fn zero_sectors(
        &self,
        store: &dyn BlockStore,
        span: Span,
        durability: Durability,
        filled: bool,
    ) -> StoreResult<()> {
        if !filled {
            let _beside = self.0.read().await;
            return store.write_zeros(span.offset, span.length, durability).await;
        }
        let mut left = span;
        while left.length > 0 {
            let now = Span { length: left.length.min(ZEROS.len() as u64), ..left };
            self.write(store, now, zeros(now), durability).await?;
            left = Span::between(now.end(), span.end());
        }
        Ok(())
    }

    /// A hint: parts of sectors stay.
    pub(crate) async fn trim(&self, store: &dyn BlockStore, span: Span, durability: Durability) -> StoreResult<()> {
        let Some(span) = narrowed(span, store.sector_bytes()) else { return Ok(()) };
        let beside = self.0.read().await;
        store.trim(span.offset, span.length).await?;
        drop(beside);
        if durability == Durability::Durable { store.flush().await } else { Ok(()) }
    }
}

/// Writes a span with the rest of its first and last sectors around it, as one write.
async fn patch(store: &dyn BlockStore, span: Span, data: Vec<Bytes>, durability: Durability) -> StoreResult<()> {
    let wide = widened(span, store.sector_bytes());
    let (before, after) = (Span::between(wide.offset, span.offset), Span::between(span.end(), wide.end()));
    let mut pieces = Vec::with_capacity(data.len() + 2);
    if before.length > 0 {
        pieces.extend(read(store, before).await?);
    }
    pieces.extend(data);
    if after.length > 0 {
        pieces.extend(read(store, after).await?);
    }
    store.write(wide.offset, pieces, durability).await
}

/// Zeros for a span: at most [`ZEROS`] of them.
fn zeros(span: Span) -> Vec<Bytes> {
    vec![Bytes::from_static(&ZEROS).slice(..span.length as usize)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_pieces_may_begin_and_end_inside_of_them() {
        let pieces = || [&b"abc"[..], b"de", b"fgh"].map(Bytes::from_static).to_vec();
        let of = |first, length| within(pieces(), first, length).iter().map(|piece| piece.to_vec()).collect::<Vec<_>>();
        assert_eq!(of(0, 8), [&b"abc"[..], b"de", b"fgh"]);
        assert_eq!(of(1, 6), [&b"bc"[..], b"de", b"fg"]);
        assert_eq!(of(3, 2), [b"de"]);
        assert_eq!(of(4, 1), [b"e"]);
        assert!(of(8, 0).is_empty());
    }

    #[test]
    fn spans_grow_and_shrink_to_sectors() {
        let of = |offset, end| {
            let span = Span::between(offset, end);
            let bounds = |span: Span| (span.offset, span.end());
            (bounds(widened(span, 4096)), narrowed(span, 4096).map(bounds))
        };
        assert_eq!(of(4096, 8192), ((4096, 8192), Some((4096, 8192))));
        assert_eq!(of(4095, 8193), ((0, 12288), Some((4096, 8192))));
        assert_eq!(of(4097, 8191), ((4096, 8192), None));
        assert_eq!(of(4097, 8193), ((4096, 12288), None));
        assert_eq!(of(5000, 12288), ((4096, 12288), Some((8192, 12288))));
    }
}
