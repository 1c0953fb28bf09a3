//! Finding an array on drives: which of them are its own, what its newest superblock says, and where the next one goes.
//!
//! # Invariants
//! - AS-GATHER-1: a drive whose superblocks cannot be read is taken for the array's only if a zone of it says so: the
//!   head of a set that the newest superblock has there. Its superblock zones are begun anew. Any other counts as
//!   missing, never as empty.
//! - AS-GATHER-2: one table of sets is in memory, however many drives there are: it may have a hundred MiB.
//! - AS-GATHER-3: a drive that shows a superblock of which something cannot be read, newer than the newest that can be,
//!   does not count as one that was read.
//! - AS-GATHER-4: the newest superblock is found for certain: fewer drives were not read than have it, or a drive that
//!   did not take it as it was away; else nothing is written. The number that may be dead then depends on the zones
//!   that each set lacks (AS-EVICT-1).

use std::time::Duration;

use futures_util::future::join_all;
use shingle_base::{Blocks, StoreId};
use shingle_record::{Expect, Header};
use shingle_runtime::Runtime;
use shingle_zoned::ZoneInfo;

use crate::drives::Drives;
use crate::drives::asking::Reports;
use crate::drives::asking::{at, report_all};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{DriveEntry, DriveState, Member, SET_HEAD, SetHead, Superblock, VERSION_ENDS};
use crate::given::ArrayDrive;
use crate::superblocks::{Superblocks, Tip, Tips, load, superblock_zones, tips_of, unread_most};
use crate::types::{DriveId, SetId};
use crate::watch::{Watches, within};

/// Zones of a drive that are asked whose it is.
const HEADS: usize = 16;

/// A drive of the array.
pub(crate) struct SeenDrive {
    /// Its place among those that were given.
    pub(crate) given: usize,
    /// Its own id.
    pub(crate) drive_id: u64,
    /// Superblock zone with its newest superblock; `None` if neither has one that can be read.
    pub(crate) newest: Option<usize>,
    /// It may have a superblock that is newer than any that was read: one of which something cannot be read.
    pub(crate) hidden: bool,
    pub(crate) zones: Vec<ZoneInfo>,
}

/// The array as its drives describe it.
pub(crate) struct Seen {
    pub(crate) superblock: Superblock,
    pub(crate) drives: Vec<SeenDrive>,
}

/// An array's parts, before it is opened.
pub(crate) struct Gathered {
    pub(crate) superblock: Superblock,
    pub(crate) drives: Drives,
    pub(crate) superblocks: Superblocks,
    pub(crate) reports: Reports,
    /// Drives in use of which the newest superblock was not read. (AS-GATHER-4)
    pub(crate) unread: usize,
}

/// Answer of a drive.
struct Answer {
    given: usize,
    zones: Vec<ZoneInfo>,
    tips: Tips,
}

/// Reads every drive's newest superblock, and of the newest of all what it builds on. A drive that does not answer
/// counts as one that was not given.
///
/// # Errors
/// `Format` if no drive has a superblock, or one of another version; `Invalid` if they belong to different arrays, or
/// one belongs to none while none is missing.
pub(crate) async fn look_at(drives: &[ArrayDrive]) -> Result<Seen> {
    let mut answers = Vec::new();
    let mut silent = Vec::new();
    // All at once: one after the other, the drives of a large array would take minutes.
    let asked = join_all(drives.iter().map(|drive| answer_of(drive, false))).await;
    for (given, answer) in asked.into_iter().enumerate() {
        match answer {
            Ok((zones, tips)) if tips.found.is_empty() => silent.push((given, zones)),
            Ok((zones, tips)) => answers.push(Answer { given, zones, tips }),
            Err(error) if error.kind == ErrorKind::Device => {
                tracing::warn!(drive = drives[given].name, %error, "a drive does not answer; it counts as missing");
            }
            Err(error) => return Err(error),
        }
    }
    let array = |answer: &Answer| answer.tips.found.last().map(|tip| tip.array);
    if let Some(other) = answers.iter().find(|answer| array(answer) != answers.first().and_then(array)) {
        let message = format!("{} belongs to another array than the other drives", drives[other.given].name);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    let newest = newest_of(drives, &mut answers).await?;
    let seen = answers.into_iter().filter_map(|Answer { given, zones, tips }| {
        let tip = tips.found.last()?;
        let hidden = tips.hidden || newest.as_ref().is_some_and(|newest| newest.generation < tip.generation);
        Some(SeenDrive { given, drive_id: tip.drive_id, newest: Some(tip.which), hidden, zones })
    });
    let mut seen: Vec<SeenDrive> = seen.collect();
    let Some(superblock) = newest else {
        return Err(match silent.first() {
            Some((given, _)) => {
                let name = &drives[*given].name;
                let message = format!("{name} holds no array that can be read: `shingle array format` makes a new one");
                Error::new(ErrorKind::Format, message)
            }
            None if drives.is_empty() => Error::new(ErrorKind::Invalid, "no drives were given"),
            None => Error::new(ErrorKind::Device, "none of the array's drives answers"),
        });
    };
    for (given, zones) in silent {
        let drive = &drives[given];
        let found = |entry: &DriveEntry| seen.iter().any(|seen: &SeenDrive| seen.drive_id == entry.id);
        let missing = superblock.drives.iter().enumerate().filter(|(_, entry)| !found(entry));
        let missing: Vec<_> = missing.filter(|(_, entry)| entry.state != DriveState::Removed).collect();
        if missing.is_empty() {
            let message = format!(
                "{} is no drive of this array: take it out of its list of drives, or add it with `shingle array add`",
                drive.name
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let mut own = None;
        for (number, entry) in missing {
            if own.is_none() && is_it(drive, &zones, &superblock, DriveId(number as u8), entry).await {
                own = Some(entry.id);
            }
        }
        match own {
            Some(drive_id) => {
                tracing::warn!(drive = drive.name, "a drive's superblocks cannot be read; they are written anew");
                seen.push(SeenDrive { given, drive_id, newest: None, hidden: false, zones });
            }
            None => {
                tracing::warn!(drive = drive.name, "nothing on a drive says that it is of this array; it is left alone")
            }
        }
    }
    Ok(Seen { superblock, drives: seen })
}

/// Contents of the zones of a drive, and its superblocks; `all` of them, or the newest.
async fn answer_of(drive: &ArrayDrive, all: bool) -> Result<(Vec<ZoneInfo>, Tips)> {
    let zones = report_all(&drive.dev).await.map_err(|error| Error::device(&drive.name, error))?;
    let tips = superblocks_of(drive, &zones, all).await?;
    Ok((zones, tips))
}

async fn superblocks_of(drive: &ArrayDrive, zones: &[ZoneInfo], all: bool) -> Result<Tips> {
    let [first, second] = superblock_zones(&drive.dev).map(|zone| zones.get(zone.0 as usize));
    let (Some(first), Some(second)) = (first, second) else { return Ok(Tips::default()) };
    tips_of(&drive.dev, [first, second], all).await
}

/// A drive's place among those that were given, a superblock on it, and whether older ones were looked for there.
type Left = (usize, Tip, bool);

/// The newest superblock of all drives of which all that it builds on can be read: of one drive after the other, the
/// newest first.
async fn newest_of(drives: &[ArrayDrive], answers: &mut Vec<Answer>) -> Result<Option<Superblock>> {
    let mut left: Vec<Left> =
        answers.iter().filter_map(|answer| Some((answer.given, *answer.tips.found.last()?, false))).collect();
    loop {
        // Of as new ones the first drive's.
        let Some(at) = (0..left.len()).rev().max_by_key(|&at| left[at].1.generation) else { return Ok(None) };
        let (given, tip, looked_behind) = left.swap_remove(at);
        let drive = &drives[given];
        let leave_out = |error: Error, answers: &mut Vec<Answer>, left: &mut Vec<Left>| {
            if error.kind != ErrorKind::Device {
                return Err(error);
            }
            tracing::warn!(drive = drive.name, %error, "a drive does not answer; it counts as missing");
            answers.retain(|answer| answer.given != given);
            left.retain(|(other, ..)| *other != given);
            Ok(())
        };
        match load(&drive.dev, &tip).await {
            Ok(Some(superblock)) => return Ok(Some(superblock)),
            Ok(None) => {
                tracing::warn!(
                    drive = drive.name,
                    "what a superblock builds on cannot be read; other drives are asked"
                );
                if !looked_behind && let Some(answer) = answers.iter().find(|answer| answer.given == given) {
                    match superblocks_of(drive, &answer.zones, true).await {
                        Ok(Tips { found, .. }) => {
                            let older = found.into_iter().filter(|older| older.generation < tip.generation);
                            left.extend(older.map(|older| (given, older, true)));
                        }
                        Err(error) => leave_out(error, answers, &mut left)?,
                    }
                }
            }
            Err(error) => leave_out(error, answers, &mut left)?,
        }
    }
}

/// The array that the newest superblock on a drive is of.
pub(crate) async fn array_on(drive: &ArrayDrive) -> Result<Option<StoreId>> {
    let (_, tips) = answer_of(drive, false).await?;
    Ok(tips.found.last().map(|tip| tip.array))
}

/// Looks for a zone that says that the drive is that one. (AS-GATHER-1)
async fn is_it(
    drive: &ArrayDrive,
    zones: &[ZoneInfo],
    superblock: &Superblock,
    id: DriveId,
    entry: &DriveEntry,
) -> bool {
    let geometry = drive.dev.geometry();
    if (geometry.zone_count, geometry.zone_capacity.0) != (entry.zones, u64::from(entry.zone_capacity)) {
        return false;
    }
    let sets =
        superblock.sets.iter().enumerate().filter_map(|(number, set)| Some((SetId(number as u32), set.as_ref()?)));
    let own = sets.flat_map(|(set, entry)| entry.members.iter().map(move |member| (set, *member)));
    let own = own.filter(|(_, member)| member.drive == id);
    let written = |member: &Member| zones.get(member.zone.0 as usize).is_some_and(|zone| zone.written.0 > 0);
    for (set, member) in own.filter(|(_, member)| written(member)).take(HEADS) {
        let expect = Expect { store: Some(superblock.array), epoch: None, at: Some((member.zone, 0)) };
        let Ok(block) = drive.dev.read(at(&drive.dev, member.zone, 0), Blocks(1)).await else { continue };
        let Ok(header) = Header::decode(&block, &expect) else { continue };
        let head = SetHead::decode(&header.info).filter(|_| header.kind == SET_HEAD);
        // The number alone says it only where no other drive ever had it.
        let by_number = |head: &SetHead| head.drive_id == 0 && !entry.reused && head.drive == id;
        if head.is_some_and(|head| head.set == set && (head.drive_id == entry.id || by_number(&head))) {
            return true;
        }
    }
    false
}

/// Puts drives in their places.
///
/// # Errors
/// As [`look_at`].
pub(crate) async fn gather(rt: &Runtime, drives: &[ArrayDrive], patience: Option<Duration>) -> Result<Gathered> {
    let Seen { superblock, drives: mut seen } = look_at(&within(rt, drives, patience)).await?;
    if superblock.version < VERSION_ENDS && superblock.clean.is_none() && superblock.opened > 0 {
        let message = format!(
            "the array has format version {} and was not closed in order: open and close it with the version of Shingle that \
             wrote it",
            superblock.version
        );
        return Err(Error::new(ErrorKind::Format, message));
    }
    let table = Drives::watched_by(Watches::new(rt, patience));
    let superblocks = Superblocks::default();
    let mut reports = Reports::new();
    let mut unread = 0;
    for (number, entry) in superblock.drives.iter().enumerate() {
        let at = seen.iter().position(|seen| seen.drive_id == entry.id);
        let newest = at.and_then(|at| seen[at].newest);
        let testifies = newest.is_some() && at.is_some_and(|at| !seen[at].hidden);
        unread += usize::from(entry.state == DriveState::Present && !testifies);
        let Some(at) = at else {
            table.push(entry.clone(), None);
            continue;
        };
        let SeenDrive { given, newest, zones, .. } = seen.swap_remove(at);
        let (id, drive) = (DriveId(number as u8), &drives[given]);
        table.push(DriveEntry { name: drive.name.clone(), ..entry.clone() }, Some(drive.dev.clone()));
        match (newest, entry.superblock_zones.map(|zone| zones.get(zone.0 as usize))) {
            (Some(newest), [Some(first), Some(second)]) => superblocks.place(id, [first, second], newest),
            _ => superblocks.place_anew(id),
        }
        reports.insert(id, zones);
    }
    for stranger in seen {
        unread += usize::from(stranger.hidden);
        // Its number may be another drive's by now.
        let name = &drives[stranger.given].name;
        tracing::warn!(drive = name, "a drive was taken out of this array; it is left alone, and can be added anew");
    }
    Ok(Gathered { superblock, drives: table, superblocks, reports, unread })
}

impl Gathered {
    /// Fails unless the newest superblock is among the read ones for certain.
    ///
    /// # Errors
    /// `Device`, in words.
    pub(crate) fn is_newest(&self) -> Result<()> {
        let most = unread_most(self.superblock.code, self.superblock.copies);
        if self.unread <= most {
            return Ok(());
        }
        let message = format!(
            "{} drives of the array are missing, or their superblocks cannot be read; without more than {most} of them its newest \
             state may not be known. Nothing was changed: what can be read can be read without them",
            self.unread
        );
        Err(Error::new(ErrorKind::Device, message))
    }
}
