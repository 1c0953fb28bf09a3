//! Looking at an array without opening it: what its newest superblock says. Writes nothing.

use shingle_base::{StoreId, ZoneId};
use shingle_erasure::Code;

use crate::error::Result;
use crate::format::{DriveEntry, DriveState, SetEntry, Superblock};
use crate::given::ArrayDrive;
use crate::recovery::gather::{Seen, array_on, look_at};
use crate::store::ArrayStore;
use crate::types::{DriveId, SetId, SetState};

/// Contents of the newest superblock of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The array's identity.
    pub array: StoreId,
    /// Rises with every superblock.
    pub generation: u64,
    /// Data and parity fragments.
    pub code: Code,
    /// Bytes of data in a full segment.
    pub segment_length: u32,
    /// The array was closed in order.
    pub clean: bool,
    /// Objects may wait in the array's buffer.
    pub buffered: bool,
    /// Bytes of the index's snapshot.
    pub snapshot_bytes: u64,
    /// The drives, by number.
    pub drives: Vec<DriveInspection>,
    /// The zone sets, by number.
    pub sets: Vec<SetInspection>,
}

/// A drive of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveInspection {
    /// Its number.
    pub id: DriveId,
    /// Owner's name of it when the superblock was written.
    pub name: String,
    /// Its place among the drives that were given; `None` if it is not one of them.
    pub given: Option<usize>,
    /// The array uses it: not if it failed, was away while the array was open, or was taken out.
    pub in_use: bool,
    /// It was taken out for good.
    pub removed: bool,
    /// Its zones.
    pub zones: u32,
    /// Blocks of a zone.
    pub zone_capacity: u32,
}

/// A zone set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetInspection {
    /// Its number.
    pub id: SetId,
    /// Its state.
    pub state: SetState,
    /// Its zones.
    pub members: Vec<(DriveId, ZoneId)>,
    /// Bytes of live data.
    pub live: u64,
    /// Blocks that the snapshot of the index covers.
    pub covered: u32,
}

/// Drives that an array uses and that are not there: whoever opens it to write gives them up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Owner's names of them.
    pub names: Vec<String>,
    /// Drives that were out of use before.
    pub out_of_use: usize,
    /// Number of drives that the array can do without in all.
    pub parity: usize,
}

impl Absent {
    /// In words, if the array cannot do without so many.
    pub fn too_many(&self) -> Option<String> {
        let lost = self.names.len() + self.out_of_use;
        let before = match self.out_of_use {
            0 => String::new(),
            out => format!(" ({out} of them out of use already)"),
        };
        let (parity, names) = (self.parity, self.names.join(", "));
        let words =
            format!("{lost} of the array's drives are missing{before}, and it can do without {parity}: {names}");
        (lost > parity).then_some(words)
    }
}

impl Inspection {
    /// The drives that it uses and that were not given, if there are any.
    pub fn absent(&self) -> Option<Absent> {
        let absent = self.drives.iter().filter(|drive| drive.in_use && drive.given.is_none());
        let names: Vec<String> = absent.map(|drive| drive.name.clone()).collect();
        let out_of_use = self.drives.iter().filter(|drive| !drive.removed && !drive.in_use).count();
        (!names.is_empty()).then(|| Absent { names, out_of_use, parity: self.code.parity() })
    }
}

/// The array that a drive belongs to, if it belongs to one.
///
/// # Errors
/// `Device`; `Format` if another version of Shingle made it.
pub async fn array_of(drive: &ArrayDrive) -> Result<Option<StoreId>> {
    array_on(drive).await
}

/// Reads the newest superblock on `drives`. Works with too few drives to open the array, too.
///
/// # Errors
/// `Format` if no drive has one; `Invalid` if they belong to different arrays; `Device`.
pub async fn inspect(drives: &[ArrayDrive]) -> Result<Inspection> {
    let Seen { superblock, drives: seen } = look_at(drives).await?;
    let mut ids = vec![None; drives.len()];
    for drive in seen {
        ids[drive.given] = Some(drive.drive_id);
    }
    Ok(told(&superblock, &ids))
}

impl ArrayStore {
    /// The array as it is now that it is open: without its sets, and not closed in order.
    ///
    /// # Errors
    /// `Stopped`.
    pub fn inspection(&self) -> Result<Inspection> {
        let engine = self.engine();
        engine.running()?;
        let given = engine.drives.given();
        let entries = engine.drives.entries();
        let drives = entries.iter().enumerate().zip(given).map(|((number, entry), given)| {
            let mut drive = drive_of(number, entry, given.then_some(number));
            drive.in_use &= !given || engine.drives.usable(drive.id).is_some();
            drive
        });
        Ok(Inspection {
            array: engine.array,
            generation: engine.superblock.generation.get(),
            code: engine.code,
            segment_length: engine.segment_length,
            clean: false,
            buffered: engine.buffering.buffer.borrow().is_some(),
            snapshot_bytes: engine.snapshots.newest.borrow().pieces.iter().map(|piece| u64::from(piece.length)).sum(),
            drives: drives.collect(),
            sets: Vec::new(),
        })
    }
}

fn drive_of(number: usize, entry: &DriveEntry, given: Option<usize>) -> DriveInspection {
    DriveInspection {
        id: DriveId(number as u8),
        name: entry.name.clone(),
        given,
        in_use: entry.state == DriveState::Present,
        removed: entry.state == DriveState::Removed,
        zones: entry.zones,
        zone_capacity: entry.zone_capacity,
    }
}

fn told(superblock: &Superblock, given: &[Option<u64>]) -> Inspection {
    let drive = |(number, entry): (usize, &DriveEntry)| {
        drive_of(number, entry, given.iter().position(|id| *id == Some(entry.id)))
    };
    let set = |(number, entry): (usize, &Option<SetEntry>)| {
        let entry = entry.as_ref()?;
        Some(SetInspection {
            id: SetId(number as u32),
            state: entry.state,
            members: entry.members.iter().map(|member| (member.drive, member.zone)).collect(),
            live: entry.live,
            covered: entry.covered,
        })
    };
    Inspection {
        array: superblock.array,
        generation: superblock.generation,
        code: superblock.code,
        segment_length: superblock.segment_length,
        clean: superblock.clean.is_some(),
        buffered: superblock.buffer.id != 0,
        snapshot_bytes: superblock.snapshot.iter().map(|piece| u64::from(piece.length)).sum(),
        drives: superblock.drives.iter().enumerate().map(drive).collect(),
        sets: superblock.sets.iter().enumerate().filter_map(set).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Drives by `(given, in use, removed)`.
    fn array(drives: &[(bool, bool, bool)]) -> Inspection {
        let drive = |(number, &(given, in_use, removed)): (usize, &(bool, bool, bool))| DriveInspection {
            id: DriveId(number as u8),
            name: format!("d{number}"),
            given: given.then_some(number),
            in_use,
            removed,
            zones: 1,
            zone_capacity: 1,
        };
        Inspection {
            array: StoreId(1),
            generation: 1,
            code: Code::new(2, 1).unwrap(),
            segment_length: 1,
            clean: true,
            buffered: false,
            snapshot_bytes: 0,
            drives: drives.iter().enumerate().map(drive).collect(),
            sets: Vec::new(),
        }
    }

    #[test]
    fn drives_that_were_given_up_count_as_lost_and_those_taken_out_do_not() {
        let (there, away) = ((true, true, false), (false, true, false));
        let (out, removed) = ((false, false, false), (false, false, true));
        assert_eq!(array(&[there, there, there, removed]).absent(), None);
        assert_eq!(array(&[there, there, out]).absent(), None, "nobody counts on it");
        let one = array(&[there, away, there, removed]).absent().unwrap();
        assert_eq!((&*one.names, one.too_many()), (&["d1".to_owned()][..], None));
        let two = array(&[there, away, away]).absent().unwrap().too_many().unwrap();
        assert_eq!(two, "2 of the array's drives are missing, and it can do without 1: d1, d2");
        let two = array(&[out, there, away]).absent().unwrap().too_many().unwrap();
        assert!(
            two.starts_with("2 of") && two.contains("(1 of them out of use already)") && two.ends_with(": d2"),
            "{two}"
        );
    }
}
