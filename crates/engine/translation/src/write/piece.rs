//! Pieces of writes: what one name in a pair can say.

use std::any::Any;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use shingle_record::NameKind;
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::layout::Shape;
use crate::place::Place;

/// Tells a caller that its write is in the map.
pub(crate) type Done = oneshot::Sender<Result<(), Failure>>;

/// Sectors that a name without data has at most: entering it in the map takes a step, however many extents it displaces.
const NAMELESS_MAX: u32 = 1 << 18;

/// The place that some sectors of a copy were read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) sectors: u32,
    pub(crate) place: Place,
}

/// Sectors that follow each other, of one write.
pub(crate) struct Piece {
    pub(crate) lba: u64,
    pub(crate) sectors: u32,
    pub(crate) kind: NameKind,
    /// Their data, if the kind has any.
    pub(crate) data: Vec<Bytes>,
    /// For copies: the places they were read from, in order.
    pub(crate) origins: Vec<Origin>,
    /// For copies: kept as long as any of the pieces lives, whoever waits for them. The pins of those places' zones: a place means one
    /// thing until its copy has entered the map.
    pub(crate) held: Option<Rc<dyn Any>>,
    /// For the last piece of a write: its caller.
    pub(crate) done: Option<Done>,
}

impl Piece {
    /// Takes the first `sectors` off; the caller waits for the rest.
    pub(crate) fn split_off_front(&mut self, sectors: u32, shape: Shape) -> Self {
        let mut rest: VecDeque<Bytes> = std::mem::take(&mut self.data).into();
        let data = take_front(&mut rest, shape.bytes(u64::from(sectors)));
        let origins = self.split_origins(sectors, shape);
        let front =
            Self { lba: self.lba, sectors, kind: self.kind, data, origins, held: self.held.clone(), done: None };
        self.data = rest.into();
        self.lba += u64::from(sectors);
        self.sectors -= sectors;
        front
    }

    fn split_origins(&mut self, sectors: u32, shape: Shape) -> Vec<Origin> {
        let (mut front, mut rest, mut left) = (Vec::new(), Vec::new(), sectors);
        for Origin { sectors, place } in self.origins.drain(..) {
            let now = sectors.min(left);
            left -= now;
            front.extend((now > 0).then_some(Origin { sectors: now, place }));
            let behind = Origin { sectors: sectors - now, place: place.advance(now, shape.stride()) };
            rest.extend((behind.sectors > 0).then_some(behind));
        }
        self.origins = rest;
        front
    }

    /// Its parts between the multiples of `align`.
    pub(crate) fn cut_at(mut self, align: u64, shape: Shape) -> Vec<Self> {
        let mut parts = Vec::with_capacity(1);
        loop {
            let border = (self.lba / align + 1) * align;
            if self.kind != NameKind::Data || self.end() <= border {
                parts.push(self);
                return parts;
            }
            // Less than the piece's length.
            let front = (border - self.lba) as u32;
            parts.push(self.split_off_front(front, shape));
        }
    }

    /// The sector behind it.
    pub(crate) fn end(&self) -> u64 {
        self.lba + u64::from(self.sectors)
    }
}

/// Takes so many bytes off the front, without copying any.
fn take_front(data: &mut VecDeque<Bytes>, mut bytes: u64) -> Vec<Bytes> {
    let mut taken = Vec::with_capacity(1);
    while bytes > 0
        && let Some(mut first) = data.pop_front()
    {
        let now = (first.len() as u64).min(bytes) as usize;
        let rest = first.split_off(now);
        if !rest.is_empty() {
            data.push_front(rest);
        }
        bytes -= now as u64;
        if now > 0 {
            taken.push(first);
        }
    }
    taken
}

/// A write's pieces, in order. `data` is that of all its sectors, or none.
pub(crate) fn pieces_of(lba: u64, sectors: u64, kind: NameKind, data: Vec<Bytes>, shape: Shape) -> Vec<Piece> {
    let most = if kind == NameKind::Data { shape.pair_sectors() } else { NAMELESS_MAX };
    let mut data: VecDeque<Bytes> = data.into();
    let mut pieces = Vec::with_capacity(sectors.div_ceil(u64::from(most)) as usize);
    let mut done = 0;
    while done < sectors {
        let now = (sectors - done).min(u64::from(most)) as u32;
        let data = if kind == NameKind::Data { take_front(&mut data, shape.bytes(now.into())) } else { Vec::new() };
        pieces.push(Piece { lba: lba + done, sectors: now, kind, data, origins: Vec::new(), held: None, done: None });
        done += u64::from(now);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_across_borders_and_none_is_lost() {
        let parts: [&'static [u8]; 4] = [b"abc", b"", b"defg", b"h"];
        for first in 0..=8 {
            let mut data: VecDeque<Bytes> = parts.iter().map(|&part| Bytes::from_static(part)).collect();
            let front = take_front(&mut data, first).concat();
            let rest: Vec<Bytes> = data.into();
            assert_eq!((front.len() as u64, [front, rest.concat()].concat()), (first, b"abcdefgh".to_vec()));
        }
    }
}
