//! Processor time of opening a volume of a million extents: after a crash, and after an orderly end.

use std::rc::Rc;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use shingle_base::Blocks;
use shingle_store_api::{BlockStore, Durability};
use shingle_translation::{FormatOptions, Options, Volume};
use shingle_zoned::{Geometry, MemoryDevice, ZonedDevice};

use crate::bench::figure::Figure;
use crate::bench::limit;
use crate::failure::{Failure, Outcome};

const EXTENTS: u64 = 1 << 20;
/// No sector follows another, so that each is an extent.
const SECTOR: u64 = 512;
/// Writes at a time.
const DEPTH: usize = 4096;

/// Goal: seconds of processor time.
const SECONDS_MAX: f64 = 2.0;

pub(super) fn run() -> Outcome<Vec<Figure>> {
    let size = 4 * EXTENTS * SECTOR;
    let geometry = Geometry::hm_smr(Blocks::holding(16 << 20), (size >> 23) as u32, 0, 128);
    let drive: Rc<dyn ZonedDevice> = Rc::new(MemoryDevice::new(geometry));
    let written = drive.clone();
    shingle_runtime::real::run(|rt| async move {
        let options = FormatOptions { size_bytes: Some(size), sector_bytes: SECTOR, ..FormatOptions::default() };
        Volume::format(&rt, written.clone(), options).await?;
        let (volume, _) = Volume::open(&rt, written, Options::default()).await?;
        let data = Bytes::from(vec![0x5a; SECTOR as usize]);
        // An odd factor reaches each number below a power of two once.
        let sectors = (0..EXTENTS).map(|number| 2 * (number.wrapping_mul(0x9E37_79B1) % EXTENTS));
        let writes = sectors.map(|sector| volume.write(sector * SECTOR, vec![data.clone()], Durability::Cached));
        stream::iter(writes).buffer_unordered(DEPTH).try_for_each(|()| async { Ok(()) }).await?;
        Ok::<_, Failure>(volume.flush().await?)
    })??;
    // That one was not closed: the next one reads what was written since the last checkpoint.
    let crashed = opening(&drive)?;
    let closed = opening(&drive)?;
    Ok(vec![
        Figure { id: "opening_after_crash", unit: "processor_s", value: crashed, limit: SECONDS_MAX },
        Figure { id: "opening_after_close", unit: "processor_s", value: closed, limit: SECONDS_MAX },
    ])
}

/// Opens the volume and closes it; the processor time of the opening.
fn opening(drive: &Rc<dyn ZonedDevice>) -> Outcome<f64> {
    shingle_runtime::real::run(|rt| async move {
        let began = limit::processor_time();
        let (volume, report) = Volume::open(&rt, drive.clone(), Options::default()).await?;
        let took = limit::processor_time().saturating_sub(began);
        if report.extents != EXTENTS {
            return Err(Failure::new(format!("the volume has {} extents, and not {EXTENTS}", report.extents)));
        }
        volume.close().await?;
        Ok(took.as_secs_f64())
    })?
}
