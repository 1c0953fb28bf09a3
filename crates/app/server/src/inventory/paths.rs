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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use shingle_zoned_linux::ZonedModel;

    use super::*;

    fn drive(name: &str, serial: &str, wwn: &str) -> Drive {
        Drive {
            name: name.to_owned(),
            node: PathBuf::from("/dev").join(name),
            by_id: Vec::new(),
            number: (8, name.len() as u32),
            partition: None,
            model: Some("ZL".to_owned()),
            vendor: None,
            serial: Some(serial.to_owned()),
            wwn: Some(wwn.to_owned()),
            uuid: None,
            zoned: ZonedModel::HostManaged,
            size_bytes: 1 << 40,
            logical_block_bytes: 4096,
            physical_block_bytes: 4096,
            zone_size_bytes: None,
            zone_count: None,
            max_open_zones: None,
            max_active_zones: None,
            zone_append_max_bytes: None,
            transfer_max_bytes: None,
            segments_max: None,
            scheduler: None,
            schedulers: Vec::new(),
            write_cache: None,
            nr_requests: None,
            rotational: true,
            removable: false,
            read_only: false,
            partitions: Vec::new(),
            holders: Vec::new(),
            multipath: false,
            mounts: Vec::new(),
        }
    }

    /// SV-INV-2.
    #[test]
    fn a_name_that_leads_to_two_nodes_leads_to_none_unless_something_joins_them() {
        let found = |drives: &[&Drive]| the_one(drives.iter().map(|drive| (*drive).clone()).collect::<Vec<_>>());
        let (one, other) = (drive("sda", "S1", "naa.1"), drive("sdb", "S1", "naa.2"));
        assert_eq!((found(&[]), found(&[&one])), (Ok(None), Ok(Some(one.clone()))));
        assert!(found(&[&one, &other]).unwrap_err().contains("all called so"));
        let mut path = Drive { wwn: one.wwn.clone(), ..other };
        assert!(found(&[&one, &path]).unwrap_err().contains("paths to one drive"));
        let join = Drive { multipath: true, ..drive("dm-0", "S1", "naa.1") };
        path.holders = vec!["dm-0".to_owned()];
        let mut first = one;
        assert!(found(&[&first, &path, &join]).is_err(), "one path is none of the join's");
        first.holders = vec!["dm-0".to_owned()];
        assert_eq!(found(&[&first, &path, &join]), Ok(Some(join)));
    }
}
