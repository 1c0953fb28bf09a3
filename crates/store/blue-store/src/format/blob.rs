//! A blob's bytes.

use std::cell::RefCell;
use std::ops::Range;

use shingle_base::wire::Fields;
use shingle_record::number::{put, take, take_count, take_u32};

use crate::blob::packing::{PACKED_RAW_MAX, Packing};
use crate::blob::ranges::Counts;
use crate::blob::{BLOB_MAX, BLOCK, Blob, Place, State, UNIT_SHIFT_MAX};

/// Adds a blob as it is now: content, checks, places.
///
/// Fields: bytes of content; packing (1 byte); of a compressed one, bytes stored; unit shift (1 byte); CRC-32C of each unit (4 bytes); one
/// more than the number of its deferred write, or zero; number of places, and each of them: blocks of the blob since the end of the place
/// before it, zone, block, number of blocks.
pub(crate) fn put_blob(bytes: &mut Vec<u8>, blob: &Blob) {
    let state = blob.state.borrow();
    put(bytes, u64::from(blob.raw));
    bytes.push(blob.packing.code());
    if blob.packing != Packing::Plain {
        put(bytes, u64::from(blob.stored));
    }
    bytes.push(blob.unit_shift);
    blob.checks.iter().for_each(|check| bytes.extend(check.to_le_bytes()));
    put(bytes, state.deferred.map_or(0, |number| number + 1));
    put(bytes, state.places.len() as u64);
    let mut end = 0;
    for place in &state.places {
        for number in [place.at - end, place.zone, place.block, place.count] {
            put(bytes, u64::from(number));
        }
        end = place.at + place.count;
    }
}

/// Reads a blob; `None` for bytes that no writer makes.
pub(crate) fn take_blob(fields: &mut Fields<'_>) -> Option<Blob> {
    let raw = take_u32(fields).filter(|raw| (1..=BLOB_MAX).contains(raw))?;
    let packing = Packing::of_code(fields.u8()?)?;
    let stored = match packing {
        Packing::Plain => raw,
        _ => take_u32(fields).filter(|stored| (1..raw).contains(stored) && raw <= PACKED_RAW_MAX)?,
    };
    let unit_shift = fields.u8().filter(|shift| *shift <= UNIT_SHIFT_MAX)?;
    let units = stored.div_ceil(BLOCK << unit_shift);
    let checks: Vec<u32> = (0..units).map(|_| fields.u32()).collect::<Option<_>>()?;
    let deferred = take(fields)?.checked_sub(1);
    let (count, mut end) = (take_count(fields)?, 0);
    let mut places = Vec::with_capacity(count);
    for _ in 0..count {
        let at = take_u32(fields)?.checked_add(end)?;
        let place = Place { at, zone: take_u32(fields)?, block: take_u32(fields)?, count: take_u32(fields)? };
        end = at.checked_add(place.count).filter(|end| *end <= stored.div_ceil(BLOCK))?;
        place.block.checked_add(place.count).filter(|_| place.count > 0)?;
        places.push(place);
    }
    if deferred.is_some() && !places.is_empty() {
        return None;
    }
    let state = State { places, deferred, counted: true, ..State::default() };
    Some(Blob { raw, stored, packing, unit_shift, checks, state: RefCell::new(state) })
}

/// Adds counts of references: their number, and each: blocks since the end of the one before it, number of blocks, count.
pub(crate) fn put_counts(bytes: &mut Vec<u8>, counts: &Counts) {
    put(bytes, counts.0.len() as u64);
    let mut end = 0;
    for (range, count) in &counts.0 {
        for number in [range.start - end, range.end - range.start, *count] {
            put(bytes, u64::from(number));
        }
        end = range.end;
    }
}

/// Reads counts of references to a blob's blocks.
pub(crate) fn take_counts(fields: &mut Fields<'_>, blocks: u32) -> Option<Counts> {
    let (number, mut end) = (take_count(fields)?, 0u32);
    let mut counts: Vec<(Range<u32>, u32)> = Vec::with_capacity(number);
    for _ in 0..number {
        let start = end.checked_add(take_u32(fields)?)?;
        end = start.checked_add(take_u32(fields)?).filter(|end| start < *end && *end <= blocks)?;
        let count = take_u32(fields).filter(|count| (1..1 << 31).contains(count))?;
        counts.push((start..end, count));
    }
    Some(Counts(counts))
}
