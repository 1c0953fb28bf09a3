//! Reading: places are looked up, their zones are pinned, and all that is read is verified.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use shingle_base::{BLOCK_SIZE, Blocks};
use shingle_record::PairSliceError;
use shingle_store_api::{StoreError, StoreErrorKind, StoreResult};
use shingle_zoned::{DeviceErrorKind, read_patiently};

use super::plan::Part;
use super::{Reach, Run};
use crate::drive::device_error;
use crate::engine::Engine;
use crate::map::Extent;
use crate::payload::Placed;
use crate::place::Place;
use crate::zones::Pin;

/// Commands of one read that are under way at once.
const DEPTH: usize = 16;

/// A run that is to be read: pinned, and of a known generation.
pub(super) struct Fetch {
    pub(super) run: Run,
    epoch: u64,
    /// TL-READ-2.
    _pin: Pin,
}

impl Engine {
    /// Reads sectors of a snapshot, or of the volume. (TL-READ-1)
    ///
    /// # Errors
    /// `Corrupt` if some of them are lost or damaged, `Device` if the drive fails.
    pub(crate) async fn read(self: &Rc<Self>, at: Option<u64>, lba: u64, sectors: u64) -> StoreResult<Bytes> {
        let fetches = self.fetches(at, lba, sectors)?;
        let data = self.fetch_all(fetches, sectors).await?;
        self.state.borrow_mut().counters.sectors_read += sectors;
        Ok(data)
    }

    /// As [`read`](Self::read), as pieces that follow each other: the bytes stay where the drive put them.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub(crate) async fn read_pieces(
        self: &Rc<Self>,
        at: Option<u64>,
        lba: u64,
        sectors: u64,
    ) -> StoreResult<Vec<Bytes>> {
        let fetches = self.fetches(at, lba, sectors)?;
        let mut found = Vec::new();
        let mut reading = stream::iter(fetches).map(|fetch| self.fetch(fetch)).buffer_unordered(DEPTH);
        while let Some((fetch, raw)) = reading.next().await {
            found.extend(match self.pieces(&fetch, &raw?) {
                Ok(pieces) => pieces,
                Err(_) => {
                    // It may have been spoilt on the way.
                    let (fetch, again) = self.fetch(fetch).await;
                    self.pieces(&fetch, &again?)?
                }
            });
        }
        drop(reading);
        self.state.borrow_mut().counters.sectors_read += sectors;
        Ok(joined(found, self.drive.layout.shape.bytes(sectors) as usize))
    }

    /// Reads sectors at a place, which the map may not name any more. The caller has pinned its zone.
    pub(crate) async fn read_place(self: &Rc<Self>, extent: Extent) -> StoreResult<Bytes> {
        let mut runs = Vec::new();
        Run::add(&mut runs, &extent, 0, self.drive.layout.shape, Reach::CALLER);
        let fetches = runs.into_iter().map(|run| self.pinned(run)).collect();
        self.fetch_all(fetches, u64::from(extent.sectors)).await
    }

    /// Reads runs that hold so many sectors, but for those that are zeros.
    async fn fetch_all(&self, fetches: Vec<Fetch>, sectors: u64) -> StoreResult<Bytes> {
        let length = self.drive.layout.shape.bytes(sectors) as usize;
        let mut out = self.drive.payload.buffer(length);
        let mut reading = stream::iter(fetches).map(|fetch| self.fetch(fetch)).buffer_unordered(DEPTH);
        while let Some((fetch, raw)) = reading.next().await {
            if self.extract(&fetch, &raw?, &mut out).is_err() {
                // It may have been spoilt on the way.
                let (fetch, again) = self.fetch(fetch).await;
                self.extract(&fetch, &again?, &mut out)?;
            }
        }
        drop(reading);
        Ok(self.drive.payload.share(out))
    }

    /// The runs that hold sectors, in one step.
    fn fetches(self: &Rc<Self>, at: Option<u64>, lba: u64, sectors: u64) -> StoreResult<Vec<Fetch>> {
        let shape = self.drive.layout.shape;
        let mut runs = Vec::new();
        let mut lost = None;
        self.state.borrow().maps.within(at, lba..lba + sectors, |extent: Extent| {
            if extent.place == Place::LOST {
                lost = lost.or(Some(extent.lba));
            } else {
                Run::add(&mut runs, &extent, shape.bytes(extent.lba - lba) as usize, shape, Reach::CALLER);
            }
        })?;
        if let Some(lost) = lost {
            return Err(StoreError::new(StoreErrorKind::Corrupt, format!("sector {lost} of the volume is lost")));
        }
        Ok(runs.into_iter().map(|run| self.pinned(run)).collect())
    }

    pub(super) fn pinned(self: &Rc<Self>, run: Run) -> Fetch {
        let zones = &self.state.borrow().zones;
        let epoch = zones.get(run.zone).map_or(0, |entry| entry.epoch);
        Fetch { epoch, _pin: zones.pin(run.zone), run }
    }

    pub(super) async fn fetch(&self, fetch: Fetch) -> (Fetch, StoreResult<Bytes>) {
        let run = &fetch.run;
        let length = Blocks(u64::from(run.blocks.end - run.blocks.start));
        let raw = read_patiently(&self.drive.dev, self.drive.block(run.zone, run.blocks.start), length).await;
        if let Err(error) = &raw
            && matches!(error.kind, DeviceErrorKind::Gone)
        {
            self.stop(error.duplicate().into());
        }
        (fetch, raw.map_err(device_error))
    }

    /// The parts of a run, verified, where they lie.
    fn pieces(&self, fetch: &Fetch, raw: &Bytes) -> StoreResult<Placed> {
        let Fetch { run, epoch, .. } = fetch;
        let mut found = Vec::new();
        for part in &run.parts {
            let place = self.drive.place(run.zone, *epoch, part.pair);
            let bytes = raw.slice((part.first - run.blocks.start) as usize * BLOCK_SIZE..);
            let pieces = self.drive.payload.pieces(&part.plan, &bytes, &place, part.at);
            found.extend(pieces.map_err(|error| spoilt(run, part, &error))?);
        }
        Ok(found)
    }

    /// Puts the parts of a run in their places, verified.
    pub(super) fn extract(&self, fetch: &Fetch, raw: &[u8], out: &mut [u8]) -> StoreResult<()> {
        let Fetch { run, epoch, .. } = fetch;
        for part in &run.parts {
            let place = self.drive.place(run.zone, *epoch, part.pair);
            let bytes = raw.get((part.first - run.blocks.start) as usize * BLOCK_SIZE..).unwrap_or_default();
            let extracted = self.drive.payload.extract(&part.plan, bytes, &place, &mut out[part.at..]);
            extracted.map_err(|error| spoilt(run, part, &error))?;
        }
        Ok(())
    }
}

fn spoilt(run: &Run, part: &Part, error: &PairSliceError) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("{}, pair at block {}: {error}", run.zone, part.pair))
}

/// Zeros that nothing was read for.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Pieces in order, with zeros between them, for `length` bytes.
fn joined(mut found: Placed, length: usize) -> Vec<Bytes> {
    found.sort_unstable_by_key(|(at, _)| *at);
    let mut pieces = Vec::with_capacity(found.len());
    let mut done = 0;
    let fill = |pieces: &mut Vec<Bytes>, from: usize, to: usize| {
        let each = (from..to).step_by(ZEROS.len());
        pieces.extend(each.map(|at| Bytes::from_static(&ZEROS[..(to - at).min(ZEROS.len())])));
    };
    for (at, piece) in found {
        fill(&mut pieces, done, at);
        done = at + piece.len();
        pieces.push(piece);
    }
    fill(&mut pieces, done, length);
    pieces
}
