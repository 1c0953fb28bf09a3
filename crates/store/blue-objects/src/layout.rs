//! The place of an object's bytes: the pieces of one blob, or those of its parts.

use shingle_blue_store::ObjectId;

use crate::ids;

/// Blobs of an object in order, each with its end in the object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    blobs: Vec<(u64, u64)>,
    piece_bytes: u64,
}

/// A run of bytes in one piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) id: ObjectId,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Layout {
    pub(crate) fn new(piece_bytes: u64) -> Self {
        Self { blobs: Vec::new(), piece_bytes }
    }

    /// Adds a blob of so many bytes. `None` if the object would be too large to count.
    pub(crate) fn push(&mut self, blob: u64, size: u64) -> Option<()> {
        let end = self.size().checked_add(size)?;
        self.blobs.push((blob, end));
        Some(())
    }

    /// Number of blobs.
    pub(crate) fn blobs(&self) -> usize {
        self.blobs.len()
    }

    pub(crate) fn size(&self) -> u64 {
        self.blobs.last().map_or(0, |(_, end)| *end)
    }

    /// The sizes of the blobs.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        let starts = std::iter::once(0).chain(self.blobs.iter().map(|(_, end)| *end));
        self.blobs.iter().zip(starts).map(|((_, end), start)| end - start).collect()
    }

    /// Bytes from `offset` on as far as they lie in one piece, at most `length`; `None` behind the end.
    pub(crate) fn run(&self, offset: u64, length: u64) -> Option<Run> {
        let at = self.blobs.partition_point(|(_, end)| *end <= offset);
        let (blob, end) = *self.blobs.get(at)?;
        let start = at.checked_sub(1).and_then(|before| self.blobs.get(before)).map_or(0, |(_, end)| *end);
        let inside = offset - start;
        let piece = u32::try_from(inside / self.piece_bytes).ok()?;
        let from = inside % self.piece_bytes;
        let length = length.min(end - offset).min(self.piece_bytes - from);
        Some(Run { id: ids::piece(blob, piece), offset: from, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_with_pieces_and_blobs() {
        let mut layout = Layout::new(10);
        for (blob, size) in [(7, 25), (8, 0), (9, 3)] {
            layout.push(blob, size).unwrap();
        }
        assert_eq!((layout.size(), layout.sizes()), (28, vec![25, 0, 3]));
        let run = |offset, length| layout.run(offset, length).map(|run| (run.id, run.offset, run.length));
        assert_eq!(run(0, 100), Some((ids::piece(7, 0), 0, 10)));
        assert_eq!(run(19, 100), Some((ids::piece(7, 1), 9, 1)));
        assert_eq!(run(22, 2), Some((ids::piece(7, 2), 2, 2)));
        assert_eq!(run(25, 100), Some((ids::piece(9, 0), 0, 3)));
        assert_eq!(run(28, 1), None);
        assert_eq!(layout.push(1, u64::MAX), None);
    }
}
