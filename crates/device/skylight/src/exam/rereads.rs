//! Tests 4, 5 and 11 as they are drawn: random blocks, read again in the order in which they were written, and a block of each MiB, read
//! upwards. (Dissertation, sections 2.4.5 and 2.4.8, Figures 2.12, 2.13 and 2.19.)
//!
//! From a log they come in this order at a fixed pace; from their bands each takes a way of the arm of its own. So the reads show how far
//! cleaning has come, and whether a band's newer blocks are cleaned with its oldest one; upwards, a band that is clean is a stretch of equal times. Marks
//! decide ([`cleaning`](super::cleaning), [`bands`](super::bands)): these reads are for the eye.

use serde::{Deserialize, Serialize};

use crate::exam::pace::CleaningPace;
use crate::session::{Done, Session, latencies};
use crate::target::MIB;

/// Writes of Test 4.
const WRITES: usize = 1024;

/// Its pauses, in each of which that share of the bands is cleaned.
const PAUSES: u32 = 3;
const SHARE: f64 = 0.25;

/// Writes of each part of Test 5, and the region of its first and third.
const PART: usize = 128;
const REGION: u64 = 256 * MIB;

/// Bands that its pause is long enough for: those of the region, and some of the others.
const CLEANED: f64 = 64.0;

/// MiB of Test 11's region, and bands that its pause is long enough for.
const COURSE: u64 = 512;
const COURSE_CLEANED: f64 = 4.0;

/// Reads of blocks in the order in which they were written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rereads {
    /// Test 4: seconds of pauses before each pass, and the latencies of its reads in milliseconds.
    pub passes: Vec<(f64, Vec<f64>)>,
    /// Test 5: latencies of blocks of a region, of blocks anywhere, and of other blocks of that region, in milliseconds, after a pause.
    pub parts_ms: [Vec<f64>; 3],
    /// Test 11: latencies of a block of each MiB of a region in which some bands were cleaned, in milliseconds.
    pub course_ms: Vec<f64>,
}

/// Examines a drive that cleans at that pace while it is idle. Its cache is empty at the end.
///
/// # Errors
/// As [`Session::run`].
pub fn examine(session: &mut Session<'_>, pace: &CleaningPace) -> Done<Rereads> {
    let passes = passes(session, pace)?;
    let parts_ms = parts(session, pace)?;
    let course_ms = course(session, pace)?;
    Ok(Rereads { passes, parts_ms, course_ms })
}

/// A pause in which so many bands are cleaned.
fn pause(session: &mut Session<'_>, pace: &CleaningPace, bands: f64) -> Done<f64> {
    let ms = pace.quiet_ms + pace.band_ms * bands;
    session.pause(ms)?;
    Ok(ms / 1e3)
}

fn passes(session: &mut Session<'_>, pace: &CleaningPace) -> Done<Vec<(f64, Vec<f64>)>> {
    let blocks = session.blocks();
    let places: Vec<u64> = (0..WRITES).map(|_| session.random.below(blocks)).collect();
    session.write(1, 1, &places)?;
    let mut waited = 0.0;
    let mut passes = vec![(waited, latencies(&session.read_each(places.iter().copied())?))];
    for _ in 0..PAUSES {
        waited += pause(session, pace, WRITES as f64 * SHARE)?;
        passes.push((waited, latencies(&session.read_each(places.iter().copied())?)));
    }
    pause(session, pace, WRITES as f64)?;
    Ok(passes)
}

fn parts(session: &mut Session<'_>, pace: &CleaningPace) -> Done<[Vec<f64>; 3]> {
    let blocks = session.blocks();
    let region = REGION.min(blocks / 8);
    let near = session.scattered(blocks / 2 / MIB * MIB, region, 1, 2 * PART);
    let far: Vec<u64> = (0..PART).map(|_| session.random.below(blocks)).collect();
    let (first, third) = near.split_at(near.len().min(PART));
    for places in [first, &far, third] {
        session.write(1, 1, places)?;
    }
    pause(session, pace, CLEANED)?;
    let mut read = |places: &[u64]| -> Done<Vec<f64>> { Ok(latencies(&session.read_each(places.iter().copied())?)) };
    let parts_ms = [read(first)?, read(&far)?, read(third)?];
    pause(session, pace, 3.0 * PART as f64)?;
    Ok(parts_ms)
}

fn course(session: &mut Session<'_>, pace: &CleaningPace) -> Done<Vec<f64>> {
    let start = session.blocks() / 2 / MIB * MIB;
    let count = COURSE.min(session.blocks() / 8 / MIB);
    let mut places: Vec<u64> = (0..count).map(|number| start + number * MIB).collect();
    session.random.shuffle(&mut places);
    session.write(1, 1, &places)?;
    pause(session, pace, COURSE_CLEANED)?;
    places.sort_unstable();
    let read = latencies(&session.read_each(places)?);
    pause(session, pace, count as f64)?;
    Ok(read)
}
