//! Copying of sectors from one place to another. (FSTL, section III-B, "safe copy".)

use std::any::Any;
use std::rc::Rc;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use shingle_record::NameKind;
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::layout::Shape;
use crate::map::Extent;
use crate::write::{Origin, Piece};
use crate::zones::Pin;

/// Bytes that are read together, in the order in which they lie on the drive.
const BATCH_BYTES: u64 = 16 << 20;

/// Batches under way at once, unless callers are active: one is read while another is written.
const BATCHES: usize = 2;

/// Blocks of a zone whose sectors are copied together: what a disk reads in a tenth of a second.
const WINDOW_BLOCKS: u64 = 4096;

/// Extents that are to be copied, and their zones, which are not reset meanwhile: a place means one thing until the copies have
/// entered the map.
pub(crate) struct Sources {
    /// Each in the order of the volume.
    pub(crate) windows: Vec<Vec<Extent>>,
    pub(crate) pins: Vec<Pin>,
    /// The zones are to be emptied: one of which something cannot be read is stuck.
    pub(crate) empties: bool,
}

impl Sources {
    /// Sectors that are to be copied.
    pub(crate) fn sectors(&self) -> u64 {
        self.windows.iter().flatten().map(|extent| u64::from(extent.sectors)).sum()
    }
}

/// The outcome of copying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Sectors that were read and written.
    pub sectors: u64,
    /// Sectors that could not be read. They stay where they are.
    pub unreadable: u64,
}

impl Engine {
    /// Copies extents to a stream's frontier: those of a window in the order of the volume, one window after the other. `done` is told of the sectors of
    /// each step.
    ///
    /// # Errors
    /// `NoSpace` once no zone is free; the others that stop the volume.
    pub(crate) async fn copy(
        self: &Rc<Self>,
        sources: Sources,
        stream: u8,
        done: impl Fn(u64),
    ) -> Result<Copied, Failure> {
        let Sources { windows, pins, empties } = sources;
        let held: Rc<dyn Any> = Rc::new(pins);
        let mut batches = Batches::of(windows, self.drive.layout.shape);
        let (mut copying, mut all) = (FuturesOrdered::new(), Copied::default());
        loop {
            let depth = if self.has_callers() { 1 } else { BATCHES };
            while copying.len() < depth
                && let Some(batch) = batches.next(BATCH_BYTES)
            {
                copying.push_back(self.copy_batch(batch, (stream, empties), held.clone(), &done));
            }
            let Some(copied) = copying.next().await else { break };
            let Copied { sectors, unreadable } = copied?;
            all.sectors += sectors;
            all.unreadable += unreadable;
            if self.keeper.is_to_end() {
                break;
            }
        }
        Ok(all)
    }

    /// Copies a batch. Completes once its sectors have moved.
    async fn copy_batch(
        self: &Rc<Self>,
        batch: Vec<Extent>,
        (stream, empties): (u8, bool),
        held: Rc<dyn Any>,
        done: &impl Fn(u64),
    ) -> Result<Copied, Failure> {
        let mut copied = Copied::default();
        let mut pieces: Vec<Piece> = Vec::new();
        for (extent, read) in batch.iter().zip(self.read_places(&batch, done).await) {
            let data = match read {
                Ok(data) => data,
                Err(error) => {
                    let mut state = self.state.borrow_mut();
                    state.running()?;
                    if empties {
                        self.note_stuck(&mut state, self.drive.layout.shape.zone_of(extent.place));
                    }
                    tracing::warn!(lba = extent.lba, %error, "sectors cannot be copied; they stay where they are");
                    copied.unreadable += u64::from(extent.sectors);
                    continue;
                }
            };
            copied.sectors += u64::from(extent.sectors);
            let origin = Origin { sectors: extent.sectors, place: extent.place };
            let most = self.drive.layout.shape.pair_sectors();
            match pieces.last_mut() {
                // One name, one extent: neighbours are joined.
                Some(last) if last.end() == extent.lba && last.sectors + extent.sectors <= most => {
                    last.sectors += extent.sectors;
                    last.data.push(data);
                    last.origins.push(origin);
                }
                _ => pieces.push(Piece {
                    lba: extent.lba,
                    sectors: extent.sectors,
                    kind: NameKind::Data,
                    data: vec![data],
                    origins: vec![origin],
                    held: Some(held.clone()),
                    done: None,
                }),
            }
        }
        let written = told_of(&mut pieces, self.drive.layout.shape.pair_sectors());
        {
            let mut state = self.state.borrow_mut();
            state.running()?;
            self.enqueue(&mut state, stream, pieces);
        }
        for (sectors, written) in written {
            written.await.unwrap_or_else(|_| Err(Failure::gone()))?;
            done(sectors);
        }
        Ok(copied)
    }
}

/// Has some pieces tell when they are written, the last one among them: with the sectors of each and those before it.
fn told_of(pieces: &mut [Piece], least: u32) -> Vec<(u64, oneshot::Receiver<Result<(), Failure>>)> {
    let (mut told, mut sectors, last) = (Vec::new(), 0, pieces.len());
    for (number, piece) in (1..).zip(pieces) {
        sectors += u64::from(piece.sectors);
        if sectors >= least.into() || number == last {
            let (done, written) = oneshot::channel();
            piece.done = Some(done);
            told.push((std::mem::take(&mut sectors), written));
        }
    }
    told
}

/// Extents that are still to be copied.
struct Batches {
    shape: Shape,
    windows: std::vec::IntoIter<Vec<Extent>>,
    /// The rest of the window that has begun, the next one last.
    window: Vec<Extent>,
    /// The end of the last piece that was taken of it, and its sectors in a pair that is not full.
    run_end: Option<u64>,
    filled: u32,
}

impl Batches {
    fn of(windows: Vec<Vec<Extent>>, shape: Shape) -> Self {
        Self { shape, windows: windows.into_iter(), window: Vec::new(), run_end: None, filled: 0 }
    }

    /// The next ones of a window, of about so many bytes. Those that follow each other in the volume are divided where their full pairs end, however they lie.
    fn next(&mut self, bytes_max: u64) -> Option<Vec<Extent>> {
        while self.window.is_empty() {
            self.window = self.windows.next()?;
            self.window.reverse();
            (self.run_end, self.filled) = (None, 0);
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(extent) = self.window.pop() {
            if self.run_end != Some(extent.lba) {
                self.filled = 0;
            }
            if self.filled == 0 && bytes >= bytes_max {
                self.window.push(extent);
                break;
            }
            let most = u64::from(self.shape.pair_sectors() - self.filled);
            let piece = extent.part(&(extent.lba..extent.lba + most), self.shape.stride());
            if piece.end() < extent.end() {
                self.window.push(extent.part(&(piece.end()..extent.end()), self.shape.stride()));
            }
            self.run_end = Some(piece.end());
            self.filled = (self.filled + piece.sectors) % self.shape.pair_sectors();
            bytes += self.shape.bytes(u64::from(piece.sectors));
            batch.push(piece);
        }
        Some(batch)
    }
}

/// Divides the extents of a zone by the windows in which they lie, each in the order of the volume. So a window is read in one pass, and
/// neighbours in the volume that were written within it lie side by side afterwards.
pub(super) fn windows(mut extents: Vec<Extent>) -> Vec<Vec<Extent>> {
    extents.sort_unstable_by_key(|extent| extent.place.bits());
    let mut windows: Vec<Vec<Extent>> = Vec::new();
    let mut begin = 0;
    for extent in extents {
        let block = extent.place.record().0;
        match windows.last_mut() {
            Some(window) if block - begin < WINDOW_BLOCKS => window.push(extent),
            _ => {
                begin = block;
                windows.push(vec![extent]);
            }
        }
    }
    windows.iter_mut().for_each(|window| window.sort_unstable_by_key(|extent| extent.lba));
    windows
}
