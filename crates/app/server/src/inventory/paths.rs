//! Drives that are reached by more than one path: the kernel has a node for each, and one more if dm-multipath joins
//! them.
//!
//! Locks are a node's own: two programs with different paths to one drive would not notice each other. So no path is
//! picked automatically, and the node that joins them is the drive.

use std::path::Path;

use shingle_zoned_linux::Drive;

use crate::inventory::found::Found;
use crate::inventory::name::bare_wwn;

/// A possible block device of this machine.
pub trait Candidate {
    /// Its node, or its file.
    fn node(&self) -> &Path;
    /// The kernel's description of it; `None` for a file.
    fn drive(&self) -> Option<&Drive>;
}

impl Candidate for Drive {
    fn node(&self) -> &Path {
        &self.node
    }

    fn drive(&self) -> Option<&Drive> {
        Some(self)
    }
}

impl Candidate for Found {
    fn node(&self) -> &Path {
        &self.path
    }

    fn drive(&self) -> Option<&Drive> {
        self.drive.as_ref()
    }
}

/// True if two nodes lead to one drive, by its own description. The two halves of a drive with two actuators share a
/// serial number, and differ in their world-wide names.
fn is_same(one: &Drive, other: &Drive) -> bool {
    if let (Some(one), Some(other)) = (&one.wwn, &other.wwn) {
        return bare_wwn(one) == bare_wwn(other);
    }
    let identity = |drive: &Drive| (drive.serial.clone(), drive.model.clone(), drive.size_bytes);
    one.serial.is_some() && identity(one) == identity(other)
}

fn is_path_of(drive: &Drive, join: &Drive) -> bool {
    join.multipath && drive.holders.contains(&join.name)
}

/// The drive meant by a name that all of `candidates` have; `None` if there are none. The device that joins paths goes
/// before the paths.
///
/// # Errors
/// The list of them and advice, if there are several.
pub fn the_one<T: Candidate>(mut candidates: Vec<T>) -> Result<Option<T>, String> {
    let joins: Vec<Drive> = candidates.iter().filter_map(T::drive).filter(|drive| drive.multipath).cloned().collect();
    candidates.retain(|one| !one.drive().is_some_and(|drive| joins.iter().any(|join| is_path_of(drive, join))));
    if candidates.len() < 2 {
        return Ok(candidates.pop());
    }
    let nodes: Vec<_> = candidates.iter().map(|one| one.node().display().to_string()).collect();
    let nodes = nodes.join(", ");
    let one_drive = candidates.windows(2).all(
        |pair| matches!(pair, [one, two] if one.drive().zip(two.drive()).is_some_and(|(one, two)| is_same(one, two))),
    );
    Err(if one_drive {
        format!(
            "{nodes} are paths to one drive: have multipathd join them, or name one of them by its node everywhere \
             (/dev/disk/by-path has nodes that stay)"
        )
    } else {
        format!("{nodes} are all called so: name the right one by another of its names")
    })
}

/// The nodes in `all` that are the same drive as `drive`, itself left out.
pub fn same_drive<'a>(drive: &Drive, all: &'a [Drive]) -> Vec<&'a Drive> {
    all.iter().filter(|other| other.number != drive.number && is_same(drive, other)).collect()
}

/// If `drive` is one of several nodes in `all` of one drive, its relation to the others, in words.
pub fn relation(drive: &Drive, all: &[Drive]) -> Option<String> {
    let others = same_drive(drive, all);
    let nodes = |drives: &[&Drive]| {
        let nodes: Vec<_> = drives.iter().map(|drive| drive.node.display().to_string()).collect();
        nodes.join(", ")
    };
    if others.is_empty() {
        None
    } else if drive.multipath {
        let paths: Vec<_> = others.into_iter().filter(|other| is_path_of(other, drive)).collect();
        Some(format!("joins the paths {}", nodes(&paths)))
    } else if let Some(join) = others.iter().find(|other| is_path_of(drive, other)) {
        Some(format!("a path to {}", join.node.display()))
    } else {
        Some(format!("the same drive as {}", nodes(&others)))
    }
}
