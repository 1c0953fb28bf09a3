//! Copying of sectors from one place to another. (FSTL, section III-B, "safe copy".)

use std::any::Any;
use std::rc::Rc;

use futures_util::{StreamExt, stream};
use shingle_record::NameKind;
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::layout::Shape;
use crate::map::Extent;
use crate::write::{Origin, Piece};
use crate::zones::Pin;

/// Bytes that are read and written together.
const BATCH_BYTES: u64 = 16 << 20;

/// Batches under way at once: one is read while another is written.
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

/// The outcome of copying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Sectors that were read and written.
    pub sectors: u64,
    /// Sectors that could not be read. They stay where they are.
    pub unreadable: u64,
}

impl Engine {
    /// Copies extents to a stream's frontier: those of a window in the order of the volume, one window after the other.
    ///
    /// # Errors
    /// `NoSpace` once no zone is free; the others that stop the volume.
    pub(crate) async fn copy(self: &Rc<Self>, sources: Sources, stream: u8) -> Result<Copied, Failure> {
        let Sources { windows, pins, empties } = sources;
        let held: Rc<dyn Any> = Rc::new(pins);
        let batches = windows.into_iter().flat_map(|window| batches(window, self.drive.layout.shape));
        let copying = batches.map(|batch| self.copy_batch(batch, (stream, empties), held.clone()));
        let mut copying = stream::iter(copying).buffered(BATCHES);
        let mut all = Copied::default();
        while let Some(copied) = copying.next().await {
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
    ) -> Result<Copied, Failure> {
        let mut copied = Copied::default();
        let mut pieces: Vec<Piece> = Vec::new();
        for (extent, read) in batch.iter().zip(self.read_places(&batch).await) {
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
        let Some(last) = pieces.last_mut() else { return Ok(copied) };
        let (done, written) = oneshot::channel();
        last.done = Some(done);
        {
            let mut state = self.state.borrow_mut();
            state.running()?;
            self.enqueue(&mut state, stream, pieces);
        }
        written.await.unwrap_or_else(|_| Err(Failure::gone()))?;
        Ok(copied)
    }
}

/// Divides extents into batches; and those that follow each other in the volume where their full pairs end, however they lie.
fn batches(extents: Vec<Extent>, shape: Shape) -> Vec<Vec<Extent>> {
    let mut batches = Vec::new();
    let (mut batch, mut bytes, mut run_end, mut filled) = (Vec::new(), 0, None, 0);
    for extent in extents {
        if run_end != Some(extent.lba) {
            filled = 0;
        }
        run_end = Some(extent.end());
        let mut lba = extent.lba;
        while lba < extent.end() {
            if filled == 0 && bytes >= BATCH_BYTES {
                batches.push(std::mem::take(&mut batch));
                bytes = 0;
            }
            let most = u64::from(shape.pair_sectors() - filled);
            let piece = extent.part(&(lba..lba + most), shape.stride());
            lba = piece.end();
            filled = (filled + piece.sectors) % shape.pair_sectors();
            bytes += shape.bytes(u64::from(piece.sectors));
            batch.push(piece);
        }
    }
    batches.push(batch);
    batches
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
