//! Copying of sectors from one place to another. (FSTL, section III-B, "safe copy".)

use std::any::Any;
use std::rc::Rc;

use futures_util::{StreamExt, stream};
use shingle_record::NameKind;
use tokio::sync::oneshot;

use crate::engine::{Engine, Keeping};
use crate::failure::Failure;
use crate::layout::Shape;
use crate::map::Extent;
use crate::read::Pin;
use crate::write::{Origin, Piece};

/// Bytes that are read and written together.
const BATCH_BYTES: u64 = 4 << 20;

/// Batches under way at once: one is read while another is written.
const BATCHES: usize = 2;

/// Reads of a batch that are under way at once.
const READS: usize = 16;

/// Extents that are to be copied, and their zones, which are not reset meanwhile: a place means one thing until the copies have
/// entered the map.
pub(crate) struct Sources {
    pub(crate) extents: Vec<Extent>,
    pub(crate) pins: Vec<Pin>,
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
    /// Copies extents, which are in the order of the volume, to a stream's frontier.
    ///
    /// # Errors
    /// `NoSpace` once no zone is free; the others that stop the volume.
    pub(crate) async fn copy(self: &Rc<Self>, sources: Sources, stream: u8) -> Result<Copied, Failure> {
        let Sources { extents, pins } = sources;
        let held: Rc<dyn Any> = Rc::new(pins);
        let batches = batches(extents, self.drive.layout.shape);
        let copying = batches.into_iter().map(|batch| self.copy_batch(batch, stream, held.clone()));
        let mut copying = stream::iter(copying).buffered(BATCHES);
        let mut all = Copied::default();
        while let Some(copied) = copying.next().await {
            let Copied { sectors, unreadable } = copied?;
            all.sectors += sectors;
            all.unreadable += unreadable;
            if self.keeping.get() == Keeping::Ends {
                break;
            }
        }
        Ok(all)
    }

    /// Copies a batch. Completes once its sectors have moved.
    async fn copy_batch(self: &Rc<Self>, batch: Vec<Extent>, stream: u8, held: Rc<dyn Any>) -> Result<Copied, Failure> {
        let reading = batch.into_iter().map(async |extent| (extent, self.read_place(extent).await));
        let mut reading = stream::iter(reading).buffered(READS);
        let mut copied = Copied::default();
        let mut pieces: Vec<Piece> = Vec::new();
        while let Some((extent, read)) = reading.next().await {
            let data = match read {
                Ok(data) => data,
                Err(error) => {
                    self.state.borrow().running()?;
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
