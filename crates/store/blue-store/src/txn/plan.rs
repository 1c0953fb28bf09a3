//! A transaction is gone through before it happens: it fails here, or not at all.

use std::collections::BTreeMap;

use crate::blob::BLOCK;
use crate::error::{BlueError, BlueErrorKind, BlueResult};
use crate::ids::ObjectId;
use crate::map::by_shard;
use crate::transaction::{OBJECT_MAX, Operation};

/// Sizes of objects as a transaction goes on; `None`: there is no such object.
pub(crate) type Sizes = BTreeMap<ObjectId, Option<u32>>;

fn missing(id: &ObjectId) -> BlueError {
    BlueError::new(BlueErrorKind::NotFound, format!("there is no object {id}"))
}

/// Goes through operations. `sizes` has all their objects.
pub(crate) fn check(operations: &[Operation], sizes: &mut Sizes) -> BlueResult<()> {
    for operation in operations {
        let id = operation.target();
        let size = sizes.get(id).copied().flatten();
        let grown = |to: u64| Some(size.unwrap_or(0).max(to as u32));
        let source = operation.source().map(|from| sizes.get(from).copied().flatten().ok_or_else(|| missing(from)));
        let source = source.transpose()?;
        let after = match operation {
            Operation::Create(_) if size.is_some() => {
                return Err(BlueError::new(BlueErrorKind::Exists, format!("object {id} exists")));
            }
            Operation::Create(_) | Operation::Touch(_) | Operation::SetAttribute { .. } => grown(0),
            Operation::OmapSet { .. } | Operation::SetHints { .. } => grown(0),
            Operation::Write { data, .. } if data.is_empty() => grown(0),
            Operation::Write { offset, data, .. } => grown(offset + data.len() as u64),
            Operation::Zero { length: 0, .. } => grown(0),
            Operation::Zero { offset, length, .. } => grown(offset + length),
            Operation::Append { data, .. } => {
                let end = u64::from(size.unwrap_or(0)) + data.len() as u64;
                if end > OBJECT_MAX {
                    return Err(BlueError::invalid(format!(
                        "object {id} would have {end} bytes: {OBJECT_MAX} at most"
                    )));
                }
                grown(end)
            }
            Operation::Truncate { size: to, .. } => size.map(|_| Some(*to as u32)).ok_or_else(|| missing(id))?,
            Operation::Remove(_) => size.map(|_| None).ok_or_else(|| missing(id))?,
            Operation::RemoveAttribute { .. } | Operation::OmapRemove { .. } | Operation::OmapClear(_) => {
                Some(size.ok_or_else(|| missing(id))?)
            }
            Operation::Clone { .. } => source,
            Operation::CloneRange { offset, length, to_offset, .. } => {
                let length = u64::from(source.unwrap_or(0)).saturating_sub(*offset).min(*length);
                grown(if length == 0 { 0 } else { to_offset + length })
            }
        };
        sizes.insert(id.clone(), after);
    }
    Ok(())
}

/// Blocks that operations may take at most.
pub(crate) fn blocks(operations: &[Operation]) -> u64 {
    let of = |operation: &Operation| match operation {
        // Every shard's piece is padded, and compressed ones are cut once more.
        Operation::Write { data, .. } | Operation::Append { data, .. } => {
            let length = data.len() as u32;
            u64::from(length.div_ceil(BLOCK)) + 2 * by_shard(0..length).count() as u64 + u64::from(length / (128 << 10))
        }
        // Copies of deferred bytes are counted elsewhere.
        _ => 0,
    };
    operations.iter().map(of).sum()
}

/// Bytes that operations bring to the metadata, about; zero if all they do is to remove.
pub(crate) fn metadata(operations: &[Operation], small: u32) -> u64 {
    let of = |operation: &Operation| match operation {
        Operation::Remove(_) | Operation::OmapClear(_) | Operation::OmapRemove { .. } => 0,
        Operation::Truncate { .. } | Operation::RemoveAttribute { .. } => 0,
        Operation::Write { data, .. } | Operation::Append { data, .. } => {
            let length = data.len() as u64;
            8192 + length / 256 + if length < u64::from(small) { length } else { 0 }
        }
        Operation::SetAttribute { name, value, .. } => 4096 + (name.len() + value.len()) as u64,
        Operation::OmapSet { key, value, .. } => 4096 + (key.len() + value.len()) as u64,
        _ => 8192,
    };
    operations.iter().map(of).sum()
}
