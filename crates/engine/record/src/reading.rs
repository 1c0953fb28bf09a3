//! Reads of which some blocks fail: one that cannot be read is told apart from one that is missing.

use std::rc::Rc;

use bytes::Bytes;
use shingle_base::{BLOCK_SIZE, Blocks, Lba};
use shingle_zoned::{DeviceErrorKind, DeviceResult, ZonedDevice, read_patiently};

/// Reads `length` blocks at `at` one by one if they cannot be read at once. A block that cannot be read is `None`; once
/// more than `unreadable_max` cannot, the rest are taken as unreadable.
///
/// # Errors
/// Only if the device is gone.
pub(crate) async fn read_each(
    dev: &Rc<dyn ZonedDevice>,
    at: Lba,
    length: u32,
    unreadable_max: usize,
) -> DeviceResult<Vec<Option<Bytes>>> {
    let count = length as usize;
    match read_patiently(dev, at, Blocks(u64::from(length))).await {
        Ok(bytes) => {
            return Ok((0..count)
                .map(|block| Some(bytes.slice(block * BLOCK_SIZE..(block + 1) * BLOCK_SIZE)))
                .collect());
        }
        Err(error) if matches!(error.kind, DeviceErrorKind::Gone) => return Err(error),
        Err(_) if length == 1 => return Ok(vec![None]),
        Err(_) => {}
    }
    let (mut blocks, mut unreadable) = (Vec::with_capacity(count), 0);
    for block in 0..u64::from(length) {
        if unreadable > unreadable_max {
            blocks.push(None);
            continue;
        }
        match read_patiently(dev, at + Blocks(block), Blocks(1)).await {
            Ok(bytes) => blocks.push(Some(bytes)),
            Err(error) if matches!(error.kind, DeviceErrorKind::Gone) => return Err(error),
            Err(_) => {
                unreadable += 1;
                blocks.push(None);
            }
        }
    }
    Ok(blocks)
}
