//! Copying of a zone's sectors.

use std::rc::Rc;

use futures_util::{StreamExt, stream};
use shingle_base::ZoneId;
use shingle_record::NameKind;
use shingle_store_api::StoreErrorKind;

use crate::engine::{Engine, Keeping};
use crate::failure::Failure;
use crate::map::Extent;
use crate::read::Pin;
use crate::write::{COPIES, Piece};

/// Extents of the map that are looked at in one step.
const STEP: usize = 16_384;

/// Bytes that are read and written together.
const BATCH_BYTES: u64 = 4 << 20;

/// Batches under way at once: one is read while another is written.
const BATCHES: usize = 2;

impl Engine {
    /// Copies all that lives in a zone. Sectors that cannot be read stay. False if there was no room for all copies, or the
    /// keeper is to end.
    pub(crate) async fn clean(self: &Rc<Self>, victim: ZoneId) -> Result<bool, Failure> {
        let _pin = Pin::new(self, victim);
        let living = self.living_in(victim).await;
        let mut copying = stream::iter(self.batches(living)).map(|batch| self.copy(victim, batch)).buffered(BATCHES);
        while let Some(copied) = copying.next().await {
            match copied {
                Err(failure) if failure.kind == StoreErrorKind::NoSpace => return Ok(false),
                copied => copied?,
            }
            if self.keeping.get() != Keeping::Works {
                return Ok(false);
            }
        }
        self.state.borrow_mut().counters.cleaned += 1;
        Ok(true)
    }

    /// Extents in a zone, in the order of the volume.
    async fn living_in(&self, victim: ZoneId) -> Vec<Extent> {
        let shape = self.drive.layout.shape;
        let mut living = Vec::new();
        let mut from = Some(0);
        while let Some(next) = from {
            from = self.state.borrow().map.some(next, STEP, |extent| {
                if shape.zone_of(extent.place) == victim {
                    living.push(extent);
                }
            });
            self.rt.yield_now().await;
        }
        living
    }

    /// Divides extents into batches, and those that are longer than a pair.
    fn batches(&self, living: Vec<Extent>) -> Vec<Vec<Extent>> {
        let shape = self.drive.layout.shape;
        let mut batches = Vec::new();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        for extent in living {
            let mut lba = extent.lba;
            while lba < extent.end() {
                let piece = extent.part(&(lba..lba + u64::from(shape.pair_sectors())), shape.stride());
                lba = piece.end();
                bytes += shape.bytes(u64::from(piece.sectors));
                batch.push(piece);
                if bytes >= BATCH_BYTES {
                    batches.push(std::mem::take(&mut batch));
                    bytes = 0;
                }
            }
        }
        batches.push(batch);
        batches
    }

    /// Copies a batch. Completes once its sectors have moved.
    async fn copy(self: &Rc<Self>, victim: ZoneId, batch: Vec<Extent>) -> Result<(), Failure> {
        let mut pieces = Vec::with_capacity(batch.len());
        for extent in batch {
            let Extent { lba, sectors, place } = extent;
            match self.read_place(extent).await {
                Ok(data) => {
                    let (kind, data) = (NameKind::Data, vec![data]);
                    pieces.push(Piece { lba, sectors, kind, data, from: Some(place), done: None });
                }
                Err(error) => {
                    self.state.borrow().running()?;
                    tracing::warn!(zone = %victim, lba, %error, "sectors cannot be copied; they stay where they are");
                    if let Some(zone) = self.state.borrow_mut().zones.get_mut(victim) {
                        zone.stuck = true;
                    }
                }
            }
        }
        if pieces.is_empty() {
            return Ok(());
        }
        self.enqueue(COPIES, pieces)?.await.unwrap_or_else(|_| Err(Failure::gone()))
    }
}
