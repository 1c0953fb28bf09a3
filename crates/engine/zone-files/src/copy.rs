//! Copies of an extent, made around what cannot be read.
//!
//! **Owns** the reading and writing of copies. **Knows nothing of** the choice of a zone, nor of the journal: the cleaner gives the copies to
//! their file.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use shingle_base::ZoneId;

use crate::engine::Engine;
use crate::error::{FilesErrorKind, FilesResult};
use crate::extent::Extent;
use crate::write::{COPIES, Copying, Piece, Target};

/// Bytes that are read ahead of the writes of an extent's copies.
const AHEAD_BYTES: u64 = 8 << 20;

/// An extent that is copied.
pub(crate) struct Moved {
    pub(crate) serial: u64,
    pub(crate) from: Extent,
    pub(crate) copies: Rc<Copying>,
}

/// The fate of an extent.
pub(crate) enum Copied {
    /// All of it is copied.
    Whole(Moved),
    /// Its file has it no more.
    Gone,
    /// Some of its records cannot be read. They are an extent of their own now, as are the records before them, which are copied, and those
    /// behind them. (ZF-CLEAN-3)
    Around { front: Option<Moved>, hole: Extent, rest: Option<Extent> },
}

impl Engine {
    /// Copies an extent, up to the first record that cannot be read. The caller has pinned its zone.
    ///
    /// # Errors
    /// `NoSpace` if copies have no room; `Unavailable` if the files have stopped.
    pub(crate) async fn copy(self: &Rc<Self>, serial: u64, from: Extent) -> FilesResult<Copied> {
        let copies = Rc::new(Copying::default());
        let most = u64::from(self.drive.layout.record_bytes);
        let (mut at, mut hole) = (from.offset, None);
        while at < from.end() && hole.is_none() {
            let has = self.state.borrow().tree.file(serial).is_some_and(|node| node.extents.has(&from));
            if !has {
                self.discard(&copies);
                return Ok(Copied::Gone);
            }
            let end = from.records_end(at, most);
            let data = match self.read_range(serial, from, at, end).await {
                Ok(part) => vec![Bytes::from(part)],
                Err(_) => match self.read_records(serial, from, at..end).await {
                    Ok((records, unreadable)) => {
                        hole = unreadable;
                        records
                    }
                    Err(error) => {
                        self.finish(&copies, at - from.offset).await;
                        self.discard(&copies);
                        return Err(error);
                    }
                },
            };
            let length: u64 = data.iter().map(|piece| piece.len() as u64).sum();
            if length > 0 {
                let target = Target::Copy(copies.clone());
                self.enqueue(COPIES, Piece { serial, offset: at, length, data, target });
            }
            at += length;
            self.finish(&copies, (at - from.offset).saturating_sub(AHEAD_BYTES)).await;
            if copies.failed.borrow().is_some() {
                break;
            }
        }
        self.finish(&copies, at - from.offset).await;
        let failed = copies.failed.borrow().clone();
        if let Some(error) = failed {
            self.discard(&copies);
            return Err(error);
        }
        match hole {
            None => Ok(Copied::Whole(Moved { serial, from, copies })),
            Some(hole) => Ok(self.take_out(serial, from, &hole, copies)),
        }
    }

    /// Reads records one by one: those up to the first that cannot be read, and the bytes of those that cannot.
    ///
    /// # Errors
    /// `Unavailable` if the drive is gone.
    async fn read_records(
        self: &Rc<Self>,
        serial: u64,
        from: Extent,
        bytes: Range<u64>,
    ) -> FilesResult<(Vec<Bytes>, Option<Range<u64>>)> {
        let (mut good, mut hole, mut at) = (Vec::new(), None::<Range<u64>>, bytes.start);
        while at < bytes.end {
            let next = from.records_end(at, 1);
            match (self.read_range(serial, from, at, next).await, &mut hole) {
                (Ok(record), None) => good.push(Bytes::from(record)),
                (Ok(_), Some(_)) => break,
                (Err(error), _) if error.kind == FilesErrorKind::Unavailable => return Err(error),
                (Err(error), None) => {
                    tracing::warn!(zone = %from.zone, serial, at, %error, "bytes of a file cannot be read, and stay where they are");
                    hole = Some(at..next);
                }
                (Err(_), Some(hole)) => hole.end = next,
            }
            at = next;
        }
        Ok((good, hole))
    }

    /// Makes records that cannot be read an extent of their own. The copies are of those before them.
    fn take_out(&self, serial: u64, from: Extent, hole: &Range<u64>, copies: Rc<Copying>) -> Copied {
        let whole = Copied::Around { front: None, hole: from, rest: None };
        let parts = from.around(hole).filter(|_| self.metadata_room(&self.state.borrow(), 0, 2).is_ok());
        debug_assert!(from.around(hole).is_some(), "{hole:?} are records of {from:?}");
        let Some((front, hole, rest)) = parts else {
            self.discard(&copies);
            return whole;
        };
        let given = {
            let mut state = self.state.borrow_mut();
            let parts: Vec<Extent> = front.into_iter().chain([hole]).chain(rest).collect();
            let given = state.tree.file_mut(serial).is_some_and(|node| node.extents.replace(&from, &parts));
            state.extents += if given { parts.len() as u64 - 1 } else { 0 };
            given
        };
        if !given {
            self.discard(&copies);
            return Copied::Gone;
        }
        Copied::Around { front: front.map(|from| Moved { serial, from, copies }), hole, rest }
    }

    /// Waits until the first `sent` bytes of copies are written, or have failed.
    async fn finish(&self, copies: &Copying, sent: u64) {
        loop {
            let landed = copies.landed.notified();
            let placed: u64 = copies.placed.borrow().iter().map(|extent| extent.length).sum();
            if placed >= sent || copies.failed.borrow().is_some() || self.state.borrow().stopped.is_some() {
                return;
            }
            landed.await;
        }
    }

    /// Looks at the zones of copies that a flush has just covered, and notes those that have failed: their cache may have lost copies before.
    /// Returns those of which the drive tells nothing. (ZF-CLEAN-1)
    pub(crate) async fn look_at_copies(&self, moved: &[Moved]) -> BTreeSet<ZoneId> {
        let zones_of = |moved: &Moved| -> Vec<ZoneId> {
            let placed = moved.copies.placed.borrow();
            placed.iter().map(|extent| extent.zone).collect()
        };
        let zones: BTreeSet<ZoneId> = moved.iter().flat_map(zones_of).collect();
        let mut unknown = BTreeSet::new();
        for zone in zones {
            match self.drive.zones.is_intact(zone).await {
                Some(true) => {}
                Some(false) => drop(self.state.borrow_mut().zones.note_failure(zone, true, false)),
                None => drop(unknown.insert(zone)),
            }
        }
        unknown
    }

    /// Nobody needs these copies, written or not. (ZF-CLEAN-2)
    fn discard(&self, copies: &Copying) {
        copies.abandoned.set(true);
        let placed = std::mem::take(&mut *copies.placed.borrow_mut());
        self.state.borrow_mut().free(placed.iter().map(|extent| (extent.zone, extent.blocks())));
    }
}
